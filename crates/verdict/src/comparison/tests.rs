use super::*;
use crate::compare::comparison::{Basis, ComparedQuantity, Difference, Precondition, Statistic, Unlike};
use jitlat_core::answer::Level;

/// B is slower than A by 1 us, significantly and with a large effect.
fn slower() -> Comparison {
    Comparison {
        a: "A".into(),
        b: "B".into(),
        basis: Basis::default(),
        n: [100, 100],
        unlike: Vec::new(),
        median: Some(Difference { change: 1000.0, ci95: Some([500.0, 1500.0]) }),
        p99: None,
        loss: None,
        cliffs_delta: Some(0.5),
        cliffs_delta_error: Some(0.0),
        effect: Some(Effect::Large),
        shift: None,
        tail: None,
        compared: Vec::new(),
        confidence: 0.95,
        floor: 0.0,
        tests: None,
        statistic: Statistic::Median,
        outcome: ComparisonOutcome::Different,
        because: "the reason".into(),
    }
}

/// Jitter at the median that B has 1 us more of; the margin is 100 ns.
fn jitter() -> ComparedFigure {
    ComparedFigure {
        quantity: ComparedQuantity::Jitter,
        statistic: Some(Statistic::Median),
        change: 1000.0,
        interval: Some([500.0, 1500.0]),
        floor: 0.0,
        margin: 100.0,
        outcome: ComparisonOutcome::Undecided,
    }
}

fn concluded(figure: ComparedFigure) -> ComparedFigure {
    ComparedFigure { outcome: conclude(&figure), ..figure }
}

fn decided(change: impl FnOnce(&mut Comparison, &mut ComparedFigure)) -> (ComparisonOutcome, String) {
    let (mut comparison, mut figure) = (slower(), jitter());
    change(&mut comparison, &mut figure);
    let figure = concluded(figure);
    decide(&comparison, Some(&figure))
}

#[test]
fn the_same_needs_an_interval_within_the_margin_and_a_difference_one_without_0() {
    let of = |low, high| conclude(&ComparedFigure { interval: Some([low, high]), ..jitter() });
    assert_eq!(of(0.0, 200.0), ComparisonOutcome::Undecided);
    assert_eq!(of(-200.0, 0.0), ComparisonOutcome::Undecided);
    assert_eq!(of(1.0, 200.0), ComparisonOutcome::Different);
    assert_eq!(of(-200.0, -1.0), ComparisonOutcome::Different);
    assert_eq!(of(-100.0, 100.0), ComparisonOutcome::Same);
    assert_eq!(of(-100.1, 100.0), ComparisonOutcome::Undecided);
    assert_eq!(of(10.0, 20.0), ComparisonOutcome::Same, "certain, but smaller than the margin");
    let loss = |low, high| {
        let loss =
            ComparedFigure { quantity: ComparedQuantity::Loss, statistic: None, margin: 0.005, ..jitter() };
        conclude(&ComparedFigure { interval: Some([low, high]), ..loss })
    };
    assert_eq!(loss(-0.004, 0.004), ComparisonOutcome::Same);
    assert_eq!(loss(-0.004, 0.006), ComparisonOutcome::Undecided);
    assert_eq!(
        loss(0.001, 0.002),
        ComparisonOutcome::Different,
        "a certain loss is reported whatever its size"
    );
    assert_eq!(conclude(&ComparedFigure { interval: None, ..jitter() }), ComparisonOutcome::Undecided);
}

#[test]
fn the_error_of_the_measurement_widens_the_interval() {
    let of = |floor| decided(|_, figure| figure.floor = floor);
    assert_eq!(of(499.0).0, ComparisonOutcome::Different);
    let within = of(500.0);
    assert_eq!(within.0, ComparisonOutcome::Undecided);
    assert_eq!(within.1, "the change is smaller than the error of the measurements");
    let same = |floor| conclude(&ComparedFigure { interval: Some([-50.0, 60.0]), floor, ..jitter() });
    assert_eq!((same(40.0), same(41.0)), (ComparisonOutcome::Same, ComparisonOutcome::Undecided));
    let unknown = decided(|c, figure| (c.floor, figure.floor) = (f64::INFINITY, f64::INFINITY));
    assert_eq!(unknown.0, ComparisonOutcome::Undecided);
    assert!(unknown.1.contains("clock"), "{}", unknown.1);
}

