//! Enables timestamps of the kernel and the hardware (`SO_TIMESTAMPING`). Stamps of received packets arrive
//! as control messages (`cmsg`), stamps of sent packets arrive later, in the socket's error queue
//! (`departures`).
//!
//! The kernel enables receive stamping asynchronously, so the first packets may lack a stamp. Sockets are
//! therefore prepared some time before their stream, and every record contains the source of its stamps.

use crate::privilege::{Capability, needs};
use crate::sys::{self, BorrowedFd};
use jitlat_core::StampSource;
use std::io;
use std::net::IpAddr;

/// Preferred kind of timestamps. If a kind is not available, the kind listed before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampMode {
    /// Only clock readings of this program.
    User,
    /// Clock readings of this program for sent packets, kernel timestamps for received packets (KRT in LaMP).
    KernelReceive,
    /// Software timestamps of the kernel.
    #[default]
    Kernel,
    /// Timestamps of the network adapter, if its clock agrees with the system clock.
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

/// Error: no kind of timestamps has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kind of timestamps: use user, krt, kernel or hardware")]
pub struct UnknownStamps(pub String);

/// Selection of the packets to stamp on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampedPackets {
    /// True to stamp sent packets and number them.
    pub sent: bool,
    /// True to stamp received packets.
    pub received: bool,
}

impl StampedPackets {
    /// Packets stamped on a socket that sends a stream.
    pub const SENT: StampedPackets = StampedPackets { sent: true, received: false };
    /// Packets stamped on a socket that receives a stream.
    pub(crate) const RECEIVED: StampedPackets = StampedPackets { sent: false, received: true };
    /// Packets stamped on a socket that sends requests and receives answers.
    pub const BOTH: StampedPackets = StampedPackets { sent: true, received: true };
}

/// Makes the kernel stamp the packets that `socket`, bound to `local`, sends or receives. Returns the kind of
/// stamps to expect, and notes about requests that failed.
pub(crate) fn enable(
    socket: BorrowedFd<'_>,
    local: IpAddr,
    want: StampMode,
    stamped: StampedPackets,
) -> (StampMode, Vec<String>) {
    let mut notes = Vec::new();
    let mut want = want;
    if want == StampMode::Hardware
        && let Err(why) = enable_adapter(socket, local)
    {
        notes.push(format!("no hardware stamps ({why}): using kernel stamps instead"));
        want = StampMode::Kernel;
    }
    if want == StampMode::KernelReceive && !stamped.received {
        return (StampMode::User, notes);
    }
    if want != StampMode::User
        && let Err(e) = sys::set_stamps(&socket, sys::stamp_flags(want, stamped))
    {
        notes.push(no_stamps(&e));
        want = StampMode::User;
    }
    (want, notes)
}

/// Describes that the system gives no stamps.
pub(crate) fn no_stamps(why: &io::Error) -> String {
    format!("no kernel stamps ({}): using the program's clock readings instead", sys::reason(why))
}

/// Reason why an adapter provides no stamps.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    /// The interfaces of this host cannot be listed.
    #[error("{}", sys::reason(.0))]
    Interfaces(io::Error),
    /// No interface has the address.
    #[error("no interface has address {0}")]
    NoInterface(IpAddr),
    /// The interface rejects the request.
    #[error("{name}: {}", match .source.kind() {
        io::ErrorKind::PermissionDenied => needs(Capability::NetAdmin),
        _ => .source.to_string(),
    })]
    Refused { name: String, source: io::Error },
}

/// Makes the adapter of the interface that has the address `local` stamp all packets that it sends and
/// receives.
pub(crate) fn enable_adapter(socket: BorrowedFd<'_>, local: IpAddr) -> Result<(), AdapterError> {
    let interfaces = sys::interfaces().map_err(AdapterError::Interfaces)?;
    let name = interfaces.into_iter().find(|a| a.address == Some(local)).map(|a| a.name);
    let name = name.ok_or(AdapterError::NoInterface(local))?;
    sys::stamp_in_hardware(socket, &name).map_err(|source| AdapterError::Refused { name, source })
}
