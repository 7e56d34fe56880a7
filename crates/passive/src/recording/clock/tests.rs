use super::*;
use jitlat_core::time::SECOND;

const MS: i64 = 1_000_000;

/// Returns the difference between a step of `by` ns and the size that was found for it.
fn wrong(step: &Step, by: i64) -> i64 {
    (step.size.by - by).abs()
}

/// True if the size of a step is known, and its error is not larger than stated.
fn is_within(step: &Step, by: i64) -> bool {
    step.size.error.is_some_and(|error| wrong(step, by) <= error)
}

/// Returns the addresses of frame `k`: two hosts send to each other in turn.
fn host(k: i64) -> Hosts {
    let from = k as u32 % 2;
    Hosts { from, to: 1 - from }
}

/// Takes `frames` frames with these marks; `recorded` gives their recorded times. Returns the corrected times, the steps
/// and the clock.
fn corrected(
    frames: i64,
    mark: impl Fn(i64) -> (SenderMark, Hosts),
    recorded: impl Fn(i64) -> i64,
) -> (Vec<i64>, Vec<Step>, RecordingClock) {
    let mut clock = RecordingClock::default();
    let (mut times, mut steps, mut held) = (Vec::new(), Vec::new(), Vec::new());
    let mut queue: Vec<i64> = (0..frames).rev().collect();
    while let Some(k) = queue.pop() {
        let (at, mark_of) = (WallTime(recorded(k)), Some(mark(k)));
        if !clock.is_in_doubt()
            && let Taken::At { at, .. } = clock.take(at, mark_of.map(|m| m.0))
        {
            times.push(at.0);
            continue;
        }
        held.push(k);
        if clock.examine(at, mark_of) {
            steps.extend(clock.decide());
            let mut again = held.drain(..);
            let first = again.next().map(|k| clock.take_decided(WallTime(recorded(k)), Some(mark(k).0)));
            times.extend(first.map(|(at, _)| at.0));
            queue.extend(again.rev());
        }
    }
    steps.extend(clock.decide());
    (times, steps, clock)
}

/// Takes frames of two hosts in turn, 10 ms apart, with timestamps if `stamped`; see [`corrected`].
fn run(stamped: bool, frames: i64, recorded: impl Fn(i64) -> i64) -> (Vec<i64>, Vec<Step>, RecordingClock) {
    let mark = |k: i64| {
        let value = stamped.then_some((k * 10) as u32 + 7);
        let flow = 1 + k as u64 % 2;
        (SenderMark { flow, value, is_media: false, may_be_regular: false }, host(k))
    };
    corrected(frames, mark, recorded)
}

#[test]
fn an_even_clock_is_left_alone() {
    for stamped in [false, true] {
        let (times, steps, clock) = run(stamped, 200, |k| k * 10 * MS + k * 7919 % 1000);
        assert_eq!((times.len(), steps.len(), clock.disordered), (200, 0, 0));
        assert!(times.iter().zip(0..).all(|(at, k)| *at == k * 10 * MS + k * 7919 % 1000));
    }
    // Silence of any length, which the timestamps show as well.
    let (_, steps, _) = run(true, 200, |k| k * 10 * MS);
    assert!(steps.is_empty());
}

#[test]
fn steps_back_are_found_with_and_without_timestamps() {
    for stamped in [false, true] {
        for by in [-60 * MS, -250 * MS, -SECOND, -3600 * SECOND] {
            let (times, steps, _) = run(stamped, 300, |k| k * 10 * MS + if k < 100 { 0 } else { by });
            assert_eq!((times.len(), steps.len()), (300, 1), "{stamped} {by}");
            assert!(
                wrong(&steps[0], by) <= 11 * MS && is_within(&steps[0], by) && steps[0].proven,
                "{by}: {steps:?}"
            );
            assert_eq!(steps[0].at, WallTime(99 * 10 * MS));
            assert!(times.is_sorted() && times[299] - 299 * 10 * MS <= 11 * MS, "{stamped} {by}");
        }
    }
}

