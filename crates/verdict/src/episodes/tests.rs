use super::*;
use crate::testing::{MS, SECOND, US, delays, every, first, packets};

const NO_NOISE: DelayNoise = DelayNoise { median: 0, p90: 0 };

fn episode(from: usize, to: usize) -> Episode {
    Episode { from, to, height: 0, count: 1 }
}

fn hold(from: usize, to: usize) -> Hold {
    Hold { from, to, length: MAX_JITTER_HOLD_NS }
}

#[test]
fn a_hold_covers_an_episode_by_four_fifths() {
    let covered = |from, to| covers(&hold(from, to), &episode(100, 200));
    assert!(covered(100, 180) && !covered(100, 179) && covered(120, 300) && !covered(121, 300));
    assert!(covered(50, 300) && !covered(300, 400) && !covered(0, 50));
}

/// Returns the widened `range`, where packets are above the floor (`#`) or not (`.`).
fn widened(above: &str, range: core::ops::Range<usize>, limit: usize) -> (usize, usize) {
    let of = |k: usize| if above.as_bytes()[k] == b'#' { 11 } else { 10 };
    let mut d = delays(&packets((0..above.len()).map(|k| (k as i64 * MS, of(k)))));
    d.set_level(10 - of(0));
    let found = widen(&d, &d.blocks(), range.clone(), 0, limit);
    // The result is the same without blocks, packet by packet.
    let unknown = Blocks { size: 1, ..Blocks::default() };
    assert_eq!(widen(&d, &unknown, range, 0, limit), found, "{above}");
    found
}

#[test]
fn an_episode_takes_in_its_foot() {
    let table = [
        ("....####....", 5..7, 0, (4, 8)),
        ("....####....", 4..8, 0, (4, 8)),
        // A stray packet is skipped if two packets follow.
        ("..##.##.##..", 5..7, 0, (2, 10)),
        ("..#..##..##.", 5..7, 0, (5, 7)),
        (".#.##....#.#", 3..5, 0, (3, 5)),
        ("....###.#.##", 4..6, 0, (4, 7)),
        // Widening stops at the ends of the series and at the limit.
        ("########", 3..5, 0, (0, 8)),
        ("########", 3..5, 2, (2, 8)),
        ("##.#####", 3..5, 0, (0, 8)),
        ("##.#####", 3..5, 1, (1, 8)),
        ("##.#####", 3..5, 2, (3, 8)),
        ("#####.##", 3..5, 0, (0, 8)),
        ("#####.#", 3..5, 0, (0, 5)),
        ("#####.", 3..5, 0, (0, 5)),
        // Whole blocks of four packets, or parts of them.
        ("################", 8..12, 0, (0, 16)),
        ("################", 8..12, 3, (3, 16)),
        ("..##########.##.", 8..12, 0, (2, 15)),
        (".####.######..##", 8..12, 2, (2, 12)),
    ];
    for (above, range, limit, expected) in table {
        assert_eq!(widened(above, range.clone(), limit), expected, "{above} {range:?} from {limit}");
    }
}

#[test]
fn episodes_that_are_close_are_one() {
    let d = delays(&every(MS, 5000, |_| Some(0)));
    // Two episodes of 100 ms (99 ms from the first to the last packet) are merged if the gap is less than half of that.
    let merged = |first: usize, second: usize, gap: i64| {
        let from = first + gap as usize - 1;
        merge(&d, vec![episode(0, first), episode(from, from + second)])
    };
    assert_eq!(first(1..=200, |gap| merged(100, 100, gap).len() == 2), 50);
    // For unequal ones the limit is half of the shorter, or a tenth of the longer.
    assert_eq!(first(1..=400, |gap| merged(100, 600, gap).len() == 2), 60);
    assert_eq!(first(1..=400, |gap| merged(1001, 11, gap).len() == 2), 100);
    assert_eq!(first(1..=400, |gap| merged(11, 1001, gap).len() == 2), 100);
    let one =
        merge(&d, vec![Episode { count: 2, ..episode(0, 100) }, Episode { count: 3, ..episode(110, 200) }]);
    assert_eq!(one, [Episode { count: 5, ..episode(0, 200) }]);
}

/// Returns the holds of 200 packets every 10 ms, `count` of which, from 50 on, arrive together `length` ns after
/// the first of them was sent.
fn held(length: i64, count: u32, off: impl Fn(u32) -> i64) -> Vec<Hold> {
    held_at(50, length, count, off)
}

