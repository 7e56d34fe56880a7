//! Round trips compared with an access link, or the link that fits the results of a sweep.

use jitlat_core::link::AccessLink;
use jitlat_core::link::{Encapsulation, Layer, LinkFit, milliseconds};
use jitlat_core::time::Span;
use jitlat_core::units;
use jitlat_passive::fit_sizes;
use jitlat_passive::{LinkQuestion, ModelFigures, SizeFigures};
use std::fmt::Write as _;

/// Maximum number of sizes shown.
const MAX_SIZES: usize = 12;

fn heading(link: &AccessLink) -> String {
    let tunnel = if link.tunnel > 0 { format!(", {} B of tunnel", link.tunnel) } else { String::new() };
    let (up, down) = (units::bit_rate(link.up as f64), units::bit_rate(link.down as f64));
    format!("Link {}{tunnel}: {up} from the reference, {down} to the reference\n", link.encapsulation)
}

/// Returns the link's model next to the measured round trips, or the link that fits them.
pub fn answer(question: &LinkQuestion, sizes: &[SizeFigures]) -> String {
    let mut t = String::from("\n");
    match question {
        LinkQuestion::Compare(link) => compare(&mut t, link, sizes),
        LinkQuestion::Fit { tunnel } => describe(&mut t, fit_sizes(sizes, *tunnel).as_ref(), sizes, *tunnel),
    }
    t
}

fn compare(t: &mut String, link: &AccessLink, sizes: &[SizeFigures]) {
    t.push_str(&heading(link));
    let mut common: Vec<_> = sizes.iter().collect();
    common.sort_by_key(|s| std::cmp::Reverse(s.pairs));
    common.truncate(MAX_SIZES);
    common.sort_by_key(|s| (s.out_length, s.in_length));
    // Writing to a string cannot fail.
    let _ = writeln!(t, "{:32}{:^27} {:^26} {:^26}", "", "model, ms", "measured, ms", "measured - model, ms");
    let _ = writeln!(
        t,
        "{:>6} {:>6} {:>7} {:>8}  {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8}",
        "OUT B",
        "IN B",
        "pairs",
        "cells",
        "down",
        "up",
        "RTT",
        "min",
        "median",
        "mean",
        "min",
        "median",
        "mean"
    );
    for s in common {
        let m = ModelFigures::of(link, s);
        let cells = match (m.out_cells, m.in_cells) {
            (Some(out), Some(back)) if out == back => out.to_string(),
            (Some(out), Some(back)) => format!("{out}/{back}"),
            _ => "-".to_owned(),
        };
        let _ = write!(t, "{:>6} {:>6} {:>7} {cells:>8}", s.out_length, s.in_length, s.pairs);
        let measured = [Span(s.min_rtt_ns), Span(s.median_rtt_ns), Span(s.mean_rtt_ns as i64)];
        let above = [m.min_above, m.median_above, Span(m.mean_above_ns as i64)];
        for group in [[m.down, m.up, m.rtt], measured, above] {
            let [a, b, c] = group.map(milliseconds);
            let _ = write!(t, "  {a:>8} {b:>8} {c:>8}");
        }
        t.push('\n');
    }
    if let Some((up, down)) = link.cell() {
        let _ = writeln!(t, "one cell: {} up, {} down", units::full(up.0), units::full(down.0));
    }
    let longest = |f: fn(&SizeFigures) -> u32| sizes.iter().map(f).max();
    if let (Some(out), Some(back)) = (longest(|s| s.out_length), longest(|s| s.in_length)) {
        let _ = writeln!(
            t,
            "bands: each queued OUT packet of {out} bytes adds {} ms, each IN packet of {back} bytes {} ms",
            milliseconds(link.delay_up(out.into())),
            milliseconds(link.delay_down(back.into()))
        );
    }
}

