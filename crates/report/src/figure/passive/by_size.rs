//! Round trips by packet size, with their means and the serialisation time of an access link.

use super::parts::{blank, least, margins, n, quantile};
use super::run::PassiveRun;
use crate::figure::axis::{Axis, AxisUnit};
use crate::figure::parts::{Figure, Mark, MarkSeries, Tone};
use crate::figure::series::{drawn, extent};
use jitlat_passive::SizeFigures;

/// Maximum number of sizes whose means are joined by a line.
const MAX_JOINED_SIZES: usize = 64;

/// Draws round trips by packet size; `None` if all packets have one size.
pub(super) fn by_size(run: &PassiveRun<'_>) -> Option<Figure> {
    let trace = run.trace;
    // A sweep has the same size in both directions; other traffic usually has long packets in only one
    // direction.
    let equal = trace.equal_sizes.grid.n() * 2 > trace.pairs.n();
    let (cloud, quantity) = match equal {
        true => (&trace.equal_sizes, "IP packet (bytes), equal in both directions"),
        false => (&trace.both_sizes, "sum of both IP packets of a pair (bytes)"),
    };
    let (shortest, longest) = extent(cloud)?;
    if longest - shortest < 1.0 {
        return None;
    }
    let (mark, how) = drawn(cloud, 0.0)?;
    let place = |s: &SizeFigures| f64::from(if equal { s.out_length } else { s.out_length + s.in_length });
    let mut means: Vec<(f64, f64)> = run
        .sizes
        .iter()
        .filter(|s| !equal || s.out_length == s.in_length)
        .map(|s| (place(s), s.mean_rtt_ns))
        .filter(|p| (shortest..=longest).contains(&p.0))
        .collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut low, high) = (least(&trace.pairs), quantile(&trace.pairs, 1.0));
    let mut model = Vec::new();
    if let (Some(link), true) = (run.link, equal) {
        let rtt = |l: u64| (l as f64, link.rtt(l, l).0 as f64);
        model = (shortest as u64..=longest as u64).map(rtt).collect();
        low = model.iter().map(|p| p.1).fold(low, f64::min);
    } else if let Some(link) = run.link {
        let rtt = |s: &SizeFigures| link.rtt(s.out_length.into(), s.in_length.into()).0 as f64;
        model = run.sizes.iter().map(|s| (place(s), rtt(s))).collect();
        low = model.iter().map(|p| p.1).fold(low, f64::min);
    }
    let (from, to) = margins(shortest, longest);
    let (lo, hi) = margins(low, high);
    let mut f = blank(
        "rtt-by-size",
        "Round trip by packet size",
        Axis::linear(quantity, AxisUnit::Plain, from, to),
        Axis::linear("round-trip time", AxisUnit::Time, lo, hi),
    );
    f.subtitle =
        format!("n = {} pairs{}, {} sizes", n(cloud.grid.n()), how.replace("packets", "pairs"), means.len());
    f.about =
        "The slope is the cost per byte; steps of 48 bytes are ATM cells. If the distance between round \
               trips and model is the same at every size, the link explains all dependence on size."
            .into();
    f.notes.extend(trace.left_out_note());
    f.series.push(MarkSeries::new("pairs", Tone::Data, mark));
    if !model.is_empty() {
        let name = "model: the link's serialisation alone";
        f.series.push(match equal {
            true => MarkSeries::new(name, Tone::Bound, Mark::Step { points: model }),
            false => MarkSeries::new(name, Tone::Bound, Mark::Points { points: model }),
        });
    }
    if (2..=MAX_JOINED_SIZES).contains(&means.len()) && equal {
        f.series.push(MarkSeries::new(
            "means",
            Tone::Fit,
            Mark::Line { points: means.clone(), dashed: true },
        ));
        f.series.push(MarkSeries::new("", Tone::Fit, Mark::Points { points: means }));
    } else if !means.is_empty() {
        f.series.push(MarkSeries::new("means", Tone::Fit, Mark::Points { points: means }));
    }
    Some(f)
}