fn held_at(place: u32, length: i64, count: u32, off: impl Fn(u32) -> i64) -> Vec<Hold> {
    let of = |k: u32| match k.checked_sub(place) {
        Some(j) if j < count => length - i64::from(j) * 10 * MS,
        _ => 0,
    };
    let d = delays(&every(10 * MS, 200, |k| Some(SECOND + of(k) + off(k))));
    holds(&d, &d.blocks(), 3 * MS, 0)
}

#[test]
fn packets_that_arrive_together_after_a_wait_are_held() {
    assert_eq!(held(100 * MS, 10, |_| 0), [Hold { from: 50, to: 62, length: 100 * MS }]);
    // The hold may begin at any packet.
    for place in 1..60 {
        assert_eq!(held_at(place, 100 * MS, 8, |_| 0).len(), 1, "at {place}");
        assert_eq!(held_at(place, 100 * MS, 8, |_| 0)[0].from, place as usize);
    }
    // The last held packet is sent after at least three fifths of the wait.
    assert_eq!(first(2..=10, |count| !held(100 * MS, count as u32, |_| 0).is_empty()), 7);
    assert_eq!(first(50 * MS..=150 * MS, |length| held(length, 7, |_| 0).is_empty()), 100 * MS + 1);
}

#[test]
fn a_hold_rises_at_once_above_the_threshold() {
    // The delay must rise by half of the wait.
    let before = |ns: i64| held(100 * MS, 10, |k| if k == 49 { ns } else { 0 });
    let begins_at_50 = |ns: i64| before(ns).first().is_some_and(|h| h.from == 50);
    assert_eq!(first(0..=100 * MS, |ns| !begins_at_50(ns)), 50 * MS + 1);
    let d = |height: i64| {
        delays(&every(MS, 100, |k| Some(if k < 50 { 0 } else { (height - i64::from(k - 50) * MS).max(0) })))
    };
    let of = |height: i64| {
        let d = d(height);
        !holds(&d, &d.blocks(), 20 * MS, 0).is_empty()
    };
    assert_eq!(first(0..=40 * MS, of), 20 * MS + 1);
}

#[test]
fn a_hold_is_measured_from_what_others_wait() {
    // All packets wait 20 ms, so the rise must be half of the other 80 ms.
    let of = |before: i64| {
        let held = |k: u32| match k {
            49 => before,
            50..60 => 80 * MS - i64::from(k - 50) * 10 * MS,
            _ => 0,
        };
        let mut d = delays(&every(10 * MS, 200, |k| Some(held(k))));
        d.set_level(-20 * MS);
        holds(&d, &d.blocks(), 30 * MS, 20 * MS).first().copied()
    };
    assert_eq!(of(0), Some(Hold { from: 50, to: 60, length: 80 * MS }));
    assert_eq!(first(0..=80 * MS, |before| of(before).is_none_or(|h| h.from != 50)), 40 * MS + 1);
}

#[test]
fn a_hold_may_last_to_the_end() {
    assert_eq!(held_at(195, 50 * MS, 5, |_| 0), [Hold { from: 195, to: 200, length: 50 * MS }]);
}

#[test]
fn a_packet_after_a_gap_may_come_a_fifth_of_it_later() {
    // A packet is held for 11 ms: one sent 10 ms later and two soon after that arrive with it.
    let of = |late: i64| {
        let held = [(0, 11 * MS), (10 * MS, MS + late), (10 * MS + 10, MS), (10 * MS + 20, MS)];
        let before = (0..20).map(|k| (k * 10 * MS, 0));
        let times = before
            .chain(held.map(|(sent, delay)| (200 * MS + sent, delay)))
            .chain((25..40).map(|k| (k * 10 * MS, 0)));
        let d = delays(&packets(times));
        holds(&d, &d.blocks(), 3 * MS, 0).iter().any(|h| h.from == 20)
    };
    assert_eq!(first(0..=9 * MS, |late| !of(late)), 2 * MS + 1);
}

#[test]
fn a_hold_takes_three_packets_at_once() {
    // The second packet arrives later by at most a sixth of the wait, or earlier by at most a gap.
    let second = |ns: i64| held(120 * MS, 9, |k| if k == 51 { ns } else { 0 }).first().map(|h| h.from);
    assert_eq!(first(0..=60 * MS, |ns| second(ns) != Some(50)), 20 * MS + 1);
    assert_eq!(first(0..=60 * MS, |ns| second(-ns) != Some(50)), 10 * MS + 1);
    // Two packets are not a hold: 15 ms, 5 ms, and the next on time.
    assert_eq!(held(15 * MS, 2, |_| 0), []);
}

