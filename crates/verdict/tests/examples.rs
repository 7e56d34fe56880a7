//! The example, run.

#[allow(dead_code)]
#[path = "../examples/profile.rs"]
mod profile;

use jitlat_core::Span;
use jitlat_core::answer::Severity;

#[test]
fn a_use_of_ones_own_is_judged() {
    let of = |wait| {
        let answer = profile::judge(wait).unwrap();
        let uses: Vec<(String, Severity)> =
            answer.profiles.into_iter().map(|(name, suits)| (name, suits.severity)).collect();
        uses
    };
    assert_eq!(of(Span::ZERO), [("surgery".to_owned(), Severity::Good)]);
    assert_eq!(of(Span::millis(60)), [("surgery".to_owned(), Severity::Bad)]);
}
