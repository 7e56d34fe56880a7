//! The console report of streams, and the check of thresholds.

use super::report::Run;
use crate::console;
use crate::exit::Status;
use jitlat_core::Direction;
use jitlat_core::figures::Condition;
use jitlat_core::summary::Summary;
use jitlat_report::text;
use tracing::error;

/// Options of the console report.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// Whether to print latency corrected by the clock estimate, too.
    pub corrected: bool,
    /// Whether to draw plots in characters after each report.
    pub plots: bool,
}

/// The reports of `runs`, one after the other.
pub fn page(runs: &[Run], chosen: PageOptions) -> String {
    let options =
        text::Options { corrected: chosen.corrected, style: console::style(), ..text::Options::default() };
    let streams: Vec<(&str, &Summary)> = runs.iter().map(|run| (&*run.label, &run.summary)).collect();
    let mut page = text::answers(&streams, &options);
    for run in runs {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&run.heading);
        page.push_str(&text::report(&run.summary, &options));
        if chosen.plots {
            page.push_str(&plots(run, options.width));
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

/// Whether these are the two directions of one test, and not two logs that were read together.
fn are_one_test(up: &Run, down: &Run) -> bool {
    let directions = [up, down].map(|run| run.session.spec.direction());
    directions == [Direction::Up, Direction::Down]
        && up.session.id.is_some()
        && up.session.id == down.session.id
}

fn plots(run: &Run, width: usize) -> String {
    let (latency, pdv) = (&run.summary.latency, &run.summary.pdv);
    let round_trip = run.summary.two_way.is_some();
    let correction = run.summary.clock.correction_ns.filter(|_| run.corrected && !round_trip);
    let name = match (round_trip, correction) {
        (true, _) => "round trip",
        (false, Some(_)) => "latency, corrected",
        (false, None) => "latency, not corrected",
    };
    let shift = correction.unwrap_or(0).saturating_neg();
    [
        text::plots::shifted_histogram(name, latency, shift, width),
        text::plots::histogram("jitter (PDV)", pdv, width),
        text::plots::burstiness(name, &run.samples, shift, run.summary.counts.sent, width),
    ]
    .iter()
    .map(|plot| format!("\n{plot}"))
    .collect()
}

/// Logs which thresholds of `--fail-if` are violated by `runs`; returns the exit status.
pub fn status(runs: &[Run], thresholds: &[Condition]) -> Status {
    let mut status = Status::Measured;
    for violation in runs.iter().flat_map(|run| thresholds.iter().filter_map(|c| c.violated(&run.summary))) {
        error!("failed: {violation}");
        status = Status::ThresholdViolated;
    }
    status
}
