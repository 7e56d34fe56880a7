use super::*;
use crate::testing::{MS, SECOND, Test, US, as_read, every, first};
use jitlat_core::spec::{Schedule, Transport};
use jitlat_core::time::Span;

const NO_NOISE: DelayNoise = DelayNoise { median: 0, p90: 0 };

/// A change by `change` ns at index `place`.
fn step(place: usize, change: i64) -> LevelStep {
    LevelStep { place, change, ramp: 0, spread: [0, 0] }
}

/// A test of 1000 packets, one every 10 ms, with the given delays.
fn test(delay: impl Fn(u32) -> i64) -> Test {
    Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| Some(delay(k))))
}

/// Returns the reasons of `steps`, between which delays are constant.
fn reasons(steps: &[LevelStep]) -> Vec<StepReason> {
    let level =
        |k: u32| 50 * MS + steps.iter().filter(|s| s.place <= k as usize).map(|s| s.change).sum::<i64>();
    let test = test(level);
    explain(&test.delays(), steps, &test.material(), NO_NOISE).into_iter().map(|(_, r)| r).collect()
}

#[test]
fn a_ramp_of_three_packets_is_a_queue() {
    let with = |ramp| reasons(&[LevelStep { ramp, ..step(300, 5 * MS) }]);
    assert_eq!([with(2), with(3)], [[StepReason::Route], [StepReason::Queue]]);
}

#[test]
fn a_level_stays_by_half_the_step() {
    let is_level = |before: i64, after: i64, change| {
        let test = test(|k| if k < 300 { before } else { after });
        stays(&test.delays(), &step(300, change), 0, 1000)
    };
    assert_eq!(first(0..=10 * MS, |after| is_level(0, after, 5 * MS)), 2_500_000);
    assert_eq!(first(0..=10 * MS, |before| is_level(before, 0, -5 * MS)), 2_500_000);
    assert!(!is_level(5 * MS, 0, 5 * MS));
    let test = test(|k| if k < 300 { 0 } else { 5 * MS });
    let delays = test.delays();
    assert!(!stays(&delays, &step(300, 5 * MS), 300, 1000) && !stays(&delays, &step(300, 5 * MS), 0, 300));
    // One packet of a hundred may return to the level before.
    let back = |n: u32| {
        let of = |k: u32| if k < 300 || (500..500 + n).contains(&k) { 0 } else { 5 * MS };
        let delays = Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| Some(of(k)))).delays();
        stays(&delays, &step(300, 5 * MS), 0, 1000)
    };
    assert_eq!(first(1..=50, |n| !back(n as u32)), 8);
}

#[test]
fn a_level_that_does_not_stay_until_the_next_was_a_queue() {
    // Delays return to the previous level without a step that was found.
    let of = |delay: fn(u32) -> i64, steps: &[LevelStep]| {
        let test = test(delay);
        explain(&test.delays(), steps, &test.material(), NO_NOISE)
            .into_iter()
            .map(|(_, r)| r)
            .collect::<Vec<_>>()
    };
    let hill = |k: u32| if (300..500).contains(&k) { 55 * MS } else { 50 * MS };
    assert_eq!(of(hill, &[step(300, 5 * MS)]), [StepReason::Queue]);
    // Only the packets from the previous to the next step count.
    let two = |k: u32| match k {
        ..300 => 50 * MS,
        300..500 => 55 * MS,
        500..600 => 80 * MS,
        _ => 50 * MS,
    };
    assert_eq!(
        of(two, &[step(300, 5 * MS), step(500, 25 * MS), step(600, -30 * MS)]),
        [StepReason::Route; 3]
    );
    let first_low = |k: u32| match k {
        ..100 => 60 * MS,
        100..300 => 50 * MS,
        _ => 55 * MS,
    };
    assert_eq!(of(first_low, &[step(100, -10 * MS), step(300, 5 * MS)]), [StepReason::Route; 2]);
}

#[test]
fn a_side_has_more_jitter_by_a_factor_and_a_fiftieth_of_the_step() {
    let noisier = |spread: [i64; 2], change, factor| {
        has_more_jitter(&LevelStep { spread, ..step(300, change) }, factor)
    };
    let border = |low: i64, change, factor| first(0..=10 * MS, |high| noisier([low, high], change, factor));
    assert_eq!(border(0, MS, 1.7), 34 * US + 1, "at least 20 us count");
    assert_eq!(border(40 * US, MS, 1.7), 68 * US + 1);
    assert_eq!(border(40 * US, MS, 3.0), 120 * US + 1);
    assert_eq!(border(0, 5 * MS, 1.7), 100 * US + 1);
    // Before a fall, the higher side is the earlier one.
    assert!(noisier([100 * US, 0], -MS, 1.7) && !noisier([0, 100 * US], -MS, 1.7));
    assert!(!noisier([100 * US, 0], MS, 1.7));
}

