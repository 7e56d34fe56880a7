//! How a command ends: the exit status, and an error in one line.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did what was requested.
    Measured,
    /// Something was measured, and a threshold of `--fail-if` is violated.
    ThresholdViolated,
    /// There is no measurement to report, or a requested file could not be written completely.
    NotMeasured,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        ExitCode::from(match status {
            ExitStatus::Measured => 0,
            ExitStatus::ThresholdViolated => 1,
            ExitStatus::NotMeasured => 2,
        })
    }
}

/// The error and its causes in one line, without causes that the text already contains.
pub fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.contains(&cause) {
            text
        } else if text.is_empty() {
            cause
        } else {
            format!("{text}: {cause}")
        }
    })
}
