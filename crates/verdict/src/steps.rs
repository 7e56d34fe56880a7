//! [`StepReason`]: reason for a change of the smallest delay: a clock, a route, or a queue.

use super::delays::{DelayNoise, Delays};
use super::levels::LevelStep;
use jitlat_core::evidence::Evidence;
use jitlat_core::spec::Direction;

/// Reason for a change of the smallest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepReason {
    /// The sending host's clock was set.
    SenderClock,
    /// The receiving host's clock was set.
    ReceiverClock,
    /// The path became longer or shorter.
    Route,
    /// A queue filled or drained; the change is not lasting.
    Queue,
    /// The path became longer or shorter while it stored packets, and then delivered them faster than they were sent.
    HandOver,
}

/// Maximum delay that a route change adds, in ns: two hops over geostationary satellites.
const MAX_DETOUR_NS: i64 = 700_000_000;
/// Minimum number of packets in a ramp, which is caused by a queue that fills or drains.
const MIN_RAMP_PACKETS: usize = 3;

/// Minimum time for which packets take a route, in ns: several round trips. It applies even if many packets are sent in
/// less time.
const MIN_ROUTE_TIME_NS: i64 = 100_000_000;

/// Returns the steps `found`, each with its reason.
pub fn explain(
    delays: &Delays<'_>,
    found: &[LevelStep],
    material: &Evidence<'_>,
    noise: DelayNoise,
) -> Vec<(LevelStep, StepReason)> {
    let mut explained: Vec<(LevelStep, StepReason, bool)> = found
        .iter()
        .map(|step| match proof(delays, step, material, noise) {
            Proof::Clock => (*step, StepReason::ReceiverClock, true),
            Proof::Route => (*step, StepReason::Route, true),
            Proof::None if step.ramp >= MIN_RAMP_PACKETS => (*step, StepReason::Queue, false),
            Proof::None => (*step, StepReason::Route, false),
        })
        .collect();
    // A level that does not last until the next change was a queue.
    for k in 0..explained.len() {
        let (step, _, _) = explained[k];
        let end = explained.get(k + 1).map_or(delays.len(), |(next, _, _)| next.place);
        let begin = k.checked_sub(1).map_or(0, |i| explained[i].0.place);
        let is_brief = |from: usize, to: usize| {
            (from > 0 || to < delays.len())
                && delays.time(to.max(1) - 1).saturating_sub(delays.time(from)) < MIN_ROUTE_TIME_NS
        };
        if explained[k].1 == StepReason::Route && (is_brief(step.place, end) || is_brief(begin, step.place)) {
            // After a stall, many packets are sent together. All of them meet the same short-lived state.
            (explained[k].1, explained[k].2) = (StepReason::Queue, false);
        }
        if !stays(delays, &step, begin, end) {
            (explained[k].1, explained[k].2) = (StepReason::Queue, false);
        }
    }
    // A rise and the return to the previous level belong together. They were a queue if one of them is a ramp, if the
    // jitter is much larger in between, or if packets follow each other closely at the end.
    for k in 0..explained.len() {
        let (step, reason, proven) = explained[k];
        if proven || step.change < 0 {
            continue;
        }
        let back = |other: &LevelStep| (step.change + other.change).abs() <= step.change.abs() / 5;
        let partner =
            (k + 1..explained.len()).find(|other| back(&explained[*other].0) && !explained[*other].2);
        let end = partner.map(|other| explained[other].0);
        let queue = reason == StepReason::Queue
            || has_more_jitter(&step, 1.7)
            || end.is_some_and(|end| {
                step.ramp + end.ramp >= MIN_RAMP_PACKETS
                    || has_more_jitter(&end, 1.7)
                    || drains(delays, &end, noise)
            });
        if queue && (end.is_some() || reason == StepReason::Queue || has_more_jitter(&step, 3.0)) {
            explained[k].1 = StepReason::Queue;
            if let Some(other) = partner {
                explained[other].1 = StepReason::Queue;
            }
        }
    }
    // A fall after a queue has drained is not a route change.
    for k in 1..explained.len() {
        let (step, _, proven) = explained[k];
        let before = explained[k - 1].1;
        if !proven
            && step.change < 0
            && (before == StepReason::Queue || step.ramp >= MIN_RAMP_PACKETS || has_more_jitter(&step, 3.0))
        {
            explained[k].1 = StepReason::Queue;
        }
    }
    explained.into_iter().map(|(step, reason, _)| (step, reason)).collect()
}

/// Returns true if the smallest delay before the step and that after it, each up to the neighbouring step, differ in
/// the direction of the step by at least half of its size. A few packets may return to the other level.
fn stays(delays: &Delays<'_>, step: &LevelStep, begin: usize, end: usize) -> bool {
    // Clocks may drift meanwhile, so that only packets near the step are compared.
    let near = (step.change.unsigned_abs() as f64 / MAX_SLOW_DRIFT / 4.0) as i64;
    let at = delays.time(step.place.min(delays.len() - 1));
    let least = |from: usize, to: usize| {
        let is_near = |k: &usize| delays.time(*k).saturating_sub(at).saturating_abs() <= near;
        let [from, to] = [from.max(step.place.saturating_sub(MAX_NEAR)), to.min(step.place + MAX_NEAR)];
        let from = (from..to).find(is_near).unwrap_or(from);
        let to = (from..to).rev().find(is_near).map_or(to, |k| k + 1);
        delays.quantile(from, to, 0.01)
    };
    let (Some(before), Some(after)) = (least(begin, step.place), least(step.place, end)) else {
        return false;
    };
    let change = after.saturating_sub(before);
    change.signum() == step.change.signum() && change.saturating_abs() >= step.change.saturating_abs() / 2
}

