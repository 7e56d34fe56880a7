//! [`RpmReport`]: report of a measurement of responsiveness.
//!
//! * [`document`] – the result as JSON

mod document;

pub use document::RpmDocument;

use crate::error::Result;
use crate::pages;
use crate::report::{AnalysedStream, Drawings, Report, ReportTable};
use crate::screen;
use crate::systems::{NativeFigure, NativeReading};
use jitlat_core::analysis::Options;
use jitlat_core::answer::Severity;
use jitlat_core::distribution::Percent;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::metrics::qoo::QualityOfOutcome;
use jitlat_core::scalars::ScalarUnit;
use jitlat_core::units::{bit_rate3, eng3, eng4, eng4_f64};
use jitlat_core::{Direction, Span};
use jitlat_instruments::rpm::RpmResult;
use jitlat_instruments::rpm::method::score::{RpmClass, TrimmedMeans};
use jitlat_instruments::rpm::method::stage::{
    AnsweredProbe, Goodput, ProbeCounts, ProbeTimes, StageEnd, StageInterval, StageOutcome,
};
use jitlat_instruments::rpm::method::{DRAFT, LoadDirections};
use jitlat_instruments::{Analyses, RecordCollector};
use jitlat_report::figure::{Axis, AxisUnit, Figure, Mark, MarkSeries, Tone};
use jitlat_report::figure::{ComparedQuantity, ComparedRun, cdfs};
use jitlat_report::text::outcome;
use jitlat_report::text::screen::Screen;
use jitlat_report::text::{Page, TextOptions};
use jitlat_report::{FirstScreen, Section, micro_unit};
use serde_json::Value;
use std::path::PathBuf;

/// Report of a measurement of responsiveness: the score of each stage, and the probes as streams of round trips.
pub struct RpmReport {
    result: RpmResult,
    runs: Vec<AnalysedStream>,
    section: Section,
}

impl RpmReport {
    /// Creates the report of `result`, whose streams are analysed with `options`. `logs` are the paths of the streams'
    /// logs, in the order of the streams; `None` for a stream without a log.
    pub fn new(result: RpmResult, logs: Vec<Option<PathBuf>>, options: Options) -> RpmReport {
        let (mut analyses, mut collected) = (Analyses::new(options), RecordCollector::default());
        let mut observers: [&mut dyn jitlat_instruments::Observer; 2] = [&mut analyses, &mut collected];
        result.replay(&mut observers);
        let labels = result.streams.iter().map(|stream| stream.label.clone());
        let mut logs = logs.into_iter();
        let mut records = collected.records.into_iter();
        let runs: Vec<AnalysedStream> = analyses
            .finish()
            .into_iter()
            .zip(labels)
            .map(|(analysed, label)| AnalysedStream {
                label,
                records: records.next().unwrap_or_default(),
                log: logs.next().flatten(),
                ..analysed.into()
            })
            .collect();
        let mut report = RpmReport { result, runs, section: Section::default() };
        report.section = report.make_section();
        report
    }

    /// Returns the streams: two of each stage and of the idle path, of probes on shared and on new connections.
    pub fn runs(&self) -> &[AnalysedStream] {
        &self.runs
    }

    /// Returns the stages.
    pub fn stages(&self) -> &[StageOutcome] {
        &self.result.measured.stages
    }

    /// Returns the streams of probes during a load.
    pub fn loaded(&self) -> impl Iterator<Item = &AnalysedStream> {
        let is_loaded = |run: &&AnalysedStream| !run.label.starts_with(IDLE);
        self.runs.iter().filter(is_loaded)
    }

    /// Returns the severity: that of the stage with the fewest round trips per minute.
    pub fn severity(&self) -> Severity {
        let of = |stage: &StageOutcome| severity(stage.rpm());
        self.stages().iter().map(of).max_by_key(|severity| severity.doubt()).unwrap_or(Severity::Unknown)
    }

