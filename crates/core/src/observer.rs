//! [`Observer`]: receives the events of a measurement. Logs, summaries, progress lines, live views and archives all
//! observe the same stream of [`Event`]s.

use crate::record::PacketRecord;
use crate::session::Session;
use crate::so_far::ReceivedSoFar;
use crate::twoway::TcpSample;
use core::net::SocketAddr;

/// An event of a measurement, in this order: `Connected`, `Probing`…, `Started`, then `Progress`, `Arrived`
/// and `Missed` as they occur, `Collecting`…, `Concluding`, `Records`…, and `Finished`.
///
/// An instrument omits events that do not apply: a round-trip test, for example, collects nothing from the
/// far host. A measurement that fails may end after any event. Streams are numbered from 0 in the order of
/// the sessions.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A connection attempt to the far host at this address begins.
    Connecting(SocketAddr),
    /// The far host has not answered at this address for two seconds; the attempt continues.
    Unanswered(SocketAddr),
    /// The far host answered at this address.
    Connected(SocketAddr),
    /// Progress of the clock probes.
    Probing {
        /// Number of probes answered.
        done: u32,
        /// Number of probes in total.
        of: u32,
    },
    /// The streams begin. The sessions contain everything known so far.
    Started(&'a [Session]),
    /// Progress of each stream, in the order of the sessions; about ten times per second.
    Progress(&'a [StreamProgress]),
    /// Packets that arrived at this host, with the times known so far. Live views and crash-safe logs use them. Each
    /// packet occurs again in `Records`.
    Arrived {
        /// Index of the stream.
        stream: usize,
        /// The packets, in order of arrival.
        records: &'a [PacketRecord],
    },
    /// Packets that are not in `Arrived` because they arrived faster than the observers could process them. These
    /// packets occur in `Records`.
    Missed {
        /// Index of the stream.
        stream: usize,
        /// Number of packets since the last event of this kind.
        packets: u64,
    },
    /// A report from the far host about the packets that it has received so far. The far host sends one about once per
    /// second if the client requests it. Streams that arrive at this host have [`Event::Arrived`] instead.
    FarReceived {
        /// Index of the stream.
        stream: usize,
        /// Figures in the report.
        so_far: &'a ReceivedSoFar,
    },
    /// Progress of fetching results from the far host.
    Collecting {
        /// Index of the stream.
        stream: usize,
        /// Number of records fetched.
        done: u64,
        /// Number of records in total.
        of: u64,
    },
    /// The streams have ended. The sessions contain everything known; the final records follow.
    Concluding(&'a [Session]),
    /// Final records, in arrival order, in chunks.
    Records {
        /// Index of the stream.
        stream: usize,
        /// Records with all times that are known.
        records: &'a [PacketRecord],
        /// The kernel's TCP_INFO, sampled with each record; empty unless the test used TCP.
        tcp: &'a [TcpSample],
    },
    /// The measurement has ended, and the sessions are complete. This is the last event.
    Finished(&'a [Session]),
}

/// Progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Number of packets to send in total.
    pub packets: u32,
    /// Number of packets sent so far; 0 if the far host sends.
    pub sent: u32,
    /// Number of packets received so far (answers in a round-trip test); 0 if the far host receives.
    pub received: u32,
    /// Number of packets missing below the highest sequence number received. An estimate, because some may still
    /// arrive.
    pub missing: u32,
}

/// Receives the events of a measurement. All calls come from the thread that called the instrument, never
/// from a thread that handles packets, so a slow observer delays other observers but not packets.
///
/// A closure is an observer, and so is a slice or array of observers: each event goes to all of them, in
/// order.
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
