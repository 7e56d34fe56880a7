//! [`Confinement`]: drops rights of this process, in two steps, before it communicates with untrusted hosts.
//!
//! [`Confinement::begin`], while the process has one thread, changes the user, and drops all capabilities
//! that no service needs, the right to gain others (`no_new_privs`), core dumps, and access to files (Landlock): reading, too, except
//! of those in [`READABLE`].
//! Threads started later inherit these restrictions. [`Confinement::complete`], called once every socket is
//! bound, drops system calls (seccomp) for all threads at once.

#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")),
    path = "no_calls.rs"
)]
mod calls;

pub use crate::settings::{CallSet, Confinement};

use crate::android;
use crate::privilege::Capability;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use nix::errno::Errno;
use nix::unistd::{self, Gid, Uid, User};
use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Files and folders of the system that a confined process may read: names of hosts and services, the time zone, authorities of
/// certificates, libraries that the C library loads when it looks up names, and the state of clocks, processors and interfaces.
/// Those that do not exist are left out. `/etc/passwd` is not among them.
pub const READABLE: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/container",
    "/run/systemd/resolve",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/interrupts",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure",
    "/proc/softirqs",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/net",
    "/proc/uptime",
    "/sys/class",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/hypervisor",
    "/sys/kernel/realtime",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
];

/// File that every user can read, but a confined process cannot.
const FORBIDDEN: &str = "/etc/passwd";

/// True once this process is confined.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// True if this process is confined and therefore cannot run other programs.
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Turns off core dumps of this process, which would contain its keys, and prevents other processes of the same user
/// from reading its memory. Returns false if the system does not permit it.
pub fn forbid_core_dumps() -> bool {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let limited = setrlimit(Resource::RLIMIT_CORE, 0, 0).is_ok()
        || getrlimit(Resource::RLIMIT_CORE).is_ok_and(|(soft, _)| soft == 0);
    nix::sys::prctl::set_dumpable(false).is_ok() && limited
}

/// Reason why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The user does not exist.
    #[error("there is no user {0} on this host")]
    NoUser(String),
    /// `--user` was given, but the process was not started as root.
    #[error("becoming user {0} needs root: start as root, or as that user")]
    NotRoot(String),
    /// The user cannot write to a folder.
    #[error("user {user} cannot write to {}: give the folder to that user, or choose another user", .folder.display())]
    Folder {
        /// Name of the user.
        user: String,
        /// Path of the folder.
        folder: PathBuf,
    },
    /// The user cannot reach a folder, because a folder above it does not permit it.
    #[error("user {user} cannot pass through {}, which contains {}: permit it (chmod o+x), or choose another folder", .blocked.display(), .folder.display())]
    Blocked {
        /// Name of the user.
        user: String,
        /// Path of the folder.
        folder: PathBuf,
        /// Path of the folder that does not permit it.
        blocked: PathBuf,
    },
    /// A component of the folder's path is a symbolic link to a folder elsewhere, which a confined process cannot
    /// reach.
    #[error("{} is a symbolic link to a folder elsewhere, which a confined process cannot reach: mount that folder there (mount --bind)", .0.display())]
    Link(PathBuf),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// Description of the failed operation.
        doing: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> ConfineError {
    move |source| ConfineError::System { doing, source: source.into() }
}

/// A process that has changed its user and dropped its capabilities and its access to files, but not yet its system
/// calls.
#[derive(Debug)]
#[must_use = "its system calls are not filtered yet"]
pub struct Confining {
    user: String,
    /// True if packet sockets may be opened.
    raw: bool,
    calls: CallSet,
    without_dumps: bool,
    /// Names of the capabilities that the process still has.
    left: Vec<String>,
    files: Files,
}

/// Restriction of file access, which depends on the kernel's support for Landlock.
#[derive(Debug)]
enum Files {
    /// Only these folders can be written to, and only these paths can be read in addition to them and [`READABLE`]. `whole` is false if the
    /// kernel does not support all of these rights.
    Confined { written: Vec<PathBuf>, read: Vec<PathBuf>, whole: bool },
    /// Files are not restricted: the system does not have Landlock, or does not permit it.
    Free,
}

