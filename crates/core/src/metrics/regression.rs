//! Regression of the burstiness plot and what its slope means (metrics §14).

use serde::{Deserialize, Serialize};

/// Least squares of delay on time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Regression {
    /// Slope, in seconds per second.
    pub m: f64,
    /// Delay at x = 0, in ns.
    pub b: f64,
    /// Pearson's; `None` if all delays are equal.
    pub r: Option<f64>,
}

/// The cause of a slope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TrendVerdict {
    /// No trend worth interpreting.
    #[default]
    None,
    /// The clocks run at different rates.
    Skew,
    /// More is sent than the path delivers: a queue is filling.
    Overload,
    /// A queue is emptying, or TCP's window is opening.
    Draining,
    /// The evidence contradicts itself.
    Undecided,
}

/// The verdict with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trend {
    /// The cause of the slope.
    pub verdict: TrendVerdict,
    /// The slope judged (on send time).
    pub m_send: f64,
    /// 95 % interval of the slope by batches.
    pub m_send_ci95: Option<[f64; 2]>,
    /// Pearson's r on send time.
    pub r: Option<f64>,
    /// Receive period divided by transmit period, − 1.
    pub period_excess: Option<f64>,
    /// m_arrival/(1 − m_arrival): what the period excess is if the slope is a filling queue.
    pub expected_excess: Option<f64>,
    /// Hull slope of the first and second half.
    pub hull_halves: Option<[f64; 2]>,
    /// Mean residual above the hull in each quarter, in ns.
    pub residual_quarters: Option<[f64; 4]>,
    /// Change of the delay that θ alone explains, and of the minimum control RTT, from the probes before to
    /// those after, in ns.
    pub offset_change_ns: Option<f64>,
    /// See above, for the minimum control RTT.
    pub rtt_change_ns: Option<f64>,
    /// The reasoning, as a sentence.
    pub because: String,
}

use super::moments::FittedLine;

impl From<FittedLine> for Regression {
    fn from(line: FittedLine) -> Regression {
        let b = line.origin_y as f64 + (line.mean_y - line.m * line.mean_x);
        Regression { m: line.m, b, r: line.r }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OnePass;
    use super::super::classify::AcceptedPacket;
    use super::super::moments::CoMoments;
    use super::*;

    fn of(rows: impl IntoIterator<Item = (i64, i64)>) -> (Option<Regression>, Option<Regression>) {
        let mut sums = CoMoments::default();
        for (seq, (sent, delay)) in (0..).zip(rows) {
            sums.push(&AcceptedPacket { seq, sent, delay });
        }
        let (send, arrival) = sums.output();
        (send.map(Regression::from), arrival.map(Regression::from))
    }

    #[test]
    fn a_flushed_queue_costs_no_digit() {
        // Sent over a second, all delivered within 50 us: arrivals vary by less than a ten-thousandth of the delays.
        let rows = (0..50).rev().map(|k| (k * 20_000_000, 980_000_000 + (50 - k) * 1000 - k * 20_000_000));
        let line = of(rows).1.unwrap();
        assert_eq!((line.m, line.b), (20_001.0, 1000.0));
    }

    #[test]
    fn the_worked_example() {
        // metrics §14, V14: arrivals at 0, 20 … 100 ms.
        let rows = [(0, 10), (20, 11), (40, 13), (60, 12), (80, 15), (100, 14)];
        let r = of(rows.map(|(at, delay)| (at - delay, delay))).1.unwrap();
        assert!((r.m - 0.044_285_7).abs() < 1e-7 && (r.b - 10.285_714).abs() < 1e-6);
        assert!((r.r.unwrap() - 0.885_714_3).abs() < 1e-7);
    }

    #[test]
    fn overload() {
        // metrics §14, V15: offered 50/s, delivered 45/s.
        let rows = (0..=100i64).map(|i| (i * 20_000_000, 100_000_000 + i * 200_000_000 / 9 - i * 20_000_000));
        let (send, arrival) = of(rows);
        assert!((send.unwrap().m - 1.0 / 9.0).abs() < 1e-7 && (arrival.unwrap().m - 0.1).abs() < 1e-7);
    }

    #[test]
    fn edges() {
        assert_eq!(of([(0, 1)]), (None, None));
        assert_eq!(of([(0, 5), (9, 5)]).0, Some(Regression { m: 0.0, b: 5.0, r: None }));
        assert_eq!(of([(0, 5), (0, 6)]).0, None);
        assert_eq!(of([(0, 5), (9, 6)]).0.and_then(|r| r.r), Some(1.0));
    }
}
