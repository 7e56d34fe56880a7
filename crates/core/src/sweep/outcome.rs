//! [`Outcome`]: what one run of a sweep came to, in figures that can be averaged.

use super::Run;
use crate::summary::{Percent, Summary};
use crate::time::WallTime;
use serde::{Deserialize, Serialize};

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Smallest delay, in ns.
    Min,
    /// Mean delay.
    Mean,
    /// Median delay.
    Median,
    /// 99th percentile of delay.
    P99,
    /// Largest delay.
    Max,
    /// Standard deviation of delay.
    Stddev,
    /// 99th percentile of delay above the run's smallest.
    Jitter,
    /// Interquartile range of the variation between consecutive packets.
    IpdvIqr,
    /// Standard deviation of the variation between consecutive packets.
    IpdvStddev,
    /// Share of packets lost.
    Loss,
}

impl Figure {
    /// All of them, in the order of tables.
    pub const ALL: [Figure; 10] = [
        Figure::Min,
        Figure::Mean,
        Figure::Median,
        Figure::P99,
        Figure::Max,
        Figure::Stddev,
        Figure::Jitter,
        Figure::IpdvIqr,
        Figure::IpdvStddev,
        Figure::Loss,
    ];

    /// What it is called in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Min => "min",
            Figure::Mean => "mean",
            Figure::Median => "median",
            Figure::P99 => "p99",
            Figure::Max => "max",
            Figure::Stddev => "stddev",
            Figure::Jitter => "jitter",
            Figure::IpdvIqr => "ipdv_iqr",
            Figure::IpdvStddev => "ipdv_stddev",
            Figure::Loss => "loss",
        }
    }
}

/// The figures of a run: times in ns, loss as a share of one; `None` where undefined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    min: Option<f64>,
    mean: Option<f64>,
    median: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
    stddev: Option<f64>,
    jitter: Option<f64>,
    ipdv_iqr: Option<f64>,
    ipdv_stddev: Option<f64>,
    loss: Option<f64>,
}

impl Figures {
    /// Of a finished test: delay corrected by the clock estimate, where that excludes that the clocks agree.
    pub fn of(s: &Summary) -> Figures {
        let agree = s.clock.interval_ns.is_some_and(|[low, high]| low <= 0 && high >= 0);
        let shift = s.clock.correction_ns.filter(|_| !agree).unwrap_or(0) as f64;
        let corrected = |v: Option<f64>| v.map(|v| v - shift);
        let d = &s.latency;
        Figures {
            min: corrected(d.min.map(|v| v as f64)),
            mean: corrected(d.mean),
            median: corrected(d.median),
            p99: corrected(d.percentile(Percent(99_000)).map(|v| v as f64)),
            max: corrected(d.max.map(|v| v as f64)),
            stddev: d.stddev,
            jitter: s.pdv.percentile(Percent(99_000)).map(|v| v as f64),
            ipdv_iqr: s.ipdv.iqr.map(|v| v as f64),
            ipdv_stddev: s.ipdv.stddev,
            loss: s.loss.ratio,
        }
    }

    /// One of them.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Min => self.min,
            Figure::Mean => self.mean,
            Figure::Median => self.median,
            Figure::P99 => self.p99,
            Figure::Max => self.max,
            Figure::Stddev => self.stddev,
            Figure::Jitter => self.jitter,
            Figure::IpdvIqr => self.ipdv_iqr,
            Figure::IpdvStddev => self.ipdv_stddev,
            Figure::Loss => self.loss,
        }
    }

    /// With one of them set.
    pub fn with(mut self, figure: Figure, value: Option<f64>) -> Figures {
        let field = match figure {
            Figure::Min => &mut self.min,
            Figure::Mean => &mut self.mean,
            Figure::Median => &mut self.median,
            Figure::P99 => &mut self.p99,
            Figure::Max => &mut self.max,
            Figure::Stddev => &mut self.stddev,
            Figure::Jitter => &mut self.jitter,
            Figure::IpdvIqr => &mut self.ipdv_iqr,
            Figure::IpdvStddev => &mut self.ipdv_stddev,
            Figure::Loss => &mut self.loss,
        };
        *field = value;
        self
    }
}

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which run.
    #[serde(flatten)]
    pub run: Run,
    /// When it began, ns since 1970.
    pub at: WallTime,
    /// Packets sent.
    pub sent: u64,
    /// Accepted.
    pub received: u64,
    /// Length of each as an IP packet, in bytes; unknown where TCP cuts as it likes.
    pub ip_length: Option<u64>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}
