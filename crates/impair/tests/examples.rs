//! Runs the example.

#[allow(dead_code)]
#[path = "../examples/trial.rs"]
mod trial;

#[test]
fn a_trial_has_the_losses_of_its_path() {
    let summary = trial::summarise("[up]\ndelay = 20ms\nloss = at 5-7 20").unwrap();
    assert_eq!((summary.counts.lost, summary.latency.min), (4, Some(20_000_000)));
    let problem = trial::summarise("[up]\nloss = some").unwrap_err();
    assert_eq!(problem.line, 2);
}
