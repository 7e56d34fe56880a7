//! [`Options`]: settings of an analysis.

use crate::distribution::histogram::Bins;
use crate::distribution::percentile::{DEFAULT_PERCENTS, Method, Percent};
use crate::evidence::SharedJudge;
use crate::metrics::dejitter::{DEFAULT_BUFFERS_MS, VoiceCodec};
use crate::metrics::emodel::DelayModel;
use crate::time::Span;

/// Memory per packet while all packets are stored, in bytes.
pub const PACKET_BYTES: u64 = 20;

/// Settings of an analysis. The default produces every key of the JSON summary, except fields whose description says
/// "unless requested".
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Percentiles reported in addition to the default ones.
    pub percents: Vec<Percent>,
    /// Percentile definition for the limit of the histogram and for the text report.
    pub method: Method,
    /// Number of histogram bins, in the summary and in figures.
    pub bins: Bins,
    /// Waiting time: a packet whose corrected delay exceeds it counts as lost (RFC 7680). Ignored with a warning if the
    /// clocks are neither corrected nor synchronised.
    pub wait: Option<Span>,
    /// True if absolute delays may be used, for example for the waiting time, although the clocks are neither corrected
    /// nor synchronised.
    pub trust_clocks: bool,
    /// Voice codec for the de-jitter curve.
    pub codec: VoiceCodec,
    /// Model of the effect of delay on speech quality.
    pub delay_model: DelayModel,
    /// Packets per talk spurt, for the adaptive buffer.
    pub spurt: u32,
    /// Buffer sizes of the de-jitter curve.
    pub buffers: Vec<Span>,
    /// Length of the windows that are summarised separately; `None` = no windows.
    pub interval: Option<Span>,
    /// True to compute order statistics with lost packets counted as infinitely late.
    pub unconditional: bool,
    /// Distance from the mean and from the median delay within which packets are counted; `None` = not counted.
    pub within: Option<Span>,
    /// Memory for accepted packets while all of them are stored, in bytes ([`PACKET_BYTES`] each). The
    /// default suffices for ten million packets. The analysis of a larger test continues in constant memory.
    pub memory: u64,
    /// True to use constant memory from the start: percentiles from log-linear histograms, no second pass.
    pub streaming: bool,
    /// Seed of the block bootstrap; `None` = no bootstrap.
    pub bootstrap: Option<u64>,
    /// True to compute the data that replaces the packets of the test in later comparisons.
    pub comparable: bool,
    /// True to fit the Gilbert–Elliott model.
    pub gilbert_elliott: bool,
    /// Judge of the test; `None` = the summary has no answer and no verdicts.
    pub judge: Option<SharedJudge>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            percents: Vec::new(),
            method: Method::Edf,
            bins: Bins::default(),
            wait: None,
            trust_clocks: false,
            codec: VoiceCodec::default(),
            delay_model: DelayModel::default(),
            spurt: 50,
            buffers: DEFAULT_BUFFERS_MS.map(Span::millis).to_vec(),
            interval: None,
            unconditional: false,
            within: None,
            memory: 200 << 20,
            streaming: false,
            bootstrap: None,
            comparable: false,
            gilbert_elliott: false,
            judge: None,
        }
    }
}

impl Options {
    /// Returns the default percentiles and the requested ones, ascending.
    pub(crate) fn all_percents(&self) -> Vec<Percent> {
        let mut all: Vec<Percent> = DEFAULT_PERCENTS.iter().chain(&self.percents).copied().collect();
        all.retain(|p| p.0 <= 100_000);
        all.sort_unstable();
        all.dedup();
        all
    }
}