    /// Returns the results of all stages in one sentence.
    pub fn headline(&self) -> String {
        let mut parts: Vec<String> = self.stages().iter().map(in_words).collect();
        if let Some(idle) = idle_round_trip(&self.result.measured.idle) {
            parts.push(format!("{} when idle", eng3(idle)));
        }
        format!("Responsiveness: {}.", parts.join("; "))
    }

    /// Returns the verdict in one line.
    pub fn line(&self) -> String {
        self.headline() + "\n"
    }

    /// Returns the report on one screen. `options` are those of the terminal.
    pub fn one_screen(&self, options: &TextOptions) -> String {
        let result = &self.result;
        let mut page = Page::new(options);
        let shown = |text: &str| if options.unicode { micro_unit(text) } else { text.to_owned() };
        page.lead(self.severity().into(), &shown(&self.headline()));
        page.line(&result.url);
        page.blank();
        for row in self.rows() {
            let cells: String = row[1..].iter().map(|cell| format!("{:>17}", shown(cell))).collect();
            page.line(format!("{:<22}{cells}", row[0]).trim_end());
        }
        page.blank();
        for stage in &result.measured.stages {
            if !failure(stage).is_empty() {
                page.line(&format!("load {}{}", stage.load.name(), failure(stage)));
            }
        }
        if let Some(logs) = self.logged() {
            page.line(&format!("Logs   {logs}"));
        }
        let next = format!("Next   {}  # measures again, prints every figure", screen::again());
        let is_short = next.chars().count() <= options.width;
        let next = if is_short { next } else { format!("Next   {}  # every figure", screen::REPEATED) };
        page.line(&next);
        page.finish()
    }

    /// Returns the names of the logs: `jitlat.abc.idle.self and 5 more`; `None` without logs.
    fn logged(&self) -> Option<String> {
        let mut logs = self.runs.iter().filter_map(|run| run.log.as_deref());
        let first = logs.next()?.display().to_string();
        Some(match logs.count() {
            0 => first,
            more => format!("{first} and {more} more"),
        })
    }

