//! Delay by mark.

use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, group_thousands};
use jitlat_core::Ecn;
use jitlat_core::summary::AboveFastest;

/// Draws the distribution of the delay of each mark; `None` unless packets of all marks were sent and compared.
pub fn delay_by_mark(run: &DrawnRun<'_>) -> Option<Figure> {
    let two_way = run.summary.two_way.as_deref();
    let directions = two_way.into_iter().flat_map(|t| [(&t.up, " up"), (&t.down, " down")]);
    let of_directions = directions.filter_map(|(d, name)| Some((d.as_ref()?.marks.as_deref()?, name)));
    let whole = run.summary.marks.as_deref().map(|figures| (figures, ""));
    // The direction with the larger difference is drawn.
    let all = of_directions.chain(whole).filter_map(|(figures, name)| Some((figures.delay.as_ref()?, name)));
    let (delay, name) = all.max_by_key(|(delay, _)| delay.difference.median_ns.map(i64::saturating_abs))?;
    let curve = |above: &AboveFastest| -> Vec<(f64, f64)> {
        let deciles =
            above.deciles_ns.iter().zip(1..).map(|(ns, tenth)| (*ns as f64, f64::from(tenth) / 10.0));
        deciles.chain(above.p99_ns.map(|ns| (ns as f64, 0.99))).collect()
    };
    let high =
        Ecn::ALL.iter().filter_map(|mark| delay.above_fastest[*mark].p99_ns).max().filter(|ns| *ns > 0)?;
    let series = Ecn::ALL.into_iter().zip(0u8..).map(|(mark, k)| {
        let line = Mark::Line { points: curve(&delay.above_fastest[mark]), dashed: false };
        MarkSeries::new(mark.to_string(), Tone::Run(k), line)
    });
    let blocks = group_thousands(&delay.blocks.to_string());
    Some(Figure {
        id: "delay-by-mark".into(),
        title: run.titled(&format!("Delay by mark (ECN){name}")),
        subtitle: format!("n = {blocks} blocks of four packets, one of each mark"),
        measured: String::new(),
        about: "Time by which packets are slower than the fastest of the four packets of their block. ECT(1) and CE use the \
                low-latency queue where there is one, Not-ECT and ECT(0) the classic one: if the path has only one \
                queue, the lines coincide."
            .into(),
        x: Axis::linear("behind the fastest packet of the block", AxisUnit::Time, 0.0, 1.04 * high as f64),
        y: Axis::linear("share of packets", AxisUnit::Share, 0.0, 1.0),
        right: None,
        series: series.collect(),
        overflow: None,
        notes: vec!["The lines connect deciles and end at the 99th percentile.".into()],
    })
}
