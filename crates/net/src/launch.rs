//! Launch times (`SO_TXTIME`): each packet is passed to the kernel early, together with its launch time, and
//! the queue of the interface (`etf`) or the adapter holds the packet until then. Late wake-ups of the
//! program then no longer affect the schedule.
//!
//! The kernel must have this queueing discipline, and the host's administrator must set it up on the
//! interface:
//!
//! ```text
//! tc qdisc replace dev eth0 root etf clockid CLOCK_TAI delta 300000 [offload]
//! ```
//!
//! Without `offload`, timers of the kernel release the packets; with `offload`, the adapter releases them by its own
//! clock, which `phc2sys` must synchronise. Such a queue drops packets without a launch time, so every packet of a
//! socket gets one, including greetings.

use crate::clock::{self, steady};
use crate::cmsg::ControlBuffer;
use crate::netlink;
use crate::privilege::{Capability, needs};
use crate::sys;
use jitlat_core::{Span, SteadyTime};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Minimum time before the launch time at which a packet is passed to the kernel, because a sleeping thread
/// may wake up this late on a busy host.
const MIN_ADVANCE: Span = Span::millis(1);
/// Maximum plausible value of the parameter `delta` of an `etf` queue.
const MAX_DELTA: Span = Span::millis(100);

/// A queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discipline {
    /// Kind: `fq_codel`, `noqueue`, `etf`.
    pub kind: String,
    /// Parameters of an `etf` queue; `None` for other kinds of queues.
    pub etf: Option<Etf>,
}

/// A queue that releases packets at their launch times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Etf {
    /// Time before the launch time at which the queue releases a packet.
    pub delta: Span,
    /// True if the adapter, instead of the kernel, releases packets at their launch times.
    pub offload: bool,
}

/// Host functions that launch times require.
pub(crate) trait LaunchHost: Sync {
    /// Returns the name and the number of the interface that has this address; `None` if there is none.
    fn interface(&self, local: IpAddr) -> io::Result<Option<(String, u32)>>;
    /// Returns the queueing disciplines of the interface with this number.
    fn disciplines(&self, interface: u32) -> io::Result<Vec<Discipline>>;
    /// Makes `socket` accept launch times on the TAI clock, and report packets that miss their launch time.
    fn enable(&self, socket: BorrowedFd<'_>) -> nix::Result<()>;
}

/// The host that this program runs on.
pub(crate) struct ThisHost;

impl LaunchHost for ThisHost {
    fn interface(&self, local: IpAddr) -> io::Result<Option<(String, u32)>> {
        let Some(name) = crate::capture::interface::find_interface(local) else { return Ok(None) };
        let number = nix::net::if_::if_nametoindex(&*name)?;
        Ok(Some((name, number)))
    }

    fn disciplines(&self, interface: u32) -> io::Result<Vec<Discipline>> {
        disciplines(interface)
    }

    fn enable(&self, socket: BorrowedFd<'_>) -> nix::Result<()> {
        // `SOF_TXTIME_REPORT_ERRORS`: packets that miss their launch time are reported in the error queue.
        const REPORT_ERRORS: u32 = 2;
        // An etf queue drops packets of sockets with another clock than its own, which is set up as TAI.
        let request = libc::sock_txtime { clockid: libc::CLOCK_TAI, flags: REPORT_ERRORS };
        setsockopt(&socket, sockopt::TxTime, &request)
    }
}

/// Reason why launch times cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The kernel does not report the interface's queues.
    #[error("--pace etf: cannot read the queue of this host's interface: {0}")]
    System(io::Error),
    /// No interface has the address.
    #[error("--pace etf: no interface of this host has address {0}")]
    NoInterface(IpAddr),
    /// The interface has no `etf` queue.
    #[error(
        "--pace etf: {interface} has no queue that supports launch times (its queues: {}); to set one up: `tc qdisc replace \
         dev {interface} root etf clockid CLOCK_TAI delta 300000 offload`, without `offload` if the adapter does not support it; \
         --pace hybrid needs none",
        if .kinds.is_empty() { "none".to_owned() } else { .kinds.join(", ") }
    )]
    NoQueue { interface: String, kinds: Vec<String> },
    /// The socket does not accept launch times.
    #[error("--pace etf: {}", if *.0 == Errno::EPERM {
        format!("launch times {}", needs(Capability::NetAdmin))
    } else {
        format!("this kernel does not support launch times: {}", .0.desc())
    })]
    Refused(Errno),
}

/// Launch-time settings of one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Time before the launch time at which a packet is passed to the kernel.
    pub advance: Span,
}