    /// Returns the scores (Quality of Outcome) of one kind of probes, with a row for each profile: its name, the score
    /// when idle, and the score in each stage. Empty if there are no scores.
    fn scores(&self, kind: &str) -> Vec<Vec<String>> {
        let loads: Vec<&str> =
            std::iter::once(IDLE).chain(self.stages().iter().map(|stage| stage.load.name())).collect();
        let scores = |load: &str| {
            let run = self.runs.iter().find(|run| run.label == format!("{load} {kind}"))?;
            run.summary.answer.as_ref()?.qoo.as_ref()
        };
        let of_all: Vec<_> = loads.iter().map(|load| scores(load)).collect();
        let Some(any) = of_all.iter().flatten().next() else { return Vec::new() };
        let row = |(name, _): (&str, _)| {
            let of = |qoo: &Option<&QualityOfOutcome>| {
                qoo.and_then(|qoo| outcome::score(qoo.profiles.get(name)?).ok())
            };
            let cells: Vec<Option<String>> = of_all.iter().map(of).collect();
            cells.iter().any(Option::is_some).then(|| {
                let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(dash));
                std::iter::once(name.to_owned()).chain(cells).collect()
            })
        };
        outcome::in_order(any).into_iter().filter_map(row).collect()
    }

    /// Returns the table of the screen: a column for the idle path, and one for each stage.
    fn rows(&self) -> Vec<Vec<String>> {
        let measured = &self.result.measured;
        let row = |name: &str, idle: String, of: &dyn Fn(&StageOutcome) -> String| {
            [name.to_owned(), idle].into_iter().chain(measured.stages.iter().map(of)).collect::<Vec<_>>()
        };
        let rpm = |rpm: Option<f64>| rpm.map_or_else(dash, per_minute);
        let time = |ns: Option<f64>| ns.map_or_else(dash, eng3);
        let idle = means_of(&measured.idle);
        let connections = |stage: &StageOutcome| stage.goodput.iter().map(|g| g.connections).sum::<usize>();
        vec![
            row("", IDLE.to_owned(), &|stage| stage.load.name().to_owned()),
            row("round trips/min (RPM)", rpm(idle.rpm()), &|stage| rpm(stage.rpm())),
            row("  class", String::new(), &|stage| {
                stage.rpm().map_or_else(dash, |rpm| RpmClass::of(rpm).name().to_owned())
            }),
            row("  confidence", String::new(), &|stage| stage.confidence.name().to_owned()),
            row("TCP handshake", time(idle.tcp_ns), &|stage| time(stage.means.tcp_ns)),
            row("TLS, per round trip", time(idle.tls_ns), &|stage| time(stage.means.tls_ns)),
            row("HTTP, new connection", time(idle.http_ns), &|stage| time(stage.means.http_ns)),
            row("HTTP, with the load", time(idle.self_ns), &|stage| time(stage.means.self_ns)),
            row("goodput", dash(), &|stage| goodput(&stage.goodput)),
            row("  connections", String::new(), &|stage| connections(stage).to_string()),
            row("  confidence", String::new(), &|stage| stage.goodput_confidence.name().to_owned()),
        ]
    }

    /// Returns the verdict for the beginning of the page.
    fn screen(&self) -> Screen {
        let screen = Screen::default().led_by(self.severity().into(), &self.headline());
        self.stages().iter().rev().fold(screen, |screen, stage| screen.noting(&goodput_line(stage)))
    }

    fn make_section(&self) -> Section {
        let result = &self.result;
        let mut rows = self.rows();
        let columns = rows.remove(0);
        for (kind, requests) in PROBES {
            for mut row in self.scores(kind) {
                row[0] = format!("QoO, {}, {requests}", row[0]);
                rows.push(row);
            }
        }
        let mut figures: Vec<Figure> = result.measured.stages.iter().filter_map(course).collect();
        figures.extend(self.distributions());
        Section {
            title: "Responsiveness under load".to_owned(),
            what: format!(
                "{} at {}, HTTP/2, TLS {}",
                result.url, result.measured.server, result.measured.tls_version
            ),
            screen: Some(self.screen()),
            remarks: remarks(result),
            columns,
            rows,
            figures,
        }
    }

    /// Draws the distributions of all kinds of requests in one figure; `None` if fewer than two kinds have a
    /// distribution, or if their times are too far apart.
    fn distributions(&self) -> Option<Figure> {
        let samples: Vec<[Sample; 2]> = self
            .runs
            .iter()
            .map(|run| {
                let fastest = run.samples.delay.iter().min().copied().unwrap_or(0);
                let above = run.samples.delay.iter().map(|delay| delay.saturating_sub(fastest));
                [Sample::new(run.samples.delay.iter().copied()), Sample::new(above)]
            })
            .collect();
        let runs: Vec<ComparedRun<'_>> = self
            .runs
            .iter()
            .zip(&samples)
            .map(|(run, [latency, above])| ComparedRun {
                samples: Some((latency, above)),
                ..ComparedRun::new(&run.label, &run.summary)
            })
            .collect();
        let figure = cdfs(ComparedQuantity::Latency, &runs)?;
        Some(Figure {
            id: "rpm-requests".to_owned(),
            title: "Time of a request, cumulative distributions".to_owned(),
            about: "Self probes share a connection with the load, foreign probes have a new one. The distance from the idle \
                    curves is the queue; the distance between self and foreign probes arises in the connection of the load."
                .to_owned(),
            ..figure
        })
    }

    /// Returns the full report.
    pub fn page(&self, options: &TextOptions) -> String {
        let result = &self.result;
        let mut page = Page::new(options);
        page.line(&format!(
            "responsiveness of {} ({}): HTTP/2, TLS {}, {DRAFT}",
            result.url, result.measured.server, result.measured.tls_version
        ));
        page.heading("Idle");
        terms(&mut page, &result.measured.idle.iter().collect::<Vec<_>>(), &means_of(&result.measured.idle));
        for stage in &result.measured.stages {
            page.heading(&format!("Load {}", stage.load.name()));
            page.item(&in_words(stage));
            page.item(&goodput_line(stage));
            if let (Some(foreign), Some(own)) = (stage.means.foreign_rpm(), stage.means.self_rpm()) {
                page.item(&format!(
                    "{foreign:.0} RPM on new connections, {own:.0} RPM on load-generating connections"
                ));
            }
            let counted: Vec<&AnsweredProbe> =
                stage.probes.iter().filter(|probe| probe.began >= stage.counted_from).collect();
            terms(&mut page, &counted, &stage.means);
            page.item(&format!("probes: foreign {}; self {}", counts(&stage.foreign), counts(&stage.own)));
            intervals(&mut page, stage);
        }
        for (kind, requests) in PROBES {
            let rows = self.scores(kind);
            if rows.is_empty() {
                continue;
            }
            page.heading(&format!("Quality of Outcome, {requests}"));
            let line = |name: &str, cells: &[String]| {
                let cells: String = cells.iter().map(|cell| format!("{cell:>16}")).collect();
                format!("    {name:<14}{cells}").trim_end().to_owned()
            };
            let columns: Vec<String> = std::iter::once(IDLE)
                .chain(self.stages().iter().map(|stage| stage.load.name()))
                .map(str::to_owned)
                .collect();
            page.line(&line("", &columns));
            rows.iter().for_each(|row| page.line(&line(&row[0], &row[1..])));
        }
        page.heading("Method");
        for remark in remarks(result) {
            page.item(&remark);
        }
        page.blank();
        page.lead(self.severity().into(), &self.headline());
        page.finish()
    }
}

