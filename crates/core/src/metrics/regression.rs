//! Regression of the burstiness plot and what its slope means (metrics §14).

use serde::Serialize;

/// Least squares of delay on time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Slope, seconds a second.
    pub m: f64,
    /// Delay at x = 0, in ns.
    pub b: f64,
    /// Pearson's; `None` if all delays are equal.
    pub r: Option<f64>,
}

/// What a slope comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrendVerdict {
    /// No trend worth interpreting.
    None,
    /// The clocks run at different rates.
    Skew,
    /// More is sent than the path carries: a queue is filling.
    Overload,
    /// A queue is emptying, or TCP's window is opening.
    Draining,
    /// The evidence contradicts itself.
    Undecided,
}

/// The verdict with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// What the slope comes from.
    pub verdict: TrendVerdict,
    /// The slope it is about (on send time).
    pub m_send: f64,
    /// 95 % interval of the slope by batches.
    pub m_send_ci95: Option<[f64; 2]>,
    /// Pearson's r on send time.
    pub r: Option<f64>,
    /// Receive period over transmit period, − 1.
    pub period_excess: Option<f64>,
    /// m_arrival/(1 − m_arrival): what the period excess is if the slope is a filling queue.
    pub expected_excess: Option<f64>,
    /// Hull slope of the first and second half.
    pub hull_halves: Option<[f64; 2]>,
    /// Mean residual above the hull in each quarter, in ns.
    pub residual_quarters: Option<[f64; 4]>,
    /// Change of θ and of minimum control RTT from the probes before to those after, in ns.
    pub offset_change_ns: Option<f64>,
    /// See above.
    pub rtt_change_ns: Option<f64>,
    /// The reasoning, in plain words.
    pub because: String,
}
