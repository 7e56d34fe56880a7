//! Rule for reordered packets, which arrive after packets that were sent later.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::episodes::Episode;
use crate::sentences::causes::reordering;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::metrics::dependence::share_exceeds;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::Reordering,
    threshold: "more than 0.3 % are reordered with 95 % confidence, at least five packets; at most half as many \
                others wait nearly as long, or independent delays with the same distribution would not reorder \
                packets like this (otherwise the jitter is wider than the period)",
    source: "RFC 4737",
    find,
};

/// Minimum share of reordered packets, with 95 % confidence.
const MIN_SHARE: f64 = 0.003;
/// Minimum number of reordered packets.
const MIN_PACKETS: u64 = 5;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let n = case.delays.len() as u64;
    if !case.material.shows_loss() || n == 0 {
        return Vec::new();
    }
    // Packets near a route change or a clock step are left out, because each of these reorders packets only once.
    let mut places: Vec<usize> = case.steps.iter().map(|(step, _)| step.place).collect();
    places.sort_unstable();
    let near_step = |k: usize| {
        let first = places.partition_point(|place| place + 60 < k);
        places.get(first).is_some_and(|place| *place <= k + 60)
    };
    // A queue, or a burst sent after a stall, may reorder its packets by itself; a queue throughout the test does not.
    let is_brief = |queue: &&Episode| queue.to - queue.from < case.delays.len();
    let mut queues = case.episodes.queues.iter().filter(is_brief).peekable();
    let mut in_queue = |k: usize| {
        while queues.next_if(|queue| queue.to <= k).is_some() {}
        queues.peek().is_some_and(|queue| queue.from <= k)
    };
    let at_stall = |k: usize| case.late.stall_at(k).is_some();
    let mut late: Vec<usize> = Vec::new();
    let mut reordered = Vec::new();
    for (stretch, places) in case.delays.series().displaced() {
        reordered.clear();
        reordered.resize(places.len(), false);
        let mut highest = 0;
        for place in places {
            reordered[*place as usize - stretch.start] = highest > *place;
            highest = highest.max(*place);
        }
        let reordered = stretch.zip(&reordered).filter(|(_, reordered)| **reordered).map(|(k, _)| k);
        late.extend(
            reordered.filter(|&k| !in_queue(k) && !near_step(k) && !at_stall(k) && case.late.of(k) == 0),
        );
    }
    let count = late.len() as u64;
    let share = count as f64 / n as f64;
    if count < MIN_PACKETS || !share_exceeds(share, n as f64, MIN_SHARE) {
        return Vec::new();
    }
    let mut waits: Vec<i64> =
        late.iter().step_by(late.len() / 4096 + 1).map(|k| case.delays.excess(*k)).collect();
    let middle = waits.len() / 2;
    let held = *waits.select_nth_unstable(middle).1;
    if !stands_out(case, &late, &mut waits) && !is_no_jitter(case, &late, &mut waits) {
        return Vec::new();
    }
    let severity = if held > 100_000_000 { Severity::Fair } else { Severity::Good };
    let (first, last) = (late[0], late[late.len() - 1]);
    let spread = (last - first) as f64 / n as f64;
    let found = FoundCause::of(CauseId::Reordering, severity, share, 0.95).share(share);
    let found = if spread > 0.7 { found.whole(case) } else { found.places(case, first, last + 1) };
    let part = (spread <= 0.7).then(|| [found.cause.from_s, found.cause.to_s].map(|s| case.begin.of(s)));
    vec![found.because(reordering(share, held, part))]
}

/// Returns true if reordered packets differ from all others, that is, if hardly any other packet waits nearly as long.
/// Jitter that is wider than the time between packets also reorders packets, but then many packets wait nearly as long,
/// and the jitter is reported instead.
fn stands_out(case: &Case<'_>, late: &[usize], waits: &mut [i64]) -> bool {
    let tenth = waits.len() / 10;
    let least = *waits.select_nth_unstable(tenth).1;
    let nearly = least * 2 / 5..least * 4 / 5;
    let n = case.delays.len();
    let step = (n / 20_000).max(1);
    let others = (0..n).step_by(step).filter(|k| nearly.contains(&case.delays.excess(*k)));
    let others = others.filter(|k| late.binary_search(k).is_err()).count() * step;
    2 * others <= late.len()
}

/// Maximum number of packets whose waits are sampled.
const MAX_PACKETS: usize = 4096;
/// Maximum number of later packets that are considered as arriving before a packet.
const MAX_PACKETS_AFTER: usize = 64;

