//! `jitlat monitor`: measures many paths continuously, from one file that all hosts share. The library
//! `jitlat-monitor` does the work; this module defines the options of the command, and those that the file may
//! contain.
//!
//! * [`instruments`] – tests and the server, with the options of the command line; [`captures`] – captures on interfaces
//! * [`given`] – options in the file; [`fetch`] – a file on a web server

mod captures;
#[cfg(test)]
mod demand_tests;
mod fetch;
mod given;
pub mod instruments;

use crate::confinement::ConfinementArgs;
use crate::exit::ExitStatus;
use crate::interrupt::{self, Signals};
use anyhow::{Context, Result};
use clap::Args;
use fetch::{FetchArgs, Fetching};
use instruments::MonitorInstruments;
use jitlat_core::{Span, quantity};
use jitlat_monitor::runtime::{self, MonitorConfinement, MonitorSettings, Requests};
use jitlat_monitor::{MonitorPlan, Timetable, text};
use jitlat_net::clock;
use jitlat_net::confine::forbid_core_dumps;
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tracing::{error, warn};

/// Measure many paths continuously, according to one file that all hosts share
#[derive(Clone, Debug, Args)]
pub struct MonitorArgs {
    /// TOML file with hosts, groups, tests and their times
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Check the file, print every fault with line and column, and exit
    ///
    /// With --host the files that it names for this host are checked, too: keys, certificates, authorities, tokens.
    #[arg(long)]
    check: bool,
    /// Print the timetable and the load of each host, and exit
    ///
    /// The load is given in tests, traffic, disk space and time.
    #[arg(long, conflicts_with = "check")]
    plan: bool,
    /// Print the plan as one JSON object
    #[arg(long, requires = "plan")]
    json: bool,
    /// Name of this host in FILE
    ///
    /// Default: the host with this host's name, or with an address of its interfaces. --plan lists the next tests of
    /// this host.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Archive for the results, instead of the archive in the file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "plan"])]
    archive: Option<PathBuf>,
    /// Stop after this time (30s, 10m; a bare number is seconds)
    #[arg(long = "for", value_name = "T", value_parser = quantity::duration, conflicts_with_all = ["check", "plan"])]
    duration: Option<Span>,
    /// Run the commands of alerts for a confined monitor, which passes the messages
    #[arg(long, hide = true, conflicts_with_all = ["check", "plan", "duration"])]
    run_commands: bool,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    confinement: ConfinementArgs,
}

impl MonitorArgs {
    /// True if the command measures until it is stopped; false if it only reads the file.
    pub fn runs_long(&self) -> bool {
        !self.check && !self.plan
    }

    /// Returns the confinement of the monitor; `None` with `--no-sandbox`.
    fn confinement(&self) -> Result<Option<MonitorConfinement>> {
        if self.confinement.no_sandbox {
            forbid_core_dumps();
            return Ok(None);
        }
        let program =
            env::current_exe().context("finding this program, which runs the commands of alerts")?;
        let (file, archive) = (self.file.clone(), self.archive.clone());
        let commands = move || {
            let mut command = Command::new(&program);
            command.arg("monitor").arg(&file).arg("--run-commands");
            command.args(archive.iter().flat_map(|archive| [OsStr::new("--archive"), archive.as_os_str()]));
            command
        };
        Ok(Some(MonitorConfinement { user: self.confinement.user.clone(), commands: Arc::new(commands) }))
    }
}

impl Requests for Signals {
    fn is_stop_requested(&self) -> bool {
        self.stop().is_requested()
    }

    fn take_reload(&self) -> bool {
        self.reload()
    }

    fn clear(&self) {
        self.read_all();
    }
}

/// Runs the monitor, checks the file, or prints the plan.
pub fn run(args: &MonitorArgs) -> Result<ExitStatus> {
    if args.run_commands {
        return run_commands(args);
    }
    if args.fetch.run_fetch {
        fetch::run(args)?;
        return Ok(ExitStatus::Measured);
    }
    let _fetching = Fetching::start(args)?;
    let Some(model) = runtime::load(&args.file, &MonitorInstruments)? else {
        return Ok(ExitStatus::NotMeasured);
    };
    // Show progress, because a plan for a thousand hosts takes seconds.
    let work = (args.plan || args.check).then(|| Work::of("planning"));
    let timetable = Timetable::new(&model);
    let host = args.host.as_deref().map(|name| runtime::named(&model, name)).transpose()?;
    if args.plan {
        let plan = MonitorPlan::new(&model, &timetable);
        let shown = match args.json {
            true => serde_json::to_string_pretty(&plan).context("writing the plan")? + "\n",
            false => text::plan(&model, &timetable, &plan, host, clock::wall()),
        };
        drop(work);
        terminal::print(&shown)?;
        return Ok(ExitStatus::Measured);
    }
    let shortfalls = timetable.shortfalls(&model);
    drop(work);
    for shortfall in shortfalls {
        warn!("{}: {shortfall}", args.file.display());
    }
    if args.check {
        // Only with --host: keys and certificates are on the host that reads them, which need not be this one.
        let faults = host.map(|host| runtime::check_files(&args.file, &model, host));
        if let Some(faults) = faults.filter(|faults| !faults.is_empty()) {
            faults.iter().for_each(|fault| error!("{}: {fault}", args.file.display()));
            return Ok(ExitStatus::NotMeasured);
        }
        terminal::print(&text::checked(&args.file, &model))?;
        return Ok(ExitStatus::Measured);
    }
    let signals = Signals::to_stop_or_reload()?;
    let settings = MonitorSettings {
        file: Some(args.file.clone()),
        host: args.host.clone(),
        archive: args.archive.clone(),
        duration: args.duration,
        equipment: Arc::new(MonitorInstruments),
        print: Arc::new(|text| terminal::print(text).map_err(io::Error::other)),
        confinement: args.confinement()?,
    };
    terminal::print(&text::counts(&runtime::run(&settings, model, timetable, &signals)?))?;
    Ok(ExitStatus::Measured)
}

/// Runs the commands of alerts until the monitor that started this process ends. Signals are for the monitor, which may have messages
/// to send before it ends.
fn run_commands(args: &MonitorArgs) -> Result<ExitStatus> {
    interrupt::ignore()?;
    let stream = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let stream = stream.context("--run-commands is for monitors, which pass messages to standard input")?;
    runtime::serve_commands(&args.file, args.archive.as_deref(), &MonitorInstruments, stream)?;
    Ok(ExitStatus::Measured)
}
