//! `--link`: what an access link explains of the round trips, and which link a sweep looks like.

use jitlat_core::passive::link::{Fit, Layer, fit, milliseconds};
use jitlat_core::passive::{Level, Link, SizeFigures};
use jitlat_core::time::Span;
use jitlat_core::units;
use std::fmt::Write as _;
use std::str::FromStr;

/// What `--link` asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Compare with this link.
    Compare(Link),
    /// Find the link from the sizes that occur, below a tunnel of so many bytes.
    Fit {
        /// Bytes the tunnel adds.
        tunnel: u64,
    },
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(s: &str) -> Result<Asked, String> {
        match s.strip_prefix("fit") {
            Some("") => Ok(Asked::Fit { tunnel: 0 }),
            Some(rest) => {
                let bytes = rest.strip_prefix(",tunnel=").and_then(|n| n.parse().ok());
                let tunnel = bytes.filter(|n| *n <= 65_535).ok_or("give fit, or fit,tunnel=BYTES")?;
                Ok(Asked::Fit { tunnel })
            }
            None => {
                s.parse().map(Asked::Compare).map_err(|e: jitlat_core::passive::link::NotALink| e.to_string())
            }
        }
    }
}

/// Lengths that a band is compared with.
const LENGTHS: usize = 8;

/// Adds what `link` makes of the bands: a queued packet of one of the commonest lengths, or a cell.
pub fn explain(levels: &mut [Level], link: &Link, sizes: &[SizeFigures]) {
    let common = |length: fn(&SizeFigures) -> u32| {
        let mut counts = std::collections::BTreeMap::new();
        for s in sizes {
            *counts.entry(length(s)).or_insert(0) += s.pairs;
        }
        let mut list: Vec<(u32, u64)> = counts.into_iter().collect();
        list.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        list.into_iter().take(LENGTHS).map(|(l, _)| l).collect::<Vec<_>>()
    };
    let (out, back) = (common(|s| s.out_length), common(|s| s.in_length));
    levels.iter_mut().for_each(|l| l.explain(link, &out, &back));
}

/// Sizes shown of those that occur.
const SHOWN: usize = 12;

fn heading(link: &Link) -> String {
    let tunnel = if link.tunnel > 0 { format!(", {} B of tunnel", link.tunnel) } else { String::new() };
    let (up, down) = (units::bit_rate(link.up as f64), units::bit_rate(link.down as f64));
    format!("Link {}{tunnel}: {up} from the reference, {down} to it\n", link.encapsulation)
}

/// The model beside the round trips that were measured.
pub fn text(asked: &Asked, sizes: &[SizeFigures]) -> String {
    let mut t = String::from("\n");
    match asked {
        Asked::Compare(link) => compare(&mut t, link, sizes),
        Asked::Fit { tunnel } => describe(&mut t, sweep(sizes, *tunnel).as_ref()),
    }
    t
}

fn compare(t: &mut String, link: &Link, sizes: &[SizeFigures]) {
    t.push_str(&heading(link));
    let mut common: Vec<_> = sizes.iter().collect();
    common.sort_by_key(|s| std::cmp::Reverse(s.pairs));
    common.truncate(SHOWN);
    common.sort_by_key(|s| (s.out_length, s.in_length));
    // Writing to a string cannot fail.
    let _ = writeln!(
        t,
        "{:>7} {:>7} {:>8} {:>10} {:>10} {:>10} {:>11}",
        "OUT B", "IN B", "pairs", "model ms", "min ms", "mean ms", "min - model"
    );
    for s in common {
        let model = link.rtt(s.out_length.into(), s.in_length.into());
        let (min, mean) = (Span(s.min_rtt_ns), Span(s.mean_rtt_ns as i64));
        let _ = writeln!(
            t,
            "{:>7} {:>7} {:>8} {:>10} {:>10} {:>10} {:>11}",
            s.out_length,
            s.in_length,
            s.pairs,
            milliseconds(model),
            milliseconds(min),
            milliseconds(mean),
            milliseconds(min - model)
        );
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

/// The fit over pairs of two packets of one size.
pub fn sweep(sizes: &[SizeFigures], tunnel: u64) -> Option<Fit> {
    let same: Vec<_> = sizes
        .iter()
        .filter(|s| s.out_length == s.in_length)
        .map(|s| (u64::from(s.out_length), s.min_rtt_ns as f64))
        .collect();
    fit(&same, tunnel)
}

fn describe(t: &mut String, fit: Option<&Fit>) {
    let Some(f) = fit else {
        t.push_str(
            "Link: not found; it takes pairs of four or more sizes, the same both ways (a payload sweep)\n",
        );
        return;
    };
    let (fixed, slope) = (units::eng4_f64(f.fixed_ns), units::eng4_f64(f.slope_ns));
    let rate = units::bit_rate(f.series_rate);
    let _ = match f.steps {
        None => writeln!(t, "Link: no steps; least RTT = {fixed} + {slope} a byte"),
        Some((step, h)) => {
            let atm = if step == 48 { " (ATM cells)" } else { "" };
            writeln!(t, "Link: steps of {step} bytes{atm}, overhead {h} modulo {step}; {slope} a step")
        }
    };
    let _ = writeln!(
        t,
        "  both rates in series, 1/(1/up + 1/down): {rate}; unexplained {} rms",
        units::eng4_f64(f.residual_ns)
    );
    if f.steps.is_some_and(|s| s.0 == 48) {
        let names = if f.encapsulations.is_empty() {
            "none that is known".to_owned()
        } else {
            f.encapsulations.join(", ")
        };
        let _ = writeln!(t, "  encapsulations with that overhead: {names}");
    }
}

/// The link's tables for some UDP payloads: sizes layer by layer, and delays.
pub fn tables(link: &Link, payloads: &[u64]) -> String {
    let mut t = heading(link);
    let wires: Vec<_> = payloads.iter().map(|p| link.of_payload(*p)).collect();
    let mut names: Vec<&str> = Vec::new();
    for l in wires.iter().flat_map(|w| &w.layers) {
        if !names.contains(&l.name) {
            names.push(l.name);
        }
    }
    // A layer that only some sizes need (padding) goes before the one it precedes where it occurs.
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
    let ip = |i: usize| Link::ip_length(payloads[i]);
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
        let link: Link = "pppoe-llc,up=128k,down=512k,tunnel=28".parse().unwrap();
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
    fn what_is_asked() {
        assert_eq!("fit,tunnel=28".parse(), Ok(Asked::Fit { tunnel: 28 }));
        assert!("fit,x".parse::<Asked>().is_err() && "nonsense".parse::<Asked>().is_err());
        assert!(text(&Asked::Fit { tunnel: 0 }, &[]).contains("not found"));
    }
}
