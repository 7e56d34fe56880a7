use super::*;
use crate::testing::{MS, Test, every, first, known, packets, scattered};
use jitlat_core::metrics::classify::AcceptedPacket;
use jitlat_core::metrics::dependence::share_exceeds;
use jitlat_core::spec::{Direction, TestSpec, Transport};
use jitlat_core::time::Span;

const PERIOD: i64 = 10 * MS;

fn whole(sent: u64) -> KnownPackets {
    known(sent, 0, true)
}

fn periodic() -> Test {
    Test::new(1000, PERIOD, &every(PERIOD, 1000, |_| Some(0)))
}

/// Returns the law of single losses at these numbers, among `sent` packets.
fn law(sent: u64, lost: impl IntoIterator<Item = u64>) -> Option<LossLaw> {
    let test = periodic();
    LossLaw::of(
        &test.material(),
        whole(sent),
        &test.delays(),
        &scattered(sent, lost.into_iter().map(|seq| (seq, 1))),
    )
}

/// Pseudo-random numbers without a pattern.
fn by_chance(count: u64, from: u64, to: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut x = 12_345u64;
    while (numbers.len() as u64) < count {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let seq = from + (x >> 33) % (to - from);
        if !numbers.iter().any(|n| n.abs_diff(seq) < 2) {
            numbers.push(seq);
        }
    }
    numbers.sort_unstable();
    numbers
}

#[test]
fn there_is_a_law_from_four_losses_and_one_of_a_thousand_on() {
    assert_eq!(first(0..=20, |n| law(100, (0..n as u64).map(|k| 7 * k)).is_some()), MIN_LOSSES as i64);
    let lost = by_chance(10, 0, 1000);
    let is_allowed = |sent: i64| law(sent as u64, lost.clone()).is_none();
    let low = first(1000..=100_000, |sent| !share_exceeds(10.0 / sent as f64, sent as f64, ALLOWED_LOSS));
    assert_eq!(first(1000..=100_000, is_allowed), low);
    let mut tcp = periodic();
    let spec = TestSpec::new(Direction::Up, Transport::Tcp, 1000, 80, Span(PERIOD), Schedule::Periodic);
    tcp.session.spec = spec.unwrap();
    let all = scattered(1000, (0..100).map(|k| (10 * k, 1)));
    assert!(LossLaw::of(&tcp.material(), whole(1000), &tcp.delays(), &all).is_none());
}

#[test]
fn a_law_says_between_which_packets_it_holds() {
    let random = law(1000, by_chance(30, 0, 1000)).unwrap();
    assert_eq!((random.manner, random.packets, random.lost), (LossManner::Random, [0, 999], 30));
    assert_eq!(random.ratio, 0.03);
    // Losses in a part of the test.
    let lost = by_chance(40, 300, 600);
    let part = law(1000, lost.clone()).unwrap();
    assert_eq!(part.packets, [lost[0], lost[39]]);
    // A rate limit is reported from its first loss, unless this is within the first hundredth of the test.
    let policed = |from: u64| law(10_000, (0..1000).map(|k| from + 98 * k / 10)).unwrap();
    assert_eq!((policed(100).manner, policed(100).packets), (LossManner::Policed, [0, 9999]));
    assert_eq!(policed(101).packets, [101, 9999]);
}

/// Pattern and confidence of runs with these lengths among `sent` packets, at random positions, with these statistics.
fn manner_of(
    sent: u64,
    lengths: &[u64],
    z: Option<f64>,
    burst_ratio: f64,
    spacing: Option<f64>,
) -> (LossManner, f64) {
    let test = periodic();
    // The positions are neither even nor clustered.
    let places = by_chance(lengths.len() as u64, 0, sent);
    let runs = places.into_iter().zip(lengths.iter().copied());
    let pattern = Pattern { z, burst_ratio, spacing };
    let found = manner(&test.material(), whole(sent), &test.delays(), &scattered(sent, runs), pattern);
    (found.manner, found.confidence)
}