/// Returns true if independent delays do not explain the reordering. There are two cases. Either many packets that
/// waited longer than later ones arrived in order: the path preserves the order, and something else breaks it. Or
/// packets with long waits were reordered more often than independent jitter would reorder them.
fn is_no_jitter(case: &Case<'_>, late: &[usize], waits: &mut [i64]) -> bool {
    let tenth = waits.len() / 10;
    let least = *waits.select_nth_unstable(tenth).1;
    let n = case.delays.len();
    let step = (n / MAX_PACKETS).max(1);
    let mut law: Vec<i64> = (0..n).step_by(step).map(|k| case.delays.excess(k)).collect();
    law.sort_unstable();
    let below = |wait: i64| law.partition_point(|x| *x < wait) as f64 / law.len() as f64;
    let expected = |k: usize, wait: i64| {
        let sent = case.delays.time(k);
        let ahead = |other: usize| wait.saturating_sub(case.delays.time(other).saturating_sub(sent));
        let kept = (k + 1..n.min(k + 1 + MAX_PACKETS_AFTER)).map(ahead).take_while(|w| *w > law[0]);
        1.0 - kept.map(|w| 1.0 - below(w)).product::<f64>()
    };
    // Number of reordered packets, expected number, and variance: for all packets, and for packets with long waits.
    let (mut all, mut long) = ([0.0; 3], [0.0; 3]);
    for k in (0..n).step_by(step) {
        let wait = case.delays.excess(k);
        let share = expected(k, wait);
        let this = [f64::from(u8::from(late.binary_search(&k).is_ok())), share, share * (1.0 - share)];
        let add = |sum: &mut [f64; 3]| sum.iter_mut().zip(this).for_each(|(sum, x)| *sum += x);
        add(&mut all);
        if wait >= least {
            add(&mut long);
        }
    }
    let [fewer, more] = [(all, -1.0), (long, 1.0)].map(|([found, expected, variance], sign)| {
        sign * (found - expected) > MIN_DEVIATIONS * variance.sqrt().max(1.0) && {
            let (low, high) = if sign < 0.0 { (found, expected) } else { (expected, found) };
            high > MIN_RATIO * low
        }
    });
    fewer || more
}

