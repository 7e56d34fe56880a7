//! Cause of a slope of delay: two clocks, or a queue (metrics §14).

use super::clock::ClockEstimate;
use super::moments::FittedLine;
use super::periods::MeanPeriods;
use super::regression::{Regression, Trend, TrendVerdict};
use super::series::Series;
use super::skew::{MAX_SKEW, SkewHull};
use super::stat::t_quantile;
use crate::spec::Direction;
use crate::units::eng4_f64;

/// Number of blocks of packets from which the error of the slope is estimated. Single packets are not suitable, because
/// the errors of neighbouring packets are correlated.
const BLOCKS: usize = 20;
/// Drift during a run that hosts alone can cause, in ns.
const HOST_DRIFT_NS: f64 = 10_000.0;

/// Evidence in addition to the slope.
#[derive(Clone, Copy)]
pub struct TrendEvidence<'a> {
    /// The line below all points; `None` if it was not computed.
    pub hull: Option<&'a SkewHull>,
    /// Transmit and receive periods.
    pub periods: &'a MeanPeriods,
    /// Clock estimate from the probes.
    pub clock: &'a ClockEstimate,
    /// Direction of the stream.
    pub direction: Direction,
    /// True if the smallest delay jumps to another level. A slope across the jump would be meaningless (metrics §16).
    pub jumps: bool,
    /// True if receive times went backwards.
    pub clock_set_back: bool,
    /// Largest plausible relative skew of the clocks.
    pub max_skew: f64,
}

impl Trend {
    /// Determines the cause of the slope of `series`, whose regression on send time is `line`; `None`
    /// without a slope.
    pub fn new(
        series: &Series<'_>,
        line: Option<FittedLine>,
        arrival: Option<Regression>,
        evidence: TrendEvidence<'_>,
    ) -> Option<Trend> {
        let line = line?;
        let TrendEvidence { hull, periods, clock, direction, .. } = evidence;
        let scan = Scan::of(series, &line, hull);
        let change = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        let mut trend = Trend {
            verdict: TrendVerdict::None,
            m_send: line.m,
            m_send_ci95: scan.interval,
            r: line.r,
            period_excess: periods.rx.zip(periods.tx).map(|(rx, tx)| rx.period_ns / tx.period_ns - 1.0),
            expected_excess: arrival.map(|a| a.m / (1.0 - a.m)).filter(|x| x.is_finite()),
            hull_halves: hull.and_then(|h| h.alpha_halves),
            residual_quarters: scan.quarters,
            offset_change_ns: change(clock.offset_before_ns, clock.offset_after_ns)
                .map(|d| if direction == Direction::Up { d } else { -d }),
            rtt_change_ns: change(
                clock.min_rtt_before_ns.map(|r| r as f64),
                clock.min_rtt_after_ns.map(|r| r as f64),
            ),
            because: String::new(),
        };
        (trend.verdict, trend.because) = trend.decide(scan.duration, evidence);
        Some(trend)
    }

