//! The passive part of the HTML report and its figures.

use super::report::{Outcome, band, list, suspicions};
use jitlat_core::passive::{SpreadFigures, WayFigures};
use jitlat_core::units;
use jitlat_report::figure::{PassiveTrace, of_passive};
use jitlat_report::html::Section;

/// What stands before the two directions.
pub fn section(o: &Outcome<'_>, trace: &PassiveTrace) -> Section {
    let s = o.summary;
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
    row("ping".into(), o.ping);
    row("time at the monitor".into(), s.turnaround_ns);
    row("OUT, delay above the least".into(), s.out.delay_variation_ns);
    row("IN, delay above the least".into(), s.back.delay_variation_ns);
    let ends = [list(&o.plan.sides[0].reference), list(&o.plan.sides[1].monitor)];
    Section {
        title: "Round trips of captured traffic".into(),
        what: format!(
            "{} synthetic packet pairs between {} (reference) and {} (monitor)",
            s.pairs, ends[0], ends[1]
        ),
        remarks: remarks(o),
        columns: columns.map(String::from).to_vec(),
        rows,
        figures: of_passive(trace, &s.levels),
    }
}

fn remarks(o: &Outcome<'_>) -> Vec<String> {
    let s = o.summary;
    let way = |name: &str, w: &WayFigures| {
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
            "The monitor's clock is ahead by {}, give or take {}{skew}. The round trips do not depend on it.",
            units::full_f64(offset),
            units::eng4_f64(bound)
        ));
    }
    list.extend(s.levels.iter().map(|l| format!("Bands: {}.", band(l))));
    list.extend(suspicions(o).into_iter().map(|n| format!("Note: {n}.")));
    list
}
