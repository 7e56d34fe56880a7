//! The state file of a sweep: its [`SweepPlan`] in the first line, then one line per finished run. An interruption or a
//! crash therefore costs at most one run.
//!
//! ```
//! use jitlat_core::sweep::{SweepAxis, Factor, SweepGrid, FactorLevel};
//! use jitlat_store::sweep::{self, SweepPlan};
//!
//! let sizes = [40, 80].map(|n: u32| FactorLevel { text: n.to_string(), number: Some(n.into()) });
//! let grid = SweepGrid { axes: vec![SweepAxis::new(Factor::Payload, sizes.into())] };
//! let plan = SweepPlan::new("192.0.2.1", grid);
//! let read = sweep::read(&sweep::plan_line(&plan)?)?;
//! assert_eq!((read.plan, read.outcomes.len()), (plan, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod join;
mod state;

pub use join::join;
pub use state::{SweepState, is_sweep, open};

use jitlat_core::Span;
use jitlat_core::analysis::Samples;
use jitlat_core::sweep::{ConfidenceLevel, RunOutcome, SweepGrid, SweepRun, order};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// All settings of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPlan {
    /// Format of the file: `jitlat sweep 2`.
    pub format: String,
    /// Name or address of the far host.
    pub host: String,
    /// True for one-way tests, false for round trips.
    pub one_way: bool,
    /// Conditions that are varied.
    pub grid: SweepGrid,
    /// Packets per run.
    pub packets: u64,
    /// Number of runs of each combination.
    pub repetitions: u32,
    /// Pause between runs.
    pub pause: Span,
    /// Seed of the random order; `None` for the order of the grid.
    pub seed: Option<u64>,
    /// Confidence level of the intervals.
    pub confidence: ConfidenceLevel,
    /// Destination of the load, and the time for which it runs before a test begins.
    pub load: LoadLink,
    /// Options of the test.
    pub options: Vec<String>,
}

/// Destination of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLink {
    /// Host that receives the load; `None` if it is the host of the test.
    pub host: Option<String>,
    /// Kind of that server, `jitlat` or `iperf3`; `None`: jitlat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<String>,
    /// Port of that server.
    pub port: u16,
    /// File with the key.
    pub key_file: Option<PathBuf>,
    /// Time for which the load runs before the test begins.
    pub settle: Span,
}

impl Default for LoadLink {
    fn default() -> LoadLink {
        let port = jitlat_core::spec::CONTROL_PORT;
        LoadLink { host: None, proto: None, port, key_file: None, settle: Span::seconds(1) }
    }
}

/// Format that the first line of a sweep's file states.
pub const FORMAT: &str = "jitlat sweep 2";

/// Formats that can be resumed. In version 1, ten figures have different names.
const READABLE: [&str; 2] = ["jitlat sweep 1", FORMAT];

/// Maximum number of runs. A larger number is certainly a mistake.
const MAX_RUNS: usize = 100_000;

