//! [`TransmitMatcher`]: matches transmit stamps to their packets.
//!
//! A transmit stamp arrives in the socket's error queue with a packet number: the kernel counts the packets
//! that it is asked to stamp (`OPT_ID`). A packet can have two stamps: one on entering the queue of its
//! interface, one on leaving it. After a failed send it is unknown whether the kernel counted that packet, so
//! the numbering is restarted ([`TransmitMatcher::restart`]).

use crate::cmsg::{Passage, TransmitStamp, on_system_clock};
use crate::sys::{self, AsFd, Inbox, MAX_BATCH, ReceiveMode, StampFlags};
use jitlat_core::time::{Stamp, StampSource, WallTime};
use std::io;

/// Maximum number of packets waiting for their stamps: far more than an interface queue holds.
pub(crate) const MAX_AWAITED: usize = 1 << 13;
/// Number of consecutive impossible stamps after which the numbering is assumed to be wrong.
const MAX_MISMATCHES: u32 = 8;

/// Matches transmit stamps to packets; `P` identifies a packet. Used by the sending thread.
pub struct TransmitMatcher<P> {
    inbox: Inbox,
    /// Latest packets, indexed by the kernel's number modulo the capacity.
    packets: Box<[Option<AwaitedPacket<P>>]>,
    last: StampSource,
    /// Number that the kernel will give to the next packet.
    next: u32,
    /// Number of packets in [`Self::packets`] that are waiting for a stamp.
    awaited: u32,
    /// Lowest number that is still awaited; packets with lower numbers have been stamped or given up.
    oldest: u32,
    /// Number of consecutive stamps that were rejected.
    rejected: u32,
    /// Number of packets that were not sent because their launch time had passed.
    missed: u32,
}

#[derive(Clone, Copy)]
struct AwaitedPacket<P> {
    what: P,
    /// Reading of the clock before this program sent the packet.
    reading: WallTime,
    state: StampState,
    /// True once the packet's entry into a queue has been stamped. Stacked interfaces cause several such
    /// stamps; only the first counts.
    queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StampState {
    Awaited,
    Stamped,
    GivenUp,
}

impl<P: Copy> TransmitMatcher<P> {
    /// Creates a matcher for a socket on which transmit stamps have been enabled, and which has sent no
    /// packet since. The matcher stores the last `capacity` packets, rounded up to a power of two. A packet
    /// is awaited until its departure stamp from the source `last` has arrived; an adapter's stamp arrives
    /// after the kernel's.
    pub fn new(capacity: usize, last: StampSource) -> TransmitMatcher<P> {
        TransmitMatcher {
            // One byte per slot is enough, because the stamps are in the control messages.
            inbox: Inbox::new(MAX_BATCH, 1).without_senders(),
            packets: vec![None; capacity.next_power_of_two()].into(),
            last,
            next: 0,
            awaited: 0,
            oldest: 0,
            rejected: 0,
            missed: 0,
        }
    }

    /// Returns the number of packets that were not sent because their launch time had passed, according to
    /// the error queue.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// Makes the kernel restart its numbering at 0. Calls `each` with the stamps that have arrived so far,
    /// and with the packets without a stamp, which are given up because their numbers will be reused. `flags`
    /// are the stamping options of the socket.
    ///
    /// # Errors
    /// The system rejects `flags`; no stamps will arrive in this case.
    pub fn restart(
        &mut self,
        socket: impl AsFd,
        flags: StampFlags,
        mut each: impl FnMut(P, Option<(Passage, Stamp)>),
    ) -> io::Result<()> {
        let socket = socket.as_fd();
        while self.collect(socket, |what, passage, stamp| each(what, Some((passage, stamp)))) > 0 {}
        self.give_up_before(WallTime(i64::MAX), |what| each(what, None));
        (self.next, self.awaited, self.oldest, self.rejected) = (0, 0, 0, 0);
        sys::restart_stamps(&socket, flags)
    }

