//! Kernel and hardware stamps (`SO_TIMESTAMPING`): setting them up, reading them from control messages,
//! and joining transmit stamps, which come back later through the socket's error queue, to the packets
//! they belong to.
//!
//! Two pitfalls shape this file. The kernel switches receive stamping on from a work queue, so the
//! first packets after set-up may lack a stamp: sockets are prepared well before their stream, and
//! every record says where its stamps came from. And a transmit stamp names its packet by a counter of
//! *successful* submissions (`OPT_ID`), so one failed send would shift all later ones: after any
//! failure the counter is started afresh ([`TxStamps::restart`]).

use crate::privilege::{Capability, needs};
use crate::sys::{self, BATCH, Inbox};
use jitlat_core::time::{SECOND, Source, Span, Stamp, WallTime};
use jitlat_proto::jitlat::SentStamps;
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use std::ffi::{c_int, c_long};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

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
    type Err = String;

    fn from_str(s: &str) -> Result<Stamps, String> {
        match s {
            "user" => Ok(Stamps::User),
            "krt" => Ok(Stamps::KernelReceive),
            "kernel" => Ok(Stamps::Kernel),
            "hardware" => Ok(Stamps::Hardware),
            _ => Err(format!("'{s}' is not a source of stamps: give user, krt, kernel or hardware")),
        }
    }
}

/// Which way a socket's packets go, and so which stamps it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It sends the stream.
    Out,
    /// It receives the stream.
    In,
}

fn flags(want: Stamps, way: Way) -> TimestampingFlag {
    use TimestampingFlag as F;
    let (software, hardware) = match way {
        Way::Out => (F::SOF_TIMESTAMPING_TX_SOFTWARE, F::SOF_TIMESTAMPING_TX_HARDWARE),
        Way::In => (F::SOF_TIMESTAMPING_RX_SOFTWARE, F::SOF_TIMESTAMPING_RX_HARDWARE),
    };
    let mut all = software | F::SOF_TIMESTAMPING_SOFTWARE;
    if way == Way::Out {
        all |= F::SOF_TIMESTAMPING_OPT_ID | F::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    if want == Stamps::Hardware {
        all |= hardware | F::SOF_TIMESTAMPING_RAW_HARDWARE;
        // Both stamps of one packet, so that software can stand in where the hardware gives none.
        all |= TimestampingFlag::from_bits_retain(libc::SOF_TIMESTAMPING_OPT_TX_SWHW);
    }
    all
}

/// Has the kernel stamp what `socket`, bound to `local`, sends or receives, and returns which stamps
/// can be expected and what had to be reduced.
pub fn enable(socket: BorrowedFd<'_>, local: IpAddr, want: Stamps, way: Way) -> (Stamps, Vec<String>) {
    let mut notes = Vec::new();
    let mut want = want;
    if want == Stamps::Hardware
        && let Err(why) = enable_adapter(socket, local)
    {
        notes.push(format!("no hardware stamps ({why}): kernel stamps instead"));
        want = Stamps::Kernel;
    }
    if want == Stamps::KernelReceive && way == Way::Out {
        return (Stamps::User, notes);
    }
    if want != Stamps::User
        && let Err(e) = setsockopt(&socket, sockopt::Timestamping, &flags(want, way))
    {
        notes.push(format!("no kernel stamps ({}): user stamps instead", e.desc()));
        want = Stamps::User;
    }
    (want, notes)
}

/// Has the adapter behind `local` stamp everything it sends and receives.
pub(crate) fn enable_adapter(socket: BorrowedFd<'_>, local: IpAddr) -> Result<(), String> {
    let interfaces = nix::ifaddrs::getifaddrs().map_err(|e| e.desc().to_owned())?;
    let ours = |a: &nix::ifaddrs::InterfaceAddress| {
        a.address.is_some_and(|s| match local {
            IpAddr::V4(ip) => s.as_sockaddr_in().is_some_and(|s| s.ip() == ip),
            IpAddr::V6(ip) => s.as_sockaddr_in6().is_some_and(|s| s.ip() == ip),
        })
    };
    let name = interfaces.into_iter().find(ours).map(|a| a.interface_name);
    let name = name.ok_or_else(|| format!("no interface has address {local}"))?;
    sys::stamp_in_hardware(socket, &name).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => format!("{name}: {}", needs(Capability::NetAdmin)),
        _ => format!("{name}: {e}"),
    })
}

