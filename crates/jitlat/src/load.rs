//! The same test idle, then loaded, side by side.

use crate::exit::Status;
use crate::options::one_way::OneWayArgs;
use crate::options::ping::PingArgs;
use crate::options::report::ReportArgs;
use crate::{console, interrupt};
use anyhow::{Result, bail};
use jitlat_core::compare::Basis;
use jitlat_core::figures::FIGURES;
use jitlat_core::units::{bit_rate, eng4_f64};
use jitlat_core::verdict;
use jitlat_instruments::load::{Load, LoadStream, Phases};
use jitlat_instruments::{Instrument, OneWay};
use jitlat_report::text::{Options, Page};
use jitlat_store::output;
use std::path::Path;
use tracing::error;

/// `jitlat HOST --load …`.
pub fn one_way(test: &OneWay, args: &OneWayArgs) -> Result<Status> {
    let report = &args.report;
    if has_other_outputs(report) || args.log.output.is_some() || args.stream.both || args.host_args.doctor {
        bail!("{ONE_FORM}, -b and --doctor");
    }
    let own = Some((args.host_args.control_port, args.host_args.key_file.as_ref()));
    run(test, Basis::Pdv, &args.load.settings(&test.host, own)?, report)
}

/// `jitlat ping HOST --load …`.
pub fn two_way(args: &PingArgs) -> Result<Status> {
    if has_other_outputs(&args.report) || args.output.is_some() || args.doctor {
        bail!("{ONE_FORM} and --doctor");
    }
    args.protocol.check()?;
    // Round trips are of one clock and compare as they are.
    run(&args.settings()?, Basis::Delay, &args.load.settings(&args.host, None)?, &args.report)
}

const ONE_FORM: &str =
    "--load compares two phases and writes --json only: measure each by itself for logs, other reports";

fn has_other_outputs(report: &ReportArgs) -> bool {
    let others = [
        &report.csv,
        &report.html,
        &report.plots,
        &report.summary_csv,
        &report.openmetrics,
        &report.intervals,
        &report.hdr,
    ];
    others.iter().any(|o| o.is_some())
}

fn run(instrument: &dyn Instrument, basis: Basis, load: &Load, report: &ReportArgs) -> Result<Status> {
    let stop = interrupt::stop()?;
    let phases = Phases::measure(instrument, load, basis, &report.options(), &stop)?;
    if let Some(path) = &report.json {
        let value = json(&phases, instrument.quantity());
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    if report.json.as_deref() != Some(Path::new("-")) {
        let options = Options { style: console::style(), ..Options::default() };
        console::print(&page(&phases, instrument.quantity(), &options))?;
    }
    let [idle, loaded] = [&phases.idle, &phases.loaded].map(|p| &p.analysed.summary);
    if idle.counts.received + loaded.counts.received == 0 {
        return Ok(Status::NotMeasured);
    }
    let violations: Vec<String> = report.fail_if.iter().filter_map(|c| c.violated(loaded)).collect();
    violations.iter().for_each(|v| error!("failed under load: {v}"));
    Ok(if violations.is_empty() { Status::Measured } else { Status::ThresholdViolated })
}

fn json(phases: &Phases, quantity: &str) -> serde_json::Value {
    serde_json::json!({
        "format": "jitlat phases 1",
        "quantity": quantity,
        "idle": phases.idle.analysed.summary,
        "loaded": phases.loaded.analysed.summary,
        "load": phases.streams,
        "comparison": phases.comparison,
    })
}

fn page(phases: &Phases, quantity: &str, options: &Options) -> String {
    let mut page = Page::new(options);
    let s = &phases.idle.analysed.summary;
    page.line(&format!(
        "{} to {}: {} packets of {} bytes, idle and under load",
        quantity,
        s.header.dst_ip.as_deref().unwrap_or("-"),
        s.counts.sent,
        s.header.pktlen
    ));
    page.heading("Load");
    describe(&phases.streams).iter().for_each(|line| page.item(line));
    page.heading(&format!("{:<24} {:>14} {:>14}", "", "idle", "loaded"));
    for figure in FIGURES.iter().filter(|f| f.headline) {
        let values = [&phases.idle, &phases.loaded].map(|p| figure.of(&p.analysed.summary));
        if values.iter().any(Option::is_some) {
            let [a, b] = values.map(|v| v.map_or_else(|| "-".to_owned(), |v| figure.show(v)));
            page.line(&format!("{:<24} {a:>14} {b:>14}", figure.label));
        }
    }
    page.heading("What the load does");
    let c = &phases.comparison;
    for (what, difference) in [("the median", c.median), ("the 99th percentile", c.p99)] {
        let Some(d) = difference else { continue };
        let range = d.ci95.map_or(String::new(), |[low, high]| {
            format!(", between {} and {} with 95 % confidence", eng4_f64(low), eng4_f64(high))
        });
        page.item(&format!("{what} changes by {}{range}", eng4_f64(d.change)));
    }
    let (level, text) = verdict::comparison::of_load(c);
    page.finding(level, &text);
    page.finish()
}

/// What became of the load, in lines.
fn describe(streams: &[LoadStream]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for s in streams {
        if !names.contains(&s.load.as_str()) {
            names.push(&s.load);
        }
    }
    let line = |name: &&str| {
        let of: Vec<&LoadStream> = streams.iter().filter(|s| s.load == **name).collect();
        let sum = |f: fn(&LoadStream) -> f64| of.iter().map(|s| f(s)).sum::<f64>();
        let loss = of.iter().filter_map(|s| s.loss).fold(0.0, f64::max);
        let early = of.iter().find_map(|s| s.failure.as_ref()).map_or(String::new(), |f| format!("; {f}"));
        format!(
            "{name}: {} of {} arrived{}{early}",
            bit_rate(sum(|s| s.received_bps.unwrap_or_default())),
            bit_rate(sum(|s| s.offered_bps)),
            if loss > 0.0 { format!(", {:.2} % lost", loss * 100.0) } else { String::new() }
        )
    };
    names.iter().map(line).collect()
}
