//! [`StreamState`]: everything that a live view displays about one stream.

use super::history::DelayHistory;
use crate::analysis::{Analyzer, Options};
use crate::distribution::Precision;
use crate::evidence::SharedJudge;
use crate::metrics::clock::ClockEstimate;
use crate::observer::StreamProgress;
use crate::session::Ending;
use crate::so_far::{ArrivalEffect, PERCENTAGES, ReceivedSoFar, SoFar};
use crate::twoway::{RecordView, project};
use crate::{Direction, PacketRecord, Session, SteadyTime, Summary};

/// Minimum time without arrivals that counts as silence, in ns.
const SILENCE_NS: i64 = 2_000_000_000;
/// Minimum number of periods without arrivals that counts as silence. It applies to slow streams, in which this time is
/// longer than [`SILENCE_NS`].
const SILENCE_PERIODS: i64 = 4;

/// A distribution function: values, ascending, each with the share of values that are not larger.
pub type Function = Vec<(f64, f64)>;

/// Live state of a stream.
#[derive(Clone, Debug)]
pub struct StreamState {
    /// Session of the test; its facts are those known so far.
    pub session: Session,
    /// Judge of the packets received so far; `None` = no verdict.
    pub(super) judge: Option<SharedJudge>,
    /// Progress of the stream.
    pub progress: StreamProgress,
    /// Number of packets that arrived faster than the view could process them; their delays are not shown.
    pub overlooked: u64,
    /// Delay and loss by time since the first packet was sent.
    pub history: DelayHistory,
    /// Send time of the first packet, in ns on the sender's clock; `None` before a packet has arrived here.
    pub origin: Option<i64>,
    /// Estimate of the clocks.
    pub clocks: ClockEstimate,
    so_far: SoFar,
    /// Latest report from the far host, and the time at which it was received.
    far: Option<(ReceivedSoFar, SteadyTime)>,
    begun: SteadyTime,
    arrived: Option<SteadyTime>,
    /// Highest sequence number so far, and the send time of its packet in ns since the first packet was sent; `None`
    /// before a packet has arrived here.
    latest: Option<(i64, i64)>,
    /// Analysis, in constant memory, of the packets that arrive here.
    analyzer: Option<Box<Analyzer>>,
}

/// Source of a stream's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureSource {
    /// The packets arrive here.
    Here,
    /// The far host reports what it receives.
    Reported,
    /// The far host has not reported anything yet.
    NotReported,
    /// The far host cannot report figures, because the classic protocol has no message for them.
    Classic,
}

impl StreamState {
    /// Creates the state of a stream that begins at `now`.
    pub fn new(session: &Session, now: SteadyTime) -> StreamState {
        StreamState {
            progress: StreamProgress { packets: session.spec.packets(), ..StreamProgress::default() },
            overlooked: 0,
            history: DelayHistory::default(),
            origin: None,
            clocks: ClockEstimate::new(session, None),
            so_far: SoFar::new(Precision::STREAM),
            far: None,
            begun: now,
            arrived: None,
            latest: None,
            analyzer: None,
            judge: None,
            session: session.clone(),
        }
    }

    /// Returns true if the stream consists of round trips.
    pub fn is_two_way(&self) -> bool {
        self.session.two_way.is_some()
    }

    /// Returns true if the packets arrive at this host.
    pub fn is_received(&self) -> bool {
        self.is_two_way() || self.session.spec.direction() == Direction::Down
    }

