//! [`Observer`]: receives the events of a measurement. Logs, summaries, progress lines, live views and archives all
//! observe the same stream of [`Event`]s.

use crate::record::PacketRecord;
use crate::session::Session;
use crate::so_far::ReceivedSoFar;
use crate::twoway::TcpSample;
use core::net::SocketAddr;

/// An event of a measurement, in this order: `Connected`, `Probing`…, `Started`, then `Progress`, `Arrived` and
/// `Missed` as they occur, `Collecting`…, `Concluding`, `Records`…, and `Finished`.
///
/// An instrument omits events it does not have: a round-trip test collects nothing from its far host. A measurement
/// that fails may end after any event. Streams are numbered from 0 in the order of the sessions.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A connection to the far host is attempted, at this address.
    Connecting(SocketAddr),
    /// The far host has not answered at this address for two seconds; the attempt goes on.
    Unanswered(SocketAddr),
    /// The far host has been reached at this address.
    Connected(SocketAddr),
    /// Clock probes answered so far.
    Probing {
        /// Answered.
        done: u32,
        /// In all.
        of: u32,
    },
    /// The streams begin, with what is known of each so far.
    Started(&'a [Session]),
    /// The progress of each stream, in the order of the sessions; about ten times a second.
    Progress(&'a [StreamProgress]),
    /// Packets that have arrived at this host, with the times known so far. For live views, and for logs that survive a
    /// crash; each packet comes again in `Records`.
    Arrived {
        /// Number of the stream.
        stream: usize,
        /// In arrival order.
        records: &'a [PacketRecord],
    },
    /// Packets that have arrived without being in `Arrived`, because records came faster than the observers took them.
    /// They come in `Records`.
    Missed {
        /// Number of the stream.
        stream: usize,
        /// Since the last such event.
        packets: u64,
    },
    /// What the far host has received so far, as it says about once a second while somebody watches. Of streams that
    /// arrive at this host, [`Event::Arrived`] has every packet.
    FarReceived {
        /// Number of the stream.
        stream: usize,
        /// What it says.
        so_far: &'a ReceivedSoFar,
    },
    /// Results fetched from the far host so far.
    Collecting {
        /// Number of the stream.
        stream: usize,
        /// Fetched.
        done: u64,
        /// In all.
        of: u64,
    },
    /// The streams have ended, with what is known of each before its final records follow.
    Concluding(&'a [Session]),
    /// Final records, in arrival order, in chunks.
    Records {
        /// Number of the stream.
        stream: usize,
        /// Records with every time that is known.
        records: &'a [PacketRecord],
        /// The kernel's TCP_INFO sampled with each record; empty unless the test ran over TCP.
        tcp: &'a [TcpSample],
    },
    /// Everything is known of every stream. No event follows.
    Finished(&'a [Session]),
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Packets to be sent in all.
    pub packets: u32,
    /// Packets sent so far; 0 if the far host sends.
    pub sent: u32,
    /// Packets received so far (answers in a round-trip test); 0 if the far host receives.
    pub received: u32,
    /// Packets missing below the highest number received: an estimate, because some may still arrive.
    pub missing: u32,
}

/// Receives the events of a measurement. All calls come from the thread that called the instrument, never from one that
/// handles packets; a slow observer delays other observers, not packets.
///
/// A closure is an observer. So are several observers: each event goes to all of them, in order.
pub trait Observer {
    /// Receives an event.
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

impl Observer for [&mut dyn Observer] {
    fn event(&mut self, event: &Event<'_>) {
        self.iter_mut().for_each(|observer| observer.event(event));
    }
}

impl<const N: usize> Observer for [&mut dyn Observer; N] {
    fn event(&mut self, event: &Event<'_>) {
        self.as_mut_slice().event(event);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, event: &Event<'_>) {
        if let Some(observer) = self {
            observer.event(event);
        }
    }
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn event(&mut self, _: &Event<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observer_sees_every_event() {
        let (mut seen, mut last) = (0, None);
        let mut count = |_: &Event<'_>| seen += 1;
        let mut keep = |event: &Event<'_>| {
            if let Event::Probing { done, .. } = event {
                last = Some(*done);
            }
        };
        let mut all: [&mut dyn Observer; 2] = [&mut count, &mut keep];
        for done in 1..=3 {
            all.event(&Event::Probing { done, of: 3 });
        }
        all.event(&Event::Started(&[]));
        assert_eq!((seen, last), (4, Some(3)));
    }
}
