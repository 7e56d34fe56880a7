//! Asking for kernel and hardware stamps (`SO_TIMESTAMPING`). Those of received packets come as control messages
//! ([`crate::cmsg`]), those of sent ones later through the socket's error queue ([`crate::departures`]).
//!
//! The kernel switches receive stamping on from a work queue, so the first packets after set-up may lack a stamp:
//! sockets are prepared well before their stream, and every record says where its stamps came from.

use crate::privilege::{Capability, needs};
use crate::sys;
use jitlat_core::Source;
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Which stamps a user wants at most. What a path cannot give falls back to the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamps {
    /// The program's own readings only.
    User,
    /// The program's for what is sent, the kernel's for what is received: LaMP's KRT.
    KernelReceive,
    /// The kernel's, in software.
    #[default]
    Kernel,
    /// The network adapter's, where its clock agrees with the system's.
    Hardware,
}

impl From<Source> for Stamps {
    fn from(best: Source) -> Stamps {
        match best {
            Source::User => Stamps::User,
            Source::Kernel => Stamps::Kernel,
            Source::Hardware | Source::Wire => Stamps::Hardware,
        }
    }
}

impl std::str::FromStr for Stamps {
    type Err = UnknownStamps;

    fn from_str(s: &str) -> Result<Stamps, UnknownStamps> {
        match s {
            "user" => Ok(Stamps::User),
            "krt" => Ok(Stamps::KernelReceive),
            "kernel" => Ok(Stamps::Kernel),
            "hardware" => Ok(Stamps::Hardware),
            _ => Err(UnknownStamps(s.to_owned())),
        }
    }
}

/// No source of stamps is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a source of stamps: give user, krt, kernel or hardware")]
pub struct UnknownStamps(pub String);

/// Which of a socket's packets are to be stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    /// Those it sends: all of them, each with a number.
    pub sent: bool,
    /// Those it receives.
    pub received: bool,
}

impl Ways {
    /// A socket that sends a stream.
    pub const SENT: Ways = Ways { sent: true, received: false };
    /// A socket that receives a stream.
    pub const RECEIVED: Ways = Ways { sent: false, received: true };
    /// A socket that asks and is answered.
    pub const BOTH: Ways = Ways { sent: true, received: true };
}

/// The socket option that asks for `want`.
pub(crate) fn flags(want: Stamps, ways: Ways) -> TimestampingFlag {
    use TimestampingFlag as F;
    let mut all = F::empty();
    if want == Stamps::User {
        return all;
    }
    all |= F::SOF_TIMESTAMPING_SOFTWARE;
    if ways.received {
        all |= F::SOF_TIMESTAMPING_RX_SOFTWARE;
    }
    let sent = ways.sent && want > Stamps::KernelReceive;
    if sent {
        all |= F::SOF_TIMESTAMPING_TX_SOFTWARE | F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    if want == Stamps::Hardware {
        all |= F::SOF_TIMESTAMPING_RAW_HARDWARE;
        all.set(F::SOF_TIMESTAMPING_RX_HARDWARE, ways.received);
        if sent {
            // Both stamps of one packet, so that software can stand in where the hardware gives none.
            all |= F::SOF_TIMESTAMPING_TX_HARDWARE;
            all |= TimestampingFlag::from_bits_retain(libc::SOF_TIMESTAMPING_OPT_TX_SWHW);
        }
    }
    all
}

/// Has the kernel stamp what `socket`, bound to `local`, sends or receives, and returns which stamps
/// can be expected and what had to be reduced.
pub(crate) fn enable(
    socket: BorrowedFd<'_>,
    local: IpAddr,
    want: Stamps,
    ways: Ways,
) -> (Stamps, Vec<String>) {
    let mut notes = Vec::new();
    let mut want = want;
    if want == Stamps::Hardware
        && let Err(why) = enable_adapter(socket, local)
    {
        notes.push(format!("no hardware stamps ({why}): kernel stamps instead"));
        want = Stamps::Kernel;
    }
    if want == Stamps::KernelReceive && !ways.received {
        return (Stamps::User, notes);
    }
    if want != Stamps::User
        && let Err(e) = setsockopt(&socket, sockopt::Timestamping, &flags(want, ways))
    {
        notes.push(format!("no kernel stamps ({}): user stamps instead", e.desc()));
        want = Stamps::User;
    }
    (want, notes)
}

/// Why an adapter gives no stamps.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    /// The interfaces of this host cannot be listed.
    #[error("{}", .0.desc())]
    Interfaces(nix::Error),
    /// None has the address.
    #[error("no interface has address {0}")]
    NoInterface(IpAddr),
    /// The interface refuses.
    #[error("{name}: {}", match .source.kind() {
        io::ErrorKind::PermissionDenied => needs(Capability::NetAdmin),
        _ => .source.to_string(),
    })]
    Refused { name: String, source: io::Error },
}

/// Has the adapter behind `local` stamp everything it sends and receives.
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
