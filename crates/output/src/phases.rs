//! [`PhasesReport`]: compares a test on the idle path with the same test under load.

use crate::error::Result;
use crate::report::{AnalysedStream, Report, shell_word};
use crate::{screen, terminal};
use jitlat_core::Span;
use jitlat_core::answer::Level;
use jitlat_core::load::{LoadStream, LoadThroughput, TestLoad, TestPhase};
use jitlat_core::metrics::objectives::responsiveness;
use jitlat_core::scalars::SCALARS;
use jitlat_core::spec::Direction;
use jitlat_core::summary::Summary;
use jitlat_core::units::{bit_rate3, eng4_f64};
use jitlat_instruments::load::Phases;
use jitlat_report::Section;
use jitlat_report::figure::{Figure, PhaseDrawing, Trace, label_measured, under_load};
use jitlat_report::text::screen::{Relation, Screen};
use jitlat_report::text::{Page, TextOptions};
use jitlat_verdict as verdict;
use jitlat_verdict::compare::Comparison;
use jitlat_verdict::load::{AddedDelay, GRADE_SOURCE, LoadEffect, LoadGrade, LoadState, PhaseTest};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Suggested next command if the names of the logs are long.
const ANALYZE: &str = "jitlat analyze -v, with the logs above";

/// Report of a test idle and under load: two streams for each direction, and the effect of the load.
pub struct PhasesReport {
    load: TestLoad,
    effects: Vec<LoadEffect>,
    /// The streams: for each direction first idle, then under load.
    runs: Vec<AnalysedStream>,
    quantity: &'static str,
    interval: Option<Span>,
    section: Section,
}

impl PhasesReport {
    /// Creates the report of `phases`. `logs` are the logs of the idle and the loaded phase of each stream, if any. `interval`
    /// is the length of the windows that were analysed separately. If `corrected` is true, plots show delays corrected by
    /// the clock estimate.
    pub fn new(
        phases: Phases,
        logs: Vec<[Option<PathBuf>; 2]>,
        interval: Option<Span>,
        corrected: bool,
    ) -> PhasesReport {
        let Phases { streams, load } = phases;
        let (mut runs, mut effects) = (Vec::new(), Vec::new());
        let mut logs = logs.into_iter();
        for stream in streams {
            effects.push(stream.effect);
            for (phase, log) in [stream.idle, stream.loaded].into_iter().zip(logs.next().unwrap_or_default())
            {
                let records = phase.records;
                runs.push(AnalysedStream { records, corrected, log, ..phase.analysed.into() });
            }
        }
        PhasesReport::named_by_phase(load, effects, runs, interval)
    }

    /// Creates the report of saved streams that are the phases of one test.
    ///
    /// # Errors
    /// The streams, unchanged, if they are not.
    pub fn of_saved(
        runs: Vec<AnalysedStream>,
        interval: Option<Span>,
    ) -> std::result::Result<PhasesReport, Vec<AnalysedStream>> {
        let phase = |run: &AnalysedStream| run.session.load.as_ref().map(|load| load.phase);
        let of_path = |run: &AnalysedStream| (run.session.src, run.session.dst, run.session.spec.direction());
        let (loaded, idle): (Vec<&AnalysedStream>, Vec<&AnalysedStream>) =
            runs.iter().partition(|run| phase(run) == Some(TestPhase::Loaded));
        let pairs: Vec<_> = loaded
            .iter()
            .filter_map(|loaded| {
                let fits = |idle: &&&AnalysedStream| {
                    phase(idle) == Some(TestPhase::Idle) && of_path(idle) == of_path(loaded)
                };
                Some((*idle.iter().find(fits)?, *loaded))
            })
            .collect();
        let load = loaded.first().and_then(|run| run.session.load.as_deref().cloned());
        let Some(load) = load.filter(|_| idle.len() == pairs.len() && loaded.len() == pairs.len()) else {
            return Err(runs);
        };
        let effects = pairs.iter().map(|(idle, loaded)| {
            let test = |run| {
                let run: &AnalysedStream = run;
                PhaseTest { session: &run.session, summary: &run.summary, samples: &run.samples }
            };
            LoadEffect::of(test(idle), test(loaded), &load)
        });
        let effects = effects.collect();
        // In the order of the pairs.
        let at = |run: &AnalysedStream| runs.iter().position(|other| std::ptr::eq(other, run));
        let order: Vec<usize> =
            pairs.iter().flat_map(|(idle, loaded)| [at(idle), at(loaded)]).flatten().collect();
        let mut runs: Vec<Option<AnalysedStream>> = runs.into_iter().map(Some).collect();
        let runs = order.into_iter().filter_map(|k| runs[k].take()).collect();
        Ok(PhasesReport::named_by_phase(load, effects, runs, interval))
    }

