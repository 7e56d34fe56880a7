use super::super::series::Samples;
use super::*;
use proptest::prelude::*;

/// Figures for rows of (sequence number, delay as arrival time) with 100-byte packets.
fn of(rows: &[(u32, i64)]) -> Reordering {
    let mut samples = Samples::default();
    for &(seq, arrived) in rows {
        samples.push(AcceptedPacket { seq, sent: 0, delay: arrived });
    }
    reordering(&Series::new(&samples), 100)
}

fn seqs(seqs: &[u32]) -> Reordering {
    of(&(0..).zip(seqs).map(|(k, s)| (*s, k)).collect::<Vec<_>>())
}

#[test]
fn examples_of_rfc_4737() {
    // §7.1, §7.2, §7.3: arrivals with their times.
    let t1 = of(&[
        (1, 68),
        (2, 88),
        (3, 108),
        (5, 148),
        (6, 168),
        (7, 188),
        (8, 208),
        (4, 210),
        (9, 228),
        (10, 248),
    ]);
    assert_eq!(t1.extent_hist, BTreeMap::from([(4, 1)]));
    assert_eq!(t1.n_reordered, BTreeMap::from([(1, 1), (2, 1), (3, 1), (4, 1)]));
    assert_eq!((t1.max_late_time_ns, t1.max_byte_offset), (Some(62), Some(400)));
    let t2 = of(&[
        (1, 68),
        (2, 88),
        (3, 108),
        (4, 128),
        (7, 188),
        (5, 189),
        (6, 190),
        (8, 208),
        (9, 228),
        (10, 248),
    ]);
    assert_eq!(t2.extent_hist, BTreeMap::from([(1, 1), (2, 1)]));
    assert_eq!(t2.n_reordered, BTreeMap::from([(1, 1)]));
    assert_eq!((t2.max_late_time_ns, t2.max_byte_offset), (Some(2), Some(100)));
    let t3 = of(&[
        (1, 68),
        (2, 88),
        (3, 108),
        (7, 188),
        (8, 208),
        (9, 228),
        (10, 248),
        (4, 250),
        (5, 252),
        (6, 256),
        (11, 268),
    ]);
    assert_eq!(t3.extent_hist, BTreeMap::from([(4, 1), (5, 1), (6, 1)]));
    assert_eq!((t3.max_late_time_ns, t3.max_byte_offset), (Some(68), Some(400)));
    // §7.4.
    let t4 = seqs(&[1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 12, 13, 11, 14, 15, 16]);
    assert_eq!((t4.extent_hist, t4.gaps), (BTreeMap::from([(2, 2), (3, 1)]), vec![7]));
    assert_eq!((t4.free_runs, t4.sum_sq_runs), (3, 50));
    // §5.3: only 4 is 3-reordered.
    assert_eq!(seqs(&[1, 2, 3, 7, 8, 9, 4, 5, 6]).n_reordered.get(&3), Some(&1));
}

#[test]
fn reordering_free_runs() {
    // RFC 4737 §4.6.4.
    let runs = |lengths: &[u32]| {
        let (mut high, mut low, mut out) = (1000, 0, Vec::new());
        for &n in lengths {
            (0..n).for_each(|k| out.push(high + k));
            high += n;
            out.push(low);
            low += 1;
        }
        let r = seqs(&out);
        (r.free_runs, r.in_order, r.sum_sq_runs)
    };
    assert_eq!(runs(&[11, 11, 11]), (3, 33, 363));
    assert_eq!(runs(&[1, 1, 31]), (3, 33, 963));
}

#[test]
fn adversarial_orders_stay_cheap() {
    let n = 50_000;
    let falling = seqs(&(0..n).rev().collect::<Vec<_>>());
    assert_eq!(falling.reordered, u64::from(n) - 1);
    assert_eq!(falling.max_byte_offset, Some(u64::from(n - 1) * 100));
    assert_eq!(falling.n_reordered.get(&1000), Some(&u64::from(n - 1000)));
    let zigzag: Vec<u32> = (0..n / 2).flat_map(|k| [n - 1 - k, k]).collect();
    assert_eq!(seqs(&zigzag).rd_fd.values().sum::<u64>(), u64::from(n));
}

#[test]
fn nothing() {
    let none = seqs(&[]);
    assert_eq!((none.ratio, none.density, none.rd_fd.len()), (None, None, 0));
}