fn blocks(min: &[i64], max: &[i64]) -> Blocks {
    Blocks { size: 4, min: min.to_vec(), max: max.to_vec() }
}

#[test]
fn the_quiet_spread_is_that_of_nine_of_ten_low_blocks() {
    // Twenty blocks with spreads 0 to 19.
    let spreads: Vec<i64> = (0..20).collect();
    assert_eq!(quiet(&blocks(&[0; 20], &spreads), 0), 18);
    // Only the low blocks count if they are a tenth of all; otherwise the median of all blocks.
    let of = |low: usize| {
        let min: Vec<i64> = (0..20).map(|b| i64::from(b >= low) * 100).collect();
        let max: Vec<i64> = min.iter().zip(&spreads).map(|(m, s)| m + s).collect();
        quiet(&blocks(&min, &max), 0)
    };
    assert_eq!([of(0), of(1), of(2), of(10)], [10, 10, 1, 9]);
    assert_eq!(quiet(&Blocks::default(), 0), 0);
}

#[test]
fn the_tail_is_the_third_largest_outside_of_queues_and_long_holds() {
    let d = delays(&every(MS, 40, |_| Some(0)));
    let all = blocks(&[0; 10], &(1..=10).collect::<Vec<_>>());
    let of = |queues: &[Episode], holds: &[Hold]| tail(&d, &all, queues, holds);
    assert_eq!(of(&[], &[]), 8);
    assert_eq!(of(&[episode(36, 40)], &[]), 7);
    assert_eq!(of(&[episode(35, 40)], &[]), 6);
    assert_eq!(of(&[episode(32, 36)], &[]), 7);
    assert_eq!(of(&[episode(28, 33), episode(36, 37)], &[]), 5);
    assert_eq!(of(&[], &[hold(36, 40)]), 7);
    assert_eq!(of(&[], &[Hold { length: MAX_JITTER_HOLD_NS - 1, ..hold(36, 40) }]), 8);
    assert_eq!(of(&[episode(0, 32)], &[]), 9, "of two the smaller");
    assert_eq!(of(&[episode(0, 40)], &[]), 0);
    let descending = blocks(&[0; 10], &(1..=10).rev().collect::<Vec<_>>());
    assert_eq!(tail(&d, &descending, &[], &[]), 8);
}

/// Returns the queues of `n` packets, one every `period`, `count` of which, from 100 on, wait `height` ns.
fn queues(n: u32, period: i64, count: u32, height: i64, noise: DelayNoise) -> Vec<Episode> {
    let d = delays(&every(period, n, |k| Some(if (100..100 + count).contains(&k) { height } else { 0 })));
    Episodes::new(&d, &d.blocks(), noise).queues
}

#[test]
fn a_queue_is_5_ms_high() {
    let least = |noise| first(0..=SECOND, |height| !queues(1000, 10 * MS, 100, height, noise).is_empty());
    assert_eq!(least(NO_NOISE), 5 * MS);
    // The waits must also exceed four times the median difference of neighbours, or twice the 90th percentile.
    assert_eq!(least(DelayNoise { median: 2 * MS, p90: 2 * MS }), 8 * MS + 1);
    assert_eq!(least(DelayNoise { median: MS, p90: 5 * MS }), 10 * MS + 1);
    let found = queues(1000, 10 * MS, 100, 40 * MS, NO_NOISE);
    assert_eq!(found, [Episode { from: 100, to: 200, height: 40 * MS, count: 1 }]);
}

#[test]
fn a_queue_lasts_0_4_s_or_2_percent_of_a_short_test() {
    let fewest =
        |n, period| first(1..=200, |count| !queues(n, period, count as u32, 40 * MS, NO_NOISE).is_empty());
    assert_eq!(fewest(10_000, 10 * MS), 41);
    // A queue of 0.3 s counts in a test of 6 s; the time of the last packet is not included.
    assert_eq!(fewest(600, 10 * MS), 31);
    // A queue lasts at least 0.1 s.
    assert_eq!(fewest(150, 10 * MS), 11);
    // A queue has at least two blocks of four packets.
    assert_eq!(fewest(1000, 200 * MS), 8);
}