    /// Creates the report of `runs`: for each direction first idle, then under load.
    fn named_by_phase(
        load: TestLoad,
        effects: Vec<LoadEffect>,
        mut runs: Vec<AnalysedStream>,
        interval: Option<Span>,
    ) -> PhasesReport {
        for (run, name) in runs.iter_mut().zip(["idle", "loaded"].into_iter().cycle()) {
            let direction = in_short(run.session.spec.direction());
            let [label, file_ending] = match effects.len() {
                1 => [name.to_owned(), name.to_owned()],
                _ => [format!("{direction} {name}"), format!("{name}.{direction}")],
            };
            (run.label, run.file_ending) = (label, file_ending);
        }
        let round_trip = runs.first().is_some_and(|run| run.summary.is_round_trip());
        let quantity = if round_trip { "round trip" } else { "one-way delay" };
        let mut report =
            PhasesReport { load, effects, runs, quantity, interval, section: Section::default() };
        report.section = Section {
            title: format!("{quantity}, idle and under load"),
            what: describe(&report.load).join("; "),
            screen: Some(report.screen()),
            figures: report.figures(),
            ..Section::default()
        };
        report
    }

    /// Returns the streams: for each direction first idle, then under load.
    pub fn runs(&self) -> &[AnalysedStream] {
        &self.runs
    }

    /// Returns the streams of each direction, idle and under load, with the effect of the load.
    fn streams(&self) -> impl Iterator<Item = ([&AnalysedStream; 2], &LoadEffect)> {
        let pairs = self.runs.as_chunks::<2>().0.iter();
        pairs.zip(&self.effects).map(|([idle, loaded], effect)| ([idle, loaded], effect))
    }

    /// Returns the effects of the load, each with the direction of its stream; `None` for round trips.
    pub fn effects(&self) -> Vec<(Option<Direction>, &LoadEffect)> {
        let of = |(runs, effect): ([&AnalysedStream; 2], _)| {
            let direction = runs[0].session.spec.direction();
            (Some(direction).filter(|_| !runs[0].summary.is_round_trip()), effect)
        };
        self.streams().map(of).collect()
    }

    /// Returns the direction to name: `None` if the test has only one.
    fn named(&self, run: &AnalysedStream) -> Option<Direction> {
        (self.effects.len() > 1).then(|| run.session.spec.direction())
    }

    /// Returns the full report.
    pub fn full_text(&self) -> String {
        let options = TextOptions { style: terminal::style(), ..TextOptions::default() };
        let mut page = Page::new(&options);
        let first = self.runs.first().map(|run| &run.summary);
        if let Some(s) = first {
            page.line(&format!(
                "{} to {}: {} packets of {} bytes, idle and under load",
                self.quantity,
                s.header.dst_ip.as_deref().unwrap_or("-"),
                s.counts.sent,
                s.header.pktlen
            ));
        }
        page.heading("Load");
        describe(&self.load).iter().for_each(|line| page.item(line));
        for (runs, effect) in self.streams() {
            stream_text(&mut page, runs, effect, self.named(runs[0]));
        }
        page.finish()
    }

    /// Returns the report on one screen.
    pub fn one_screen(&self) -> String {
        let logs: Vec<String> = self.runs.iter().filter_map(|r| r.log.as_deref()).map(shell_word).collect();
        let (next, purpose, in_short) = match logs.is_empty() {
            true => (screen::again(), screen::MEASURED_AGAIN, screen::REPEATED),
            false => (format!("jitlat analyze {} -v", logs.join(" ")), screen::EVERYTHING, ANALYZE),
        };
        self.screen().logged_to(&logs).followed_by(&next, purpose).in_short(in_short).show(&screen::options())
    }

