//! [`PhasesReport`]: compares a test on the idle path with the same test under load.

use crate::error::Result;
use crate::report::{AnalysedStream, Report, shell_word};
use crate::{screen, terminal};
use jitlat_core::Span;
use jitlat_core::answer::Level;
use jitlat_core::metrics::objectives::responsiveness;
use jitlat_core::scalars::SCALARS;
use jitlat_core::summary::Summary;
use jitlat_core::units::{bit_rate, eng3, eng4_f64};
use jitlat_instruments::Analysed;
use jitlat_instruments::load::{LoadStream, Phases};
use jitlat_report::Section;
use jitlat_report::text::screen::{Relation, Screen};
use jitlat_report::text::{Page, TextOptions};
use jitlat_verdict as verdict;
use jitlat_verdict::compare::{Comparison, Difference};
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// Suggested next command if the names of the logs are long.
const ANALYZE: &str = "jitlat analyze -v, with the logs above";

/// Report of a test idle and under load: two streams and their comparison.
pub struct PhasesReport {
    phases: Phases,
    runs: [AnalysedStream; 2],
    quantity: &'static str,
    interval: Option<Span>,
    section: Section,
}

impl PhasesReport {
    /// Creates the report of `phases`, which measured `quantity`. `logs` are the logs of the idle and the loaded phase,
    /// if any. `interval` is the length of the windows that were analysed separately. If `corrected` is true, plots
    /// show delays corrected by the clock estimate.
    pub fn new(
        mut phases: Phases,
        quantity: &'static str,
        logs: [Option<PathBuf>; 2],
        interval: Option<Span>,
        corrected: bool,
    ) -> PhasesReport {
        let mut runs = [("idle", &mut phases.idle), ("loaded", &mut phases.loaded)].map(|(name, phase)| {
            let analysed = Analysed {
                session: phase.analysed.session.clone(),
                summary: phase.analysed.summary.clone(),
                samples: std::mem::take(&mut phase.analysed.samples),
            };
            AnalysedStream {
                records: std::mem::take(&mut phase.records),
                label: name.to_owned(),
                corrected,
                file_ending: name.to_owned(),
                ..analysed.into()
            }
        });
        let section = Section {
            title: format!("{quantity}, idle and under load"),
            what: describe(&phases.streams).join("; "),
            screen: Some(screen_of(&phases, &runs)),
            ..Section::default()
        };
        runs.iter_mut().zip(logs).for_each(|(run, log)| run.log = log);
        PhasesReport { phases, runs, quantity, interval, section }
    }

    /// Returns the streams: first idle, then under load.
    pub fn runs(&self) -> &[AnalysedStream; 2] {
        &self.runs
    }

    /// Returns the full report.
    pub fn full_text(&self) -> String {
        let options = TextOptions { style: terminal::style(), ..TextOptions::default() };
        page(&self.phases, &self.runs, self.quantity, &options)
    }

    /// Returns the report on one screen.
    pub fn one_screen(&self) -> String {
        let logs: Vec<String> = self.runs.iter().filter_map(|r| r.log.as_deref()).map(shell_word).collect();
        let (next, purpose, in_short) = match logs.is_empty() {
            true => (screen::again(), screen::MEASURED_AGAIN, screen::REPEATED),
            false => (format!("jitlat analyze {} -v", logs.join(" ")), screen::EVERYTHING, ANALYZE),
        };
        screen_of(&self.phases, &self.runs)
            .logged_to(&logs)
            .followed_by(&next, purpose)
            .in_short(in_short)
            .show(&screen::options())
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

/// Document of a test idle and under load: `docs/formats/sweep.md`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhasesDocument<'a> {
    /// Name and version of the format: `jitlat phases 1`.
    format: &'static str,
    /// Measured delay: `round trip` or `one-way delay`.
    quantity: &'a str,
    /// Results of the test without load.
    idle: &'a Summary,
    /// Results of the test under load.
    loaded: &'a Summary,
    /// Streams that formed the load.
    load: &'a [LoadStream],
    /// Comparison of the test under load with the idle test.
    comparison: &'a Comparison,
    /// Round trips per minute; `null` for one-way tests.
    rpm_equivalent: Option<RoundTripsPerMinute>,
}

/// Number of round trips per minute if each began when the previous one ended, computed from the mean of the lower 95 %
/// (docs/metrics, responsiveness). The RPM of the responsiveness draft is measured with HTTP requests, within the load
/// and next to it; `--proto tcp` with a TCP load comes closest to it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct RoundTripsPerMinute {
    /// Round trips per minute without load.
    idle: f64,
    /// Round trips per minute under load.
    loaded: f64,
}

impl RoundTripsPerMinute {
    /// Computes the values from an idle and a loaded test; `None` if no round trips were measured.
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

/// Returns the screen of both phases and the effect of the load.
fn screen_of(phases: &Phases, runs: &[AnalysedStream; 2]) -> Screen {
    let (level, text) = effect(&phases.comparison, runs);
    let mut screen = Screen::new(&screen::streams(runs), Relation::Load).led_by(level, &text);
    for line in describe(&phases.streams).iter().rev() {
        screen = screen.noting(&format!("load: {line}"));
    }
    screen
}

/// Describes the effect of the load in one sentence, with a level. If the verdict on the path is worse under load than
/// without, the level is that of the path under load.
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
            false => "jitter",
        };
        let rate = RoundTripsPerMinute::of(runs).map(|rpm| format!(" ({:.0}/min)", rpm.loaded));
        let rate = rate.unwrap_or_default();
        // The sentence must fit on one line.
        text = match [c.median, c.p99].into_iter().flatten().any(adds) {
            true => format!("Under load: {what} {median} at the median, {p99} at p99{rate}."),
            false => format!("Load adds nothing measurable to the {what}{rate}."),
        };
    }
    let [idle, loaded] = runs.each_ref().map(|run| run.summary.answer.as_ref().map(|a| a.severity));
    if let Some(severity) = loaded.filter(|_| loaded > idle) {
        level = severity.into();
    }
    (level, text)
}

/// True if the load increases a figure by more than the uncertainty of the difference.
fn adds(difference: Difference) -> bool {
    difference.ci95.map_or(difference.change, |[low, _]| low) > 0.0
}

/// Returns the additional wait in the sending host's own queue under load, at the median and the 99th percentile, in
/// ns. `None` if the 99th percentile increases by less than a millisecond, or by less than the delay that the load adds
/// on the path.
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
    page.heading("Effect of the load");
    let c = &phases.comparison;
    for (what, difference) in [("the median", c.median), ("the 99th percentile", c.p99)] {
        let Some(d) = difference else { continue };
        let range = d.ci95.map_or(String::new(), |[low, high]| {
            format!(", between {} and {} with 95 % confidence", eng4_f64(low), eng4_f64(high))
        });
        page.item(&format!("{what} changes by {}{range}", eng4_f64(d.change)));
    }
    if let Some(RoundTripsPerMinute { idle, loaded }) = RoundTripsPerMinute::of(runs) {
        page.item(&format!("{loaded:.0} consecutive round trips per minute, {idle:.0} when idle"));
    }
    let (level, text) = verdict::comparison::of_load(c);
    page.finding(level, &text);
    page.finish()
}

/// Returns the results of the load, one line per stream.
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