    /// Applies the rules of metrics §14, in their order. Probes are used only if their change exceeds their own spread.
    /// A changed round trip is evidence of a queue only if it changed by about as much as the delay: on a short path,
    /// varying wake-up times of hosts have a far larger effect.
    fn decide(&self, duration: f64, evidence: TrendEvidence<'_>) -> (TrendVerdict, String) {
        let m = self.m_send;
        let ppm = m * 1e6;
        let drift = m * duration;
        let Some(r) = self.r else { return (TrendVerdict::None, "delay does not vary".into()) };
        if r.abs() < 0.1 {
            return (TrendVerdict::None, format!("delay hardly changes with time (r = {r:.3})"));
        }
        match self.m_send_ci95 {
            None => return (TrendVerdict::None, "too few packets to distinguish a slope from chance".into()),
            Some([low, high]) if low <= 0.0 && high >= 0.0 => {
                return (TrendVerdict::None, "the slope's confidence interval contains 0".into());
            }
            Some(_) => {}
        }
        if drift.abs() < HOST_DRIFT_NS {
            return (TrendVerdict::None, format!("the slope adds up to {} over the run", eng4_f64(drift)));
        }
        if evidence.jumps {
            let because = "the smallest delay jumps, so the delays before and after do not form one line";
            return (TrendVerdict::Undecided, because.into());
        }
        if m < 0.0 && evidence.clock_set_back {
            return (TrendVerdict::Undecided, "the receiver's clock was set back".into());
        }
        let follows_line = self.follows_line(drift);
        let is_steep = m.abs() > MAX_SKEW && !(m.abs() <= evidence.max_skew && follows_line);
        if m < 0.0 && is_steep {
            return (TrendVerdict::Draining, format!("delay falls by {:.2} ms per second", -1e3 * m));
        }
        if is_steep {
            let matches = self.period_excess.zip(self.expected_excess);
            return match matches {
                Some((seen, expected)) if seen < 0.3 * expected => (
                    TrendVerdict::Undecided,
                    format!(
                        "delay rises by {:.2} ms per second, but packets arrive as fast as they are sent",
                        1e3 * m
                    ),
                ),
                _ => (
                    TrendVerdict::Overload,
                    format!("delay rises by {:.2} ms per second, faster than clocks drift apart", 1e3 * m),
                ),
            };
        }
        let resolved = drift.abs() > evidence.clock.rtt_spread_ns.unwrap_or(0.0);
        let near = |x: f64| resolved && (x - drift).abs() <= 0.3 * drift.abs();
        if self.offset_change_ns.is_some_and(near) {
            return (TrendVerdict::Skew, format!("the clock offset changed at the same rate: {ppm:.1} ppm"));
        }
        let as_much = |x: f64| resolved && (0.5..=2.0).contains(&(x / drift));
        if self.rtt_change_ns.is_some_and(as_much) {
            let verdict = if m > 0.0 { TrendVerdict::Overload } else { TrendVerdict::Draining };
            return (verdict, "the round trip changed by about as much: a queue, not a clock".into());
        }
        if follows_line {
            return (
                TrendVerdict::Skew,
                format!("the lowest delays follow a straight line of {ppm:.1} ppm over the whole run"),
            );
        }
        (TrendVerdict::Undecided, "the lowest delays do not follow a straight line".into())
    }

    /// True if the lowest delays, which change by `drift` ns during the run, follow a straight line over the whole run.
    fn follows_line(&self, drift: f64) -> bool {
        let steady = self.residual_quarters.is_some_and(|quarters| {
            let range = quarters.iter().copied().fold(f64::MIN, f64::max)
                - quarters.iter().copied().fold(f64::MAX, f64::min);
            range <= 0.25 * drift.abs()
        });
        steady && self.hull_halves.is_some_and(|[a, b]| (a - b).abs() <= 0.5 * self.m_send.abs())
    }
}

/// Results of a second pass over the packets: an interval of the slope that remains valid with autocorrelation, and the
/// mean height above the hull in each quarter.
struct Scan {
    interval: Option<[f64; 2]>,
    quarters: Option<[f64; 4]>,
    duration: f64,
}

