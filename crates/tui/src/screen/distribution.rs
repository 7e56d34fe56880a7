//! Distribution of delays: a histogram, and the share of packets with at most a given delay.

use super::plot::{LABEL_COLUMNS, Plot, Stroke, time};
use super::{ScreenState, write};
use jitlat_core::live::LiveState;
use jitlat_core::live::{Function, StreamState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub fn draw(shown: &ScreenState<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(state) = shown.state() else { return };
    let upper = Rect { height: area.height / 2, ..area };
    histogram(shown, state, upper, buffer);
    let lower = Rect { y: upper.bottom(), height: area.height - upper.height, ..area };
    cumulative(shown, state, lower, buffer);
}

/// Returns the distribution function of each stream, and the range of delays.
fn functions(state: &LiveState) -> (Vec<Function>, Option<[f64; 2]>) {
    let all: Vec<Function> = state.streams.iter().map(StreamState::cdf).collect();
    let ends = all.iter().filter_map(|cdf| Some([cdf.first()?.0, cdf.last()?.0]));
    let range = ends.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    (all, range)
}

/// Returns the value of a distribution function at `x`.
fn share(cdf: &[(f64, f64)], x: f64) -> f64 {
    let after = cdf.partition_point(|(value, _)| *value <= x);
    match (after.checked_sub(1).and_then(|k| cdf.get(k)), cdf.get(after)) {
        (None, _) => 0.0,
        (Some((_, share)), None) => *share,
        // Interpolate linearly between the few points that a far host reports.
        (Some((x1, s1)), Some((x2, s2))) if cdf.len() < 16 => s1 + (s2 - s1) * (x - x1) / (x2 - x1),
        (Some((_, share)), Some(_)) => *share,
    }
}

fn histogram(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    write(buffer, (area.x, area.y), area.right(), "packets by delay", look.title());
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let (all, Some([low, high])) = functions(state) else { return };
    let columns = usize::from(body.width.saturating_sub(LABEL_COLUMNS)).max(1);
    let step = ((high - low) / columns as f64).max(1.0);
    let shares: Vec<Vec<f64>> = all
        .iter()
        .map(|cdf| {
            let upto = |c: usize| if c == 0 { 0.0 } else { share(cdf, low + step * c as f64) };
            (0..columns).map(|c| upto(c + 1) - upto(c)).collect()
        })
        .collect();
    let most = shares.iter().flatten().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let plot = Plot::new(body, [low, low + step * columns as f64], [0.0, most]);
    plot.axes(buffer, |share| format!("{:.1} %", share * 100.0), time, look.faint());
    for (k, shares) in shares.iter().enumerate() {
        let strokes = shares.iter().enumerate().filter(|(_, share)| **share > 0.0).map(|(c, share)| {
            let x = low + step * (c as f64 + 0.25 + 0.5 * k as f64);
            Stroke { from: (x, 0.0), to: (x, *share) }
        });
        plot.strokes(buffer, k, &strokes.collect::<Vec<_>>(), look);
    }
}

/// Draws the share of packets with at most a given delay.
pub fn cumulative(shown: &ScreenState<'_>, state: &LiveState, area: Rect, buffer: &mut Buffer) {
    let look = shown.look;
    if area.height < 3 {
        return;
    }
    write(buffer, (area.x, area.y), area.right(), "cumulative share", look.title());
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let (all, Some(range)) = functions(state) else { return };
    let plot = Plot::new(body, range, [0.0, 1.0]);
    plot.axes(buffer, |share| format!("{:.0} %", share * 100.0), time, look.faint());
    for (k, cdf) in all.iter().enumerate() {
        let columns = usize::from(body.width.saturating_sub(LABEL_COLUMNS)) * look.dots(k);
        let x = |c: usize| range[0] + (range[1] - range[0]) * c as f64 / columns.max(1) as f64;
        let strokes = (0..columns)
            .map(|c| Stroke { from: (x(c), share(cdf, x(c))), to: (x(c + 1), share(cdf, x(c + 1))) });
        plot.strokes(buffer, k, &strokes.collect::<Vec<_>>(), look);
    }
}