/// Converts thousandths.
fn parts(x: i64) -> Option<f64> {
    Some(x as f64 / 1000.0)
}

#[test]
fn even_losses_are_policed() {
    let is_policed = |sent, lost: usize, z, spacing| {
        manner_of(sent, &vec![1; lost], z, 1.0, spacing) == (LossManner::Policed, 0.95)
    };
    assert_eq!(first(0..=5000, |z| is_policed(1000, 50, parts(z), None)), 2577, "the runs test at 1 %");
    assert_eq!(first(1..=100, |lost| is_policed(1000, lost as usize, Some(3.0), None)), 21, "more than 2 %");
    assert_eq!(first(0..=1000, |s| !is_policed(1000, 50, Some(3.0), parts(s))), 700);
    // Without the runs test, distances alone decide, if there are at least nine runs.
    assert_eq!(first(0..=1000, |s| !is_policed(1000, 50, None, parts(s))), 450);
    assert_eq!(first(1..=100, |lost| is_policed(1000, lost as usize, None, Some(0.2))), 9);
}

#[test]
fn a_rate_limit_takes_runs_of_about_one_length() {
    let agree = |lengths: &[u64]| run_lengths_agree(&scattered(1000, lengths.iter().map(|len| (0, *len))));
    // The limit is 0.35 times the mean plus 0.5: 4 for a mean of 10.
    assert!(agree(&[6, 14]) && !agree(&[5, 15]) && agree(&[7]));
    let unequal: Vec<u64> = (0..20).map(|k| 1 + 19 * (k % 2)).collect();
    assert_eq!(manner_of(1000, &unequal, None, 1.0, Some(0.2)).0, LossManner::Bursty);
}

#[test]
fn clustered_losses_are_bursty() {
    assert_eq!(manner_of(1000, &[5; 20], None, 1.0, None), (LossManner::Bursty, 0.97));
    // If distances show nothing, the runs test decides.
    let of = |z, burst_ratio: i64| manner_of(1000, &[1; 20], z, burst_ratio as f64 / 1000.0, None);
    assert_eq!(first(-5000..=0, |z| of(parts(z), 2000).0 != LossManner::Bursty), -2576);
    assert_eq!(first(1000..=2000, |b| of(Some(-3.0), b).0 == LossManner::Bursty), 1250);
    assert_eq!(of(Some(-4.0), 2000), (LossManner::Bursty, 0.9));
    // Two bursts with a burst ratio of 2, with too few losses for the runs test.
    let few = |runs: usize, burst_ratio| manner_of(1000, &vec![1; runs], None, burst_ratio, None);
    assert_eq!(few(2, 2.0), (LossManner::Bursty, 0.8));
    assert_eq!([few(1, 2.0), few(2, 1.99)], [(LossManner::Random, 0.85); 2]);
}

#[test]
fn losses_without_a_pattern_are_random() {
    let of = |z| manner_of(1000, &[1; 20], Some(z), 1.0, None);
    for (z, confidence) in [(0.0, 0.95), (1.95, 0.95), (1.96, 0.9), (-1.95, 0.95), (-1.96, 0.9)] {
        assert_eq!(of(z), (LossManner::Random, confidence), "z = {z}");
    }
}

/// True if these runs of loss follow the rate of packets that are sent in bursts.
fn follows_bursts(size: u32, runs: &[(u64, u64)]) -> bool {
    let test = Test::of(1000, PERIOD, &every(PERIOD, 1000, |_| Some(0)), Schedule::Burst { size });
    follows_rate(&test.material(), &test.delays(), &scattered(1000, runs.iter().copied()))
}

