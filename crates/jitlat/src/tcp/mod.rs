//! `jitlat tcp`: analyses TCP connections, from one capture point or two.

mod parts;

use crate::exit::ExitStatus;
use crate::exit::log_failures;
use crate::interrupt;
use crate::options::outputs::Outputs;
use crate::options::report::LengthArgs;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use jitlat_core::prefix::Prefix;
use jitlat_core::quantity;
use jitlat_core::time::Span;
use jitlat_instruments::{Stop, TcpCaptures};
use jitlat_net::capture::{STDIN, in_folders};
use jitlat_output::captures::{ConnectionsReport, EventPrinter};
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use jitlat_output::{ReportParts, screen};
use jitlat_passive::CaptureObserver;
use jitlat_passive::tcp::{TcpResult, answer};
use jitlat_report::figure::{ConnectionTrace, FigureRange, PassiveTrace};
use jitlat_report::text::screen::Screen;
use jitlat_report::{Section, tcp_section, text};
use parts::TcpPartArgs;
use std::path::{Path, PathBuf};

/// Analyse captured TCP: retransmissions, reordering, round trips, windows
///
/// For each connection: retransmissions and their reasons, reordering, losses before and after the capture point,
/// round trips, closed and full windows.
///
/// A capture may be taken anywhere between the hosts. "Before" means between the sender and the capture point,
/// "after" between the capture point and the receiver. Round trips are between the capture point and the
/// receiver. Figures show the connection with the most bytes.
#[derive(Clone, Debug, Args)]
pub struct TcpArgs {
    /// Captures (pcap or pcapng), or a folder of them; - is standard input
    ///
    /// They may be compressed. Two captures of the same traffic are two points, the one nearer to the client first;
    /// other captures are read one after the other as those of one point.
    #[arg(value_name = "CAPTURE", required_unless_present = "join")]
    pub captures: Vec<PathBuf>,
    /// Analyse only connections of this address or prefix
    #[arg(long, value_name = "ADDR", value_parser = prefix)]
    pub host: Option<Prefix>,
    /// Analyse only connections of this port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Number of connections shown with -v, those with the most bytes first; 0: all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print one line per event that delayed data, instead of the summary
    ///
    /// Columns: time, sender, receiver, cause, bytes, wait.
    #[arg(short = 'e', long)]
    pub events: bool,
    /// Read two captures one after the other, even if they contain the same traffic
    #[arg(long)]
    pub one_point: bool,
    /// Read a folder or file while it is written, until Ctrl-C
    ///
    /// For example, the files that tcpdump -C or -G creates.
    #[arg(long, conflicts_with_all = ["join", "keep"])]
    pub follow: bool,
    /// Stop after this time, with --follow (30s, 10m)
    ///
    /// A bare number is seconds.
    #[arg(long, value_name = "T", value_parser = quantity::duration, requires = "follow")]
    pub duration: Option<Span>,
    #[command(flatten)]
    pub parts: TcpPartArgs,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::FIGURES.and(ReportParts::PAGE).0 }>,
    #[command(flatten)]
    pub length: LengthArgs,
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|()| format!("'{text}' is not an IP address or prefix"))
}