/// Reason why a file is not a sweep, or cannot be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The first line of the file is not a plan.
    #[error("it is not a sweep file")]
    NoPlan(#[source] serde_json::Error),
    /// The file was written by another program, or by a newer version.
    #[error("its format '{0}' is not supported by this program")]
    Format(String),
    /// A line is not a run.
    #[error("line {line}")]
    NoRun {
        /// Number of the line, from 1.
        line: usize,
        /// Reason why the line is invalid.
        source: serde_json::Error,
    },
    /// A run is not in the plan, or appears twice.
    #[error("line {0}: this run is not in the plan, or appears twice")]
    Stray(usize),
    /// The sweep has more runs than the maximum.
    #[error("too many runs: {0} (limit {MAX_RUNS})")]
    TooMany(usize),
    /// A file could not be created, opened, read or written.
    #[error("{doing} {}", .path.display())]
    File {
        /// Operation that failed.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// No file with a random name could be created.
    #[error("creating the sweep file in the current folder")]
    Folder(#[source] io::Error),
    /// The file is larger than 1 GiB.
    #[error("{} is too large for a sweep file (limit 1 GiB)", .0.display())]
    TooLong(PathBuf),
    /// The contents of a file are not a sweep.
    #[error("reading the sweep {}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: Box<SweepError>,
    },
    /// Sweeps that cannot be joined.
    #[error("sweeps of different kinds cannot be joined: {0}")]
    Join(String),
    /// A plan or a run could not be converted to JSON. This does not happen in practice.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The number of runs overflows.
    #[error("the number of combinations overflows: use fewer factors or levels")]
    Uncountable,
}

impl SweepError {
    fn file(doing: &'static str, path: &Path, source: io::Error) -> SweepError {
        SweepError::File { doing, path: path.to_owned(), source }
    }
}

impl SweepPlan {
    /// Creates a plan for tests with `host`: ten packets for every combination of `grid`, three times, in the given
    /// order.
    pub fn new(host: &str, grid: SweepGrid) -> SweepPlan {
        SweepPlan {
            format: FORMAT.to_owned(),
            host: host.to_owned(),
            one_way: false,
            grid,
            packets: 10,
            repetitions: 3,
            pause: Span::ZERO,
            seed: None,
            confidence: ConfidenceLevel::default(),
            load: LoadLink::default(),
            options: Vec::new(),
        }
    }

    /// Returns the runs, in order.
    ///
    /// # Errors
    /// [`SweepError::TooMany`], [`SweepError::Uncountable`].
    pub fn runs(&self) -> Result<Vec<SweepRun>, SweepError> {
        let cells = self.grid.cells().ok_or(SweepError::Uncountable)?;
        match cells.checked_mul(self.repetitions as usize) {
            Some(1..=MAX_RUNS) => Ok(order(cells, self.repetitions, self.seed)),
            Some(n) => Err(SweepError::TooMany(n)),
            None => Err(SweepError::Uncountable),
        }
    }

    /// Name of the delay that this sweep measures.
    pub fn quantity(&self) -> &'static str {
        if self.one_way { "one-way delay" } else { "round trip" }
    }
}

/// Contents of a sweep's file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Plan of the sweep.
    pub plan: SweepPlan,
    /// Results of the finished runs.
    pub outcomes: Vec<RunOutcome>,
    /// Accepted packets of each run, in the order of the outcomes; empty for runs written by older versions, which did
    /// not store packets.
    pub packets: Vec<Samples>,
    /// Total size of the complete lines, in bytes. A truncated line may follow.
    pub whole: usize,
}

impl Contents {
    /// True if all runs of the plan are finished.
    pub fn is_complete(&self) -> bool {
        self.plan.runs().is_ok_and(|runs| runs.len() == self.outcomes.len())
    }
}

/// A finished run as a line of the file.
#[derive(Serialize, Deserialize)]
struct SweepLine<RunOutcome, Packets> {
    #[serde(flatten)]
    outcome: RunOutcome,
    /// Accepted packets; absent in files written by older versions.
    #[serde(default)]
    packets: Packets,
}

/// Formats the first line, with its line feed.
///
/// # Errors
/// None in practice: a plan can always be serialised.
pub fn plan_line(plan: &SweepPlan) -> serde_json::Result<String> {
    Ok(serde_json::to_string(plan)? + "\n")
}

/// Formats the line of a finished run with its accepted packets.
///
/// # Errors
/// None in practice: a run can always be serialised.
pub fn run_line(outcome: &RunOutcome, packets: &Samples) -> serde_json::Result<String> {
    Ok(serde_json::to_string(&SweepLine { outcome, packets })? + "\n")
}

