//! Simulates a test over a path with bursty loss: `cargo run -p jitlat-impair --example trial`.

use jitlat_core::{Summary, TestSpec, analyze};
use jitlat_impair::{Scenario, ScenarioError, Trial};

/// Returns the summary of a test of the default specification over `path`.
pub fn summarise(path: &str) -> Result<Summary, ScenarioError> {
    let path: Scenario = path.parse()?;
    let trial = Trial { up: path.up, down: path.down, ..Trial::new(TestSpec::default(), path.seed) };
    let outcome = trial.run();
    Ok(analyze(&outcome.session, outcome.records, &Default::default()))
}

fn main() -> Result<(), ScenarioError> {
    let path = "seed = 7\n[up]\ndelay = 20ms\njitter = exponential 2ms\nloss = gilbert p=1% r=30%";
    let summary = summarise(path)?;
    println!(
        "{} of {} packets lost, in {} runs",
        summary.counts.lost, summary.counts.sent, summary.loss.periods
    );
    Ok(())
}