impl Scan {
    fn of(series: &Series<'_>, line: &FittedLine, hull: Option<&SkewHull>) -> Scan {
        let n = series.len();
        let (first, last) = (series.get(0).sent, series.get(n - 1).sent);
        let earliest = series.earliest().unwrap_or(first);
        let duration = last.saturating_sub(first).max(0) as f64;
        if n < 2 * BLOCKS {
            return Scan { interval: None, quarters: None, duration };
        }
        let block = |k: usize, of: usize| k * n / of..(k + 1) * n / of;
        // Least squares with errors that are correlated inside each block of time: scores are summed per block before
        // they are squared.
        let squares: f64 = (0..BLOCKS)
            .map(|k| {
                let score = series.range(block(k, BLOCKS)).map(|p| {
                    let x = p.sent.wrapping_sub(earliest) as f64 - line.mean_x;
                    let y = p.delay.wrapping_sub(line.origin_y) as f64 - line.mean_y;
                    x * (y - line.m * x)
                });
                score.sum::<f64>().powi(2)
            })
            .sum();
        let blocks = BLOCKS as f64;
        let error = (squares * blocks / (blocks - 1.0)).sqrt() / line.sxx;
        let half = t_quantile(0.975, BLOCKS as u64 - 1) * error;
        let quarters = hull.map(|h| {
            core::array::from_fn(|k| {
                let heights =
                    series.range(block(k, 4)).map(|p| h.height(p.sent.wrapping_sub(earliest), p.delay));
                heights.sum::<f64>() / block(k, 4).len() as f64
            })
        });
        Scan { interval: Some([line.m - half, line.m + half]), quarters, duration }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OnePass;
    use super::super::classify::AcceptedPacket;
    use super::super::moments::CoMoments;
    use super::super::periods::PacketExtent;
    use super::super::segments::segments;
    use super::super::series::Samples;
    use super::*;
    use crate::session::Session;
    use crate::spec::TestSpec;

    /// Returns the verdict on 1000 packets, one every 20 ms, whose delay is `delay(seq)` ns.
    fn verdict(delay: impl Fn(i64) -> i64) -> TrendVerdict {
        with_probes(delay, &ClockEstimate::new(&Session::new(TestSpec::default()), None))
    }

    fn with_probes(delay: impl Fn(i64) -> i64, clock: &ClockEstimate) -> TrendVerdict {
        let mut samples = Samples::default();
        let (mut sums, mut extent) = (CoMoments::default(), PacketExtent::default());
        for seq in 0..1000 {
            let packet = AcceptedPacket { seq, sent: i64::from(seq) * 20_000_000, delay: delay(seq.into()) };
            samples.push(packet);
            sums.push(&packet);
            extent.push(&packet);
        }
        let series = Series::new(&samples);
        let hull = SkewHull::new(&series);
        let periods = MeanPeriods::new(&crate::session::Session::new(TestSpec::default()), &extent);
        let arrival = sums.on_arrival().map(Regression::from);
        let evidence = TrendEvidence {
            hull: hull.as_ref(),
            periods: &periods,
            clock,
            direction: Direction::Up,
            jumps: !segments(&series).is_empty(),
            clock_set_back: false,
            max_skew: MAX_SKEW,
        };
        Trend::new(&series, sums.on_send(), arrival, evidence).unwrap().verdict
    }

    /// Queueing noise without a trend, 0…1 ms, mostly small.
    fn noise(i: i64) -> i64 {
        let x = (i * 7_919 + 13) * 104_729 % 1000;
        x * x
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(noise), TrendVerdict::None);
        assert_eq!(verdict(|_| 5), TrendVerdict::None);
        // 120 ppm over 20 s are 2.4 ms.
        assert_eq!(verdict(|i| noise(i) + i * 2_400), TrendVerdict::Skew);
        assert_eq!(verdict(|i| noise(i) - i * 2_400), TrendVerdict::Skew);
        // 50 packets per second offered and 45 delivered; then a queue that empties.
        assert_eq!(verdict(|i| noise(i) + i * 2_222_222), TrendVerdict::Overload);
        assert_eq!(verdict(|i| noise(i) + (1000 - i) * 2_222_222), TrendVerdict::Draining);
        // Another route, or a clock step.
        assert_eq!(verdict(|i| noise(i) + i / 500 * 20_000_000), TrendVerdict::Undecided);
        assert_eq!(verdict(|i| noise(i) - i / 500 * 200_000_000), TrendVerdict::Undecided);
        // A queue that fills during the second half only.
        assert_eq!(verdict(|i| noise(i) + (i - 500).max(0) * 10_000), TrendVerdict::Undecided);
    }

