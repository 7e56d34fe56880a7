//! [`Options`]: what an analysis computes, and how.

use crate::distribution::histogram::Bins;
use crate::distribution::percentile::{DEFAULT_PERCENTS, Method, Percent};
use crate::evidence::SharedJudge;
use crate::metrics::dejitter::{DEFAULT_BUFFERS_MS, VoiceCodec};
use crate::metrics::emodel::DelayModel;
use crate::time::Span;

/// Bytes that a packet takes while all are kept.
pub const PACKET_BYTES: u64 = 20;

/// What to compute, and how. The default gives every key of the JSON summary but those whose field says
/// "where asked for".
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Percentiles reported besides the default ones.
    pub percents: Vec<Percent>,
    /// Which definition the histogram limit and the console follow.
    pub method: Method,
    /// Number of histogram bins.
    pub bins: Bins,
    /// Waiting time: a packet whose corrected delay exceeds it counts as lost (RFC 7680). Refused with
    /// a warning where the clocks are neither corrected nor synchronised.
    pub wait: Option<Span>,
    /// Whether the wait and other uses of absolute delay may rely on the raw clocks.
    pub trust_clocks: bool,
    /// The codec for the de-jitter curve.
    pub codec: VoiceCodec,
    /// How delay impairs speech.
    pub delay_model: DelayModel,
    /// Packets per talk spurt, for the adaptive buffer.
    pub spurt: u32,
    /// Buffer sizes of the de-jitter curve.
    pub buffers: Vec<Span>,
    /// Length of the windows that are summarised separately.
    pub interval: Option<Span>,
    /// Order statistics with lost packets counted as infinitely late.
    pub unconditional: bool,
    /// How near to the mean and the median packets are to be to be counted; `None` = not counted.
    pub within: Option<Span>,
    /// Bytes that accepted packets may take, at [`PACKET_BYTES`] each, while all of them are kept: by default those of ten million.
    /// Of a test with more the analysis goes on in constant memory.
    pub memory: u64,
    /// Constant memory from the first packet on: percentiles from log-linear histograms, no second pass.
    pub streaming: bool,
    /// Seed of the block bootstrap; `None` = not computed.
    pub bootstrap: Option<u64>,
    /// Keep what sets the test beside others when its packets are gone, with this seed of the bootstrap;
    /// `None` = not computed.
    pub comparable: Option<u64>,
    /// Fit the Gilbert–Elliott model.
    pub gilbert_elliott: bool,
    /// Who judges the test; `None` = the summary has no answer and no verdicts.
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
            comparable: None,
            gilbert_elliott: false,
            judge: None,
        }
    }
}

impl Options {
    /// The default percentages and those asked for, ascending.
    pub(crate) fn all_percents(&self) -> Vec<Percent> {
        let mut all: Vec<Percent> = DEFAULT_PERCENTS.iter().chain(&self.percents).copied().collect();
        all.retain(|p| p.0 <= 100_000);
        all.sort_unstable();
        all.dedup();
        all
    }
}
