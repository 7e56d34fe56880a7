//! TCP connections in captures.

use super::count;
use jitlat_core::units;
use jitlat_passive::SpreadFigures;
use jitlat_passive::tcp::{
    BetweenPoints, DirectionBetween, DirectionFigures, ObservedConnection, TcpResult, explain_delays,
};
use std::fmt::Write as _;

/// Formats the analysis of the `top` connections with the most bytes; 0 for all.
pub fn tcp(r: &TcpResult, top: usize) -> String {
    let all = r.first.connections.len();
    let shown = if top == 0 { all } else { all.min(top) };
    // Writing to a string cannot fail.
    let mut t = String::new();
    let _ = writeln!(t, "{}, {}", count(r.first.segments, "TCP segment"), count(all as u64, "connection"));
    for (c, between) in r.connections().take(shown) {
        connection(&mut t, c);
        if let Some(b) = between {
            two_points(&mut t, b);
        }
        for line in explain_delays(c, between) {
            let _ = writeln!(t, "  {line}");
        }
    }
    if shown < all {
        let _ = writeln!(t, "\n{} smaller connections are not shown (--top 0 shows all)", all - shown);
    }
    t
}

fn connection(t: &mut String, c: &ObservedConnection) {
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
    let mut row = |name: &str, always: bool, f: &dyn Fn(&DirectionFigures) -> (bool, String)| {
        let (a, b) = (f(&c.up), f(&c.down));
        if always || a.0 || b.0 {
            let _ = writeln!(t, "  {name:<26}{:>14} {:>14}", a.1, b.1);
        }
    };
    let count = |f: fn(&DirectionFigures) -> u64| move |l: &DirectionFigures| (f(l) > 0, f(l).to_string());
    row("segments", true, &count(|l| l.segments));
    row("payload bytes", true, &count(|l| l.unique_bytes));
    row("retransmissions", true, &count(|l| l.retransmissions));
    row("  fast", false, &count(|l| l.fast));
    row("  timeout", false, &count(|l| l.timeouts));
    row("  delay of their data", false, &|l| {
        let sum = l.fast_wait_ns.0.saturating_add(l.timeout_wait_ns.0);
        (sum > 0, units::eng4(sum))
    });
    row("  spurious", false, &count(|l| l.spurious));
    row("lost before this point", false, &count(|l| l.lost_before));
    row("lost after this point", false, &count(|l| l.lost_after));
    row("out of order", false, &count(|l| l.out_of_order));
    row("duplicates", false, &count(|l| l.duplicates));
    row("gaps never filled", false, &count(|l| l.unfilled_gaps));
    row("keep-alives", false, &count(|l| l.keep_alives));
    row("duplicate ACKs sent", false, &count(|l| l.duplicate_acks));
    row("window closed", false, &count(|l| l.zero_windows));
    row("  total time", false, &|l| (l.zero_window_ns.0 > 0, units::eng4(l.zero_window_ns.0)));
    row("window filled", false, &count(|l| l.window_full));
    row("  total wait", false, &|l| (l.window_full_ns.0 > 0, units::eng4(l.window_full_ns.0)));
    row("most bytes in flight", true, &count(|l| l.max_in_flight));
    let rtt = |f: fn(&DirectionFigures) -> Option<SpreadFigures>, g: fn(SpreadFigures) -> i64| {
        move |l: &DirectionFigures| (f(l).is_some(), f(l).map_or("-".to_owned(), |s| units::eng4(g(s))))
    };
    row("RTT by ACK, min", false, &rtt(|l| l.rtt_ack_ns, |s| s.min));
    row("            p50", false, &rtt(|l| l.rtt_ack_ns, |s| s.median));
    row("            p95", false, &rtt(|l| l.rtt_ack_ns, |s| s.p95));
    row("RTT by timestamps, min", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.min));
    row("                   p50", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.median));
    row("                   p95", false, &rtt(|l| l.rtt_timestamp_ns, |s| s.p95));
}

fn two_points(t: &mut String, b: &BetweenPoints) {
    let _ = writeln!(t, "  {:<26}{:>14} {:>14}", "at both points", "from client", "from server");
    let mut row = |name: &str, f: &dyn Fn(&DirectionBetween) -> String| {
        let _ = writeln!(t, "  {name:<26}{:>14} {:>14}", f(&b.up), f(&b.down));
    };
    let count = |v: Option<u64>| v.map_or("-".to_owned(), |v| v.to_string());
    row("lost before both", &|l| count(l.lost_before));
    row("lost between them", &|l| l.lost_between.to_string());
    row("lost after both", &|l| count(l.lost_after));
    row("duplicated between them", &|l| l.duplicates.to_string());
    let eng = |v: Option<i64>| v.map_or("-".to_owned(), units::eng4);
    row("delay above min, p50", &|l| eng(l.delay_variation_median_ns));
    row("                   p95", &|l| eng(l.delay_variation_p95_ns));
    row("                   max", &|l| eng(l.delay_variation_max_ns));
}