/// A permutation of some of 0…n, made by sorting random keys.
fn stream() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec((0u32..40, prop::bool::weighted(0.85)), 0..60).prop_map(|keys| {
        let mut order: Vec<(u32, u32)> = (0..)
            .zip(keys)
            .filter(|(_, (_, kept))| *kept)
            .map(|(i, (late, _))| (i + late / 8 * (late % 8), i))
            .collect();
        order.sort_by_key(|o| o.0);
        order.into_iter().map(|o| o.1).collect()
    })
}

proptest! {
    #[test]
    fn equals_the_definitions(s in stream()) {
        let r = seqs(&s);
        let (mut extents, mut n_values, mut most, mut found) = (BTreeMap::new(), BTreeMap::new(), None, Vec::new());
        for i in 0..s.len() {
            let Some(j) = (0..i).find(|j| s[*j] > s[i]) else { continue };
            *extents.entry((i - j) as u64).or_insert(0) += 1;
            let n = s[..i].iter().rev().take_while(|x| **x > s[i]).count() as u64;
            for k in 1..=n {
                *n_values.entry(k).or_insert(0) += 1;
            }
            most = most.max(Some(s[..i].iter().filter(|x| **x > s[i]).count() as u64 * 100));
            found.push(j as u64);
        }
        found.sort_unstable();
        found.dedup();
        prop_assert_eq!(r.extent_hist, extents);
        prop_assert_eq!(r.n_reordered, n_values);
        prop_assert_eq!(r.max_byte_offset, most);
        prop_assert_eq!(r.gaps, found.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>());
    }

    /// Includes packets that arrive after more later packets than the buffer can store.
    #[test]
    fn occupancy_without_losses_is_that_of_places(s in stream(), late in 0u32..200) {
        let mut arrivals: Vec<u32> = (0..late).map(|k| 1000 + k).chain(s).collect();
        arrivals.push(999);
        let mut sorted = arrivals.clone();
        sorted.sort_unstable();
        let mut buffer = Occupancy::new(THRESHOLD, 0);
        arrivals.iter().for_each(|seq| buffer.push(sorted.binary_search(seq).unwrap() as u32));
        prop_assert_eq!(seqs(&arrivals).rbd_fb_loss_aware, buffer.histogram());
    }
}

#[test]
fn n_is_listed_up_to_1000() {
    // Three packets with n = 2000, one with n = 5.
    let listed = at_least(&BTreeMap::from([(0, 9), (5, 1), (2000, 3)]));
    let expected = (1..=5).map(|n| (n, 4)).chain((6..=1000).chain([2000]).map(|n| (n, 3)));
    assert_eq!(listed, expected.collect());
}

/// Counts in one pass with `limit`.
fn bounded(limit: usize, seqs: impl IntoIterator<Item = u32>) -> ReorderCounter {
    let mut counter = ReorderCounter::bounded(limit);
    for (arrived, seq) in (0..).zip(seqs) {
        counter.push(&AcceptedPacket { seq, sent: 0, delay: arrived });
    }
    counter
}

#[test]
fn discontinuities_beyond_the_limit_are_forgotten() {
    // Four stretches are stored: 10, four arrivals before, is the first packet sent after 5. With a fifth, 10 and
    // 20 are forgotten, and 30 counts as the first.
    for (seqs, extent) in [(vec![10, 20, 30, 40, 5], 4), (vec![10, 20, 30, 40, 50, 5], 3)] {
        let found = bounded(4, seqs).output();
        assert_eq!(found.extent_hist, BTreeMap::from([(extent, 1)]));
        assert_eq!(found.n_reordered, (1..=extent).map(|n| (n, 1)).collect());
        assert_eq!((found.max_late_time_ns, found.observable), (Some(extent as i64), true));
    }
    // Late packets are forgotten, too: 30 is preceded by one later packet, 31 by four, of which 34 to 38 are
    // still stored, and 20 by all seven, of which four are stored.
    let late = bounded(4, [100, 30, 32, 34, 36, 38, 31, 20]).output();
    assert_eq!(late.n_reordered, BTreeMap::from([(1, 3), (2, 2), (3, 2), (4, 1)]));
}

#[test]
fn memory_keeps_to_the_limit() {
    // Each swapped pair is a discontinuity. Those forgotten retain their gaps up to the limit of the list.
    let pairs = || (0..20_100).map(|k| k ^ 1);
    let (whole, kept) = (bounded(0, pairs()), bounded(4, pairs()));
    assert_eq!((whole.output(), kept.output().gaps.len()), (kept.output(), MAX_LISTED));
    assert_eq!((whole.maxima.len(), whole.reordered(), kept.reordered()), (10_050, 10_050, 10_050));
    assert!(kept.is_possible(20_100, 4));
    // Every other number after the largest, ascending: each begins a stretch, and none is in order.
    let late = bounded(4, [100_000].into_iter().chain((0..20_000).map(|k| 2 * k)));
    assert!(late.is_possible(20_001, 4) && late.ascent.len() <= 4);
    // Consecutive numbers are one stretch.
    let straight = bounded(0, 1..1000);
    assert_eq!((straight.maxima.len(), straight.ascent.len()), (1, 1));
}

