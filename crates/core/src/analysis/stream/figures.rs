//! [`Streamed`]: the figures of a stream that has ended.

use super::super::Options;
use super::super::assemble::{Counted, Findings, Kind, Known};
use super::super::stretches::Ended;
use super::super::tally::Tally;
use super::Stream;
use crate::distribution::{Distribution, Quantiles};
use crate::metrics::OnePass;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::confidence;
use crate::metrics::dejitter;
use crate::session::Session;
use crate::spec::Transport;
use crate::summary::{
    Dejitter, Duplicates, Inference, Ipdv, Loss, Periods, Regression, Reordering, Rfc3550, ScheduleError,
    SkewHull,
};
use crate::verdict::{self, Judgement};
use std::collections::BTreeMap;

/// A stream that has ended, with what is known of its test.
pub struct Streamed<'a> {
    stream: Stream,
    known: Known<'a>,
    extent: verdict::Known,
    kind: Kind,
}

impl<'a> Streamed<'a> {
    pub fn new(stream: Stream, session: &'a Session, options: &'a Options, kind: Kind) -> Streamed<'a> {
        let stream = stream.settled();
        let extent = stream.extent(session);
        let counted = Counted {
            sent: extent.sent,
            tail_unknown: !extent.complete,
            end: extent.end,
            received: stream.classifier.received,
            accepted: stream.moments.n() + stream.delayless,
            duplicate: stream.copies.total,
            invalid: stream.classifier.invalid,
            late: 0,
            rx_time_regressions: stream.tally.rx_time_regressions,
        };
        let known = Known {
            session,
            options,
            percents: options.all_percents(),
            clock: ClockEstimate::new(session, None),
            counted,
            periods: Periods::new(session, &stream.extent),
        };
        Streamed { stream, known, extent, kind }
    }
}

impl Findings for Streamed<'_> {
    fn known(&self) -> &Known<'_> {
        &self.known
    }

    fn delays(&self) -> (Distribution, Distribution) {
        let (delays, moments) = (&self.stream.delays, &self.stream.moments);
        let latency = delays.distribution(moments, self.known.wanted());
        let pdv = match delays.quantiles() {
            Quantiles::Exact(sample) => latency.above_minimum(moments, Some(&sample)),
            Quantiles::Counted(_) => latency.above_minimum(moments, None),
        };
        (latency, pdv)
    }

    fn delayless(&self) -> u64 {
        self.stream.delayless
    }

    fn ipdv(&self) -> Ipdv {
        self.stream.ipdv.figures(self.known.counted.sent)
    }

    fn rfc3550_jitter(&self) -> Option<Rfc3550> {
        self.stream.jitter.output()
    }

    fn mapdv2(&self) -> Option<f64> {
        self.stream.mapdv2.output()
    }

    fn loss(&self) -> Loss {
        let Counted { sent, end, .. } = self.known.counted;
        let unrecorded = self.known.session.unrecorded_in(0, end);
        self.stream.losses.clone().finish(
            end,
            end.saturating_sub(sent),
            unrecorded,
            self.known.periods.mean(),
        )
    }

    fn duplicates(&self) -> Duplicates {
        self.stream.copies.figures(self.known.counted.accepted)
    }

    fn reordering(&self) -> Reordering {
        Reordering {
            observable: self.known.session.spec.transport() == Transport::Udp,
            rd_fd_dt128: self.stream.stay_back.clone().finish(),
            rbd_fb_bt128: self.stream.occupancy.histogram(),
            ..self.stream.overtaking.output()
        }
    }

    fn regressions(&self) -> [Option<Regression>; 2] {
        let (on_send, on_arrival) = self.stream.sums.output();
        [on_send, on_arrival].map(|line| line.map(Regression::from))
    }

    fn skew_hull(&self) -> Option<SkewHull> {
        self.stream.hull.clone().figures(self.stream.sums.on_send())
    }

    fn schedule_error(&self) -> Option<ScheduleError> {
        let (period, offsets) = self.stream.errors.as_ref()?;
        ScheduleError::approximate(offsets, *period)
    }

    fn inference(&self) -> Inference {
        confidence::of_mean(&self.stream.moments)
    }

    fn dejitter(&self) -> Option<Dejitter> {
        let Known { clock, counted, .. } = &self.known;
        let min = self.stream.delays.min()?;
        let reference = dejitter::reference_delay(clock, Some(min))?;
        let receiver = self.known.receiver();
        Some(dejitter::approximate(&self.stream.delays, min, counted.sent, reference, &receiver))
    }

    fn tally(&self) -> &Tally {
        &self.stream.tally
    }

    fn figures(&self) -> BTreeMap<String, Option<f64>> {
        self.stream.listed.clone().figures()
    }

    fn judgement(&self) -> Option<Judgement> {
        self.stream.stretches.as_ref()?.judgement(&Ended {
            session: self.known.session,
            known: self.extent,
            clock: &self.known.clock,
            received: self.known.counted.accepted,
            min: self.stream.moments.min(),
            round_trip: self.kind == Kind::RoundTrips,
            profiles: &self.known.options.profiles,
        })
    }
}
