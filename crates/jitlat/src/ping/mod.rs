//! `jitlat ping`: two-way tests against whatever answers: ICMP, STAMP, TWAMP Light, LaMP, TCP.
//!
//! * [`args`] – the command line, and what it comes to
//! * [`measure`] – one test; a file for each protocol
//! * [`report`] – what is shown of it

mod args;
mod icmp;
mod lamp;
mod measure;
mod report;
mod stamp;
mod tcp;

pub use args::PingArgs;
pub use stamp::stamp_key;

use crate::doctor;
use crate::interrupt;
use anyhow::{Context, Result};
use args::{plan, resolve};
use jitlat_core::analysis::Samples;
use jitlat_core::summary::Summary;
use jitlat_net::twoway::client::Progress;
use jitlat_store::log::{LogFile, Naming, Version};
use jitlat_store::output;
use measure::measure;
use report::Analysed;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Measures and reports.
pub fn run(args: &PingArgs) -> Result<ExitCode> {
    let to = resolve(args)?;
    let plan = plan(args)?;
    let log = match &args.output {
        Some(path) => Some(LogFile::create(&Naming::Given(path.clone()), Version::V3)?),
        None => None,
    };
    let stop = interrupt::stop_flag()?;
    let noise = args
        .doctor
        .then(|| doctor::floor_two_way(&plan, args.pace, args.stamps, &stop))
        .and_then(doctor::told);
    let line = ProgressLine::new(plan.spec.packets().into());
    let found = measure(args, to, &plan, &stop, |p| line.show(p));
    ProgressLine::clear();
    let mut found = found?;
    found.session.client.noise = noise;

    if let Some(log) = log {
        report::write_log(log, &found)?;
    }
    if let Some(path) = &args.csv {
        output::write(path, |out| report::write_csv(out, &found))?;
    }
    let result = Analysed::analyse(&found);
    if let Some(path) = &args.json {
        let value = result.json(args, &found)?;
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    let silent = [&args.json, &args.csv].iter().any(|p| p.as_deref() == Some(Path::new("-")));
    if !silent {
        match io::stdout().lock().write_all(result.console(args, to, &found).as_bytes()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.context("writing the report to standard output")?,
        }
    }
    Ok(if found.requests > 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

#[allow(dead_code, reason = "for `jitlat sweep`, which follows")]
/// A finished test without a report of its own: for sweeps, and for one phase beside another.
pub struct Taken {
    /// Its round trips.
    pub summary: Summary,
    /// The packets behind them.
    pub samples: Samples,
    /// The way there and the way back, where the protocol tells.
    pub ways: Option<[Summary; 2]>,
}

#[allow(dead_code, reason = "for `jitlat sweep`, which follows")]
/// Measures as [`run`] does, in silence and without files.
pub fn take(args: &PingArgs, stop: &AtomicBool) -> Result<Taken> {
    let to = resolve(args)?;
    let found = measure(args, to, &plan(args)?, stop, |_| {})?;
    let (result, samples) = Analysed::with_samples(&found);
    Ok(Taken { summary: result.round_trip, samples, ways: result.up.zip(result.down).map(<[_; 2]>::from) })
}

/// Requests and losses so far, on a terminal only.
struct ProgressLine {
    total: u64,
}

impl ProgressLine {
    fn new(total: u64) -> ProgressLine {
        ProgressLine { total }
    }

    fn show(&self, p: Progress) {
        if io::stderr().is_terminal() {
            eprint!("\r{} of {} sent, {} answered ", p.sent, self.total, p.answered);
        }
    }

    fn clear() {
        if io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}
