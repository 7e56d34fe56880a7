//! [`Figure`]: the description of a figure, independent of how it is drawn.
//!
//! A figure consists of data and meaning – quantities with units, marks, the number of packets, values beyond the axis –
//! without pixels. `draw` turns it into SVG and PNG, `html` into an interactive plot. The
//! builders are pure functions of a [`Summary`](jitlat_core::summary::Summary) and, for figures of single packets, of a
//! [`Trace`] of constant size.

mod axis;
mod compare;
mod course;
mod density;
mod grid;
mod histogram;
mod interface;
mod lengths;
mod live;
mod load;
mod marks;
mod measured;
mod outcome;
mod parts;
mod passive;
mod run;
mod series;
mod stretches;
mod sweep;
mod tcp;
mod trace;

pub use axis::{Axis, AxisScale, AxisTick, AxisUnit, group_thousands, value_label};
pub use compare::{ComparedQuantity, ComparedRun, cdfs, ipdv_cdfs, ipdv_graph, spreads};
pub use course::{DrawnStream, delay_over_time};
pub use density::DensityCells;
pub use grid::PointGrid;
pub use live::{LIVE_PLOTS, LivePlot, LiveStream};
pub use load::{PhaseDrawing, under_load};
pub use measured::{label_measured, measured_of_several};
pub use parts::{
    AxisOverflow, Bound, Figure, FigureView, HistogramRow, Mark, MarkSeries, MeanRow, SpreadRow, Tone,
};
pub use passive::{
    FigureRange, MarkedPeriod, PassiveRun, PassiveTrace, PeriodError, of_captures, of_passive,
};
pub use run::DrawnRun;
pub use series::BURSTINESS;
pub use sweep::{CellPackets, Sweep, of_sweep};
pub use tcp::{ConnectionTrace, TcpTrace, of_tcp};
pub use trace::Trace;

use jitlat_verdict::compare::ComparisonRow;

/// Returns every figure that applies to `run`, the most useful first. A run without loss has no loss figure; one without a
/// trace has no figures of single packets.
pub fn of_run(run: &DrawnRun<'_>) -> Vec<Figure> {
    let figures = [
        histogram::jitter(run),
        histogram::latency(run),
        series::burstiness(run),
        series::dejitter(run),
        lengths::losses(run),
        lengths::duplicates(run),
        lengths::reordering(run),
        histogram::ipdv(run),
        marks::delay_by_mark(run),
        series::local_queue(run),
        series::schedule(run),
        histogram::send_error(run),
        histogram::latency_full(run),
    ];
    let mut figures: Vec<Figure> = figures.into_iter().flatten().collect();
    figures.extend(outcome::of_profiles(run));
    figures.extend(interface::over_time(run));
    label_measured(&mut figures, &run.summary.measured().unwrap_or_default());
    figures
}

/// Returns every figure that compares `runs`.
pub fn of_runs(runs: &[ComparedRun<'_>]) -> Vec<Figure> {
    let both = |subject| [cdfs(subject, runs), spreads(subject, runs)];
    [ComparedQuantity::Jitter, ComparedQuantity::Latency]
        .into_iter()
        .flat_map(both)
        .chain([ipdv_cdfs(runs)])
        .flatten()
        .collect()
}

/// Returns the figures of a row of a comparison, its columns side by side.
pub fn of_row(row: &ComparisonRow) -> Vec<Figure> {
    let runs: Vec<ComparedRun<'_>> = row.cells.iter().flatten().filter_map(ComparedRun::of_cell).collect();
    let mut drawn = of_runs(&runs);
    let cells = row.cells.iter().flatten();
    let measured =
        cells.flat_map(|cell| cell.measured.iter().map(|m| (cell.column.as_str(), Some(m.clone()))));
    label_measured(&mut drawn, &measured_of_several(measured));
    if !row.name.is_empty() {
        drawn.iter_mut().for_each(|f| f.title = format!("{} – {}", f.title, row.name));
    }
    drawn
}
