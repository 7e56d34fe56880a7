//! Describes the confidence intervals of mean, median and 99th percentile of the delay.

use jitlat_core::metrics::stat::t_quantile;
use jitlat_core::summary::{BatchMeans, Inference, NoInterval, QuantileInterval, Summary};
use jitlat_core::units::{eng4, full_f64};

/// Confidence levels of the intervals in percent, each with its quantile.
const LEVELS: [(u8, f64); 3] = [(90, 0.95), (95, 0.975), (99, 0.995)];

/// Describes the intervals of mean, median and 99th percentile, or why there are none; empty below two packets.
pub fn intervals(s: &Summary) -> Vec<String> {
    let what = if s.two_way.is_some() { "round trip" } else { "latency" };
    let mut lines: Vec<String> = of_mean(&s.inference, s.two_way.is_some())
        .map(|text| format!("mean {what}{text}"))
        .into_iter()
        .collect();
    for (name, interval) in [("median", &s.inference.median), ("99%", &s.inference.p99)] {
        lines.extend(of_quantile(interval).map(|text| format!("{name} {what}{text}")));
    }
    lines
}

/// Describes Student's intervals of the mean. For correlated packets, the intervals are computed from batch means.
/// `None` if no intervals are known. Student's law does not know that a round trip is never negative.
fn of_mean(i: &Inference, is_round_trip: bool) -> Option<String> {
    let plain = [i.mean_ci90?, i.mean_ci95?, i.mean_ci99?];
    let ends = |intervals: [[f64; 2]; 3]| {
        let each = LEVELS.iter().zip(intervals);
        let text = |((level, _), [low, high]): (&(u8, f64), [f64; 2])| {
            let low = if is_round_trip { low.max(0.0) } else { low };
            format!("{level}%: {} to {}", full_f64(low), full_f64(high))
        };
        each.map(text).collect::<Vec<String>>().join("; ")
    };
    if i.t_valid == Some(true) {
        return Some(format!(" with confidence (Student), {}", ends(plain)));
    }
    let correlated = i.acf1_send_order.map_or("the correlation of packets is unknown".to_owned(), |r| {
        format!("consecutive packets are correlated by {r:.2}")
    });
    Some(match &i.batch {
        Some(batch) if batch.independent => {
            let ends = ends(LEVELS.map(|(_, p)| of_batches(batch, p)));
            format!(" with confidence (Student, of {} batches because {correlated}), {ends}", batch.k)
        }
        Some(_) => format!(": no interval, because {correlated}, and so are the means of batches"),
        None => format!(": no interval, because {correlated}"),
    })
}

/// Returns the interval for the quantile `p` of Student's t, converted from the 95 % interval of the batch means.
fn of_batches(batch: &BatchMeans, p: f64) -> [f64; 2] {
    let [low, high] = batch.ci95;
    let df = (batch.k as u64).saturating_sub(1).max(1);
    let half = (high - low) / 2.0 * t_quantile(p, df) / t_quantile(0.975, df);
    [(low + high) / 2.0 - half, (low + high) / 2.0 + half]
}

fn of_quantile(interval: &QuantileInterval) -> Option<String> {
    let needed = interval.required_n;
    let n = interval.effective_n;
    if let (Some([low, high]), Some(n)) = (interval.ci95, n) {
        let ends = [low, high].map(eng4);
        return Some(format!(
            " between {} and {} with 95% confidence, as precise as {n:.0} independent packets",
            ends[0], ends[1]
        ));
    }
    Some(match (interval.absent?, n) {
        (NoInterval::TooFew, Some(n)) => format!(
            ": no interval, because the packets are as precise as {n:.0} independent ones, and {needed:.0} are needed"
        ),
        (NoInterval::NotRecorded, _) => {
            ": no interval, because the order of the delays is not stored".to_owned()
        }
        _ => ": no interval, because there are too few packets".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(inference: Inference) -> String {
        intervals(&Summary { inference, ..Summary::default() }).join("\n")
    }

    fn correlated() -> Inference {
        Inference {
            mean_ci90: Some([1e6, 3e6]),
            mean_ci95: Some([0.9e6, 3.1e6]),
            mean_ci99: Some([0.5e6, 3.5e6]),
            acf1_send_order: Some(0.83),
            t_valid: Some(false),
            batch: Some(BatchMeans { k: 20, ci95: [0.1e6, 4e6], independent: true }),
            median: QuantileInterval {
                effective_n: Some(61.3),
                required_n: 20.0,
                ci95: Some([1_900_000, 2_200_000]),
                absent: None,
            },
            p99: QuantileInterval {
                effective_n: Some(61.3),
                required_n: 300.0,
                ci95: None,
                absent: Some(NoInterval::TooFew),
            },
            ..Inference::default()
        }
    }

    #[test]
    fn intervals_are_corrected_or_left_out() {
        let precise = "median latency between 1.900 ms and 2.200 ms with 95% confidence, as precise as 61 independent packets\n\
                       99% latency: no interval, because the packets are as precise as 61 independent ones, and 300 are needed";
        let text = lines(correlated());
        let mean = "mean latency with confidence (Student, of 20 batches because consecutive packets are correlated by \
                    0.83), 90%: 439.025 us to 3.660975 ms; 95%: 100.000 us to 4.000000 ms; 99%: ";
        assert!(text.starts_with(mean) && text.ends_with(precise), "{text}");
        let text = lines(Inference { t_valid: Some(true), ..correlated() });
        let mean = "mean latency with confidence (Student), 90%: 1.000000 ms to 3.000000 ms; 95%: 900.000 us to \
                    3.100000 ms; 99%: 500.000 us to 3.500000 ms";
        assert_eq!(text, format!("{mean}\n{precise}"));
        let batch = correlated().batch.map(|batch| BatchMeans { independent: false, ..batch });
        let mean = "mean latency: no interval, because consecutive packets are correlated by 0.83, and so are the means of batches";
        assert_eq!(lines(Inference { batch, ..correlated() }), format!("{mean}\n{precise}"));
        let unknown =
            QuantileInterval { absent: Some(NoInterval::NotRecorded), ..QuantileInterval::default() };
        let (t_valid, batch, acf1_send_order) = (None, None, None);
        let streamed =
            Inference { acf1_send_order, t_valid, batch, median: unknown, p99: unknown, ..correlated() };
        assert_eq!(
            lines(streamed),
            "mean latency: no interval, because the correlation of packets is unknown\n\
             median latency: no interval, because the order of the delays is not stored\n\
             99% latency: no interval, because the order of the delays is not stored"
        );
        assert!(intervals(&Summary::default()).is_empty());
    }
}
