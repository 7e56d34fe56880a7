use super::*;

#[test]
fn a_staircase_is_found_with_its_overhead() {
    // metrics V28, by UDP payload, with 96 bytes of overhead.
    let points: Vec<_> = (40..=640)
        .step_by(4)
        .map(|x: u64| (x, (7.5 + 4.140625 * ((x + 96) as f64 / 48.0).ceil()) * 1e6))
        .collect();
    let f = fit(&points, 28).unwrap();
    assert_eq!(f.steps, Some((48, 0)));
    assert!((f.slope_ns - 4_140_625.0).abs() < 1e-3 && (f.fixed_ns - 15_781_250.0).abs() < 1e-3, "{f:?}");
    assert!((f.series_rate - 102_400.0).abs() < 0.1, "1/(1/128k + 1/512k)");
    // The same points by IP length identify the encapsulation.
    let points: Vec<_> = points.iter().map(|p| (p.0 + 28, p.1)).collect();
    let f = fit(&points, 28).unwrap();
    // Sizes four bytes apart leave the edge uncertain by four bytes.
    assert_eq!(f.steps.map(|s| s.0), Some(48));
    assert!((17..=20).contains(&f.steps.unwrap().1));
    assert_eq!(f.encapsulations, ["pppoe-llc"]);
}

#[test]
fn four_sizes_are_enough_where_cells_explain_them() {
    // Smallest round trips of a payload sweep over simulated cells, in ms, by IP length.
    let sweep = [(68, 17.84), (368, 46.80), (668, 71.70), (1268, 121.35)].map(|(l, ms)| (l, ms * 1e6));
    let f = fit(&sweep, 28).unwrap();
    assert!(f.cells_assumed && f.coarse && f.steps.is_some_and(|s| s.0 == 48), "{f:?}");
    assert!((f.series_rate - 102_400.0).abs() < 100.0, "{f:?}");
    assert!(f.encapsulations.iter().any(|e| e == "pppoe-llc"), "{f:?}");
    // Values published in the article on access links (see docs/seeds.md): further hops cost 1.55 µs per byte, so the
    // rate in series is lower.
    let printed = [(68, 17.84), (368, 46.99), (668, 72.52), (968, 97.66), (1268, 123.19)];
    let f = fit(&printed.map(|(l, ms)| (l, ms * 1e6)), 28).unwrap();
    assert!(f.cells_assumed && (f.series_rate - 100_600.0).abs() < 300.0, "{f:?}");
    // A slightly noisy line of the same mean rate has no steps.
    let line = sweep.map(|(l, _)| (l, 10e6 + 86_200.0 * l as f64 + (l % 7) as f64 * 20_000.0));
    let f = fit(&line, 28).unwrap();
    assert!(f.steps.is_none() && f.coarse && !f.cells_assumed, "{f:?}");
    // Noise as large as a cell has no steps either.
    let noisy = sweep.map(|(l, ms)| (l, ms + if l % 200 == 68 { 3e6 } else { 0.0 }));
    assert!(fit(&noisy, 28).unwrap().steps.is_none());
}

#[test]
fn a_straight_line_stays_one() {
    let points: Vec<_> =
        (40..1400).step_by(20).map(|x| (x, 5e6 + 800.0 * x as f64 + (x % 7) as f64)).collect();
    let f = fit(&points, 0).unwrap();
    assert!(f.steps.is_none() && !f.coarse && (f.slope_ns - 800.0).abs() < 1.0, "{f:?}");
    assert_eq!(fit(&points[..3], 0), None);
    assert_eq!(fit(&[(5, 1.0); 9], 0), None);
}

/// Round trips of packets with these sizes and `overhead` that grow by 1 ns per cell.
fn cells_of(sizes: impl Iterator<Item = u64>, overhead: u64) -> Vec<(u64, f64)> {
    sizes.map(|l| (l, (l + overhead).div_ceil(48) as f64)).collect()
}

