//! Tests with captures at two points whose packets are known.

use super::*;
use crate::{Pairer, SyntheticPair};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

#[derive(Clone, Debug)]
struct World {
    seed: u64,
    packets: usize,
    gap: i64,
    delay: [i64; 2],
    jitter: i64,
    loss_percent: u64,
    copies_percent: u64,
    twice_percent: u64,
    offset: i64,
    skew_ppm: i64,
    /// Names repeat after this many packets in a direction; 0: never.
    repeat: u64,
}

const CALM: World = World {
    seed: 1,
    packets: 400,
    gap: 2_000_000,
    delay: [12_000_000, 9_000_000],
    jitter: 500_000,
    loss_percent: 0,
    copies_percent: 0,
    twice_percent: 0,
    offset: 0,
    skew_ppm: 0,
    repeat: 0,
};

#[derive(Default)]
struct Truth {
    /// Reference and monitor times of each packet that arrived (first copy), by flow number.
    times: HashMap<u32, (i64, i64)>,
    lost: [u64; 2],
    copies: [u64; 2],
    events: Vec<(i64, CapturePoint, Sighting)>,
}

fn simulate(w: &World) -> Truth {
    let mut rng = ChaCha8Rng::seed_from_u64(w.seed);
    let mut below = |n: i64| if n <= 0 { 0 } else { (rng.next_u64() % n as u64) as i64 };
    let start = 1_700_000_000 * SECOND;
    let monitor = |t: i64| t + w.offset + (t - start) / 1_000_000 * w.skew_ppm;
    let mut truth = Truth::default();
    for direction in Direction::BOTH {
        let mut t = start;
        for i in 0..w.packets {
            t += w.gap / 2 + below(w.gap);
            let flow = (i * 2 + direction as usize) as u32;
            let number = if w.repeat == 0 { i as u64 } else { i as u64 % w.repeat };
            let id = (number * 2 + direction as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // The first and last packets always arrive, so that both captures cover the time between.
            let inner = i > 20 && i + 20 < w.packets;
            let lost = inner && (below(100) as u64) < w.loss_percent;
            let arrival = t + w.delay[direction as usize] + below(w.jitter);
            let sighting = |at: i64| Sighting { at: WallTime(at), id, length: 100, direction, flow };
            let (near, far) = match direction {
                Direction::Up => (CapturePoint::Reference, CapturePoint::Monitor),
                Direction::Down => (CapturePoint::Monitor, CapturePoint::Reference),
            };
            let on = |p: CapturePoint, t: i64| if p == CapturePoint::Monitor { monitor(t) } else { t };
            truth.events.push((t, near, sighting(on(near, t))));
            if (below(100) as u64) < w.twice_percent {
                truth.events.push((t + 300_000, near, sighting(on(near, t + 300_000))));
            }
            if lost {
                truth.lost[direction as usize] += 1;
                continue;
            }
            truth.events.push((arrival, far, sighting(on(far, arrival))));
            let (r, m) = if direction == Direction::Up { (t, arrival) } else { (arrival, t) };
            truth.times.insert(flow, (r, monitor(m)));
            if (below(100) as u64) < w.copies_percent {
                truth.copies[direction as usize] += 1;
                truth.events.push((arrival + 3_000_000, far, sighting(on(far, arrival + 3_000_000))));
            }
        }
    }
    truth.events.sort_by_key(|e| e.0);
    truth
}

#[derive(Default)]
struct Observed {
    records: Vec<Record>,
    pairs: Vec<SyntheticPair>,
    lost: Vec<(Direction, u64)>,
    arrived: Vec<(Direction, u64, bool)>,
    void: Vec<(Direction, u64)>,
    pairer: Pairer,
}

impl MatchObserver for Observed {
    fn record(&mut self, r: Record) {
        self.records.push(r);
        self.pairs.extend(self.pairer.push(r));
    }
    fn arrived(&mut self, seq: u64, r: Record, copy: bool) {
        self.arrived.push((r.direction, seq, copy));
    }
    fn lost(&mut self, direction: Direction, seq: u64, _: WallTime, _: u32) {
        self.lost.push((direction, seq));
    }
    fn void(&mut self, direction: Direction, seq: u64) {
        self.void.push((direction, seq));
    }
}

fn run(w: &World, error_of_offset: i64) -> (Truth, Observed, [MatchCounts; 2]) {
    let truth = simulate(w);
    let mut m = Matcher::new(Span(w.offset + error_of_offset), Span::seconds(2));
    let mut observed = Observed::default();
    for (_, p, s) in &truth.events {
        m.push(*p, *s, &mut observed);
    }
    m.finish(&mut observed);
    let counts = Direction::BOTH.map(|direction| m.counts(direction));
    (truth, observed, counts)
}

fn assert_no_false_match(truth: &Truth, observed: &Observed) {
    for r in &observed.records {
        let (reference, monitor) = truth.times[&r.flow];
        assert_eq!((r.reference.0, r.monitor.0), (reference, monitor), "flow {}", r.flow);
    }
}

#[test]
fn everything_that_arrives_is_matched_in_monitor_order() {
    let (truth, observed, counts) = run(&CALM, 0);
    assert_no_false_match(&truth, &observed);
    assert_eq!(observed.records.len(), 800);
    assert!(observed.records.is_sorted_by_key(|r| r.monitor));
    assert_eq!((counts[0].matched, counts[0].lost, counts[0].outside, counts[0].unseen), (400, 0, 0, 0));
}

#[test]
fn a_name_seen_k_times_at_both_points_is_matched_in_order() {
    // The same name twice, both in transit at once, nothing lost.
    let s = |at: i64, direction| Sighting { at: WallTime(at), id: 77, length: 60, direction, flow: 0 };
    let mut m = Matcher::new(Span(0), Span::seconds(2));
    let mut h = Observed::default();
    for (p, t) in [(0, 0), (0, 20), (1, 50), (1, 70)] {
        let p = [CapturePoint::Reference, CapturePoint::Monitor][p];
        m.push(p, s(t * 1_000_000, Direction::Up), &mut h);
    }
    m.finish(&mut h);
    let times: Vec<_> =
        h.records.iter().map(|r| (r.reference.0 / 1_000_000, r.monitor.0 / 1_000_000)).collect();
    assert_eq!(times, [(0, 50), (20, 70)]);
    assert_eq!(m.counts(Direction::Up).ambiguous, 0);
}

#[test]
fn a_name_seen_twice_here_and_once_there_is_nobodys() {
    let s = |at: i64| Sighting {
        at: WallTime(at * 1_000_000),
        id: 77,
        length: 60,
        direction: Direction::Up,
        flow: 0,
    };
    let mut m = Matcher::new(Span(0), Span::seconds(2));
    let mut h = Observed::default();
    m.push(CapturePoint::Reference, s(0), &mut h);
    m.push(CapturePoint::Reference, s(20), &mut h);
    m.push(CapturePoint::Monitor, s(70), &mut h);
    m.finish(&mut h);
    assert!(h.records.is_empty() && h.lost.is_empty());
    assert_eq!((m.counts(Direction::Up).ambiguous, m.counts(Direction::Up).lost), (3, 0));
}

#[test]
fn a_flow_that_repeats_one_name_is_distrusted_rather_than_guessed() {
    let w = World { repeat: 1, loss_percent: 5, delay: [12_000_000, 9_000_000], ..CALM };
    let (truth, observed, counts) = run(&w, 0);
    let wrong =
        observed.records.iter().filter(|r| truth.times[&r.flow] != (r.reference.0, r.monitor.0)).count();
    assert_eq!(wrong, 0);
    assert!(counts[0].ambiguous > 700, "{counts:?}");
}

#[test]
fn second_copies_and_double_captures_are_distinguished() {
    let (truth, observed, counts) = run(&World { copies_percent: 10, twice_percent: 10, ..CALM }, 0);
    assert_no_false_match(&truth, &observed);
    for direction in [0, 1] {
        assert_eq!(counts[direction].duplicates, truth.copies[direction]);
        assert_eq!(
            (counts[direction].matched, counts[direction].lost, counts[direction].unseen),
            (400, 0, 0)
        );
    }
    let seen = counts.map(|c| (c.seen_at_reference, c.seen_at_monitor));
    assert_eq!(seen, [(400, 400 + truth.copies[0]), (400 + truth.copies[1], 400)]);
    assert!(counts[0].captured_twice > 10);
    let copies = observed.arrived.iter().filter(|a| a.2).count() as u64;
    assert_eq!(copies, truth.copies[0] + truth.copies[1]);
}

#[test]
fn packets_outside_the_overlap_are_not_losses() {
    let truth = simulate(&CALM);
    let mut m = Matcher::new(Span(0), Span::seconds(2));
    let mut h = Observed::default();
    let start = truth.events[0].0;
    for (t, p, s) in &truth.events {
        // The monitor's capture begins late and ends early.
        if *p == CapturePoint::Reference || (200_000_000..500_000_000).contains(&(t - start)) {
            m.push(*p, *s, &mut h);
        }
    }
    m.finish(&mut h);
    for direction in Direction::BOTH {
        let c = m.counts(direction);
        assert_eq!(c.lost, 0, "{direction:?} {c:?}");
    }
    assert!(m.counts(Direction::Up).outside > 100 && m.counts(Direction::Down).unseen > 100);
}

#[test]
fn a_capture_in_which_time_stands_still_stays_bounded() {
    let mut m = Matcher::new(Span(0), Span::seconds(2)).with_capacity(100);
    let mut h = Observed::default();
    for i in 0..10_000u64 {
        let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        m.push(
            CapturePoint::Reference,
            Sighting { at: WallTime(5), id, length: 1, direction: Direction::Up, flow: 0 },
            &mut h,
        );
    }
    assert!(m.table.len() <= 101 && m.held() <= 101);
    m.finish(&mut h);
    // Only one point captured packets: none counts as lost, and the fate of those for which there was no room
    // is unknown.
    let c = m.counts(Direction::Up);
    assert_eq!((c.given_up, c.lost, c.outside), (9_900, 0, 100));
}

#[test]
fn what_there_is_no_room_for_is_unknown_and_not_lost() {
    let packet = |i: i64| Sighting {
        at: WallTime(i * 1_000_000),
        id: (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        length: 1,
        direction: Direction::Up,
        flow: 0,
    };
    let mut m = Matcher::new(Span(0), Span::seconds(100)).with_capacity(1000);
    let mut h = Observed::default();
    // The first and last packets arrive, so that both captures cover the time between; the others do not,
    // twice as many as fit.
    for i in 0..=2000 {
        m.push(CapturePoint::Reference, packet(i), &mut h);
        if i % 2000 == 0 {
            m.push(CapturePoint::Monitor, packet(i), &mut h);
        }
    }
    m.finish(&mut h);
    let c = m.counts(Direction::Up);
    assert_eq!((c.matched, c.given_up + c.lost), (2, 1999));
    assert!((999..=1001).contains(&c.given_up), "{c:?}");
    assert_eq!(h.lost.len() as u64, c.lost);
}

#[test]
fn one_sighting_that_waits_does_not_hold_back_all_others() {
    let packet = |i: i64, at: i64| Sighting {
        at: WallTime(at * 1000),
        id: (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        length: 1,
        direction: Direction::Down,
        flow: 0,
    };
    let mut m = Matcher::new(Span(0), Span::seconds(1000)).with_capacity(1000);
    let mut h = Observed::default();
    m.push(CapturePoint::Monitor, packet(0, 0), &mut h);
    for i in 1..10_000 {
        m.push(CapturePoint::Monitor, packet(i, i * 100), &mut h);
        m.push(CapturePoint::Reference, packet(i, i * 100 + 50), &mut h);
    }
    assert!(m.matches.slots.len() <= 1000 && h.records.len() >= 9_000, "{}", m.matches.slots.len());
    // It arrives after all: it is matched, but its turn is over.
    m.push(CapturePoint::Reference, packet(0, 1_000_000), &mut h);
    m.finish(&mut h);
    let c = m.counts(Direction::Down);
    assert_eq!((c.matched, c.given_up, h.records.len()), (10_000, 1, 9_999));
}

#[test]
fn an_entry_and_its_name_fill_a_cache_line() {
    assert!(size_of::<NameEntry>() <= 64, "{}", size_of::<(Identity, NameEntry)>());
}

#[test]
fn a_drifting_clock_is_followed() {
    // 500 ppm over 400 s drifts 200 ms.
    let w = World { gap: SECOND / 10, packets: 4000, skew_ppm: 500, ..CALM };
    let truth = simulate(&w);
    let mut m = Matcher::new(Span(0), Span(50_000_000));
    let mut h = Observed::default();
    for (_, p, s) in &truth.events {
        m.push(*p, *s, &mut h);
    }
    m.finish(&mut h);
    assert_eq!(m.counts(Direction::Up).matched, 4000);
    // The offset is updated every 1024 matches, here about every 50 s.
    assert!((150_000_000..200_000_000).contains(&m.offset().0), "{:?}", m.offset());
}

#[test]
fn an_identity_is_its_own_hash() {
    use core::hash::BuildHasher;
    assert_eq!(BuildHasherDefault::<IdentityHasher>::default().hash_one(7_u64), 7);
}

/// Hand-made OUT packets: name and time in µs.
struct Hand {
    m: Matcher,
    h: Observed,
}

impl Hand {
    const WINDOW: i64 = 2_000_000;

    fn new(capacity: usize) -> Hand {
        let m = Matcher::new(Span::ZERO, Span(Hand::WINDOW * 1000)).with_capacity(capacity);
        Hand { m, h: Observed::default() }
    }

    fn see(&mut self, point: CapturePoint, seen: &[(u64, i64)]) {
        for &(name, us) in seen {
            let id = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let s = Sighting { at: WallTime(us * 1000), id, length: 1, direction: Direction::Up, flow: 0 };
            self.m.push(point, s, &mut self.h);
        }
    }

    fn reference(&mut self, seen: &[(u64, i64)]) {
        self.see(CapturePoint::Reference, seen);
    }

    fn monitor(&mut self, seen: &[(u64, i64)]) {
        self.see(CapturePoint::Monitor, seen);
    }

    fn counts(&self) -> MatchCounts {
        self.m.counts(Direction::Up)
    }

    fn finish(mut self) -> (MatchCounts, Observed) {
        self.m.finish(&mut self.h);
        (self.m.counts(Direction::Up), self.h)
    }
}

#[test]
fn the_window_includes_its_end() {
    for (late, matched) in [(0, 1), (1, 0)] {
        let mut hand = Hand::new(100);
        hand.reference(&[(1, 0)]);
        hand.monitor(&[(1, Hand::WINDOW + late)]);
        assert_eq!((hand.counts().matched, hand.h.records.len() as u64), (matched, matched), "{late}");
    }
}

#[test]
fn every_sighting_is_counted_once() {
    let mut hand = Hand::new(100);
    hand.reference(&[(1, 0), (1, 300), (2, 5_000)]);
    hand.monitor(&[(1, 10_000), (1, 10_300)]);
    hand.reference(&[(1, 900)]);
    // A copy, and two packets with only one sighting.
    hand.monitor(&[(1, 14_000), (3, 15_000)]);
    let (c, h) = hand.finish();
    assert_eq!((c.seen_at_reference, c.seen_at_monitor, c.captured_twice), (2, 3, 3));
    assert_eq!((c.matched, c.duplicates, c.unseen, h.records.len()), (1, 1, 1, 1));
    assert_eq!(h.arrived, [(Direction::Up, 0, false), (Direction::Up, 0, true)]);
}

#[test]
fn eight_of_a_name_are_matched_and_nine_distrusted() {
    let times = |n: i64, from: i64| (0..n).map(|i| (1, from + i * 2_000)).collect::<Vec<_>>();
    let mut hand = Hand::new(100);
    hand.reference(&times(8, 0));
    hand.monitor(&times(8, 100_000));
    assert_eq!((hand.counts().matched, hand.counts().ambiguous, hand.h.records.len()), (8, 0, 8));
    let mut hand = Hand::new(100);
    hand.reference(&times(9, 0));
    assert_eq!((hand.counts().ambiguous, hand.h.void.len()), (9, 9));
    hand.reference(&times(2, 50_000));
    hand.monitor(&times(1, 100_000));
    let c = hand.counts();
    assert_eq!((c.seen_at_reference, c.seen_at_monitor, c.ambiguous, c.matched), (11, 1, 12, 0));
}

#[test]
fn a_repeated_name_without_a_partner_is_lost_when_its_window_is_over() {
    let mut hand = Hand::new(100);
    hand.reference(&[(1, 0), (2, 3_000), (2, 5_000), (2, 5_300)]);
    hand.monitor(&[(1, 10_000)]);
    hand.reference(&[(3, 20_000)]);
    hand.monitor(&[(3, 30_000)]);
    assert_eq!((hand.counts().captured_twice, hand.h.records.len()), (1, 2));
    let over = |us: i64| WallTime((Hand::WINDOW + us) * 1000);
    hand.m.advance(over(5_000), &mut hand.h);
    assert_eq!(hand.counts().lost, 0);
    // The window begins at the last sighting.
    hand.m.advance(over(2 * Hand::WINDOW), &mut hand.h);
    assert_eq!((hand.counts().lost, hand.counts().ambiguous, hand.h.lost.len()), (2, 0, 2));
}

#[test]
fn an_unequal_number_counts_for_nothing_and_holds_nothing_back() {
    let mut hand = Hand::new(100);
    hand.reference(&[(1, 0), (2, 3_000), (2, 5_000)]);
    hand.monitor(&[(1, 10_000), (2, 14_000), (7, 15_000)]);
    hand.reference(&[(3, 20_000)]);
    hand.monitor(&[(3, 30_000)]);
    assert_eq!(hand.h.records.len(), 1, "two sightings before it are open");
    hand.m.advance(WallTime(3 * Hand::WINDOW * 1000), &mut hand.h);
    assert_eq!((hand.h.records.len(), hand.counts().ambiguous, hand.counts().unseen), (2, 3, 1));
    assert_eq!(hand.h.void, [(Direction::Up, 1), (Direction::Up, 2)]);
}

#[test]
fn a_group_without_room_is_given_up() {
    let mut hand = Hand::new(2);
    hand.reference(&[(1, 0), (1, 2_000), (2, 3_000)]);
    assert_eq!(hand.counts().given_up, 0);
    hand.reference(&[(3, 4_000)]);
    assert_eq!((hand.counts().given_up, hand.h.void.len()), (2, 2));
}

#[test]
fn as_many_wait_as_there_is_room_for() {
    let mut hand = Hand::new(2);
    hand.monitor(&[(1, 10_000), (2, 11_000)]);
    hand.reference(&[(1, 0), (2, 1_000)]);
    let (c, h) = hand.finish();
    assert_eq!((c.matched, c.given_up, h.records.len()), (2, 0, 2));
}

#[test]
fn overtaking_is_counted_and_leaving_together_is_not() {
    let mut hand = Hand::new(100);
    hand.reference(&[(1, 0), (2, 0), (3, 5_000), (4, 6_000)]);
    hand.monitor(&[(1, 10_000), (2, 11_000), (4, 16_000), (3, 17_000)]);
    let (c, _) = hand.finish();
    assert_eq!((c.matched, c.reordered), (4, 1));
}

#[test]
fn a_loss_needs_a_capture_that_ran() {
    let fate = |lost: i64, covered: &[i64]| {
        let mut hand = Hand::new(100);
        covered.iter().for_each(|us| hand.m.covers(CapturePoint::Monitor, WallTime(us * 1000)));
        // The packet sent first arrives last: sent at 5 ms with a delay of 25 ms, and at 10 ms with 10 ms.
        hand.reference(&[(1, 5_000), (2, 10_000), (3, lost)]);
        hand.monitor(&[(2, 20_000), (1, 30_000)]);
        let (c, h) = hand.finish();
        assert_eq!((c.lost + c.outside, h.lost.len() as u64, h.void.len() as u64), (1, c.lost, c.outside));
        c.lost
    };
    assert_eq!(fate(6_000, &[]), 1, "between two that arrived");
    assert_eq!((fate(3_000, &[]), fate(12_000, &[])), (0, 0), "before and after them");
    assert_eq!((fate(3_000, &[13_000]), fate(3_000, &[13_001])), (1, 0), "when the first delay is over");
    assert_eq!((fate(12_000, &[37_000]), fate(12_000, &[36_999])), (1, 0), "when the last delay is over");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn known_truth_is_found(
        seed: u64,
        gap in 100_000i64..20_000_000,
        out in 100_000i64..80_000_000,
        back in 100_000i64..80_000_000,
        jitter in 0i64..30_000_000,
        loss_percent in 0u64..20,
        offset in -10_000_000_000_000i64..10_000_000_000_000,
        error in -400_000_000i64..400_000_000,
        skew_ppm in -100i64..100,
    ) {
        let w = World { seed, gap, delay: [out, back], jitter, loss_percent, offset, skew_ppm, ..CALM };
        let (truth, observed, counts) = run(&w, error);
        assert_no_false_match(&truth, &observed);
        for direction in [0, 1] {
            prop_assert_eq!(counts[direction].lost, truth.lost[direction], "{:?}", counts[direction]);
            prop_assert_eq!(counts[direction].matched, 400 - truth.lost[direction]);
            prop_assert_eq!((counts[direction].ambiguous, counts[direction].outside, counts[direction].unseen), (0, 0, 0));
        }
        // The RTT of every pair is the sum of its two true delays, within the skew over the turnaround.
        for p in &observed.pairs {
            let (r, m) = truth.times[&p.out.flow];
            let (r2, m2) = truth.times[&p.back.flow];
            prop_assert_eq!(p.rtt().0, (m - r) + (r2 - m2));
            prop_assert!(p.turnaround().0 > 0);
        }
    }

    #[test]
    fn losses_copies_and_reordering_are_counted_exactly(
        seed: u64,
        gap in 500_000i64..20_000_000,
        out in 100_000i64..60_000_000,
        back in 100_000i64..60_000_000,
        jitter in 0i64..20_000_000,
        loss_percent in 0u64..10,
        copies_percent in 0u64..10,
        twice_percent in 0u64..10,
        offset in -10_000_000_000_000i64..10_000_000_000_000,
        skew_ppm in -100i64..100,
    ) {
        let delay = [out, back];
        let w = World { seed, gap, delay, jitter, loss_percent, copies_percent, twice_percent, offset, skew_ppm, ..CALM };
        let (truth, observed, counts) = run(&w, 0);
        assert_no_false_match(&truth, &observed);
        for direction in Direction::BOTH {
            let (far, mut seen, mut newest, mut reordered) =
                (if direction == Direction::Up { CapturePoint::Monitor } else { CapturePoint::Reference }, HashMap::new(), i64::MIN, 0);
            for (_, p, s) in truth.events.iter().filter(|(_, p, s)| s.direction == direction && *p == far) {
                let (r, m) = truth.times[&s.flow];
                let sent = if direction == Direction::Up { r } else { m };
                if seen.insert(s.flow, *p).is_none() {
                    reordered += u64::from(sent < newest);
                    newest = newest.max(sent);
                }
            }
            let c = counts[direction as usize];
            prop_assert_eq!((c.lost, c.duplicates), (truth.lost[direction as usize], truth.copies[direction as usize]));
            prop_assert_eq!((c.reordered, c.ambiguous, c.unseen), (reordered, 0, 0), "{:?}", c);
        }
    }

    #[test]
    fn repeating_names_never_give_a_false_match_without_reordering(
        seed: u64, repeat in 2u64..60, loss_percent in 0u64..4, gap in 1_500_000i64..20_000_000,
    ) {
        let w = World { seed, repeat, loss_percent, gap, jitter: 0, ..CALM };
        let (truth, observed, _) = run(&w, 0);
        assert_no_false_match(&truth, &observed);
    }

    #[test]
    fn any_sightings_at_all_come_to_an_end(
        list in prop::collection::vec((any::<bool>(), any::<bool>(), any::<i64>(), 0u64..6), 0..80), offset: i64,
    ) {
        let mut m = Matcher::new(Span(offset), Span::seconds(2));
        let mut h = Observed::default();
        for (monitor, back, at, id) in list {
            let direction = if back { Direction::Down } else { Direction::Up };
            let point = if monitor { CapturePoint::Monitor } else { CapturePoint::Reference };
            m.push(point, Sighting { at: WallTime(at), id: id * 2 + direction as u64, length: 1, direction, flow: 0 }, &mut h);
        }
        m.finish(&mut h);
        prop_assert!(m.table.is_empty() && m.groups.is_empty());
    }
}
