//! Verdict on a two-way test: the verdict on its round trips, completed with the direction of each cause.

use crate::causes::receiver_stall::PROVEN;
use jitlat_core::answer::{Answer, Cause, CauseId};
use jitlat_core::evidence::Judgement;
use jitlat_core::spec::Direction;
use jitlat_core::twoway::{LossRun, LossSide};

/// Change of the delay, in ns, below which a change that begins with a stall of the far host is attributed to that
/// host.
const MAX_HOST_CHANGE_NS: i64 = 1_000_000;

/// Directions in which requests without an answer were lost, if the far host's count shows them.
pub struct RequestLosses<'a> {
    /// Runs of requests without an answer, ascending.
    pub runs: &'a [LossRun],
}

/// Completes the verdict on the round trips with the verdicts on the two directions, which exist if the far host
/// reports its timestamps.
pub fn two_way(mut judged: Judgement, ways: [Option<&Answer>; 2], losses: &RequestLosses<'_>) -> Judgement {
    let round_trip = &mut judged.answer;
    for cause in &mut round_trip.causes {
        cause.direction = match cause.id {
            CauseId::Outage
            | CauseId::RandomLoss
            | CauseId::BurstyLoss
            | CauseId::Policing
            | CauseId::PeriodicLoss
            | CauseId::SizeDependent
            | CauseId::Mtu => lost_on(cause, losses),
            CauseId::Queue | CauseId::RouteChange | CauseId::Reordering => shown_on(cause, ways),
            _ => None,
        };
    }
    // A cause in both directions that round trips do not show is a fault of the far host's clock.
    let [up, down] = ways;
    for cause in up.into_iter().chain(down).flat_map(|a| &a.causes) {
        let clock = matches!(cause.id, CauseId::ClockStep | CauseId::ClockSkew);
        if clock && !round_trip.causes.iter().any(|c| c.id == cause.id) {
            round_trip.causes.push(cause.clone());
        }
    }
    // Round trips exclude the time in the far host, so its stalls show only in the up direction.
    let far = up.into_iter().flat_map(|a| &a.causes);
    let mut far = far.filter(|c| c.id == CauseId::ReceiverStall && c.confidence >= PROVEN);
    // After a stall the far host answers all waiting requests at once. The first answers wait there until the later
    // ones have been made, which looks like a longer path. A host that was stopped may also be slightly faster or slower
    // afterwards, because its processor slept or serves others.
    let is_of_stall = |c: &Cause| {
        let delay = matches!(c.id, CauseId::RouteChange | CauseId::Queue);
        let is_slight = c.id == CauseId::RouteChange && size(c) < MAX_HOST_CHANGE_NS;
        let caused_by = |stall: &Cause| {
            let [from, to] = stall.packets;
            from <= c.packets[0] && (c.packets[1] <= to || is_slight && c.packets[0] <= to)
        };
        delay && far.clone().any(caused_by)
    };
    round_trip.causes.retain(|c| !is_of_stall(c));
    if let Some(stall) = far.next().filter(|_| !round_trip.names(CauseId::ReceiverStall)) {
        // The first cause is the one in the headline.
        let is_less = |c: &Cause| c.id != CauseId::IncompleteLog && c.severity < stall.severity;
        let place = round_trip.causes.iter().position(is_less).unwrap_or(round_trip.causes.len());
        round_trip.causes.insert(place, stall.clone());
        if let Some(host) = &mut round_trip.host {
            host.severity = host.severity.max(stall.severity);
            host.causes.push(stall.id);
        }
    }
    // A clock step makes the packets in transit look as if they had been held.
    let set: Vec<(f64, i64)> = round_trip
        .causes
        .iter()
        .filter(|c| c.id == CauseId::ClockStep)
        .map(|c| (c.from_s, size(c)))
        .collect();
    round_trip.causes.retain(|c| {
        let held = matches!(c.id, CauseId::ReceiverStall | CauseId::Queue);
        !held || !set.iter().any(|(at, by)| (c.from_s - at).abs() < 1.0 && (size(c) - by).abs() < by / 5)
    });
    judged
}

fn size(cause: &Cause) -> i64 {
    cause.magnitude_ns.unwrap_or(0).saturating_abs()
}

/// Returns the direction in which at least nine of ten packets of a cause were lost; `None` if neither direction has
/// that many.
fn lost_on(cause: &Cause, losses: &RequestLosses<'_>) -> Option<Direction> {
    let [first, last] = cause.packets;
    let (mut up, mut down, mut either) = (0u64, 0u64, 0u64);
    for run in losses.runs {
        let (from, to) = (u64::from(run.first), u64::from(run.first) + u64::from(run.length));
        let common = to.min(last + 1).saturating_sub(from.max(first));
        match run.side {
            LossSide::Up => up += common,
            LossSide::Down => down += common,
            LossSide::Either => either += common,
        }
    }
    let all = up + down + either;
    match () {
        () if all == 0 => None,
        () if up * 10 >= all * 9 => Some(Direction::Up),
        () if down * 10 >= all * 9 => Some(Direction::Down),
        () => None,
    }
}

/// Returns the direction that has the same cause at about the same time; `None` if both or neither have it.
fn shown_on(cause: &Cause, [up, down]: [Option<&Answer>; 2]) -> Option<Direction> {
    let has = |answer: Option<&Answer>| {
        answer.is_some_and(|a| {
            let overlaps = |c: &&Cause| c.id == cause.id && c.from_s <= cause.to_s && c.to_s >= cause.from_s;
            a.causes.iter().any(|c| overlaps(&c))
        })
    };
    match (has(up), has(down)) {
        (true, false) => Some(Direction::Up),
        (false, true) => Some(Direction::Down),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
