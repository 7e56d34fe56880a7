//! [`Departures`]: when sent packets left this host, joined to the packets they are of.
//!
//! A transmit stamp comes back through the socket's error queue and names its packet by a number: the kernel counts
//! the packets it was to stamp (`OPT_ID`). It counts what it accepted, and after a failure nobody knows whether it
//! had counted that packet: the numbering is then started afresh ([`Departures::restart`]).

use crate::cmsg::{departure, on_system_clock};
use crate::sys::{BATCH, Inbox};
use jitlat_core::time::{Source, Stamp, WallTime};
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use std::os::fd::AsFd;

/// Packets that may be remembered while their stamps are under way: far more than a device queue holds.
pub(crate) const UNDER_WAY: usize = 1 << 13;
/// Stamps in a row that cannot be of the packets they name before the numbering is suspect.
const DISBELIEF: u32 = 8;

/// Joins transmit stamps to packets, of which `P` says what each was. Used by the thread that sends.
pub struct Departures<P> {
    inbox: Inbox,
    /// The last packets, by the kernel's number.
    packets: Box<[Option<Packet<P>>]>,
    last: Source,
    /// The number the kernel gives the next packet.
    next: u32,
    /// Packets among [`Self::packets`] without a stamp, and a number below which there are none.
    awaited: u32,
    oldest: u32,
    /// Stamps in a row that were not believed.
    disbelieved: u32,
}

#[derive(Clone, Copy)]
struct Packet<P> {
    what: P,
    /// The program's reading of the clock before it handed the packet over.
    reading: WallTime,
    state: StampState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StampState {
    Awaited,
    Stamped,
    GivenUp,
}

impl<P: Copy> Departures<P> {
    /// For a socket that has been asked for stamps and has not sent anything since. The last `capacity` packets are
    /// remembered, rounded up to a power of two; each is awaited until its stamp of `last` has come (an adapter's
    /// comes after the kernel's).
    pub fn new(capacity: usize, last: Source) -> Departures<P> {
        Departures {
            inbox: Inbox::new(BATCH, 1),
            packets: vec![None; capacity.next_power_of_two()].into(),
            last,
            next: 0,
            awaited: 0,
            oldest: 0,
            disbelieved: 0,
        }
    }

    /// Has the kernel count the next packet as its first. `each` is called with the stamps that have come back by now
    /// and with the packets whose stamps have not: those are given up, since their numbers would mean other packets.
    /// `flags` are what the socket's stamping is to be.
    ///
    /// # Errors
    /// Where the system refuses `flags`: no stamps will come.
    pub fn restart(
        &mut self,
        socket: impl AsFd,
        flags: TimestampingFlag,
        mut each: impl FnMut(P, Option<Stamp>),
    ) -> nix::Result<()> {
        let socket = socket.as_fd();
        while self.collect(socket, |what, stamp| each(what, Some(stamp))) > 0 {}
        self.give_up_before(WallTime(i64::MAX), |what| each(what, None));
        (self.next, self.awaited, self.oldest, self.disbelieved) = (0, 0, 0, 0);
        // The count begins anew whenever it is switched on.
        setsockopt(&socket, sockopt::Timestamping, &(flags - TimestampingFlag::SOF_TIMESTAMPING_OPT_ID))?;
        setsockopt(&socket, sockopt::Timestamping, &flags)
    }

