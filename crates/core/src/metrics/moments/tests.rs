use super::*;
use proptest::prelude::*;

#[test]
fn small_table() {
    // metrics §2, V4.
    let values = [42000, 43100, 56000, 57200, 56100, 68400, 68300, 74500, 90000, 222000, 300000];
    let m: Moments = values.into_iter().collect();
    assert!((m.mean().unwrap() - 97_963.636_363_636).abs() < 1e-6);
    assert!((m.stddev().unwrap() - 83_599.488_91).abs() < 1e-4);
    assert!((m.stddev_pop().unwrap() - 79_708.985_16).abs() < 1e-4);
}

#[test]
fn a_clock_offset_costs_no_digit() {
    let plain: Moments = (0..1000).map(|i| i * i % 977).collect();
    let offset: Moments = (0..1000).map(|i| 1_000_000_000_000_000_000 + i * i % 977).collect();
    assert_eq!(plain.stddev(), offset.stddev());
}

#[test]
fn absurd_values_neither_panic_nor_vanish() {
    let m: Moments = [i64::MIN, i64::MAX, 0].into_iter().collect();
    assert!((m.stddev().unwrap() / 9.223_372_036_854_775e18 - 1.0).abs() < 1e-9);
    let mut half: Moments = [i64::MIN].into_iter().collect();
    half.merge([i64::MAX, 0].into_iter().collect());
    assert!((half.stddev().unwrap() / m.stddev().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn extremes_and_means() {
    let none = Moments::default();
    assert_eq!((none.min(), none.max(), none.mean(), none.stddev_pop()), (None, None, None, None));
    let m: Moments = [7, 3, 9, 4].into_iter().collect();
    assert_eq!((m.n(), m.min(), m.max()), (4, Some(3), Some(9)));
    assert_eq!((m.mean(), m.mean_above(2)), (Some(5.75), Some(3.75)));
    assert_eq!([7].into_iter().collect::<Moments>().stddev(), None);
    let mut chunked = Moments::default();
    chunked.add_all(&[5]);
    chunked.add_all(&[3, 9]);
    chunked.add_all(&[5 + (1 << 26), 4]);
    chunked.add_all(&[5 - (1 << 26), 5 - (1 << 26) - 1]);
    let one_by_one = [5, 3, 9, 5 + (1 << 26), 4, 5 - (1 << 26), 5 - (1 << 26) - 1];
    assert_eq!(chunked, one_by_one.into_iter().collect());
}

#[test]
fn sums_beyond_128_bits_are_kept_to_double_precision() {
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    let mut sum = ExactSum::default();
    sum.add(i128::MAX);
    sum.add(i128::MAX);
    assert_eq!(sum.exact(), None);
    near(sum.value(), 2.0 * i128::MAX as f64);
    sum.add_product(i128::MAX, 3);
    sum.add_product(3, 4);
    near(sum.value(), 5.0 * i128::MAX as f64);
    let mut both = sum;
    both.merge(sum);
    near(both.value(), 10.0 * i128::MAX as f64);
    let mut small = ExactSum::default();
    small.add_product(-3, 4);
    assert_eq!(small.exact(), Some(-12));
}

#[test]
fn absurd_values_merge_as_they_add() {
    let (a, b) = ([i64::MIN, i64::MIN + 5, -7], [i64::MAX, 3, i64::MAX - 9, 12]);
    let values = || a.into_iter().chain(b);
    let (mut halves, whole): (Moments, Moments) = (a.into_iter().collect(), values().collect());
    halves.merge(b.into_iter().collect());
    let near = |x: Option<f64>, y: Option<f64>| {
        let (x, y) = (x.unwrap(), y.unwrap());
        assert!((x - y).abs() <= 1e-9 * y.abs(), "{x} {y}");
    };
    near(halves.mean_above(i64::MIN), whole.mean_above(i64::MIN));
    near(halves.stddev(), whole.stddev());
    let n = values().count() as f64;
    let mean = values().map(|x| x as f64).sum::<f64>() / n;
    near(whole.stddev_pop(), Some((values().map(|x| (x as f64 - mean).powi(2)).sum::<f64>() / n).sqrt()));
    // Many values, so that the sums exceed 128 bits.
    let many = |origin: i64| {
        let mut m: Moments = [origin].into_iter().collect();
        (0..40).for_each(|_| m.merge(m));
        m
    };
    let (mut low, high) = (many(i64::MIN), many(i64::MAX));
    low.merge(high);
    near(low.stddev_pop(), Some(i64::MAX as f64));
    near(low.mean_above(i64::MIN), Some(i64::MAX as f64));
    let mut again = low;
    again.merge(low);
    near(again.stddev_pop(), Some(i64::MAX as f64));
    assert_eq!((again.n(), again.min(), again.max()), (1 << 42, Some(i64::MIN), Some(i64::MAX)));
}

#[test]
fn lines_need_two_times() {
    assert_eq!(packets(&[(5, 1)]).output(), (None, None));
    assert_eq!(packets(&[(5, 1), (5, 9)]).on_send(), None);
    let line = packets(&[(105, 3), (100, 1)]).on_send().unwrap();
    assert_eq!((line.m, line.r, line.mean_x, line.origin_y, line.mean_y), (0.4, Some(1.0), 2.5, 3, -1.0));
    let line = packets(&[(100, 1), (105, 3)]).on_arrival().unwrap();
    assert_eq!((line.m, line.mean_x), (2.0 / 7.0, 3.5));
    assert_eq!(packets(&[(100, 1), (105, 1)]).on_send().unwrap().r, None);
}

#[test]
fn absurd_times_and_delays_merge_as_they_add() {
    let rows = [(i64::MIN, i64::MAX), (0, i64::MIN), (i64::MAX, 5), (7, -9), (i64::MAX - 4, i64::MIN + 1)];
    let whole = packets(&rows).on_send().unwrap();
    let n = rows.len() as f64;
    let mean = |f: fn(&(i64, i64)) -> i64| rows.iter().map(|r| f(r) as f64).sum::<f64>() / n;
    let (mx, my) = (mean(|r| r.0), mean(|r| r.1));
    let sxx: f64 = rows.iter().map(|r| (r.0 as f64 - mx).powi(2)).sum();
    let sxy: f64 = rows.iter().map(|r| (r.0 as f64 - mx) * (r.1 as f64 - my)).sum();
    assert!((whole.m / (sxy / sxx) - 1.0).abs() < 1e-9, "{} {}", whole.m, sxy / sxx);
    for cut in 1..rows.len() {
        let mut halves = packets(&rows[..cut]);
        halves.merge(packets(&rows[cut..]));
        let line = halves.on_send().unwrap();
        assert!(
            (line.m / whole.m - 1.0).abs() < 1e-9 && (line.sxx / whole.sxx - 1.0).abs() < 1e-9,
            "{line:?}"
        );
        assert!((line.r.unwrap() / whole.r.unwrap() - 1.0).abs() < 1e-9, "{line:?}");
        assert!((line.mean_y / whole.mean_y - 1.0).abs() < 1e-9, "{line:?} {whole:?}");
    }
    // Many values, so that the cross sums exceed 128 bits.
    let many = |row| {
        let mut sums = packets(&[row]);
        (0..40).for_each(|_| sums.merge(sums));
        sums
    };
    let mut sums = many((i64::MIN, i64::MIN));
    sums.merge(many((i64::MAX, i64::MAX)));
    let line = sums.on_send().unwrap();
    assert!((line.m - 1.0).abs() < 1e-9 && (line.r.unwrap() - 1.0).abs() < 1e-9, "{line:?}");
    assert_eq!(sums.n(), 1 << 41);
}

fn packets(rows: &[(i64, i64)]) -> CoMoments {
    let mut sums = CoMoments::default();
    for (seq, &(sent, delay)) in (0..).zip(rows) {
        sums.push(&AcceptedPacket { seq, sent, delay });
    }
    sums
}

proptest! {
    #[test]
    fn halves_merge_to_the_whole(
        rows in prop::collection::vec((-1i64 << 50..1 << 50, -1i64 << 50..1 << 50), 0..60),
        cut in 0usize..60,
    ) {
        let mut all = Moments::default();
        all.add_all(&rows.iter().map(|r| r.1 >> 20).collect::<Vec<_>>());
        prop_assert_eq!(all, rows.iter().map(|r| r.1 >> 20).collect::<Moments>());
        let cut = cut.min(rows.len());
        let mut sums = packets(&rows[..cut]);
        sums.merge(packets(&rows[cut..]));
        prop_assert_eq!(sums.output(), packets(&rows).output());
        let delays = |r: &[(i64, i64)]| r.iter().map(|x| x.1).collect::<Moments>();
        let mut moments = delays(&rows[..cut]);
        moments.merge(delays(&rows[cut..]));
        prop_assert_eq!(moments, delays(&rows));
    }

    #[test]
    fn regression_equals_two_passes(
        rows in prop::collection::vec((0i64..1 << 40, -1i64 << 30..1 << 30), 3..60),
    ) {
        prop_assume!(rows.iter().any(|r| r.0 != rows[0].0));
        let line = packets(&rows).on_send().unwrap();
        let n = rows.len() as f64;
        let (mx, my) = (rows.iter().map(|r| r.0 as f64).sum::<f64>() / n, rows.iter().map(|r| r.1 as f64).sum::<f64>() / n);
        let sxx: f64 = rows.iter().map(|r| (r.0 as f64 - mx).powi(2)).sum();
        let sxy: f64 = rows.iter().map(|r| (r.0 as f64 - mx) * (r.1 as f64 - my)).sum();
        prop_assert!((line.m - sxy / sxx).abs() <= 1e-9 * (1.0 + line.m.abs()));
    }
}

#[test]
fn chunks_with_one_value_far_off() {
    // Differences whose squares exceed the sum of a chunk; above, below, and all of them negative.
    for far in [1i64 << 45, -(1 << 45), -8] {
        let mut values = vec![-7; 1536];
        values[1000] = far;
        let mut chunks = Moments::default();
        chunks.add_all(&values);
        assert_eq!(chunks, values.iter().copied().collect());
        assert_eq!((chunks.min(), chunks.max()), (Some(far.min(-7)), Some(far.max(-7))));
    }
}

#[test]
fn later_values_are_added_to_those_before() {
    let (a, lead, later) = ([70, 30, 90], [55, 20, 91], [10, 95, 44, -3]);
    let of = |values: &[i64]| values.iter().copied().collect::<Moments>();
    let mut mine = of(&a);
    mine.join(of(&[lead, [later[0], later[1], later[2]]].concat()), &of(&lead));
    let whole = of(&[70, 30, 90, 10, 95, 44]);
    // The extremes are those of all values of either.
    assert_eq!((mine.n(), mine.min(), mine.max()), (6, Some(10), Some(95)));
    assert_eq!((mine.mean(), mine.stddev()), (whole.mean(), whole.stddev()));
    let row = |k: &i64| (k * 3, k * k % 17);
    let of = |values: &[i64]| packets(&values.iter().map(row).collect::<Vec<_>>());
    let mut mine = of(&a);
    mine.join(of(&[&lead[..], &later].concat()), &of(&lead));
    assert_eq!(mine.n(), 7);
    assert_eq!(mine.output(), of(&[&a[..], &later].concat()).output());
}

#[test]
fn a_state_has_nothing_beyond_its_values() {
    let valid: Moments = [3, 9].into_iter().collect();
    assert!(valid.is_possible(2) && !valid.is_possible(1) && !valid.is_possible(3));
    let sum = |exact, spilt| ExactSum { exact, spilt };
    assert!(Moments { sum: sum(2 << 65, 0.0), ..valid }.is_possible(2));
    assert!(Moments { sum: sum(-2 << 65, 0.0), ..valid }.is_possible(2));
    assert!(!Moments { sum: sum((2 << 65) + 1, 0.0), ..valid }.is_possible(2));
    assert!(!Moments { sum: sum(1, 0.5), ..valid }.is_possible(2));
    assert!(Moments { squares: sum(1, 0.5), ..valid }.is_possible(2));
    assert!(!Moments { squares: sum(1, f64::INFINITY), ..valid }.is_possible(2));
    assert!(
        Moments { min: 4, max: 4, ..valid }.is_possible(2)
            && !Moments { min: 5, max: 4, ..valid }.is_possible(2)
    );
    let valid = packets(&[(1, 2), (3, 4)]);
    assert!(valid.is_possible(2) && !valid.is_possible(1) && !valid.is_possible(3));
    let (far, endless) = (sum((2 << 65) + 1, 0.0), sum(1, f64::INFINITY));
    for impossible in [
        CoMoments { t: far, ..valid },
        CoMoments { d: far, ..valid },
        CoMoments { tt: endless, ..valid },
        CoMoments { td: endless, ..valid },
        CoMoments { dd: endless, ..valid },
    ] {
        assert!(!impossible.is_possible(2), "{impossible:?}");
    }
}

#[test]
fn absurd_values_are_added_to_those_before() {
    let of = |values: &[i64]| values.iter().copied().collect::<Moments>();
    let (lead, later) = ([i64::MIN, i64::MAX, 5], [i64::MAX, 3]);
    let mut mine = of(&[0, 8]);
    mine.join(of(&[&lead[..], &later].concat()), &of(&lead));
    let whole = of(&[0, 8, i64::MAX, 3]);
    assert!((mine.stddev().unwrap() / whole.stddev().unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(mine.mean(), whole.mean());
}

#[test]
fn delays_are_the_values_of_packets() {
    let of = |delays: &[i64]| {
        let mut moments = Moments::default();
        delays
            .iter()
            .for_each(|&delay| OnePass::push(&mut moments, &AcceptedPacket { seq: 0, sent: 0, delay }));
        moments
    };
    let mut halves = of(&[3, 9]);
    Merge::merge(&mut halves, of(&[12]));
    assert_eq!(halves.output(), [3, 9, 12].into_iter().collect());
}

proptest! {
    #[test]
    fn chunks_are_added_as_their_packets(
        rows in prop::collection::vec((prop_oneof![0i64..1 << 40, any::<i64>()], prop_oneof![-50i64..1 << 30, any::<i64>()]), 0..40),
        near in prop::collection::vec((0i64..1 << 45, -1i64 << 20..1 << 34), 0..1600),
        cut in 0usize..1600,
    ) {
        let all: Vec<(i64, i64)> = near.iter().copied().chain(rows).collect();
        let (sent, delay): (Vec<i64>, Vec<i64>) = all.iter().copied().unzip();
        let (mut chunked, mut one_by_one) = (CoMoments::default(), CoMoments::default());
        all.iter().for_each(|&(sent, delay)| one_by_one.push(&AcceptedPacket { seq: 0, sent, delay }));
        let cut = cut.min(all.len());
        let extremes = [
            chunked.add_all(&sent[..cut], &delay[..cut]),
            chunked.add_all(&sent[cut..], &delay[cut..]),
        ];
        prop_assert_eq!(chunked, one_by_one);
        let of = |values: &[i64]| Some([*values.iter().min()?, *values.iter().max()?]);
        prop_assert_eq!(extremes[0].map(|e| (e.sent, e.delay)), of(&sent[..cut]).zip(of(&delay[..cut])));
        let mut moments = Moments::default();
        moments.add_all(&delay[..cut]);
        moments.add_all(&delay[cut..]);
        prop_assert_eq!(moments, delay.iter().copied().collect::<Moments>());
        if let Some(extremes) = of(&delay) {
            prop_assert_eq!(one_by_one.of_delay(extremes), moments);
        }
    }
}