/// A rise at 300 and a fall at 500, each with its ramp and the spread on the higher side.
fn hill(rise: (usize, i64), fall: (usize, i64)) -> [LevelStep; 2] {
    [
        LevelStep { ramp: rise.0, spread: [0, rise.1], ..step(300, 5 * MS) },
        LevelStep { ramp: fall.0, spread: [fall.1, 0], ..step(500, -5 * MS) },
    ]
}

#[test]
fn a_rise_and_the_fall_back_are_one_thing() {
    assert_eq!(reasons(&hill((0, 0), (0, 0))), [StepReason::Route; 2]);
    // A hill with ramps of three packets in total is a queue.
    assert_eq!(reasons(&hill((1, 0), (1, 0))), [StepReason::Route; 2]);
    assert_eq!(reasons(&hill((2, 0), (1, 0))), [StepReason::Queue; 2]);
    assert_eq!(reasons(&hill((1, 0), (2, 0))), [StepReason::Queue; 2]);
    assert_eq!(reasons(&hill((3, 0), (0, 0))), [StepReason::Queue; 2]);
    // A hill with a larger spread on the higher side, at either end, is a queue.
    assert_eq!(reasons(&hill((0, 100 * US), (0, 100 * US))), [StepReason::Route; 2]);
    assert_eq!(reasons(&hill((0, 100 * US + 1), (0, 0))), [StepReason::Queue; 2]);
    assert_eq!(reasons(&hill((0, 0), (0, 100 * US + 1))), [StepReason::Queue; 2]);
}

#[test]
fn back_is_to_within_a_fifth() {
    let of = |fall: i64| {
        reasons(&[LevelStep { spread: [50 * US, 101 * US], ..step(300, 5 * MS) }, step(500, fall)])
    };
    assert_eq!(of(-4 * MS), [StepReason::Queue; 2]);
    assert_eq!(of(-6 * MS), [StepReason::Queue; 2]);
    for fall in [-4 * MS + 1, -6 * MS - 1] {
        assert_eq!(of(fall), [StepReason::Route; 2]);
    }
    // A fall followed by a rise is not a hill.
    let dip = [LevelStep { spread: [101 * US, 50 * US], ..step(300, -5 * MS) }, step(500, 5 * MS)];
    assert_eq!(reasons(&dip), [StepReason::Route; 2]);
    // A single step needs three times the spread, and at least 20 us.
    let alone = |high| reasons(&[LevelStep { spread: [0, high], ..step(300, MS) }]);
    assert_eq!([alone(60 * US), alone(60 * US + 1)], [[StepReason::Route], [StepReason::Queue]]);
}

#[test]
fn what_falls_from_a_queue_is_no_route() {
    // A queue, and a fall by half of it, to less than the level before the rise.
    let of = |fall: LevelStep| reasons(&[LevelStep { ramp: 3, ..step(300, 5 * MS) }, fall]);
    assert_eq!(of(step(500, -9 * MS)), [StepReason::Queue; 2]);
    assert_eq!(of(step(500, 20 * MS)), [StepReason::Queue, StepReason::Route]);
    let of = |fall: LevelStep| reasons(&[step(300, 2 * MS), fall]);
    assert_eq!(of(step(500, -9 * MS)), [StepReason::Route; 2]);
    assert_eq!(of(LevelStep { ramp: 3, ..step(500, -9 * MS) }), [StepReason::Route, StepReason::Queue]);
    assert_eq!(of(LevelStep { spread: [180 * US, 0], ..step(500, -9 * MS) }), [StepReason::Route; 2]);
    assert_eq!(
        of(LevelStep { spread: [180 * US + 1, 0], ..step(500, -9 * MS) }),
        [StepReason::Route, StepReason::Queue]
    );
}

/// True if packets drain when packet `drop` arrives `apart` ns after the one before it, for a fall at `place`.
fn is_drained(period: i64, drop: usize, apart: i64, place: usize, noise: DelayNoise) -> bool {
    let at = |k: u32| if (k as usize) < drop { SECOND } else { SECOND + apart - period };
    let packets = every(period, 1000, |k| Some(at(k)));
    drains(&Test::new(1000, period, &packets).delays(), &step(place, -2 * MS), noise)
}