    /// Returns the name of the stream.
    pub fn label(&self) -> &'static str {
        match (self.is_two_way(), self.session.spec.direction()) {
            (true, _) => "round trip",
            (false, Direction::Up) => "up",
            (false, Direction::Down) => "down",
        }
    }

    /// Returns the source of the stream's figures.
    pub fn known(&self) -> FigureSource {
        match (self.is_received() || self.so_far.received() > 0, &self.far) {
            (true, _) => FigureSource::Here,
            (false, Some(_)) => FigureSource::Reported,
            (false, None) if self.session.classic => FigureSource::Classic,
            (false, None) => FigureSource::NotReported,
        }
    }

    /// Adds packets with the times known so far.
    pub fn arrived(&mut self, records: &[PacketRecord], now: SteadyTime) {
        if records.is_empty() {
            return;
        }
        self.arrived = Some(now);
        if self.analyzer.is_none() {
            let options = Options { streaming: true, judge: self.judge.clone(), ..Options::default() };
            self.analyzer = Some(Box::new(Analyzer::new(&self.analysed_session(), &options)));
        }
        for record in records {
            match self.is_two_way() {
                true => project(record, RecordView::RoundTrip).iter().for_each(|record| self.packet(record)),
                false => self.packet(record),
            }
        }
    }

    fn packet(&mut self, record: &PacketRecord) {
        if let Some(analyzer) = &mut self.analyzer {
            analyzer.push(record);
        }
        let Some((sent, delay)) = record.sent().zip(record.delay()) else { return };
        let Some(arrival) = self.so_far.push(record, Some(delay)) else { return };
        let period = if self.session.period_known { self.session.spec.period().0 } else { 0 };
        let before = sent.0.saturating_sub(record.seq.saturating_mul(period));
        let origin = *self.origin.get_or_insert(before);
        let at = sent.0.saturating_sub(origin).max(0);
        match arrival {
            ArrivalEffect::New(skipped) => {
                if !skipped.is_empty() {
                    let (_, from) = self.latest.unwrap_or((0, 0));
                    self.history.missing([from, at], skipped.end - skipped.start);
                }
                self.latest = Some((record.seq, at));
            }
            ArrivalEffect::Late => self.history.found(at),
            ArrivalEffect::Other => return,
        }
        self.history.received(at, delay.0);
    }

    /// Adds a report from the far host, received at `now`.
    pub fn far_received(&mut self, so_far: &ReceivedSoFar, now: SteadyTime) {
        let (missing, since) = self.far.map_or((0, self.begun), |(far, at)| (far.missing, at));
        let missing = u32::try_from(so_far.missing.saturating_sub(missing)).unwrap_or(u32::MAX);
        let delays = so_far.latest.delays.map(|[low, middle, _, high]| [low, middle, high]);
        let span = [since, now].map(|at| (at - self.begun).0.max(0));
        self.history.summary(span, so_far.latest.received, delays, missing);
        self.far = Some((*so_far, now));
    }

    /// Returns the figures so far; `None` while there are none.
    pub fn figures(&self) -> Option<ReceivedSoFar> {
        match self.known() {
            FigureSource::Here => Some(self.so_far.figures()),
            FigureSource::Reported => self.far.map(|(far, _)| far),
            FigureSource::NotReported | FigureSource::Classic => None,
        }
    }

    /// Returns the offset to subtract from displayed delays, in ns: the clock offset, or 0 if a delay would become
    /// negative.
    pub fn shift(&self) -> i64 {
        let shift = self.clocks.correction_ns.filter(|_| !self.is_two_way()).unwrap_or(0);
        let fastest = self.figures().and_then(|figures| figures.fastest());
        if fastest.is_some_and(|fastest| fastest >= shift) { shift } else { 0 }
    }

    /// Returns the distribution of delays: pairs of a delay in ns and the share of packets with at most this delay.
    pub fn cdf(&self) -> Function {
        let shift = self.shift();
        let shifted = |x: i64| x.saturating_sub(shift) as f64;
        if self.known() == FigureSource::Here {
            let delays = self.so_far.delays();
            let (all, mut so_far) = (delays.len().max(1) as f64, 0);
            let quantiles = delays.quantiles();
            let steps = quantiles.values().map(|(x, n)| {
                so_far += n;
                (shifted(x), so_far as f64 / all)
            });
            return steps.collect();
        }
        let Some(delays) = self.figures().and_then(|figures| figures.delays) else { return Vec::new() };
        let shares = PERCENTAGES.iter().map(|p| f64::from(p.0) / 100_000.0);
        let shares = [0.0].into_iter().chain(shares).chain([1.0]);
        delays.into_iter().map(shifted).zip(shares).collect()
    }

    /// Returns the time since the last arrival, in seconds, if it is unusually long and more packets are expected;
    /// otherwise `None`.
    pub fn silence(&self, now: SteadyTime) -> Option<f64> {
        let since = |at: SteadyTime| (now - at).0;
        let silence = match (self.known(), &self.far) {
            (FigureSource::Here, _) => since(self.arrived.unwrap_or(self.begun)),
            (FigureSource::Reported, Some((far, said))) => match far.silence {
                Some(silence) => silence.0.saturating_add(since(*said)),
                None => since(self.begun),
            },
            _ => return None,
        };
        let p = &self.progress;
        let over = p.sent.max(p.received) >= p.packets;
        let period = if self.session.period_known { self.session.spec.period().0 } else { 0 };
        let usual = period.saturating_mul(SILENCE_PERIODS).max(SILENCE_NS);
        (silence >= usual && !over).then_some(silence as f64 / 1e9)
    }

    /// Returns the input of [`summary`], so that another thread can compute the summary; `None` before a packet has
    /// arrived at this host.
    pub fn analysis(&self) -> Option<(Box<Analyzer>, Session)> {
        let analyzer = self.analyzer.clone()?;
        let next = self.latest.map_or(0, |(seq, _)| seq + 1);
        let sent = u32::try_from(next).ok();
        let session = Session { sent, ending: Ending::Complete, ..self.analysed_session() };
        Some((analyzer, session))
    }

    /// Returns a session that treats round trips as a one-way stream, because the analysis of two-way tests
    /// stores all packets.
    fn analysed_session(&self) -> Session {
        Session { two_way: None, ..self.session.clone() }
    }
}

/// Finishes a copy of an analysis and returns all figures so far.
pub fn summary((analyzer, session): (Box<Analyzer>, Session)) -> Summary {
    analyzer.finish(&session)
}
