//! `jitlat spp --one-point`: round trips from the captures of one point.

use super::SppArgs;
use crate::exit::ExitStatus;
use crate::interrupt;
use anyhow::{Result, bail};
use jitlat_instruments::passive::one_point;
use jitlat_output::WantedOutputs;
use jitlat_output::captures::OnePointReport;
use jitlat_passive::OnePointResult;
use jitlat_report::text;

/// Runs `jitlat spp --one-point`.
pub fn run(args: &SppArgs) -> Result<ExitStatus> {
    let outputs = &args.report.outputs;
    let wanted: &WantedOutputs = outputs;
    if let Some((output, _)) = wanted.outputs.iter().find(|(output, _)| output.name != "json") {
        bail!("{} needs two points: leave out --one-point", output.spelling());
    }
    outputs.check(0, &[])?;
    let found = one_point(&args.one_point, &interrupt::stop()?)?;
    if found.flows.is_empty() {
        let OnePointResult { packets, skipped, notes, .. } = found;
        let notes: String = notes.iter().map(|note| format!("\n  {note}")).collect();
        if packets + skipped == 0 {
            let whole = if notes.contains("fragments") { "whole packets" } else { "packets" };
            bail!("these captures contain no {whole}{notes}");
        }
        bail!(
            "no TCP or QUIC in these captures (IP packets: {packets}, other frames: {skipped}), but \
             --one-point measures nothing else: give two points, or another capture{notes}"
        );
    }
    let report = OnePointReport(&found);
    let measured = found.flows.iter().any(|flow| flow.why_not.is_none());
    let whole = outputs.write(&report, || text::one_point(&found, args.top));
    Ok(if whole && measured { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}
