//! Describes the mean delay with its Student's t intervals and their validity.

use jitlat_core::summary::Summary;
use jitlat_core::units::full_f64;

/// Describes the Student's t intervals of the mean delay, with a caution; empty below two packets.
pub fn intervals(s: &Summary) -> Vec<String> {
    let i = &s.inference;
    let levels = [(90, i.mean_ci90), (95, i.mean_ci95), (99, i.mean_ci99)];
    let ends: Vec<String> = levels
        .iter()
        .filter_map(|(level, ends)| {
            let [low, high] = (*ends)?;
            Some(format!("{level}%: {} to {}", full_f64(low), full_f64(high)))
        })
        .collect();
    if ends.is_empty() {
        return Vec::new();
    }
    let what = if s.two_way.is_some() { "mean round trip" } else { "mean latency" };
    let mut lines = vec![format!("{what} with confidence (Student), {}", ends.join("; "))];
    let batches = i.batch.as_ref().map_or(String::new(), |b| {
        let doubt = if b.independent { "" } else { ", which are correlated, too" };
        format!("; 95% by {} batches{doubt}: {} to {}", b.k, full_f64(b.ci95[0]), full_f64(b.ci95[1]))
    });
    lines.push(match (i.t_valid, i.acf1_send_order) {
        (Some(false), Some(r)) => format!(
            "caution: consecutive packets are correlated (autocorrelation {r:.2}), so these intervals are too narrow{batches}"
        ),
        _ => format!("caution: these intervals assume independent packets{batches}"),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::summary::{BatchMeans, Inference};

    #[test]
    fn intervals_come_with_their_caution() {
        let inference = Inference {
            mean_ci90: Some([1e6, 3e6]),
            mean_ci95: Some([0.9e6, 3.1e6]),
            mean_ci99: Some([0.5e6, 3.5e6]),
            acf1_send_order: Some(0.83),
            t_valid: Some(false),
            batch: Some(BatchMeans { k: 20, ci95: [0.1e6, 4e6], independent: true }),
            ..Inference::default()
        };
        let lines = intervals(&Summary { inference, ..Summary::default() });
        insta::assert_snapshot!(lines.join("\n"), @r"
        mean latency with confidence (Student), 90%: 1.000000 ms to 3.000000 ms; 95%: 900.000 us to 3.100000 ms; 99%: 500.000 us to 3.500000 ms
        caution: consecutive packets are correlated (autocorrelation 0.83), so these intervals are too narrow; 95% by 20 batches: 100.000 us to 4.000000 ms
        ");
        assert!(intervals(&Summary::default()).is_empty());
    }
}