impl Launch {
    /// Prepares `socket`, which is bound to `local`, for launch times.
    ///
    /// # Errors
    /// [`LaunchError`] if no interface has `local`, the interface has no queue for launch times, or the
    /// kernel refuses them.
    pub fn prepare(
        host: &dyn LaunchHost,
        socket: BorrowedFd<'_>,
        local: IpAddr,
    ) -> Result<Launch, LaunchError> {
        let found = host.interface(local.to_canonical()).map_err(LaunchError::System)?;
        let (interface, number) = found.ok_or(LaunchError::NoInterface(local))?;
        let disciplines = host.disciplines(number).map_err(LaunchError::System)?;
        let Some(etf) = disciplines.iter().find_map(|discipline| discipline.etf) else {
            let kinds = disciplines.into_iter().map(|discipline| discipline.kind).collect();
            return Err(LaunchError::NoQueue { interface, kinds });
        };
        host.enable(socket).map_err(LaunchError::Refused)?;
        let delta = etf.delta.clamp(Span::ZERO, MAX_DELTA);
        Ok(Launch { advance: MIN_ADVANCE + delta })
    }

    /// Sends the concatenated `parts` as a datagram whose launch time is `due`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn send(self, socket: BorrowedFd<'_>, parts: &[IoSlice<'_>], due: SteadyTime) -> io::Result<usize> {
        // Launch times are on the TAI clock, but `due` is on the steady clock.
        let now = clock::nanoseconds(clock_gettime(ClockId::CLOCK_TAI)?);
        let at = now.saturating_add((due - steady()).0).max(0).unsigned_abs();
        let mut control = ControlBuffer::<32>::EMPTY;
        control.push(libc::SOL_SOCKET, libc::SCM_TXTIME, &at.to_ne_bytes());
        sys::send_controlled(socket, parts, &control)
    }

    /// Sends `bytes` as a datagram with the earliest possible launch time.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn send_soon(self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.send(socket, &[IoSlice::new(bytes)], steady() + self.advance)
    }
}

/// Returns the queueing disciplines of an interface of this host.
pub(crate) fn disciplines(interface: u32) -> io::Result<Vec<Discipline>> {
    let mut found = Vec::new();
    // Structure `tcmsg`: family and padding, interface, handle, parent, information.
    netlink::dump(libc::RTM_GETQDISC, &[0; TRAFFIC], |entry| {
        found.extend(of_entry(entry, interface));
        None::<()>
    })?;
    Ok(found)
}

/// Length of a `tcmsg`, in bytes.
const TRAFFIC: usize = 20;
const INTERFACE: usize = 4;
/// Attribute of a queueing discipline: its kind (`TCA_KIND`).
const KIND: u16 = 1;
/// Attribute of a queueing discipline: its options (`TCA_OPTIONS`).
const OPTIONS: u16 = 2;
/// Attribute in the options of `etf`: its parameters (`TCA_ETF_PARMS`).
const ETF_PARAMETERS: u16 = 1;
/// Flag of `etf`: the adapter releases packets.
const OFFLOAD: u32 = 1 << 1;

/// Parses an entry of the kernel's table of queueing disciplines; `None` if it belongs to another interface.
fn of_entry(entry: &[u8], interface: u32) -> Option<Discipline> {
    let attributes = entry.get(TRAFFIC..).filter(|_| netlink::u32_at(entry, INTERFACE) == Some(interface))?;
    let (mut kind, mut options) = (None, &[][..]);
    for (name, value) in netlink::attributes(attributes) {
        match name {
            KIND => kind = Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()),
            OPTIONS => options = value,
            _ => {}
        }
    }
    let kind = kind?;
    // Structure `tc_etf_qopt`: delta in ns, clock, flags.
    let parameters = netlink::attributes(options).find(|(name, _)| *name == ETF_PARAMETERS);
    let etf = parameters.filter(|_| kind == "etf").and_then(|(_, value)| {
        let (delta, flags) = (netlink::u32_at(value, 0)?, netlink::u32_at(value, 8)?);
        Some(Etf { delta: Span(delta.cast_signed().into()), offload: flags & OFFLOAD != 0 })
    });
    Some(Discipline { kind, etf })
}

/// A simulated host whose interfaces have `etf` queues. Its sockets use launch times on the steady clock,
/// which requires no privilege.
#[cfg(test)]
pub(crate) mod fake {
    use super::*;

    pub(crate) struct Host {
        pub interface: Option<&'static str>,
        pub disciplines: Vec<Discipline>,
        pub enabled: nix::Result<()>,
    }

    /// A host that has everything that launch times require.
    pub(crate) static WITH_ETF: std::sync::LazyLock<Host> = std::sync::LazyLock::new(|| Host {
        interface: Some("eth7"),
        disciplines: vec![
            Discipline { kind: "mqprio".to_owned(), etf: None },
            Discipline { kind: "etf".to_owned(), etf: Some(Etf { delta: Span::micros(300), offload: true }) },
        ],
        enabled: Ok(()),
    });

