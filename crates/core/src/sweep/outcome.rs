//! [`RunOutcome`]: the result of one run of a sweep, as figures that can be averaged.

use super::SweepRun;
use crate::scalars::selectors;
use crate::summary::Summary;
use crate::time::WallTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Defined figures of a run, by key; times are in ns, shares are ratios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RunFigures(BTreeMap<String, f64>);

impl RunFigures {
    /// Extracts the figures of a finished test. Delays are corrected by the clock estimate if it shows that the clocks
    /// disagree.
    pub fn of(summary: &Summary) -> RunFigures {
        let agree = summary.clock.interval_ns.is_some_and(|[low, high]| low <= 0 && high >= 0);
        let shift = summary.clock.correction_ns.filter(|_| !agree).unwrap_or(0);
        let latency = summary.latency.less(shift);
        let corrected = Summary { latency, ..summary.clone() };
        RunFigures(selectors().filter_map(|s| Some((s.to_string(), s.of(&corrected)?.as_f64()))).collect())
    }

    /// Returns the figure `key`; `None` if it is undefined.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    /// Adds the figure `key`.
    pub fn with(mut self, key: &str, value: f64) -> RunFigures {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Iterates over the keys of the defined figures.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!from))]
#[serde(from = "OutcomeLine")]
pub struct RunOutcome {
    /// The run.
    #[serde(flatten)]
    pub run: SweepRun,
    /// Start of the run, ns since 1970.
    pub at: WallTime,
    /// Number of packets sent.
    pub sent: u64,
    /// Number of packets accepted.
    pub received: u64,
    /// Size of each IP packet, in bytes; `None` over TCP, which forms segments itself.
    pub ip_length: Option<u64>,
    /// Figures of the run.
    pub figures: RunFigures,
}

impl RunOutcome {
    /// Creates the outcome of a finished test that began at `at`, with packets of `ip_length` bytes.
    pub fn of(summary: &Summary, run: SweepRun, at: WallTime, ip_length: Option<u64>) -> RunOutcome {
        RunOutcome {
            run,
            at,
            sent: summary.counts.sent,
            received: summary.counts.unique_valid,
            ip_length,
            figures: RunFigures::of(summary),
        }
    }
}

/// A finished run in a file of either version. Version 1 has ten figures with different names.
#[derive(Deserialize)]
struct OutcomeLine {
    #[serde(flatten)]
    run: SweepRun,
    at: WallTime,
    sent: u64,
    received: u64,
    ip_length: Option<u64>,
    #[serde(default)]
    figures: RunFigures,
    #[serde(flatten)]
    named: Version1,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version1 {
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

impl From<OutcomeLine> for RunOutcome {
    fn from(line: OutcomeLine) -> RunOutcome {
        let old = line.named;
        let named = [
            ("latency-min", old.min),
            ("latency-mean", old.mean),
            ("latency-median", old.median),
            ("latency-p99", old.p99),
            ("latency-max", old.max),
            ("latency-stddev", old.stddev),
            ("pdv-p99", old.jitter),
            ("ipdv-iqr", old.ipdv_iqr),
            ("ipdv-stddev", old.ipdv_stddev),
            ("loss", old.loss),
        ];
        let known = named.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let figures = known.fold(line.figures, |figures, (key, value)| figures.with(key, value));
        let OutcomeLine { run, at, sent, received, ip_length, .. } = line;
        RunOutcome { run, at, sent, received, ip_length, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_either_version_are_read() {
        let old = r#"{"cell":1,"repetition":0,"at":5,"sent":9,"received":8,"ip_length":null,"min":2.0,"mean":3.0,
            "median":null,"p99":4.0,"max":5.0,"stddev":1.0,"jitter":2.0,"ipdv_iqr":1.0,"ipdv_stddev":0.5,"loss":0.1}"#;
        let read: RunOutcome = serde_json::from_str(old).unwrap();
        assert_eq!((read.run.cell, read.sent), (1, 9));
        assert_eq!((read.figures.get("latency-min"), read.figures.get("pdv-p99")), (Some(2.0), Some(2.0)));
        assert_eq!((read.figures.get("loss"), read.figures.get("latency-median")), (Some(0.1), None));
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<RunOutcome>(&text).unwrap(), read);
        assert!(text.contains(r#""figures":{"ipdv-iqr":1.0"#), "{text}");
    }
}