#[test]
fn steps_forward_are_found_by_the_timestamps_of_two_hosts() {
    for by in [100 * MS, SECOND, 3600 * SECOND] {
        let recorded = |k: i64| k * 10 * MS + if k < 100 { 0 } else { by };
        let (times, steps, _) = run(true, 300, recorded);
        assert_eq!((times.len(), steps.len()), (300, 1), "{by}");
        assert!(
            wrong(&steps[0], by) < 2 * MS
                && is_within(&steps[0], by)
                && (times[299] - 2990 * MS).abs() < 2 * MS,
            "{by}: {steps:?}"
        );
        assert!(run(false, 300, recorded).1.is_empty(), "without timestamps it may be silence");
    }
}

/// Takes packets of senders that send at regular intervals; `senders` has the interval and the first time of each in ms,
/// `recorded` gives the recorded time of a packet, or `None` if it is missing. Returns the steps.
fn regular(senders: &[(i64, i64)], recorded: impl Fn(i64) -> Option<i64>) -> Vec<Step> {
    let mut frames: Vec<(i64, i64, (SenderMark, Hosts))> = Vec::new();
    for ((interval, first), k) in senders.iter().zip(0..) {
        let mark = SenderMark { flow: 10 + k, value: None, is_media: false, may_be_regular: true };
        let mark = (mark, host(k as i64));
        let times = (0..200).map(|n| (first + n * interval) * MS);
        frames.extend(times.filter_map(|at| Some((at, recorded(at)?, mark))));
    }
    frames.sort_by_key(|f| f.0);
    let (mut clock, mut steps, mut held) = (RecordingClock::default(), Vec::new(), Vec::new());
    let mut queue: Vec<_> = frames.into_iter().rev().collect();
    while let Some(frame) = queue.pop() {
        let (at, mark) = (WallTime(frame.1), Some(frame.2));
        if !clock.is_in_doubt() && clock.take(at, mark.map(|m| m.0)) != Taken::Doubt {
            continue;
        }
        held.push(frame);
        if clock.examine(at, mark) {
            steps.extend(clock.decide());
            let mut rest = held.drain(..);
            if let Some(first) = rest.next() {
                clock.take_decided(WallTime(first.1), Some(first.2.0));
            }
            queue.extend(rest.rev());
        }
    }
    steps.extend(clock.decide());
    steps
}

const CALL: [(i64, i64); 2] = [(20, 0), (20, 7)];
const ROOM: [(i64, i64); 4] = [(20, 0), (20, 7), (30, 4), (33, 11)];

#[test]
fn a_step_forward_is_seen_by_all_who_send_at_regular_intervals() {
    for (senders, proven) in [(&CALL[..], false), (&ROOM, true)] {
        for by in [110 * MS, 350 * MS, 4567 * MS] {
            let steps = regular(senders, |at| Some(if at < 2000 * MS { at } else { at + by }));
            assert!(
                steps.len() == 1 && wrong(&steps[0], by) <= MS && is_within(&steps[0], by),
                "{by}: {steps:?}"
            );
            assert_eq!(steps[0].proven, proven);
        }
    }
}

#[test]
fn missing_packets_are_no_step_forward() {
    // An outage, and a pause in which nothing was recorded: every sender continues at its own times.
    assert_eq!(regular(&ROOM, |at| (!(2000 * MS..2357 * MS).contains(&at)).then_some(at)), []);
    // Packets that waited come all at once.
    let waited =
        |at: i64| Some(if (2000 * MS..2357 * MS).contains(&at) { 2357 * MS + at / 1000 } else { at });
    assert_eq!(regular(&ROOM, waited), []);
    // Only one direction is silent.
    assert_eq!(regular(&CALL[..1], |at| Some(if at < 2000 * MS { at } else { at + 350 * MS })), []);
}

#[test]
fn the_size_of_a_step_back_does_not_depend_on_the_time_between_packets() {
    for by in [-150 * MS, -290 * MS, -SECOND, -3600 * SECOND] {
        let steps = regular(&ROOM, |at| Some(if at < 2000 * MS { at } else { at + by }));
        assert!(
            steps.len() == 1 && wrong(&steps[0], by) <= MS && is_within(&steps[0], by),
            "{by}: {steps:?}"
        );
        let (_, steps, _) = run(false, 300, |k| k * 10 * MS + if k < 100 { 0 } else { by });
        assert!(
            steps.len() == 1 && wrong(&steps[0], by) <= MS && is_within(&steps[0], by),
            "{by}: {steps:?}"
        );
    }
}

