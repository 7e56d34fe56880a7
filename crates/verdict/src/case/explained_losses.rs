//! Losses with a known explanation: a host that refused or dropped packets, the discovery of the path MTU, or a change of
//! the route.

use super::MIN_HOLD_NS;
use crate::delays::Delays;
use crate::episodes::Hold;
use crate::levels::LevelStep;
use crate::losses::LossTimes;
use crate::steps::StepReason;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::session::Session;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of loss during a route change, in ns. A longer loss is an outage.
const MAX_CONVERGENCE_NS: i64 = 220_000_000;

/// Removes from `runs` the short losses during a route change, and returns them.
pub(super) fn lost_at_steps(
    runs: &mut Vec<SeqRun>,
    steps: &[(LevelStep, StepReason)],
    delays: &Delays<'_>,
    departures: &LossTimes<'_, '_>,
) -> Vec<SeqRun> {
    let mut out = Vec::new();
    for (step, _) in steps.iter().filter(|(_, reason)| *reason == StepReason::Route) {
        if step.place == 0 || step.place >= delays.len() {
            continue;
        }
        // The losses between the last packet of the old route and the first packet of the new one, plus one packet on
        // either side.
        let (from, to) =
            (delays.seq(step.place.saturating_sub(2)), delays.seq((step.place + 1).min(delays.len() - 1)));
        let near = runs.partition_point(|run| run.start < from)..runs.partition_point(|run| run.start < to);
        out.extend(runs.extract_if(near, |run| departures.length(run) < MAX_CONVERGENCE_NS));
    }
    out
}

/// Maximum time for which packets are lost while the path MTU is discovered, in ns: a round trip to the link with the
/// smaller MTU.
const MAX_DISCOVERY_NS: i64 = 3_000_000_000;

/// Removes from `runs` the losses of the first packets, and returns them, if the kernel discovered a path MTU that is
/// smaller than the packets.
pub(super) fn lost_to_discovery(
    runs: &mut Vec<SeqRun>,
    session: &Session,
    departures: &LossTimes<'_, '_>,
) -> Option<SeqRun> {
    session.path_mtu.filter(|mtu| session.ip_length().is_some_and(|length| *mtu < length))?;
    let first = *runs.first().filter(|run| run.start == 0 && departures.length(run) <= MAX_DISCOVERY_NS)?;
    runs.remove(0);
    Some(first)
}

/// Removes the runs for which `is_taken` holds from `runs` and returns them.
pub(super) fn taken_from(runs: &mut Vec<SeqRun>, is_taken: impl Fn(&SeqRun) -> bool) -> Vec<SeqRun> {
    let (taken, others) = std::mem::take(runs).into_iter().partition(|run| is_taken(run));
    *runs = others;
    taken
}

/// Removes from `runs` the packets that the receiving host dropped, and returns them. `drops` is the number of
/// datagrams that its kernel counted; `is_in_stall` is true for runs that a stall of the receiver explains.
pub(super) fn without_dropped(
    runs: &mut Vec<SeqRun>,
    drops: u64,
    is_in_stall: impl Fn(&SeqRun) -> bool,
) -> Vec<SeqRun> {
    let lost: u64 = runs.iter().map(|run| run.len).sum();
    if drops == 0 || lost == 0 {
        return Vec::new();
    }
    if lost <= drops.saturating_add(drops / 10) {
        return std::mem::take(runs);
    }
    let mut stalled: Vec<SeqRun> = runs.iter().filter(|run| is_in_stall(run)).copied().collect();
    stalled.sort_by_key(|run| std::cmp::Reverse(run.len));
    let mut left = drops.saturating_add(drops / 10);
    stalled.retain(|run| {
        let fits = run.len <= left;
        left -= if fits { run.len } else { 0 };
        fits
    });
    let stalled: BTreeSet<u64> = stalled.iter().map(|run| run.start).collect();
    taken_from(runs, |run| stalled.contains(&run.start))
}

/// Returns true if the receiver did not read while the packets of `run` were sent: the packet before them waited in the
/// host, or was held, for at least half of that time.
pub(super) fn was_read_after(
    run: &SeqRun,
    delays: &Delays<'_>,
    departures: &LossTimes<'_, '_>,
    lags: &BTreeMap<u64, i64>,
    holds: &[Hold],
) -> bool {
    let Some(before) = delays.series().position_of(run.start).checked_sub(1) else { return false };
    let lag = lags.get(&delays.seq(before)).copied().unwrap_or(0);
    let first = holds.partition_point(|hold| hold.to < before);
    let mut near = holds[first..].iter().take_while(|hold| hold.from <= before);
    let is_held = near.any(|hold| hold.length >= MIN_HOLD_NS);
    is_held || lag >= MAX_RECORDED_LAG_NS || lag >= MIN_HOLD_NS.max(departures.length(run) / 2)
}

/// Maximum wait that a record can hold, in ns; longer waits are recorded as this value.
pub const MAX_RECORDED_LAG_NS: i64 = i32::MAX as i64;

/// Removes from `runs` the packets that the sending host's system refused, and returns them: all runs if `refused`
/// accounts for nearly all losses, otherwise a run of about `refused` packets, if there is one.
pub(super) fn without_refused(runs: &mut Vec<SeqRun>, refused: u64) -> Vec<SeqRun> {
    let lost: u64 = runs.iter().map(|r| r.len).sum();
    if refused == 0 {
        return Vec::new();
    }
    if lost <= refused.saturating_add(refused / 10) {
        return std::mem::take(runs);
    }
    let as_long = runs.iter().position(|r| r.len.abs_diff(refused) <= refused / 20);
    as_long.map(|k| runs.remove(k)).into_iter().collect()
}
