//! Screen report of a test or of saved logs, with a suggestion for the next command.

use crate::report::{AnalysedStream, command_line, shell_word};
use crate::terminal;
use crate::text::are_one_test;
use crate::wanted::WantedOutputs;
use jitlat_core::answer::{Fault, Severity};
use jitlat_net::privilege::Capability;
use jitlat_report::text::TextOptions;
use jitlat_report::text::screen::{Relation, Screen, ScreenStream};
use std::ffi::OsString;
use std::path::Path;

/// Origin of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOrigin<'a> {
    /// A test with the host of this name.
    Test(&'a str),
    /// A test on this machine alone.
    Demonstration,
    /// Saved logs.
    Logs,
}

/// Returns the text options for the terminal.
pub fn options() -> TextOptions {
    TextOptions {
        style: terminal::style(),
        width: terminal::width(),
        unicode: terminal::shows_unicode(),
        ..TextOptions::default()
    }
}

/// Returns the screen report of `runs`, with a suggestion for the next command.
pub fn page(runs: &[AnalysedStream], origin: StreamOrigin<'_>, wanted: &WantedOutputs) -> String {
    let streams = streams(runs);
    let relation = match runs {
        [up, down] if are_one_test(up, down) => Relation::Directions,
        _ => Relation::Separate,
    };
    let (command, purpose) = next(runs, origin, wanted);
    let screen = Screen::new(&streams, relation).followed_by(&command, purpose).in_short(
        match runs.iter().any(|run| run.log.is_some()) {
            true => "jitlat analyze -v, with the log above",
            false => REPEATED,
        },
    );
    let log = |run: &AnalysedStream| {
        let log = shell_word(run.log.as_deref()?);
        match &run.summary.header.date {
            Some(date) if origin == StreamOrigin::Logs => Some(format!("{log} of {date}")),
            _ => Some(log),
        }
    };
    let logs: Vec<String> = runs.iter().filter_map(log).collect();
    screen.logged_to(&logs).show(&options())
}

/// Appends a suggestion for the next command to `screen`: this command with the full report, or a command that opens
/// the page.
pub fn finished(screen: Screen, wanted: &WantedOutputs) -> String {
    followed_by(screen.in_short(REPEATED), wanted, &again())
}

/// Command that opens a page in the browser.
pub(crate) const OPENER: &str = match std::env::consts::OS.as_bytes() {
    b"windows" => "start",
    b"macos" => "open",
    _ => "xdg-open",
};

/// Like [`finished`], for reports without figures.
pub fn finished_without_figures(screen: Screen) -> String {
    screen.in_short(REPEATED).followed_by(&again(), "every figure").show(&options())
}

/// Appends a suggestion for the next command to `screen`: `command`, which prints every figure, or a command that opens
/// the page.
pub fn followed_by(screen: Screen, wanted: &WantedOutputs, command: &str) -> String {
    let screen = match wanted.path("html") {
        Some(page) => screen.followed_by(&format!("{OPENER} {}", shell_word(page)), "figures"),
        None => screen.followed_by(command, EVERYTHING),
    };
    screen.show(&options())
}

/// Converts `runs` to the streams of a screen report.
pub fn streams(runs: &[AnalysedStream]) -> Vec<ScreenStream<'_>> {
    runs.iter()
        .map(|run| ScreenStream { label: &run.label, summary: &run.summary, samples: &run.samples })
        .collect()
}

/// Returns a suggestion for the next command, and its purpose.
fn next(runs: &[AnalysedStream], origin: StreamOrigin<'_>, wanted: &WantedOutputs) -> (String, &'static str) {
    let answers = || runs.iter().filter_map(|run| run.summary.answer.as_ref());
    let noticed = answers().flat_map(|a| &a.causes).filter(|cause| cause.severity > Severity::Good);
    // Among equally severe causes, the first one is the most important.
    let worst = noticed.rev().max_by_key(|cause| cause.severity);
    let came = |run: &AnalysedStream| run.summary.counts.received > 0 || !run.summary.expects_answers();
    let received = runs.iter().all(came);
    if let StreamOrigin::Test(host) = origin {
        match worst.map(|cause| cause.fault) {
            Some(Fault::Sender | Fault::Receiver | Fault::Clock) => {
                return ("jitlat doctor".to_owned(), "delays that this host adds");
            }
            None if received && answers().all(|a| a.severity <= Severity::Good) => {}
            _ => {
                let sudo = if Capability::NetRaw.is_held() { "" } else { "sudo " };
                return (format!("{sudo}jitlat path {}", shell_word(Path::new(host))), "where on the path");
            }
        }
    }
    if let Some(page) = wanted.path("html") {
        return (format!("{OPENER} {}", shell_word(page)), "figures");
    }
    let logs: Vec<String> = runs.iter().filter_map(|run| run.log.as_deref()).map(shell_word).collect();
    match &logs[..] {
        [] if origin == StreamOrigin::Logs => (again(), EVERYTHING),
        [] => (again(), MEASURED_AGAIN),
        [log] => (format!("jitlat -f {log} -v"), EVERYTHING),
        several => (format!("jitlat analyze {} -v", several.join(" ")), EVERYTHING),
    }
}

/// Name of the command that [`again`] returns.
pub const REPEATED: &str = "the same command with -v";

/// Purpose of the command for the full report.
pub const EVERYTHING: &str = "every figure; --html FILE draws them";

/// Purpose of the command for the full report if the test has no log.
pub const MEASURED_AGAIN: &str = "measures again, prints every figure";

/// Returns the current command line with the option for the full report.
pub fn again() -> String {
    format!("{} --verbose", command_line(without_log(std::env::args_os())))
}

/// Removes the option with the name of the log: a log with this name may exist by now, and logs are never overwritten.
/// `spp` has a different option `-o`, which is not removed.
fn without_log(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let (mut is_name, mut is_spp) = (false, false);
    arguments.enumerate().filter_map(move |(k, argument)| {
        is_spp |= k == 1 && argument == "spp";
        let was_name = std::mem::take(&mut is_name);
        is_name = !was_name && argument == "-o";
        (is_spp || !was_name && !argument.as_encoded_bytes().starts_with(b"-o")).then_some(argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_command_does_not_name_its_log() {
        let typed = ["jitlat", "host", "-o", "a.log", "-oa.log", "--load", "tcp"].map(OsString::from);
        let shown: Vec<OsString> = without_log(typed.into_iter()).collect();
        assert_eq!(shown, ["jitlat", "host", "--load", "tcp"]);
        let spp = ["jitlat", "spp", "-o", "1.5"].map(OsString::from);
        assert_eq!(without_log(spp.clone().into_iter()).collect::<Vec<_>>(), spp);
    }
}
