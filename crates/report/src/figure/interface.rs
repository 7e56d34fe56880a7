//! Figures of the interface over time, with the delay on the same axis: retries, signal, rate, errors and drops (as LaTe's
//! paper, figure 5, shows delay and retries).

use super::series::DelayByArrival;
use super::{Axis, AxisUnit, DrawnRun, Figure, Mark, MarkSeries, Tone, group_thousands};
use jitlat_core::interface::{InterfaceHistory, InterfaceQuantity as Quantity};
use jitlat_core::spec::Direction;

/// Quantities with a figure: identifier, title, title of the axis, explanation.
const DRAWN: [(Quantity, &str, &str, &str, &str); 5] = [
    (
        Quantity::Retries,
        "retries",
        "Delay and retries over time",
        "retries per second",
        "Where both rise together, the radio sends frames again: its peer does not receive them, because the signal is weak or \
         others send at the same time. Loss at the same times means that retries did not suffice.",
    ),
    (
        Quantity::Signal,
        "signal",
        "Delay and signal over time",
        "signal (dBm)",
        "Where delay rises as the signal falls, distance or obstacles are the reason. Where it rises at a constant signal, other \
         traffic or interference is.",
    ),
    (
        Quantity::TxRate,
        "rate",
        "Delay and send rate of the radio over time",
        "send rate (Mbit/s)",
        "A radio that loses frames falls back to lower rates, at which every packet takes longer and fewer fit.",
    ),
    (
        Quantity::Errors,
        "errors",
        "Delay and errors of the interface over time",
        "errors per second",
        "Errors at the times of loss mean a bad cable, connector or radio channel of this host.",
    ),
    (
        Quantity::Drops,
        "drops",
        "Delay and drops of the interface over time",
        "drops per second",
        "Drops at the times of loss mean that this host could not take or send packets fast enough: the path did not lose them.",
    ),
];

/// Returns the figures of the interface that this host's packets used. Quantities that are unknown have none, and neither
/// have counters that did not increase.
pub fn over_time(run: &DrawnRun<'_>) -> Vec<Figure> {
    let Some(history) = &run.summary.session.client.interface else { return Vec::new() };
    DRAWN.iter().filter_map(|drawn| figure(run, history, drawn)).collect()
}

fn figure(
    run: &DrawnRun<'_>,
    history: &InterfaceHistory,
    &(quantity, id, title, axis, about): &(Quantity, &str, &str, &str, &str),
) -> Option<Figure> {
    let (trace, summary) = (run.trace?, run.summary);
    if quantity.is_counter() && history.increase(quantity)? == 0 {
        return None;
    }
    let DelayByArrival { cloud, how, losses, x: [from, to], y, .. } = DelayByArrival::of(run)?;
    // The first packet's time on the clock of the samples.
    let sampled_by_receiver = !run.is_round_trip() && summary.session.direction == Direction::Down;
    let start = if sampled_by_receiver { trace.start()? } else { trace.first_sent()? };
    let points = points(history, quantity, start);
    let is_shown = |point: &&(f64, f64)| (from..=to).contains(&point.0);
    let shown: Vec<f64> = points.iter().filter(is_shown).map(|point| point.1).collect();
    let least = shown.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if shown.len() < 2 {
        return None;
    }
    let clipped: Vec<(f64, f64)> = clipped(&points, from, to);
    let right = match quantity {
        Quantity::Signal => {
            let room = ((most - least) * 0.1).max(2.0);
            Axis::linear(axis, AxisUnit::Plain, least - room, most + room)
        }
        _ => Axis::linear(axis, AxisUnit::Plain, 0.0, (most * 1.08).max(1.0)),
    };
    let mark = match quantity.is_counter() {
        true => Mark::Step { points: clipped },
        false => Mark::Line { points: clipped, dashed: false },
    };
    let mut series = vec![
        MarkSeries::new(format!("{} (left)", run.delay()), Tone::Data, cloud),
        MarkSeries::new(format!("{} (right)", axis.split(" (").next().unwrap_or(axis)), Tone::Fit, mark)
            .on_right(),
    ];
    if !losses.is_empty() {
        let name = format!("{} lost", group_thousands(&summary.counts.lost.to_string()));
        series.push(MarkSeries::new(name, Tone::Harm, Mark::Rug { stretches: losses }));
    }
    let name = if history.name.is_empty() { String::new() } else { format!(" · {}", history.name) };
    Some(Figure {
        id: format!("interface-{id}"),
        title: run.titled(title),
        subtitle: format!("n = {} packets{how}{name}", group_thousands(&trace.n().to_string())),
        measured: String::new(),
        about: about.into(),
        x: Axis::linear("arrival time since the first packet", AxisUnit::Elapsed, from, to),
        y: Axis::linear(run.delay(), AxisUnit::Time, y[0], y[1]),
        right: Some(right),
        series,
        overflow: None,
        notes: run.position().into_iter().collect(),
    })
}

/// Returns the quantity over time, in ns since `start`: levels at their samples; rates of counters, each from one sample to
/// the next, at the first of the two.
fn points(history: &InterfaceHistory, quantity: Quantity, start: i64) -> Vec<(f64, f64)> {
    let known: Vec<(f64, f64)> = history
        .samples
        .iter()
        .filter_map(|s| Some((s.at.0.saturating_sub(start) as f64, quantity.of(s)?)))
        .collect();
    match quantity {
        _ if quantity.is_counter() => {
            let rate = |pair: &[(f64, f64)]| {
                let seconds = (pair[1].0 - pair[0].0) / 1e9;
                (seconds > 0.0).then(|| (pair[0].0, ((pair[1].1 - pair[0].1) / seconds).max(0.0)))
            };
            let mut rates: Vec<(f64, f64)> = known.windows(2).filter_map(rate).collect();
            rates.extend(known.last().zip(rates.last().copied()).map(|(last, rate)| (last.0, rate.1)));
            rates
        }
        Quantity::TxRate | Quantity::RxRate => {
            known.into_iter().map(|(x, kbit_s)| (x, kbit_s / 1e3)).collect()
        }
        _ => known,
    }
}

/// Returns the points from `from` to `to`, and the last one before, moved to `from`.
fn clipped(points: &[(f64, f64)], from: f64, to: f64) -> Vec<(f64, f64)> {
    let first = points.partition_point(|point| point.0 <= from);
    let end = points.partition_point(|point| point.0 <= to);
    let before = first.checked_sub(1).map(|k| (from, points[k].1));
    before.into_iter().chain(points[first..end.max(first)].iter().copied()).collect()
}
