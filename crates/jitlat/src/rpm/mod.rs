//! `jitlat rpm`: responsiveness under load. `serve --rpm`: its server.
//!
//! * [`condition`] – conditions of `--fail-if`; [`serve`] – options of the server

mod condition;
mod serve;

pub use serve::RpmServeArgs;

use crate::exit::ExitStatus;
use crate::logs::TestLogs;
use crate::options::family;
use crate::options::log::LogArgs;
use crate::options::outputs::Outputs;
use crate::options::report::LengthArgs;
use crate::{archive, interrupt};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use condition::RpmCondition;
use jitlat_core::quantity;
use jitlat_core::units::{bit_rate3, eng3};
use jitlat_core::{Span, units};
use jitlat_instruments::rpm::method::measured::RpmProgress;
use jitlat_instruments::rpm::method::stage::StageEnd;
use jitlat_instruments::rpm::method::{LoadDirections, RpmParameters};
use jitlat_instruments::rpm::{Rpm, RpmResult, Trust};
use jitlat_output::ReportParts;
use jitlat_output::rpm::RpmReport;
use jitlat_output::screen;
use jitlat_output::terminal::progress::ProgressLine;
use jitlat_store::log::Journals;
use std::path::{Path, PathBuf};
use tracing::error;

/// Parts of the report.
const PARTS: u8 =
    ReportParts::ROWS.and(ReportParts::FIGURES).and(ReportParts::PAGE).and(ReportParts::READINGS).0;

/// Measure responsiveness (RPM) while connections to an HTTPS server fill the path
///
/// The method is that of draft-ietf-ippm-responsiveness. Any server with a configuration document can be used, such as
/// `jitlat serve --rpm` or goresponsiveness' networkqualityd.
#[derive(Clone, Debug, Args)]
pub struct RpmArgs {
    /// Server: https://HOST/.well-known/nq, or only HOST or HOST:PORT
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Directions of the load: one after the other, one of them, or both at once
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Directions::Each)]
    pub load: Directions,
    /// Maximum duration of each load
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "20s")]
    pub time_limit: Span,
    /// Interval of the figures that must become stable (ID)
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "1s")]
    pub interval: Span,
    /// Maximum load-generating connections per direction (MNP)
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub max_connections: u8,
    /// Maximum probes per second (MPS)
    ///
    /// Fewer are sent if they would use more than 5 % of the goodput.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_probes: u16,
    /// Accept certificates of the authority in FILE (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Accept any certificate, also that of an attacker
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Exit with status 1 on a figure: rpm<300, goodput<10M, latency-p99>100ms
    ///
    /// rpm and goodput hold for every load, down-rpm, up-rpm and both-rpm for one. Others, such as latency-p99, are
    /// figures of the requests on load-generating connections. The status is 2 if the figure is unknown.
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    pub fail_if: Vec<RpmCondition>,
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub length: LengthArgs,
    #[command(flatten)]
    pub outputs: Outputs<PARTS>,
}

/// Directions of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Directions {
    /// Downloads, then uploads: two results
    Each,
    /// Downloads
    Down,
    /// Uploads
    Up,
    /// Downloads and uploads at once: one result
    Both,
}

impl Directions {
    fn stages(self) -> Vec<LoadDirections> {
        match self {
            Directions::Each => vec![LoadDirections::Down, LoadDirections::Up],
            Directions::Down => vec![LoadDirections::Down],
            Directions::Up => vec![LoadDirections::Up],
            Directions::Both => vec![LoadDirections::Both],
        }
    }
}

