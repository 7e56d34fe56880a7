//! `jitlat tcp`: what TCP hides, from one capture point or two.

mod points;
pub mod text;
mod words;

use crate::console;
use crate::exit::Status;
use crate::present;
use crate::spp::feed::Only;
use crate::spp::join::{Joined, join};
use anyhow::{Context, bail};
use clap::Args;
use jitlat_core::passive::tcp::{Connection, DirectedEvent, DirectionFigures, EventKind};
use jitlat_core::passive::{Packet, Prefix};
use jitlat_core::units;
use jitlat_net::capture::STDIN;
use jitlat_report::figure::{PassiveTrace, of_passive, of_tcp};
use jitlat_report::html::Section;
use jitlat_store::output;
use points::{Between, Point};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use tracing::info;

/// What TCP hides: retransmissions and their reasons, reordering, losses before and after the capture point,
/// round trips, closed and full windows; for each connection of a capture.
///
/// A capture may be taken anywhere between the hosts; "before" is between the sender and the capture point,
/// "after" between the capture point and the receiver. Round trips are from the capture point to the receiver
/// and back.
#[derive(Clone, Debug, Args)]
pub struct TcpArgs {
    /// A capture, pcap or pcapng, packed or not; - is standard input. Two that hold the same traffic are two points,
    /// the nearer to the client first; any others are read one after the other as one point's
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<PathBuf>,
    /// Only connections of this address or prefix
    #[arg(long, value_name = "ADDR", value_parser = prefix)]
    pub host: Option<Prefix>,
    /// Only connections of this port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Connections shown, those with most bytes first; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// One line for everything that delayed data instead of the summary: time, sender, receiver, what, bytes, wait
    #[arg(short = 'e', long)]
    pub events: bool,
    /// Write everything as one JSON object to FILE; - is standard output, and then nothing else goes there
    #[arg(long, value_name = "FILE", conflicts_with = "events")]
    pub json: Option<PathBuf>,
    /// Read two captures one after the other, even if they hold the same traffic
    #[arg(long)]
    pub one_point: bool,
    /// Write a report with interactive figures of the largest connection to FILE: one self-contained HTML page
    #[arg(long, value_name = "FILE", conflicts_with = "events")]
    pub html: Option<PathBuf>,
    /// Draw the figures of the largest connection into DIR, as SVG and PNG
    #[arg(long, value_name = "DIR", conflicts_with = "events")]
    pub plots: Option<PathBuf>,
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|()| format!("'{text}' is no address or prefix"))
}