#[test]
fn of_steps_that_explain_as_much_those_nearest_to_a_cell_are_taken() {
    // Sizes 24 bytes apart fit steps of 47 or 49 bytes just as well, and overheads from 0 to 23.
    let exact = cells_of((24..=288).step_by(24), 0);
    assert_eq!(fit(&exact, 0).unwrap().steps, Some((48, 0)));
    // 4.14 ms per cell, with errors of ±0.1 ms.
    let off = |k: usize| if k.is_multiple_of(3) { 1e5 } else { -1e5 };
    let noisy: Vec<_> = exact.iter().enumerate().map(|(k, p)| (p.0, 4.14e6 * p.1 + off(k))).collect();
    assert_eq!(fit(&noisy, 0).unwrap().steps, Some((48, 0)));
}

#[test]
fn a_staircase_has_three_steps_at_least() {
    // With 20 bytes of overhead (these sizes leave 17 to 20 possible), 40 bytes need two cells, 172 four and
    // 176 five.
    let of_steps = |most: u64| fit(&cells_of((40..=most).step_by(4), 20), 0).unwrap().steps;
    assert_eq!(of_steps(172), None);
    assert_eq!(of_steps(176), Some((48, 17)));
}

#[test]
fn a_line_is_given_up_where_it_would_leave_so_much_once_in_a_thousand_times() {
    // (stairs/line)^((n − 4)/2)
    assert_eq!(chance(4.0, 1.0, 8), 1.0 / 16.0);
    assert_eq!(chance(100.0, 1.0, 6), 0.01);
    assert_eq!(chance(3.0, 1.0, 4), 1.0, "no freedom is left");
    assert_eq!(chance(2.0, 2.0, 20), 1.0);
    assert_eq!(chance(1.0, 2.0, 6), 2.0);
    assert_eq!(chance(0.0, 0.0, 20), 1.0, "both are exact");
}

#[test]
fn few_sizes_and_sizes_more_than_half_a_cell_apart_are_coarse() {
    let line = |sizes: &[u64]| {
        fit(&sizes.iter().map(|l| (*l, 1000.0 * *l as f64)).collect::<Vec<_>>(), 0).unwrap().coarse
    };
    let apart = |n: u64, gap: u64| line(&(0..n).map(|k| 40 + gap * k).collect::<Vec<_>>());
    assert_eq!((apart(7, 10), apart(8, 10)), (true, false));
    assert_eq!((apart(9, 24), apart(9, 25)), (false, true));
    // The median of the distances decides.
    assert!(line(&[40, 50, 60, 160, 260, 360, 460, 560, 660]));
    assert!(!line(&[40, 50, 60, 70, 80, 90, 190, 290, 390]));
}

#[test]
fn what_is_found_is_not_assumed() {
    // Sizes 52 bytes apart are coarse, but still show cells.
    let f = fit(&cells_of((40..1000).step_by(52), 16), 0).unwrap();
    assert!(f.coarse && !f.cells_assumed, "{f:?}");
    assert_eq!(f.steps.map(|s| s.0), Some(48));
}

#[test]
fn cells_are_not_assumed_where_a_line_leaves_nothing() {
    // Each size is 50 bytes larger than the one before and needs one more cell.
    let f = fit(&cells_of((40..1000).step_by(50), 16), 0).unwrap();
    assert!(f.steps.is_none() && !f.cells_assumed && (f.slope_ns - 1.0 / 50.0).abs() < 1e-12, "{f:?}");
}

#[test]
fn cells_are_assumed_only_of_sizes_that_span_three() {
    // With the 16 bytes of routed packets over LLC: 1, 2 and 3 cells; the last size needs 3 or 4.
    let steps = |most: u64| fit(&cells_of([26, 33, 100, most].into_iter(), 16), 0).unwrap();
    assert_eq!(steps(128).steps, None);
    let f = steps(129);
    assert!(f.cells_assumed, "{f:?}");
    assert_eq!(f.steps, Some((48, 16)));
    assert_eq!(f.encapsulations, ["ipoa-llc"]);
}