#[test]
fn the_reason_has_the_numbers() {
    let of = |low, high| decided(|_, figure| figure.interval = Some([low, high])).1;
    assert_eq!(of(-50.0, 60.0), "the change, -50 ns to +60 ns, is within the margin of 100 ns");
    assert_eq!(of(-5e5, 2e6), "no difference found; differences up to 2.0 ms are possible");
    assert!(decided(|_, figure| figure.interval = None).1.starts_with("too few independent packets"));
}

#[test]
fn what_is_missing_is_named() {
    for n in [[0, 5], [5, 0]] {
        let (outcome, because) = decide(&Comparison { n, ..slower() }, None);
        assert_eq!(outcome, ComparisonOutcome::Undecided);
        assert!(because.starts_with("one of the two has no packets"));
    }
    let unlike = |what| decided(|c, _| c.unlike = vec![Unlike { what, text: "up and down".into() }]);
    assert_eq!(unlike(Precondition::Direction), (ComparisonOutcome::Refused, "up and down".into()));
    assert_eq!(unlike(Precondition::Period).0, ComparisonOutcome::Different);
}

#[test]
fn the_size_of_the_effect_is_said() {
    let words = [Effect::Negligible, Effect::Small, Effect::Medium, Effect::Large];
    assert_eq!(words.map(effect), ["negligible", "small", "medium", "large"]);
    for (size, word) in [(Effect::Small, "small"), (Effect::Medium, "medium"), (Effect::Large, "large")] {
        let because = decided(|c, _| c.effect = Some(size)).1;
        assert_eq!(
            because,
            format!("the change is beyond chance, with a {word} effect (Cliff's delta 0.500)")
        );
    }
}

#[test]
fn an_outcome_has_a_word_and_a_sentence() {
    let of = |result, change| {
        let c = Comparison { outcome: result, median: Some(Difference { change, ci95: None }), ..slower() };
        (outcome(&c), sentence(&c))
    };
    let what = slower().basis.noun();
    let expected = [
        (
            ComparisonOutcome::Different,
            1000.0,
            "worse",
            format!("B has 1.00 us more {what} at the median than A: the reason."),
        ),
        (
            ComparisonOutcome::Different,
            -1000.0,
            "better",
            format!("B has 1.00 us less {what} at the median than A: the reason."),
        ),
        (ComparisonOutcome::Same, 0.0, "same", format!("Same {what} at the median: the reason.")),
        (
            ComparisonOutcome::Undecided,
            0.0,
            "undecided",
            format!("Undecided whether {what} at the median differs: the reason."),
        ),
        (ComparisonOutcome::Refused, 0.0, "refused", "Not compared: the reason.".to_owned()),
    ];
    for (result, change, word, text) in expected {
        assert_eq!(of(result, change), (word, text));
    }
    let p99 = Comparison { statistic: Statistic::P99, p99: slower().median, ..slower() };
    assert!(sentence(&p99).contains("at the 99th percentile"));
}

#[test]
fn a_load_makes_a_difference_or_not() {
    let of = |outcome| of_load(&Comparison { outcome, ..slower() });
    let expected = [
        (ComparisonOutcome::Different, Level::Note, "The load makes a difference: the reason."),
        (ComparisonOutcome::Same, Level::Good, "The load makes no difference beyond the margin: the reason."),
        (ComparisonOutcome::Undecided, Level::Note, "Undecided: the reason."),
        (ComparisonOutcome::Refused, Level::Note, "Undecided: the reason."),
    ];
    for (outcome, level, text) in expected {
        assert_eq!(of(outcome), (level, text.to_owned()));
    }
}

#[test]
fn numbers_have_their_sign_and_enough_digits() {
    assert_eq!([1000.0, -1000.0, 0.0].map(signed), ["+1.00 us", "-1.00 us", "0 ns"]);
    let d = Difference { change: 0.5, ci95: Some([0.25, 0.75]) };
    assert_eq!(points(&d), "+50.00 percentage points (95 % interval +25.00 to +75.00)");
    let d = Difference { change: -1e9, ..slower().median.unwrap() };
    assert_eq!(change(&d), "-1.00 s (95 % interval +500 ns to +1.50 us)");
    assert_eq!(change(&Difference { ci95: None, ..d }), "-1.00 s");
    let p = [9.9e-7, 1e-6, 9.99e-4, 1e-3, 0.0729].map(p_value);
    assert_eq!(p, ["p < 0.000001", "p = 0.000001", "p = 0.000999", "p = 0.0010", "p = 0.0729"]);
}
