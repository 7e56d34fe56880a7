//! `jitlat tcp`: what TCP hides, from one capture.

use anyhow::{Context, bail};
use clap::Args;
use jitlat_core::passive::packet::decode;
use jitlat_core::passive::tcp::{Connection, EventKind, LaneFigures, Seen, TcpAnalyzer};
use jitlat_core::passive::{Prefix, SpreadFigures};
use jitlat_core::units;
use jitlat_net::capture::Capture;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// What TCP hides: retransmissions and their reasons, reordering, losses before and after the capture point,
/// round trips, closed and full windows; for each connection of a capture.
///
/// The capture may be taken anywhere between the hosts; "before" is between the sender and the capture point,
/// "after" between the capture point and the receiver. Round trips are from the capture point to the receiver
/// and back.
#[derive(Clone, Debug, Args)]
pub struct TcpArgs {
    /// Capture(s) of one point, pcap or pcapng, packed or not; - is standard input
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
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|()| format!("'{text}' is no address or prefix"))
}

/// Runs `jitlat tcp`.
pub fn run(args: &TcpArgs) -> anyhow::Result<ExitCode> {
    let mut capture = Capture::open(&args.captures)?;
    let mut analyzer = TcpAnalyzer::default();
    let mut events = args.events.then(|| BufWriter::with_capacity(1 << 16, io::stdout()));
    let (mut packets, mut skipped) = (0u64, 0u64);
    while let Some(f) = capture.next_frame() {
        let Ok(p) = decode(f.link, f.data, f.wire_length) else {
            skipped += 1;
            continue;
        };
        packets += 1;
        if args.host.is_some_and(|h| !h.contains(p.src) && !h.contains(p.dst))
            || args.port.is_some_and(|port| p.ports().is_none_or(|(a, b)| a != port && b != port))
        {
            continue;
        }
        for seen in analyzer.push(f.at, &p) {
            let Some(out) = &mut events else { break };
            match line(out, &seen) {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                other => other?,
            }
        }
    }
    for note in capture.notes() {
        eprintln!("note: {note}");
    }
    if analyzer.segments() == 0 {
        bail!(
            "no TCP segment in {}: {packets} IP packets, {skipped} frames that are not IP or not understood{}",
            args.captures.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
            if args.host.is_some() || args.port.is_some() { "; --host and --port were applied" } else { "" }
        );
    }
    if analyzer.not_followed() > 0 {
        eprintln!("note: {} segments of connections beyond 131072 were left alone", analyzer.not_followed());
    }
    if capture.drops() > 0 {
        eprintln!("note: the capture lost {} packets itself; they look like gaps", capture.drops());
    }
    if let Some(mut out) = events {
        return match out.flush() {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("cannot write to standard output"),
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    let mut connections = analyzer.finish();
    connections.sort_by_key(|c| std::cmp::Reverse(c.up.bytes + c.down.bytes));
    if let Some(path) = &args.json {
        let json = serde_json::json!({
            "instrument": "tcp",
            "version": 1,
            "segments": analyzer.segments(),
            "capture_drops": capture.drops(),
            "notes": capture.notes(),
            "connections": connections,
        });
        let text = serde_json::to_string_pretty(&json)? + "\n";
        if path.as_os_str() == "-" {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print(&summary(&connections, args.top, analyzer.segments()))?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

fn line(out: &mut impl io::Write, s: &Seen) -> io::Result<()> {
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

fn summary(connections: &[Connection], top: usize, segments: u64) -> String {
    let mut t = String::new();
    let shown = if top == 0 { connections.len() } else { connections.len().min(top) };
    // Writing to a string cannot fail.
    let _ = writeln!(t, "{segments} TCP segments, {} connections", connections.len());
    for c in &connections[..shown] {
        connection(&mut t, c);
    }
    if shown < connections.len() {
        let _ = writeln!(
            t,
            "\n{} smaller connections are not shown (--top 0 shows all)",
            connections.len() - shown
        );
    }
    t
}

fn connection(t: &mut String, c: &Connection) {
    let _ = writeln!(
        t,
        "\n{} > {}  {}, {} long",
        c.client,
        c.server,
        units::utc_date(c.first),
        units::eng4((c.last - c.first).0)
    );
    let eng = |s: Option<jitlat_core::Span>| s.map_or("-".to_owned(), |s| units::eng4(s.0));
    if c.handshake_server_ns.is_some() || c.handshake_client_ns.is_some() {
        let _ = writeln!(
            t,
            "  handshake: {} to the server and back, {} to the client and back",
            eng(c.handshake_server_ns),
            eng(c.handshake_client_ns)
        );
    }
    let _ = writeln!(t, "  {:<26}{:>14} {:>14}", "", "from client", "from server");
    let mut row = |name: &str, always: bool, f: &dyn Fn(&LaneFigures) -> (bool, String)| {
        let (a, b) = (f(&c.up), f(&c.down));
        if always || a.0 || b.0 {
            let _ = writeln!(t, "  {name:<26}{:>14} {:>14}", a.1, b.1);
        }
    };
    let count = |f: fn(&LaneFigures) -> u64| move |l: &LaneFigures| (f(l) > 0, f(l).to_string());
    row("segments", true, &count(|l| l.segments));
    row("payload bytes", true, &count(|l| l.unique_bytes));
    row("retransmissions", true, &count(|l| l.retransmissions));
    row("  fast", false, &count(|l| l.fast));
    row("  timeout", false, &count(|l| l.timeouts));
    row("  spurious", false, &count(|l| l.spurious));
    row("lost before this point", false, &count(|l| l.lost_before));
    row("lost after this point", false, &count(|l| l.lost_after));
    row("out of order", false, &count(|l| l.out_of_order));
    row("duplicates", false, &count(|l| l.duplicates));
    row("gaps never filled", false, &count(|l| l.unfilled_gaps));
    row("keep-alives", false, &count(|l| l.keep_alives));
    row("duplicate ACKs sent", false, &count(|l| l.duplicate_acks));
    row("window closed", false, &count(|l| l.zero_windows));
    row("  for altogether", false, &|l| (l.zero_window_ns.0 > 0, units::eng4(l.zero_window_ns.0)));
    row("window filled", false, &count(|l| l.window_full));
    row("most bytes in flight", true, &count(|l| l.max_in_flight));
    let rtt = |f: fn(&LaneFigures) -> Option<SpreadFigures>, g: fn(SpreadFigures) -> i64| {
        move |l: &LaneFigures| (f(l).is_some(), f(l).map_or("-".to_owned(), |s| units::eng4(g(s))))
    };
    row("RTT by ACK, min", false, &rtt(|l| l.rtt_ack_ns, |s| s.min));
    row("            p50", false, &rtt(|l| l.rtt_ack_ns, |s| s.median));
    row("            p95", false, &rtt(|l| l.rtt_ack_ns, |s| s.p95));
    row("RTT by timestamps, min", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.min));
    row("                   p50", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.median));
    row("                   p95", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.p95));
}
