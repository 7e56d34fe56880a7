//! The exact analysis: every figure from the accepted packets, a few passes over three columns.

use super::{Gathered, Options, Samples, words};
use crate::compare::Comparable;
use crate::distribution::percentile::Percent;
use crate::distribution::sample::Sample;
use crate::distribution::{Distribution, Wanted};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::confidence;
use crate::metrics::counts::Counts;
use crate::metrics::dejitter::{self, Receiver};
use crate::metrics::delay::Unconditional;
use crate::metrics::entry::Stream;
use crate::metrics::ipdv::ipdv;
use crate::metrics::loss::loss;
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::periods::{Extent, Periods};
use crate::metrics::reorder::reordering;
use crate::metrics::rfc3550;
use crate::metrics::schedule_error::Errors;
use crate::metrics::seqset::absent;
use crate::metrics::series::Series;
use crate::metrics::trend::Evidence;
use crate::metrics::{self, METRICS, OnePass, stalls};
use crate::session::Session;
use crate::spec::{Direction, Transport};
use crate::summary::{
    Display, Header, Noise, Regression, Reordering, SessionInfo, SkewHull, Summary, Trend, Y1541,
};
use crate::time::WallTime;

/// The summary of what was gathered, and the accepted packets.
pub fn summarise(mut gathered: Gathered, session: &Session, options: &Options) -> (Summary, Samples) {
    let mut notes = words::Notes::default();
    let clock = ClockEstimate::new(session, stream_times(&gathered.samples, session.spec.direction()));
    let late = gathered.drop_late(&clock, options, &mut notes);
    let (sent, tail_unknown) = sent_count(session, gathered.classifier.accepted.max());
    let Gathered { classifier, samples, copies, tally, .. } = &gathered;
    let accepted = &classifier.accepted;
    let spec = &session.spec;
    let series = Series::new(samples, accepted);

    let mut moments = Moments::default();
    moments.add_all(&samples.delay);
    let mut sums = CoMoments::default();
    let (mut jitter, mut mapdv2) = (rfc3550::Estimator::default(), Mapdv2::default());
    for packet in samples.iter() {
        sums.push(&packet);
        jitter.push(&packet);
        mapdv2.push(&packet);
    }

    let percents = options.all_percents();
    let wanted = Wanted { percents: &percents, method: options.method, bins: options.bins };
    let sample = Sample::new(samples.delay.iter().copied());
    let latency = Distribution::new(&sample, &moments, wanted);
    let pdv = latency.above_minimum(&moments, Some(&sample));
    let reordering = Reordering {
        observable: spec.transport() == Transport::Udp,
        ..reordering(&series, accepted, spec.payload())
    };
    let periods = Periods::new(session, &Extent::of(&series));
    let mut losses = loss(absent(accepted.runs(), sent), sent, periods.mean());
    if options.gilbert_elliott {
        losses.gilbert_elliott = crate::metrics::gilbert_elliott::fit(accepted, sent, &losses.gilbert);
    }
    let (on_send, on_arrival) = sums.output();
    let (regression_send, regression_arrival) =
        (on_send.map(Regression::from), on_arrival.map(Regression::from));
    let skew_hull = SkewHull::new(&series);
    let hull = skew_hull.as_ref();
    let segments = crate::metrics::segments::segments(&series);
    let evidence = Evidence {
        hull,
        periods: &periods,
        clock: &clock,
        direction: spec.direction(),
        jumps: !segments.is_empty(),
        clock_set_back: tally.rx_time_regressions > 0,
    };
    let trend = Trend::new(&series, on_send, regression_arrival, evidence);
    let errors = session.period().and_then(|_| Errors::new(&series, spec));
    let schedule_error = errors.as_ref().and_then(Errors::figures);
    let stalls = match session.period() {
        Some(_) => stalls::stalls(&series, samples, &sample, errors.as_ref(), &tally.waited, spec),
        None => crate::summary::Stalls::default(),
    };
    let intended_latency =
        errors.as_ref().and_then(|e| stalls::intended(&series, e, schedule_error.as_ref()?, &pdv));
    let skew_hull = skew_hull.map(|hull| hull.judged(trend.as_ref()));
    let pdv_deskewed = skew_hull.as_ref().and_then(|h| h.deskewed(&series, &pdv, wanted));
    let mut inference = confidence::inference(&series, &sample, &moments);
    if let Some(seed) = options.bootstrap {
        inference.bootstrap = crate::metrics::bootstrap::intervals(&series, &inference, seed);
    }
    let reference = dejitter::reference_delay(&clock, latency.min);
    let receiver = Receiver {
        codec: &options.codec,
        model: options.delay_model,
        buffers: &options.buffers,
        spurt: options.spurt,
    };
    let dejitter = reference.and_then(|r| dejitter::dejitter(&series, &sample, sent, r, &receiver));
    let latency_corrected = clock.correct(&latency);
    let trusted = latency_corrected.is_some() || clock.synchronised().is_some() || options.trust_clocks;
    let mean = latency_corrected.map_or(latency.mean, |c| c.mean);
    let mut intervals = options
        .interval
        .map(|length| {
            let period = session.period_known.then(|| spec.period());
            crate::metrics::interval::intervals(&series, accepted, copies, sent, period, length)
        })
        .unwrap_or_default();
    super::windows::summarise(&mut intervals, &gathered, session, options);

    let received = classifier.received;
    let unique_valid = samples.len() as u64;
    let percent = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    let counts = Counts {
        sent,
        received,
        unique_valid,
        duplicate: copies.len(),
        invalid: classifier.invalid,
        lost: sent - unique_valid,
        late,
        out_of_sequence: reordering.reordered,
        lost_pct: percent(sent - unique_valid, sent),
        duplicate_pct: percent(copies.len(), received),
        invalid_pct: percent(classifier.invalid, received),
        out_of_sequence_pct: percent(reordering.reordered, unique_valid),
        rx_time_regressions: tally.rx_time_regressions,
        tail_unknown,
    };
    let mut summary = Summary {
        header: Header::new(session, &clock),
        counts,
        periods,
        display: Display::new(&latency, &pdv),
        objectives: Y1541::new(mean, pdv.percentile(Percent(99_900)), losses.ratio, sent, trusted),
        latency_unconditional: options
            .unconditional
            .then(|| Unconditional::new(&sample, sent - unique_valid, &percents)),
        noise: session.client.noise.or(session.server.noise).map(|floor| Noise::new(floor, &latency, &pdv)),
        latency,
        pdv,
        latency_corrected,
        ipdv: ipdv(&series, sent),
        rfc3550_jitter: jitter.output(),
        mapdv2: mapdv2.output(),
        loss: losses,
        duplicates: copies.figures(unique_valid, Some((&series, accepted))),
        reordering,
        regression_arrival,
        regression_send,
        trend,
        skew_hull,
        pdv_deskewed,
        schedule_error,
        stalls,
        intended_latency,
        inference,
        dejitter,
        clock,
        stamps: tally.stamps(),
        far_end: tally.far_end(),
        segments,
        intervals,
        two_way: None,
        comparable: options
            .comparable
            .map(|seed| Comparable::new(series.iter().map(|p| p.delay).collect(), &sample, seed)),
        figures: metrics::entry::computed(
            METRICS,
            &Stream { session, sent, series: &series, delays: &sample, accepted },
            samples,
        ),
        session: SessionInfo::new(session),
        verdicts: Vec::new(),
        warnings: Vec::new(),
    };
    notes.judge(&mut summary, session);
    drop(series);
    (summary, gathered.samples)
}