impl Report for RpmReport {
    fn json(&self) -> Result<Value> {
        Ok(serde_json::to_value(RpmDocument::new(self))?)
    }

    fn streams(&self) -> &[AnalysedStream] {
        &self.runs
    }

    fn table(&self) -> Option<ReportTable> {
        let measured = &self.result.measured;
        let idle = measured.idle.iter().map(|probe| (IDLE, probe, None));
        let loaded = measured.stages.iter().flat_map(|stage| {
            let counts = |probe: &AnsweredProbe| Some(probe.began >= stage.counted_from);
            stage.probes.iter().map(move |probe| (stage.load.name(), probe, counts(probe)))
        });
        let line = |(load, probe, counted): (&str, &AnsweredProbe, Option<bool>)| {
            let (kind, tcp, tls, http) = match probe.times {
                ProbeTimes::Foreign(times) => ("foreign", Some(times.tcp), times.tls, times.http),
                ProbeTimes::Own(time) => ("self", None, None, time),
            };
            let time = |span: Option<Span>| span.map_or_else(String::new, |span| span.0.to_string());
            let cell = |name: &str, value: String| (name.to_owned(), value);
            vec![
                cell("load", load.to_owned()),
                cell("probe", kind.to_owned()),
                cell("began_ns", measured.wall(probe.began).0.to_string()),
                cell("tcp_ns", time(tcp)),
                cell("tls_ns", time(tls)),
                cell("http_ns", time(Some(http))),
                cell("counted", counted.map_or_else(String::new, |counted| counted.to_string())),
            ]
        };
        Some(idle.chain(loaded).map(line).collect())
    }

    /// Returns a reading for each load, and one for the idle path.
    fn native(&self) -> Vec<NativeReading> {
        let measured = &self.result.measured;
        let reading = |load: &str, figures: Vec<NativeFigure>| NativeReading {
            name: format!("{}-rpm-{load}", measured.server.ip()),
            labels: vec![
                ("test", "rpm".to_owned()),
                ("load", load.to_owned()),
                ("dst", measured.server.ip().to_string()),
                ("url", self.result.url.clone()),
            ],
            time: measured.began.0,
            host: measured.host.name.clone(),
            figures,
        };
        let stages = measured.stages.iter().map(|stage| {
            let goodput = stage.goodput.iter().map(|goodput| NativeFigure {
                name: match goodput.direction {
                    Direction::Up => "up_goodput",
                    Direction::Down => "down_goodput",
                },
                about: "goodput at the end of the load, moving average",
                unit: ScalarUnit::BitRate,
                value: goodput.average_bps,
            });
            let rpm = stage.rpm().map(|value| NativeFigure {
                name: "rpm",
                about: "responsiveness: round trips per minute under load",
                unit: ScalarUnit::Count,
                value,
            });
            reading(stage.load.name(), rpm.into_iter().chain(goodput).collect())
        });
        let idle = idle_round_trip(&measured.idle).map(|ns| {
            let round_trip = NativeFigure {
                name: "round_trip",
                about: "round trip of requests on the idle path, trimmed mean",
                unit: ScalarUnit::Time,
                value: ns / 1e9,
            };
            reading(IDLE, vec![round_trip])
        });
        idle.into_iter().chain(stages).filter(|reading| !reading.figures.is_empty()).collect()
    }

