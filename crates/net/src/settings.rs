//! Settings of functions that only Linux has. They are the same types on every system, so that callers compile everywhere, and a new field
//! cannot be forgotten on one of them.

use crate::privilege::Capability;
use jitlat_impair::Scenario;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of a capture on an interface.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceSettings {
    /// Snap length: maximum number of bytes stored per packet.
    pub snap: u32,
    /// Size of the kernel's buffer for captured packets, in bytes.
    pub buffer: usize,
    /// True to request a ring shared with the kernel; otherwise packets are read from the socket's queue.
    pub ring: bool,
    /// True to also capture packets that are not addressed to this host, for example on a mirror port or a
    /// bridge.
    pub promiscuous: bool,
}

impl Default for InterfaceSettings {
    /// Captures 256 bytes of each packet, enough to identify it, with a buffer of 16 MiB.
    fn default() -> InterfaceSettings {
        InterfaceSettings { snap: 256, buffer: 16 << 20, ring: true, promiscuous: false }
    }
}

/// System calls that a confined process may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallSet {
    /// Calls of a server.
    #[default]
    Server,
    /// Calls of a process that measures or shows measurements: those of a server, those for an archive, and requests to
    /// the kernel about interfaces.
    Monitor,
}

/// Rights that a confined process retains.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// User to change to if the process was started as root; `None`: the owner of the first of `folders`, or
    /// `nobody` without folders.
    pub user: Option<String>,
    /// Capabilities to retain, if the process has them.
    pub capabilities: Vec<Capability>,
    /// Folders that the process may read and write. Those that do not exist are created, for `user` if it is given.
    pub folders: Vec<PathBuf>,
    /// Files and folders that the process may read, in addition to [`READABLE`](crate::confine::READABLE).
    pub readable: Vec<PathBuf>,
    /// System calls that are allowed.
    pub calls: CallSet,
}

/// Numbering of test packets, to which patterns of loss, duplication and reordering refer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Sequence number of one-way test packets. All other packets, including sentinels, are only subject to delay,
    /// queueing and outages.
    #[default]
    Sequence,
    /// Order of arrival. Packets smaller than the model's `min_bytes` are not numbered.
    Arrival,
}

/// An address to listen on, and the address to forward to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Address that clients send to; with port 0, the system chooses the port.
    pub listen: SocketAddr,
    /// Address of the server.
    pub to: SocketAddr,
}

/// Settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// TCP ports to forward, for control connections and TCP tests.
    pub tcp: Vec<Forward>,
    /// UDP ports to forward, for test streams.
    pub udp: Vec<Forward>,
    /// Impairments of the path.
    pub scenario: Scenario,
    /// Numbering of test packets.
    pub numbering: Numbering,
}
