//! Clock offset from control-channel probes (metrics §15).

use crate::clock::{AdapterClock, SyncState};
use serde::{Deserialize, Serialize};

/// Everything known about the two hosts' clocks. θ = server − client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockEstimate {
    /// θ used for correction, in ns; `estimator` is the method of estimating it.
    pub offset_ns: Option<i64>,
    /// Method of estimating `offset_ns`; `None` if that is unknown.
    pub estimator: Option<OffsetEstimator>,
    /// Largest possible error of `offset_ns`, in ns, if no one-way delay is negative.
    pub bound_ns: Option<f64>,
    /// Interval that contains θ, in ns: the intersection of the intervals of all probes.
    pub interval_ns: Option<[i64; 2]>,
    /// True if the intervals of the probes have no common value: a clock was stepped, or the clocks run at different
    /// rates.
    pub inconsistent: bool,
    /// Median of the probes' θ, in ns: the classic estimator.
    pub offset_median_ns: Option<f64>,
    /// θ of the minimum-RTT probe, in ns; `None` without probes.
    pub offset_min_rtt_ns: Option<i64>,
    /// Largest possible error of `offset_min_rtt_ns`, in ns.
    pub bound_min_rtt_ns: Option<f64>,
    /// Minimum RTT of the control channel, in ns.
    pub min_rtt_ns: Option<i64>,
    /// θ of the best probe before the stream, in ns.
    pub offset_before_ns: Option<f64>,
    /// θ of the best probe after the start of the stream, in ns.
    pub offset_after_ns: Option<f64>,
    /// Minimum RTT before the stream, in ns.
    pub min_rtt_before_ns: Option<i64>,
    /// Minimum RTT after the start of the stream, in ns.
    pub min_rtt_after_ns: Option<i64>,
    /// Median of the probes' round trips minus their minimum, in ns: the larger one of the values before and after the
    /// start of the stream. Smaller changes of offset or round trip cannot be detected.
    pub rtt_spread_ns: Option<f64>,
    /// Number of clock probes.
    pub probes: usize,
    /// Value subtracted from each raw delay, in ns: +θ up, −θ down.
    pub correction_ns: Option<i64>,
    /// True if the direction, and therefore the sign, is known.
    pub direction_known: bool,
    /// The client's report about its clock.
    pub client: HostClock,
    /// The server's report about its clock.
    pub server: HostClock,
}

/// Method of estimating the clock offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OffsetEstimator {
    /// Offset of the probe with the shortest round trip.
    MinimumRtt,
    /// Median of the probes; used with classic workorders.
    MedianOfProbes,
    /// Offset stored in a version 2 log.
    Logged,
}

/// A host's report about its clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostClock {
    /// Clock source, for example `tsc`.
    pub source: Option<String>,
    /// State before the stream.
    pub before: Option<SyncState>,
    /// State after the stream.
    pub after: Option<SyncState>,
    /// Clock of the adapter, if it stamps the packets of the test; `None` if it does not, or if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterClock>,
    /// Step of the realtime clock against the monotonic clock during the run, in ns.
    pub step_ns: Option<i64>,
}

/// Delay statistics after correction of the clock offset, in ns. PDV and other figures do not depend on the
/// offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Corrected {
    /// Smallest delay.
    pub min: Option<i64>,
    /// Mean delay.
    pub mean: Option<f64>,
    /// Largest delay.
    pub max: Option<i64>,
    /// Median delay.
    pub median: Option<f64>,
    /// θ used, server − client.
    pub offset_ns: i64,
    /// Largest possible error of the offset.
    pub bound_ns: Option<f64>,
}

impl Corrected {
    /// Returns true if the correction is plausible: no corrected delay is negative by more than the bound.
    pub fn is_possible(&self) -> bool {
        let bound = self.bound_ns.unwrap_or(f64::INFINITY);
        self.min.is_none_or(|min| min as f64 >= -bound)
    }
}

use crate::clock::ClockProbe;
use crate::session::{HostFacts, Session};
use crate::spec::Direction;
use crate::time::WallTime;

/// Largest contradiction between an offset and a delay that errors of stamps explain, in ns: a sender must write the
/// departure time into a packet before the packet leaves, and programs take such times from estimates.
const MAX_STAMP_ERROR_NS: f64 = 100_000.0;

/// Penalty for each ns between a probe and the middle of the stream: twice the 15 ppm by which RFC 5905
/// allows a clock to drift.
const DISTANCE_PENALTY: f64 = 30e-6;

