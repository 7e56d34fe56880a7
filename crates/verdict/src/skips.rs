//! [`Skip`]: packets that the sender skipped, and the stall that explains them.

use crate::case::Case;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::spec::Schedule;

/// Consecutive packets that the sender skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skip {
    /// Sequence numbers of the packets.
    pub run: SeqRun,
    /// Index in send order of the next packet that arrived; the number of packets if none did.
    pub before: usize,
    /// Length of the stall that explains the run, in ns: the time during which the sender sent nothing. `None` if this
    /// time is not much longer than the skipped packets would have taken.
    pub stall: Option<i64>,
}

/// Minimum time for which a sender stalls before it skips packets, in ns. Timeouts of sessions are longer.
const MIN_STALL_NS: i64 = 50_000_000;

/// Returns the skipped packets of `case`, ascending.
pub fn skips(case: &Case<'_>) -> Vec<Skip> {
    let session = case.material.session;
    let period = case.material.period().unwrap_or(0);
    let of = |run: SeqRun| {
        let before = case.delays.series().position_of(run.start + run.len);
        Skip { run, before, stall: stall(case, before, period) }
    };
    session.skipped_in(0, case.known.end).map(of).collect()
}

/// Returns the length of the stall before the packet at index `k` in send order, in ns; `None` if there was none.
fn stall(case: &Case<'_>, k: usize, period: i64) -> Option<i64> {
    let delays = &case.delays;
    if k == 0 || k >= delays.len() {
        return None;
    }
    let gap = delays.time(k).saturating_sub(delays.time(k - 1));
    let packets = delays.seq(k).saturating_sub(delays.seq(k - 1));
    let usual = period.saturating_mul(i64::try_from(packets).unwrap_or(i64::MAX));
    // The sum of random gaps deviates from its mean.
    let deviation = match case.material.session.spec.schedule() {
        Schedule::Periodic => 0.0,
        _ => 4.0 * (packets as f64).sqrt() * period as f64,
    };
    let least = MIN_STALL_NS.max(3 * period).saturating_add(deviation as i64);
    let is_stall = gap.saturating_sub(usual) >= least || case.late.stall_at(k).is_some();
    is_stall.then_some(gap - period)
}