    /// A packet to be stamped was accepted by the kernel; `reading` is from before.
    #[inline]
    pub fn sent(&mut self, what: P, reading: WallTime) {
        let capacity = self.packets.len();
        let place = &mut self.packets[self.next as usize & (capacity - 1)];
        let forgotten = place.replace(Packet { what, reading, state: StampState::Awaited });
        // One that makes room for another without a stamp is no longer awaited. What was there before the last
        // restart never was.
        let awaited = |p: Packet<P>| p.state == StampState::Awaited && self.next as usize >= capacity;
        if !forgotten.is_some_and(awaited) {
            self.awaited += 1;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Packets whose stamps have not come back.
    #[inline]
    pub fn awaited(&self) -> u32 {
        self.awaited
    }

    /// Gives up the stamps of packets handed over before `reading`, and calls `each` with these packets in the order
    /// they were sent.
    pub fn give_up_before(&mut self, reading: WallTime, mut each: impl FnMut(P)) {
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

    /// Whether stamps come back that cannot be of the packets they name: the numbering has shifted.
    #[inline]
    pub fn is_suspect(&self) -> bool {
        self.disbelieved >= DISBELIEF
    }

    /// Takes one batch of stamps from the error queue, without waiting, and returns how many entries it held.
    pub fn collect(&mut self, socket: impl AsFd, mut each: impl FnMut(P, Stamp)) -> usize {
        let Ok(count) = self.inbox.receive(socket.as_fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) else {
            return 0;
        };
        let capacity = self.packets.len();
        for (number, stamp) in self.inbox.datagrams().filter_map(|d| departure(d.control)) {
            if self.next.wrapping_sub(number).wrapping_sub(1) as usize >= capacity {
                continue;
            }
            let Some(packet) = &mut self.packets[number as usize & (capacity - 1)] else { continue };
            let at = match stamp.source {
                // An adapter with a clock of its own tells nothing.
                Source::Hardware => on_system_clock(stamp.at, packet.reading),
                // A packet cannot leave before it was handed over: such a stamp is another's, or the clock was set
                // back in between.
                _ if stamp.at < packet.reading => {
                    self.disbelieved += 1;
                    None
                }
                _ => {
                    self.disbelieved = 0;
                    Some(stamp.at)
                }
            };
            match packet.state {
                StampState::GivenUp => continue,
                StampState::Awaited if stamp.source == self.last => {
                    packet.state = StampState::Stamped;
                    self.awaited -= 1;
                }
                StampState::Awaited | StampState::Stamped => {}
            }
            if let Some(at) = at {
                each(packet.what, Stamp { at, ..stamp });
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::wall;
    use crate::stamp::{Stamps, Ways, enable};
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
        departures: &mut Departures<P>,
        socket: &UdpSocket,
        mut each: impl FnMut(P, Stamp),
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
        let (stamps, notes) = enable(from.as_fd(), local, Stamps::Kernel, Ways::SENT);
        assert_eq!((stamps, notes), (Stamps::Kernel, vec![]));
        from.send(b"not part of the stream").unwrap();
        let mut departures = Departures::new(16, Source::Kernel);
        let (mut readings, mut stamped) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            departures.restart(&from, crate::stamp::flags(stamps, Ways::SENT), |_, _| {}).unwrap();
            for _ in 0..40 {
                readings.push(wall());
                from.send(b"x").unwrap();
                departures.sent(readings.len() - 1, readings[readings.len() - 1]);
                // The oldest would be forgotten otherwise: there is room for sixteen.
                if departures.awaited() >= 8 {
                    collect_all(&mut departures, &from, |i, stamp| stamped.push((i, stamp.at)));
                }
            }
            collect_all(&mut departures, &from, |i, stamp| stamped.push((i, stamp.at)));
            from.send(b"a packet that the numbering does not know").unwrap();
        }
        assert_eq!(stamped.iter().map(|(i, _)| *i).collect::<Vec<_>>(), Vec::from_iter(0..120));
        let in_order = |&(i, at): &(usize, WallTime)| {
            at >= readings[i] && readings.get(i + 1).is_none_or(|next| at < *next)
        };
        assert!(stamped.iter().all(in_order), "on loopback a packet has left when send returns");
    }

    #[test]
    fn what_is_given_up_or_forgotten_is_no_longer_awaited() {
        let (socket, _) = pair();
        let mut departures = Departures::new(4, Source::Kernel);
        (0..6).for_each(|i| departures.sent(i, WallTime(i)));
        assert_eq!(departures.awaited(), 4, "two made room");
        let mut given_up = Vec::new();
        departures.give_up_before(WallTime(4), |i| given_up.push(i));
        assert_eq!((&given_up[..], departures.awaited()), (&[2, 3][..], 2));
        departures.give_up_before(WallTime(9), |i| given_up.push(i));
        assert_eq!((&given_up[..], departures.awaited()), (&[2, 3, 4, 5][..], 0));
        assert_eq!(departures.collect(&socket, |_, _| unreachable!("nothing was sent")), 0);
    }

    #[test]
    fn a_stamp_from_before_the_packet_was_handed_over_is_not_believed() {
        let (from, _to) = pair();
        let local = from.local_addr().unwrap().ip();
        enable(from.as_fd(), local, Stamps::Kernel, Ways::SENT);
        let mut departures = Departures::new(16, Source::Kernel);
        departures.restart(&from, crate::stamp::flags(Stamps::Kernel, Ways::SENT), |_, _| {}).unwrap();
        for i in 0..DISBELIEF {
            assert!(!departures.is_suspect());
            from.send(b"x").unwrap();
            departures.sent(i, wall() + Span::seconds(5));
            collect_all(&mut departures, &from, |_, _| panic!("believed"));
        }
        assert!(departures.is_suspect());
    }
}