impl ClockEstimate {
    /// Estimates the offset from the probes of `session`, or from the values in a version 2 log. `stream` is the first
    /// and the last time of the stream on the client's clock; `None` if nothing was received.
    pub fn new(session: &Session, stream: Option<(WallTime, WallTime)>) -> ClockEstimate {
        let mut estimate = ClockEstimate {
            probes: session.probes.len(),
            direction_known: session.direction_known,
            client: HostClock::new(&session.client),
            server: HostClock::new(&session.server),
            ..ClockEstimate::default()
        };
        if session.probes.is_empty() {
            estimate.offset_ns = session.classic_offset.map(|s| s.0);
            estimate.estimator = session.classic_offset.map(|_| OffsetEstimator::Logged);
            estimate.offset_median_ns = session.classic_offset.map(|s| s.0 as f64);
            estimate.min_rtt_ns = session.classic_rtt.map(|s| s.0);
            // The offset of a probe is wrong by at most half of its round trip.
            estimate.bound_ns = estimate.min_rtt_ns.filter(|r| *r >= 0).map(|r| r as f64 / 2.0);
            estimate.interval_ns = estimate
                .offset_ns
                .zip(estimate.min_rtt_ns.filter(|r| *r >= 0))
                .map(|(o, r)| [o.saturating_sub(r / 2), o.saturating_add(r / 2)]);
        } else {
            estimate.use_probes(&session.probes, stream);
            if session.classic {
                estimate.use_median(&session.probes);
            }
        }
        estimate.correction_ns = estimate.offset_ns.map(|o| match session.spec.direction() {
            Direction::Up => o,
            Direction::Down => o.saturating_neg(),
        });
        estimate
    }

    fn use_probes(&mut self, probes: &[ClockProbe], stream: Option<(WallTime, WallTime)>) {
        // Clocks drift apart, so a probe is less accurate the farther it is from the middle of the stream.
        // Without a stream, the newest probe is the reference.
        // Halving first avoids overflow.
        let reference = match stream {
            Some((first, last)) => first.0 / 2 + last.0 / 2,
            None => probes.iter().map(|p| p.returned.0).max().unwrap_or(0),
        };
        // A short round trip leaves little room for asymmetry, and a short distance little time for drift.
        let cost =
            |p: &ClockProbe| p.rtt().0 as f64 + DISTANCE_PENALTY * p.returned.0.abs_diff(reference) as f64;
        let best = |probes: &mut dyn Iterator<Item = &ClockProbe>| {
            probes.min_by(|a, b| cost(a).total_cmp(&cost(b))).copied()
        };
        let start = stream.map_or(i64::MAX, |(first, _)| first.0);
        let before = best(&mut probes.iter().filter(|p| p.sent.0 < start));
        let after = best(&mut probes.iter().filter(|p| p.sent.0 >= start));
        let theta = |p: ClockProbe| p.double_offset() as f64 / 2.0;
        self.offset_before_ns = before.map(theta);
        self.offset_after_ns = after.map(theta);
        let rtts = |late: bool| probes.iter().filter(move |p| (p.sent.0 >= start) == late).map(|p| p.rtt().0);
        self.min_rtt_before_ns = rtts(false).min();
        self.min_rtt_after_ns = rtts(true).min();
        let spread = |late| Some(median(rtts(late).map(|r| r as f64).collect())? - rtts(late).min()? as f64);
        self.rtt_spread_ns = [false, true].into_iter().filter_map(spread).reduce(f64::max);
        self.min_rtt_ns = probes.iter().map(|p| p.rtt().0).min();
        self.offset_median_ns = median(probes.iter().map(|p| theta(*p)).collect());

        // No one-way delay is negative: T3 − T4 ≤ θ ≤ T2 − T1.
        let low = probes.iter().map(|p| (p.answered - p.returned).0).max();
        let high = probes.iter().map(|p| (p.arrived - p.sent).0).min();
        let interval = low.zip(high);
        self.inconsistent = interval.is_some_and(|(low, high)| low > high);
        let Some(best) = best(&mut probes.iter()) else { return };
        let offset = best.double_offset().div_euclid(2);
        self.interval_ns = interval.filter(|(low, high)| low <= high).map(|(low, high)| [low, high]);
        let bound = self.reach(offset).unwrap_or(best.rtt().0 as f64 / 2.0);
        (self.offset_ns, self.bound_ns) = (Some(offset), Some(bound));
        self.estimator = Some(OffsetEstimator::MinimumRtt);
        (self.offset_min_rtt_ns, self.bound_min_rtt_ns) = (Some(offset), Some(bound));
    }

