//! The analysis in constant memory, for runs without end (metrics §23): every figure in one pass,
//! percentiles from log-linear histograms, everything else exact as far as a bounded window sees.

use super::tally::Tally;
use super::{Options, words};
use crate::distribution::Wanted;
use crate::distribution::percentile::Percent;
use crate::distribution::{LogHistogram, Precision};
use crate::metrics::classify::{Class, Classifier, Packet};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::confidence::{self, Inference};
use crate::metrics::counts::Counts;
use crate::metrics::dejitter::{self, Receiver};
use crate::metrics::density::{Occupancy, StayBack, THRESHOLD};
use crate::metrics::duplicate::Duplicates;
use crate::metrics::entry::Running;
use crate::metrics::ipdv::StreamingIpdv;
use crate::metrics::loss::LossScan;
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::periods::{Extent, Periods};
use crate::metrics::reorder::Overtaking;
use crate::metrics::seqset::Run;
use crate::metrics::skew::StreamingHull;
use crate::metrics::{METRICS, OnePass, rfc3550};
use crate::record::PacketRecord;
use crate::session::Session;
use crate::spec::{Schedule, Transport};
use crate::summary::{
    Display, Header, Noise, Regression, Reordering, ScheduleError, SessionInfo, Stalls, Summary, Y1541,
};
use std::collections::BTreeMap;

/// Pages of 512 sequence numbers remembered: two million packets.
const PAGES: usize = 4096;
/// Discontinuities remembered.
const STRETCHES: usize = 8192;

/// Constant memory whatever comes: about 4 MB at most.
#[derive(Clone, Debug)]
pub struct Stream {
    classifier: Classifier,
    tally: Tally,
    /// Numbers below this are forgotten: whether they were accepted is no longer known.
    forgotten: u64,
    losses: Losses,
    copies: CopyRuns,
    moments: Moments,
    sums: CoMoments,
    extent: Extent,
    jitter: rfc3550::Estimator,
    mapdv2: Mapdv2,
    overtaking: Overtaking,
    stay_back: StayBack,
    occupancy: Occupancy,
    delays: LogHistogram,
    ipdv: StreamingIpdv,
    hull: StreamingHull,
    errors: Option<(i64, LogHistogram)>,
    /// Metrics of the list without a field of their own.
    listed: Running,
}

impl Stream {
    pub fn new(session: &Session) -> Stream {
        let spec = &session.spec;
        let period = session.period().filter(|_| spec.schedule() == Schedule::Periodic);
        Stream {
            classifier: Classifier::new(super::declared(session)),
            tally: Tally::new(spec.payload(), session.period().map_or(i64::MAX, |p| p.0 / 2)),
            forgotten: 0,
            losses: Losses::default(),
            copies: CopyRuns::default(),
            moments: Moments::default(),
            sums: CoMoments::default(),
            extent: Extent::default(),
            jitter: rfc3550::Estimator::default(),
            mapdv2: Mapdv2::default(),
            overtaking: Overtaking::bounded(STRETCHES),
            stay_back: StayBack::new(THRESHOLD, 0),
            occupancy: Occupancy::new(THRESHOLD, 0),
            delays: LogHistogram::new(Precision::STREAM),
            ipdv: StreamingIpdv::default(),
            hull: StreamingHull::default(),
            errors: period.map(|p| (p.0, LogHistogram::new(Precision::STREAM))),
            listed: Running::new(METRICS),
        }
    }

    /// See [`super::Analyzer::set_regressions`].
    pub fn set_regressions(&mut self, times: u64) {
        self.tally.rx_time_regressions = times;
    }

    pub fn received(&self) -> u64 {
        self.classifier.received
    }

