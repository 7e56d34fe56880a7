//! `jitlat demo`: runs server, client and an impaired path on this machine; needs no privileges.

use crate::exit::ExitStatus;
use crate::options::live::LiveArgs;
use crate::options::one_way::OneWayArgs;
use crate::options::report::QuietArgs;
use crate::{interrupt, test};
use anyhow::{Context, Result, ensure};
use clap::Args;
use jitlat_impair::Scenario;
use jitlat_instruments::demo::TestBed;
use jitlat_output::screen::StreamOrigin;
use jitlat_output::terminal;
use jitlat_proto::jitlat::Dialect;
use std::path::PathBuf;

/// All options of `jitlat HOST` apply: -n 500, -R, -b, -t, --json - …
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Scenario file that describes the path
    ///
    /// Default: an access line with jitter, loss bursts, duplicates and reordering.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    #[command(flatten)]
    pub one_way: OneWayArgs,
    #[command(flatten)]
    pub quiet: QuietArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// The default scenario.
const PATH: &str = include_str!("demo.txt");

/// Runs the demonstration.
pub fn run(args: &DemoArgs) -> Result<ExitStatus> {
    let scenario = scenario(args)?;
    let mut test = args.one_way.settings("demo")?;
    ensure!(
        test.settings.terms.dialect == Dialect::V3,
        "the demonstration's relay supports version 3 only: leave out --classic"
    );
    let stop = interrupt::stop()?;
    if !args.one_way.report.is_silent() {
        terminal::print(&format!(
            "Server and client on this machine; the path between them: {}.\n\n",
            scenario.name
        ))?;
    }
    let bed = TestBed::start(scenario)?;
    bed.direct(&mut test);
    test::measure(test, &args.one_way, &stop, StreamOrigin::Demonstration, args.live)
}

fn scenario(args: &DemoArgs) -> Result<Scenario> {
    let (text, name) = match &args.scenario {
        Some(file) => {
            let name = file.display().to_string();
            (std::fs::read_to_string(file).with_context(|| format!("reading the scenario {name}"))?, name)
        }
        None => (PATH.to_owned(), "built in".to_owned()),
    };
    text.parse().with_context(|| format!("in the scenario {name}"))
}
