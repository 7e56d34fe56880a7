use super::*;
use crate::testing::{MS, SECOND, delays, every, first, packets};

/// Returns the pattern of packets with these gaps, in us.
fn pace(gaps: &[i64]) -> SendPattern {
    let mut sent = 0;
    let times = gaps.iter().map(|gap| {
        sent += gap * 1000;
        (sent, 0)
    });
    delays(&packets([(0, 0)].into_iter().chain(times))).pace()
}

#[test]
fn a_pace_is_seen_of_twenty_gaps() {
    let of = |n: i64| pace(&(0..n).map(|k| 1000 * (k % 2)).collect::<Vec<_>>());
    assert_eq!(first(1..=40, |n| of(n) != SendPattern::Even), 20);
}

#[test]
fn bursts_are_gaps_below_a_twentieth_of_the_mean_more_than_35_of_100() {
    let of = |short: i64| {
        let gaps: Vec<i64> = (0..100).map(|k| if k * 37 % 100 < short { 0 } else { 1000 }).collect();
        pace(&gaps)
    };
    assert_eq!(first(20..=99, |short| matches!(of(short), SendPattern::Bursts(_))), 36);
    // With half of the gaps short, two packets are sent together; with nine of ten, ten.
    assert_eq!([of(50), of(90)], [SendPattern::Bursts(2), SendPattern::Bursts(10)]);
    // Half of the gaps are short, and the mean is 1000 us: gaps below 50 us separate packets of a burst.
    let of = |short: i64| {
        let gaps: Vec<i64> = (0..100).map(|k| if k % 2 == 0 { short } else { 2000 - short }).collect();
        pace(&gaps)
    };
    assert_eq!(first(0..=1000, |short| of(short) != SendPattern::Bursts(2)), 50);
    // A gap that contains a lost packet does not count.
    let mut holes = every(MS, 200, |_| Some(0));
    holes.retain(|p| p.seq % 2 == 0);
    assert_eq!(delays(&holes).pace(), SendPattern::Even);
}

#[test]
fn gaps_vary_where_the_middle_three_fifths_differ_by_half_the_mean() {
    // A fifth of the gaps are longer and a fifth shorter by the same amount, so the mean is 1000 us.
    let of = |by: i64| {
        let gaps: Vec<i64> = (0..100)
            .map(|k| match k {
                ..=20 => 1000 - by,
                80.. => 1000 + by,
                _ => 1000,
            })
            .collect();
        let mut even = gaps.clone();
        // There is one more short gap than long ones.
        even[20] = 1000 - by;
        even[40] = 1000 + by;
        pace(&even)
    };
    assert_eq!(first(0..=900, |by| of(by) == SendPattern::Varied), 251);
}

#[test]
fn what_clocks_were_set_by_is_taken_off_from_its_place_on() {
    let mut d = delays(&every(10 * MS, 10, |k| Some(i64::from(k) * MS)));
    assert!(!d.has_shifts() && !d.is_adjusted());
    d.set_shift(6, 100, 1000);
    d.set_shift(3, 10, 7);
    assert!(d.has_shifts() && d.is_adjusted());
    let taken = |k: usize| (k as i64 * MS - d.delay(k), k as i64 * 10 * MS - d.time(k));
    assert_eq!([2, 3, 5, 6, 9].map(taken), [(0, 0), (10, 7), (10, 7), (110, 1007), (110, 1007)]);
    assert_eq!(d.arrival(4), d.time(4) + d.delay(4));
    d.set_shift(3, 1, 1);
    assert_eq!(4 * MS - d.delay(4), 11);
}

#[test]
fn a_skew_is_taken_off_by_the_time_sent() {
    let mut d = delays(&every(SECOND, 10, |_| Some(5 * MS)));
    d.set_skew(1e-6);
    assert!(d.is_adjusted() && !d.has_shifts());
    assert_eq!([0, 1, 9].map(|k| d.delay(k)), [0, -1000, -9000]);
}

#[test]
fn delays_count_from_the_first_and_excess_from_the_smallest_of_the_route() {
    let mut d = delays(&every(10 * MS, 10, |k| {
        Some(if k < 5 { 20 * MS } else { 30 * MS } + i64::from(k % 5) * 1000)
    }));
    assert_eq!(d.delay(7), 10 * MS + 2000);
    d.set_level(-500);
    assert_eq!((d.excess(0), d.is_adjusted()), (500, false));
    d.set_levels(&[0, 5]);
    assert_eq!(d.levels, [(0, 0), (5, 10 * MS)]);
    assert_eq!([4, 5, 9].map(|k| d.excess(k)), [4000, 0, 4000]);
    assert!(d.is_adjusted());
    d.set_levels(&[0]);
    assert!(!d.is_adjusted());
    // A level may begin after the first packet.
    d.levels = vec![(3, 100)];
    assert_eq!((d.excess(2), d.excess(3)), (2000, 2900));
}

#[test]
fn schedules_count_from_the_first_packet() {
    let mut d = delays(&packets([(0, 0), (11 * MS, 0), (20 * MS, 0)]));
    let mut found = Vec::new();
    d.each_off_schedule(10 * MS, |k, late| found.push((k, late)));
    assert_eq!(found, [(0, 0), (1, MS), (2, 0)]);
    d.set_shift(1, 0, MS);
    assert_eq!([0, 1, 2].map(|k| d.off_schedule(k, 10 * MS)), [0, 0, -MS]);
}

