//! Wake-up delays of this host (metrics §22.2), measured at periodic deadlines without sending packets.

use crate::clock::steady;
use crate::pace::{PaceMode, Pacer, Pacing};
use jitlat_core::distribution::percentile::Percent;
use jitlat_core::distribution::sample::Sample;
use jitlat_core::time::Span;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wake-up delays at periodic deadlines, in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakeLateness {
    /// Pacing mode: `sleep`, `hybrid` or `spin`.
    pub mode: String,
    /// True if the thread ran under `SCHED_FIFO`.
    pub realtime: bool,
    /// Period of the deadlines.
    pub period: Span,
    /// Number of deadlines.
    pub deadlines: u64,
    /// Median wake-up delay.
    pub p50: Span,
    /// 99th percentile; the largest delay if there were fewer than 100 deadlines.
    pub p99: Span,
    /// Largest wake-up delay.
    pub max: Span,
    /// Settings that were requested but not permitted.
    pub notes: Vec<String>,
}

/// Maximum number of deadlines in one trial.
const MAX_DEADLINES: i64 = 1000;
/// Minimum number of deadlines in one trial.
const MIN_DEADLINES: i64 = 10;

/// Waits for deadlines that are `period` apart, for about `budget`, on a thread with the settings of
/// `pacing`. A period that is too long for ten deadlines within the budget is reduced to a tenth of the
/// budget; the result contains the actual period. `None` if stopped.
pub fn lateness(pacing: &Pacing, period: Span, budget: Span, stop: &AtomicBool) -> Option<WakeLateness> {
    let period = Span(period.0.clamp(1, (budget.0 / MIN_DEADLINES).max(1)));
    let deadlines = (budget.0 / period.0).clamp(MIN_DEADLINES, MAX_DEADLINES);
    std::thread::scope(|scope| {
        let trial = scope.spawn(|| {
            let notes = pacing.apply();
            let (mode, _) = pacing.mode_at(period);
            (notes, mode, meet(mode, period, deadlines, stop))
        });
        let (notes, mode, late) = trial.join().ok()?;
        let sample = Sample::new(late.iter().copied());
        let at = |p| sample.edf(Percent(p)).map(Span);
        Some(WakeLateness {
            mode: mode.to_string(),
            realtime: pacing.realtime.is_some() && notes.is_empty(),
            period,
            deadlines: late.len() as u64,
            p50: at(50_000)?,
            p99: at(99_000)?,
            max: at(100_000)?,
            notes,
        })
    })
}

fn meet(mode: PaceMode, period: Span, deadlines: i64, stop: &AtomicBool) -> Vec<i64> {
    let pacer = Pacer::new(mode);
    let mut late = Vec::with_capacity(deadlines as usize);
    let start = steady() + period;
    for i in 0..deadlines {
        let due = start + period.times(i);
        let Some(now) = pacer.wait_until(due, || stop.load(Ordering::Relaxed)) else { break };
        late.push((now - due).0);
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_early_and_never_longer_than_asked() {
        let stop = AtomicBool::new(false);
        let hour = Span::seconds(3600);
        let l = lateness(&Pacing::default(), hour, Span::millis(20), &stop).unwrap();
        assert_eq!((l.deadlines, l.period), (10, Span::millis(2)));
        assert!(l.p50.0 >= 0 && l.p50 <= l.p99 && l.p99 <= l.max, "{l:?}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(lateness(&Pacing::default(), hour, Span::seconds(100), &stop), None);
    }
}
