//! Round trips from one capture point.

use jitlat_core::time::Span;
use jitlat_core::units;
use jitlat_passive::recording::describe_step;
use jitlat_passive::{OnePointFlow, OnePointResult, SpreadFigures};
use std::fmt::Write as _;

/// Returns the round trips of the `top` flows with the most packets; 0 for all.
pub fn one_point(r: &OnePointResult, top: usize) -> String {
    let all = r.flows.len();
    let shown = if top == 0 { all } else { all.min(top) };
    // Writing to a string cannot fail.
    let mut t = String::new();
    let flows = if all == 1 { "flow" } else { "flows" };
    let _ = writeln!(t, "{} IP packets, {all} {flows} of TCP and QUIC", r.packets);
    for step in r.clock_steps.iter().filter(|step| step.proven) {
        let at = units::utc_date(step.at);
        let _ = writeln!(t, "{} at {at}: nothing is measured across this step", describe_step(step));
    }
    for note in &r.notes {
        let _ = writeln!(t, "{note}");
    }
    if let Some(resolution) = r.resolution_ns {
        let _ = writeln!(
            t,
            "times are in steps of {}: shorter round trips are not known",
            units::eng3(resolution.0 as f64)
        );
    }
    for flow in &r.flows[..shown] {
        of_flow(&mut t, flow, r.resolution_ns);
    }
    if shown < all {
        let _ = writeln!(t, "\n{} smaller flows are not shown (--top 0 shows all)", all - shown);
    }
    if r.not_followed > 0 {
        let _ = writeln!(t, "\n{} packets of further QUIC flows were skipped", r.not_followed);
    }
    t
}

fn of_flow(t: &mut String, flow: &OnePointFlow, resolution: Option<Span>) {
    let name = if flow.protocol == "tcp" { "TCP" } else { "QUIC" };
    let _ = writeln!(t, "\n{} > {}  {name}, {} packets", flow.client, flow.server, flow.packets);
    if let Some(why) = flow.why_not {
        let _ = writeln!(t, "  no round trip: {why}");
        return;
    }
    let _ = writeln!(
        t,
        "  {:<24}{:>8}{:>11}{:>11}{:>11}{:>11}",
        "round trip from here", "number", "min", "median", "p95", "max"
    );
    let mut row = |name: &str, figures: Option<SpreadFigures>| {
        let Some(f) = figures else { return };
        let eng = |ns: i64| match resolution.filter(|resolution| ns < resolution.0) {
            Some(resolution) => format!("< {}", units::eng3(resolution.0 as f64)),
            None => units::eng4(ns),
        };
        let _ = writeln!(
            t,
            "  {name:<24}{:>8}{:>11}{:>11}{:>11}{:>11}",
            f.count,
            eng(f.min),
            eng(f.median),
            eng(f.p95),
            eng(f.max)
        );
    };
    row("to the server and back", flow.server_rtt_ns);
    row("to the client and back", flow.client_rtt_ns);
    row("whole, by the spin bit", flow.whole_rtt_ns);
}