#[test]
fn a_queue_drains_as_fast_as_packets_can_follow() {
    assert_eq!(first(0..=MS, |apart| !is_drained(MS, 500, apart, 500, NO_NOISE)), 250 * US);
    assert!(is_drained(MS, 500, 0, 500, NO_NOISE) && !is_drained(MS, 500, -1, 500, NO_NOISE));
    // The packets that drain may also be next to the edge.
    let beside = [498, 499, 500, 501, 502].map(|drop| is_drained(MS, drop, 0, 500, NO_NOISE));
    assert_eq!(beside, [false, true, true, true, false]);
    // The packets must be sent farther apart than four times the noise, or 0.2 ms.
    assert_eq!(first(10..=MS, |period| is_drained(period, 500, 0, 500, NO_NOISE)), 200 * US + 1);
    let noise = DelayNoise { median: 0, p90: 100 * US };
    assert_eq!(first(10..=MS, |period| is_drained(period, 500, 0, 500, noise)), 400 * US + 1);
    assert!(!is_drained(MS, 500, 0, 999, NO_NOISE));
    let at = |place: usize| is_drained(MS, place.min(999), 0, place, NO_NOISE);
    assert_eq!([1, 2, 999, 1000].map(at), [false, true, true, false]);
    // A hill that ends like this was a queue, unless it is lower than twice the distance of packets: then it may end
    // like this by chance.
    let of = |height: i64| {
        let hill = |k: u32| match k {
            300..500 => 50 * MS + height,
            500 => 50 * MS + height - 10 * MS,
            _ => 50 * MS,
        };
        let (test, steps) = (test(hill), [step(300, height), step(500, -height)]);
        let found = explain(&test.delays(), &steps, &test.material(), NO_NOISE);
        found.iter().map(|f| f.1).collect::<Vec<_>>()
    };
    assert_eq!([of(19 * MS), of(20 * MS)], [[StepReason::Route; 2], [StepReason::Queue; 2]]);
}

/// Returns the proof for a step by `change` at 500 in this direction, with clocks set by `set`.
fn proven(change: i64, down: bool, set: impl FnOnce(&mut Test)) -> char {
    let direction = if down { Direction::Down } else { Direction::Up };
    let packets = every(10 * MS, 1000, |k| Some(if k < 500 { SECOND } else { SECOND + change }));
    let mut test = Test::with(1000, 10 * MS, &packets, Schedule::Periodic, (direction, Transport::Udp));
    set(&mut test);
    match proof(&test.delays(), &step(500, change), &test.material(), NO_NOISE) {
        Proof::Clock => 'c',
        Proof::Route => 'r',
        Proof::None => '-',
    }
}

#[test]
fn a_host_that_says_its_clock_was_set_proves_it() {
    // In the up direction the server receives, so a forward step of its clock adds to delays. The sizes agree to
    // within a third.
    let server =
        |down, change: i64, by: i64| proven(change, down, |t| t.session.server.clock_step = Some(Span(by)));
    let client =
        |down, change: i64, by: i64| proven(change, down, |t| t.session.client.clock_step = Some(Span(by)));
    let change = 6 * MS;
    assert_eq!(
        [4 * MS - 1, 4 * MS, 8 * MS, 8 * MS + 1].map(|by| server(false, change, by)),
        ['-', 'c', 'c', '-']
    );
    assert_eq!([change, -change].map(|by| client(false, change, by)), ['-', 'c']);
    assert_eq!([change, -change].map(|by| client(true, change, by)), ['c', '-']);
    assert_eq!([change, -change].map(|by| server(true, change, by)), ['-', 'c']);
    // Less than a millisecond is not a step.
    assert_eq!([MS, MS + 1].map(|by| server(false, MS, by)), ['-', 'c']);
    // If nothing else explains the step, the clock is the reason.
    let mut test = test(|k| if k < 500 { 0 } else { 6 * MS });
    test.session.server.clock_step = Some(Span(6 * MS));
    let found =
        explain(&test.delays(), &[LevelStep { ramp: 9, ..step(500, 6 * MS) }], &test.material(), NO_NOISE);
    assert_eq!(found[0].1, StepReason::ReceiverClock);
}

/// Like [`proven`], if the probes' offset changed by `moved` and the round trip became longer by `longer`.
fn by_probes(change: i64, down: bool, moved: f64, longer: i64) -> char {
    proven(change, down, |t| {
        (t.clock.offset_before_ns, t.clock.offset_after_ns) = (Some(7.0), Some(7.0 + moved));
        (t.clock.min_rtt_before_ns, t.clock.min_rtt_after_ns) = (Some(40 * MS), Some(40 * MS + longer));
    })
}