    /// Returns the screen of all streams and the effect of the load.
    fn screen(&self) -> Screen {
        let mut screen = Screen::new(&screen::streams(&self.runs), Relation::Load);
        let streams: Vec<_> = self.streams().collect();
        let effects: Vec<_> = self
            .effects()
            .into_iter()
            .map(|(direction, effect)| (direction, effect, self.load.received_bps(direction)))
            .collect();
        if let Some(text) = verdict::load::for_provider(&effects) {
            screen = screen.led_by(Level::Note, &text);
        }
        for (direction, effect, _) in &effects {
            if let Some(grade) = effect.grade.as_ref().map(|graded| graded.grade) {
                let way = direction.map_or_else(String::new, |direction| format!(" {}", in_short(direction)));
                screen = screen.graded(grade.severity().into(), grade.name(), &format!("bufferbloat{way}"));
            }
        }
        for ([idle, loaded], effect) in streams.iter().rev() {
            let (mut level, text) =
                verdict::load::headline(effect, loaded.summary.is_round_trip(), self.named(loaded));
            // A path that is worse under load than without has the level of the path under load.
            let [idle, loaded] = [idle, loaded].map(|run| run.summary.answer.as_ref().map(|a| a.severity));
            if let Some(severity) = loaded.filter(|_| loaded > idle) {
                level = level.max(severity.into());
            }
            screen = screen.led_by(level, &text);
        }
        for (_, effect) in streams.iter().rev() {
            if let Some(reason) = verdict::load::ungraded(effect) {
                screen = screen.noting(&reason);
            }
        }
        for line in describe(&self.load).iter().rev() {
            screen = screen.noting(&format!("load: {line}"));
        }
        screen
    }

    /// Draws delay and throughput over time, one figure for each direction.
    fn figures(&self) -> Vec<Figure> {
        let of = |(runs, effect): ([&AnalysedStream; 2], &LoadEffect)| {
            let traces = runs.map(|run| Trace::of(&run.session, &run.samples));
            let drawing = |k: usize| PhaseDrawing {
                summary: &runs[k].summary,
                trace: &traces[k],
                base: effect.bases[k],
            };
            let mut figure = under_load([drawing(0), drawing(1)], &self.load);
            label_measured(figure.as_mut_slice(), &runs[0].summary.measured().unwrap_or_default());
            figure
        };
        self.streams().filter_map(of).collect()
    }

    fn document<'a>(
        &'a self,
        [idle, loaded]: [&'a AnalysedStream; 2],
        effect: &'a LoadEffect,
    ) -> PhasesDocument<'a> {
        PhasesDocument {
            format: "jitlat phases 1",
            quantity: self.quantity,
            idle: &idle.summary,
            loaded: &loaded.summary,
            load: &self.load.streams,
            throughput: &self.load.throughput,
            load_state: effect.state,
            added_delay: effect.added.as_ref(),
            grade: effect.grade.as_ref(),
            no_grade: effect.no_grade.as_deref(),
            comparison: &effect.comparison,
            rpm_equivalent: RoundTripsPerMinute::of([idle, loaded]),
        }
    }
}