/// Rights that a process has dropped.
#[derive(Debug)]
pub struct Confined {
    before: Confining,
    /// Number of system calls allowed; `None` if the system has no filters, or does not permit them.
    calls: Option<usize>,
}

impl Confinement {
    /// Drops all rights, but no system calls yet. Must be called while the process has one thread; other threads would
    /// retain their rights.
    ///
    /// # Errors
    /// [`ConfineError`]; some rights may already have been dropped. A mechanism that the system lacks or does
    /// not permit is not an error; [`Confined`] reports it.
    pub fn begin(&self) -> Result<Confining, ConfineError> {
        self.make_folders()?;
        let kept: Vec<Capability> = self.capabilities.iter().copied().filter(|c| c.is_held()).collect();
        // Reducing the bounding set requires a capability of its own. With no_new_privs, the set has no
        // effect, so errors are ignored.
        for capability in
            caps::all().into_iter().filter(|c| !kept.iter().any(|k| k.to_string() == c.to_string()))
        {
            let _ = caps::drop(None, caps::CapSet::Bounding, capability);
        }
        let user = self.become_user()?;
        // After the change of user, which clears the effective set.
        limit_capabilities(&kept);
        // Landlock and seccomp require this of processes without CAP_SYS_ADMIN.
        nix::sys::prctl::set_no_new_privs().map_err(failed("setting no_new_privs"))?;
        let left = caps::read(None, caps::CapSet::Permitted).unwrap_or_default();
        let mut left: Vec<String> = left.iter().map(ToString::to_string).collect();
        left.sort_unstable();
        // After the change of user, because the kernel resets the permission to dump at that change.
        let without_dumps = forbid_core_dumps();
        let raw = kept.contains(&Capability::NetRaw);
        if let Some(folder) = self.folders.first() {
            // Temporary files of SQLite, too, are written only there.
            let of_archive = folder.join("tmp");
            crate::sys::use_temporary_folder(if of_archive.is_dir() { &of_archive } else { folder });
        }
        let files = self.close_files();
        if matches!(files, Files::Confined { .. })
            && let Some(link) = self.folders.iter().find_map(|folder| link_elsewhere(folder))
        {
            return Err(ConfineError::Link(link));
        }
        CONFINED.store(true, Ordering::Relaxed);
        Ok(Confining { user, raw, calls: self.calls, without_dumps, left, files })
    }