#[test]
fn disorder_is_no_step() {
    // Every tenth frame was recorded after those of the next 30 ms.
    let (times, steps, clock) = run(true, 300, |k| if k % 10 == 9 { (k - 3) * 10 * MS } else { k * 10 * MS });
    assert_eq!((times.len(), steps.len()), (300, 0));
    assert!(clock.disordered >= 30);
}

#[test]
fn recordings_that_were_appended_are_not_said_to_be_proven() {
    let mut clock = RecordingClock::default();
    let mut steps = Vec::new();
    for k in 0..200i64 {
        let at = WallTime(if k < 100 { k } else { k - 5000 } * 10 * MS);
        let flow = if k < 100 { 1 } else { 2 };
        let mark = SenderMark { flow, value: None, is_media: false, may_be_regular: false };
        let known = Some((mark, host(1)));
        if (clock.is_in_doubt() || clock.take(at, Some(mark)) == Taken::Doubt) && clock.examine(at, known) {
            steps.extend(clock.decide());
        }
    }
    assert_eq!(steps.iter().map(|s| s.proven).collect::<Vec<_>>(), [false]);
}

#[test]
fn the_resolution_is_the_common_step_of_all_times() {
    let resolution = |f: &dyn Fn(i64) -> i64| run(false, 100, f).2.resolution();
    assert_eq!(resolution(&|k| k / 2 * 10 * MS), Some(10 * MS));
    assert_eq!(resolution(&|k| k * 7 * 15_625_000), Some(7 * 15_625_000));
    assert_eq!(resolution(&|k| (k * k % 13 + k * 20) * 15_625_000), Some(15_625_000));
    assert_eq!(resolution(&|k| k * 10 * MS + k * 7919 % 1000 * 1000), None, "microseconds");
    assert_eq!(run(false, 10, |k| k * 10 * MS).2.resolution(), None, "too few");
}

proptest::proptest! {
    /// Any sequence of times is handled to its end.
    #[test]
    fn any_times_come_to_an_end(list in proptest::collection::vec((proptest::prelude::any::<i64>(), 0u64..4, proptest::prelude::any::<Option<u32>>()), 0..200)) {
        let mut clock = RecordingClock::default();
        for (at, flow, value) in list {
            let mark = SenderMark { flow, value, is_media: flow == 3 && value.is_some(), may_be_regular: flow % 2 == 0 };
            let known = Some((mark, host(flow as i64)));
            if (clock.is_in_doubt() || clock.take(WallTime(at), Some(mark)) == Taken::Doubt) && clock.examine(WallTime(at), known) {
                clock.decide();
            }
        }
    }
}

/// Takes packets of two RTP senders, in turn 10 ms apart, each with 8000 ticks per second; `arrived` gives their
/// recorded times. Returns the corrected times and the steps.
fn of_media(packets: i64, ticks: impl Fn(i64) -> u32, arrived: impl Fn(i64) -> i64) -> (Vec<i64>, Vec<Step>) {
    let mark = |k: i64| {
        let flow = 1 + k as u64 % 2;
        let value = Some(ticks(k).wrapping_add(host(k).from * 77_777));
        (SenderMark { flow, value, is_media: true, may_be_regular: false }, host(k))
    };
    let (times, steps, _) = corrected(packets, mark, arrived);
    (times, steps)
}

#[test]
fn steps_forward_are_found_by_the_media_clocks_of_two_hosts() {
    let ticks = |k: i64| (k * 80) as u32;
    for by in [100 * MS, SECOND, 3600 * SECOND] {
        let step = |k: i64| if k < 200 { 0 } else { by };
        let (times, steps) = of_media(600, ticks, |k| k * 10 * MS + k * 7919 % 2000 * 1000 + step(k));
        assert_eq!((times.len(), steps.len()), (600, 1), "{by}");
        assert!(
            wrong(&steps[0], by) < 3 * MS && is_within(&steps[0], by) && steps[0].proven,
            "{by}: {steps:?}"
        );
    }
    // All packets wait for a second, and arrive together: the path stalled.
    let stalled = |k: i64| if (200..300).contains(&k) { 3000 * MS + k * 1000 } else { k * 10 * MS };
    let (times, steps) = of_media(600, ticks, stalled);
    assert_eq!((times.len(), steps.len()), (600, 0));
    // Both senders pause, and their timestamps advance, or only one of them does not.
    let pause = |k: i64| k * 10 * MS + if k < 200 { 0 } else { 5 * SECOND };
    let advanced = |k: i64| (k * 80) as u32 + if k < 200 { 0 } else { 40_000 };
    assert!(of_media(600, advanced, pause).1.is_empty());
    assert!(of_media(600, |k| if k % 2 == 0 { advanced(k) } else { ticks(k) }, pause).1.is_empty());
}