/// What the control messages of a received datagram say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// When the network stack, or the adapter, received it.
    pub stamp: Option<Stamp>,
    /// Time to live or hop limit.
    pub ttl: Option<u8>,
    /// The TOS / traffic-class octet.
    pub traffic_class: Option<u8>,
    /// Datagrams dropped at this socket so far for want of room (32-bit, wraps).
    pub drops: Option<u32>,
}

impl Meta {
    /// Reads control messages in the kernel's layout. Anything unknown or cut short is skipped.
    #[inline]
    pub fn parse(control: &[u8]) -> Meta {
        let mut meta = Meta::default();
        for message in ControlMessages(control) {
            match (message.level, message.kind) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => meta.stamp = received_stamp(message.data),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    meta.drops = message.data.first_chunk().map(|b| u32::from_ne_bytes(*b));
                }
                // The kernel writes TOS as one byte and the others as an int.
                (libc::IPPROTO_IP, libc::IP_TOS) => meta.traffic_class = message.data.first().copied(),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    meta.ttl = int_octet(message.data);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => meta.traffic_class = int_octet(message.data),
                _ => {}
            }
        }
        meta
    }
}

fn int_octet(data: &[u8]) -> Option<u8> {
    data.first_chunk().and_then(|b| u8::try_from(c_int::from_ne_bytes(*b)).ok())
}

/// The three instants of an `SCM_TIMESTAMPING` message: software, (unused), raw hardware. The first is the only
/// one of an `SCM_TIMESTAMPNS` message.
pub(crate) fn instants(data: &[u8]) -> [Option<WallTime>; 3] {
    const LONG: usize = size_of::<c_long>();
    let long = |i: usize| -> Option<i64> {
        let bytes = data.get(i * LONG..)?.first_chunk()?;
        Some(c_long::from_ne_bytes(*bytes))
    };
    [0, 1, 2].map(|i| {
        let (s, ns) = (long(2 * i)?, long(2 * i + 1)?);
        (s != 0 || ns != 0).then(|| WallTime(s.saturating_mul(SECOND).saturating_add(ns)))
    })
}

fn received_stamp(data: &[u8]) -> Option<Stamp> {
    let [software, _, hardware] = instants(data);
    match (software, hardware) {
        (Some(system), Some(adapter)) => match on_system_clock(adapter, system) {
            Some(at) => Some(Stamp { at, source: Source::Hardware }),
            None => Some(Stamp { at: system, source: Source::Kernel }),
        },
        (Some(at), None) => Some(Stamp { at, source: Source::Kernel }),
        // With nothing to compare it with, an adapter's clock cannot be trusted to be the system's.
        (None, _) => None,
    }
}

/// TAI − UTC since 2017. Adapters disciplined by PTP usually show TAI.
const TAI_OFFSET: Span = Span::seconds(37);

/// An adapter's reading as an instant of the system's clock, if it is kept to UTC or TAI: within half a
/// second of the kernel's own stamp.
pub(crate) fn on_system_clock(adapter: WallTime, system: WallTime) -> Option<WallTime> {
    [adapter, adapter - TAI_OFFSET].into_iter().find(|a| (*a - system).0.abs() < SECOND / 2)
}

pub(crate) struct ControlMessage<'a> {
    pub level: c_int,
    pub kind: c_int,
    pub data: &'a [u8],
}

/// Walks control messages: a header of length, level and kind, then data, aligned to a word.
pub(crate) struct ControlMessages<'a>(pub &'a [u8]);

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    #[inline]
    fn next(&mut self) -> Option<ControlMessage<'a>> {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        const WORD: usize = size_of::<usize>();
        let int = |at: usize| self.0.get(at..)?.first_chunk().map(|b| c_int::from_ne_bytes(*b));
        let length = usize::from_ne_bytes(*self.0.first_chunk()?);
        let (level, kind) = (int(HEADER - 8)?, int(HEADER - 4)?);
        let data = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some(ControlMessage { level, kind, data })
    }
}

/// Of a packet socket: what the IP levels call `…_RECVERR`.
const PACKET_TX_TIMESTAMP: c_int = 16;