/// Runs `jitlat tcp`.
pub fn run(args: &TcpArgs) -> anyhow::Result<Status> {
    let stdin = |p: &PathBuf| p.as_os_str() == STDIN;
    if args.captures.iter().any(stdin) && (args.html.is_some() || args.plots.is_some()) {
        bail!("figures read the capture twice, which standard input cannot: give a file");
    }
    let only = Some(args.only()?);
    let draws = args.html.is_some() || args.plots.is_some();
    let mut drawn = None;
    let joined = match args.captures.as_slice() {
        [a, b] if !args.one_point && !args.events && !stdin(a) && !stdin(b) => {
            let points = [std::slice::from_ref(a), std::slice::from_ref(b)];
            join(points, only, draws.then_some(&mut drawn))?.ok()
        }
        _ => None,
    };
    let own = match &joined {
        Some(_) => &args.captures[..1],
        None => &args.captures[..],
    };
    let mut events = args.events.then(|| BufWriter::with_capacity(1 << 16, io::stdout()));
    let first = points::read(
        own,
        |p| args.wants(p),
        |seen| {
            let Some(out) = &mut events else { return Ok(true) };
            match line(out, seen) {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
                other => Ok(other.map(|()| true)?),
            }
        },
    )?;
    let second = match &joined {
        Some(_) => Some(points::read(&args.captures[1..], |p| args.wants(p), |_| Ok(true))?),
        None => None,
    };
    let mut notes: Vec<String> = Vec::new();
    for p in [Some(&first), second.as_ref()].into_iter().flatten() {
        notes.extend(p.notes.iter().cloned());
        if p.not_followed > 0 {
            notes.push(format!("{} segments of connections beyond 131072 were left alone", p.not_followed));
        }
        if p.drops > 0 {
            notes.push(format!("the capture lost {} packets itself; they look like gaps", p.drops));
        }
    }
    if let Some(j) = &joined {
        notes.extend(about_points(args, j));
    }
    notes.iter().for_each(|n| info!("{n}"));
    if first.segments == 0 {
        bail!(
            "no TCP segment in {}: {} IP packets, {} frames that are not IP or not understood{}",
            args.captures.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
            first.packets,
            first.skipped,
            if args.host.is_some() || args.port.is_some() { "; --host and --port were applied" } else { "" }
        );
    }
    if let Some(mut out) = events {
        return match out.flush() {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("cannot write to standard output"),
            _ => Ok(Status::Measured),
        };
    }
    let between = match (&joined, &second) {
        (Some(j), Some(s)) => points::between(&first.connections, s, j),
        _ => Vec::new(),
    };
    if let Some(path) = &args.json {
        write_json(path, &first, &between, &notes)?;
        if path.as_os_str() == "-" {
            return Ok(Status::Measured);
        }
    }
    if draws {
        let section = section(own, &first, &between, drawn.as_deref())?;
        present::write_figures(&[], Some(&section), args.html.as_deref(), args.plots.as_deref())?;
    }
    console::print(&text::summary(&first.connections, &between, args.top, first.segments))?;
    Ok(Status::Measured)
}

impl TcpArgs {
    fn wants(&self, p: &Packet<'_>) -> bool {
        self.host.is_none_or(|h| h.contains(p.src()) || h.contains(p.dst()))
            && self.port.is_none_or(|port| p.ports().is_some_and(|(a, b)| a == port || b == port))
    }

    fn only(&self) -> anyhow::Result<Only> {
        let text = self.port.map_or("tcp".to_owned(), |p| format!("tcp:{p}"));
        text.parse().map_err(|e: String| anyhow::anyhow!(e))
    }
}

/// What is to be known of the two points.
fn about_points(args: &TcpArgs, j: &Joined) -> Vec<String> {
    let list = |p: &[Prefix]| p.iter().take(3).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut notes = vec![format!(
        "two capture points: {} near {}, {} near {}",
        args.captures[0].display(),
        list(&j.plan.sides[0].reference),
        args.captures[1].display(),
        list(&j.plan.sides[1].monitor)
    )];
    if j.plan.direction_assumed {
        notes.push("which point is nearer to whom could not be told: the clocks were believed".to_owned());
    }
    if j.plan.sides[0] != j.plan.sides[1] {
        notes.push(
            "addresses are translated between the points: of the second only what passed both is known"
                .to_owned(),
        );
    }
    let ways = [&j.summary.out, &j.summary.back];
    if ways.iter().all(|w| w.delay_raw_ns.is_none_or(|d| d.min == 0 && d.max == 0)) {
        notes
            .push("every segment has the same time at both points: is it the same capture twice?".to_owned());
    }
    for (f, path) in j.facts.iter().zip(&args.captures) {
        if f.long > 0 && j.facts.iter().any(|g| g.long == 0) {
            notes.push(format!(
                "{}: {} segments of up to {} bytes never travelled like that and match nothing: capture with \
                 `ethtool -K IFACE tso off gso off gro off lro off`",
                path.display(),
                f.long,
                f.longest
            ));
        }
    }
    notes
}

fn write_json(
    path: &Path,
    first: &Point,
    between: &[Option<Between>],
    notes: &[String],
) -> anyhow::Result<()> {
    let json = serde_json::json!({
        "instrument": "tcp",
        "version": 1,
        "segments": first.segments,
        "capture_drops": first.drops,
        "notes": notes,
        "connections": described(&first.connections, between)?,
    });
    output::write(path, |out| writeln!(out, "{}", serde_json::to_string_pretty(&json)?)).map_err(Into::into)
}

