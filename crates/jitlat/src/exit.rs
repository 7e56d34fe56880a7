//! End of a command: exit status, and an error in one line.

use crate::options::condition::{self, TestCondition};
use jitlat_output::check::CheckState;
use jitlat_output::{AnalysedStream, text};
use jitlat_verdict::load::LoadDecision;
use std::process::ExitCode;
use tracing::error;

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did what was requested.
    Measured,
    /// Something was measured, but a threshold of `--fail-if` is violated.
    ThresholdViolated,
    /// No measurement can be reported, or a requested file could not be written completely.
    NotMeasured,
    /// The command was a check (`--check`) that ended in this state.
    Check(CheckState),
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        ExitCode::from(match status {
            ExitStatus::Measured => 0,
            ExitStatus::ThresholdViolated => 1,
            ExitStatus::NotMeasured => 2,
            ExitStatus::Check(state) => state.code(),
        })
    }
}

/// Formats the error and its causes as one line.
pub fn explain(error: &anyhow::Error) -> String {
    jitlat_output::explain(error.as_ref())
}

/// Logs `failures`; returns true if there are none.
pub fn log_failures(failures: &[anyhow::Error]) -> bool {
    failures.iter().for_each(|e| error!("{}", explain(e)));
    failures.is_empty()
}

/// Logs which conditions of `--fail-if` are violated by `runs`, and which cannot be decided; returns the exit status.
pub fn thresholds(runs: &[AnalysedStream], conditions: &[TestCondition]) -> ExitStatus {
    let figures = condition::figures(conditions);
    let violations = text::violations(runs, &figures);
    violations.iter().for_each(|violation| error!("failed: {violation}"));
    let mut undecided = text::undecided(runs, &figures);
    undecided.extend(condition::on_load(conditions).filter_map(|load| match load.decide(&[]) {
        LoadDecision::Undecided(why) => Some(why),
        LoadDecision::Met | LoadDecision::Violated(_) => None,
    }));
    undecided.iter().for_each(|condition| error!("--fail-if {condition}"));
    match (violations.is_empty(), undecided.is_empty()) {
        (false, _) => ExitStatus::ThresholdViolated,
        (true, false) => ExitStatus::NotMeasured,
        (true, true) => ExitStatus::Measured,
    }
}