    #[test]
    fn probes_speak_only_of_what_they_resolve() {
        // A delay curve that bends upwards, by 1 ms in total.
        let bent = |i: i64| noise(i) / 100 + (i - 500).max(0) * 2000;
        let probes = |rtt_change: i64, spread: f64| ClockEstimate {
            min_rtt_before_ns: Some(5_000_000),
            min_rtt_after_ns: Some(5_000_000 + rtt_change),
            rtt_spread_ns: Some(spread),
            ..ClockEstimate::default()
        };
        assert_eq!(with_probes(bent, &probes(1_000_000, 100_000.0)), TrendVerdict::Overload);
        assert_eq!(with_probes(bent, &probes(1_000_000, 3_000_000.0)), TrendVerdict::Undecided);
        assert_eq!(with_probes(bent, &probes(9_000_000, 100_000.0)), TrendVerdict::Undecided);
    }

    #[test]
    fn each_rule_has_its_bound() {
        use TrendVerdict::*;
        // 61 ppm over 17 s, in powers of two: a drift of 2^20 ns, whose halves and quarters are exact.
        const M: f64 = 1.0 / 16_384.0;
        const DRIFT: f64 = 1_048_576.0;
        const DURATION: f64 = DRIFT / M;
        let slope = |m: f64| Trend {
            m_send: m,
            r: Some(0.1f64.copysign(m)),
            m_send_ci95: Some([m - 1e-6, m + 1e-6]),
            ..Trend::default()
        };
        let (periods, resolving) = (MeanPeriods::default(), ClockEstimate::default());
        let nothing = TrendEvidence {
            hull: Option::None,
            periods: &periods,
            clock: &resolving,
            direction: Direction::Up,
            jumps: false,
            clock_set_back: false,
            max_skew: MAX_SKEW,
        };
        let rising = || slope(M);
        let excess =
            |seen: f64| Trend { period_excess: Some(seen), expected_excess: Some(1.0), ..slope(0.002) };
        let offset = |ns: f64| Trend { offset_change_ns: Some(ns), ..rising() };
        let rtt = |ns: f64| Trend { rtt_change_ns: Some(ns), ..rising() };
        let lowest = |step: f64, late: f64| Trend {
            residual_quarters: Some([5e6, 5e6 + step, 5e6, 5e6]),
            hull_halves: Some([M, late]),
            ..rising()
        };
        for (trend, duration, expected) in [
            (Trend { r: Option::None, ..offset(DRIFT) }, DURATION, None),
            (Trend { r: Some(0.09), ..offset(DRIFT) }, DURATION, None),
            (Trend { m_send_ci95: Option::None, ..offset(DRIFT) }, DURATION, None),
            (Trend { m_send_ci95: Some([0.0, 2.0 * M]), ..offset(DRIFT) }, DURATION, None),
            (Trend { m_send_ci95: Some([-M, 0.0]), ..offset(DRIFT) }, DURATION, None),
            (rising(), 9_999.0 / M, None),
            (rising(), 10_000.0 / M, Undecided),
            (slope(-0.001), DURATION, Undecided),
            (slope(-0.0011), DURATION, Draining),
            (slope(0.001), DURATION, Undecided),
            (slope(0.0011), DURATION, Overload),
            // Packets that arrive as fast as they are sent contradict a filling queue: the excess is below
            // 0.3 of the expected one.
            (excess(0.29), DURATION, Undecided),
            (excess(0.3), DURATION, Overload),
            // The offset explains the drift to within 30 %: 314 572.8 ns.
            (offset(DRIFT + 314_572.0), DURATION, Skew),
            (offset(DRIFT - 314_572.0), DURATION, Skew),
            (offset(DRIFT + 314_573.0), DURATION, Undecided),
            (offset(DRIFT - 314_573.0), DURATION, Undecided),
            (offset(-DRIFT), DURATION, Undecided),
            // The round trip changed by half to twice the drift.
            (rtt(DRIFT / 2.0), DURATION, Overload),
            (rtt(DRIFT * 2.0), DURATION, Overload),
            (rtt(DRIFT / 2.0 - 1.0), DURATION, Undecided),
            (rtt(DRIFT * 2.0 + 1.0), DURATION, Undecided),
            (Trend { rtt_change_ns: Some(-DRIFT), ..slope(-M) }, DURATION, Draining),
            // The lowest delays: residuals differ by at most a quarter of the drift, halves by at most half
            // of the slope.
            (lowest(DRIFT / 4.0, 1.5 * M), DURATION, Skew),
            (lowest(DRIFT / 4.0 + 1.0, M), DURATION, Undecided),
            (lowest(0.0, 1.5001 * M), DURATION, Undecided),
            (rising(), DURATION, Undecided),
        ] {
            assert_eq!(trend.decide(duration, nothing).0, expected, "{trend:?} {duration}");
        }
        // The offset would explain the drift, but a jump, a clock that was set back, or probes that scatter
        // as much contradict it.
        let jumps = TrendEvidence { jumps: true, ..nothing };
        assert_eq!(offset(DRIFT).decide(DURATION, jumps).0, Undecided);
        let set_back = TrendEvidence { clock_set_back: true, ..nothing };
        let falling = Trend { offset_change_ns: Some(-DRIFT), ..slope(-M) };
        let verdicts =
            [offset(DRIFT), falling].map(|t| (t.decide(DURATION, nothing).0, t.decide(DURATION, set_back).0));
        assert_eq!(verdicts, [(Skew, Skew), (Skew, Undecided)]);
        for (spread, by_offset, by_rtt) in [(DRIFT - 1.0, Skew, Overload), (DRIFT, Undecided, Undecided)] {
            let scattering = ClockEstimate { rtt_spread_ns: Some(spread), ..ClockEstimate::default() };
            let probes = TrendEvidence { clock: &scattering, ..nothing };
            assert_eq!(offset(DRIFT).decide(DURATION, probes).0, by_offset);
            assert_eq!(rtt(DRIFT).decide(DURATION, probes).0, by_rtt);
        }
    }

