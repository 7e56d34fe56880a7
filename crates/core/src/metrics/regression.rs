//! Regression of delay on time (the burstiness plot), and the cause of its slope (metrics §14).

use serde::{Deserialize, Serialize};

/// Least-squares line of delay on time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Regression {
    /// Slope, in seconds per second.
    pub m: f64,
    /// Delay at x = 0, in ns.
    pub b: f64,
    /// Pearson's r; `None` if all delays are equal.
    pub r: Option<f64>,
}

/// Cause of a slope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TrendVerdict {
    /// No significant trend.
    #[default]
    None,
    /// The clocks run at different rates.
    Skew,
    /// The sender sends more than the path delivers: a queue is filling.
    Overload,
    /// A queue is emptying, or TCP's window is opening.
    Draining,
    /// The evidence is contradictory.
    Undecided,
}

/// Cause of a slope, and the evidence for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Trend {
    /// Cause of the slope.
    pub verdict: TrendVerdict,
    /// Slope of delay on send time. The verdict refers to this slope.
    pub m_send: f64,
    /// 95 % interval of `m_send`, computed from batches.
    pub m_send_ci95: Option<[f64; 2]>,
    /// Pearson's r of delay on send time.
    pub r: Option<f64>,
    /// Receive period divided by transmit period, minus 1.
    pub period_excess: Option<f64>,
    /// m_arrival/(1 − m_arrival): the expected period excess if a filling queue causes the slope.
    pub expected_excess: Option<f64>,
    /// Slope of the lower hull in the first and in the second half.
    pub hull_halves: Option<[f64; 2]>,
    /// Mean residual above the hull in each quarter, in ns.
    pub residual_quarters: Option<[f64; 4]>,
    /// Change of delay that the clock offset alone would cause, from the probes before the stream to the probes after
    /// it, in ns.
    pub offset_change_ns: Option<f64>,
    /// Change of the control connection's minimum RTT, from the probes before the stream to the probes after it, in ns.
    pub rtt_change_ns: Option<f64>,
    /// Reasons for the verdict, as a sentence.
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
        // Sent over a second and all delivered within 50 µs: arrivals vary by less than a ten-thousandth of
        // the delays.
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
