//! `--load`: the same test idle and loaded, compared.

use crate::exit::ExitStatus;
use crate::logs::TestLogs;
use crate::options::log::LogArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::ping::PingArgs;
use crate::options::report::ReportArgs;
use crate::output::report::shell_word;
use crate::output::{AnalysedStream, Report, screen, text};
use crate::{archive, console, interrupt, ping};
use anyhow::Result;
use jitlat_core::Span;
use jitlat_core::answer::Level;
use jitlat_core::metrics::objectives::responsiveness;
use jitlat_core::scalars::SCALARS;
use jitlat_core::summary::Summary;
use jitlat_core::units::{bit_rate, eng3, eng4_f64};
use jitlat_instruments::load::{Load, LoadStream, Phases};
use jitlat_instruments::{Instrument, OneWay};
use jitlat_report::Section;
use jitlat_report::text::screen::{Relation, Screen};
use jitlat_report::text::{Page, TextOptions};
use jitlat_store::log::{Journals, LogVersion, RowKind};
use jitlat_verdict as verdict;
use jitlat_verdict::compare::{Basis, Comparison};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tracing::error;

/// `jitlat HOST --load …`.
pub fn one_way(test: &OneWay, args: &OneWayArgs) -> Result<ExitStatus> {
    args.report.outputs.check_one_way(args.protocol.name())?;
    let own = Some((args.host_args.control_port, args.host_args.key_file.as_ref()));
    let load = args.load.settings(&test.settings.host, own)?;
    let rows = RowKind::OneWay(LogVersion::of(args.log.log_version).unwrap_or_default());
    run(test, Basis::Pdv, &load, (&args.log, rows), &args.report)
}

/// `jitlat ping HOST --load …`.
pub fn two_way(args: &PingArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    args.report.outputs.check_protocol(None)?;
    let test = args.settings()?;
    let load = args.load.settings(&args.host, None)?;
    let logs = (&args.log, ping::rows(&test));
    // Round trips are measured by one clock and can be compared directly.
    run(&test, Basis::Delay, &load, logs, &args.report)
}

fn run(
    instrument: &dyn Instrument,
    basis: Basis,
    load: &Load,
    (log, rows): (&LogArgs, RowKind),
    args: &ReportArgs,
) -> Result<ExitStatus> {
    let others: Vec<&Path> = log.output.iter().map(PathBuf::as_path).collect();
    args.check(2, &others)?;
    archive::check(log.archive.as_deref(), args.beside_log)?;
    let TestLogs { files, scratch } = TestLogs::phases(log, rows)?;
    let mut logs = files.into_iter().map(|file| Journals::new([file]));
    let (mut idle, mut loaded) = (logs.next(), logs.next());
    let stop = interrupt::stop()?;
    let phases = Phases::measure(instrument, load, basis, &args.options(), &stop, [&mut idle, &mut loaded])?;
    let close = |log: Option<Journals>| log.and_then(|log| log.close().pop()).unwrap_or_default();
    let closed = [idle, loaded].map(close);
    let logs = closed.iter().filter_map(|closed| closed.log.as_deref());
    let archived = archive::add_logs(log.archive.as_deref(), logs);
    let mut report = PhasesReport::new(phases, instrument.quantity(), args);
    for (run, closed) in report.runs.iter_mut().zip(&closed) {
        run.log = closed.log.clone().filter(|_| scratch.is_none());
    }
    let options = TextOptions { style: console::style(), ..TextOptions::default() };
    let whole = args.outputs.write(&report, || match args.quiet {
        true => text::line(&report.runs),
        false if args.is_full() => page(&report.phases, &report.runs, instrument.quantity(), &options),
        false => screen_of(&report.phases, &report.runs)
            .logged_to(
                &report.runs.iter().filter_map(|r| r.log.as_deref()).map(shell_word).collect::<Vec<_>>(),
            )
            .followed_by(&screen::again(), screen::EVERYTHING)
            .show(&screen::options()),
    });
    for trouble in closed.iter().flat_map(|log| &log.troubles) {
        error!("{trouble}");
    }
    let saved = archived && closed.iter().all(|log| log.troubles.is_empty());
    let [idle, loaded] = &report.runs;
    if !whole || !saved || idle.summary.counts.received + loaded.summary.counts.received == 0 {
        return Ok(ExitStatus::NotMeasured);
    }
    let violations: Vec<String> = args.fail_if.iter().filter_map(|c| c.violated(&loaded.summary)).collect();
    violations.iter().for_each(|v| error!("failed under load: {v}"));
    Ok(if violations.is_empty() { ExitStatus::Measured } else { ExitStatus::ThresholdViolated })
}

