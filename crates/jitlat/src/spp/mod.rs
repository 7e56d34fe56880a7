//! `jitlat spp`: passive round-trip times from two captures of the same traffic.

mod args;
mod drawing;
mod live;
mod one_point;
mod parts;
mod show;

pub use args::SppArgs;
pub use live::{LivePointArgs, POINTS};

use crate::archive;
use crate::exit::ExitStatus;
use crate::interrupt;
use anyhow::{Context, anyhow, bail};
use jitlat_instruments::passive::CaptureSource;
use jitlat_output::ReportParts;
use jitlat_output::captures::{DirectionRecorder, FollowedCapture, PairPrinter};
use jitlat_output::terminal;
use jitlat_passive::verdict::list_prefixes;
use jitlat_passive::{CaptureEvent, CaptureObserver, LinkQuestion, MatchPlan, StreamObserver};
use jitlat_report::figure::PassiveTrace;
use jitlat_report::text;
use jitlat_report::text::screen::Timeline;
use tracing::info;

/// Runs `jitlat spp`.
pub fn run(args: &SppArgs) -> anyhow::Result<ExitStatus> {
    if !args.payloads.is_empty() {
        let Some(LinkQuestion::Compare(link)) = &args.link else {
            bail!("--payloads needs --link with an encapsulation and rates");
        };
        terminal::print(&text::link_tables(link, &args.payloads))?;
        return Ok(ExitStatus::Measured);
    }
    if !args.one_point.is_empty() {
        return one_point::run(args);
    }
    args.check()?;
    if !args.labels.is_empty() {
        return run_several(args);
    }
    if !args.parts.join.is_empty() {
        return parts::join(args);
    }
    let passive = args.settings()?;
    if let Some(path) = &args.parts.write_plan {
        return parts::write_plan(args, &passive, path);
    }
    let live = args.live.is_requested();
    let silent = args.is_silent();
    let mut lines = PairPrinter::new(args.columns(), !silent, live);
    let mut ways = StreamObserver(match passive.records {
        true => {
            let rows = args.report.outputs.needing(ReportParts::ROWS).map(|(_, path)| path);
            Some(DirectionRecorder::new(args.report.options(), args.log.as_deref(), rows)?)
        }
        false => None,
    });
    let mut trace = args.report.outputs.draws().then(|| PassiveTrace::new(args.every, args.figures.range()));
    let mut progress = LivePointProgress { quiet: args.quiet || !live };
    let mut course = Timeline::default();
    let observer: &mut [&mut dyn CaptureObserver; 5] =
        &mut [&mut lines, &mut ways, &mut trace, &mut course, &mut progress];
    let stop = interrupt::stop()?;
    let outcome = match live {
        true => passive.follow_live(
            args.live.points([&args.reference, &args.monitor])?,
            &args.live.settings()?,
            &stop,
            observer,
        )?,
        false => {
            let points = args.points()?;
            passive.follow_captures(points, &stop, observer)?
        }
    };
    let mut failures: Vec<anyhow::Error> = Vec::new();
    failures.extend(outcome.failures.into_iter().map(anyhow::Error::from));
    failures.extend(lines.finish().map(anyhow::Error::from));
    match args.parts.state.is_some() && stop.is_requested() {
        false => failures.extend(parts::write_state(&args.parts, outcome.part.as_ref()).err()),
        true => failures
            .push(anyhow!("interrupted: the state was not written, because it must cover the whole part")),
    }
    let recorded = ways.0.map(DirectionRecorder::finish).unwrap_or_default();
    if !archive::add_logs(args.archive.as_deref(), recorded.runs.iter().filter_map(|run| run.log.as_deref()))
    {
        failures.push(anyhow::anyhow!("not all logs were archived"));
    }
    show::show(args, outcome.result, recorded, (trace, course), failures)
}

/// Analyses each pair of captures, and shows all results.
fn run_several(args: &SppArgs) -> anyhow::Result<ExitStatus> {
    let passive = args.settings()?;
    let stop = interrupt::stop()?;
    let mut runs = Vec::new();
    let mut failures: Vec<anyhow::Error> = Vec::new();
    for ((label, reference), monitor) in args.labels.iter().zip(&args.reference).zip(&args.monitor) {
        let mut trace =
            args.report.outputs.draws().then(|| PassiveTrace::new(args.every, args.figures.range()));
        let points = [reference, monitor].map(|path| CaptureSource::Files(vec![path.clone()]));
        let outcome = passive
            .follow_captures(points, &stop, &mut trace)
            .with_context(|| format!("captures of {label}"))?;
        failures.extend(outcome.failures.into_iter().map(anyhow::Error::from));
        runs.push(FollowedCapture { label, result: outcome.result, trace });
    }
    show::show_several(args, runs, failures)
}

/// Prints the progress of live capture points to standard error.
struct LivePointProgress {
    quiet: bool,
}

impl CaptureObserver for LivePointProgress {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        match event {
            _ if self.quiet => {}
            CaptureEvent::Listening([reference, monitor]) => {
                info!("capturing on {reference} (reference) and {monitor} (monitor)");
            }
            CaptureEvent::Planned(MatchPlan { common, sides: [near, far], .. }) => info!(
                "{common} packets in common, between {} and {}",
                list_prefixes(&near.reference),
                list_prefixes(&far.monitor)
            ),
            _ => {}
        }
    }
}