    /// Records that the kernel accepted a packet for stamping; `reading` is the clock reading before the packet was
    /// sent.
    #[inline]
    pub fn sent(&mut self, what: P, reading: WallTime) {
        let capacity = self.packets.len();
        let slot = &mut self.packets[self.next as usize & (capacity - 1)];
        let forgotten =
            slot.replace(AwaitedPacket { what, reading, state: StampState::Awaited, queued: false });
        // A packet that is overwritten without a stamp is no longer awaited.
        if forgotten.is_none_or(|p| p.state != StampState::Awaited) {
            self.awaited += 1;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Returns the number of packets whose stamps have not arrived.
    #[inline]
    pub fn awaited(&self) -> u32 {
        self.awaited
    }

    /// Gives up waiting for stamps of packets sent before `reading`, and calls `each` with these packets in
    /// send order.
    pub(crate) fn give_up_before(&mut self, reading: WallTime, mut each: impl FnMut(P)) {
        let capacity = self.packets.len();
        if self.next.wrapping_sub(self.oldest) as usize > capacity {
            self.oldest = self.next.wrapping_sub(capacity as u32);
        }
        while self.awaited > 0 && self.oldest != self.next {
            let packet = &mut self.packets[self.oldest as usize & (capacity - 1)];
            if let Some(p) = packet.as_mut().filter(|p| p.state == StampState::Awaited) {
                if p.reading >= reading {
                    return;
                }
                p.state = StampState::GivenUp;
                self.awaited -= 1;
                each(p.what);
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// True if [`MAX_MISMATCHES`] consecutive stamps were impossible, so that the numbering is probably
    /// wrong.
    #[inline]
    pub(crate) fn is_suspect(&self) -> bool {
        self.rejected >= MAX_MISMATCHES
    }

    /// Reads one batch of stamps from the error queue without blocking; returns the number of entries read.
    pub fn collect(&mut self, socket: impl AsFd, mut each: impl FnMut(P, Passage, Stamp)) -> usize {
        let Ok(count) = self.inbox.receive(socket.as_fd(), ReceiveMode::ErrorQueue) else {
            return 0;
        };
        // Copied first: `find` needs all of `self` while the datagrams borrow the inbox.
        let mut batch = [None; MAX_BATCH];
        for (entry, datagram) in batch.iter_mut().zip(self.inbox.datagrams()) {
            *entry = datagram.transmit_stamp();
            self.missed += u32::from(entry.is_none() && datagram.is_launch_missed());
        }
        for found in batch.into_iter().flatten() {
            if let Some((what, stamp)) = self.find(found) {
                each(what, found.passage, stamp);
            }
        }
        count
    }

    /// Returns the stamped packet, and the stamp converted to the system clock; `None` if the packet is
    /// unknown or was given up, or if the stamp is impossible.
    fn find(&mut self, found: TransmitStamp) -> Option<(P, Stamp)> {
        let capacity = self.packets.len();
        let TransmitStamp { number, passage, stamp } = found;
        // The number was not assigned yet, or its slot has been reused for a later packet.
        if self.next.wrapping_sub(number).wrapping_sub(1) as usize >= capacity {
            return None;
        }
        let packet = self.packets[number as usize & (capacity - 1)].as_mut()?;
        let at = match stamp.source {
            // An adapter's stamp is used only if it can be converted to the system clock.
            StampSource::Hardware => on_system_clock(stamp.at, packet.reading),
            // A packet cannot leave before it is sent: the stamp belongs to another packet, or the clock was
            // set back in between.
            _ if stamp.at < packet.reading => {
                self.rejected += 1;
                None
            }
            _ => {
                self.rejected = 0;
                Some(stamp.at)
            }
        };
        match (packet.state, passage) {
            (StampState::GivenUp, _) => return None,
            (_, Passage::Queued) if std::mem::replace(&mut packet.queued, true) => return None,
            (StampState::Awaited, Passage::Left) if stamp.source == self.last => {
                packet.state = StampState::Stamped;
                self.awaited -= 1;
            }
            _ => {}
        }
        Some((packet.what, Stamp { at: at?, ..stamp }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::wall;
    use crate::stamp::{StampMode, StampedPackets, enable};
    use jitlat_core::Span;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(10);

    fn pair() -> (UdpSocket, UdpSocket) {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        (from, to)
    }

    fn collect_all<P: Copy>(
        departures: &mut TransmitMatcher<P>,
        socket: &UdpSocket,
        mut each: impl FnMut(P, Passage, Stamp),
    ) {
        let until = Instant::now() + LIMIT;
        while departures.awaited() > 0 {
            assert!(Instant::now() < until, "{} stamps did not come", departures.awaited());
            departures.collect(socket, &mut each);
        }
    }

    #[test]
    fn stamps_find_their_packets_across_a_restart() {
        let (from, _to) = pair();
        let local = from.local_addr().unwrap().ip();
        let (stamps, notes) = enable(from.as_fd(), local, StampMode::Kernel, StampedPackets::SENT);
        assert_eq!((stamps, notes), (StampMode::Kernel, vec![]));
        from.send(b"not part of the stream").unwrap();
        let mut departures = TransmitMatcher::new(16, StampSource::Kernel);
        let (mut readings, mut stamped) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            departures.restart(&from, sys::stamp_flags(stamps, StampedPackets::SENT), |_, _| {}).unwrap();
            for _ in 0..40 {
                readings.push(wall());
                from.send(b"x").unwrap();
                departures.sent(readings.len() - 1, readings[readings.len() - 1]);
                // Collect before the oldest packet would be overwritten: the capacity is 16.
                if departures.awaited() >= 8 {
                    collect_all(&mut departures, &from, |i, passage, stamp| {
                        stamped.push((i, passage, stamp.at));
                    });
                }
            }
            collect_all(&mut departures, &from, |i, passage, stamp| stamped.push((i, passage, stamp.at)));
            from.send(b"a packet that the numbering does not know").unwrap();
        }
        let of = |which: Passage| stamped.iter().filter(move |(_, passage, _)| *passage == which);
        for passage in [Passage::Queued, Passage::Left] {
            assert_eq!(of(passage).map(|(i, ..)| *i).collect::<Vec<_>>(), Vec::from_iter(0..120));
        }
        let in_order = |&(i, _, at): &(usize, Passage, WallTime)| {
            at >= readings[i] && readings.get(i + 1).is_none_or(|next| at < *next)
        };
        assert!(stamped.iter().all(in_order), "on loopback a packet has left when send returns");
        let entered_first =
            of(Passage::Queued).zip(of(Passage::Left)).all(|(entered, left)| entered.2 <= left.2);
        assert!(entered_first, "a packet enters the queue before it leaves it");
    }

    #[test]
    fn what_is_given_up_or_forgotten_is_no_longer_awaited() {
        let (socket, _) = pair();
        let mut departures = TransmitMatcher::new(4, StampSource::Kernel);
        (0..6).for_each(|i| departures.sent(i, WallTime(i)));
        assert_eq!(departures.awaited(), 4, "two made room");
        let mut given_up = Vec::new();
        departures.give_up_before(WallTime(4), |i| given_up.push(i));
        assert_eq!((&given_up[..], departures.awaited()), (&[2, 3][..], 2));
        departures.give_up_before(WallTime(9), |i| given_up.push(i));
        assert_eq!((&given_up[..], departures.awaited()), (&[2, 3, 4, 5][..], 0));
        assert_eq!(departures.collect(&socket, |_, _, _| unreachable!("nothing was sent")), 0);
    }

    #[test]
    fn a_stamp_from_before_the_packet_was_handed_over_is_not_believed() {
        let (from, _to) = pair();
        let local = from.local_addr().unwrap().ip();
        enable(from.as_fd(), local, StampMode::Kernel, StampedPackets::SENT);
        let mut departures = TransmitMatcher::new(16, StampSource::Kernel);
        departures
            .restart(&from, sys::stamp_flags(StampMode::Kernel, StampedPackets::SENT), |_, _| {})
            .unwrap();
        // Each packet has two stamps: one on entering the queue, one on leaving it.
        for i in 0..MAX_MISMATCHES / 2 {
            assert!(!departures.is_suspect());
            from.send(b"x").unwrap();
            departures.sent(i, wall() + Span::seconds(5));
            collect_all(&mut departures, &from, |_, _, _| panic!("believed"));
        }
        assert!(departures.is_suspect());
    }

    /// Builds an error-queue entry: packet `number` was stamped at the point `passage` at time `at`.
    fn entry(number: u32, passage: Passage, at: i64) -> TransmitStamp {
        TransmitStamp { number, passage, stamp: Stamp { at: WallTime(at), source: StampSource::Kernel } }
    }

    #[test]
    fn entries_that_are_lost_or_out_of_order_cost_only_themselves() {
        use Passage::{Left, Queued};
        let mut departures = TransmitMatcher::new(8, StampSource::Kernel);
        (0..4).for_each(|i| departures.sent(i, WallTime(100 * i)));
        let mut found =
            |number, passage, at| departures.find(entry(number, passage, at)).map(|(i, s)| (i, s.at.0));
        // Packet 0: both stamps, the later one first. 1: the entry stamp is lost. 2: never left. 3: stacked
        // interfaces.
        assert_eq!(found(0, Left, 20), Some((0, 20)));
        assert_eq!(found(0, Queued, 10), Some((0, 10)));
        assert_eq!(found(1, Left, 120), Some((1, 120)));
        assert_eq!(found(2, Queued, 210), Some((2, 210)));
        assert_eq!(found(3, Queued, 310), Some((3, 310)));
        assert_eq!(found(3, Queued, 315), None, "the first queue is where the host's own delay begins");
        assert_eq!(found(3, Left, 320), Some((3, 320)));
        assert_eq!(found(4, Queued, 410), None, "it was not sent");
        assert_eq!(departures.awaited(), 1, "only leaving is waited for");
        let mut given_up = Vec::new();
        departures.give_up_before(WallTime(900), |i| given_up.push(i));
        assert_eq!(given_up, [2]);
        assert_eq!(departures.find(entry(2, Left, 950)), None);
    }

    #[test]
    fn numbers_wrap_and_those_of_forgotten_packets_are_not_taken_for_others() {
        use Passage::{Left, Queued};
        let mut departures = TransmitMatcher::new(4, StampSource::Kernel);
        departures.next = u32::MAX - 1;
        departures.oldest = departures.next;
        (0..6).for_each(|i| departures.sent(i, WallTime(0)));
        let mut found = |number, passage| departures.find(entry(number, passage, 1)).map(|(i, _)| i);
        assert_eq!(
            [u32::MAX - 1, u32::MAX].map(|number| found(number, Queued)),
            [None, None],
            "four are kept"
        );
        for passage in [Queued, Left] {
            assert_eq!([0, 1, 2, 3].map(|number| found(number, passage)), [2, 3, 4, 5].map(Some));
        }
        assert_eq!(found(4, Queued), None);
        assert_eq!(departures.awaited(), 0);
    }
}