    impl LaunchHost for Host {
        fn interface(&self, _: IpAddr) -> io::Result<Option<(String, u32)>> {
            Ok(self.interface.map(|name| (name.to_owned(), 7)))
        }

        fn disciplines(&self, interface: u32) -> io::Result<Vec<Discipline>> {
            assert_eq!(interface, 7);
            Ok(self.disciplines.clone())
        }

        fn enable(&self, socket: BorrowedFd<'_>) -> nix::Result<()> {
            self.enabled?;
            let request = libc::sock_txtime { clockid: libc::CLOCK_MONOTONIC, flags: 2 };
            setsockopt(&socket, sockopt::TxTime, &request)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{Host, WITH_ETF};
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn prepared(host: &Host) -> Result<Launch, String> {
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        Launch::prepare(host, socket.as_fd(), LOCAL).map_err(|e| e.to_string())
    }

    #[test]
    fn a_queue_that_keeps_launch_times_gets_packets_in_time() {
        assert_eq!(prepared(&WITH_ETF).unwrap().advance, Span::micros(1300));
        // An implausibly long `delta` is rejected.
        let slow = Etf { delta: Span::seconds(2), offload: false };
        let disciplines = vec![Discipline { kind: "etf".to_owned(), etf: Some(slow) }];
        let host = Host { disciplines, interface: Some("eth7"), enabled: Ok(()) };
        assert_eq!(prepared(&host).unwrap().advance, Span::millis(101));
    }

    #[test]
    fn what_lacks_is_said() {
        let queue = |kind: &str| vec![Discipline { kind: kind.to_owned(), etf: None }];
        let host = |interface, disciplines, enabled| Host { interface, disciplines, enabled };
        let with = || WITH_ETF.disciplines.clone();
        for (host, expected) in [
            (
                host(Some("eth7"), queue("fq_codel"), Ok(())),
                ["eth7", "its queues: fq_codel", "tc qdisc replace dev eth7"],
            ),
            (host(Some("eth7"), vec![], Ok(())), ["eth7", "its queues: none", "--pace hybrid"]),
            (host(None, with(), Ok(())), ["no interface", "127.0.0.1", "--pace etf"]),
            (host(Some("eth7"), with(), Err(Errno::EPERM)), ["launch times", "CAP_NET_ADMIN", "--pace etf"]),
            (
                host(Some("eth7"), with(), Err(Errno::ENOPROTOOPT)),
                ["this kernel", "does not support launch times", "--pace etf"],
            ),
        ] {
            let why = prepared(&host).unwrap_err();
            assert!(expected.iter().all(|word| why.contains(word)), "{why}");
        }
    }

    #[test]
    fn the_kernels_table_is_read() {
        let entry = |interface: u32, kind: &str, options: &[u8]| {
            let mut entry = vec![0; TRAFFIC];
            entry[INTERFACE..][..4].copy_from_slice(&interface.to_ne_bytes());
            entry.extend(netlink::attribute(KIND, format!("{kind}\0").as_bytes()));
            entry.extend(netlink::attribute(OPTIONS, options));
            entry
        };
        let parameters = |flags: u32| {
            let expected = [300_000u32, libc::CLOCK_TAI as u32, flags];
            netlink::attribute(ETF_PARAMETERS, &expected.map(u32::to_ne_bytes).concat())
        };
        let of = |offload| Discipline {
            kind: "etf".to_owned(),
            etf: Some(Etf { delta: Span::micros(300), offload }),
        };
        assert_eq!(of_entry(&entry(2, "etf", &parameters(2)), 2), Some(of(true)));
        assert_eq!(of_entry(&entry(2, "etf", &parameters(1)), 2), Some(of(false)));
        assert_eq!(of_entry(&entry(3, "etf", &parameters(2)), 2), None, "another interface");
        let other = Discipline { kind: "fq".to_owned(), etf: None };
        assert_eq!(of_entry(&entry(2, "fq", &parameters(2)), 2), Some(other));
        let whole = entry(2, "etf", &parameters(2));
        for cut in 0..whole.len() {
            of_entry(&whole[..cut], 2);
        }
    }

    #[test]
    fn the_loopback_interface_keeps_no_launch_times() {
        let (name, number) = ThisHost.interface(LOCAL).unwrap().unwrap();
        let found = ThisHost.disciplines(number).unwrap();
        assert!(found.iter().all(|discipline| discipline.etf.is_none()), "{found:?}");
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        let why = Launch::prepare(&ThisHost, socket.as_fd(), LOCAL).unwrap_err().to_string();
        assert!(why.contains(&name) && why.contains("etf"), "{why}");
    }
}
