//! System calls of a confined process. Calls that services need are allowed, calls that only an intruder
//! would make end the process, and all others fail with EPERM.

use super::CallSet;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::io;

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filter to all threads; returns the number of allowed calls, or `None` if the system has no
/// filters. If `raw` is true, packet sockets may be opened.
pub fn filter(raw: bool, set: CallSet) -> io::Result<Option<usize>> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(None) };
    let compile = |rules: SyscallRules, otherwise, then| -> io::Result<BpfProgram> {
        let filter = SeccompFilter::new(rules, otherwise, then, arch).map_err(io::Error::other)?;
        filter.try_into().map_err(io::Error::other)
    };
    let mut allowed: SyscallRules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let monitors = set == CallSet::Monitor;
    if monitors {
        allowed.extend(OF_MONITORS.iter().map(|call| (*call, Vec::new())));
    }
    let families =
        [(true, libc::AF_INET), (true, libc::AF_INET6), (raw, libc::AF_PACKET), (monitors, libc::AF_NETLINK)];
    let families = families.into_iter().filter(|(allowed, _)| *allowed).map(|(_, family)| family as u64);
    allowed.insert(libc::SYS_socket, one_of(0, families).map_err(io::Error::other)?);
    let more: &[u64] = if monitors { IOCTLS_OF_MONITORS } else { &[] };
    let requests = IOCTLS.iter().chain(more).map(|request| u64::from(*request as u32));
    allowed.insert(libc::SYS_ioctl, one_of(1, requests).map_err(io::Error::other)?);
    let calls = allowed.len();
    let fatal: SyscallRules = FATAL.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    // The last program forbids further filters, so it must be installed last.
    let programs = [
        compile(fatal, SeccompAction::Allow, SeccompAction::KillProcess)?,
        compile(allowed, denied, SeccompAction::Allow)?,
    ];
    for program in &programs {
        match apply_filter_all_threads(program) {
            Ok(()) => {}
            // The system has no filters, or the container does not permit them.
            Err(Error::Seccomp(_) | Error::Prctl(_)) => return Ok(None),
            Err(e) => return Err(io::Error::other(e)),
        }
    }
    Ok(Some(calls))
}

/// Allows the call if its argument number `index` is one of `values`.
fn one_of(
    index: u8,
    values: impl Iterator<Item = u64>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.map(|value| SeccompRule::new(vec![SeccompCondition::new(index, Dword, Eq, value)?])).collect()
}

/// `ioctl` requests that only read from devices and sockets, or change a descriptor of this process.
const IOCTLS: &[u64] = &[
    libc::FIONBIO as _,
    libc::FIONREAD as _,
    libc::TCGETS as _,
    libc::TIOCGWINSZ as _,
    libc::SIOCGIFINDEX as _,
    libc::SIOCGIFNAME as _,
    libc::SIOCGIFFLAGS as _,
    libc::SIOCGIFHWADDR as _,
    libc::SIOCGIFMTU as _,
];

/// Additional `ioctl` requests of monitors, about network adapters.
const IOCTLS_OF_MONITORS: &[u64] = &[
    // SIOCETHTOOL.
    0x8946,
    libc::SIOCSHWTSTAMP as _,
    libc::SIOCGIFADDR as _,
    libc::SIOCGIFCONF as _,
];

/// Additional system calls of monitors, for SQLite and Parquet files, for changes of an archive, and for the process
/// that runs commands.
const OF_MONITORS: &[i64] = &[
    libc::SYS_fadvise64,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_readahead,
    libc::SYS_sync_file_range,
    libc::SYS_utimensat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getdents,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Calls for sockets, threads, timers, clocks, memory, standard error and files.
const ALLOWED: &[i64] = &[
    // Sockets.
    libc::SYS_accept4,
    libc::SYS_accept,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Waiting.
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_restart_syscall,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // Clocks. Setting them also needs a capability, which has been dropped.
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    // Files.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendfile,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_munmap,
    // Threads and the process.
    libc::SYS_capget,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_setpriority,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_times,
    libc::SYS_uname,
    // Older variants of the calls above, which other architectures do not have.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Calls that this program never makes: running or tracing other programs, changing users, namespaces,
/// mounts, the kernel.
const FATAL: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_capset,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_settimeofday,
    libc::SYS_setuid,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];
