//! Equivalence margins: differences up to which two figures count as the same.

use super::comparison::ComparedQuantity;
use jitlat_core::quantity;
use std::fmt;
use std::str::FromStr;

/// Default margin of times, as a share of the first run's figure: the narrow limits of bioequivalence, 90 to 111 %
/// (EMA CPMP/EWP/QWP/1401/98 Rev. 1, 2010), with the procedure of Schuirmann 1987.
const TIME_SHARE: f64 = 0.1;
/// Largest default margin of delay, in ns: a tenth of the smallest delay budget of interactive traffic, 10 ms (3GPP TS
/// 23.501 table 5.7.4-1, 5QI 80). A route change of 1 ms matters on a path of any length.
const MAX_DELAY_MARGIN: f64 = 1e6;
/// Default margin of loss, as a ratio: it changes the speech rating R of G.711 with concealment (ITU-T G.107, G.113: Bpl
/// 25.1) by at most 1.9, and MOS by less than 0.05.
const LOSS_MARGIN: f64 = 0.005;

/// Equivalence margin of a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeMargin {
    /// Share of the first run's figure.
    Share(f64),
    /// Time in ns.
    Time(f64),
}

impl TimeMargin {
    fn of(self, figure: f64) -> f64 {
        match self {
            TimeMargin::Share(share) => share * figure.abs(),
            TimeMargin::Time(ns) => ns,
        }
    }
}

impl FromStr for TimeMargin {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeMargin, String> {
        match text.trim().strip_suffix('%') {
            Some(_) => share(text).map(TimeMargin::Share),
            None => {
                quantity::pause(text).map(|span| TimeMargin::Time(span.0 as f64)).map_err(|e| e.to_string())
            }
        }
    }
}

/// Equivalence margin of loss, as a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossMargin(pub f64);

impl FromStr for LossMargin {
    type Err = String;

    fn from_str(text: &str) -> Result<LossMargin, String> {
        share(text).map(LossMargin)
    }
}

impl fmt::Display for LossMargin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is not a percentage from 0% to 100%"))
}

/// Margins of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// Margin of all times; `None`: 10 % of the first run's figure, for delay at most 1 ms.
    pub time: Option<TimeMargin>,
    /// Margin of the loss ratio.
    pub loss: LossMargin,
}

impl Default for Margins {
    fn default() -> Margins {
        Margins { time: None, loss: LossMargin(LOSS_MARGIN) }
    }
}

impl Margins {
    /// Returns the margin of a figure, from its value in the first run.
    pub(super) fn of(&self, quantity: ComparedQuantity, figure: f64) -> f64 {
        match (quantity, self.time) {
            (ComparedQuantity::Loss, _) => self.loss.0,
            (_, Some(margin)) => margin.of(figure),
            (ComparedQuantity::Delay, None) => TimeMargin::Share(TIME_SHARE).of(figure).min(MAX_DELAY_MARGIN),
            (ComparedQuantity::Jitter | ComparedQuantity::Ipdv, None) => {
                TimeMargin::Share(TIME_SHARE).of(figure)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_shares_or_times() {
        assert_eq!("10%".parse(), Ok(TimeMargin::Share(0.1)));
        assert_eq!("2ms".parse(), Ok(TimeMargin::Time(2e6)));
        assert_eq!(("0.5%".parse(), LossMargin(0.005).to_string().as_str()), (Ok(LossMargin(0.005)), "0.5%"));
        for bad in ["", "-1%", "101%", "x%", "NaN%", "2 apples"] {
            assert!(bad.parse::<TimeMargin>().is_err(), "{bad}");
        }
        assert!("0.5".parse::<LossMargin>().is_err());
    }

    #[test]
    fn a_long_path_has_a_margin_of_1_ms() {
        let of = |quantity, ns| Margins::default().of(quantity, ns);
        assert_eq!(of(ComparedQuantity::Delay, 35e6), 1e6);
        assert!((of(ComparedQuantity::Delay, 3e5) - 3e4).abs() < 1e-6);
        assert_eq!(of(ComparedQuantity::Jitter, 2e9), 2e8);
        let margins = Margins { time: Some(TimeMargin::Time(5e6)), ..Margins::default() };
        assert_eq!(margins.of(ComparedQuantity::Delay, 1.0), 5e6);
        assert_eq!(margins.of(ComparedQuantity::Loss, 1.0), 0.005);
    }
}
