//! jitlat: what a network path does to real-time traffic. This crate is the command line and the glue;
//! ARCHITECTURE.md says where everything else is.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod analyze;
mod cli;
mod collect;
mod compare;
mod console;
mod demo;
mod doctor;
mod instrument;
mod interrupt;
mod journal;
mod label;
mod live;
mod load;
mod manual;
mod ping;
mod present;
mod progress;
mod recorder;
mod serve;
mod spp;
mod sweep;
mod tcp;
mod test;
mod watch;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;
use tracing::error;

fn main() -> ExitCode {
    let cli = Cli::parse();
    console::log::start(cli.log_level, matches!(&cli.command, Some(Command::Serve(_))));
    let result = match cli.command {
        Some(Command::Test(args)) => run_test(&args),
        Some(Command::Ping(args)) if !args.load.load.is_empty() => load::phases::two_way(&args),
        Some(Command::Ping(args)) => ping::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Analyze(args)) => analyze::run(&args.logs, &args.report),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Spp(args)) => spp::run(&args),
        Some(Command::Tcp(args)) => tcp::run(&args),
        Some(Command::Completions(args)) => manual::completions(&args),
        Some(Command::Man(args)) => manual::pages(&args),
        None => run_test(&cli.test),
    };
    result.unwrap_or_else(|error| {
        error!("{}", explain(&error));
        ExitCode::from(COULD_NOT_MEASURE)
    })
}

/// Exit status when there is no measurement to report, or a file that was asked for could not be written whole.
const COULD_NOT_MEASURE: u8 = 2;

/// Exit status when something was measured and a threshold was violated.
const THRESHOLD_VIOLATED: u8 = 1;

/// Names the thresholds of `--fail-if` that `runs` violate; the exit status that follows.
fn verdict(runs: &[present::Run], args: &cli::ReportArgs) -> ExitCode {
    let violations = present::violations(runs, args);
    for violation in &violations {
        error!("failed: {violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(THRESHOLD_VIOLATED) }
}

/// The error and its causes in one line, leaving out causes that the text before them already tells.
fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.contains(&cause) {
            told
        } else if told.is_empty() {
            cause
        } else {
            format!("{told}: {cause}")
        }
    })
}

fn run_test(args: &cli::TestArgs) -> anyhow::Result<ExitCode> {
    match &args.file {
        Some(log) => analyze::run(std::slice::from_ref(log), &args.report),
        None if !args.load.load.is_empty() => load::phases::one_way(args),
        None => test::run(args),
    }
}