    /// Creates the folders that do not exist.
    fn make_folders(&self) -> Result<(), ConfineError> {
        for folder in self.folders.iter().filter(|folder| !folder.exists()) {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder);
            made.map_err(failed("creating the folder to write to"))?;
            if let Some(name) = self.user.as_ref().filter(|_| unistd::geteuid().is_root()) {
                let user = find(name)?;
                unistd::chown(folder, Some(user.uid), Some(user.gid))
                    .map_err(failed("giving the folder to the user"))?;
            }
        }
        Ok(())
    }

    /// Changes the user if this process runs as root; returns the name of the resulting user.
    fn become_user(&self) -> Result<String, ConfineError> {
        let own = unistd::geteuid();
        if !own.is_root() {
            return match &self.user {
                Some(name) if find(name)?.uid != own => Err(ConfineError::NotRoot(name.clone())),
                _ => Ok(name_of(own)),
            };
        }
        let (name, uid, gid) = match (&self.user, self.folders.first()) {
            (Some(name), _) => find(name).map(|user| (user.name, user.uid, user.gid))?,
            (None, Some(folder)) => {
                let owner = folder.metadata().map_err(failed("reading the owner of the folder"))?;
                let (uid, gid) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
                (name_of(uid), uid, gid)
            }
            (None, None) => match User::from_name("nobody").ok().flatten() {
                Some(user) => (user.name, user.uid, user.gid),
                // The kernel's user for unknown users (`overflowuid`), which works even if no user is called
                // `nobody`.
                None => ("65534".to_owned(), Uid::from_raw(65534), Gid::from_raw(65534)),
            },
        };
        // Changing the user would clear the retained set; `limit_capabilities` reduces it afterwards.
        caps::securebits::set_keepcaps(true)
            .map_err(|e| io::Error::other(e.to_string()))
            .map_err(failed("keeping capabilities"))?;
        // Groups first, because the process may not change them after it has changed the user.
        let changed = unistd::setgroups(&[gid])
            .and_then(|()| unistd::setresgid(gid, gid, gid))
            .and_then(|()| unistd::setresuid(uid, uid, uid));
        match changed {
            Ok(()) => {}
            // A container may lack these users or the capability to change to them; the process then stays
            // root.
            Err(_) if self.user.is_none() => return Ok(name_of(unistd::geteuid())),
            Err(e) => return Err(failed("becoming another user")(e)),
        }
        for folder in &self.folders {
            let access = unistd::access(folder, unistd::AccessFlags::W_OK);
            // On a read-only file system nobody can write, but archives can be shown.
            if access.is_err_and(|why| why != Errno::EROFS) {
                return Err(match blocked_above(folder) {
                    Some(blocked) => ConfineError::Blocked { user: name, folder: folder.clone(), blocked },
                    None => ConfineError::Folder { user: name, folder: folder.clone() },
                });
            }
        }
        Ok(name)
    }

    /// Forbids writing outside the folders, reading outside them and the readable paths, and running programs.
    fn close_files(&self) -> Files {
        let reads = AccessFs::ReadFile | AccessFs::ReadDir;
        let closed = || -> Result<RulesetStatus, Box<dyn std::error::Error>> {
            let ruleset = Ruleset::default()
                // Kernels that support only some of these rights enforce those.
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(ABI::V5))?;
            let allow = |rules: RulesetCreated, path: &Path, rights| {
                Ok::<_, Box<dyn std::error::Error>>(
                    rules.add_rule(PathBeneath::new(PathFd::new(path)?, rights))?,
                )
            };
            let inside = reads | AccessFs::from_write(ABI::V5);
            let mut rules = ruleset.create()?;
            for folder in &self.folders {
                rules = allow(rules, folder, inside)?;
            }
            // Paths that do not exist, or that this user cannot reach, cannot be read anyway.
            let system = READABLE.iter().map(Path::new);
            for path in system.chain(self.readable.iter().map(PathBuf::as_path)) {
                if let Ok(about) = path.metadata()
                    && let Ok(opened) = PathFd::new(path)
                {
                    let rights = if about.is_dir() { reads } else { AccessFs::ReadFile.into() };
                    rules = rules.add_rule(PathBeneath::new(opened, rights))?;
                }
            }
            rules = allow(rules, Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile)?;
            Ok(rules.restrict_self()?.ruleset)
        };
        let (written, read) = (self.folders.clone(), self.readable.clone());
        let allowed = written.iter().chain(&read).any(|path| Path::new(FORBIDDEN).starts_with(path));
        if android::is_here() {
            return Files::Free;
        }
        match closed() {
            Ok(RulesetStatus::NotEnforced) | Err(_) => Files::Free,
            // Tests the effect, because the kernel's report alone is not sufficient.
            Ok(_) if !allowed && std::fs::File::open(FORBIDDEN).is_ok() => Files::Free,
            Ok(status) => Files::Confined { written, read, whole: status == RulesetStatus::FullyEnforced },
        }
    }
}

impl Confining {
    /// Drops system calls in all threads of the process.
    ///
    /// # Errors
    /// [`ConfineError::System`] if the filter cannot be installed.
    pub fn complete(self) -> Result<Confined, ConfineError> {
        let calls = match android::is_here() {
            true => None,
            false => calls::filter(self.raw, self.calls).map_err(failed("filtering system calls"))?,
        };
        Ok(Confined { before: self, calls })
    }
}

