//! Captured traffic in the report: round trips between two points, and TCP connections.

use super::Section;
use crate::figure::{ConnectionTrace, PassiveRun, PassiveTrace, label_measured, of_passive, of_tcp};
use crate::text::describe_band;
use crate::text::screen::Screen;
use jitlat_core::units;
use jitlat_passive::tcp::{DirectionFigures, TcpResult, explain_delays};
use jitlat_passive::verdict::list_prefixes;
use jitlat_passive::{MatchedFigures, PassiveResult, PingFigures, PingSource, SpreadFigures};

/// Creates the section of round trips in captured traffic, shown before the two directions. `notes` are added to the
/// notes of the result.
pub fn passive_section(
    r: &PassiveResult,
    ping: PingFigures,
    notes: &[String],
    run: &PassiveRun<'_>,
) -> Section {
    let s = &r.summary;
    let columns = ["", "values", "min", "p50", "mean", "p95", "p99", "max"];
    let mut rows = Vec::new();
    let mut row = |name: String, f: Option<SpreadFigures>| {
        if let Some(f) = f {
            let [min, p50, p95, p99, max] = [f.min, f.median, f.p95, f.p99, f.max].map(units::eng4);
            rows.push(vec![name, f.count.to_string(), min, p50, units::eng4_f64(f.mean), p95, p99, max]);
        }
    };
    row("RTT per pair".into(), s.rtt_ns);
    row(format!("RTT every {}", units::eng4(s.per_time_interval_ns.0)), s.rtt_per_time_ns);
    PingSource::BOTH.iter().for_each(|source| row(source.label().into(), ping[*source as usize]));
    row("time at the monitor".into(), s.turnaround_ns);
    row("OUT, delay above the minimum".into(), s.out.delay_variation_ns);
    row("IN, delay above the minimum".into(), s.back.delay_variation_ns);
    let ends = [list_prefixes(&r.plan.sides[0].reference), list_prefixes(&r.plan.sides[1].monitor)];
    Section {
        title: "Round trips of captured traffic".into(),
        what: format!(
            "{} synthetic packet pairs between {} (reference) and {} (monitor)",
            s.pairs, ends[0], ends[1]
        ),
        screen: None,
        remarks: remarks(r, notes),
        columns: columns.map(String::from).to_vec(),
        rows,
        figures: of_passive(run),
    }
}

fn remarks(r: &PassiveResult, notes: &[String]) -> Vec<String> {
    let s = &r.summary;
    let way = |name: &str, w: &MatchedFigures| {
        let loss = w.loss_ratio.map_or(String::new(), |l| format!(" ({:.3} %)", l * 100.0));
        format!(
            "{name}: {} of {} packets matched, {} lost{loss}, {} duplicated, {} reordered.",
            w.counts.matched,
            w.counts.matched + w.counts.lost,
            w.counts.lost,
            w.counts.duplicates,
            w.counts.reordered
        )
    };
    let mut list = vec![way("OUT", &s.out), way("IN", &s.back)];
    if let (Some(offset), Some(bound)) = (s.clocks.offset_ns, s.clocks.offset_bound_ns) {
        let skew = s.clocks.skew_ppm.map_or(String::new(), |k| format!(", and runs fast by {k:.2} ppm"));
        list.push(format!(
            "The monitor's clock is ahead by {} ± {}{skew}. Round trips do not depend on it.",
            units::full_f64(offset),
            units::eng4_f64(bound)
        ));
    }
    list.extend(s.levels.iter().map(|l| format!("Bands: {}.", describe_band(l))));
    list.extend(s.queue.iter().map(|q| format!("Queue: {q}.")));
    list.extend(r.notes().iter().chain(notes).map(|n| format!("Note: {n}.")));
    list
}

/// Creates the section of the connection with the most bytes; `None` if there is none. `trace` contains the connection
/// over time, and `drawn` the path between two points, if there are two.
pub fn tcp_section(r: &TcpResult, trace: &ConnectionTrace, drawn: Option<&PassiveTrace>) -> Option<Section> {
    let (c, between) = r.connections().next()?;
    let measured = format!("{} to {}, {}", c.client, c.server, units::utc_date(c.first));
    let mut figures = of_tcp(&trace.up, "up", "data from the client");
    figures.extend(of_tcp(&trace.down, "down", "data from the server"));
    if let Some(t) = drawn {
        figures.extend(of_passive(&PassiveRun::new(t)));
    }
    label_measured(&mut figures, &measured);
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
    if let Some(b) = between {
        rows.push(vec![
            "lost between the points".into(),
            b.up.lost_between.to_string(),
            b.down.lost_between.to_string(),
        ]);
    }
    Some(Section {
        title: "TCP connections of a capture".into(),
        what: format!("{} to {}, {} long", c.client, c.server, units::eng4(c.duration().0)),
        screen: Some(Screen::of_connections(r)),
        remarks: explain_delays(c, between),
        columns: ["", "from client", "from server"].map(String::from).to_vec(),
        rows,
        figures,
    })
}