fn push_all(counter: &mut ReorderCounter, from: usize, seqs: &[u32]) {
    for (arrived, &seq) in (from..).zip(seqs) {
        counter.push(&AcceptedPacket { seq, sent: 0, delay: arrived as i64 });
    }
}

#[test]
fn later_arrivals_are_added_to_those_before() {
    let mut seqs: Vec<u32> = (0..400).collect();
    for (from, to) in
        [(20, 22), (60, 62), (61, 66), (150, 152), (200, 206), (209, 211), (330, 335), (395, 397)]
    {
        seqs[from..to].rotate_left(1);
    }
    let part = |from: usize, marked: usize, to: usize| {
        let mut part = ReorderCounter::default();
        push_all(&mut part, from, &seqs[from..marked]);
        part.mark();
        push_all(&mut part, marked, &seqs[marked..to]);
        part
    };
    // The first part has arrivals up to `end`, the second those from `begin` on, so both have 40 arrivals.
    // The last packets are in order in one case and reordered in the other.
    for (begin, to) in (1..360).map(|begin| (begin, 400)).chain((1..340).map(|begin| (begin, 385))) {
        let end = begin + 40;
        let (mut mine, lead) = (part(0, 40.min(begin), end), part(begin, end, end));
        mine.join(part(begin, end, to), &lead);
        let whole = part(0, 40.min(begin), to);
        assert_eq!(mine.output(), whole.output(), "{begin}");
        assert_eq!(
            (mine.expected, mine.free_run, mine.marked_run),
            (whole.expected, whole.free_run, whole.marked_run),
            "{begin}"
        );
        assert_eq!((&mine.maxima, &mine.ascent), (&whole.maxima, &whole.ascent), "{begin}");
    }
}

#[test]
fn nothing_later_changes_nothing() {
    let mut mine = bounded(4, [0, 2, 1, 3]);
    let before = mine.output();
    mine.join(bounded(4, [5, 7, 6]), &bounded(4, [5, 7, 6]));
    assert_eq!(mine.output(), before);
}

#[test]
fn later_arrivals_keep_to_the_limit() {
    // Swapped pairs, with four stretches stored for either part.
    let pairs: Vec<u32> = (0..400).map(|k| k ^ 1).collect();
    let of = |from: usize, to: usize| {
        let mut part = ReorderCounter::bounded(4);
        push_all(&mut part, from, &pairs[from..to]);
        part
    };
    for (begin, end) in [(100, 140), (101, 140), (100, 300), (390, 396)] {
        let mut mine = of(0, end);
        mine.join(of(begin, 400), &of(begin, end));
        let whole = of(0, 400);
        assert_eq!(mine.output(), whole.output(), "{begin} {end}");
        assert!(mine.is_possible(400, 4), "{begin} {end}");
        assert_eq!(mine.ascent, whole.ascent, "{begin} {end}");
    }
}

