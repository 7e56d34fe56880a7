//! jitlat: measures what a network path does to real-time traffic. This crate is the command line for the
//! instruments of `jitlat-instruments` and the formats of `jitlat-output`; ARCHITECTURE.md describes the other
//! crates. It is a library only for the command's own tests: no other program should use it.
//!
//! * [`root`] – the commands; [`help`] – the options that `-h` shows; [`modes`] – options that a mode refuses;
//!   [`options`] – groups of options that commands share, and the settings that they result in
//! * [`mod@test`], [`collect`], [`capture`], [`ping`], [`load`], [`sweep`], `rpm`, [`doctor`], [`demo`], [`serve`], [`find`] – one command
//!   or mode each
//! * [`check`] – tests as checks of Nagios and Icinga
//! * [`analyze`], [`mod@export`], [`compare`] – saved tests; [`mod@archive`] – archives of many tests; [`spp`],
//!   [`tcp`], [`rtp`] – captured traffic
//! * `states` – saved states of analyses
//! * [`programs`] – command lines and outputs of other programs
//! * [`monitor`] – many paths, continuously; [`mod@watch`] – the same without a file
//! * [`mod@web`] – the page of an archive; [`mod@browser`] – the page from which browsers measure
//! * [`first_steps`] – the output without arguments
//! * [`live`] – options of the full-screen view
//! * [`without`] – stand-ins for modules that a build leaves out
//! * [`logs`] – log files; [`log`] – lines on standard error

#![deny(clippy::print_stdout, clippy::print_stderr)]
// Shared code that only optional modules call is unused in builds that leave them out.
#![cfg_attr(
    not(all(
        feature = "captures",
        feature = "live",
        feature = "monitor",
        feature = "plots",
        feature = "programs",
        feature = "sweep"
    )),
    allow(dead_code)
)]

mod analyze;
#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "browser")]
mod browser;
mod capture;
mod check;
mod collect;
mod compare;
mod confinement;
mod demo;
mod doctor;
mod exit;
mod export;
mod find;
mod first_steps;
mod help;
#[cfg_attr(windows, path = "interrupt_windows.rs")]
mod interrupt;
#[cfg(feature = "live")]
mod live;
mod load;
mod log;
mod logs;
#[cfg(feature = "manual")]
mod manual;
mod modes;
#[cfg(feature = "web")]
mod monitor;
mod options;
mod path;
mod ping;
mod policy;
#[cfg(feature = "programs")]
mod programs;
mod root;
#[cfg(feature = "rpm")]
mod rpm;
#[cfg(feature = "captures")]
mod rtp;
mod serve;
#[cfg(feature = "captures")]
mod spp;
#[cfg(feature = "saved")]
mod states;
#[cfg(feature = "sweep")]
mod sweep;
#[cfg(feature = "captures")]
mod tcp;
mod test;
#[cfg(feature = "web")]
mod watch;
#[cfg(feature = "web")]
mod web;
mod without;

#[cfg(not(feature = "archive"))]
use without::archive;
#[cfg(not(feature = "browser"))]
use without::browser;
#[cfg(not(feature = "live"))]
use without::live;
#[cfg(not(feature = "manual"))]
use without::manual;
#[cfg(not(feature = "web"))]
use without::monitor;
#[cfg(not(feature = "programs"))]
use without::programs;
#[cfg(not(feature = "rpm"))]
use without::rpm;
#[cfg(not(feature = "captures"))]
use without::rtp;
#[cfg(not(feature = "captures"))]
use without::spp;
#[cfg(not(feature = "saved"))]
use without::states;
#[cfg(not(feature = "sweep"))]
use without::sweep;
#[cfg(not(feature = "captures"))]
use without::tcp;
#[cfg(not(feature = "web"))]
use without::watch;
#[cfg(not(feature = "web"))]
use without::web;

use analyze::SeveralLogs;
use exit::ExitStatus;
use options::check::CheckArgs;
use root::Command;
use std::process::ExitCode;
use tracing::error;

/// The definition of the command line: commands, options, help.
pub use root::command;

/// The tables of other programs' options, for the documentation.
#[cfg(feature = "programs")]
pub use programs::tables;

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(ended) = programs::run_requested(&words) {
        return ended;
    }
    if words.len() == 1 {
        return match first_steps::print() {
            Ok(()) => ExitStatus::Measured.into(),
            Err(e) => {
                log::start(None, log::LogFormat::default(), false);
                error!("{}", exit::explain(&e));
                ExitStatus::NotMeasured.into()
            }
        };
    }
    let cli = root::parse();
    let limit = cli.check().and_then(CheckArgs::limit);
    let level = cli.log_level.or_else(|| cli.command.as_ref().and_then(Command::usual_level));
    log::start(level, cli.log_format, cli.command.as_ref().is_some_and(Command::runs_long));
    if let Some(limit) = limit {
        check::limit(limit);
    }
    let ended = match cli.command {
        None => test::run(&cli.test),
        Some(Command::Test(args)) => test::run(&args),
        Some(Command::Ping(args)) => ping::run(&args),
        Some(Command::Path(args)) => path::run(&args),
        Some(Command::Rpm(args)) => rpm::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Archive(args)) => archive::run(&args),
        Some(Command::Analyze(args)) => match &args.dataset.dataset {
            Some(root) => archive::dataset::run(root, &args.dataset, &args.report, args.live),
            None => {
                let shown = if args.live.live { live::show_if_possible(&args.logs) } else { Ok(()) };
                let together = SeveralLogs {
                    merge: args.merge,
                    state: args.state.clone(),
                    attenuation: args.attenuation,
                };
                shown.and_then(|()| analyze::run(&args.logs, &together, &args.report))
            }
        },
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Monitor(args)) => monitor::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Demo(args)) => demo::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Find(args)) => find::run(&args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Spp(args)) => spp::run(&args),
        Some(Command::Tcp(args)) => tcp::run(&args),
        Some(Command::Rtp(args)) => rtp::run(&args),
        Some(Command::As(args)) => programs::refuse(&args),
        Some(Command::Watch(args)) => watch::run(&args),
        Some(Command::Web(args)) => web::run(&args),
        Some(Command::Completions(args)) => manual::completions(&args, root::command()),
        Some(Command::Man(args)) => manual::pages(&args, root::command()),
    };
    let status = match ended {
        Ok(status) if limit.is_some() => check::ended(status),
        Err(e) if limit.is_some() => check::failed(&e),
        Ok(status) => status,
        Err(e) => {
            error!("{}", exit::explain(&e));
            ExitStatus::NotMeasured
        }
    };
    status.into()
}