/// Both phases as an output [`Report`]: two streams and their comparison.
struct PhasesReport {
    phases: Phases,
    runs: [AnalysedStream; 2],
    quantity: &'static str,
    interval: Option<Span>,
    section: Section,
}

impl PhasesReport {
    fn new(mut phases: Phases, quantity: &'static str, report: &ReportArgs) -> PhasesReport {
        let (interval, corrected) = (report.analysis.interval, report.plot_corrected);
        let runs = [("idle", &mut phases.idle), ("loaded", &mut phases.loaded)].map(|(name, phase)| {
            AnalysedStream {
                summary: phase.analysed.summary.clone(),
                session: phase.analysed.session.clone(),
                samples: std::mem::take(&mut phase.analysed.samples),
                log: None,
                records: std::mem::take(&mut phase.records),
                tcp: Vec::new(),
                heading: String::new(),
                label: name.to_owned(),
                corrected,
                shown_windows: Vec::new(),
                file_ending: name.to_owned(),
                late: None,
            }
        });
        let section = Section {
            title: format!("{quantity}, idle and under load"),
            what: describe(&phases.streams).join("; "),
            screen: Some(screen_of(&phases, &runs)),
            ..Section::default()
        };
        PhasesReport { phases, runs, quantity, interval, section }
    }
}

impl Report for PhasesReport {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(PhasesDocument::new(&self.phases, &self.runs, self.quantity))?)
    }

    fn streams(&self) -> &[AnalysedStream] {
        &self.runs
    }

    fn interval(&self) -> Option<Span> {
        self.interval
    }

    fn section(&self) -> Option<&Section> {
        Some(&self.section)
    }
}

/// A test idle and under load, as a program reads it: `docs/formats/sweep.md`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhasesDocument<'a> {
    /// `jitlat phases 1`.
    format: &'static str,
    /// `round trip` or `one-way delay`.
    quantity: &'a str,
    /// The test without load.
    idle: &'a Summary,
    /// The test under load.
    loaded: &'a Summary,
    /// The streams of load.
    load: &'a [LoadStream],
    /// Loaded against idle.
    comparison: &'a Comparison,
    /// Round trips a minute; `null` for one-way tests.
    rpm_equivalent: Option<RoundTripsPerMinute>,
}

/// How many round trips follow each other in a minute, by the mean of the lower 95 % of them (docs/metrics,
/// responsiveness). The responsiveness draft's RPM is that of HTTP beside and within its own load; with `--proto tcp` and a
/// load by TCP this comes nearest to it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundTripsPerMinute {
    /// Without load.
    idle: f64,
    /// Under load.
    loaded: f64,
}

impl RoundTripsPerMinute {
    /// Of an idle and a loaded test; `None` where no round trips were measured.
    fn of(runs: &[AnalysedStream; 2]) -> Option<RoundTripsPerMinute> {
        let of = |run: &AnalysedStream| {
            let round_trips = run.samples.delay.iter().map(|ns| *ns as f64 / 1e6);
            run.summary.is_round_trip().then(|| responsiveness(round_trips.collect()))?
        };
        Some(RoundTripsPerMinute { idle: of(&runs[0])?, loaded: of(&runs[1])? })
    }
}

impl<'a> PhasesDocument<'a> {
    fn new(phases: &'a Phases, runs: &[AnalysedStream; 2], quantity: &'a str) -> PhasesDocument<'a> {
        PhasesDocument {
            format: "jitlat phases 1",
            quantity,
            idle: &phases.idle.analysed.summary,
            loaded: &phases.loaded.analysed.summary,
            load: &phases.streams,
            comparison: &phases.comparison,
            rpm_equivalent: RoundTripsPerMinute::of(runs),
        }
    }
}