/// Minimum standard score. Chance alone does not reach it.
const MIN_DEVIATIONS: f64 = 4.0;
/// Minimum ratio of the observed to the expected number of reordered packets, or of the expected to the observed one.
const MIN_RATIO: f64 = 1.25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes::Episode;
    use crate::levels::LevelStep;
    use crate::schedule::Stall;
    use crate::steps::StepReason;
    use crate::testing::{MS, Test, every, first, found_in};
    use jitlat_core::spec::{Direction, Schedule, Transport};

    /// Test of `n` packets, one every 10 ms, of which those for which `is_held` is true take `held` longer.
    fn of(n: u32, held: i64, is_held: impl Fn(u32) -> bool) -> Test {
        Test::new(n, 10 * MS, &every(10 * MS, n, |k| Some(if is_held(k) { held } else { 0 })))
    }

    fn find_in(test: &Test) -> Option<FoundCause> {
        found_in(test, &RULE, |_| ()).into_iter().next()
    }

    #[test]
    fn packets_overtaken_are_named_from_five_and_0_3_percent_on() {
        let spread = |n: u32, count: i64| of(n, 25 * MS, |k| k % 10 == 5 && i64::from(k / 10) < count);
        assert_eq!(first(0..=50, |count| find_in(&spread(1000, count)).is_some()), 8);
        assert_eq!(first(0..=1000, |k| share_exceeds(k as f64 / 1e3, 1e3, MIN_SHARE)), 8);
        assert_eq!(first(0..=15, |count| find_in(&spread(150, count)).is_some()), MIN_PACKETS as i64);
        // A packet is reordered if it arrives after the next one.
        assert_eq!(
            first(0..=50 * MS, |held| find_in(&of(1000, held, |k| k % 10 == 5)).is_some()),
            10 * MS + 1
        );
        let packets = every(10 * MS, 1000, |k| Some(if k % 10 == 5 { 25 * MS } else { 0 }));
        let tcp = Test::with(1000, 10 * MS, &packets, Schedule::Periodic, (Direction::Up, Transport::Tcp));
        assert!(find_in(&tcp).is_none());
        assert!(find_in(&Test::new(1000, 10 * MS, &[])).is_none());
    }

    #[test]
    fn packets_overtaken_are_described() {
        let found = find_in(&of(1000, 25 * MS, |k| k % 10 == 5)).unwrap();
        assert_eq!((found.cause.magnitude, found.harm, found.cause.packets), (Some(0.1), 0.1, [0, 999]));
        assert_eq!(found.cause.because, "10 % reordered, half of them late by 25 ms or more");
        let severity = |held| find_in(&of(1000, held, |k| k % 10 == 5)).unwrap().cause.severity;
        assert_eq!([100 * MS, 100 * MS + 1].map(severity), [Severity::Good, Severity::Fair]);
        // Reordering in up to seven tenths of the test is reported with its part.
        let part = |end| find_in(&of(1000, 25 * MS, |k| k % 10 == 5 && k < end)).unwrap().cause.packets;
        assert_eq!(part(710), [5, 705]);
        assert_eq!(part(720), [0, 999]);
    }

    #[test]
    fn half_of_the_packets_overtaken_are_held_as_long() {
        let packets =
            every(10 * MS, 1000, |k| Some(if k % 10 == 5 { 25 * MS + i64::from(k / 10) * MS } else { 0 }));
        let found = find_in(&Test::new(1000, 10 * MS, &packets)).unwrap();
        assert!(found.cause.because.ends_with("late by 75 ms or more"), "{}", found.cause.because);
    }

    #[test]
    fn what_is_shuffled_near_a_step_in_a_queue_or_after_a_stall_does_not_count() {
        let test = of(1000, 25 * MS, |k| (400..500).contains(&k) && k % 10 == 5);
        let step = |place| (LevelStep { place, change: MS, ramp: 0, spread: [0, 0] }, StepReason::Route);
        let with_step =
            |place: i64| !found_in(&test, &RULE, |case| case.steps = vec![step(place as usize)]).is_empty();
        // At least eight of the ten must remain. They do not if the step is within 60 packets of the third, packet 425.
        assert!(with_step(300) && !with_step(450) && with_step(600));
        assert_eq!(first(340..=450, |place| !with_step(place)), 365);
        let busy = |from, to| {
            let queue = Episode { from, to, height: 0, count: 1 };
            !found_in(&test, &RULE, |case| case.episodes.queues = vec![queue]).is_empty()
        };
        assert!(busy(300, 405) && !busy(400, 500) && busy(406, 416));
        let stalled = |from, to| {
            let stall = Stall { from, to, length: MS };
            !found_in(&test, &RULE, |case| case.late.stalls = vec![stall]).is_empty()
        };
        assert!(stalled(300, 405) && !stalled(400, 500));
        let waited = found_in(&test, &RULE, |case| case.late.queued = (400..500).map(|k| (k, 1)).collect());
        assert!(waited.is_empty());
    }

    #[test]
    fn jitter_wider_than_the_period_overtakes_without_a_reason() {
        // A hundred of 1000 packets are held for 50 ms, and `others` wait for 20 to 40 ms.
        let with = |others: i64, wait: i64| {
            let packets = every(10 * MS, 1000, |k| {
                Some(match k {
                    k if k % 10 == 5 => 50 * MS,
                    // Waiting packets are consecutive, so none of them is reordered.
                    k if k % 10 < 5 && i64::from(k / 10 * 5 + k % 10) < others => wait,
                    _ => 0,
                })
            });
            let test = Test::new(1000, 10 * MS, &packets);
            let material = test.material();
            let case = Case::new(&material);
            let late: Vec<usize> = (0..1000).filter(|k| k % 10 == 5).collect();
            stands_out(&case, &late, &mut vec![50 * MS; 100])
        };
        assert_eq!(first(0..=500, |others| !with(others, 20 * MS)), 51);
        assert_eq!(first(0..=30 * MS, |wait| !with(100, wait)), 20 * MS);
        assert_eq!(first(30 * MS..=50 * MS, |wait| with(100, wait)), 40 * MS);
    }

    /// True if reordering is found in 2000 packets, one every 10 ms, with these waits.
    fn jittery(wait: impl Fn(u32) -> i64) -> bool {
        !found_in(&Test::new(2000, 10 * MS, &every(10 * MS, 2000, |k| Some(wait(k)))), &RULE, |_| ())
            .is_empty()
    }

    /// Pseudo-random number below 1000 for packet `k`.
    fn any(k: u32) -> i64 {
        i64::from(k.wrapping_mul(2_654_435_761) >> 16) % 1000
    }

    #[test]
    fn packets_that_jitter_overtakes_are_not_named_and_those_held_on_a_path_that_keeps_order_are() {
        // Independent waits reorder packets if they are wider than the time between packets.
        assert!(!jittery(|k| any(k) * 20_000));
        // The same waits, slowly rising and falling, reorder nothing except held packets.
        let slow = |k: u32| i64::from((k % 40).abs_diff(20)) * MS;
        assert!(!jittery(slow));
        assert!(jittery(|k| slow(k) + if k % 25 == 7 { 25 * MS } else { 0 }));
        // Waits of up to half a period, which reorder nothing, and packets held for one and a half periods.
        assert!(!jittery(|k| any(k) * 5_000));
        assert!(jittery(|k| any(k) * 5_000 + if k % 20 == 7 { 15 * MS } else { 0 }));
    }
}
