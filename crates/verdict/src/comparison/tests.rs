use super::*;
use crate::compare::comparison::{Basis, Precondition, Statistic, Unlike};
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
        floor: 0.0,
        tests: None,
        statistic: Statistic::Median,
        outcome: ComparisonOutcome::Different,
        because: "the reason".into(),
    }
}

fn decided(change: impl FnOnce(&mut Comparison)) -> (ComparisonOutcome, String) {
    let mut comparison = slower();
    change(&mut comparison);
    decide(&comparison)
}

#[test]
fn an_interval_that_reaches_0_is_no_difference() {
    let of = |low, high| {
        decided(|c| c.median = Some(Difference { change: (low + high) / 2.0, ci95: Some([low, high]) })).0
    };
    assert_eq!(of(0.0, 2.0), ComparisonOutcome::Same);
    assert_eq!(of(-2.0, 0.0), ComparisonOutcome::Same);
    assert_eq!(of(1.0, 2.0), ComparisonOutcome::Different);
    assert_eq!(of(-2.0, -1.0), ComparisonOutcome::Different);
}

#[test]
fn an_effect_counts_from_a_delta_of_0_147_on() {
    let of = |delta, error| {
        let (outcome, because) = decided(|c| {
            (c.cliffs_delta, c.cliffs_delta_error) = (Some(delta), Some(error));
        });
        (outcome, because.contains("negligible"))
    };
    assert_eq!(of(0.146, 0.0), (ComparisonOutcome::Same, true));
    assert_eq!(of(0.147, 0.0), (ComparisonOutcome::Different, false));
    assert_eq!(of(-0.147, 0.0), (ComparisonOutcome::Different, false));
    // The limit is within the error on either side.
    assert_eq!(of(0.1, 0.04), (ComparisonOutcome::Same, true));
    assert_eq!(of(0.1, 0.1), (ComparisonOutcome::Undecided, true));
    assert_eq!(of(0.2, 0.1), (ComparisonOutcome::Undecided, true));
    assert_eq!(of(0.3, 0.1), (ComparisonOutcome::Different, false));
}

#[test]
fn a_change_must_exceed_what_the_measurements_may_be_wrong_by() {
    assert_eq!(decided(|c| c.floor = 999.0).0, ComparisonOutcome::Different);
    assert_eq!(decided(|c| c.floor = 1000.0).0, ComparisonOutcome::Undecided);
    let unknown = decided(|c| c.floor = f64::INFINITY);
    assert_eq!(unknown.0, ComparisonOutcome::Undecided);
    assert!(unknown.1.contains("clock"), "{}", unknown.1);
}

#[test]
fn what_is_missing_is_named() {
    let without = |n| {
        let (outcome, because) = decided(|c| (c.n, c.median) = (n, None));
        assert_eq!(outcome, ComparisonOutcome::Undecided);
        because
    };
    for n in [[0, 5], [5, 0]] {
        assert!(without(n).starts_with("one of the two has no packets"));
    }
    assert_eq!(without([5, 5]), "too few packets to distinguish a change from chance");
    let unlike = |what| decided(|c| c.unlike = vec![Unlike { what, text: "up and down".into() }]);
    assert_eq!(unlike(Precondition::Direction), (ComparisonOutcome::Refused, "up and down".into()));
    assert_eq!(unlike(Precondition::Period).0, ComparisonOutcome::Different);
}

#[test]
fn the_size_of_the_effect_is_said() {
    let words = [Effect::Negligible, Effect::Small, Effect::Medium, Effect::Large];
    assert_eq!(words.map(effect), ["negligible", "small", "medium", "large"]);
    for (size, word) in [(Effect::Small, "small"), (Effect::Medium, "medium"), (Effect::Large, "large")] {
        let because = decided(|c| c.effect = Some(size)).1;
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
        (
            ComparisonOutcome::Same,
            0.0,
            "same",
            format!("No relevant difference in {what} at the median: the reason."),
        ),
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
        (ComparisonOutcome::Same, Level::Good, "The load makes no relevant difference: the reason."),
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
