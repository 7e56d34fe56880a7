//! Findings about an ended stream, from an analysis that stores all packets or from one in constant memory.

use super::assemble::Findings;
use super::engine::{Engine, Packets};
use super::gathered::Gathered;
use super::options::Options;
use super::sketch::Sketch;
use super::stretches::Ended;
use super::{Samples, exact, notes};
use crate::answer::Warning;
use crate::evidence::Judgement;
use crate::helpers::Helpers;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::known::{ArrivalCounts, DelayKind, StreamFacts};
use crate::metrics::periods::{MeanPeriods, PacketExtent};
use crate::metrics::stream::EndedStream;
use crate::session::Session;
use crate::summary::Summary;
use std::sync::OnceLock;

/// A test, and the settings for analysing one of its streams.
#[derive(Clone, Copy)]
pub(super) struct Test<'a> {
    pub session: &'a Session,
    pub options: &'a Options,
    pub kind: DelayKind,
}

/// An ended stream that was analysed in constant memory.
struct Sketched<'a> {
    engine: &'a Engine,
    sketch: &'a Sketch,
    stream: EndedStream<'a>,
}

impl Engine {
    /// Calls `make` with the findings and the warnings of the analysis. Returns the result of `make`, and the accepted
    /// packets if they are stored.
    pub fn found<T>(
        mut self,
        test: Test<'_>,
        helpers: Option<&dyn Helpers>,
        make: impl FnOnce(&dyn Findings, Vec<Warning>) -> T,
    ) -> (T, Samples) {
        let mut notes = Vec::new();
        if let Packets::Sketched(sketch) = &mut self.samples {
            sketch.end(&self.classifier.accepted);
        }
        let (mut clock, least) = match &self.samples {
            Packets::All(packets) => {
                (packets.clock(test.session), packets.samples.delay.iter().copied().min())
            }
            Packets::Sketched(sketch) => (ClockEstimate::new(test.session, None), sketch.moments.min()),
        };
        // In a direction of round trips the times in packets determine both the offset and the delays.
        if test.kind == DelayKind::Direction {
            clock.allow_for_stamps(least);
        }
        let doubtful = self.extent(test.session).doubtful;
        notes.extend((doubtful > 0).then(|| notes::tail_without_rows(doubtful)));
        let late = self.drop_late(&clock, test.options, &mut notes);
        match &self.samples {
            Packets::All(packets) => {
                let made =
                    exact::found(&self, packets, test, clock, late, helpers, |found| make(found, notes));
                (made, self.into_samples())
            }
            Packets::Sketched(sketch) => {
                notes.extend(test.options.wait.map(notes::wait_refused));
                notes.push(notes::constant_memory(sketch.error()));
                let known = self.known(test, clock, &sketch.extent);
                let stream = EndedStream::sketched(&known, sketch.figures(&known));
                (make(&Sketched { engine: &self, sketch, stream }, notes), Samples::default())
            }
        }
    }

    /// Returns the packets for drawing figures.
    fn into_samples(self) -> Samples {
        let Packets::All(packets) = self.samples else { return Samples::default() };
        let Gathered { samples, delayless, notes, .. } = *packets;
        let queued = notes.map(|notes| notes.queued).unwrap_or_default();
        Samples { queued, delayless: delayless.iter().collect(), ..samples }
    }

    /// Collects the facts about the stream; its packets lie within `span`.
    pub fn known<'a>(&'a self, test: Test<'a>, clock: ClockEstimate, span: &PacketExtent) -> StreamFacts<'a> {
        let Test { session, options, kind } = test;
        StreamFacts {
            session,
            options,
            percents: options.all_percents(),
            clock,
            counted: self.counted(session),
            periods: MeanPeriods::new(session, span),
            kind,
            tally: &self.tally,
            two_way: OnceLock::new(),
        }
    }

    /// Returns the counts taken while packets arrived.
    pub fn counted(&self, session: &Session) -> ArrivalCounts {
        let extent = self.extent(session);
        let (with_delay, delayless, duplicate) = match &self.samples {
            Packets::All(packets) => {
                (packets.samples.len() as u64, packets.delayless.len(), packets.copies.len())
            }
            Packets::Sketched(sketch) => (sketch.moments.n(), sketch.delayless, sketch.copies.total),
        };
        let accepted = with_delay + delayless;
        ArrivalCounts {
            sent: extent.sent.max(accepted),
            tail_unknown: !extent.complete,
            end: extent.end,
            received: self.classifier.received,
            accepted,
            duplicate,
            invalid: self.classifier.invalid,
            late: 0,
            rx_time_regressions: self.tally.rx_time_regressions,
            delayless,
        }
    }

    /// Removes the packets that arrived after the waiting time (metrics §1) and returns their number. If
    /// the clocks are not reliable, nothing is removed, and a warning is added.
    fn drop_late(&mut self, clock: &ClockEstimate, options: &Options, notes: &mut Vec<Warning>) -> u64 {
        let (Some(wait), Packets::All(packets)) = (options.wait, &mut self.samples) else { return 0 };
        let correction = match (clock.correction_ns, clock.synchronised()) {
            (Some(correction), _) => correction,
            (None, Some(_)) => 0,
            (None, None) if options.trust_clocks => 0,
            (None, None) => {
                notes.push(notes::wait_refused(wait));
                return 0;
            }
        };
        let limit = wait.0.saturating_add(correction);
        let (samples, accepted) = (&mut packets.samples, &mut self.classifier.accepted);
        let before = samples.len();
        samples.retain(|packet| {
            let in_time = packet.delay <= limit;
            if !in_time {
                accepted.remove(packet.seq);
            }
            in_time
        });
        (before - samples.len()) as u64
    }
}

impl Findings for Sketched<'_> {
    fn stream(&self) -> &EndedStream<'_> {
        &self.stream
    }

    fn write(&self, to: &mut Summary) {
        self.sketch.metrics.write(&self.stream, to);
    }

    fn judgement(&self) -> Option<Judgement> {
        let known = self.stream.known;
        self.sketch.stretches.as_ref()?.judgement(&Ended {
            session: known.session,
            known: self.engine.extent(known.session),
            clock: &known.clock,
            received: known.counted.accepted,
            min: self.sketch.moments.min(),
            round_trip: known.kind == DelayKind::RoundTrips,
        })
    }
}