/// Maximum rate at which disciplined clocks drift apart unnoticed.
const MAX_SLOW_DRIFT: f64 = 6e-6;
/// Maximum number of packets on either side of a step that are compared.
const MAX_NEAR: usize = 1 << 16;

/// Returns true if the jitter on the higher side of a step is `factor` times as large as on the lower side.
fn has_more_jitter(step: &LevelStep, factor: f64) -> bool {
    let [before, after] = step.spread;
    let (low, high) = if step.change > 0 { (before, after) } else { (after, before) };
    high as f64 > factor * low.max(20_000) as f64 && high > step.change.abs() / 50
}

/// Returns true if the delay falls like that of a draining queue: packets arrive in order, one directly after the
/// other.
fn drains(delays: &Delays<'_>, step: &LevelStep, noise: DelayNoise) -> bool {
    let k = step.place;
    if k < 2 || k >= delays.len() {
        return false;
    }
    // Two packets next to the step that arrive back to back.
    let close = |k: usize| {
        let sent = delays.time(k).saturating_sub(delays.time(k - 1));
        let apart = delays.arrival(k).saturating_sub(delays.arrival(k - 1));
        // After a fall by about the interval between packets, two packets arrive together for any reason.
        2 * sent <= step.change.saturating_abs()
            && sent > 4 * noise.p90.max(50_000)
            && (0..sent / 4).contains(&apart)
    };
    close(k) || close(k - 1) || k + 1 < delays.len() && close(k + 1)
}

/// Reason for a step that is proven by evidence other than delays.
enum Proof {
    /// The receiving host's clock was set.
    Clock,
    /// The route changed, and neither clock was set.
    Route,
    /// Neither a set clock nor a route change is proven.
    None,
}

fn proof(delays: &Delays<'_>, step: &LevelStep, material: &Evidence<'_>, noise: DelayNoise) -> Proof {
    let Evidence { session, clock, series, .. } = *material;
    let near = |a: i64, b: i64, margin: i64| a.saturating_sub(b).saturating_abs() <= margin;
    let change = step.change;
    let size = change.saturating_abs();
    // Clock steps that the hosts report: steps of the receiver's clock increase delays, steps of the sender's clock
    // reduce them.
    let up = session.spec.direction() == Direction::Up;
    let (sender, receiver) =
        if up { (&session.client, &session.server) } else { (&session.server, &session.client) };
    for (host, sign) in [(receiver, 1), (sender, -1)] {
        if let Some(by) = host.clock_step.filter(|s| s.0.saturating_abs() > 1_000_000)
            && near(by.0.saturating_mul(sign), change, size / 3)
        {
            return Proof::Clock;
        }
    }
    // Changes between the probes before and after the stream. A clock step changes the offset by its size and does not
    // affect the round trip. A longer route changes the offset by half of its size, or not at all if both directions
    // become longer.
    let mut clock_stood = false;
    let change_of = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    let offset = change_of(clock.offset_before_ns, clock.offset_after_ns);
    let trip = change_of(clock.min_rtt_before_ns.map(|r| r as f64), clock.min_rtt_after_ns.map(|r| r as f64));
    if let Some((moved, longer)) = offset.zip(trip) {
        // The drift of the clocks during the test is not a step.
        let (moved, by) = (if up { moved } else { -moved } - delays.drift(), change as f64);
        let misfit = |offset: f64, trip: f64| (moved - offset).abs() + (longer - trip).abs() / 2.0;
        let (set, route) =
            (misfit(by, 0.0), misfit(by / 2.0, by).min(misfit(0.0, 2.0 * by)).min(misfit(0.0, 0.0)));
        if set < 0.5 * route && set < 0.4 * by.abs() {
            return Proof::Clock;
        }
        clock_stood = route < 0.5 * set && route < 0.4 * by.abs();
    }
    // Either packets arrived in order, but the later one has an earlier arrival time, or packets were reordered.
    let k = step.place;
    if change < 0 && k > 0 && k < delays.len() {
        let apart = delays.arrival(k).saturating_sub(delays.arrival(k - 1));
        if apart < -noise.p90.max(20_000) {
            let in_order = series.arrival(k) > series.arrival(k - 1);
            return if in_order { Proof::Clock } else { Proof::Route };
        }
    }
    if size > MAX_DETOUR_NS
        && !clock_stood
        && step.ramp < MIN_RAMP_PACKETS
        && stays(delays, step, 0, delays.len())
    {
        return Proof::Clock;
    }
    // A different TTL proves a different route.
    let seq = delays.seq(k.min(delays.len() - 1));
    if material.notes.ttl.iter().skip(1).any(|(at, _)| u64::from(*at).abs_diff(seq) <= 3) {
        return Proof::Route;
    }
    Proof::None
}

/// Returns true if clock skew can explain a linear drift of the smallest delay by `skew`: the clock probes agree with
/// it, or the offset was not probed before and after the test.
pub fn may_be_skew(skew: f64, delays: &Delays<'_>, material: &Evidence<'_>) -> bool {
    may_be_drift(skew * delays.time(delays.len() - 1) as f64, material)
}

/// Returns true if the clocks can have drifted apart by `drift` ns during the test: the clock probes agree with it, or
/// the offset was not probed before and after the test.
pub fn may_be_drift(drift: f64, material: &Evidence<'_>) -> bool {
    let clock = material.clock;
    let (Some(before), Some(after)) = (clock.offset_before_ns, clock.offset_after_ns) else { return true };
    let moved =
        if material.session.spec.direction() == Direction::Up { after - before } else { before - after };
    let precision = clock.rtt_spread_ns.unwrap_or(0.0) + 50_000.0;
    (moved - drift).abs() <= 0.5 * drift.abs() + 2.0 * precision
}

#[cfg(test)]
mod tests;