#[test]
fn a_queue_is_three_times_what_the_rest_varies_by() {
    // In nine of ten blocks one packet is later by `jitter`.
    let of = |jitter: i64| {
        let late = |k: u32| if k % 4 == 1 { jitter } else { 0 };
        let d =
            delays(&every(10 * MS, 1000, |k| Some(if (100..200).contains(&k) { 30 * MS } else { late(k) })));
        Episodes::new(&d, &d.blocks(), NO_NOISE).queues.len()
    };
    assert_eq!(first(0..=25 * MS, |jitter| of(jitter) == 0), 10 * MS + 1);
}

#[test]
fn a_foot_is_a_sixteenth_of_the_hill() {
    // Packets next to the queue belong to it if they wait for at least `foot`.
    let from = |foot: i64| {
        let of = |k: u32| match k {
            97..100 => foot,
            100..200 => 160 * MS,
            _ => 0,
        };
        let d = delays(&every(10 * MS, 1000, |k| Some(of(k))));
        Episodes::new(&d, &d.blocks(), NO_NOISE).queues[0].from as i64
    };
    assert_eq!(first(0..=50 * MS, |foot| from(foot) < 100), 10 * MS + 1);
    // They must also exceed the median difference of neighbours, or three fifths of the 90th percentile.
    let from = |foot: i64, height: i64, noise| {
        let of = |k: u32| match k {
            97..100 => foot,
            100..200 => height,
            _ => 0,
        };
        let d = delays(&every(10 * MS, 1000, |k| Some(of(k))));
        Episodes::new(&d, &d.blocks(), noise).queues[0].from as i64
    };
    let border = |height, median: i64, p90: i64| {
        first(0..=50 * MS, |foot| from(foot, height, DelayNoise { median, p90 }) < 100)
    };
    assert_eq!(border(40 * MS, 0, 0), 40 * MS / 16 + 1);
    assert_eq!(border(40 * MS, 4 * MS, 4 * MS), 4 * MS + 1);
    assert_eq!(border(40 * MS, MS, 10 * MS), 6 * MS + 1);
    assert_eq!(border(6 * MS, 0, 0), MS / 2 + 1);
}

#[test]
fn a_queue_may_stand_for_nearly_all_of_the_time() {
    // In each of three blocks of four packets, one packet does not wait.
    let of = |low: u32| {
        let d = delays(&every(10 * MS, 1000, |k| Some(if k < low { 0 } else { 40 * MS + i64::from(k % 2) })));
        Episodes::new(&d, &d.blocks(), NO_NOISE).queues.len()
    };
    assert_eq!(first(4..=40, |low| of(low as u32) == 1), 9);
    let few = |n: u32| {
        let d = delays(&every(100 * MS, n, |k| Some(if k < 4 { 0 } else { 40 * MS })));
        let blocks = d.blocks();
        (blocks.len(), Episodes::new(&d, &blocks, NO_NOISE).tail)
    };
    assert_eq!(few(15), (3, 0), "fewer than four blocks show nothing");
}

#[test]
fn a_hold_is_no_queue_and_a_queue_no_hold() {
    let of = |delay: &dyn Fn(u32) -> i64| {
        let d = delays(&every(10 * MS, 1000, |k| Some(delay(k))));
        Episodes::new(&d, &d.blocks(), NO_NOISE)
    };
    // Packets are held for half a second and released together.
    let hold = of(&|k| if (100..150).contains(&k) { 500 * MS - i64::from(k - 100) * 10 * MS } else { 0 });
    assert_eq!((hold.queues.len(), hold.holds.len(), hold.tail), (0, 1, 0));
    assert_eq!(hold.holds[0].from, 100);
    // A queue that empties as fast as this is not divided at its end.
    let queue = of(&|k| match k {
        100..300 => i64::from(k - 100) * 500 * US,
        300..310 => 100 * MS - i64::from(k - 300) * 10 * MS,
        _ => 0,
    });
    assert_eq!((queue.queues.len(), queue.holds.len()), (1, 0));
    // Waits below the threshold are neither queues nor holds, but belong to the tail.
    let tail = of(&|k| if k % 300 == 299 { 2 * MS } else { 0 });
    assert_eq!((tail.queues.len(), tail.holds.len(), tail.tail), (0, 0, 2 * MS));
}