/// Runs `jitlat tcp`.
pub fn run(args: &TcpArgs) -> Result<ExitStatus> {
    if args.events && !args.outputs.is_empty() {
        bail!("-e prints only events: leave it out for a report");
    }
    let state: Vec<&Path> = args.parts.state.iter().map(PathBuf::as_path).collect();
    args.outputs.check(0, &state)?;
    let draws = args.outputs.draws();
    if !args.parts.join.is_empty() {
        return join(args);
    }
    if draws && args.captures.iter().any(|p| p.as_os_str() == STDIN) {
        bail!(
            "drawing figures reads the capture twice, but standard input can be read only once: give a file"
        );
    }
    if args.follow
        && (args.captures.len() > 1 || draws || args.captures.iter().any(|p| p.as_os_str() == STDIN))
    {
        bail!("--follow reads a single folder or file, and only once: leave out other captures and figures");
    }
    let stop = interrupt::stop()?;
    let captures = TcpCaptures {
        host: args.host,
        port: args.port,
        one_point: args.one_point || args.events || args.captures.iter().any(|p| p.is_dir()),
        share: args.parts.keep,
        follow: args.follow,
        duration: args.duration,
        matched: draws,
    };
    let mut trace = draws.then(|| PassiveTrace::new(Span::seconds(1), FigureRange::default()));
    let mut lines = args.events.then(|| EventPrinter::new(stop.clone(), args.follow));
    let observer: &mut [&mut dyn CaptureObserver; 2] = &mut [&mut trace, &mut lines];
    let files = if args.follow { args.captures.clone() } else { in_folders(&args.captures)? };
    let mut failures: Vec<anyhow::Error> = Vec::new();
    let is_read = !args.follow && !args.events;
    let work = Work::of_files("reading captures", files.iter().map(PathBuf::as_path).filter(|_| is_read));
    let result = match args.parts.state {
        None => captures.analyse(&files, &stop, observer)?,
        Some(_) => {
            let part = captures.find(&files, &stop, observer)?;
            match stop.is_requested() {
                false => failures.extend(args.parts.write_state(&part).err()),
                true => failures.push(anyhow!(
                    "interrupted: the state was not written, because it must cover the whole capture"
                )),
            }
            part.result()
        }
    };
    drop(work);
    let mut section = None;
    // A failure to write one output does not affect the others.
    if draws {
        // Draw the first of two points.
        let joined = !result.between.is_empty();
        let drawn = if joined { trace } else { None };
        let own = match (joined, result.is_exchanged) {
            (false, _) => &files[..],
            (true, false) => &files[..1],
            (true, true) => &files[1..],
        };
        match draw(&captures, own, &result, drawn.as_ref(), &stop) {
            Ok(drawn) => section = drawn,
            Err(e) => failures.push(e),
        }
    }
    show(args, &result, section, lines, failures)
}

/// Runs `--join`.
fn join(args: &TcpArgs) -> Result<ExitStatus> {
    if args.outputs.draws() {
        bail!(
            "--join cannot draw figures, because they need the captures: leave out the options for figures"
        );
    }
    let parts = args.parts.states()?;
    if args.events && parts.iter().any(|part| part.pair.is_some()) {
        bail!("events come from one point, but these parts are from two: analyse them with --one-point");
    }
    let mut lines = match args.events {
        true => Some(EventPrinter::new(interrupt::stop()?, false)),
        false => None,
    };
    let result = TcpCaptures::of_parts(parts, &mut lines)?;
    show(args, &result, None, lines, Vec::new())
}

/// Prints and writes the results.
fn show(
    args: &TcpArgs,
    result: &TcpResult,
    section: Option<Section>,
    lines: Option<EventPrinter>,
    mut failures: Vec<anyhow::Error>,
) -> Result<ExitStatus> {
    for note in &result.notes {
        let _ = terminal::print_to_stderr(&format!("note: {note}\n"));
    }
    let printed = match lines {
        Some(lines) => {
            failures.extend(lines.finish().err().map(anyhow::Error::from));
            true
        }
        None => {
            let report = ConnectionsReport { result, section };
            args.outputs.write(&report, || {
                let one_screen = || match args.parts.join.is_empty() {
                    true => screen::finished(Screen::of_connections(result), &args.outputs),
                    false => screen::finished_without_figures(Screen::of_connections(result)),
                };
                args.length.choose(&answer(result), || text::tcp(result, args.top), one_screen)
            })
        }
    };
    let whole = log_failures(&failures);
    Ok(if whole && printed { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Draws the figures of the connection with the most bytes; draws nothing if there is no connection.
fn draw(
    captures: &TcpCaptures,
    own: &[PathBuf],
    result: &TcpResult,
    drawn: Option<&PassiveTrace>,
    stop: &Stop,
) -> Result<Option<Section>> {
    let mut trace = ConnectionTrace::default();
    if let Some(c) = result.first.connections.first() {
        captures.follow_connection(own, c, stop, &mut trace)?;
    }
    Ok(tcp_section(result, &trace, drawn))
}