/// Both phases, and what the load does.
fn screen_of(phases: &Phases, runs: &[AnalysedStream; 2]) -> Screen {
    let (level, text) = effect(&phases.comparison, runs);
    let mut screen = Screen::new(&screen::streams(runs), Relation::Load).led_by(level, &text);
    for line in describe(&phases.streams).iter().rev() {
        screen = screen.noting(&format!("load: {line}"));
    }
    screen
}

/// What the load does, in one sentence; it is as bad as the loaded path where that is worse than the idle one.
fn effect(c: &Comparison, runs: &[AnalysedStream; 2]) -> (Level, String) {
    let change = |ns: f64| format!("{}{}", if ns > 0.0 { "+" } else { "" }, eng3(ns));
    let (mut level, mut text) = verdict::comparison::of_load(c);
    if let Some([median, p99]) = own_queue(c, runs) {
        let (median, p99) = (change(median), change(p99));
        text = format!("Under load: the sender's own queue {median} at the median, {p99} at p99.");
    } else if let (Some(median), Some(p99)) = (c.median, c.p99) {
        let (median, p99) = (change(median.change), change(p99.change));
        let what = match runs[0].summary.is_round_trip() {
            true => "round trip",
            false => "delay above the smallest",
        };
        let rate = RoundTripsPerMinute::of(runs).map(|rpm| format!(" ({:.0}/min)", rpm.loaded));
        // It fits one line.
        text =
            format!("Under load: {what} {median} at the median, {p99} at p99{}.", rate.unwrap_or_default());
    }
    let [idle, loaded] = runs.each_ref().map(|run| run.summary.answer.as_ref().map(|a| a.severity));
    if let Some(severity) = loaded.filter(|_| loaded > idle) {
        level = severity.into();
    }
    (level, text)
}

/// How much longer packets wait in the sending host's own queue under load, at the median and the 99th percentile, in ns;
/// None where that is below a millisecond or less than the load adds on the path.
fn own_queue(c: &Comparison, [idle, loaded]: &[AnalysedStream; 2]) -> Option<[f64; 2]> {
    let (idle, loaded) = (idle.summary.local_queue.as_ref()?, loaded.summary.local_queue.as_ref()?);
    let p99 = (loaded.p99 - idle.p99) as f64;
    let of_path = c.p99.map_or(0.0, |p99| p99.change.abs());
    (p99 >= of_path.max(1e6)).then_some([loaded.median - idle.median, p99])
}

fn page(phases: &Phases, runs: &[AnalysedStream; 2], quantity: &str, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    let s = &runs[0].summary;
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
    for figure in SCALARS.iter().filter(|f| f.headline) {
        let values = [&runs[0], &runs[1]].map(|r| figure.of(&r.summary));
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
    if let Some(RoundTripsPerMinute { idle, loaded }) = RoundTripsPerMinute::of(runs) {
        page.item(&format!("{loaded:.0} round trips follow each other in a minute, {idle:.0} when idle"));
    }
    let (level, text) = verdict::comparison::of_load(c);
    page.finding(level, &text);
    page.finish()
}

/// The results of the load, one line per stream.
fn describe(streams: &[LoadStream]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for s in streams {
        if !names.contains(&s.load.as_str()) {
            names.push(&s.load);
        }
    }
    let line = |name: &&str| {
        let of: Vec<&LoadStream> = streams.iter().filter(|s| s.load == **name).collect();
        let offered: Option<f64> = of.iter().map(|s| s.offered_bps).sum();
        let arrived = of.iter().map(|s| s.received_bps.unwrap_or_default()).sum();
        let loss = of.iter().filter_map(|s| s.loss).fold(0.0, f64::max);
        let early = of.iter().find_map(|s| s.failure.as_ref()).map_or(String::new(), |f| format!("; {f}"));
        format!(
            "{name}: {}{} arrived{}{early}",
            bit_rate(arrived),
            offered.map_or_else(String::new, |offered| format!(" of {}", bit_rate(offered))),
            if loss > 0.0 { format!(", {:.2} % lost", loss * 100.0) } else { String::new() }
        )
    };
    names.iter().map(line).collect()
}