/// The packet number and stamp of an error queue's entry that reports a transmission.
pub(crate) fn transmitted(control: &[u8]) -> Option<(u32, Stamp)> {
    let mut stamp = None;
    let mut id = None;
    for message in ControlMessages(control) {
        match (message.level, message.kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                let [software, _, hardware] = instants(message.data);
                let software = software.map(|at| Stamp { at, source: Source::Kernel });
                stamp = software.or(hardware.map(|at| Stamp { at, source: Source::Hardware }));
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => {
                id = transmission_id(message.data);
            }
            _ => {}
        }
    }
    id.zip(stamp)
}

/// `ee_data` of a `sock_extended_err` whose origin is stamping and whose kind is "left the stack".
fn transmission_id(extended_error: &[u8]) -> Option<u32> {
    const SENT: u32 = 0;
    let [_, _, _, _, origin, _, _, _, info @ .., d0, d1, d2, d3] = extended_error.first_chunk::<16>()?;
    let stamping = *origin == libc::SO_EE_ORIGIN_TIMESTAMPING && u32::from_ne_bytes(*info) == SENT;
    stamping.then(|| u32::from_ne_bytes([*d0, *d1, *d2, *d3]))
}

/// Readings remembered while their stamps are under way: far more than a device queue holds.
const UNDER_WAY: usize = 1 << 13;
/// Stamps in a row that cannot be of the packets they name before the numbering is started afresh.
const DISBELIEF: u32 = 8;
/// Memory for so many stamps is taken before the stream; a longer stream grows it now and then.
const RESERVED: u32 = 1 << 20;

/// Joins transmit stamps to the packets of one stream. Used by the thread that sends, between packets.
pub struct TxStamps {
    want: Stamps,
    inbox: Inbox,
    /// The program's readings of the last [`UNDER_WAY`] packets, by sequence number.
    readings: Box<[i64]>,
    /// Sequence number of the packet that the kernel counts as 0.
    base: u32,
    /// Sequence number of the next packet.
    next: u32,
    /// Stamps that came back since the last restart.
    returned: u32,
    /// Stamps in a row that were not believed.
    disbelieved: u32,
    working: bool,
    kernel: SentStamps,
    hardware: SentStamps,
}

impl TxStamps {
    /// For a stream of `packets` whose socket's stamping was [enabled](enable) for [`Way::Out`].
    pub fn new(want: Stamps, packets: u32) -> TxStamps {
        let mut stamps = TxStamps {
            want,
            inbox: Inbox::new(BATCH, 1),
            readings: vec![0; UNDER_WAY].into(),
            base: 0,
            next: 0,
            returned: 0,
            disbelieved: 0,
            working: want != Stamps::User,
            kernel: SentStamps::new(Source::Kernel),
            hardware: SentStamps::new(Source::Hardware),
        };
        let reserved = packets.min(RESERVED) as usize;
        if want != Stamps::User {
            stamps.kernel.reserve(reserved);
        }
        if want == Stamps::Hardware {
            stamps.hardware.reserve(reserved);
        }
        stamps
    }

    /// Has the kernel count packet `next` as its first: before the stream, and after a failed send.
    /// Stamps that have not come back by then are given up, since their numbers would mean other packets.
    pub fn restart(&mut self, socket: impl AsFd, next: u32) {
        if self.want == Stamps::User {
            return;
        }
        let socket = socket.as_fd();
        while self.collect(socket) > 0 {}
        let all = flags(self.want, Way::Out);
        let off = all - TimestampingFlag::SOF_TIMESTAMPING_OPT_ID;
        self.working = setsockopt(&socket, sockopt::Timestamping, &off).is_ok()
            && setsockopt(&socket, sockopt::Timestamping, &all).is_ok();
        self.base = next;
        self.next = next;
        self.returned = 0;
        self.disbelieved = 0;
    }

    /// Notes that the next packet was handed over, and when the program had read the clock.
    #[inline]
    pub fn sent(&mut self, reading: WallTime) {
        self.readings[self.next as usize % UNDER_WAY] = reading.0;
        self.next += 1;
    }

    /// Packets whose stamps have not come back.
    #[inline]
    pub fn awaited(&self) -> u32 {
        if self.working { (self.next - self.base).saturating_sub(self.returned) } else { 0 }
    }

    /// Whether stamps come back that cannot be of the packets they name: the numbering has shifted.
    #[inline]
    pub fn is_suspect(&self) -> bool {
        self.disbelieved >= DISBELIEF
    }