#[test]
fn probes_tell_a_clock_from_a_way() {
    let change = 10 * MS;
    let up = |moved: i64, longer| by_probes(change, false, moved as f64, longer);
    // The offset changes by about the size of the step, clearly more than for a longer route.
    assert_eq!(up(change, 0), 'c');
    assert_eq!(first(0..=change, |missing| up(change - missing, 0) != 'c'), 3_333_334);
    // Within two fifths, with half of the round trip's change counted.
    assert_eq!(first(0..=20 * MS, |shorter| up(change, -shorter) != 'c'), 8 * MS);
    // A longer path in this direction or in both, or a queue during the probes, is not a clock step.
    assert_eq!([up(5 * MS, 10 * MS), up(0, 20 * MS), up(0, 0)], ['-'; 3]);
    assert_eq!(by_probes(change, true, -10e6, 0), 'c');
    assert_eq!(by_probes(change, true, 10e6, 0), '-');
    assert_eq!(by_probes(-change, false, -10e6, 0), 'c');
}

#[test]
fn a_step_at_either_end_proves_nothing() {
    let test = test(|_| 0);
    for place in [0, 1000] {
        let found = proof(&test.delays(), &step(place, -5 * MS), &test.material(), NO_NOISE);
        assert!(matches!(found, Proof::None));
    }
}

#[test]
fn more_than_any_detour_is_a_clock_unless_the_probes_saw_it_stand() {
    assert_eq!(first(0..=SECOND, |by| proven(by, false, |_| ()) == 'c'), MAX_DETOUR_NS + 1);
    let change = 900 * MS;
    let probed = |moved: i64, longer| by_probes(change, false, moved as f64, longer);
    assert_eq!(first(0..=change / 2, |moved| probed(moved, 0) == 'c'), change / 3);
    assert_eq!(first(0..=change, |shorter| probed(0, -shorter) == 'c'), 720 * MS);
    assert_eq!(probed(change / 2, change), '-', "a longer way up");
    assert_eq!(probed(0, 2 * change), '-', "a longer way there and back");
    // Neither a ramp nor a temporary change is a clock step.
    let of = |ramp, end: u32| {
        let test = test(|k| if (500..end).contains(&k) { change } else { 0 });
        proof(&test.delays(), &LevelStep { ramp, ..step(500, change) }, &test.material(), NO_NOISE)
    };
    assert!(matches!(of(2, 1000), Proof::Clock) && matches!(of(3, 1000), Proof::None));
    assert!(matches!(of(0, 900), Proof::None));
}

#[test]
fn packets_read_at_earlier_times_show_a_clock_and_overtaken_ones_a_route() {
    let of = |earlier: i64, in_order: bool, p90| {
        let change = -10 * MS - earlier;
        let packets = every(10 * MS, 1000, |k| Some(if k < 500 { SECOND } else { SECOND + change }));
        let base = Test::new(1000, 10 * MS, &packets);
        let test = if in_order { Test { series: as_read(packets), ..base } } else { base };
        match proof(&test.delays(), &step(500, change), &test.material(), DelayNoise { median: 0, p90 }) {
            Proof::Clock => 'c',
            Proof::Route => 'r',
            Proof::None => '-',
        }
    };
    assert_eq!(first(0..=MS, |ns| of(ns, true, 0) == 'c'), 20 * US + 1);
    assert_eq!(first(0..=MS, |ns| of(ns, false, 0) == 'r'), 20 * US + 1);
    assert_eq!(first(0..=MS, |ns| of(ns, true, 300 * US) == 'c'), 300 * US + 1);
}

#[test]
fn another_time_to_live_is_another_route() {
    let of = |ttl: &[u32]| proven(5 * MS, false, |t| t.notes.ttl = ttl.iter().map(|at| (*at, 60)).collect());
    let at = [496, 497, 503, 504].map(|at| of(&[0, at]));
    assert_eq!(at, ['-', 'r', 'r', '-']);
    assert_eq!(of(&[500]), '-', "the first is no change");
    // The proof also holds for a ramp.
    let mut test = test(|k| if k < 500 { 0 } else { 5 * MS });
    test.notes.ttl = vec![(0, 64), (500, 60)];
    let found =
        explain(&test.delays(), &[LevelStep { ramp: 9, ..step(500, 5 * MS) }], &test.material(), NO_NOISE);
    assert_eq!(found[0].1, StepReason::Route);
}