    /// Uses the median of the probes for correction, as the original tool did (DRDC TM 2011-047, A.2).
    fn use_median(&mut self, probes: &[ClockProbe]) {
        // Doubled offsets are integers, so the median is computed without floating point.
        let mut doubled: Vec<i64> = probes.iter().map(ClockProbe::double_offset).collect();
        doubled.sort_unstable();
        let (low, high) = (doubled[(doubled.len() - 1) / 2], doubled[doubled.len() / 2]);
        let offset = (i128::from(low) + i128::from(high)).div_euclid(4) as i64;
        let to_best = self.offset_min_rtt_ns.map_or(0, |best| best.abs_diff(offset)) as f64;
        let bound = self.reach(offset).or_else(|| Some(self.bound_min_rtt_ns? + to_best));
        (self.offset_ns, self.bound_ns) = (Some(offset), bound);
        self.estimator = Some(OffsetEstimator::MedianOfProbes);
    }

    /// Returns the distance, in ns, from `offset` to the farther end of the interval that contains θ; `None` without an
    /// interval.
    fn reach(&self, offset: i64) -> Option<f64> {
        let [low, high] = self.interval_ns?.map(i128::from);
        Some((high - i128::from(offset)).max(i128::from(offset) - low) as f64)
    }

    /// Widens the bound if the smallest raw delay `least` contradicts it by no more than stamps may be wrong: the exchange
    /// that determines the offset may itself have such a stamp, and appear to be faster than it is. Without this, chance
    /// decides whether the delays over a fast path are known.
    pub(crate) fn allow_for_stamps(&mut self, least: Option<i64>) {
        if let Some(((least, correction), bound)) = least.zip(self.correction_ns).zip(self.bound_ns) {
            let early = correction.saturating_sub(least) as f64;
            if early > bound && early - bound <= MAX_STAMP_ERROR_NS {
                self.bound_ns = Some(early);
            }
        }
    }

    /// Returns delay statistics corrected by this estimate; `None` if the correction is unknown.
    pub fn correct(&self, latency: &crate::distribution::Distribution) -> Option<Corrected> {
        let correction = self.correction_ns?;
        let less = |x: i64| x.saturating_sub(correction);
        let less_f64 = |x: f64| x - correction as f64;
        Some(Corrected {
            min: latency.min.map(less),
            mean: latency.mean.map(less_f64),
            max: latency.max.map(less),
            median: latency.median.map(less_f64),
            offset_ns: self.offset_ns?,
            bound_ns: self.bound_ns,
        })
    }

    /// Returns the sum of the maximum errors that the two kernels report, in ns; `None` unless both consider their
    /// clocks synchronised in their latest reports.
    pub fn synchronised(&self) -> Option<i64> {
        // The state after the stream is newer; clocks may synchronise during a test.
        let error = |host: &HostClock| {
            let state = host.after.or(host.before).filter(|s| s.synchronised)?;
            Some(state.maximum_error.0)
        };
        Some(error(&self.client)?.saturating_add(error(&self.server)?))
    }
}