impl Confined {
    /// Returns the protections that the system lacks or does not permit.
    pub fn missing(&self) -> Vec<&'static str> {
        let list = [
            (self.calls.is_none(), "seccomp"),
            (matches!(self.before.files, Files::Free), "Landlock"),
            (matches!(self.before.files, Files::Confined { whole: false, .. }), "some rules of Landlock"),
            (!self.before.without_dumps, "a limit of core dumps"),
        ];
        list.into_iter().filter(|(missing, _)| *missing).map(|(_, name)| name).collect()
    }

    /// Returns the lines that report the confinement of the command `name`.
    pub fn lines(&self, name: &str) -> String {
        let mut lines = format!("{name}: confined: {self}\n");
        if !self.missing().is_empty() {
            let missing = self.missing().join(", ");
            lines +=
                &format!("{name}: not confined by {missing}: this system lacks it or does not permit it\n");
        }
        lines
    }
}

impl fmt::Display for Confined {
    /// Formats the protections that are in force, for example
    /// `user nobody, no capabilities, no_new_privs, seccomp (120 calls), Landlock (writes no file, reads system files), no core dumps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Confining { user, left, files, without_dumps, .. } = &self.before;
        let left = if left.is_empty() { "no capabilities".to_owned() } else { left.join(" ") };
        write!(f, "user {user}, {left}, no_new_privs")?;
        if let Some(calls) = self.calls {
            write!(f, ", seccomp ({calls} calls)")?;
        }
        if let Files::Confined { written, read, .. } = files {
            let list = |paths: &[PathBuf]| {
                paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            };
            let written = if written.is_empty() {
                "writes no file".to_owned()
            } else {
                format!("writes to {}", list(written))
            };
            let read = if read.is_empty() { String::new() } else { format!(" and {}", list(read)) };
            write!(f, ", Landlock ({written}, reads system files{read})")?;
        }
        if *without_dumps { f.write_str(", no core dumps") } else { Ok(()) }
    }
}

/// Returns the uppermost folder above `folder` that this user cannot pass through.
fn blocked_above(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    let above: Vec<&Path> = folder.ancestors().skip(1).collect();
    let passes = |folder: &Path| unistd::access(folder, unistd::AccessFlags::X_OK).is_ok();
    above.into_iter().rev().find(|above| !passes(above)).map(Path::to_owned)
}

/// Returns a symbolic link in `folder` to a folder outside it.
fn link_elsewhere(folder: &Path) -> Option<PathBuf> {
    let own = folder.canonicalize().ok()?;
    let links = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut links = links.filter(|path| path.is_symlink());
    links.find(|path| {
        path.metadata().is_ok_and(|about| about.is_dir())
            && path.canonicalize().is_ok_and(|target| !target.starts_with(&own))
    })
}

fn find(name: &str) -> Result<User, ConfineError> {
    let by_name = User::from_name(name).map_err(failed("looking up a user"))?;
    let by_number = || User::from_uid(Uid::from_raw(name.parse().ok()?)).ok().flatten();
    by_name.or_else(by_number).ok_or_else(|| ConfineError::NoUser(name.to_owned()))
}

fn name_of(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Reduces the capabilities of this thread, and of threads that it starts, to `kept`; errors are ignored.
fn limit_capabilities(kept: &[Capability]) {
    let set: caps::CapsHashSet = kept.iter().filter_map(|c| c.to_string().parse().ok()).collect();
    // Errors are ignored because the remaining capabilities are read again and reported.
    let _ = caps::clear(None, caps::CapSet::Ambient);
    // The effective set first, because it must remain a subset of the permitted set.
    let _ = caps::set(None, caps::CapSet::Effective, &set);
    let _ = caps::set(None, caps::CapSet::Permitted, &set);
    let _ = caps::set(None, caps::CapSet::Inheritable, &caps::CapsHashSet::new());
}

#[cfg(test)]
mod tests;