#[test]
fn what_is_proven_is_no_queue() {
    let all = |delay: fn(u32) -> i64, steps: &[LevelStep], ttl: &[(u32, u8)]| {
        let mut test = test(delay);
        test.notes.ttl = ttl.to_vec();
        explain(&test.delays(), steps, &test.material(), NO_NOISE)
            .into_iter()
            .map(|(_, r)| r)
            .collect::<Vec<_>>()
    };
    let hill = |k: u32| if (300..500).contains(&k) { 55 * MS } else { 50 * MS };
    let steps = [
        LevelStep { spread: [50 * US, 101 * US], ..step(300, 5 * MS) },
        LevelStep { ramp: 3, ..step(500, -5 * MS) },
    ];
    assert_eq!(all(hill, &steps, &[]), [StepReason::Queue; 2]);
    assert_eq!(all(hill, &steps, &[(0, 64), (300, 60), (500, 64)]), [StepReason::Route; 2]);
    assert_eq!(
        all(hill, &steps, &[(0, 64), (500, 64)]),
        [StepReason::Route; 2],
        "no fall that may be a queue's"
    );
}

#[test]
fn a_drift_may_be_two_clocks_where_the_probes_moved_about_as_much() {
    // A drift of 1 ms in 10 s. The tolerance is half of it, plus twice the sum of 50 us and the spread of round trips.
    let of = |down: bool, moved: f64, spread: Option<f64>| {
        let direction = if down { Direction::Down } else { Direction::Up };
        let packets = every(10 * MS, 1001, |_| Some(0));
        let mut test = Test::with(1001, 10 * MS, &packets, Schedule::Periodic, (direction, Transport::Udp));
        (test.clock.offset_before_ns, test.clock.offset_after_ns) = (Some(3.0), Some(3.0 + moved));
        test.clock.rtt_spread_ns = spread;
        may_be_skew(1e-4, &test.delays(), &test.material())
    };
    assert_eq!(first(0..=10 * MS, |ns| !of(false, (MS + ns) as f64, None)), 600 * US + 1);
    assert_eq!(first(0..=10 * MS, |ns| !of(false, (MS - ns) as f64, None)), 600 * US + 1);
    assert_eq!(first(0..=10 * MS, |ns| !of(false, (MS + ns) as f64, Some(25e3))), 650 * US + 1);
    assert!(of(true, -1e6, None) && !of(true, 1e6, None));
    let unknown = test(|_| 0);
    assert!(may_be_skew(1e-4, &unknown.delays(), &unknown.material()));
}

#[test]
fn a_route_lasts_however_many_packets_are_sent_at_once() {
    // A hundred packets are sent within `time`, after a stall; all of them take 1 ms longer.
    let reasons = |time: i64| {
        let packet = |k: u32| {
            let sent = match i64::from(k) {
                k @ 300..400 => 4000 * MS - time + (k - 300) * time / 99,
                k => k * 10 * MS,
            };
            jitlat_core::metrics::classify::AcceptedPacket {
                seq: k,
                sent,
                delay: if (300..400).contains(&k) { 51 * MS } else { 50 * MS },
            }
        };
        let test = Test::new(1000, 10 * MS, &(0..1000).map(packet).collect::<Vec<_>>());
        let steps = [step(300, MS), step(400, -MS)];
        explain(&test.delays(), &steps, &test.material(), NO_NOISE)
            .into_iter()
            .map(|(_, r)| r)
            .collect::<Vec<_>>()
    };
    assert_eq!(first(0..=990 * MS, |time| reasons(time) == [StepReason::Route; 2]), MIN_ROUTE_TIME_NS);
    assert_eq!(reasons(0), [StepReason::Queue; 2]);
}

#[test]
fn a_drift_that_the_probes_show_is_no_step_of_a_clock() {
    // The path becomes 8 ms longer while the clocks drift apart by 8 ms.
    let mut test = Test::new(1000, 10 * MS, &every(10 * MS, 1000, |k| Some(i64::from(k) * 8 * US)));
    test.clock.offset_before_ns = Some(0.0);
    test.clock.offset_after_ns = Some(8e6);
    (test.clock.min_rtt_before_ns, test.clock.min_rtt_after_ns) = (Some(20 * MS), Some(20 * MS));
    let reason = |skew: f64| {
        let mut delays = test.delays();
        delays.set_skew(skew);
        let found = LevelStep { place: 500, change: 8 * MS, ramp: 0, spread: [0, 0] };
        matches!(proof(&delays, &found, &test.material(), DelayNoise::default()), Proof::Clock)
    };
    assert!(reason(0.0) && !reason(8e-4));
}