impl HostClock {
    fn new(host: &HostFacts) -> HostClock {
        HostClock {
            source: host.clock_source.clone(),
            before: host.sync_before,
            after: host.sync_after,
            adapter: host.adapter_clock,
            step_ns: host.clock_step.map(|s| s.0),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    Some((values.get(n.checked_sub(1)? / 2)? + values.get(n / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SyncState;
    use crate::spec::TestSpec;
    use crate::time::Span;

    /// A session with five probes one second apart over a symmetric path with the given queueing delays, in
    /// µs.
    fn session(direction: Direction, theta: i64, queueing: [(i64, i64); 5]) -> Session {
        let one_way = 1_615_500_000;
        let spec = TestSpec::default();
        let mut session = Session::new(if direction == Direction::Up { spec } else { spec.reversed() });
        session.probes = (0..)
            .zip(queueing)
            .map(|(k, (forth, back))| {
                let sent = k * 1_000_000_000;
                let arrived = sent + one_way + forth * 1000;
                ClockProbe {
                    sent: WallTime(sent),
                    arrived: WallTime(arrived + theta),
                    answered: WallTime(arrived + theta),
                    returned: WallTime(arrived + one_way + back * 1000),
                }
            })
            .collect();
        session
    }

    const V17: [(i64, i64); 5] = [(900, 0), (0, 20), (120, 30), (50, 700), (4000, 100)];

    #[test]
    fn five_probes() {
        // metrics §15, V17.
        let e = ClockEstimate::new(&session(Direction::Up, 31_340_420_000, V17), None);
        assert_eq!(e.offset_median_ns, Some(31_340_465_000.0));
        assert_eq!((e.offset_ns, e.min_rtt_ns), (Some(31_340_410_000), Some(3_231_020_000)));
        assert_eq!(e.interval_ns, Some([29_724_920_000, 32_955_920_000]));
        assert_eq!(e.correction_ns, Some(31_340_410_000));
        // The probes lie 0.02, 0.15, 0.75, 0.9 and 4.1 ms above the path's round trip.
        assert_eq!(e.rtt_spread_ns, Some(730_000.0));
        assert!(!e.inconsistent);
    }

    #[test]
    fn classic_workorders_have_the_median() {
        // metrics §15, V17: the result for five workorders, compared with the minimum-RTT estimate.
        let mut s = session(Direction::Up, 31_340_420_000, V17);
        s.classic = true;
        let e = ClockEstimate::new(&s, None);
        assert_eq!((e.offset_ns, e.correction_ns), (Some(31_340_465_000), Some(31_340_465_000)));
        assert_eq!(e.offset_min_rtt_ns, Some(31_340_410_000));
        // The bound is the distance to the farther end of the interval.
        assert_eq!((e.bound_ns, e.bound_min_rtt_ns), (Some(1_615_545_000.0), Some(1_615_510_000.0)));
        // For an even number, the mean of the middle two, computed without floating point.
        s.probes.truncate(4);
        let far = 1_700_000_000_000_000_000;
        for probe in &mut s.probes {
            (probe.arrived, probe.answered) =
                (WallTime(probe.arrived.0 + far), WallTime(probe.answered.0 + far));
        }
        assert_eq!(ClockEstimate::new(&s, None).offset_ns, Some(31_340_437_500 + far));
    }

    #[test]
    fn the_sign_depends_on_the_direction() {
        let e = ClockEstimate::new(&session(Direction::Down, 5_000, [(0, 0); 5]), None);
        assert_eq!((e.offset_ns, e.correction_ns), (Some(5_000), Some(-5_000)));
        // metrics §15, V18: synchronised clocks give θ = 0, not the RTT that the formula printed in DRDC TM 2011-047
        // would give.
        let e = ClockEstimate::new(&session(Direction::Up, 0, [(0, 0); 5]), None);
        assert_eq!(e.offset_ns, Some(0));
    }

    #[test]
    fn a_stepped_clock_contradicts_itself() {
        let mut s = session(Direction::Up, 0, [(0, 0); 5]);
        for probe in &mut s.probes[3..] {
            probe.arrived = probe.arrived + Span::seconds(10);
            probe.answered = probe.answered + Span::seconds(10);
        }
        let e = ClockEstimate::new(&s, None);
        assert!(e.inconsistent && e.interval_ns.is_none() && e.bound_ns.is_some());
    }

    #[test]
    fn version_2_logs_give_the_printed_figures() {
        let mut s = Session::new(TestSpec::default());
        s.classic_offset = Some(Span(31_340_420_000));
        s.classic_rtt = Some(Span(3_231_000_000));
        let e = ClockEstimate::new(&s, None);
        assert_eq!((e.offset_ns, e.bound_ns), (Some(31_340_420_000), Some(1_615_500_000.0)));
        assert_eq!(ClockEstimate::new(&Session::new(TestSpec::default()), None).offset_ns, None);
    }

    /// A probe sent at `sent` ms that takes `rtt` µs and shows the server's clock `theta` ns ahead.
    fn probe(sent: i64, rtt: i64, theta: i64) -> ClockProbe {
        let (sent, rtt) = (sent * 1_000_000, rtt * 1000);
        let arrived = WallTime(sent + rtt / 2 + theta);
        ClockProbe { sent: WallTime(sent), arrived, answered: arrived, returned: WallTime(sent + rtt) }
    }

    #[test]
    fn a_probe_counts_for_less_the_farther_it_is_from_the_stream() {
        let mut s = Session::new(TestSpec::default());
        s.probes = vec![
            probe(0, 100, 1000),
            probe(1000, 90, 2000),
            probe(10_000, 80, 3000),
            probe(12_000, 120, 4000),
        ];
        let of = |stream: Option<(i64, i64)>| {
            ClockEstimate::new(&s, stream.map(|(a, b)| (WallTime(a * 1_000_000), WallTime(b * 1_000_000))))
        };
        // Costs with the middle of the stream at 5 s: 250, 210, 230 and 330 µs.
        let e = of(Some((2000, 8000)));
        assert_eq!(e.offset_ns, Some(2000));
        assert_eq!((e.offset_before_ns, e.offset_after_ns), (Some(2000.0), Some(3000.0)));
        assert_eq!((e.min_rtt_before_ns, e.min_rtt_after_ns), (Some(90_000), Some(80_000)));
        // Before: 95 above the minimum of 90; after: 100 above 80.
        assert_eq!(e.rtt_spread_ns, Some(20_000.0));
        assert_eq!(
            [(9000, 9000), (0, 24_000), (24_000, 0)].map(|s| of(Some(s)).offset_ns),
            [Some(3000), Some(4000), Some(4000)]
        );
        // A probe sent together with the first packet counts as after it.
        let e = of(Some((10_000, 10_000)));
        assert_eq!((e.offset_before_ns, e.offset_after_ns), (Some(2000.0), Some(3000.0)));
        assert_eq!((e.min_rtt_before_ns, e.min_rtt_after_ns), (Some(90_000), Some(80_000)));
        // Without a stream, the newest probe counts most.
        assert_eq!(of(None).offset_ns, Some(4000));
    }

    #[test]
    fn an_interval_of_one_point_is_no_contradiction() {
        let mut s = Session::new(TestSpec::default());
        s.probes = vec![probe(0, 0, 7)];
        let e = ClockEstimate::new(&s, None);
        assert_eq!((e.inconsistent, e.interval_ns, e.bound_ns), (false, Some([7, 7]), Some(0.0)));
    }

    #[test]
    fn without_an_interval_the_round_trip_bounds_the_error() {
        let mut s = Session::new(TestSpec::default());
        s.probes = vec![probe(0, 100, 0), probe(1000, 100, 0), probe(2000, 100, 10_000_000)];
        assert_eq!(ClockEstimate::new(&s, None).bound_ns, Some(50_000.0));
        // The median is 10 ms away from the best probe's offset.
        s.classic = true;
        let e = ClockEstimate::new(&s, None);
        assert_eq!((e.offset_ns, e.bound_ns), (Some(0), Some(10_050_000.0)));
    }

    #[test]
    fn corrected_delays() {
        let estimate = ClockEstimate {
            offset_ns: Some(-100),
            correction_ns: Some(100),
            bound_ns: Some(7.0),
            ..ClockEstimate::default()
        };
        let latency = crate::distribution::Distribution {
            min: Some(150),
            mean: Some(160.5),
            max: Some(180),
            median: Some(165.0),
            ..Default::default()
        };
        let expected = Corrected {
            min: Some(50),
            mean: Some(60.5),
            max: Some(80),
            median: Some(65.0),
            offset_ns: -100,
            bound_ns: Some(7.0),
        };
        assert_eq!(estimate.correct(&latency), Some(expected));
        assert_eq!(ClockEstimate::default().correct(&latency), None);
    }

    #[test]
    fn a_correction_by_which_packets_arrive_before_they_are_sent_is_wrong() {
        let of = |min, bound_ns| Corrected { min, bound_ns, ..Corrected::default() }.is_possible();
        assert!(of(Some(5), Some(3.0)) && of(Some(-3), Some(3.0)) && !of(Some(-4), Some(3.0)));
        assert!(of(None, Some(3.0)) && of(Some(-4), None));
    }

    #[test]
    fn stamps_that_are_a_little_wrong_do_not_contradict_a_clock() {
        let of = |least: Option<i64>, correction_ns: Option<i64>| {
            let mut clock =
                ClockEstimate { correction_ns, bound_ns: Some(400.0), ..ClockEstimate::default() };
            clock.allow_for_stamps(least);
            clock.bound_ns
        };
        assert_eq!(of(Some(-900), Some(-500)), Some(400.0));
        assert_eq!(of(Some(-901), Some(-500)), Some(401.0));
        assert_eq!(of(Some(-100_900), Some(-500)), Some(100_400.0));
        assert_eq!(of(Some(-100_901), Some(-500)), Some(400.0), "a clock was set, or drifts");
        assert_eq!([of(None, Some(-500)), of(Some(-900), None)], [Some(400.0); 2]);
    }

    #[test]
    fn both_kernels_must_call_their_clocks_synchronised() {
        let state = |synchronised, error| SyncState {
            synchronised,
            offset: Span(0),
            estimated_error: Span(0),
            maximum_error: Span(error),
            frequency_ppb: 0,
        };
        let host = |before, after| HostClock { before, after, ..HostClock::default() };
        let of = |client, server| ClockEstimate { client, server, ..ClockEstimate::default() }.synchronised();
        let good = host(Some(state(true, 5)), None);
        assert_eq!(of(good.clone(), host(Some(state(true, 7)), Some(state(true, 30)))), Some(35));
        assert_eq!(of(good.clone(), host(Some(state(true, 7)), Some(state(false, 30)))), None);
        assert_eq!(of(good, HostClock::default()), None);
    }
}