#[test]
fn of_a_line_there_are_its_rate_and_what_it_leaves() {
    // 5 ms plus 800 ns per byte, with errors of ±1 µs that change neither.
    let points: Vec<_> = [1000.0, -1000.0, -1000.0, 1000.0]
        .iter()
        .enumerate()
        .map(|(k, off)| (100 + 100 * k as u64, 5e6 + 800.0 * (100.0 + 100.0 * k as f64) + off))
        .collect();
    let f = fit(&points, 0).unwrap();
    assert!(
        f.steps.is_none() && (f.fixed_ns - 5e6).abs() < 1e-6 && (f.slope_ns - 800.0).abs() < 1e-6,
        "{f:?}"
    );
    assert!((f.residual_ns - 1000.0).abs() < 1e-6 && (f.series_rate - 1e7).abs() < 1e-6, "{f:?}");
    // Two degrees of freedom: t = 4.303, and the slope's standard error is √(2·10⁶/5·10⁴) = 6.32 ns.
    let [low, high] = f.series_rate_ci95.unwrap();
    assert!((low - 8e9 / 827.21).abs() < 100.0 && (high - 8e9 / 772.79).abs() < 100.0, "{f:?}");
    let flat: Vec<_> = points.iter().map(|(l, t)| (*l, t - 790.0 * *l as f64)).collect();
    assert_eq!(fit(&flat, 0).unwrap().series_rate_ci95, None, "the slope may be 0");
}

#[test]
fn of_steps_that_are_no_cells_there_are_their_rate_and_what_they_leave() {
    // 1 ms per 40 bytes; errors of ±1 µs around the middle of each step cancel out.
    let points: Vec<_> = (0..20u64)
        .flat_map(|k| {
            [(40 * k + 1, k, 1e3), (40 * k + 20, k, -1e3), (40 * k + 21, k, -1e3), (40 * k + 40, k, 1e3)]
        })
        .map(|(l, k, off)| (l, 1e6 * (k + 1) as f64 + off))
        .collect();
    let f = fit(&points, 0).unwrap();
    assert_eq!((f.steps, f.encapsulations.len()), (Some((40, 0)), 0));
    assert!((f.slope_ns - 1e6).abs() < 1e-3 && (f.residual_ns - 1e3).abs() < 1e-3, "{f:?}");
    assert!((f.series_rate - 320e3).abs() < 1e-3, "320 bits a millisecond: {f:?}");
    let [low, high] = f.series_rate_ci95.unwrap();
    assert!(low < 320e3 && high > 320e3 && high - low < 100.0, "{f:?}");
}

/// Round trips over steps of 4.14 ms with this overhead, of these sizes, with errors of up to ±`error` ns.
fn measured(sizes: impl Iterator<Item = u64>, overhead: u64, error: f64) -> Vec<(u64, f64)> {
    let mut state = 12_345u64;
    let mut unit = || {
        state = state * 48_271 % 2_147_483_647;
        state as f64 / 2_147_483_647.0
    };
    let rtt = |l: u64| 7.5e6 + 4_140_625.0 * (l + overhead).div_ceil(48) as f64;
    sizes.map(|l| (l, rtt(l) + error * (2.0 * unit() - 1.0))).collect()
}

#[test]
fn the_true_overhead_is_found_or_named_among_those_that_fit() {
    for overhead in [20, 12, 24, 0, 47] {
        for error in [0.0, 100_000.0, 600_000.0] {
            let found = |sizes: &mut dyn Iterator<Item = u64>| {
                fit(&measured(sizes, overhead, error), 28).unwrap().overheads
            };
            assert_eq!(found(&mut (60..204)), [overhead], "every size, error {error}");
            let fours = found(&mut (60..444).step_by(4));
            assert!(fours.contains(&overhead) && fours.len() == 4, "{overhead} in {fours:?}, error {error}");
            let eights = found(&mut (60..700).step_by(8));
            assert!(
                eights.contains(&overhead) && eights.len() == 8,
                "{overhead} in {eights:?}, error {error}"
            );
        }
        let four_sizes = fit(&measured([68, 368, 668, 1268].into_iter(), overhead, 30_000.0), 28).unwrap();
        if four_sizes.steps.is_some() {
            assert!(four_sizes.overheads.contains(&overhead), "{overhead} in {:?}", four_sizes.overheads);
        }
    }
}