fn describe(t: &mut String, fit: Option<&LinkFit>, sizes: &[SizeFigures], tunnel: u64) {
    let Some(f) = fit else {
        let same = sizes.iter().filter(|s| s.out_length == s.in_length).count();
        let _ = writeln!(
            t,
            "Link: not found; this needs pairs of four or more sizes, equal in both directions (a payload sweep), \
             but there are {same}"
        );
        return;
    };
    let (fixed, slope) = (units::eng4_f64(f.fixed_ns), units::eng4_f64(f.slope_ns));
    let between = f.series_rate_ci95.map_or_else(
        || "its 95 % interval is unknown".to_owned(),
        |[low, high]| format!("95 %: {} to {}", units::bit_rate(low), units::bit_rate(high)),
    );
    let rate = format!("{} ({between})", units::bit_rate(f.series_rate));
    let _ = match f.steps {
        None => writeln!(t, "Link: no steps; min RTT = {fixed} + {slope} per byte"),
        Some((step, _)) => {
            let atm = if step == 48 { " (ATM cells)" } else { "" };
            let overhead = list_runs(&f.overheads);
            writeln!(
                t,
                "Link: steps of {step} bytes{atm}, overhead {overhead} modulo {step}; {slope} per step"
            )
        }
    };
    if f.cells_assumed {
        t.push_str(
            "  too few sizes to detect steps: ATM cells are assumed, because they fit far better than a line\n",
        );
    } else if f.coarse && f.steps.is_none() {
        t.push_str(
            "  too few sizes, or too far apart, to detect steps: sweep 200 bytes in steps of 8 or fewer\n",
        );
    }
    let _ = writeln!(
        t,
        "  both rates in series, 1/(1/up + 1/down): {rate}; residual {} rms",
        units::eng4_f64(f.residual_ns)
    );
    if f.steps.is_some_and(|s| s.0 == 48) {
        let named = |name: &String| match name.parse::<Encapsulation>() {
            Ok(e) if tunnel > 0 => format!("{name} ({} B, {tunnel} B of tunnel)", e.overhead()),
            Ok(e) => format!("{name} ({} B)", e.overhead()),
            Err(_) => name.clone(),
        };
        let names: Vec<String> = f.encapsulations.iter().map(named).collect();
        let names = if names.is_empty() { "none known".to_owned() } else { names.join(", ") };
        let _ = writeln!(t, "  encapsulations with that overhead: {names}");
    }
    if f.overheads.len() > 1 {
        t.push_str("  the measured sizes do not tell these overheads apart: sweep 48 sizes one byte apart\n");
    }
}

/// Lists ascending numbers; neighbours are joined: `0, 17 to 20`.
fn list_runs(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first} to {last}"),
        other => other.iter().map(u64::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Returns tables of the sizes in each layer and the delays on the link, for UDP payloads of the given sizes.
pub fn tables(link: &AccessLink, payloads: &[u64]) -> String {
    let mut t = heading(link);
    let wires: Vec<_> = payloads.iter().map(|p| link.of_payload(*p)).collect();
    let mut names: Vec<&str> = Vec::new();
    for l in wires.iter().flat_map(|w| &w.layers) {
        if !names.contains(&l.name) {
            names.push(l.name);
        }
    }
    // Take the layers of the size with most layers: small packets have additional padding.
    let longest = wires.iter().max_by_key(|w| w.layers.len());
    let names: Vec<&str> = longest.map_or(names, |w| w.layers.iter().map(|l| l.name).collect());
    let mut row = |name: &str, cell: &dyn Fn(usize) -> String| {
        let _ = write!(t, "{name:<24}");
        for i in 0..payloads.len() {
            let _ = write!(t, " {:>9}", cell(i));
        }
        t.push('\n');
    };
    row("UDP payload (bytes)", &|i| payloads[i].to_string());
    for name in names {
        let layer = |i: usize| wires[i].layers.iter().find(|l| l.name == name).copied();
        let total =
            |l: Layer| if l.name == "padding" { format!("+{}", l.added) } else { l.total.to_string() };
        row(name, &|i| layer(i).map_or("-".to_owned(), total));
    }
    row("cells", &|i| wires[i].cells.map_or("-".to_owned(), |c| c.to_string()));
    let ip = |i: usize| AccessLink::ip_length(payloads[i]);
    row("delay down (ms)", &|i| milliseconds(link.delay_down(ip(i))));
    row("delay up (ms)", &|i| milliseconds(link.delay_up(ip(i))));
    row("RTT of the link (ms)", &|i| milliseconds(link.rtt(ip(i), ip(i))));
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_seed() {
        let link: AccessLink = "pppoe-llc,up=128k,down=512k,tunnel=28".parse().unwrap();
        let t = tables(&link, &[40, 340, 640, 940, 1240]);
        for row in [
            "RFC1483                        128       428       728      1028      1328",
            "AAL5                           144       480       768      1056      1344",
            "cells                            3        10        16        22        28",
            "delay down (ms)               2.48      8.28     13.25     18.22     23.19",
            "delay up (ms)                 9.94     33.13     53.00     72.88     92.75",
            "RTT of the link (ms)         12.42     41.41     66.25     91.09    115.94",
        ] {
            assert!(t.contains(row), "{row}\n{t}");
        }
    }

    #[test]
    fn without_sizes_no_link_is_found() {
        assert!(answer(&LinkQuestion::Fit { tunnel: 0 }, &[]).contains("not found"));
    }
}
