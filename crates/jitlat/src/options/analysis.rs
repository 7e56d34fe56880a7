//! Options of the analysis.

use super::profile::ProfileArgs;
use clap::{Args, ValueEnum};
use jitlat_core::analysis::Options;
use jitlat_core::metrics::dejitter::VoiceCodec;
use jitlat_core::metrics::emodel;
use jitlat_core::quantity;
use jitlat_core::summary::{Bins, Method, Percent};
use jitlat_core::time::Span;

/// Settings of the computation of figures.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub struct AnalysisArgs {
    /// Percentile method: edf (RFC 2330), linear, or jitlat1
    ///
    /// jitlat1 rounds the index down, as the first version did.
    #[arg(long, value_name = "METHOD", default_value = "edf")]
    pub percentiles: PercentilesArg,
    /// Additional percentile in the JSON, such as 99.99; may be repeated
    #[arg(long, value_name = "P")]
    pub percentile: Vec<Percent>,
    /// Histogram bins: a number or auto (default: 70 in JSON, auto in figures)
    ///
    /// auto is the Freedman-Diaconis rule, at least 70 and at most 500. The mode is the centre of the fullest bin of the
    /// figures, in every output.
    #[arg(long, value_name = "N", value_parser = bins)]
    pub bins: Option<Bins>,
    /// Also analyse windows of this length (1s, 10s; bare number: seconds)
    ///
    /// The windows are in the report, in the JSON (`intervals`), and one per line in `--as intervals`.
    #[arg(long, value_name = "T", value_parser = quantity::duration, help_heading = "Output")]
    pub interval: Option<Span>,
    /// Count packets with a corrected delay above this as lost (RFC 7680)
    ///
    /// Refused if nothing is known about the clocks.
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub late_after: Option<Span>,
    /// Trust the clocks of both hosts, and therefore absolute delays
    #[arg(long)]
    pub trust_clocks: bool,
    /// Add to the JSON delay percentiles that count losses as infinite (RFC 7679)
    #[arg(long)]
    pub unconditional: bool,
    /// Count packets whose delay is within this time of the mean and of the median
    ///
    /// For example 500us. The shares are in the report, in tables and in `--fail-if 'within-median<95%'`.
    #[arg(long, value_name = "T", value_parser = quantity::duration, conflicts_with = "streaming")]
    pub within: Option<Span>,
    /// Codec of the voice quality figures
    ///
    /// G.711, G.711+PLC, G.729A+VAD, G.723.1-6.3+VAD, GSM-EFR, or another codec as NAME:IE:BPL:DELAY (impairment,
    /// robustness to loss, packetisation and look-ahead in ms).
    #[arg(long, value_name = "CODEC", default_value = "G.711+PLC", value_parser = codec)]
    pub codec: VoiceCodec,
    /// Model of the effect of delay on speech: idd, full, or cole
    ///
    /// idd assumes perfect echo control, full adds echo, cole is an approximation that is wrong for long delays.
    #[arg(long, value_name = "MODEL", default_value = "idd")]
    pub delay_model: DelayModelArg,
    /// Buffer sizes of the voice quality curve, as a list
    ///
    /// Default: 19 sizes from 0 to 6 s.
    #[arg(long, value_name = "T,T…", value_delimiter = ',', value_parser = quantity::pause)]
    pub buffers: Vec<Span>,
    /// Add intervals of mean, median and p99 by block bootstrap with this seed
    ///
    /// The intervals are valid even if the delays of neighbouring packets are correlated. The same seed gives
    /// the same intervals.
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub bootstrap: Option<u64>,
    /// Also fit the four-parameter loss model of Gilbert and Elliott
    ///
    /// It is reported if it explains the losses better than the two-parameter model.
    #[arg(long)]
    pub gilbert_elliott: bool,
    /// Memory for packets, 20 bytes each; beyond it the analysis is approximate
    ///
    /// With more packets, the analysis continues in constant memory.
    #[arg(long, value_name = "SIZE", default_value = "200M", value_parser = quantity::bytes)]
    pub memory: u64,
    /// Analyse in constant memory from the first packet on
    ///
    /// Percentiles are at most 0.1 % too high, and figures of single packets are left out.
    #[arg(long)]
    pub streaming: bool,
    #[command(flatten)]
    pub profile: ProfileArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PercentilesArg {
    #[default]
    Edf,
    Linear,
    Jitlat1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DelayModelArg {
    Idd,
    Full,
    Cole,
}

impl AnalysisArgs {
    /// Returns the options of the analysis.
    pub fn options(&self) -> Options {
        let method = match self.percentiles {
            PercentilesArg::Edf => Method::Edf,
            PercentilesArg::Linear => Method::Linear,
            PercentilesArg::Jitlat1 => Method::Jitlat1,
        };
        let delay_model = match self.delay_model {
            DelayModelArg::Idd => emodel::DelayModel::Idd,
            DelayModelArg::Full => emodel::DelayModel::Full,
            DelayModelArg::Cole => emodel::DelayModel::Cole,
        };
        let defaults = jitlat_verdict::options();
        Options {
            method,
            percents: self.percentile.clone(),
            bins: self.bins.unwrap_or_default(),
            interval: self.interval,
            wait: self.late_after,
            trust_clocks: self.trust_clocks,
            unconditional: self.unconditional,
            within: self.within,
            codec: self.codec.clone(),
            delay_model,
            buffers: if self.buffers.is_empty() { defaults.buffers } else { self.buffers.clone() },
            bootstrap: self.bootstrap,
            comparable: false,
            gilbert_elliott: self.gilbert_elliott,
            memory: self.memory,
            streaming: self.streaming,
            spurt: defaults.spurt,
            judge: Some(self.profile.judge()),
        }
    }
}

fn bins(text: &str) -> Result<Bins, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Bins::Auto),
        Ok(n @ 1..=100_000) => Ok(Bins::Fixed(n)),
        _ => Err("give 1 to 100000, or auto".to_owned()),
    }
}

/// Parses the name or the figures of a codec.
pub fn codec(text: &str) -> Result<VoiceCodec, String> {
    if let Some(codec) = VoiceCodec::named(text) {
        return Ok(codec);
    }
    let known = || {
        let names: Vec<&str> = VoiceCodec::names().collect();
        format!("choose one of {}, or write NAME:IE:BPL:DELAY", names.join(", "))
    };
    let parts: Vec<&str> = text.split(':').collect();
    let [name, figures @ ..] = &parts[..] else { return Err(known()) };
    let number = |f: &&str| f.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
    match figures.iter().map(number).collect::<Option<Vec<f64>>>().as_deref() {
        Some([ie, bpl, delay_ms]) if *ie <= 95.0 && *bpl > 0.0 && !name.is_empty() => Ok(VoiceCodec {
            name: (*name).to_owned(),
            ie: *ie,
            bpl: *bpl,
            delay_ms: *delay_ms,
            user_declared: true,
        }),
        _ => Err(known()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_by_name_or_by_figures() {
        assert_eq!(codec("g.711").unwrap().bpl, 4.3);
        let own = codec("MELPe:20:15:112.5").unwrap();
        assert_eq!((own.ie, own.bpl, own.delay_ms, own.user_declared), (20.0, 15.0, 112.5, true));
        for bad in
            ["", "MELPe", "x:1:2", "x:1:2:3:4", "x:1:0:3", "x:NaN:1:1", "x:-1:1:1", ":1:1:1", "x:96:1:1"]
        {
            assert!(codec(bad).is_err(), "{bad}");
        }
    }
}
