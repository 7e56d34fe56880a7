//! [`Analyzer`]: records in, [`Summary`] out. [`analyze`] runs one over an iterator; as a [`Sink`] it sits
//! beside a log writer during a measurement.

use crate::metrics::counts::Counts;
use crate::metrics::dejitter::Codec;
use crate::metrics::periods::Periods;
use crate::record::PacketRecord;
use crate::session::Session;
use crate::sink::Sink;
use crate::summary::{
    Bins, ClockEstimate, Display, Distribution, Duplicates, FarEnd, Header, Inference, Ipdv, Loss, Method,
    Percent, Reordering, SessionInfo, Stalls, Stamps, Summary,
};
use crate::time::Span;

/// What to compute, and how. The default gives every key of the JSON summary but those whose field says
/// "where asked for".
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Percentiles reported.
    pub percents: Vec<Percent>,
    /// Which definition the histogram limit and the console follow.
    pub method: Method,
    /// Histogram bins.
    pub bins: Bins,
    /// Waiting time: a packet whose corrected delay exceeds it counts as lost (RFC 7680). Refused with
    /// a warning where the clocks are neither corrected nor synchronised.
    pub wait: Option<Span>,
    /// Whether the wait and other uses of absolute delay may rely on the raw clocks.
    pub trust_clocks: bool,
    /// The codec of the de-jitter curve.
    pub codec: Codec,
    /// Buffer sizes of the de-jitter curve.
    pub buffers: Vec<Span>,
    /// Per-window summaries of this length.
    pub interval: Option<Span>,
    /// Constant memory: percentiles from log-linear histograms, no second pass.
    pub streaming: bool,
    /// Seed of the block bootstrap; `None` = not computed.
    pub bootstrap: Option<u64>,
    /// Fit the Gilbert–Elliott model.
    pub gilbert_elliott: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            percents: crate::metrics::percentile::DEFAULT_PERCENTS.to_vec(),
            method: Method::Edf,
            bins: Bins::default(),
            wait: None,
            trust_clocks: false,
            codec: Codec::default(),
            buffers: crate::metrics::dejitter::DEFAULT_BUFFERS_MS.map(Span::millis).to_vec(),
            interval: None,
            streaming: false,
            bootstrap: None,
            gilbert_elliott: false,
        }
    }
}

/// The accepted packets in arrival order, for figures: three columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Sequence numbers, all different.
    pub seq: Vec<u32>,
    /// Send times, ns since 1970.
    pub sent: Vec<i64>,
    /// Raw delays, in ns.
    pub delay: Vec<i64>,
}

impl Samples {
    /// Accepted packets.
    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// Whether nothing was accepted.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }

    /// Arrival time of the k-th arrival, ns since 1970.
    pub fn arrived(&self, k: usize) -> i64 {
        self.sent[k].wrapping_add(self.delay[k])
    }
}

/// Analyses one stream of records in arrival order.
pub fn analyze(
    session: &Session,
    records: impl IntoIterator<Item = PacketRecord>,
    options: &Options,
) -> Summary {
    let mut analyzer = Analyzer::new(session, options);
    for record in records {
        analyzer.push(&record);
    }
    analyzer.finish(session)
}

/// An analysis in progress. Memory: about 24 bytes a packet accepted, constant with
/// [`Options::streaming`]; never by what a header claims.
#[derive(Clone, Debug)]
pub struct Analyzer {
    options: Options,
    samples: Samples,
    received: u64,
}

impl Analyzer {
    /// An analysis of the stream `session` describes. What is not known yet (probes, the end) may be
    /// filled in the session given to [`Analyzer::finish`].
    pub fn new(_session: &Session, options: &Options) -> Analyzer {
        Analyzer { options: options.clone(), samples: Samples::default(), received: 0 }
    }

    /// The next record, in arrival order.
    pub fn push(&mut self, record: &PacketRecord) {
        self.received += 1;
        if let (Some(sent), Some(delay), Ok(seq)) = (record.sent(), record.delay(), u32::try_from(record.seq))
        {
            self.samples.seq.push(seq);
            self.samples.sent.push(sent.0);
            self.samples.delay.push(delay.0);
        }
    }

    /// Rows pushed so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The summary of everything pushed, with everything known of the session by now.
    pub fn finish(self, session: &Session) -> Summary {
        self.finish_with_samples(session).0
    }

    /// The same, with the accepted packets for figures (none in streaming mode).
    pub fn finish_with_samples(self, session: &Session) -> (Summary, Samples) {
        let _ = &self.options;
        let clock = ClockEstimate::default();
        let summary = Summary {
            header: Header::new(session, &clock),
            counts: Counts { received: self.received, ..Counts::default() },
            periods: Periods::target_only(&session.spec),
            latency: Distribution::default(),
            pdv: Distribution::default(),
            latency_corrected: None,
            ipdv: Ipdv::default(),
            rfc3550_jitter: None,
            mapdv2: None,
            loss: Loss::default(),
            duplicates: Duplicates::default(),
            reordering: Reordering::default(),
            regression_arrival: None,
            regression_send: None,
            trend: None,
            skew_hull: None,
            pdv_deskewed: None,
            schedule_error: None,
            stalls: Stalls::default(),
            intended_latency: None,
            inference: Inference::default(),
            dejitter: None,
            objectives: None,
            clock,
            stamps: Stamps::default(),
            far_end: FarEnd::default(),
            segments: Vec::new(),
            intervals: Vec::new(),
            session: SessionInfo::new(session),
            display: Display::default(),
            verdicts: Vec::new(),
            warnings: Vec::new(),
        };
        (summary, self.samples)
    }
}

/// An [`Analyzer`] as a [`Sink`]; take the summary out when the stream has ended.
#[derive(Clone, Debug)]
pub struct AnalyzerSink {
    options: Options,
    analyzer: Option<Analyzer>,
    result: Option<(Summary, Samples)>,
}

impl AnalyzerSink {
    /// A sink that has seen nothing yet.
    pub fn new(options: Options) -> AnalyzerSink {
        AnalyzerSink { options, analyzer: None, result: None }
    }

    /// The summary and the accepted packets, once the stream has ended.
    pub fn into_result(self) -> Option<(Summary, Samples)> {
        self.result
    }
}

impl Sink for AnalyzerSink {
    fn begin(&mut self, session: &Session) {
        self.analyzer = Some(Analyzer::new(session, &self.options));
    }

    fn record(&mut self, record: &PacketRecord) {
        if let Some(analyzer) = &mut self.analyzer {
            analyzer.push(record);
        }
    }

    fn finish(&mut self, session: &Session) {
        self.result = self.analyzer.take().map(|a| a.finish_with_samples(session));
    }
}