    pub fn push(&mut self, record: &PacketRecord) {
        self.tally.row(record);
        if (0..self.forgotten as i64).contains(&record.seq) {
            // Far too late to tell a first copy from a further one; its loss is already booked.
            self.classifier.received += 1;
            self.classifier.invalid += 1;
            return;
        }
        match self.classifier.classify(record) {
            Class::Accepted(packet) => {
                self.tally.accepted(record, &packet);
                self.tally.waited.clear();
                self.accept(&packet);
            }
            Class::Duplicate(seq) => self.copies.push(seq),
            Class::Damaged(_) | Class::Invalid => {}
        }
    }

    fn accept(&mut self, packet: &Packet) {
        self.moments.push(packet);
        self.sums.push(packet);
        self.extent.push(packet);
        self.jitter.push(packet);
        self.mapdv2.push(packet);
        self.overtaking.push(packet);
        self.stay_back.push(packet.seq);
        self.occupancy.push(packet.seq);
        self.delays.add(packet.delay);
        self.ipdv.push(packet);
        self.hull.push(packet);
        self.listed.push(packet);
        if let Some((period, offsets)) = &mut self.errors {
            offsets.add(packet.sent.saturating_sub(period.saturating_mul(packet.seq.into())));
        }
        while self.classifier.accepted.pages() > PAGES {
            let Some((runs, after)) = self.classifier.accepted.retire() else { break };
            runs.into_iter().for_each(|run| self.losses.received(run));
            self.copies.settle(after);
            self.forgotten = after;
        }
    }

    pub fn summarise(mut self, session: &Session, options: &Options) -> Summary {
        let mut notes = words::Notes::default();
        if let Some(wait) = options.wait {
            notes.wait_refused(wait);
        }
        notes.streaming();
        let spec = &session.spec;
        let clock = ClockEstimate::new(session, None);
        let (sent, tail_unknown) = super::exact::sent_count(session, self.classifier.accepted.max());
        self.classifier.accepted.runs().for_each(|run| self.losses.received(run));
        self.copies.settle(u64::MAX);
        let percents = options.all_percents();
        let wanted = Wanted { percents: &percents, method: options.method, bins: options.bins };
        let latency = self.delays.distribution(&self.moments, wanted);
        let pdv = latency.above_minimum(&self.moments, None);
        let (on_send, on_arrival) = self.sums.output();
        let periods = Periods::new(session, &self.extent);
        let losses = self.losses.finish(sent, periods.mean());
        let receiver = Receiver {
            codec: &options.codec,
            model: options.delay_model,
            buffers: &options.buffers,
            spurt: options.spurt,
        };
        let dejitter = dejitter::reference_delay(&clock, latency.min)
            .zip(latency.min)
            .map(|(reference, min)| dejitter::approximate(&self.delays, min, sent, reference, &receiver));
        let latency_corrected = clock.correct(&latency);
        let trusted = latency_corrected.is_some() || clock.synchronised().is_some() || options.trust_clocks;
        let mean = latency_corrected.map_or(latency.mean, |c| c.mean);
        let reordering = Reordering {
            observable: spec.transport() == Transport::Udp,
            rd_fd_dt128: self.stay_back.finish(),
            rbd_fb_bt128: self.occupancy.histogram(),
            ..self.overtaking.output()
        };
        let unique_valid = self.moments.n();
        let received = self.classifier.received;
        let percent = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
        let mut summary = Summary {
            header: Header::new(session, &clock),
            counts: Counts {
                sent,
                received,
                unique_valid,
                duplicate: self.copies.total,
                invalid: self.classifier.invalid,
                lost: sent.saturating_sub(unique_valid),
                late: 0,
                out_of_sequence: reordering.reordered,
                lost_pct: percent(sent.saturating_sub(unique_valid), sent),
                duplicate_pct: percent(self.copies.total, received),
                invalid_pct: percent(self.classifier.invalid, received),
                out_of_sequence_pct: percent(reordering.reordered, unique_valid),
                rx_time_regressions: self.tally.rx_time_regressions,
                tail_unknown,
            },
            periods,
            display: Display::new(&latency, &pdv),
            objectives: Y1541::new(mean, pdv.percentile(Percent(99_900)), losses.ratio, sent, trusted),
            latency_unconditional: None,
            noise: session
                .client
                .noise
                .or(session.server.noise)
                .map(|floor| Noise::new(floor, &latency, &pdv)),
            latency,
            pdv,
            latency_corrected,
            ipdv: self.ipdv.figures(sent),
            rfc3550_jitter: self.jitter.output(),
            mapdv2: self.mapdv2.output(),
            loss: losses,
            duplicates: self.copies.figures(unique_valid),
            reordering,
            regression_arrival: on_arrival.map(Regression::from),
            regression_send: on_send.map(Regression::from),
            trend: None,
            skew_hull: self.hull.figures(on_send),
            pdv_deskewed: None,
            schedule_error: self
                .errors
                .as_ref()
                .and_then(|(period, offsets)| ScheduleError::approximate(offsets, *period)),
            stalls: Stalls::default(),
            intended_latency: None,
            inference: Inference { ..confidence::of_mean(&self.moments) },
            dejitter,
            clock,
            stamps: self.tally.stamps(),
            far_end: self.tally.far_end(),
            segments: Vec::new(),
            intervals: Vec::new(),
            two_way: None,
            comparable: None,
            figures: self.listed.figures(),
            session: SessionInfo::new(session),
            verdicts: Vec::new(),
            warnings: Vec::new(),
        };
        notes.judge(&mut summary, session);
        summary
    }
}