#[test]
fn a_bucket_takes_the_later_packets_of_bursts() {
    // A hundred single losses, of which `second` are the second packet of a pair: 75 are five deviations above half.
    let of_two = |second: i64| {
        let runs: Vec<(u64, u64)> = (0..100).map(|k| (2 * k + u64::from((k as i64) < second), 1)).collect();
        follows_bursts(2, &runs)
    };
    assert_eq!(first(50..=100, of_two), 76);
    // Bursts of five with 50 losses at index 3 and one at index `last`; the middle is 2, and a deviation 0.2.
    let of_five = |last: u64| {
        let runs: Vec<(u64, u64)> = (0..50).map(|k| (5 * k + 3 + u64::from(k < last), 1)).collect();
        follows_bursts(5, &runs)
    };
    assert!(!of_five(0) && of_five(1));
    // Runs of two count twice, at indices 3 and 4.
    let run_of_two: Vec<(u64, u64)> = (0..50).map(|k| (5 * k + 3, 2)).collect();
    assert!(follows_bursts(5, &run_of_two));
    let at_the_end =
        |count: i64| follows_bursts(5, &(0..count as u64).map(|k| (5 * k + 4, 1)).collect::<Vec<_>>());
    assert_eq!(first(0..=50, at_the_end), 13, "(4 − 2) √(n / 2) > 5");
    let far =
        |count: i64| follows_bursts(50, &(0..count as u64).map(|k| (50 * k + 49, 1)).collect::<Vec<_>>());
    assert_eq!(first(0..=20, far), 12, "twelve runs");
    assert!(!follows_bursts(1, &run_of_two));
}

#[test]
fn bursts_that_are_seen_count_as_those_asked_for() {
    let pairs: Vec<AcceptedPacket> = every(PERIOD, 1000, |_| Some(0))
        .into_iter()
        .map(|p| AcceptedPacket { sent: i64::from(p.seq / 2) * 2 * PERIOD, ..p })
        .collect();
    let test = Test::new(1000, PERIOD, &pairs);
    let follows = |place: u64| {
        let runs = scattered(1000, (0..100).map(|k| (2 * k + place, 1)));
        follows_rate(&test.material(), &test.delays(), &runs)
    };
    assert!(follows(1) && !follows(0));
    let even = periodic();
    assert!(!follows_rate(
        &even.material(),
        &even.delays(),
        &scattered(1000, (0..100).map(|k| (2 * k + 1, 1)))
    ));
}

/// Alternating gaps of 4 and 16 ms, with the gaps `before` in front of each of `count` lost packets.
fn varied(count: u64, before: &[i64]) -> (Test, Scattered) {
    let mut sent = vec![0];
    let mut lost = Vec::new();
    let leave = |gap: i64, sent: &mut Vec<i64>| sent.push(sent.last().unwrap() + gap);
    for _ in 0..count {
        (0..40).for_each(|k| leave(if k % 2 == 0 { 4 * MS } else { 16 * MS }, &mut sent));
        before.iter().for_each(|gap| leave(*gap, &mut sent));
        lost.push(sent.len() as u64 - 1);
    }
    let n = sent.len() as u32;
    let test = Test::of(n, PERIOD, &packets(sent.into_iter().map(|s| (s, 0))), Schedule::Poisson { seed: 1 });
    assert_eq!(test.delays().pace(), SendPattern::Varied);
    (test, scattered(n.into(), lost.into_iter().map(|seq| (seq, 1))))
}

#[test]
fn a_bucket_takes_what_is_sent_close_together() {
    let follows = |count: u64, before: &[i64]| {
        let (test, part) = varied(count, before);
        follows_rate(&test.material(), &test.delays(), &part)
    };
    // With twelve losses the condition is (1 − r) √(12 · packets) > 4.5, for the 3, 8 or 20 packets before.
    let last_3 = |ns: i64| {
        // The gaps before them are longer by as much.
        let rest = (80 * MS - 3 * ns) / 5;
        follows(12, &[rest, rest, rest, rest, rest, ns, ns, ns])
    };
    assert!(last_3(PERIOD / 4 - 2) && !last_3(PERIOD / 4));
    let last_8 = |ns: i64| {
        let rest = (200 * MS - 8 * ns) / 12;
        follows(12, &[vec![rest; 12], vec![ns; 8]].concat())
    };
    // 1 − 4.5 / √96 = 0.5407 of the period.
    assert!(last_8(5_405_000) && !last_8(5_410_000));
    let last_20 = |ns: i64| follows(12, &[ns; 20]);
    // 1 − 4.5 / √240 = 0.7095.
    assert!(last_20(7_090_000) && !last_20(7_100_000));
    assert!(!follows(11, &[MS; 20]), "of eleven runs nothing is said");
}