    fn section(&self) -> Option<&Section> {
        Some(&self.section)
    }

    /// Renders a page with the section only: figures of single streams would repeat it.
    fn page(&self) -> Result<String> {
        Ok(pages::page(&[], self.section()))
    }

    fn first_screen(&self) -> Option<FirstScreen> {
        pages::first_screen(&[], self.section())
    }

    fn draw(&self, each: &mut Drawings<'_>) -> Result<()> {
        each("", &self.section.figures)
    }
}

/// Label of the streams that are measured without load.
const IDLE: &str = "idle";
/// Kinds of probes, with descriptions of their requests.
const PROBES: [(&str, &str); 2] =
    [("self", "requests with the load"), ("foreign", "requests on new connections")];

fn dash() -> String {
    "-".to_owned()
}

/// Returns a number of round trips per minute with three significant digits.
fn per_minute(rpm: f64) -> String {
    let unit = 10f64.powi((rpm.abs().max(1.0).log10().floor() as i32 - 2).max(0));
    format!("{:.0}", (rpm / unit).round() * unit)
}

fn severity(rpm: Option<f64>) -> Severity {
    match rpm.map(RpmClass::of) {
        Some(RpmClass::Excellent | RpmClass::Good) => Severity::Good,
        Some(RpmClass::Fair) => Severity::Fair,
        Some(RpmClass::Poor) => Severity::Poor,
        None => Severity::Unknown,
    }
}

/// Describes the score of a stage: "down 612 RPM, fair (98 ms per round trip), high confidence".
fn in_words(stage: &StageOutcome) -> String {
    let load = match stage.load {
        LoadDirections::Both => "down and up at once",
        load => load.name(),
    };
    match stage.rpm() {
        Some(rpm) => format!(
            "{load} {} RPM, {} ({} per round trip, {} confidence)",
            per_minute(rpm),
            RpmClass::of(rpm).name(),
            eng3(60e9 / rpm),
            stage.confidence.name()
        ),
        None => format!("{load} unknown{}", failure(stage)),
    }
}

/// Returns the reason why a stage ended early, after a comma; empty if it did not.
fn failure(stage: &StageOutcome) -> String {
    match &stage.end {
        StageEnd::Stable | StageEnd::TimeLimit => String::new(),
        StageEnd::Interrupted => ", stopped early".to_owned(),
        StageEnd::Failed(why) => format!(", ended early: {why}"),
    }
}

fn goodput(all: &[Goodput]) -> String {
    let of = |g: &Goodput| match all.len() {
        1 => bit_rate3(g.average_bps),
        _ => format!("{} {}", direction(g.direction), bit_rate3(g.average_bps)),
    };
    all.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn direction(direction: Direction) -> &'static str {
    if direction == Direction::Up { "up" } else { "down" }
}

fn goodput_line(stage: &StageOutcome) -> String {
    let connections: usize = stage.goodput.iter().map(|g| g.connections).sum();
    format!(
        "load {}: {} over {connections} connections, {} confidence, {} of load{}",
        stage.load.name(),
        goodput(&stage.goodput),
        stage.goodput_confidence.name(),
        eng3(stage.duration.0 as f64),
        failure(stage)
    )
}