/// Runs of loss from runs of reception.
#[derive(Clone, Debug, Default)]
struct Losses {
    next: u64,
    scan: LossScan,
}

impl Losses {
    fn received(&mut self, run: Run) {
        if run.start > self.next {
            self.scan.push(Run { start: self.next, len: run.start - self.next });
        }
        self.next = run.start + run.len;
    }

    fn finish(mut self, n: u64, period: Option<f64>) -> crate::metrics::loss::Loss {
        if n > self.next {
            self.scan.push(Run { start: self.next, len: n - self.next });
        }
        self.scan.finish(n, period)
    }
}

/// Further copies, counted by runs once their numbers can no longer come again.
#[derive(Clone, Debug, Default)]
struct CopyRuns {
    total: u64,
    duplicated: u64,
    recent: BTreeMap<u32, u64>,
    run: Option<(u32, u64)>,
    runs: BTreeMap<u64, u64>,
    counts: BTreeMap<u64, u64>,
}

impl CopyRuns {
    fn push(&mut self, seq: u32) {
        self.total += 1;
        *self.recent.entry(seq).or_default() += 1;
    }

    /// Books the copies of numbers below `limit`.
    fn settle(&mut self, limit: u64) {
        while let Some(entry) = self.recent.first_entry() {
            if u64::from(*entry.key()) >= limit {
                return;
            }
            let (seq, copies) = entry.remove_entry();
            self.duplicated += 1;
            *self.counts.entry(1 + copies).or_default() += 1;
            self.run = match self.run {
                Some((last, len)) if last + 1 == seq => Some((seq, len + 1)),
                ended => {
                    self.close(ended);
                    Some((seq, 1))
                }
            };
        }
        if limit == u64::MAX {
            let last = self.run.take();
            self.close(last);
        }
    }

    fn close(&mut self, run: Option<(u32, u64)>) {
        if let Some((_, len)) = run {
            *self.runs.entry(len).or_default() += 1;
        }
    }

    fn figures(&self, accepted: u64) -> Duplicates {
        let over = |x: u64| (accepted > 0).then(|| x as f64 / accepted as f64);
        let mut arrival_count_hist = self.counts.clone();
        if accepted > self.duplicated {
            arrival_count_hist.insert(1, accepted - self.duplicated);
        }
        Duplicates {
            duplication_fraction: over(self.total),
            replicated_rate: over(self.duplicated),
            run_length_hist: self.runs.clone(),
            arrival_count_hist,
            time_to_duplicate: None,
        }
    }
}
