//! Kernel and hardware stamps (`SO_TIMESTAMPING`): setting them up, reading them from control messages,
//! and joining transmit stamps, which come back later through the socket's error queue, to the packets
//! they belong to.
//!
//! Two pitfalls shape this file. The kernel switches receive stamping on from a work queue, so the
//! first packets after set-up may lack a stamp: sockets are prepared well before their stream, and
//! every record says where its stamps came from. And a transmit stamp names its packet by a counter of
//! *successful* submissions (`OPT_ID`), so one failed send would shift all later ones: after any
//! failure the counter is started afresh ([`TxStamps::restart`]).

use crate::sys::{BATCH, Inbox};
use jitlat_core::time::{Nanos, SECOND, Source, Span, Stamp};
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use std::ffi::{c_int, c_long};
use std::os::fd::{AsFd, BorrowedFd};

/// Which stamps a user wants at most. What a path cannot give falls back to the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamps {
    /// The program's own readings only.
    User,
    /// The kernel's, in software.
    #[default]
    Kernel,
    /// The network adapter's, where its clock agrees with the system's.
    Hardware,
}

impl std::str::FromStr for Stamps {
    type Err = String;

    fn from_str(s: &str) -> Result<Stamps, String> {
        match s {
            "user" => Ok(Stamps::User),
            "kernel" => Ok(Stamps::Kernel),
            "hardware" => Ok(Stamps::Hardware),
            _ => Err(format!("'{s}' is not a source of stamps: give user, kernel or hardware")),
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

/// Has the kernel stamp what `socket` sends or receives. On failure the stream is stamped by the
/// program alone, and the note says why.
pub fn enable(socket: BorrowedFd<'_>, want: Stamps, way: Way) -> Result<(), String> {
    if want == Stamps::User {
        return Ok(());
    }
    setsockopt(&socket, sockopt::Timestamping, &flags(want, way))
        .map_err(|e| format!("no kernel stamps ({}): user stamps instead", e.desc()))
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

/// The three instants of an `SCM_TIMESTAMPING` message: software, (unused), raw hardware.
fn instants(data: &[u8]) -> [Option<Nanos>; 3] {
    const LONG: usize = size_of::<c_long>();
    let long = |i: usize| -> Option<i64> {
        let bytes = data.get(i * LONG..)?.first_chunk()?;
        Some(i64::from(c_long::from_ne_bytes(*bytes)))
    };
    [0, 1, 2].map(|i| {
        let (s, ns) = (long(2 * i)?, long(2 * i + 1)?);
        (s != 0 || ns != 0).then(|| Nanos(s.saturating_mul(SECOND).saturating_add(ns)))
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
fn on_system_clock(adapter: Nanos, system: Nanos) -> Option<Nanos> {
    [adapter, adapter - TAI_OFFSET].into_iter().find(|a| (*a - system).0.abs() < SECOND / 2)
}

struct ControlMessage<'a> {
    level: c_int,
    kind: c_int,
    data: &'a [u8],
}

/// Walks control messages: a header of length, level and kind, then data, aligned to a word.
struct ControlMessages<'a>(&'a [u8]);

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

/// One entry of a socket's error queue that reports a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transmitted {
    id: u32,
    stamp: Stamp,
    /// The software stamp, where `stamp` is the adapter's own reading on its own clock.
    raw_hardware: bool,
}

fn transmitted(control: &[u8]) -> Option<Transmitted> {
    let mut instant = None;
    let mut id = None;
    for message in ControlMessages(control) {
        match (message.level, message.kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                let [software, _, hardware] = instants(message.data);
                instant = software.map(|at| (at, Source::Kernel)).or(hardware.map(|at| (at, Source::Hardware)));
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                id = transmission_id(message.data);
            }
            _ => {}
        }
    }
    let ((at, source), id) = (instant?, id?);
    Some(Transmitted { id, stamp: Stamp { at, source }, raw_hardware: source == Source::Hardware })
}

/// `ee_data` of a `sock_extended_err` whose origin is stamping and whose kind is "left the stack".
fn transmission_id(extended_error: &[u8]) -> Option<u32> {
    const SENT: u32 = 0;
    let [_, _, _, _, origin, _, _, _, info @ .., d0, d1, d2, d3] = extended_error.first_chunk::<16>()?;
    let stamping = *origin == libc::SO_EE_ORIGIN_TIMESTAMPING && u32::from_ne_bytes(*info) == SENT;
    stamping.then(|| u32::from_ne_bytes([*d0, *d1, *d2, *d3]))
}

/// A packet's transmit stamp: how long after the program read the clock it left, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendStamp {
    /// The packet.
    pub seq: u32,
    /// Stamp − user reading.
    pub lag: Span,
    /// Kernel or hardware.
    pub source: Source,
}

/// Readings remembered while their stamps are under way: far more than a device queue holds.
const UNDER_WAY: usize = 1 << 13;

/// Joins transmit stamps to the packets of one stream. Used by the thread that sends, between packets.
pub struct TxStamps {
    want: Stamps,
    inbox: Inbox,
    /// The program's readings of the last [`UNDER_WAY`] packets, by sequence number.
    readings: Box<[i64; UNDER_WAY]>,
    /// Sequence number of the packet that the kernel counts as 0.
    base: u32,
    /// Packets sent since the start of the stream.
    sent: u32,
    /// Stamps that came back since the last restart.
    returned: u32,
    working: bool,
}

impl TxStamps {
    /// For a stream whose socket stamping was [enabled](enable) for [`Way::Out`].
    pub fn new(want: Stamps) -> TxStamps {
        let readings = vec![0; UNDER_WAY].into_boxed_slice();
        TxStamps {
            want,
            inbox: Inbox::new(BATCH, 1),
            readings: readings.try_into().unwrap_or_else(|_| Box::new([0; UNDER_WAY])),
            base: 0,
            sent: 0,
            returned: 0,
            working: want != Stamps::User,
        }
    }

    /// Starts numbering at the next packet: before the stream, and after a failed send. Stamps still
    /// under way are given up, since their numbers would mean other packets now.
    pub fn restart(&mut self, socket: impl AsFd) {
        if self.want == Stamps::User {
            return;
        }
        let socket = socket.as_fd();
        while self.inbox.receive(socket, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok_and(|n| n > 0) {}
        let all = flags(self.want, Way::Out);
        let off = setsockopt(&socket, sockopt::Timestamping, &(all - TimestampingFlag::SOF_TIMESTAMPING_OPT_ID));
        let on = setsockopt(&socket, sockopt::Timestamping, &all);
        self.working = off.is_ok() && on.is_ok();
        self.base = self.sent;
        self.returned = 0;
    }

    /// Notes that the next packet was handed over, and when the program had read the clock.
    #[inline]
    pub fn sent(&mut self, reading: Nanos) {
        self.readings[self.sent as usize % UNDER_WAY] = reading.0;
        self.sent += 1;
    }

    /// Packets whose stamps have not come back.
    #[inline]
    pub fn awaited(&self) -> u32 {
        if self.working { (self.sent - self.base).saturating_sub(self.returned) } else { 0 }
    }

    /// Takes one batch of stamps from the error queue, without waiting, and returns how many entries
    /// it held.
    pub fn collect(&mut self, socket: impl AsFd, mut each: impl FnMut(SendStamp)) -> usize {
        let Ok(count) = self.inbox.receive(socket.as_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) else {
            return 0;
        };
        for report in self.inbox.datagrams().filter_map(|d| transmitted(d.control)) {
            let Some(seq) = self.base.checked_add(report.id).filter(|s| *s < self.sent) else { continue };
            if (self.sent - seq) as usize > UNDER_WAY {
                continue;
            }
            let reading = Nanos(self.readings[seq as usize % UNDER_WAY]);
            let at = match report.raw_hardware {
                true => on_system_clock(report.stamp.at, reading),
                false => Some(report.stamp.at),
            };
            // A packet cannot leave before it was sent: such a stamp is of an earlier numbering, or the
            // clock was set back in between.
            let lag = at.map(|at| at - reading).filter(|lag| lag.0 >= 0 || report.raw_hardware);
            if let Some(lag) = lag {
                each(SendStamp { seq, lag, source: report.stamp.source });
            }
            self.returned = self.returned.saturating_add(1);
        }
        count
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
        let now = Nanos(1_800_000_000 * SECOND);
        assert_eq!(on_system_clock(now + Span(900), now), Some(now + Span(900)));
        assert_eq!(on_system_clock(now + Span::seconds(37), now), Some(now));
        assert_eq!(on_system_clock(now + Span::seconds(5), now), None);
        assert_eq!(on_system_clock(Nanos(12), now), None);
    }

    #[test]
    fn transmit_stamps_find_their_packets_across_a_restart() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        enable(from.as_fd(), Stamps::Kernel, Way::Out).unwrap();
        from.send(b"not part of the stream").unwrap();
        let mut stamps = TxStamps::new(Stamps::Kernel);
        stamps.restart(&from);
        let mut seen = Vec::new();
        for round in 0..3 {
            for _ in 0..40 {
                let reading = wall();
                from.send(b"x").unwrap();
                stamps.sent(reading);
            }
            while stamps.awaited() > 0 {
                let mut queue = [PollFd::new(from.as_fd(), PollFlags::empty())];
                assert!(poll(&mut queue, PollTimeout::from(2000u16)).unwrap() > 0, "round {round}");
                stamps.collect(&from, |s| seen.push(s));
            }
            from.send(b"a packet that the numbering does not know").unwrap();
            stamps.restart(&from);
        }
        let seqs: Vec<u32> = seen.iter().map(|s| s.seq).collect();
        assert_eq!(seqs, (0..120).collect::<Vec<u32>>());
        assert!(seen.iter().all(|s| s.source == Source::Kernel && (0..SECOND).contains(&s.lag.0)));
    }
}