fn counts(of: &ProbeCounts) -> String {
    let mut text = format!("{} sent, {} answered", of.sent, of.answered);
    for (n, what) in [(of.outstanding(), "not answered yet"), (of.failed, "failed"), (of.skipped, "skipped")]
    {
        if n > 0 {
            text += &format!(", {n} {what}");
        }
    }
    text
}

/// Splits probes into the times of their parts, in ns.
struct Terms {
    tcp: Vec<i64>,
    tls: Vec<i64>,
    http: Vec<i64>,
    own: Vec<i64>,
}

impl Terms {
    fn of<'a>(probes: impl Iterator<Item = &'a AnsweredProbe>) -> Terms {
        let mut terms = Terms { tcp: Vec::new(), tls: Vec::new(), http: Vec::new(), own: Vec::new() };
        for probe in probes {
            match probe.times {
                ProbeTimes::Foreign(times) => {
                    terms.tcp.push(times.tcp.0);
                    terms.tls.extend(times.tls.map(|tls| tls.0));
                    terms.http.push(times.http.0);
                }
                ProbeTimes::Own(time) => terms.own.push(time.0),
            }
        }
        terms
    }

    fn named(&self) -> [(&'static str, &[i64]); 4] {
        [
            ("TCP handshake", &self.tcp),
            ("TLS, per round trip", &self.tls),
            ("HTTP, new", &self.http),
            ("HTTP, load", &self.own),
        ]
    }
}

fn means_of(probes: &[AnsweredProbe]) -> TrimmedMeans {
    let foreign: Vec<_> = probes
        .iter()
        .filter_map(|probe| match probe.times {
            ProbeTimes::Foreign(times) => Some(times),
            ProbeTimes::Own(_) => None,
        })
        .collect();
    let own: Vec<Span> = probes
        .iter()
        .filter_map(|probe| match probe.times {
            ProbeTimes::Foreign(_) => None,
            ProbeTimes::Own(time) => Some(time),
        })
        .collect();
    TrimmedMeans::of(&foreign, &own)
}

/// Returns the time of a round trip on the idle path, in ns: the mean that the score of these probes corresponds to.
fn idle_round_trip(probes: &[AnsweredProbe]) -> Option<f64> {
    means_of(probes).rpm().map(|rpm| 60e9 / rpm)
}

const SHOWN: [Percent; 4] = [Percent(50_000), Percent(90_000), Percent(95_000), Percent(99_000)];

/// Adds a table of the times of `probes`.
fn terms(page: &mut Page, probes: &[&AnsweredProbe], means: &TrimmedMeans) {
    let terms = Terms::of(probes.iter().copied());
    let trimmed = [means.tcp_ns, means.tls_ns, means.http_ns, means.self_ns];
    page.line(&format!(
        "    {:<20} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "n", "best 95 %", "50 %", "90 %", "99 %", "max"
    ));
    for ((name, times), trimmed) in terms.named().into_iter().zip(trimmed) {
        let Some(trimmed) = trimmed else { continue };
        let sample = Sample::new(times.iter().copied());
        let at = |p: Percent| sample.edf(p).map_or_else(|| "-".to_owned(), eng4);
        page.line(&format!(
            "    {name:<20} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}",
            times.len(),
            eng4_f64(trimmed),
            at(SHOWN[0]),
            at(SHOWN[1]),
            at(SHOWN[3]),
            sample.max().map_or_else(|| "-".to_owned(), eng4)
        ));
    }
}

/// Adds a table of the intervals of `stage`.
fn intervals(page: &mut Page, stage: &StageOutcome) {
    page.line(&format!("    {:>8} {:>6} {:>24} {:>8}", "until", "conn.", "goodput", "RPM"));
    for interval in &stage.intervals {
        let rates: Vec<String> = interval.goodput.iter().map(|g| bit_rate3(g.bps)).collect();
        page.line(&format!(
            "    {:>8} {:>6} {:>24} {:>8}{}",
            eng3((interval.start + interval.duration).0 as f64),
            interval.goodput.iter().map(|g| g.connections).sum::<usize>(),
            rates.join(", "),
            interval.rpm.map_or_else(|| "-".to_owned(), |rpm| format!("{rpm:.0}")),
            if interval.saturated { "  stable goodput" } else { "" }
        ));
    }
}

