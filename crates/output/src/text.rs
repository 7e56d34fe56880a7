//! The full console report of streams, the one-line report, and the check of thresholds.

use crate::report::{AnalysedStream, shell_word};
use crate::screen::OPENER;
use crate::terminal;
use crate::wanted::WantedOutputs;
use jitlat_core::Direction;
use jitlat_core::scalars::ScalarCondition;
use jitlat_core::summary::Summary;
use jitlat_report::text::{self, plots::PlotCanvas};

/// Options of the console report.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// True to also print the one-way delay corrected by the clock estimate.
    pub corrected: bool,
    /// True to print text plots after each report.
    pub plots: bool,
}

/// Returns the last line of a report: the command that draws or opens the figures of `runs`. It is empty in a pipe,
/// unless `asked` is true.
pub fn figures_line(runs: &[AnalysedStream], wanted: &WantedOutputs, asked: bool) -> String {
    if !asked && !terminal::is_terminal() {
        return String::new();
    }
    if let Some(page) = wanted.path("html") {
        return format!("\nfigures: {OPENER} {}\n", shell_word(page));
    }
    if let Some(folder) = wanted.path("plots") {
        return format!("\nfigures: ls {}\n", shell_word(folder));
    }
    let logs: Vec<String> = runs.iter().filter_map(|run| run.log.as_deref()).map(shell_word).collect();
    match &logs[..] {
        [] => "\nfigures: the same command with --plots DIR or --html FILE; -o LOG stores the packets\n"
            .to_owned(),
        [log] => format!("\nfigures: jitlat -f {log} --plots DIR, or --html FILE\n"),
        several => format!("\nfigures: jitlat analyze {} --plots DIR, or --html FILE\n", several.join(" ")),
    }
}

/// Returns the verdicts on `runs` in one line.
pub fn line(runs: &[AnalysedStream]) -> String {
    let of = |run: &AnalysedStream| {
        let counts = &run.summary.counts;
        let answer = run.summary.answer.as_ref().map_or_else(
            || format!("{} of {} packets received.", counts.unique_valid, counts.sent),
            |answer| answer.headline.clone(),
        );
        if runs.len() > 1 { format!("{}: {answer}", run.label) } else { answer }
    };
    runs.iter().map(of).collect::<Vec<_>>().join(" ") + "\n"
}

/// Returns the reports of `runs`, one after the other.
pub fn page(runs: &[AnalysedStream], chosen: PageOptions) -> String {
    let options = text::TextOptions {
        corrected: chosen.corrected,
        style: terminal::style(),
        ..text::TextOptions::default()
    };
    let streams: Vec<(&str, &Summary)> = runs.iter().map(|run| (&*run.label, &run.summary)).collect();
    let mut page = text::answers(&streams, &options);
    for run in runs {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&run.heading);
        page.push_str(&text::report(&run.summary, &options));
        if chosen.plots {
            let canvas = PlotCanvas { width: options.width, unicode: terminal::shows_unicode() };
            page.push_str(&plots(run, canvas));
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

/// True if `up` and `down` are the two directions of one test, rather than two logs that were read together.
pub(crate) fn are_one_test(up: &AnalysedStream, down: &AnalysedStream) -> bool {
    let directions = [up, down].map(|run| run.session.spec.direction());
    directions == [Direction::Up, Direction::Down]
        && up.session.id.is_some()
        && up.session.id == down.session.id
}

/// Draws delay over time of `runs` in characters.
pub fn courses(runs: &[AnalysedStream]) -> String {
    let canvas = PlotCanvas { width: terminal::width(), unicode: terminal::shows_unicode() };
    let course = |run: &AnalysedStream| {
        let name = if run.summary.is_round_trip() { "round trip" } else { "latency" };
        let plot = text::plots::burstiness(name, &run.samples, 0, run.summary.counts.sent, canvas);
        format!("\n{plot}")
    };
    runs.iter().map(course).collect()
}

fn plots(run: &AnalysedStream, canvas: PlotCanvas) -> String {
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
        text::plots::shifted_histogram(name, latency, shift, canvas),
        text::plots::histogram("jitter (PDV)", pdv, canvas),
        text::plots::burstiness(name, &run.samples, shift, run.summary.counts.sent, canvas),
    ]
    .iter()
    .map(|plot| format!("\n{plot}"))
    .collect()
}

/// Describes the `thresholds` that `runs` violate, with the label of the run if there are several runs. If a part of a
/// test is unknown, the last message says so.
pub fn violations(runs: &[AnalysedStream], thresholds: &[ScalarCondition]) -> Vec<String> {
    let mut found = of_each(runs, |run| thresholds.iter().filter_map(|c| c.violated(&run.summary)).collect());
    if !thresholds.is_empty() && runs.iter().any(AnalysedStream::is_cut_off) {
        found.push("a part of the test is unknown and may violate the thresholds".to_owned());
    }
    found
}

/// Describes the `conditions` that cannot be decided because a grade or score of one of `runs` is unknown, with the
/// label of the run if there are several runs.
pub fn undecided(runs: &[AnalysedStream], conditions: &[ScalarCondition]) -> Vec<String> {
    /// Parts of the keys of figures that depend on losses.
    const OF_LOSS: [&str; 3] = ["loss", "lost", "mos"];
    of_each(runs, |run| {
        let of_loss = |c: &&ScalarCondition| {
            let text = c.to_string();
            run.is_loss_unknown() && OF_LOSS.iter().any(|key| text.contains(key))
        };
        let lost = conditions.iter().filter(of_loss);
        let lost = lost.map(|c| format!("{c} cannot be decided: it is unknown how many packets were lost"));
        conditions.iter().filter_map(|c| c.undecided(&run.summary)).chain(lost).collect()
    })
}

fn of_each(runs: &[AnalysedStream], messages: impl Fn(&AnalysedStream) -> Vec<String>) -> Vec<String> {
    let labelled = |run: &AnalysedStream| {
        let label = if runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        messages(run).into_iter().map(|message| label.clone() + &message).collect::<Vec<_>>()
    };
    runs.iter().flat_map(labelled).collect()
}
