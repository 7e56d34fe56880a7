//! Service objectives (metrics §19).

use serde::{Deserialize, Serialize};

/// Class of ITU-T Y.1541 (as quoted by RFC 5976 §2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Y1541 {
    /// The most demanding class whose bounds the test meets; 5 = unspecified, which is always met.
    pub class: u8,
    /// Mean delay that was compared with the bounds, in ns.
    pub mean_delay_ns: Option<f64>,
    /// 99.9th percentile of delay minus its minimum, in ns.
    pub delay_variation_ns: Option<i64>,
    /// Loss ratio.
    pub loss_ratio: Option<f64>,
    /// True if there are enough packets to verify the loss bound of the class.
    pub sample_sufficient: bool,
    /// True if the delay comes from corrected or synchronised clocks.
    pub delay_trusted: bool,
}

/// A class and its bounds: mean delay, delay variation (both ns), loss ratio.
const CLASSES: [(u8, f64, Option<i64>, f64); 7] = [
    (6, 100e6, Some(50_000_000), 1e-5),
    (7, 400e6, Some(50_000_000), 1e-5),
    (0, 100e6, Some(50_000_000), 1e-3),
    (1, 400e6, Some(50_000_000), 1e-3),
    (2, 100e6, None, 1e-3),
    (3, 400e6, None, 1e-3),
    (4, 1e9, None, 1e-3),
];

impl Y1541 {
    /// Returns the class of a stream of `sent` packets with this mean delay, delay variation (p99.9 − min) and loss
    /// ratio; `None` if one of them is undefined.
    pub fn new(
        mean: Option<f64>,
        variation: Option<i64>,
        loss: Option<f64>,
        sent: u64,
        delay_trusted: bool,
    ) -> Option<Y1541> {
        let (delay, spread, ratio) = (mean?, variation?, loss?);
        let met = |&&(_, mean, bound, losses): &&(u8, f64, Option<i64>, f64)| {
            delay <= mean && bound.is_none_or(|b| spread <= b) && ratio <= losses
        };
        let class = CLASSES.iter().find(met);
        Some(Y1541 {
            class: class.map_or(5, |c| c.0),
            mean_delay_ns: mean,
            delay_variation_ns: variation,
            loss_ratio: loss,
            // Rule of three: verifying a ratio of 10⁻ᵏ takes 3·10ᵏ packets.
            sample_sufficient: class.is_none_or(|c| sent as f64 >= 3.0 / c.3),
            delay_trusted,
        })
    }
}

/// Returns round trips per minute from request–response times in ms (metrics §19): 60 000 divided by the mean of the
/// lower 95 %. The result may only be called RPM if it was measured under the load that the responsiveness draft
/// requires. `None` without times.
pub fn responsiveness(rtt_ms: Vec<f64>) -> Option<f64> {
    Some(60_000.0 / lower_mean(rtt_ms)?)
}

/// Returns the mean of the lower 95 % of `values` (metrics §19): the ⌊0.95 n⌋ smallest, at least one. `None` without
/// values.
pub fn lower_mean(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let keep = (values.len() * 95 / 100).max(1);
    let kept = values.get(..keep)?;
    Some(kept.iter().sum::<f64>() / keep as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let class = |mean: f64, variation, loss, sent| {
            let y = Y1541::new(Some(mean), Some(variation), Some(loss), sent, true).unwrap();
            (y.class, y.sample_sufficient)
        };
        assert_eq!(class(20e6, 1_000_000, 0.0, 1000), (6, false));
        assert_eq!(class(20e6, 1_000_000, 0.0, 300_000), (6, true));
        assert_eq!(class(20e6, 1_000_000, 5e-4, 3000), (0, true));
        assert_eq!(class(200e6, 1_000_000, 5e-4, 3000), (1, true));
        assert_eq!(class(20e6, 60_000_000, 5e-4, 3000), (2, true));
        assert_eq!(class(900e6, 60_000_000, 5e-4, 3000), (4, true));
        assert_eq!(class(20e6, 1_000_000, 0.01, 3000), (5, true));
        assert_eq!(Y1541::new(None, Some(1), Some(0.0), 5, true), None);
    }

    #[test]
    fn round_trips_a_minute() {
        // metrics §19, V32.
        let mut rtt = vec![20.0; 19];
        rtt.push(400.0);
        assert_eq!(responsiveness(rtt), Some(3000.0));
        // The lower 95 % of 50 values are 47 values, of 10 they are 9.
        let all = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!([50, 10].map(|n| responsiveness(all(n))), [Some(60_000.0 / 24.0), Some(60_000.0 / 5.0)]);
        assert_eq!((responsiveness(vec![20.0]), responsiveness(vec![])), (Some(3000.0), None));
    }
}