/// Describes the method, and what limits the result.
fn remarks(result: &RpmResult) -> Vec<String> {
    let p = &result.parameters;
    let mut remarks = vec![format!(
        "intervals of {} (5 s in the draft), moving averages of {} intervals, stable within {:.0} % (standard deviation of \
         the population), {} to {} connections per direction, at most {} probes per second and {:.0} % of the goodput",
        eng3(p.interval.0 as f64),
        p.averaged,
        p.tolerance * 100.0,
        p.initial_connections,
        p.max_connections,
        p.probes_per_second,
        p.probe_share * 100.0
    )];
    remarks.push(
        "times on load-generating connections include up to 10 ms in the send queues of both hosts"
            .to_owned(),
    );
    remarks
}

/// Draws the goodput and the responsiveness of a stage over time.
fn course(stage: &StageOutcome) -> Option<Figure> {
    let end = stage.intervals.last().map(|i| (i.start + i.duration).0 as f64)?;
    let until = |interval: &StageInterval| (interval.start + interval.duration).0 as f64;
    let trip = |probe: &AnsweredProbe| match probe.times {
        ProbeTimes::Own(time) => Some(((probe.ended - stage.began).0 as f64, time.0 as f64)),
        ProbeTimes::Foreign(_) => None,
    };
    let request = |probe: &AnsweredProbe| match probe.times {
        ProbeTimes::Foreign(times) => Some(((probe.ended - stage.began).0 as f64, times.http.0 as f64)),
        ProbeTimes::Own(_) => None,
    };
    let own: Vec<(f64, f64)> = stage.probes.iter().filter_map(trip).collect();
    let foreign: Vec<(f64, f64)> = stage.probes.iter().filter_map(request).collect();
    let highest = own.iter().chain(&foreign).map(|p| p.1).fold(1.0, f64::max);
    let fastest = stage.intervals.iter().flat_map(|i| &i.goodput).map(|g| g.bps).fold(1.0, f64::max);
    let mut series = vec![
        MarkSeries::new("on load-generating connections", Tone::Data, Mark::Points { points: own }),
        MarkSeries::new("on new connections", Tone::Bound, Mark::Points { points: foreign }),
    ];
    for load in stage.load.directions() {
        let rate = |i: &StageInterval| i.goodput.iter().find(|g| g.direction == *load).map(|g| g.bps / 1e6);
        let points = stage.intervals.iter().filter_map(|i| Some((until(i), rate(i)?))).collect();
        let name = format!("goodput {}", direction(*load));
        let dashed = *load == Direction::Up;
        series.push(MarkSeries::new(name, Tone::Fit, Mark::Line { points, dashed }).on_right());
    }
    let mut notes = Vec::new();
    if let Some(stable) = stage.intervals.iter().find(|i| i.saturated) {
        let at = until(stable);
        series.push(MarkSeries::new("", Tone::Bound, Mark::Rule { at, label: "stable goodput".into() }));
        notes.push(format!("Goodput is stable after {}.", eng3(at)));
    }
    Some(Figure {
        id: format!("rpm-{}", stage.load.name()),
        title: format!("Round trips and goodput under load, {}", stage.load.name()),
        subtitle: micro_unit(&in_words(stage)),
        measured: String::new(),
        about:
            "Round trips that grow with the goodput wait in a queue that the load fills. Round trips on new \
                connections that are shorter pass by that queue."
                .into(),
        x: Axis::linear("time since the start of the load", AxisUnit::Elapsed, 0.0, end),
        y: Axis::linear("time of a request", AxisUnit::Time, 0.0, highest * 1.04),
        right: Some(Axis::linear("goodput, Mbit/s", AxisUnit::Plain, 0.0, fastest / 1e6 * 1.04)),
        series,
        overflow: None,
        notes,
    })
}
