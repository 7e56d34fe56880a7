//! `jitlat doctor`: checks how much this host adds to measured figures, why, and how to reduce it.

use crate::exit::ExitStatus;
use crate::interrupt;
use crate::options::outputs::Outputs;
use anyhow::Result;
use clap::Args;
use jitlat_core::quantity;
use jitlat_core::spec::MAX_PAYLOAD;
use jitlat_core::{NoiseFloor, Span};
use jitlat_instruments::doctor::{Checkup, CheckupTraffic, judge};
use jitlat_output::ReportParts;
use jitlat_output::checkup::CheckupReport;
use jitlat_output::terminal;
use jitlat_report::text;
use tracing::{info, warn};

/// Check clocks, wake-ups, stamps, buffers and scheduling of this host, with remedies
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Period of the planned tests (20ms; a bare number is ns)
    #[arg(short = 'p', value_name = "PERIOD", value_parser = quantity::period, default_value = "20ms")]
    pub period: Span,
    /// Payload of the planned tests, in bytes
    #[arg(short = 'l', value_name = "BYTES", default_value_t = 80, value_parser = clap::value_parser!(u16).range(12..=i64::from(MAX_PAYLOAD)))]
    pub payload: u16,
    /// Duration of the checkup; a longer one finds rarer stalls
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "6s")]
    pub duration: Span,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::NOTHING.0 }>,
}

/// Runs the checkup of this host and prints the findings.
pub fn run(args: &DoctorArgs) -> Result<ExitStatus> {
    args.outputs.check(0, &[])?;
    let stop = interrupt::stop()?;
    let question = CheckupTraffic { period: args.period, payload: args.payload, duration: args.duration };
    if terminal::is_terminal() && !args.outputs.is_silent() {
        // Print one line instead of progress, because drawing progress would disturb the measurement.
        info!("measuring this host; with default settings this takes about 7 s");
    }
    let checkup = Checkup::make(&question, &stop);
    let findings = judge(&checkup);
    let report = CheckupReport { checkup: &checkup, findings: &findings };
    let options = text::TextOptions { style: terminal::style(), ..text::TextOptions::default() };
    let whole = args.outputs.write(&report, || report.page(&options));
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Returns the noise floor of a test; if it could not be measured, logs a warning and returns `None`.
pub fn floor_or_warning(floor: Result<NoiseFloor, String>) -> Option<NoiseFloor> {
    floor.inspect_err(|why| warn!("this host's noise floor could not be measured: {why}")).ok()
}