impl RpmArgs {
    fn settings(&self) -> Result<Rpm> {
        let Some(server) = self.url.clone() else {
            bail!(
                "name a server: jitlat rpm HOST:{port} for a host that runs `jitlat serve --rpm`, or the address of \
                 another server's configuration, https://HOST/.well-known/nq",
                port = jitlat_instruments::rpm::method::PORT
            );
        };
        if self.interval < Span::millis(100) {
            bail!("--interval {}: an interval has 100 ms or more", units::duration(self.interval));
        }
        let trust = match (&self.ca, self.insecure) {
            (Some(file), _) => Trust::File(file.clone()),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let family = family(self.ipv4, self.ipv6);
        let parameters = RpmParameters {
            interval: self.interval,
            max_connections: self.max_connections.into(),
            probes_per_second: self.max_probes.into(),
            time_limit: self.time_limit,
            ..RpmParameters::default()
        };
        Ok(Rpm { server, stages: self.load.stages(), parameters, trust, family })
    }
}

/// Measures and reports.
pub fn run(args: &RpmArgs) -> Result<ExitStatus> {
    let others: Vec<&Path> = args.log.output.iter().map(PathBuf::as_path).collect();
    args.outputs.check(1, &others)?;
    archive::check(args.log.archive.as_deref(), false)?;
    let test = args.settings()?;
    // Logs of streams without probes are removed.
    let labels = RpmResult::labels(&test.stages);
    let endings: Vec<String> = labels.iter().map(|label| format!(".{}", label.replace(' ', "."))).collect();
    let endings: Vec<&str> = endings.iter().map(String::as_str).collect();
    let TestLogs { files, scratch } = TestLogs::of_streams(&args.log, &endings)?;
    let stop = interrupt::stop()?;
    let mut line = ProgressLine::new();
    let result = test.run(&stop, &mut |progress| line.show(&describe(progress)));
    line.clear();
    let mut options = jitlat_verdict::options();
    args.outputs.ask(&mut options);
    let mut result = result?;
    result.annotate(args.log.name.as_deref(), &args.log.tags);
    let files =
        labels.iter().zip(files).filter(|(label, _)| result.streams.iter().any(|of| of.label == **label));
    let mut journals = Journals::new(files.map(|(_, file)| file));
    result.replay(&mut journals);
    let closed = journals.close();
    let written: Vec<Option<PathBuf>> = closed.iter().map(|closed| closed.log.clone()).collect();
    let archived =
        archive::add_logs(args.log.archive.as_deref(), written.iter().flatten().map(PathBuf::as_path));
    for trouble in closed.iter().flat_map(|closed| &closed.troubles) {
        error!("{trouble}");
    }
    let saved = archived && closed.iter().all(|closed| closed.troubles.is_empty());
    let logs = written.into_iter().map(|log| log.filter(|_| scratch.is_none())).collect();
    let report = RpmReport::new(result, logs, options);
    let whole = args.outputs.write(&report, || match (args.length.quiet, args.length.verbose) {
        (true, _) => report.line(),
        (_, true) => report.page(&screen::options()),
        _ => report.one_screen(&screen::options()),
    });
    let failed = |end: &StageEnd| matches!(end, StageEnd::Failed(_));
    let is_whole = report.stages().iter().all(|stage| !failed(&stage.end) && stage.rpm().is_some());
    if !whole || !is_whole || !saved {
        for stage in report.stages() {
            if let StageEnd::Failed(why) = &stage.end {
                error!("load {}: {why}", stage.load.name());
            }
        }
        return Ok(ExitStatus::NotMeasured);
    }
    Ok(condition::status(&args.fail_if, &report))
}

/// Describes the progress in one line.
fn describe(progress: &RpmProgress<'_>) -> String {
    match progress {
        RpmProgress::Idle(server) => format!("{server}: measuring the idle path"),
        RpmProgress::Loaded { load, elapsed, limit, connections, interval } => {
            let now = interval.map_or_else(String::new, |interval| {
                let rates: Vec<String> = interval.goodput.iter().map(|g| bit_rate3(g.bps)).collect();
                let rpm = interval.rpm.map_or_else(String::new, |rpm| format!(", {rpm:.0} RPM"));
                format!(", {}{rpm}", rates.join(" and "))
            });
            let (elapsed, limit) = (eng3(elapsed.0 as f64), units::duration(*limit));
            format!("load {}: {elapsed} of at most {limit}, {connections} connections{now}", load.name())
        }
    }
}