    #[test]
    fn interval_and_residuals_by_hand() {
        // Send times 1000 + 2i; delays 508 + 3x for x = 2i − 39: one above the line through (0, 507) with
        // slope 3.
        let scan = |n: u32| {
            let mut samples = Samples::default();
            for (seq, i) in (0..n).zip(0..) {
                samples.push(AcceptedPacket { seq, sent: 1000 + 2 * i, delay: 508 + 3 * (2 * i - 39) });
            }
            let line =
                FittedLine { m: 3.0, r: Some(1.0), mean_x: 39.0, origin_y: 500, mean_y: 7.0, sxx: 21_320.0 };
            let hull = SkewHull { alpha: 2.0, edge: [[4, 394], [6, 398]], ..SkewHull::default() };
            Scan::of(&Series::new(&samples), &line, Some(&hull))
        };
        let s = scan(40);
        // The scores of the 20 pairs are 8k − 76. The sum of their squares is 42 560; times 20/19 it is 44
        // 800 = 211.66…². t for 19 degrees of freedom is 2.093 024 054.
        let half = 2.093_024_054 * 211.660_104_885 / 21_320.0;
        let [low, high] = s.interval.unwrap();
        assert!((low - (3.0 - half)).abs() < 1e-9 && (high - (3.0 + half)).abs() < 1e-9, "{low} {high}");
        // Heights above the hull: (391 + 6i) − (386 + 4i).
        assert_eq!((s.quarters, s.duration), (Some([14.0, 34.0, 54.0, 74.0]), 78.0));
        for n in [30, 39] {
            assert!(scan(n).interval.is_none() && scan(n).quarters.is_none(), "two packets a block");
        }
    }
}