/// Size that is lost in a test that declares 1000 bytes and alternates between the sizes `turns`: `lost` packets of
/// each turn are lost, as single losses, and `came` is true for turns with received packets.
fn lost_size(turns: &[u16], lost: &[u64], came: &[bool]) -> Option<u16> {
    let cycle = turns.len() as u64;
    let received: Vec<AcceptedPacket> = every(PERIOD, 1200, |k| came[k as usize % turns.len()].then_some(0));
    let mut test = Test::new(1200, PERIOD, &received);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, 1200, 1000, Span(PERIOD), Schedule::Periodic);
    test.session.spec = spec.unwrap();
    for p in &received {
        let mut record =
            jitlat_core::PacketRecord::one_way(0, jitlat_core::WallTime(0), jitlat_core::WallTime(0));
        record.set_size(Some(turns[p.seq as usize % turns.len()]));
        test.notes.push(&record, p.seq);
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (place, count) in (0..).zip(lost) {
        runs.extend((0..*count).map(|k| (k * cycle + place, 1)));
    }
    runs.sort_unstable();
    by_size(&test.material(), whole(1200), &scattered(1200, runs))
}

#[test]
fn the_size_is_named_of_which_packets_are_lost() {
    let all = [true; 3];
    // Each turn has a third of the packets, 400.
    assert_eq!(lost_size(&[100, 500, 1000], &[0, 0, 100], &all), Some(1000));
    assert_eq!(lost_size(&[100, 500, 1000], &[0, 100, 100], &all), Some(500));
    assert_eq!(lost_size(&[100, 500, 1000], &[100, 100, 100], &all), None, "all sizes alike");
    assert_eq!(lost_size(&[100, 1000, 500], &[0, 100, 0], &all), Some(1000));
    // The size must lose more than a fifth of its turn.
    let of = |n: i64| lost_size(&[100, 500, 1000], &[0, 0, n as u64], &all);
    assert_eq!(first(8..=400, |n| of(n).is_some()), 81);
    // It must have nine in ten losses.
    let of = |short: i64| lost_size(&[100, 1000], &[short as u64, 270], &[true; 2]);
    assert_eq!((of(30), of(31)), (Some(1000), None));
    // It must be lost eight times as often as shorter sizes; 400 of 400 against 100 of 800 is exactly eight times.
    let of = |turns: &[u16], lost: &[u64]| lost_size(turns, lost, &[true; 12]);
    let many = [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 1000];
    let mut lost = [0; 12];
    lost[11] = 90;
    lost[0] = 10;
    assert_eq!(of(&many, &lost), Some(1000), "90 of 100 against 10 of 1100");
    let mut long = [1000; 12];
    long[0] = 100;
    let mut lost = [11; 12];
    lost[0] = 1;
    assert_eq!(of(&long, &lost), None, "a tenth of each");
    let mut lost = [40; 12];
    lost[0] = 5;
    assert_eq!(of(&long, &lost), None, "exactly eight times");
    lost[0] = 4;
    assert_eq!(of(&long, &lost), Some(1000));
}

