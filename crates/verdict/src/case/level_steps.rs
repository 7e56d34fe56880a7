//! Steps of the smallest delay: those of a stall or a queue, those with which a path hands stored packets over, and the
//! levels that they begin.

use super::MIN_HOLD_NS;
use crate::delays::{DelayNoise, Delays};
use crate::episodes::{Episode, Episodes};
use crate::levels::LevelStep;
use crate::schedule::SenderDelays;
use crate::steps::StepReason;

/// Returns true if `step` is at the start or the end of a stall, and the smallest delay is the same before and after
/// the stall.
pub(super) fn is_of_a_stall(step: &LevelStep, late: &SenderDelays, delays: &Delays<'_>) -> bool {
    let near = late.stalls.partition_point(|stall| stall.to + 2 < step.place);
    let near = late.stalls[near..].iter().take_while(|stall| stall.from.saturating_sub(2) <= step.place);
    near.into_iter().any(|stall| {
        let about = 4 * MIN_STALL_NEIGHBOURS;
        let before = delays.quantile(stall.from.saturating_sub(about), stall.from, 0.25);
        let after = delays.quantile(stall.to, stall.to + about, 0.25);
        let differ = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        // Without enough packets before the stall, the earlier level of the path is unknown.
        stall.from < MIN_STALL_NEIGHBOURS
            || differ.is_none_or(|by| by.saturating_abs() < step.change.saturating_abs() / 2)
    })
}

/// Minimum number of packets before a stall that are needed to know the smallest delay before it.
const MIN_STALL_NEIGHBOURS: usize = 8;

/// Marks route changes as hand-overs if they coincide with a hold or a queue of at least three times their size: the
/// path stored packets while it changed, and delivered them afterwards.
pub(super) fn handed_over_to(steps: &mut [(LevelStep, StepReason)], episodes: &Episodes) {
    for (step, reason) in steps.iter_mut().filter(|(_, reason)| *reason == StepReason::Route) {
        let least = 3 * step.change.saturating_abs();
        let is_near = |from: usize| from <= step.place + MAX_STEP_DISTANCE;
        let is_before = |to: usize| to + MAX_STEP_DISTANCE < step.place;
        let holds = &episodes.holds[episodes.holds.partition_point(|h| is_before(h.to))..];
        let queues = &episodes.queues[episodes.queues.partition_point(|q| is_before(q.to))..];
        let mut holds = holds.iter().take_while(|h| is_near(h.from));
        let mut queues = queues.iter().take_while(|q| is_near(q.from));
        if holds.any(|h| h.length >= least.max(MIN_HOLD_NS)) || queues.any(|q| q.height >= least) {
            *reason = StepReason::HandOver;
        }
    }
}

/// Maximum number of packets between a step and a hold or a queue that belong to the same event.
const MAX_STEP_DISTANCE: usize = 3;

/// Returns true if a step with this reason starts a new smallest delay.
pub(super) fn is_level(reason: StepReason) -> bool {
    matches!(reason, StepReason::Route | StepReason::HandOver)
}

/// Returns the step to a new smallest delay after the peak of `queue`, if the new level lasts to the end of the test
/// and is far below the peak. Such a path stored packets while it changed.
pub(super) fn level_after(delays: &Delays<'_>, queue: &Episode, noise: DelayNoise) -> Option<LevelStep> {
    let n = delays.len();
    if queue.to < n {
        return None;
    }
    let mut peak = (queue.from, 0);
    delays.each_excess(queue.from..n, |k, excess| {
        if excess > peak.1 {
            peak = (k, excess);
        }
    });
    let last = n - (n - peak.0) / 4;
    let level = delays.quantile(last, n, 0.5)?;
    let near = level.saturating_add(level / 4).saturating_add(noise.p90);
    let place = peak.0 + (peak.0..n).take_while(|k| delays.excess(*k) > near).count();
    let spread = delays.quantile(place, n, 0.9)?.saturating_sub(delays.quantile(place, n, 0.1)?);
    let is_flat = spread <= (4 * noise.p90).max(level / 4) && n - place >= MIN_LEVEL_PACKETS;
    let is_brief = delays.time(place).saturating_sub(delays.time(queue.from)) < MAX_HAND_OVER_NS;
    let found = is_flat && is_brief && level < peak.1 / 3;
    found.then_some(LevelStep { place, change: level, ramp: 0, spread: [0, spread] })
}

/// Minimum number of packets from which a new smallest delay is accepted.
const MIN_LEVEL_PACKETS: usize = 50;

/// Maximum time for which a path may store packets while it changes, in ns.
const MAX_HAND_OVER_NS: i64 = 5_000_000_000;

/// Sets the smallest delay of each route, based on the `steps` at which routes begin.
pub(super) fn set_levels(delays: &mut Delays<'_>, steps: &[(LevelStep, StepReason)]) {
    let mut places: Vec<usize> = steps.iter().filter(|(_, r)| is_level(*r)).map(|(s, _)| s.place).collect();
    places.push(0);
    places.sort_unstable();
    delays.set_levels(&places);
}

/// Attributes steps within a queue, which looked like route changes, to that queue. Returns true if there were any.
pub(super) fn within_queues(steps: &mut [(LevelStep, StepReason)], episodes: &Episodes) -> bool {
    let mut any = false;
    for (step, reason) in steps.iter_mut().filter(|(_, r)| *r == StepReason::Route) {
        let of_queue = |q: &Episode| q.from < step.place && step.change.saturating_abs() < q.height;
        if episodes.queue_at(step.place).is_some_and(of_queue) {
            *reason = StepReason::Queue;
            any = true;
        }
    }
    any
}