/// Steps that the times alone do not show, in packets of a call with 2 ms of jitter.
#[test]
fn small_steps_are_found_by_both_directions_of_a_call() {
    let ticks = |k: i64| (k * 80) as u32;
    let jitter = |k: i64| k * 7919 % 2000 * 1000;
    for by in [-30 * MS, -10 * MS, 10 * MS, 30 * MS, 60 * MS, 90 * MS] {
        let step = |k: i64| if k < 300 { 0 } else { by };
        let (times, steps) = of_media(900, ticks, |k| k * 10 * MS + jitter(k) + step(k));
        assert_eq!((times.len(), steps.len()), (900, 1), "{by}");
        assert!(
            wrong(&steps[0], by) < 2 * MS && is_within(&steps[0], by) && steps[0].proven,
            "{by}: {steps:?}"
        );
        let far = |(at, k): (&i64, i64)| (at - k * 10 * MS).abs() > 5 * MS;
        assert_eq!(times.iter().zip(0..).filter(|(at, k)| far((*at, *k))).count(), 0, "{by}");
    }
}

#[test]
fn a_path_that_becomes_longer_is_no_step_of_the_clock() {
    let ticks = |k: i64| (k * 80) as u32;
    // One direction changes alone, or both by different amounts; packets are late one at a time; jitter grows.
    let late: [fn(i64) -> i64; 4] = [
        |k| if k >= 300 && k % 2 == 0 { 30 * MS } else { 0 },
        |k| if k < 300 { 0 } else { 20 * MS + k % 2 * 15 * MS },
        |k| if k % 100 == 50 { 25 * MS } else { 0 },
        |k| k * 7919 % 1000 * k * 40,
    ];
    for (n, late) in late.into_iter().enumerate() {
        let mut order: Vec<i64> = (0..900).collect();
        order.sort_by_key(|k| k * 10 * MS + late(*k));
        let arrived = |k: i64| order[k as usize] * 10 * MS + late(order[k as usize]);
        let mark = |k: i64| {
            let k = order[k as usize];
            let (flow, value) = (1 + k as u64 % 2, Some(ticks(k)));
            (SenderMark { flow, value, is_media: true, may_be_regular: false }, host(k))
        };
        let (times, steps, _) = corrected(900, mark, arrived);
        assert_eq!((times.len(), steps), (900, Vec::new()), "{n}");
    }
}

#[test]
fn a_path_that_becomes_longer_for_all_senders_on_one_side_is_no_step_of_the_clock() {
    let steps = |hosts: fn(i64) -> Hosts, by: i64| {
        let mark = |k: i64| {
            let (flow, value) = (1 + k as u64 % 2, Some((k * 80) as u32));
            (SenderMark { flow, value, is_media: true, may_be_regular: false }, hosts(k))
        };
        corrected(600, mark, |k| k * 10 * MS + if k < 300 { 0 } else { by }).1.len()
    };
    for by in [60 * MS, 150 * MS, 1500 * MS] {
        assert_eq!(steps(|k| Hosts { from: k as u32 % 2, to: 9 }, by), 0, "{by}");
        assert_eq!(steps(host, by), 1, "{by}");
    }
}

/// The packets that show a step are the most delayed ones; their jitter must not become part of the step's size.
#[test]
fn the_size_of_a_step_does_not_contain_the_jitter() {
    let jitter = |k: i64| (k * 7919).rem_euclid(101) * 120_000;
    let (_, steps) =
        of_media(900, |k| (k * 80) as u32, |k| k * 10 * MS + jitter(k) + if k < 301 { 0 } else { 45 * MS });
    assert_eq!(steps.len(), 1);
    assert!(wrong(&steps[0], 45 * MS) < 2 * MS && is_within(&steps[0], 45 * MS), "{steps:?}");
}
