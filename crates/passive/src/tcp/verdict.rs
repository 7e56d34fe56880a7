//! Explains a connection's delays: retransmissions, a full window, or the path.

use super::{BetweenPoints, DirectionBetween, DirectionFigures, ObservedConnection, RoundTripChange};
use crate::SpreadFigures;
use crate::numbers::count;
use jitlat_core::units::eng3;

/// Shortest queue that is reported, in ns.
const MIN_QUEUE_NS: i64 = 5_000_000;

/// Minimum number of segments with payload for a verdict.
pub(super) const MIN_SEGMENTS: u64 = 10;

/// Longest delay of an acknowledgement if more than two full segments are in flight at a time, in ns (Linux).
const MAX_ACK_DELAY_NS: i64 = 200_000_000;
/// Longest delay of an acknowledgement if no further segment follows, in ns (RFC 9293 §3.8.6.3).
const MAX_SINGLE_ACK_DELAY_NS: i64 = 500_000_000;
/// Length of two full segments, in bytes. A receiver acknowledges every second full segment at once.
const TWO_SEGMENTS: u64 = 2 * 1460;

/// Describes the causes of delay in each direction that has data.
pub fn explain_delays(c: &ObservedConnection, between: Option<&BetweenPoints>) -> Vec<String> {
    let directions = [
        ("from client", &c.up, &c.down, between.map(|b| &b.up)),
        ("from server", &c.down, &c.up, between.map(|b| &b.down)),
    ];
    let busy = directions.into_iter().filter(|(_, data, ..)| data.data_segments >= MIN_SEGMENTS);
    busy.flat_map(|(name, data, peer, between)| {
        let parts = [path(data, between), retransmissions(data, between), window(data, peer, c.duration().0)];
        parts.into_iter().flatten().map(move |p| format!("{name}: {p}"))
    })
    .collect()
}

/// Returns the better of the two measures of round trips: timestamps also measure data that was sent twice. `None` if
/// there are no round trips.
pub(super) fn round_trip(data: &DirectionFigures) -> Option<SpreadFigures> {
    match (data.rtt_timestamp_ns, data.rtt_ack_ns) {
        (Some(t), Some(a)) => Some(if t.count * 2 >= a.count { t } else { a }),
        (t, a) => t.or(a),
    }
}

/// Returns the usual time in ns that the round trips `r` of `data` take above the smallest one. After a change of the path,
/// round trips are compared with those of the same path.
pub(super) fn usual_wait(r: &SpreadFigures, data: &DirectionFigures) -> i64 {
    data.rtt_above_changes_ns.map_or_else(|| r.median.saturating_sub(r.min), |above| above.0)
}

/// Returns `Some(true)` if the round trips `r` of `data` show a queue, `Some(false)` if delayed acknowledgements can
/// explain them, `None` if there is no queue.
pub(super) fn is_queued(r: &SpreadFigures, data: &DirectionFigures) -> Option<bool> {
    let above = usual_wait(r, data);
    let may_wait = (1..=TWO_SEGMENTS).contains(&data.max_in_flight);
    let longest = if may_wait { MAX_SINGLE_ACK_DELAY_NS } else { MAX_ACK_DELAY_NS };
    (above > r.min && above > MIN_QUEUE_NS).then_some(above >= longest)
}

/// Describes a change of the path.
pub(super) fn describe_change(change: &RoundTripChange) -> String {
    let how = if change.by().0 > 0 { "longer" } else { "shorter" };
    format!("the path became {} {how}", eng3(change.by().0.saturating_abs() as f64))
}

fn path(data: &DirectionFigures, between: Option<&DirectionBetween>) -> Option<String> {
    let r = round_trip(data)?;
    let above = usual_wait(&r, data);
    let mut text = if is_queued(&r, data) == Some(false) {
        format!(
            "minimum round trip {}, median {}: a queue on the path, or the receiver's delayed acknowledgements",
            eng3(r.min as f64),
            eng3(r.median as f64)
        )
    } else if is_queued(&r, data) == Some(true) {
        format!(
            "the path contributes most: minimum round trip {}, median {}: a queue of {}",
            eng3(r.min as f64),
            eng3(r.median as f64),
            eng3(above as f64)
        )
    } else {
        format!(
            "the path adds little: minimum round trip {}, median {}",
            eng3(r.min as f64),
            eng3(r.median as f64)
        )
    };
    if !data.rtt_changes.is_empty() {
        let changes: Vec<String> = data.rtt_changes.iter().map(describe_change).collect();
        text = format!("{}; {text}", changes.join(", then "));
    }
    if let Some(v) = between.and_then(|l| l.delay_variation_median_ns)
        && above >= MAX_ACK_DELAY_NS
    {
        let share = (100.0 * v as f64 / above as f64).clamp(0.0, 100.0);
        text.push_str(&format!("; {share:.0} % of the difference between the two points"));
    }
    Some(text)
}

fn retransmissions(data: &DirectionFigures, between: Option<&DirectionBetween>) -> Option<String> {
    if data.retransmissions == 0 {
        return Some("no segment was retransmitted".to_owned());
    }
    let share = 100.0 * data.retransmissions as f64 / data.data_segments.max(1) as f64;
    let waited = data.fast_wait_ns.0.saturating_add(data.timeout_wait_ns.0);
    let mut text = format!("{} ({share:.1} %) retransmitted", count(data.retransmissions, "segment"));
    if waited > 0 {
        text.push_str(&format!(
            " after {} on average, {} at most",
            eng3((waited / (data.fast + data.timeouts).max(1) as i64) as f64),
            eng3(data.longest_wait_ns.0 as f64)
        ));
    }
    if data.spurious > 0 {
        text.push_str(&format!(", {} of them unnecessarily", data.spurious));
    }
    if let Some(l) = between
        && l.lost_between > 0
    {
        text.push_str(&format!("; {} lost between the two points", count(l.lost_between, "packet")));
    }
    Some(text)
}

fn window(data: &DirectionFigures, peer: &DirectionFigures, duration: i64) -> Option<String> {
    if peer.segments == 0 {
        return Some("the receiver's window is unknown: none of its segments were captured".to_owned());
    }
    let waited = data.window_full_ns.0.saturating_add(peer.zero_window_ns.0);
    let share = 100.0 * waited as f64 / duration as f64;
    match (waited, peer.zero_windows) {
        (0, 0) => Some("the receiver's window never limited the data".to_owned()),
        (_, 0) => Some(format!(
            "the receiver's window was full for {} ({share:.1} % of the time)",
            eng3(waited as f64)
        )),
        (_, n) => Some(format!(
            "the receiver's window was full or closed ({}) for {} ({share:.1} % of the time)",
            count(n, "time"),
            eng3(waited as f64)
        )),
    }
}

#[cfg(test)]
mod tests;
