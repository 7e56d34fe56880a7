//! Enabling time stamps of the kernel and the hardware (`SO_TIMESTAMPING`). Those of received packets come as control
//! messages (`cmsg`), those of sent packets later through the socket's error queue (`departures`).
//!
//! The kernel enables receive stamping asynchronously, so the first packets after set-up may lack a stamp: sockets are
//! prepared well before their stream, and every record has the source of its stamps.

use crate::privilege::{Capability, needs};
use crate::sys;
use jitlat_core::StampSource;
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// The best kind of stamps to use. What a path cannot provide is replaced by the kind before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampMode {
    /// The program's own readings only.
    User,
    /// The program's for sent packets, the kernel's for received ones: LaMP's KRT.
    KernelReceive,
    /// The kernel's, in software.
    #[default]
    Kernel,
    /// The network adapter's, where its clock agrees with the system's.
    Hardware,
}

impl From<StampSource> for StampMode {
    fn from(best: StampSource) -> StampMode {
        match best {
            StampSource::User => StampMode::User,
            StampSource::Kernel => StampMode::Kernel,
            StampSource::Hardware | StampSource::Wire => StampMode::Hardware,
        }
    }
}

impl std::str::FromStr for StampMode {
    type Err = UnknownStamps;

    fn from_str(s: &str) -> Result<StampMode, UnknownStamps> {
        match s {
            "user" => Ok(StampMode::User),
            "krt" => Ok(StampMode::KernelReceive),
            "kernel" => Ok(StampMode::Kernel),
            "hardware" => Ok(StampMode::Hardware),
            _ => Err(UnknownStamps(s.to_owned())),
        }
    }
}

/// No kind of stamps has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a source of stamps: give user, krt, kernel or hardware")]
pub struct UnknownStamps(pub String);

/// Which of a socket's packets to stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampedPackets {
    /// Those it sends, each with a number.
    pub sent: bool,
    /// Those it receives.
    pub received: bool,
}

impl StampedPackets {
    /// For a socket that sends a stream.
    pub const SENT: StampedPackets = StampedPackets { sent: true, received: false };
    /// For a socket that receives a stream.
    pub(crate) const RECEIVED: StampedPackets = StampedPackets { sent: false, received: true };
    /// For a socket that sends requests and receives answers.
    pub const BOTH: StampedPackets = StampedPackets { sent: true, received: true };
}

/// The option value that requests `want`.
pub(crate) fn flags(want: StampMode, ways: StampedPackets) -> TimestampingFlag {
    use TimestampingFlag as F;
    let mut all = F::empty();
    if want == StampMode::User {
        return all;
    }
    all |= F::SOF_TIMESTAMPING_SOFTWARE;
    if ways.received {
        all |= F::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    let sent = ways.sent && want > StampMode::KernelReceive;
    if sent {
        all |= F::SOF_TIMESTAMPING_TX_SOFTWARE | F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
        // When it enters the interface's queue, too: what it waits there is this host's, not the path's.
        all |= F::from_bits_retain(libc::SOF_TIMESTAMPING_TX_SCHED);
    }
    if want == StampMode::Hardware {
        all |= F::SOF_TIMESTAMPING_RAW_HARDWARE;
        all.set(F::SOF_TIMESTAMPING_RX_HARDWARE, ways.received);
        if sent {
            // Both stamps of each packet, so that the software stamp can replace a missing hardware stamp.
            all |= F::SOF_TIMESTAMPING_TX_HARDWARE;
            all |= TimestampingFlag::from_bits_retain(libc::SOF_TIMESTAMPING_OPT_TX_SWHW);
        }
    }
    all
}

/// Makes the kernel stamp what `socket`, bound to `local`, sends or receives. Returns which stamps can be expected, and
/// notes about what could not be done.
pub(crate) fn enable(
    socket: BorrowedFd<'_>,
    local: IpAddr,
    want: StampMode,
    ways: StampedPackets,
) -> (StampMode, Vec<String>) {
    let mut notes = Vec::new();
    let mut want = want;
    if want == StampMode::Hardware
        && let Err(why) = enable_adapter(socket, local)
    {
        notes.push(format!("no hardware stamps ({why}): kernel stamps instead"));
        want = StampMode::Kernel;
    }
    if want == StampMode::KernelReceive && !ways.received {
        return (StampMode::User, notes);
    }
    if want != StampMode::User
        && let Err(e) = setsockopt(&socket, sockopt::Timestamping, &flags(want, ways))
    {
        notes.push(format!("no kernel stamps ({}): user stamps instead", e.desc()));
        want = StampMode::User;
    }
    (want, notes)
}

/// Why an adapter provides no stamps.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    /// The interfaces of this host cannot be listed.
    #[error("{}", .0.desc())]
    Interfaces(nix::Error),
    /// No interface has the address.
    #[error("no interface has address {0}")]
    NoInterface(IpAddr),
    /// The interface refuses.
    #[error("{name}: {}", match .source.kind() {
        io::ErrorKind::PermissionDenied => needs(Capability::NetAdmin),
        _ => .source.to_string(),
    })]
    Refused { name: String, source: io::Error },
}

/// Makes the adapter of the interface with address `local` stamp everything it sends and receives.
pub(crate) fn enable_adapter(socket: BorrowedFd<'_>, local: IpAddr) -> Result<(), AdapterError> {
    let interfaces = nix::ifaddrs::getifaddrs().map_err(AdapterError::Interfaces)?;
    let ours = |a: &nix::ifaddrs::InterfaceAddress| {
        a.address.is_some_and(|s| match local {
            IpAddr::V4(ip) => s.as_sockaddr_in().is_some_and(|s| s.ip() == ip),
            IpAddr::V6(ip) => s.as_sockaddr_in6().is_some_and(|s| s.ip() == ip),
        })
    };
    let name = interfaces.into_iter().find(ours).map(|a| a.interface_name);
    let name = name.ok_or(AdapterError::NoInterface(local))?;
    sys::stamp_in_hardware(socket, &name).map_err(|source| AdapterError::Refused { name, source })
}