/// Connections with what is said of them, as JSON. `between` as of [`text::summary`].
pub fn described(
    connections: &[Connection],
    between: &[Option<Between>],
) -> serde_json::Result<Vec<serde_json::Value>> {
    let one = |(i, c): (usize, &Connection)| {
        let mut value = serde_json::to_value(c)?;
        if let Some(object) = value.as_object_mut() {
            object
                .insert("between".to_owned(), serde_json::to_value(between.get(i).and_then(Option::as_ref))?);
            let words = words::explain(c, between.get(i).and_then(Option::as_ref));
            object.insert("explained".to_owned(), words.into());
        }
        Ok(value)
    };
    connections.iter().enumerate().map(one).collect()
}

/// The report of the connection with most bytes.
fn section(
    captures: &[PathBuf],
    first: &Point,
    between: &[Option<Between>],
    drawn: Option<&PassiveTrace>,
) -> anyhow::Result<Section> {
    let Some(c) = first.connections.first() else { bail!("no connection to draw") };
    let [up, down] = points::trace(captures, c)?;
    let mut figures = of_tcp(&up, "up", "data from the client");
    figures.extend(of_tcp(&down, "down", "data from the server"));
    if let Some(t) = drawn {
        figures.extend(of_passive(t, &[]));
    }
    let b = between.first().and_then(Option::as_ref);
    let row = |name: &str, f: &dyn Fn(&DirectionFigures) -> u64| {
        vec![name.to_owned(), f(&c.up).to_string(), f(&c.down).to_string()]
    };
    let mut rows = vec![
        row("segments", &|l| l.segments),
        row("payload bytes", &|l| l.unique_bytes),
        row("retransmissions", &|l| l.retransmissions),
        row("fast", &|l| l.fast),
        row("after a timeout", &|l| l.timeouts),
        row("for nothing", &|l| l.spurious),
        row("lost before this point", &|l| l.lost_before),
        row("lost after this point", &|l| l.lost_after),
        row("out of order", &|l| l.out_of_order),
        row("duplicates", &|l| l.duplicates),
        row("window closed", &|l| l.zero_windows),
        row("window filled", &|l| l.window_full),
        row("most bytes in flight", &|l| l.max_in_flight),
    ];
    if let Some(b) = b {
        rows.push(vec![
            "lost between the points".into(),
            b.up.lost_between.to_string(),
            b.down.lost_between.to_string(),
        ]);
    }
    Ok(Section {
        title: "What TCP hides".into(),
        what: format!("{} to {}, {} long", c.client, c.server, units::eng4(points::duration(c).0)),
        remarks: words::explain(c, b),
        columns: ["", "from client", "from server"].map(String::from).to_vec(),
        rows,
        figures,
    })
}

fn line(out: &mut impl io::Write, s: &DirectedEvent) -> io::Result<()> {
    let what = match s.event.kind {
        EventKind::Fast => "fast-retransmission",
        EventKind::Timeout => "timeout-retransmission",
        EventKind::Probe => "early-retransmission",
        EventKind::Spurious => "spurious-retransmission",
        EventKind::OutOfOrder => "out-of-order",
        EventKind::Duplicate => "duplicate",
        EventKind::ZeroWindow => "window-closed",
        EventKind::WindowOpens => "window-open",
        EventKind::WindowFull => "window-full",
    };
    let us = s.event.at.0.div_euclid(1000);
    write!(
        out,
        "{}.{:06} {} {} {what} {}",
        us.div_euclid(1_000_000),
        us.rem_euclid(1_000_000),
        s.from,
        s.to,
        s.event.bytes
    )?;
    match s.event.waited {
        Some(w) => writeln!(out, " {:.6}", w.as_seconds()),
        None => writeln!(out, " -"),
    }
}
