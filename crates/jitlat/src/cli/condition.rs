//! `--fail-if`: thresholds that turn a measurement into a test.

use super::quantity;
use jitlat_core::summary::{Percent, Summary};
use std::fmt;
use std::str::FromStr;

/// A figure, a comparison, a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    figure: Figure,
    above: bool,
    threshold: f64,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Lost, of packets sent.
    Loss,
    /// Copies, of packets received.
    Duplicates,
    /// Out of sequence, of unique packets.
    Reordered,
    /// Packets of the longest loss run.
    LossRun,
    /// Percentile of PDV, in thousandths of a percent; ns.
    Jitter(u32),
    /// Raw delay, ns.
    Latency(Moment),
    /// Best mean opinion score over buffer sizes.
    Mos,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    Min,
    Mean,
    Median,
    Max,
}

const FIGURES: &str = "loss, duplicates, reordered, loss-run, jitter-p50 … jitter-p99.9, jitter-max, \
                       latency-min, latency-mean, latency-median, latency-max, mos";

impl Condition {
    /// What is wrong with `run`, if the condition holds. An undefined figure holds no condition, but the
    /// loss of everything does.
    pub fn violated(&self, run: &Summary) -> Option<String> {
        let value = self.figure.of(run)?;
        let crossed = if self.above { value > self.threshold } else { value < self.threshold };
        crossed.then(|| format!("{} ({} is {})", self.text, self.figure.name(), self.figure.show(value)))
    }
}

impl Figure {
    /// Whether it is a share of packets.
    pub fn is_percentage(self) -> bool {
        matches!(self, Figure::Loss | Figure::Duplicates | Figure::Reordered)
    }

    /// Its value in `s`.
    pub fn of(self, s: &Summary) -> Option<f64> {
        match self {
            Figure::Loss => s.counts.lost_pct,
            Figure::Duplicates => s.counts.duplicate_pct,
            Figure::Reordered => s.counts.out_of_sequence_pct,
            Figure::LossRun => Some(s.loss.run_length_hist.keys().next_back().map_or(0.0, |k| *k as f64)),
            Figure::Jitter(milli) => percentile(s, milli),
            Figure::Latency(Moment::Min) => s.latency.min.map(|v| v as f64),
            Figure::Latency(Moment::Max) => s.latency.max.map(|v| v as f64),
            Figure::Latency(Moment::Mean) => s.latency.mean,
            Figure::Latency(Moment::Median) => s.latency.median,
            Figure::Mos => s.best_mos(),
        }
    }

    /// As the command line writes it.
    pub fn name(self) -> String {
        match self {
            Figure::Loss => "loss".into(),
            Figure::Duplicates => "duplicates".into(),
            Figure::Reordered => "reordered".into(),
            Figure::LossRun => "loss-run".into(),
            Figure::Jitter(100_000) => "jitter-max".into(),
            Figure::Jitter(milli) => format!("jitter-p{}", f64::from(milli) / 1000.0),
            Figure::Latency(m) => format!("latency-{m:?}").to_lowercase(),
            Figure::Mos => "mos".into(),
        }
    }

    /// A value of it with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Figure::Loss | Figure::Duplicates | Figure::Reordered => format!("{value:.3} %"),
            Figure::Jitter(_) | Figure::Latency(_) => jitlat_core::units::eng4_f64(value),
            Figure::LossRun => format!("{value} packets"),
            Figure::Mos => format!("{value:.2}"),
        }
    }

    /// A threshold of it: a percentage, a time or a number.
    pub fn threshold(self, text: &str) -> Result<f64, String> {
        let number = |t: &str| t.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        match self {
            Figure::Loss | Figure::Duplicates | Figure::Reordered => {
                let value = text.trim().strip_suffix('%').map(number);
                value.flatten().ok_or_else(|| format!("'{text}' is not a percentage: write 1%"))
            }
            Figure::Jitter(_) | Figure::Latency(_) => quantity::period(text).map(|s| s.0 as f64),
            Figure::LossRun | Figure::Mos => number(text).ok_or_else(|| format!("'{text}' is not a number")),
        }
    }
}

fn percentile(s: &Summary, milli: u32) -> Option<f64> {
    if milli == 100_000 {
        return s.pdv.max.map(|v| v as f64);
    }
    s.pdv.percentiles.at(Percent(milli)).map(|v| v as f64)
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(s: &str) -> Result<Figure, String> {
        Ok(match s {
            "loss" => Figure::Loss,
            "duplicates" => Figure::Duplicates,
            "reordered" => Figure::Reordered,
            "loss-run" => Figure::LossRun,
            "jitter-max" => Figure::Jitter(100_000),
            "latency-min" => Figure::Latency(Moment::Min),
            "latency-mean" => Figure::Latency(Moment::Mean),
            "latency-median" => Figure::Latency(Moment::Median),
            "latency-max" => Figure::Latency(Moment::Max),
            "mos" => Figure::Mos,
            _ => {
                let percent = s.strip_prefix("jitter-p").and_then(|p| p.parse::<f64>().ok());
                let known = [50.0, 90.0, 95.0, 99.0, 99.3, 99.5, 99.7, 99.9];
                let percent = percent.filter(|p| known.contains(p));
                let milli = percent.map(|p| (p * 1000.0).round() as u32);
                Figure::Jitter(milli.ok_or_else(|| format!("'{s}' is not a figure: choose of {FIGURES}"))?)
            }
        })
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let at = text.find(['<', '>']).ok_or_else(|| format!("'{text}' compares nothing: write loss>1%"))?;
        let figure: Figure = text[..at].trim().parse()?;
        let threshold = figure.threshold(text[at + 1..].trim())?;
        Ok(Condition { figure, above: text.as_bytes()[at] == b'>', threshold, text: text.to_owned() })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_exactly() {
        let c: Condition = "jitter-p99.9>30ms".parse().unwrap();
        assert_eq!((c.figure, c.above, c.threshold), (Figure::Jitter(99_900), true, 30e6));
        let c: Condition = "mos < 3.8".parse().unwrap();
        assert_eq!((c.figure, c.above, c.threshold), (Figure::Mos, false, 3.8));
        for bad in
            ["loss", "loss>", "loss>1", "loss>x%", "jitter-p98>1ms", "speed>1", "latency-max>fast", ">1%"]
        {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
    }
}
