//! [`ScalarCondition`]: a failure condition of `--fail-if`, such as `pdv-p99>30ms`.

use super::{ExactNumber, ScalarUnit, Selector, UnknownScalar};
use crate::quantity::{self, QuantityError};
use crate::summary::Summary;
use core::fmt;
use core::str::FromStr;

/// A condition on a figure: it is violated if the figure is above, or below, a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarCondition {
    selector: Selector,
    above: bool,
    threshold: f64,
    text: String,
}

/// Error of parsing a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The text has neither `<` nor `>`.
    #[error("'{0}' has neither < nor >: write loss>1%")]
    NoComparison(String),
    /// The scalar does not exist.
    #[error(transparent)]
    Scalar(#[from] UnknownScalar),
    /// The threshold is not a valid value of the figure.
    #[error(transparent)]
    Threshold(#[from] QuantityError),
}

impl ScalarCondition {
    /// Returns a description of the violation in `summary`; `None` if the condition is not violated, or the figure is
    /// undefined.
    pub fn violated(&self, summary: &Summary) -> Option<String> {
        self.violated_by(self.selector.of(summary)?)
    }

    /// Returns the figure to which the condition applies.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Returns a description of the violation if the figure had this value, in its own unit; `None` if the condition
    /// would not be violated.
    pub fn violated_by(&self, value: ExactNumber) -> Option<String> {
        let x = value.as_f64();
        let crossed = if self.above { x > self.threshold } else { x < self.threshold };
        crossed.then(|| format!("{} ({} is {})", self.text, self.selector, self.selector.scalar.show(value)))
    }
}

impl Selector {
    /// Parses a value of the figure (`30ms`, `1%`, `3.8`) and converts it to the unit in which the figure is stored.
    ///
    /// # Errors
    ///
    /// [`QuantityError`] if the text does not have the figure's unit.
    pub fn threshold(&self, text: &str) -> Result<f64, QuantityError> {
        let text = text.trim();
        let number = |text: &str| {
            let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
            value.ok_or_else(|| QuantityError::new(format!("'{text}' is not a number")))
        };
        match self.scalar.unit {
            ScalarUnit::Share => match text.strip_suffix('%') {
                Some(percent) => Ok(number(percent)? / 100.0),
                None => Err(QuantityError::new(format!("'{text}' is not a percentage: write 1%"))),
            },
            ScalarUnit::Time => quantity::signed_time(text).map(|span| span.0 as f64),
            ScalarUnit::Bytes => quantity::bytes(text).map(|n| n as f64),
            ScalarUnit::PacketRate => number(text.strip_suffix("/s").unwrap_or(text)),
            ScalarUnit::BitRate => match quantity::rate(text)? {
                quantity::SendingRate::Bits(bits) => Ok(bits),
                quantity::SendingRate::Packets(_) => number(text),
            },
            ScalarUnit::Ppm => number(text.strip_suffix("ppm").unwrap_or(text)),
            ScalarUnit::Packets | ScalarUnit::Count | ScalarUnit::Plain { .. } => number(text),
        }
    }
}

impl FromStr for ScalarCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<ScalarCondition, ConditionError> {
        let at = text.find(['<', '>']).ok_or_else(|| ConditionError::NoComparison(text.to_owned()))?;
        let selector: Selector = text[..at].trim().parse()?;
        let threshold = selector.threshold(&text[at + 1..])?;
        Ok(ScalarCondition { selector, above: text.as_bytes()[at] == b'>', threshold, text: text.to_owned() })
    }
}

impl fmt::Display for ScalarCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_exactly() {
        let read = |text: &str| {
            let c: ScalarCondition = text.parse().unwrap();
            (c.selector.to_string(), c.above, c.threshold)
        };
        assert_eq!(read("jitter-p99.9>30ms"), ("pdv-p99.9".into(), true, 30e6));
        assert_eq!(read("mos < 3.8"), ("mos".into(), false, 3.8));
        assert_eq!(read("loss>1%"), ("loss".into(), true, 0.01));
        assert_eq!(read("up-loss-run>3"), ("up-loss-run-longest".into(), true, 3.0));
        assert_eq!(read("latency-min<-5us"), ("latency-min".into(), false, -5000.0));
        assert_eq!(read("rx-throughput<64kbit"), ("rx-throughput".into(), false, 64_000.0));
        assert_eq!(read("rx-rate<49.5/s"), ("rx-rate".into(), false, 49.5));
        assert_eq!(read("skew>20ppm"), ("skew".into(), true, 20.0));
        assert_eq!(read("reorder-offset-max>1k"), ("reorder-offset-max".into(), true, 1024.0));
        for bad in [
            "loss",
            "loss>",
            "loss>1",
            "loss>x%",
            "jitter-p98>1ms",
            "speed>1",
            "latency-max>fast",
            ">1%",
            "mos>NaN",
            "rx-throughput<fast",
        ] {
            assert!(bad.parse::<ScalarCondition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_holds_beyond_its_threshold_only() {
        let mut summary = Summary::default();
        let violated =
            |summary: &Summary, text: &str| text.parse::<ScalarCondition>().unwrap().violated(summary);
        assert_eq!(violated(&summary, "loss>1%"), None, "undefined");
        summary.loss.ratio = Some(0.01);
        assert_eq!(violated(&summary, "loss>1%"), None);
        assert_eq!(violated(&summary, "loss<1%"), None);
        assert_eq!(violated(&summary, "loss>0.9%").as_deref(), Some("loss>0.9% (loss is 1.00%)"));
        assert_eq!(violated(&summary, "loss<1.1%").as_deref(), Some("loss<1.1% (loss is 1.00%)"));
    }
}
