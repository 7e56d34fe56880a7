//! `jitlat doctor`: can this host be trusted? What it adds to every figure, why, and what to change.
//!
//! * [`checkup`] – measures and asks the kernel
//! * [`judge`] – what follows from it
//! * [`show`] – for people

pub mod checkup;
mod judge;
mod show;

pub use judge::{Finding, judge};

use crate::cli::quantity;
use crate::{console, interrupt};
use anyhow::Result;
use checkup::{Checkup, Question};
use clap::Args;
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{Direction, NoiseFloor, Schedule, Source, Span, TestSpec, Transport};
use jitlat_net::pace::{Mode, Pacing};
use jitlat_net::stamp::Stamps;
use jitlat_proto::twoway::Plan;
use jitlat_report::text;
use jitlat_store::output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use tracing::warn;

/// Can this host be trusted: clocks, wake-ups, stamps, buffers, scheduling; and what to change
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Period of the tests you mean to run (20ms; a bare number is ns)
    #[arg(short = 'p', value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms")]
    pub period: Span,
    /// Payload bytes of their packets
    #[arg(short = 'l', value_name = "BYTES", default_value_t = 80, value_parser = clap::value_parser!(u16).range(12..=i64::from(MAX_PAYLOAD)))]
    pub payload: u16,
    /// How long the whole examination may take; longer ones resolve rarer stalls
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "6s")]
    pub duration: Span,
    /// Write one JSON object to FILE; - is standard output, and then nothing else goes there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Examines this host and says what to make of it.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let stop = interrupt::stop_flag()?;
    let question = Question { period: args.period, payload: args.payload, duration: args.duration };
    let checkup = Checkup::make(&question, &stop);
    let findings = judge(&checkup);
    if let Some(path) = &args.json {
        let value = checkup.json(&findings)?;
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        let options = text::Options { style: console::style(), ..text::Options::default() };
        console::print(&show::page(&checkup, &findings, &options))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How long the noise floor is measured before a test that asks for it.
const BEFORE_A_TEST: Span = Span::seconds(3);

/// The noise floor for the one-way stream `spec`; `Err` says why there is none.
pub fn floor(
    spec: &TestSpec,
    pacing: &Pacing,
    stamps: Source,
    stop: &AtomicBool,
) -> Result<NoiseFloor, String> {
    checkup::floor(spec, pacing, BEFORE_A_TEST, stop, |spec| checkup::one_way(spec, pacing, stamps, stop))
}

/// The noise floor for the two-way test `plan`; `Err` says why there is none.
pub fn floor_two_way(
    plan: &Plan,
    mode: Mode,
    stamps: Stamps,
    stop: &AtomicBool,
) -> Result<NoiseFloor, String> {
    let pacing = Pacing { mode, ..Pacing::default() };
    // Stop and wait has a period only in the baseline's planning.
    let period = plan.wait.map_or(plan.spec.period(), |w| w.max(Span::millis(1)));
    let (packets, payload) = (plan.spec.packets().into(), plan.spec.payload().into());
    let spec = TestSpec::new(Direction::Up, Transport::Udp, packets, payload, period, Schedule::Periodic);
    checkup::floor(&spec.map_err(|e| e.to_string())?, &pacing, BEFORE_A_TEST, stop, |spec| {
        let wait = plan.wait.map(|w| w.min(spec.period()));
        checkup::two_way(Plan { spec: spec.clone(), wait, ..plan.clone() }, &pacing, stamps, stop)
    })
}

/// Says why there is no floor; a test goes on without.
pub fn told(floor: Result<NoiseFloor, String>) -> Option<NoiseFloor> {
    floor.inspect_err(|why| warn!("this host's noise floor could not be measured: {why}")).ok()
}
