//! Capabilities: which of them this program has, what each is needed for, and how to grant missing ones.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A Linux capability that jitlat can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Ports below 1024.
    NetBindService,
    /// Hardware stamps, `SO_PRIORITY` above 6, buffers beyond the system's limit.
    NetAdmin,
    /// Raw sockets: ICMP where ping sockets are not permitted, capture at interfaces.
    NetRaw,
    /// Locked memory.
    IpcLock,
    /// Real-time scheduling.
    SysNice,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 5] = [
        Capability::NetRaw,
        Capability::NetAdmin,
        Capability::SysNice,
        Capability::IpcLock,
        Capability::NetBindService,
    ];

    /// Its number in the kernel's sets.
    fn bit(self) -> u32 {
        match self {
            Capability::NetBindService => 10,
            Capability::NetAdmin => 12,
            Capability::NetRaw => 13,
            Capability::IpcLock => 14,
            Capability::SysNice => 23,
        }
    }

    /// Its name for `setcap`: `cap_net_raw`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetBindService => "cap_net_bind_service",
            Capability::NetAdmin => "cap_net_admin",
            Capability::NetRaw => "cap_net_raw",
            Capability::IpcLock => "cap_ipc_lock",
            Capability::SysNice => "cap_sys_nice",
        }
    }

    /// What jitlat uses it for.
    pub fn purpose(self) -> &'static str {
        match self {
            Capability::NetBindService => "ports below 1024 (STAMP and TWAMP's 862)",
            Capability::NetAdmin => "hardware stamps, priorities above 6, large socket buffers",
            Capability::NetRaw => {
                "raw packets: capture from an interface, ICMP where ping sockets are closed"
            }
            Capability::IpcLock => "locked memory (--realtime)",
            Capability::SysNice => "real-time scheduling (--realtime)",
        }
    }

    /// Whether this program has it.
    pub fn is_held(self) -> bool {
        effective().is_some_and(|set| set & 1 << self.bit() != 0)
    }
}

impl fmt::Display for Capability {
    /// Its name in the manual pages: `CAP_NET_RAW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_uppercase())
    }
}

/// The effective capabilities of this thread.
fn effective() -> Option<u64> {
    parse_effective(&std::fs::read_to_string("/proc/thread-self/status").ok()?)
}

fn parse_effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The command that grants `wanted` to this program, with notes.
pub fn how_to_grant(wanted: &[Capability]) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("jitlat"));
    let names: Vec<&str> = wanted.iter().map(|c| c.name()).collect();
    format!("sudo setcap {}=ep {}", names.join(","), program.display())
}

/// The missing capability and how to grant it: `needs CAP_NET_RAW: sudo setcap cap_net_raw=ep /usr/bin/jitlat`. If the
/// program has the capability, says that the refusal has another reason (a container's filter, a security module).
pub fn needs(capability: Capability) -> String {
    if capability.is_held() {
        return format!(
            "this program has {capability}, but the system refuses all the same: a container's limits?"
        );
    }
    format!("needs {capability}: {}", how_to_grant(&[capability]))
}

/// The message of an error, with the missing capability if the system did not permit the operation.
pub fn explain(error: &io::Error, capability: Capability) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{error}: {}", needs(capability)),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_from_the_kernels_text() {
        let status = "Name:\tjitlat\nCapPrm:\t0\nCapEff:\t0000000000803000\nCapBnd:\t1\n";
        let set = parse_effective(status).unwrap();
        let held: Vec<_> = Capability::ALL.into_iter().filter(|c| set & 1 << c.bit() != 0).collect();
        assert_eq!(held, [Capability::NetRaw, Capability::NetAdmin, Capability::SysNice]);
        assert_eq!(parse_effective("CapEff:\tnone"), None);
        assert!(effective().is_some());
    }

    #[test]
    fn the_line_to_run_names_this_program() {
        let line = how_to_grant(&[Capability::NetRaw, Capability::SysNice]);
        let program = std::env::current_exe().unwrap();
        assert_eq!(line, format!("sudo setcap cap_net_raw,cap_sys_nice=ep {}", program.display()));
    }
}
