//! The same test idle, then loaded, side by side.

use super::{Link, LoadArgs, Stream, beside, told};
use crate::cli::{ReportArgs, TestArgs};
use crate::instrument::{Instrument, Taken};
use crate::ping::PingArgs;
use crate::{console, interrupt};
use anyhow::{Result, bail};
use jitlat_core::compare::{Basis, Comparison, Outcome, Question, Side, Statistic, compare};
use jitlat_core::figures::FIGURES;
use jitlat_core::summary::Level;
use jitlat_core::units::eng4_f64;
use jitlat_report::text::{Options, Page};
use jitlat_store::output;
use std::path::Path;
use std::process::ExitCode;
use tracing::error;

/// `jitlat HOST --load …`.
pub fn one_way(args: &TestArgs) -> Result<ExitCode> {
    let report = &args.report;
    if has_other_outputs(report) || args.log.output.is_some() || args.stream.both || args.host_args.doctor {
        bail!("{ONE_FORM}, -b and --doctor");
    }
    let host = args.host.clone().unwrap_or_default();
    let own = Some((args.host_args.control_port, args.host_args.key_file.as_ref()));
    let link = Link::new(&args.load, &host, own)?;
    let instrument = Instrument::OneWay(Box::new(args.clone()));
    run(&instrument, &args.load, &link, report)
}

/// `jitlat ping HOST --load …`.
pub fn two_way(args: &PingArgs) -> Result<ExitCode> {
    if has_other_outputs(&args.report) || args.output.is_some() || args.doctor {
        bail!("{ONE_FORM} and --doctor");
    }
    let link = Link::new(&args.load, &args.host, None)?;
    let instrument = Instrument::TwoWay(Box::new(args.clone()));
    run(&instrument, &args.load, &link, &args.report)
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

/// Both phases, and what their difference is worth.
struct Phases {
    idle: Taken,
    loaded: Taken,
    streams: Vec<Stream>,
    comparison: Comparison,
}

fn run(instrument: &Instrument, args: &LoadArgs, link: &Link, report: &ReportArgs) -> Result<ExitCode> {
    let json = report.json.as_ref();
    let stop = interrupt::stop_flag()?;
    let duration = instrument.duration()?;
    let idle = instrument.take(&stop)?;
    let (loaded, streams) = beside(&args.load, link, duration, &stop, || instrument.take(&stop))?;
    // Round trips are of one clock and compare as they are. One-way delays hang on how well two clocks keep
    // together from one phase to the other, so their variation is compared.
    let basis = match instrument {
        Instrument::OneWay(_) => Basis::Pdv,
        Instrument::TwoWay(_) => Basis::Delay,
    };
    let side = |label, t: &Taken| {
        let side = Side::new(label, &t.summary, &t.samples, basis, Statistic::Median);
        let floor = if basis == Basis::Delay { 0.0 } else { side.floor };
        Side { floor, ..side }
    };
    let question = Question { basis, seed: 1, ..Question::default() };
    let comparison = compare(&side("idle", &idle), &side("loaded", &loaded), &question);
    let phases = Phases { idle, loaded, streams, comparison };
    if let Some(path) = json {
        let value = phases.json(instrument)?;
        output::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })?;
    }
    if json.is_none_or(|p| p != Path::new("-")) {
        let options = Options { style: console::style(), ..Options::default() };
        console::print(&phases.page(instrument, &options))?;
    }
    let received = phases.idle.summary.counts.received + phases.loaded.summary.counts.received;
    if received == 0 {
        return Ok(ExitCode::from(crate::COULD_NOT_MEASURE));
    }
    let loaded = &phases.loaded.summary;
    let violations: Vec<String> = report.fail_if.iter().filter_map(|c| c.violated(loaded)).collect();
    violations.iter().for_each(|v| error!("failed under load: {v}"));
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(crate::THRESHOLD_VIOLATED) })
}

impl Phases {
    fn json(&self, instrument: &Instrument) -> Result<serde_json::Value> {
        Ok(serde_json::json!({
            "format": "jitlat phases 1",
            "quantity": instrument.quantity(),
            "idle": self.idle.summary,
            "loaded": self.loaded.summary,
            "load": self.streams,
            "comparison": self.comparison,
        }))
    }

    fn page(&self, instrument: &Instrument, options: &Options) -> String {
        let mut page = Page::new(options);
        let s = &self.idle.summary;
        page.line(&format!(
            "{} to {}: {} packets of {} bytes, idle and under load",
            instrument.quantity(),
            s.header.dst_ip.as_deref().unwrap_or("-"),
            s.counts.sent,
            s.header.pktlen
        ));
        page.heading("Load");
        told(&self.streams).iter().for_each(|line| page.item(line));
        page.heading(&format!("{:<24} {:>14} {:>14}", "", "idle", "loaded"));
        for figure in FIGURES.iter().filter(|f| f.headline) {
            let values = [&self.idle, &self.loaded].map(|t| figure.of(&t.summary));
            if values.iter().any(Option::is_some) {
                let [a, b] = values.map(|v| v.map_or_else(|| "-".to_owned(), |v| figure.show(v)));
                page.line(&format!("{:<24} {a:>14} {b:>14}", figure.label));
            }
        }
        page.heading("What the load does");
        let c = &self.comparison;
        for (what, difference) in [("the median", c.median), ("the 99th percentile", c.p99)] {
            let Some(d) = difference else { continue };
            let range = d.ci95.map_or(String::new(), |[low, high]| {
                format!(", between {} and {} with 95 % confidence", eng4_f64(low), eng4_f64(high))
            });
            page.item(&format!("{what} changes by {}{range}", eng4_f64(d.change)));
        }
        let (level, text) = match c.outcome {
            Outcome::Different => (Level::Note, "The load makes a difference"),
            Outcome::Same => (Level::Good, "The load makes no difference worth the name"),
            Outcome::Undecided | Outcome::Refused => (Level::Note, "Not decided"),
        };
        page.finding(level, &format!("{text}: {}.", c.because));
        page.finish()
    }
}