    /// Takes one batch of stamps from the error queue, without waiting, and returns how many entries
    /// it held.
    pub fn collect(&mut self, socket: impl AsFd) -> usize {
        let Ok(count) = self.inbox.receive(socket.as_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) else {
            return 0;
        };
        for (id, Stamp { at, source }) in self.inbox.datagrams().filter_map(|d| transmitted(d.control)) {
            let Some(seq) = self.base.checked_add(id).filter(|s| *s < self.next) else { continue };
            if source == Source::Kernel {
                self.returned = self.returned.saturating_add(1);
            }
            if (self.next - seq) as usize > UNDER_WAY {
                continue;
            }
            let reading = WallTime(self.readings[seq as usize % UNDER_WAY]);
            match source {
                Source::Hardware => {
                    if let Some(at) = on_system_clock(at, reading) {
                        self.hardware.set(seq, at);
                    }
                }
                // A packet cannot leave before it was handed over: such a stamp is another's, or the
                // clock was set back in between.
                _ if at < reading => self.disbelieved += 1,
                _ => {
                    self.disbelieved = 0;
                    self.kernel.set(seq, at);
                }
            }
        }
        count
    }

    /// The stamps that came back, of one source: the adapter's where they cover the stream as the
    /// kernel's do. The note says what had to be reduced.
    pub fn finish(self) -> (Option<SentStamps>, Option<String>) {
        let (kernel, hardware) = (self.kernel.known(), self.hardware.known());
        if hardware > 0 && hardware >= kernel {
            return (Some(self.hardware), None);
        }
        let note = (self.want == Stamps::Hardware && kernel > 0).then(|| {
            format!(
                "the adapter stamped {hardware} of {kernel} sent packets on the system's clock: kernel stamps"
            )
        });
        ((kernel > 0).then_some(self.kernel), note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::wall;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::net::UdpSocket;

    #[test]
    fn control_messages_of_any_shape_are_survived() {
        for length in 0..80usize {
            let mut bytes = vec![0xff; 64];
            Meta::parse(&bytes);
            bytes[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Meta::parse(&bytes), Meta::default());
            assert_eq!(transmitted(&bytes), None);
            assert_eq!(Meta::parse(&bytes[..length.min(64)]), Meta::default());
        }
        assert_eq!(Meta::parse(&[]), Meta::default());
    }

    #[test]
    fn an_adapter_on_tai_or_utc_is_believed_and_no_other() {
        let now = WallTime(1_800_000_000 * SECOND);
        assert_eq!(on_system_clock(now + Span(900), now), Some(now + Span(900)));
        assert_eq!(on_system_clock(now + Span::seconds(37), now), Some(now));
        assert_eq!(on_system_clock(now + Span::seconds(5), now), None);
        assert_eq!(on_system_clock(WallTime(12), now), None);
    }

    #[test]
    fn transmit_stamps_find_their_packets_across_a_restart() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let local = from.local_addr().unwrap().ip();
        assert_eq!(enable(from.as_fd(), local, Stamps::Kernel, Way::Out), (Stamps::Kernel, vec![]));
        from.send(b"not part of the stream").unwrap();
        let mut stamps = TxStamps::new(Stamps::Kernel, 10);
        stamps.restart(&from, 0);
        let mut readings = Vec::new();
        for round in 0..3 {
            for _ in 0..40 {
                let reading = wall();
                from.send(b"x").unwrap();
                stamps.sent(reading);
                readings.push(reading);
            }
            while stamps.awaited() > 0 {
                let mut queue = [PollFd::new(from.as_fd(), PollFlags::empty())];
                assert!(poll(&mut queue, PollTimeout::from(2000u16)).unwrap() > 0, "round {round}");
                stamps.collect(&from);
            }
            from.send(b"a packet that the numbering does not know").unwrap();
            stamps.restart(&from, 40 * (round + 1));
        }
        let (Some(stamps), None) = stamps.finish() else { panic!("stamps were expected") };
        assert_eq!((stamps.known(), stamps.source()), (120, Source::Kernel));
        let in_order = |i: usize| {
            let left = stamps.get(i as i64).unwrap();
            left >= readings[i] && readings.get(i + 1).is_none_or(|next| left < *next)
        };
        assert!((0..120).all(in_order), "on loopback a packet has left when send returns");
    }
}
