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
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracing::{info, warn};

/// All options of `jitlat HOST` apply: -n 500, -R, -b, -t, --json - …
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Scenario file that describes the path
    ///
    /// Default: an access line with jitter, loss bursts, duplicates and reordering.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Write the figures to jitlat-demo.html, or --html FILE, and open them
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub one_way: OneWayArgs,
    #[command(flatten)]
    pub quiet: QuietArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Page that `--open` writes without `--html`.
const PAGE: &str = "jitlat-demo.html";

/// Commands to try after the demonstration, each with its purpose.
const NEXT: [(&str, &str); 3] = [
    ("jitlat demo -b --open", "both directions, with figures in a browser"),
    ("jitlat ping HOST", "round trips to any host, without a server"),
    ("jitlat serve", "on another host: then jitlat HOST measures each direction"),
];

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
    let mut one_way = args.one_way.clone();
    let shown = figures_to_show(args)?;
    if args.open {
        one_way.report.outputs.write_page_to(Path::new(PAGE));
    } else if let Some(page) = &shown {
        one_way.report.outputs.write_page_to(page);
    }
    let status = test::measure(test, &one_way, &stop, StreamOrigin::Demonstration, args.live)?;
    if one_way.report.shows_screen() {
        terminal::print(&next())?;
    }
    if let Some(page) = one_way.report.outputs.path("html").filter(|_| args.open) {
        open(page);
    }
    Ok(status)
}

/// Creates a temporary file for the page with the figures, whose name is printed on the terminal. `None` if standard output is not a
/// terminal, in a build without figures, and with `--open`, which creates its own file.
fn figures_to_show(args: &DemoArgs) -> Result<Option<PathBuf>> {
    let report = &args.one_way.report;
    if args.open || !report.shows_screen() || !terminal::is_terminal() || !cfg!(feature = "plots") {
        return Ok(None);
    }
    let file = tempfile::Builder::new().prefix("jitlat-demo-").suffix(".html").tempfile();
    let file = file.context("creating a temporary file for the figures")?;
    Ok(Some(file.into_temp_path().keep().context("keeping the file of the figures")?))
}

/// Lists the commands to try next.
fn next() -> String {
    let width = NEXT.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let line = |(command, purpose): &(&str, &str)| format!("       {command:width$}  {purpose}\n");
    format!("\nThen{}", NEXT.iter().map(line).collect::<String>().trim_start_matches("    "))
}

/// Opens a page in the browser, if standard output is a terminal.
fn open(page: &Path) {
    let name = page.display();
    if !terminal::is_terminal() {
        info!("figures: {name}");
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // Its end is not awaited, because it may run as long as the browser.
        Ok(_) => info!("figures: {name} (opened by xdg-open)"),
        Err(e) => warn!("figures: {name}; it was not opened: starting xdg-open: {e}"),
    }
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
