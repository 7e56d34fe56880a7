//! `jitlat monitor`: many paths, all the time, from one file that all hosts have.
//!
//! * [`instruments`] – what tests can measure with; [`given`] – options in the file
//! * [`measure`] – one test; [`job`] – one of the timetable; [`demand`] – one that is asked for on the page
//! * [`run`] – the monitor at work; [`access`] – keys and the server; [`page`] – the page; [`own`] – which host this is
//! * [`captures`] – what passes interfaces
//! * [`push`] – tests to collectors; [`collect`] – those of other hosts into the archive
//! * [`alerts`] – what follows from results, and who gets messages
//! * [`show`] – the plan and the counts, for people

mod access;
mod alerts;
mod captures;
mod collect;
mod demand;
mod given;
pub mod instruments;
mod job;
pub mod measure;
mod own;
mod page;
mod push;
mod run;
mod show;

use crate::console;
use crate::exit::Status;
use anyhow::{Context, Result, bail};
use clap::Args;
use instruments::Known;
use jitlat_core::{Span, quantity};
use jitlat_monitor::file::{keys, read};
use jitlat_monitor::{Model, Plan, Timetable};
use jitlat_net::clock;
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// Measure many paths all the time: one file says which, and is the same on all hosts
#[derive(Clone, Debug, Args)]
pub struct MonitorArgs {
    /// The file: hosts, groups, tests and their times, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Say what is wrong with the file, each with line and column, or that nothing is, and end
    #[arg(long)]
    check: bool,
    /// Print the timetable, and what it means for each host: tests, traffic, disk, load; and end
    #[arg(long, conflicts_with = "check")]
    plan: bool,
    /// Print the plan as one JSON object
    #[arg(long, requires = "plan")]
    json: bool,
    /// The host of the file that this one is (default: that with its name, or with an address of its interfaces); with
    /// --plan its next tests are listed
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Keep results in this archive instead of that of the file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "plan"])]
    archive: Option<PathBuf>,
    /// End after this time (30s, 10m; a bare number is seconds) instead of running until it is stopped
    #[arg(long = "for", value_name = "T", value_parser = quantity::duration, conflicts_with_all = ["check", "plan"])]
    duration: Option<Span>,
}

impl MonitorArgs {
    /// Whether it measures.
    pub fn runs_long(&self) -> bool {
        !self.check && !self.plan
    }
}

/// Measures, or checks the file, or prints its plan.
pub fn run(args: &MonitorArgs) -> Result<Status> {
    let Some(model) = load(&args.file)? else { return Ok(Status::NotMeasured) };
    let timetable = Timetable::new(&model);
    let host = args.host.as_deref().map(|name| named(&model, name)).transpose()?;
    if args.plan {
        let plan = Plan::new(&model, &timetable);
        let text = match args.json {
            true => serde_json::to_string_pretty(&plan).context("writing the plan")? + "\n",
            false => show::plan(&model, &timetable, &plan, host, clock::wall()),
        };
        console::print(&text)?;
        return Ok(Status::Measured);
    }
    for shortfall in timetable.shortfalls(&model) {
        warn!("{}: {shortfall}", args.file.display());
    }
    if args.check {
        console::print(&show::checked(&args.file, &model))?;
        return Ok(Status::Measured);
    }
    run::run(args, model, timetable)?;
    Ok(Status::Measured)
}

/// Reads the file; `None` if something is wrong with it, which is in the log then.
fn load(path: &Path) -> Result<Option<Model>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
    match read(&text, &Known) {
        Ok(model) => Ok(Some(model)),
        Err(faults) => {
            for fault in &faults {
                error!("{name}:{fault}");
            }
            Ok(None)
        }
    }
}

/// The host of this name.
fn named(model: &Model, name: &str) -> Result<usize> {
    if let Some(host) = model.host(name) {
        return Ok(host);
    }
    let names: Vec<&str> = model.hosts.iter().map(|h| h.name.as_str()).collect();
    bail!("--host: there is no host '{name}': {}", keys::choose(name, &names))
}
