//! Figures of passive round trips. Each figure has its own file and a line in [`of_passive`].

mod by_size;
mod captured_sizes;
mod cdf;
mod histogram;
mod parts;
mod ping;
mod range;
mod rate;
mod round_trips;
mod run;
mod several;
mod size_cdf;
mod trace;
mod variation;

pub use range::{FigureRange, MarkedPeriod, PeriodError};
pub use run::PassiveRun;
pub use several::of_captures;
pub use trace::PassiveTrace;

use super::measured::label_measured;
use super::parts::Figure;

/// Returns all figures of a passive measurement.
pub fn of_passive(run: &PassiveRun<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = [
        round_trips::round_trips(run),
        ping::compared_with_ping(run),
        histogram::histogram(run),
        cdf::cdf(run),
        by_size::by_size(run),
        size_cdf::size_cdf(run),
        captured_sizes::captured_sizes(run),
        rate::rate(run),
        variation::variation(run),
    ]
    .into_iter()
    .flatten()
    .collect();
    figures.iter_mut().for_each(|f| range::mark(f, run.periods));
    label_measured(&mut figures, &run.measured().unwrap_or_default());
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::parts::Mark;
    use jitlat_core::spec::Direction;
    use jitlat_core::time::{Span, WallTime};
    use jitlat_passive::{BandSpacing, PingSource, Record, SyntheticPair};

    /// Creates a pair with its middle at `at`, of two packets with this length.
    fn pair(at: i64, rtt: i64, length: u32) -> SyntheticPair {
        let record =
            |direction, reference| Record { direction, reference, monitor: WallTime(at), length, flow: 0 };
        let out = record(Direction::Up, WallTime(at - rtt / 2));
        SyntheticPair { out, back: record(Direction::Down, WallTime(at - rtt / 2 + rtt)) }
    }

    fn new_trace() -> PassiveTrace {
        PassiveTrace::new(Span::seconds(1), FigureRange::default())
    }

    fn trace() -> PassiveTrace {
        let mut t = new_trace();
        for i in 0..600i64 {
            let at = 1_700_000_000_000_000_000 + i * 100_000_000;
            t.pair(&pair(at, 79_000_000 + i % 4 * 26_500_000, 1450));
            t.packet(Direction::Up, at, 5_000_000 + i % 4 * 26_500_000);
            t.packet(Direction::Down, at, -3_000_000);
        }
        t
    }

    fn ids(t: &PassiveTrace) -> Vec<String> {
        of_passive(&PassiveRun::new(t)).into_iter().map(|f| f.id).collect()
    }

    #[test]
    fn every_figure_is_there_and_ping_only_with_pings() {
        let mut t = trace();
        assert_eq!(ids(&t), ["rtt", "rtt-histogram", "rtt-cdf", "pair-rate", "variation"]);
        t.ping(PingSource::File, 1_700_000_001_000_000_000, 8_000_000_000);
        assert_eq!(ids(&t)[1], "rtt-ping");
        assert!(ids(&new_trace()).is_empty());
    }

    #[test]
    fn bands_lie_on_the_values() {
        let t = trace();
        let level = BandSpacing {
            spacing_ns: 26.5e6,
            strength: 1.0,
            p: Some(0.0),
            of_differences: false,
            steps_per_coarser: None,
            explained: Vec::new(),
        };
        let f = &of_passive(&PassiveRun { levels: &[level], ..PassiveRun::new(&t) })[0];
        let lines: Vec<f64> = f
            .series
            .iter()
            .filter_map(|s| match &s.mark {
                Mark::Line { points, .. } => Some(points[0].1),
                _ => None,
            })
            .collect();
        let expected = [79.0e6, 105.5e6, 132.0e6, 158.5e6];
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.2e6), "{lines:?}");
    }

    #[test]
    fn a_year_of_pairs_stays_bounded_and_none_is_lost() {
        let mut t = new_trace();
        for i in 0..10_000i64 {
            t.pair(&pair(i * 3_600_000_000_000, 1_000_000, 60));
        }
        assert_eq!(t.rate.values().iter().map(|v| v.1).sum::<i64>(), 10_000);
        t.pair(&pair(i64::MAX - 1, 1, 60));
        t.packet(Direction::Up, i64::MIN, i64::MAX);
    }
}