#[test]
fn short_sizes_are_counted_by_their_turns() {
    // 320 of 800 long packets are lost, and `short` of 400 short ones.
    let of = |short: i64| {
        let lost = [short as u64, 0, 80, 80, 80, 80];
        lost_size(&[100, 100, 900, 900, 1000, 1000], &lost, &[true; 6])
    };
    assert_eq!(first(0..=40, |short| of(short).is_none()), 20);
}

#[test]
fn a_size_takes_eight_losses_and_turns() {
    let mut turns = [100; 40];
    turns[39] = 1000;
    let of = |n: i64| lost_size(&turns, &[vec![0; 39], vec![n as u64]].concat(), &[true; 40]);
    assert_eq!(first(1..=30, |n| of(n).is_some()), 8);
}

#[test]
fn a_size_of_which_nothing_comes_is_the_one_declared() {
    // No packet of the third turn arrives, and all others have one size.
    assert_eq!(lost_size(&[100, 100, 1000], &[0, 0, 400], &[true, true, false]), Some(1000));
    // The declared size arrives, so it is not the lost one.
    assert_eq!(lost_size(&[1000, 1000, 1000], &[0, 0, 400], &[true, true, false]), None);
    // Two sizes arrive, and no packet of the third turn does.
    assert_eq!(lost_size(&[100, 200, 1000], &[0, 0, 400], &[true, true, false]), Some(1000));
}

/// Returns the number of outages and the pattern of a test of `n` packets whose k-th is sent at `sent(k)`.
fn shown(n: u32, sent: impl Fn(u32) -> i64, is_lost: impl Fn(u32) -> bool) -> (usize, Option<LossManner>) {
    let packet = |seq: u32| AcceptedPacket { seq, sent: sent(seq), delay: 0 };
    let packets: Vec<AcceptedPacket> = (0..n).filter(|k| !is_lost(*k)).map(packet).collect();
    let test = Test::new(n, PERIOD, &packets);
    let material = test.material();
    let case = crate::case::Case::new(&material);
    (case.losses.outages().count(), case.law.map(|law| law.manner))
}

#[test]
fn a_bucket_that_is_filled_in_steps_is_a_rate_limit_and_no_row_of_outages() {
    let every = |k: u32| i64::from(k) * PERIOD;
    // In each second 60 packets pass and 40 are lost, which is a gap of 0.4 s.
    assert_eq!(shown(5000, every, |k| k % 100 >= 60), (0, Some(LossManner::Policed)));
    // The same gaps at random times are outages.
    let seconds = by_chance(25, 0, 100);
    let (outages, law) = shown(10_000, every, |k| seconds.contains(&u64::from(k / 100)) && k % 100 >= 60);
    assert!(outages >= MANY && law != Some(LossManner::Policed), "{outages} {law:?}");
}

/// Minimum number of outages for which a rate limit is considered.
const MANY: usize = 9;

#[test]
fn a_rate_limit_lets_as_much_through_whatever_is_sent() {
    // Alternating seconds with 40 and 160 packets, of which 30 pass: the first ones, or random ones.
    let sent = |k: u32| {
        let (turn, k) = (i64::from(k / 200), i64::from(k % 200));
        let within = if k < 40 { k * 25 * MS } else { 1000 * MS + (k - 40) * 1000 * MS / 160 };
        turn * 2000 * MS + within
    };
    let limited = |k: u32| if k % 200 < 40 { k % 200 >= 30 } else { k % 200 >= 70 };
    assert_eq!(shown(6000, sent, limited), (0, Some(LossManner::Policed)));
    let lost: std::collections::BTreeSet<u64> = by_chance(1500, 0, 6000).into_iter().collect();
    let (_, law) = shown(6000, sent, |k| lost.contains(&u64::from(k)));
    assert_ne!(law, None);
    // A constant share of the sent packets is not a rate limit.
    let (_, law) = shown(6000, |k| i64::from(k) * PERIOD, |k| k.wrapping_mul(2_654_435_761) >> 30 == 0);
    assert!(matches!(law, Some(LossManner::Random | LossManner::Policed)), "{law:?}");
}