impl Report for PhasesReport {
    fn json(&self) -> Result<Value> {
        let documents =
            self.streams().map(|(runs, effect)| serde_json::to_value(self.document(runs, effect)));
        let mut documents = documents.collect::<serde_json::Result<Vec<Value>>>()?;
        Ok(match documents.len() {
            1 => documents.remove(0),
            _ => json!({ "directions": documents }),
        })
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

/// Document of a test idle and under load: `docs/formats/sweep.md`. A test in both directions has one for each.
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
    /// Received rate over time, for each direction that had a load.
    throughput: &'a [LoadThroughput],
    /// Relation between the load and the path, in the direction of the test.
    load_state: LoadState,
    /// Delay that the load adds; `null` if nothing arrived in a phase, or if there was no load.
    added_delay: Option<&'a AddedDelay>,
    /// Grade of the added delay; `null` if it cannot be graded.
    grade: Option<&'a LoadGrade>,
    /// Reason why there is no grade; `null` if there is one.
    no_grade: Option<&'a str>,
    /// Comparison of the test under load with the idle test. Both delays have the clock offset of the idle phase.
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
    fn of([idle, loaded]: [&AnalysedStream; 2]) -> Option<RoundTripsPerMinute> {
        let of = |run: &AnalysedStream| {
            let round_trips = run.samples.delay.iter().map(|ns| *ns as f64 / 1e6);
            run.summary.is_round_trip().then(|| responsiveness(round_trips.collect()))?
        };
        Some(RoundTripsPerMinute { idle: of(idle)?, loaded: of(loaded)? })
    }
}

/// Writes the figures of one stream in both phases, and the effect of the load.
fn stream_text(
    page: &mut Page,
    runs: [&AnalysedStream; 2],
    effect: &LoadEffect,
    direction: Option<Direction>,
) {
    let name = direction.map_or("", in_short);
    page.heading(&format!("{name:<24} {:>14} {:>14}", "idle", "loaded"));
    for figure in SCALARS.iter().filter(|f| f.headline) {
        let values = runs.map(|r| figure.of(&r.summary));
        if values.iter().any(Option::is_some) {
            let [a, b] = values.map(|v| v.map_or_else(|| "-".to_owned(), |v| figure.show(v)));
            page.line(&format!("{:<24} {a:>14} {b:>14}", figure.label));
        }
    }
    page.heading("Effect of the load");
    if let Some(added) = &effect.added {
        let signed = |ns: f64| format!("{}{}", if ns > 0.0 { "+" } else { "" }, eng4_f64(ns));
        let range = |ci95: Option<[f64; 2]>| {
            ci95.map_or(String::new(), |[low, high]| {
                format!(", between {} and {} with 95 % confidence", signed(low), signed(high))
            })
        };
        page.item(&format!("added delay, mean: {}", signed(added.mean_ns)));
        page.item(&format!("median: {}{}", signed(added.median_ns), range(added.median_ci95_ns)));
        page.item(&format!("99th percentile: {}{}", signed(added.p99_ns), range(added.p99_ci95_ns)));
        if let Some(queue) = &added.own_queue {
            page.item(&format!(
                "in addition in the sender's own queue: {} mean, {} median, {} p99",
                signed(queue.mean_ns),
                signed(queue.median_ns),
                signed(queue.p99_ns)
            ));
        }
        if !runs[0].summary.is_round_trip() {
            page.item(&clock_note(added));
        }
    }
    match (&effect.grade, &effect.no_grade) {
        (Some(LoadGrade { grade, between: [best, worst], .. }), _) => {
            let range = match best == worst {
                true => String::new(),
                false => format!(" (between {} and {})", best.name(), worst.name()),
            };
            page.item(&format!(
                "bufferbloat grade {}{range}, by the mean added delay: {GRADE_SOURCE}",
                grade.name()
            ));
        }
        (None, Some(reason)) => page.item(&format!("no bufferbloat grade: {reason}")),
        (None, None) => {}
    }
    if let Some(RoundTripsPerMinute { idle, loaded }) = RoundTripsPerMinute::of(runs) {
        page.item(&format!("{loaded:.0} consecutive round trips per minute, {idle:.0} when idle"));
    }
    let (level, text) = match effect.state.is_load() {
        true => verdict::comparison::of_load(&effect.comparison),
        false => verdict::load::headline(effect, runs[0].summary.is_round_trip(), direction),
    };
    page.finding(level, &text);
}

/// Describes how well the clocks of both phases are related.
fn clock_note(added: &AddedDelay) -> String {
    let drift = match added.drift_ns {
        0.0 => String::new(),
        drift => format!("; {} of clock drift subtracted", eng4_f64(drift)),
    };
    format!(
        "both phases have the clock offset of the idle one, which may drift by {}{drift}",
        eng4_f64(added.clock_error_ns)
    )
}

fn in_short(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// Returns the results of the load, one line for each load and direction.
fn describe(load: &TestLoad) -> Vec<String> {
    let mut names: Vec<(&str, Direction)> = Vec::new();
    for s in &load.streams {
        if !names.contains(&(s.load.as_str(), s.direction)) {
            names.push((&s.load, s.direction));
        }
    }
    let both = load.streams.iter().any(|s| s.direction != load.streams[0].direction);
    let line = |(name, direction): &(&str, Direction)| {
        let of: Vec<&LoadStream> =
            load.streams.iter().filter(|s| s.load == *name && s.direction == *direction).collect();
        let offered: Option<f64> = of.iter().map(|s| s.offered_bps).sum();
        let arrived: Option<f64> = of.iter().map(|s| s.received_bps).sum();
        let loss = of.iter().filter_map(|s| s.loss).fold(0.0, f64::max);
        let early = of.iter().find_map(|s| s.failure.as_ref()).map_or(String::new(), |f| format!("; {f}"));
        let arrived = match arrived {
            None => "unknown how much arrived".to_owned(),
            Some(0.0) => "nothing arrived".to_owned(),
            Some(bps) => format!("{} arrived", bit_rate3(bps)),
        };
        format!(
            "{name}{}: {arrived}{}{}{early}",
            if both { format!(" {}", in_short(*direction)) } else { String::new() },
            offered.map_or_else(String::new, |offered| format!(" of {}", bit_rate3(offered))),
            if loss > 0.0 { format!(", {:.2} % lost", loss * 100.0) } else { String::new() }
        )
    };
    names.iter().map(line).collect()
}