#[test]
fn a_state_has_nothing_beyond_its_packets() {
    let stretch = |seq, index, len| ArrivalRun { seq, index, len, arrived: 0, overtook: false };
    let valid = ReorderCounter {
        arrivals: 20,
        limit: 4,
        expected: Some(31),
        maxima: vec![stretch(10, 6, 5), stretch(15, 11, 2)],
        ascent: vec![stretch(8, 5, 1), stretch(15, 11, 2)],
        reordered: 3,
        extents: BTreeMap::from([(1, 2), (4, 1)]).into(),
        n_values: BTreeMap::from([(2, 3)]).into(),
        positions: vec![2, 4],
        forgotten: 3,
        ..ReorderCounter::default()
    };
    assert!(valid.is_possible(20, 4) && !valid.is_possible(19, 4) && !valid.is_possible(21, 4));
    assert!(!valid.is_possible(20, 3) && !valid.is_possible(20, 5));
    let found = |changes: &[&dyn Fn(&mut ReorderCounter)]| {
        let with = |change: &&dyn Fn(&mut ReorderCounter)| {
            let mut changed = valid.clone();
            change(&mut changed);
            changed.is_possible(20, 4)
        };
        changes.iter().map(with).collect::<Vec<_>>()
    };
    let possible = found(&[
        &|o| (o.maxima, o.ascent) = (vec![], vec![]),
        &|o| o.maxima[1] = stretch((1 << 32) - 2, 11, 2),
        &|o| o.maxima[1] = stretch(15, 18, 2),
        &|o| o.ascent = (6..10).map(|k| stretch(k, k, 1)).collect(),
        &|o| o.forgotten = 5,
        &|o| o.positions = vec![6; MAX_LISTED + 1],
        &|o| (o.reordered, o.free_run, o.free_runs) = (20, 20, 20),
        &|o| o.expected = Some(1 << 32),
        &|o| o.expected = None,
    ]);
    assert_eq!(possible, [true; 9]);
    let impossible = found(&[
        &|o| o.maxima = (6..11).map(|k| stretch(k, k, 1)).collect(),
        &|o| o.ascent = (6..11).map(|k| stretch(k, k, 1)).collect(),
        &|o| o.maxima[1].len = 0,
        &|o| o.maxima[1] = stretch((1 << 32) - 1, 11, 2),
        &|o| o.maxima[1] = stretch(u64::MAX, 11, 2),
        &|o| o.maxima[1] = stretch(15, 19, 2),
        &|o| o.maxima[1] = stretch(14, 11, 2),
        &|o| o.maxima[1] = stretch(15, 10, 2),
        &|o| o.ascent[1] = stretch(8, 11, 2),
        &|o| o.forgotten = 6,
        &|o| o.positions = vec![4, 2],
        &|o| o.positions = vec![2, 7],
        &|o| o.positions = vec![6; MAX_LISTED + 2],
        &|o| o.reordered = 21,
        &|o| o.free_run = 21,
        &|o| o.free_runs = 21,
        &|o| o.reordered = 2,
        &|o| o.extents = BTreeMap::from([(1, 4)]).into(),
        &|o| o.n_values = BTreeMap::from([(1, 4)]).into(),
        &|o| o.expected = Some((1 << 32) + 1),
    ]);
    assert_eq!(impossible, [false; 20]);
}

#[test]
fn as_many_gaps_are_listed_of_parts_as_of_the_whole() {
    let pairs: Vec<u32> = (0..24_000).map(|k| k ^ 1).collect();
    let of = |from: usize, to: usize| {
        let mut part = ReorderCounter::bounded(4);
        push_all(&mut part, from, &pairs[from..to]);
        part
    };
    let (mut mine, lead) = (of(0, 3000), of(2000, 3000));
    mine.join(of(2000, 24_000), &lead);
    assert_eq!(mine.positions, of(0, 24_000).positions);
    assert_eq!(mine.output().gaps.len(), MAX_LISTED);
}

#[test]
fn what_later_arrivals_made_forget_is_forgotten() {
    // Every other number below 1000, ascending: none is in order, and each begins a stretch.
    let seqs: Vec<u32> = (0..100).chain([1000]).chain((0..20).map(|k| 200 + 2 * k)).chain([150]).collect();
    let of = |from: usize, to: usize| {
        let mut part = ReorderCounter::bounded(4);
        push_all(&mut part, from, &seqs[from..to.min(100)]);
        part.mark();
        push_all(&mut part, 100, &seqs[to.min(100)..to]);
        part
    };
    let (mut mine, lead, whole) = (of(0, 100), of(90, 100), of(0, seqs.len()));
    mine.join(of(90, seqs.len()), &lead);
    assert!(whole.forgotten > 100);
    assert_eq!((mine.forgotten, &mine.ascent), (whole.forgotten, &whole.ascent));
    assert_eq!(mine.output(), whole.output());
}

#[test]
fn shares_and_densities_of_a_short_test() {
    let found = seqs(&[1, 2, 4, 3]);
    assert_eq!((found.ratio, found.in_order), (Some(0.25), 3));
    assert_eq!(found.rd_fd, BTreeMap::from([(-1, 1), (0, 2), (1, 1)]));
    // Packet 0 is lost and fills the buffer, unless losses are known.
    assert_eq!(found.rbd_fb_bt128, BTreeMap::from([(1, 1), (2, 1), (3, 1), (4, 1)]));
    assert_eq!(found.rbd_fb_loss_aware, BTreeMap::from([(0, 3), (1, 1)]));
    let in_order = seqs(&[1, 2, 4]);
    assert_eq!((in_order.ratio, in_order.rd_fd), (Some(0.0), BTreeMap::from([(0, 3)])));
    assert_eq!(in_order.rbd_fb_loss_aware, BTreeMap::from([(0, 3)]));
}
