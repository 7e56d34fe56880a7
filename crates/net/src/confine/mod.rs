//! [`Confinement`]: drops rights of this process, in two steps, before it communicates with untrusted hosts.
//!
//! [`Confinement::begin`], while the process has one thread, changes the user, and drops all capabilities
//! that no service needs, the right to gain others (`no_new_privs`), and write access to files (Landlock).
//! Threads started later inherit these restrictions. [`Confinement::complete`], called once every socket is
//! bound, drops system calls (seccomp) for all threads at once.

mod calls;

use crate::privilege::Capability;
use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use nix::unistd::{self, Gid, Uid, User};
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Rights that a confined process retains.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// User to change to if the process was started as root; `None`: the owner of the first of `folders`, or
    /// `nobody` without folders.
    pub user: Option<String>,
    /// Capabilities to retain, if the process has them.
    pub capabilities: Vec<Capability>,
    /// Folders that the process may write to. They must exist.
    pub folders: Vec<PathBuf>,
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
    /// Names of the capabilities that the process still has.
    left: Vec<String>,
    files: Files,
}

/// Restriction of file access, which depends on the kernel's support for Landlock.
#[derive(Debug)]
enum Files {
    /// Only these folders can be written to.
    Confined(Vec<PathBuf>),
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
        Ok(Confining { user, raw: kept.contains(&Capability::NetRaw), left, files: self.close_files() })
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
            if unistd::access(folder, unistd::AccessFlags::W_OK).is_err() {
                return Err(ConfineError::Folder { user: name, folder: folder.clone() });
            }
        }
        Ok(name)
    }

    /// Forbids writing outside the folders, and running programs.
    fn close_files(&self) -> Files {
        let write: BitFlags<AccessFs> = AccessFs::from_write(ABI::V5) | AccessFs::Execute;
        let closed = || -> Result<RulesetStatus, Box<dyn std::error::Error>> {
            let ruleset =
                // Kernels that support only some of these rights enforce those.
                Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(write)?;
            let inside = AccessFs::from_write(ABI::V5);
            let allow = |rules: RulesetCreated, folder: &Path| -> Result<_, Box<dyn std::error::Error>> {
                Ok(rules.add_rule(PathBeneath::new(PathFd::new(folder)?, inside))?)
            };
            let rules =
                self.folders.iter().try_fold(ruleset.create()?, |rules, folder| allow(rules, folder))?;
            Ok(rules.restrict_self()?.ruleset)
        };
        match closed() {
            Ok(RulesetStatus::NotEnforced) | Err(_) => Files::Free,
            Ok(_) => Files::Confined(self.folders.clone()),
        }
    }
}

impl Confining {
    /// Drops system calls in all threads of the process.
    ///
    /// # Errors
    /// [`ConfineError::System`] if the filter cannot be installed.
    pub fn complete(self) -> Result<Confined, ConfineError> {
        let calls = calls::filter(self.raw).map_err(failed("filtering system calls"))?;
        Ok(Confined { before: self, calls })
    }
}

impl fmt::Display for Confined {
    /// Formats, for example,
    /// `user nobody, no capabilities, no_new_privs, seccomp (120 calls), Landlock (no file)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Confining { user, left, files, .. } = &self.before;
        let left = if left.is_empty() { "no capabilities".to_owned() } else { left.join(" ") };
        write!(f, "user {user}, {left}")?;
        f.write_str(", no_new_privs, ")?;
        match self.calls {
            Some(calls) => write!(f, "seccomp ({calls} calls), ")?,
            None => f.write_str("no seccomp on this system, ")?,
        }
        match files {
            Files::Confined(folders) if folders.is_empty() => f.write_str("Landlock (writes no file)"),
            Files::Confined(folders) => {
                let folders: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
                write!(f, "Landlock (writes to {})", folders.join(", "))
            }
            Files::Free => f.write_str("no Landlock on this system"),
        }
    }
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
