//! Linux capabilities: those of this program, the purpose of each, and commands that grant missing ones.

use crate::sys;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A Linux capability that jitlat can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Listening on ports below 1024.
    NetBindService,
    /// Hardware timestamps, `SO_PRIORITY` above 6, and buffers beyond the system's limit.
    NetAdmin,
    /// Raw sockets: ICMP where ping sockets are not permitted, and capturing on interfaces.
    NetRaw,
    /// Locking memory.
    IpcLock,
    /// Real-time scheduling.
    SysNice,
}

impl Capability {
    /// All capabilities that jitlat can use.
    pub const ALL: [Capability; 5] = [
        Capability::NetRaw,
        Capability::NetAdmin,
        Capability::SysNice,
        Capability::IpcLock,
        Capability::NetBindService,
    ];

    /// Returns the name used by `setcap`, for example `cap_net_raw`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetBindService => "cap_net_bind_service",
            Capability::NetAdmin => "cap_net_admin",
            Capability::NetRaw => "cap_net_raw",
            Capability::IpcLock => "cap_ipc_lock",
            Capability::SysNice => "cap_sys_nice",
        }
    }

    /// Returns the purpose of the capability in jitlat.
    pub fn purpose(self) -> &'static str {
        match self {
            Capability::NetBindService => "ports below 1024 (STAMP and TWAMP's 862)",
            Capability::NetAdmin => "hardware stamps, priorities above 6, large socket buffers",
            Capability::NetRaw => {
                "raw packets: capturing on an interface, ICMP where ping sockets are not permitted"
            }
            Capability::IpcLock => "locked memory (--realtime)",
            Capability::SysNice => "real-time scheduling (--realtime)",
        }
    }

    /// True if this program has the capability.
    pub fn is_held(self) -> bool {
        sys::has_capability(&self.to_string())
    }
}

impl fmt::Display for Capability {
    /// Formats the name as in manual pages, for example `CAP_NET_RAW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_uppercase())
    }
}

/// True if rights can be granted one by one, as on Linux.
pub fn can_be_granted() -> bool {
    sys::HAS_CAPABILITIES
}

/// Returns the command that grants `wanted` to this program.
pub fn how_to_grant(wanted: &[Capability]) -> String {
    if !sys::HAS_CAPABILITIES {
        return "run it as an administrator".to_owned();
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("jitlat"));
    let names: Vec<&str> = wanted.iter().map(|c| c.name()).collect();
    format!("sudo setcap {}=ep {}", names.join(","), program.display())
}

/// Returns the missing capability and the command that grants it:
/// `needs CAP_NET_RAW: sudo setcap cap_net_raw=ep /usr/bin/jitlat`. If the program already has the
/// capability, the message states that the refusal has another cause (a container's filter or a security
/// module). The command includes the capabilities that the program already has, because setcap replaces
/// earlier grants.
pub fn needs(capability: Capability) -> String {
    if !sys::HAS_CAPABILITIES {
        return "needs the rights of an administrator".to_owned();
    }
    if capability.is_held() {
        return format!(
            "this program has {capability}, but the system still refuses: is it limited by a container?"
        );
    }
    let root = sys::is_root();
    let wanted: Vec<Capability> =
        Capability::ALL.into_iter().filter(|c| *c == capability || !root && c.is_held()).collect();
    format!("needs {capability}: {}", how_to_grant(&wanted))
}

/// Formats an error, and adds the missing capability if the system did not permit the operation.
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
    fn every_capability_is_one_of_the_kernels() {
        for capability in Capability::ALL {
            assert!(capability.to_string().parse::<caps::Capability>().is_ok(), "{capability}");
        }
        let root = nix::unistd::geteuid().is_root();
        assert!(
            !root || Capability::NetBindService.is_held(),
            "what a system withholds from root is more than this"
        );
    }

    #[test]
    fn the_line_to_run_names_this_program() {
        let line = how_to_grant(&[Capability::NetRaw, Capability::SysNice]);
        let program = std::env::current_exe().unwrap();
        assert_eq!(line, format!("sudo setcap cap_net_raw,cap_sys_nice=ep {}", program.display()));
    }
}