/// First and last time of the stream on the client's clock.
fn stream_times(samples: &Samples, direction: Direction) -> Option<(WallTime, WallTime)> {
    let time = |k: usize| match direction {
        Direction::Up => WallTime(samples.sent[k]),
        Direction::Down => WallTime(samples.packet(k).arrived()),
    };
    let last = samples.len().checked_sub(1)?;
    Some((time(0).min(time(last)), time(0).max(time(last))))
}

/// N of the loss figures, and whether losses after the last arrival may be missing from it.
pub fn sent_count(session: &Session, highest: Option<u32>) -> (u64, bool) {
    use crate::session::Ending;
    let asked = session.declared.unwrap_or(session.spec.packets().into());
    let met = highest.map_or(0, |seq| u64::from(seq) + 1);
    match (session.sent, session.ending) {
        (Some(sent), _) => (u64::from(sent).min(asked).max(met), false),
        (None, Ending::Complete) => (asked, false),
        // Logs of versions 1 and 2 were written when the test was over.
        (None, Ending::Unknown) if session.version < 3 => (asked, false),
        (None, _) => (met, true),
    }
}

impl Display {
    /// Of delay and PDV.
    pub(super) fn new(latency: &Distribution, pdv: &Distribution) -> Display {
        use crate::units::{eng4, eng4_f64, full, full_f64};
        Display {
            min: latency.min.map(eng4),
            avg: latency.mean.map(eng4_f64),
            max: latency.max.map(eng4),
            min_full: latency.min.map(full),
            avg_full: latency.mean.map(full_f64),
            max_full: latency.max.map(full),
            stddev: latency.stddev.map(eng4_f64),
            pdv_p99: pdv.percentile(Percent(99_000)).map(eng4),
            pdv_p999: pdv.percentile(Percent(99_900)).map(eng4),
            pdv_max: pdv.max.map(eng4),
        }
    }
}
