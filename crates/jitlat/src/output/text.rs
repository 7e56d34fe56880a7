//! The console's page of streams, and what thresholds make of them.

use super::report::Run;
use crate::console;
use crate::exit::Status;
use jitlat_core::Direction;
use jitlat_core::figures::Condition;
use jitlat_report::text;
use tracing::error;

/// What of a report can be chosen for the console.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// Latency corrected by the clock estimate.
    pub corrected: bool,
    /// Small plots in characters below each report, and whether of corrected latency.
    pub plots: Option<bool>,
}

/// The reports of `runs`, one below the other.
pub fn page(runs: &[Run], chosen: PageOptions) -> String {
    let options =
        text::Options { corrected: chosen.corrected, style: console::style(), ..text::Options::default() };
    let mut page = String::new();
    for run in runs {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&run.heading);
        page.push_str(&text::report(&run.summary, &options));
        if let Some(corrected) = chosen.plots {
            page.push_str(&plots(run, corrected, options.width));
        }
    }
    if let [up, down] = runs
        && are_one_test(up, down)
    {
        page.push('\n');
        page.push_str(&text::both(&up.summary, &down.summary, &options));
    }
    page
}

/// Whether these are the two directions of one test, and not two logs that happen to be read together.
fn are_one_test(up: &Run, down: &Run) -> bool {
    let directions = [up, down].map(|run| run.session.spec.direction());
    directions == [Direction::Up, Direction::Down]
        && up.session.id.is_some()
        && up.session.id == down.session.id
}

fn plots(run: &Run, corrected: bool, width: usize) -> String {
    let (latency, pdv) = (&run.summary.latency, &run.summary.pdv);
    let shift = run.summary.latency_corrected.as_ref().and_then(|c| Some(c.min? - latency.min?));
    let distribution = match shift.filter(|_| corrected) {
        Some(shift) => text::plots::shifted_histogram("latency, corrected", latency, shift, width),
        None => text::plots::histogram("jitter (PDV)", pdv, width),
    };
    format!("\n{distribution}\n{}", text::plots::burstiness(&run.samples, run.summary.counts.sent, width))
}

/// Logs the thresholds of `--fail-if` that `runs` violate; the exit status that follows.
pub fn status(runs: &[Run], thresholds: &[Condition]) -> Status {
    let mut status = Status::Measured;
    for violation in runs.iter().flat_map(|run| thresholds.iter().filter_map(|c| c.violated(&run.summary))) {
        error!("failed: {violation}");
        status = Status::ThresholdViolated;
    }
    status
}