/// Reads a file. A last line without a line feed is ignored.
///
/// # Errors
/// [`SweepError`].
pub fn read(text: &str) -> Result<Contents, SweepError> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines().zip(1..);
    let (first, _) = lines.next().unwrap_or_default();
    let plan: SweepPlan = serde_json::from_str(first).map_err(SweepError::NoPlan)?;
    if !READABLE.contains(&plan.format.as_str()) {
        return Err(SweepError::Format(plan.format));
    }
    let cells = plan.grid.cells().unwrap_or(0);
    let mut contents = Contents { plan, outcomes: Vec::new(), packets: Vec::new(), whole };
    let mut known = HashSet::new();
    for (text, line) in lines {
        let SweepLine { outcome, packets } = serde_json::from_str::<SweepLine<RunOutcome, Samples>>(text)
            .map_err(|source| SweepError::NoRun { line, source })?;
        if let Some(number) = packets.repeated() {
            let source = serde::de::Error::custom(format!("sequence number {number} appears twice"));
            return Err(SweepError::NoRun { line, source });
        }
        if outcome.run.cell >= cells || !known.insert((outcome.run.cell, outcome.run.repetition)) {
            return Err(SweepError::Stray(line));
        }
        contents.outcomes.push(outcome);
        contents.packets.push(packets);
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::sweep::{Factor, FactorLevel, RunFigures, SweepAxis};

    fn plan() -> SweepPlan {
        let level = |n: u32| FactorLevel { text: n.to_string(), number: Some(n.into()) };
        SweepPlan::new(
            "192.0.2.1",
            SweepGrid { axes: vec![SweepAxis::new(Factor::Payload, [40, 80].map(level).into())] },
        )
    }

    fn line(cell: usize) -> String {
        let run = SweepRun { cell, repetition: 0 };
        let figures = RunFigures::default();
        let outcome =
            RunOutcome { run, at: WallTime(1), sent: 10, received: 10, ip_length: Some(68), figures };
        run_line(
            &outcome,
            &Samples { seq: vec![0, 2], sent: vec![1, 3], delay: vec![7, -9], ..Samples::default() },
        )
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_a_cut_line_is_left_out() {
        let text = plan_line(&plan()).unwrap() + &line(1) + &line(0);
        let read = |text: &str| read(text).unwrap();
        let contents = read(&text);
        assert_eq!((contents.plan, contents.whole), (plan(), text.len()));
        assert_eq!(contents.outcomes.iter().map(|o| o.run.cell).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(contents.packets[1].delay, [7, -9]);
        let cut = read(&text[..text.len() - 5]);
        assert_eq!((cut.outcomes.len(), cut.whole), (1, text.len() - line(0).len()));
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        let first = plan_line(&plan()).unwrap();
        assert!(matches!(read(""), Err(SweepError::NoPlan(_))));
        assert!(matches!(read("x\n"), Err(SweepError::NoPlan(_))));
        assert!(matches!(read(&first.replace(FORMAT, "jitlat sweep 9")), Err(SweepError::Format(_))));
        assert!(matches!(read(&(first.clone() + &line(0) + &line(0))), Err(SweepError::Stray(3))));
        assert!(matches!(read(&(first.clone() + &line(2))), Err(SweepError::Stray(2))));
        for damaged in [r#""delay":[7]"#, r#""delay":[7,-16,1]"#] {
            let text = first.clone() + &line(0) + &line(1).replace(r#""delay":[7,-16]"#, damaged);
            let wrong = read(&text).unwrap_err();
            assert!(matches!(wrong, SweepError::NoRun { line: 3, .. }), "{damaged}: {wrong:?}");
        }
        let twice = first.clone() + &line(0).replace(r#""seq":[0,2]"#, r#""seq":[2,0]"#);
        assert!(matches!(read(&twice), Err(SweepError::NoRun { line: 2, .. })));
        assert!(matches!(read(&(first + "{}\n")), Err(SweepError::NoRun { line: 2, .. })));
        let many = SweepPlan { repetitions: u32::MAX, ..plan() };
        assert!(matches!(many.runs(), Err(SweepError::TooMany(_))));
    }
}