#[test]
fn extremes_are_those_of_each_packet() {
    let of = |k: usize| i64::from((k as u32).wrapping_mul(2_654_435_761) >> 12);
    let base = delays(&every(MS, 300, |k| Some(of(k as usize))));
    let mut shifted = base.clone();
    shifted.set_shift(100, MS, 0);
    shifted.set_levels(&[0, 150, 200]);
    let mut skewed = shifted.clone();
    skewed.set_skew(1e-3);
    for d in [base, shifted, skewed] {
        for range in [0..300, 0..1, 90..110, 99..101, 100..200, 149..201, 250..300] {
            let all: Vec<i64> = range.clone().map(|k| d.excess(k)).collect();
            let expected = all.iter().min().copied().zip(all.iter().max().copied());
            assert_eq!(d.extremes(range.clone()), expected, "{range:?}");
        }
        assert_eq!(d.extremes(5..5), None);
    }
}

#[test]
fn blocks_are_of_four_packets_or_two_bursts_or_a_32768th() {
    let even = |n: u32| delays(&every(MS, n, |k| Some(i64::from(k) * 1000))).blocks();
    assert_eq!((even(0).size, even(0).len()), (4, 0));
    assert_eq!([3, 4, 7, 8, 11].map(|n| even(n).len()), [1, 1, 1, 2, 2]);
    let eleven = even(11);
    assert_eq!((eleven.size, eleven.min, eleven.max), (4, vec![0, 4000], vec![3000, 10_000]));
    let many = |n: u32| delays(&packets((0..n).map(|k| (i64::from(k), 0)))).blocks().size;
    assert_eq!([4 << 15, (4 << 15) + 1].map(many), [4, 5]);
    // Blocks of packets in bursts of ten contain two bursts, but at most an eighth of all packets.
    let bursts = |n: u32| delays(&packets((0..n).map(|k| (i64::from(k / 10) * MS, 0)))).blocks().size;
    assert_eq!([80, 400].map(bursts), [10, 20]);
}

#[test]
fn blocks_have_places_and_groups() {
    let mut blocks = Blocks { size: 4, min: vec![7, 5, 9, 6, 8], max: vec![10, 11, 12, 13, 14] };
    assert_eq!([0, 1, 4, 5, 6].map(|b| blocks.place(b, 22)), [0, 4, 16, 22, 22]);
    assert_eq!(blocks.grouped(2), (vec![5, 6, 8], 2));
    assert_eq!(blocks.grouped(5), (vec![7, 5, 9, 6, 8], 1));
    assert_eq!(blocks.grouped(9).1, 1);
    assert_eq!(blocks.lower_to_0(), 5);
    assert_eq!((blocks.min, blocks.max), (vec![2, 0, 4, 1, 3], vec![5, 6, 7, 8, 9]));
}

#[test]
fn noise_is_how_much_neighbours_differ() {
    // The k-th delay differs from the one before by k us, alternately up and down.
    let mut at = 0;
    let of: Vec<i64> = (0..101i64)
        .map(|k| {
            at += if k % 2 == 0 { k * 1000 } else { -k * 1000 };
            at
        })
        .collect();
    let noise = delays(&every(MS, 101, |k| Some(of[k as usize]))).noise();
    assert_eq!((noise.median, noise.p90), (51_000, 91_000));
    // In bursts of two, packets at the same index are compared.
    let pairs = delays(&packets((0..200).map(|k| (k / 2 * MS, k % 2 * 5000))));
    assert_eq!((pairs.pace(), pairs.noise().p90), (SendPattern::Bursts(2), 0));
    // Of many packets only some pairs are sampled.
    let many = delays(&every(MS, 20_000, |k| Some(i64::from(k) * 10)));
    assert_eq!(many.noise().median, 10);
    assert_eq!(delays(&every(MS, 1, |_| Some(5))).noise().p90, 0);
}

#[test]
fn quantiles_are_of_a_range() {
    let d = delays(&every(MS, 100, |k| Some(i64::from(k) * 1000)));
    let of = |from, to, share| d.quantile(from, to, share);
    assert_eq!(
        [0.0, 0.5, 0.99, 1.0].map(|s| of(0, 100, s)),
        [Some(0), Some(50_000), Some(99_000), Some(99_000)]
    );
    assert_eq!(of(10, 20, 0.5), Some(15_000));
    assert_eq!((of(90, 500, 0.5), of(20, 20, 0.5), of(30, 20, 0.5)), (Some(95_000), None, None));
    let many = delays(&every(MS, 3 * 4096, |k| Some(i64::from(k))));
    assert_eq!(many.quantile(0, 3 * 4096, 1.0), Some(3 * 4095), "every third");
}

#[test]
fn bursts_whose_last_packets_are_lost_are_bursts() {
    // Bursts of nine packets every 180 ms, of which the last three to four are lost.
    let packets = every(MS, 1800, |k| (k % 9 < 5 + k / 9 % 2).then_some(MS));
    let sent = |mut packet: AcceptedPacket| {
        packet.sent += (i64::from(packet.seq / 9) * 180 - i64::from(packet.seq)) * MS;
        packet
    };
    let packets: Vec<AcceptedPacket> = packets.into_iter().map(sent).collect();
    assert_eq!(delays(&packets).pace(), SendPattern::Bursts(9));
}

#[test]
fn the_noise_of_a_queue_is_not_that_of_the_path() {
    let packets = every(20 * MS, 1000, |k| {
        Some(if k < 700 { i64::from(k % 2) * MS } else { i64::from(k % 3) * 30 * MS + 50 * MS })
    });
    let delays = delays(&packets);
    let calm = delays.calm_noise(&delays.blocks());
    assert_eq!((calm.median, calm.p90), (MS, MS));
    assert!(delays.noise().p90 >= 30 * MS);
}
