//! [`CauseRule`]: rule that detects one kind of cause. [`FoundCause`]: a detected cause.

use crate::case::Case;
use crate::sentences::causes::repeated;
use jitlat_core::answer::{Cause, CauseId, LargestEvent, Severity};

/// Rule that detects one kind of cause.
pub struct CauseRule {
    /// Kind of cause that the rule detects.
    pub id: CauseId,
    /// Condition of the rule in words, with all thresholds.
    pub threshold: &'static str,
    /// Source of the thresholds.
    pub source: &'static str,
    /// Finds all causes of the rule's kind in a case.
    pub find: fn(&Case<'_>) -> Vec<FoundCause>,
}

/// Minimum number of causes of one kind that are merged into one.
const MAX_SEPARATE_CAUSES: usize = 6;
pub use jitlat_core::evidence::FoundCause;

/// Methods that build a cause found in a case.
pub(super) trait Find: Sized {
    /// Creates a cause with a single occurrence; `harm` is the share of packets affected.
    fn of(id: CauseId, severity: Severity, harm: f64, confidence: f64) -> FoundCause;
    /// Sets the time range and the packets: from packet `first` to packet `last`.
    fn packets(self, case: &Case<'_>, first: u64, last: u64) -> FoundCause;
    /// Sets the time range and the packets: from index `from` in send order up to but not including index `to`.
    fn places(self, case: &Case<'_>, from: usize, to: usize) -> FoundCause;
    /// Sets the time range and the packets to all packets known to be received or lost.
    fn whole(self, case: &Case<'_>) -> FoundCause;
    /// Sets the size, in ns.
    fn ns(self, magnitude: i64) -> FoundCause;
    /// Sets the size, as a share.
    fn share(self, magnitude: f64) -> FoundCause;
    /// Sets the sentence with the evidence.
    fn because(self, why: String) -> FoundCause;
}

impl Find for FoundCause {
    fn of(id: CauseId, severity: Severity, harm: f64, confidence: f64) -> FoundCause {
        FoundCause { cause: Cause::new(id, severity, confidence), harm, whole_test: false }
    }

    fn packets(mut self, case: &Case<'_>, first: u64, last: u64) -> FoundCause {
        self.cause.packets = [first, last];
        self.cause.from_s = case.seconds(first).max(0.0);
        self.cause.to_s = if last + 1 >= case.known.sent { case.duration } else { case.seconds(last) };
        self
    }

    fn places(mut self, case: &Case<'_>, from: usize, to: usize) -> FoundCause {
        let last = to.saturating_sub(1).max(from).min(case.delays.len() - 1);
        self.cause.packets = [case.delays.seq(from), case.delays.seq(last)];
        (self.cause.from_s, self.cause.to_s) = (case.seconds_at(from).max(0.0), case.seconds_at(to));
        self
    }

    fn whole(self, case: &Case<'_>) -> FoundCause {
        self.packets(case, 0, case.known.sent.saturating_sub(1))
    }

    fn ns(mut self, magnitude: i64) -> FoundCause {
        self.cause.magnitude_ns = Some(magnitude);
        self
    }

    fn share(mut self, magnitude: f64) -> FoundCause {
        self.cause.magnitude = Some(magnitude);
        self
    }

    fn because(mut self, why: String) -> FoundCause {
        self.cause.because = why;
        self
    }
}

/// Merges `found`, which is in order of time, into one cause if there are too many to be reported separately.
pub(crate) fn merge_if_many(found: Vec<FoundCause>) -> Vec<FoundCause> {
    if found.len() < MAX_SEPARATE_CAUSES { found } else { merge(found) }
}

/// Merges `found`, all of the kind `id`, into one cause if there are too many, or if this kind is always reported as
/// one cause.
pub(crate) fn merge_of_kind(id: CauseId, found: Vec<FoundCause>) -> Vec<FoundCause> {
    let together = matches!(id, CauseId::Queue | CauseId::SenderStall | CauseId::ReceiverStall);
    // Packets that a TCP connection held back did not wait on the path.
    let (mut tcp, found): (Vec<_>, Vec<_>) = found.into_iter().partition(|f| f.cause.limited_by.is_some());
    let merged = |found: Vec<FoundCause>| {
        if together && found.len() > 1 { merge(found) } else { merge_if_many(found) }
    };
    let mut all = Vec::new();
    while let Some(limit) = tcp.first().map(|f| f.cause.limited_by) {
        let (same, others): (Vec<_>, Vec<_>) = tcp.into_iter().partition(|f| f.cause.limited_by == limit);
        all.extend(merged(same));
        tcp = others;
    }
    all.extend(merged(found));
    all
}

/// Merges repeated causes of the same kind in `found`, which may contain causes of any kind.
pub(crate) fn merge_repeated(found: Vec<FoundCause>) -> Vec<FoundCause> {
    let mut kinds: Vec<(CauseId, Vec<FoundCause>)> = Vec::new();
    for found in found {
        match kinds.iter_mut().find(|(id, _)| *id == found.cause.id) {
            Some((_, same)) => same.push(found),
            None => kinds.push((found.cause.id, vec![found])),
        }
    }
    kinds.into_iter().flat_map(|(id, same)| merge_of_kind(id, same)).collect()
}

fn merge(mut found: Vec<FoundCause>) -> Vec<FoundCause> {
    let count = found.iter().map(|f| f.cause.count).sum();
    let period_s = period(&found);
    let harm = found.iter().map(|f| f.harm).sum();
    let from = found.iter().map(|f| f.cause.from_s).fold(f64::INFINITY, f64::min);
    let to = found.iter().map(|f| f.cause.to_s).fold(0.0, f64::max);
    let first = found.iter().map(|f| f.cause.packets[0]).min().unwrap_or(0);
    let last = found.iter().map(|f| f.cause.packets[1]).max().unwrap_or(0);
    found.sort_by_key(|f| std::cmp::Reverse(f.cause.magnitude_ns.map(i64::saturating_abs)));
    let severity = found.iter().map(|f| f.cause.severity).max().unwrap_or(Severity::Good);
    let confidence = found.iter().map(|f| f.cause.confidence).fold(0.0, f64::max);
    found.truncate(1);
    for f in &mut found {
        f.harm = harm;
        let c = &mut f.cause;
        let (from_s, to_s) = (c.from_s, c.to_s);
        let alone = c.magnitude_ns.map(|magnitude_ns| LargestEvent { from_s, to_s, magnitude_ns });
        c.largest = c.largest.or(alone);
        c.confidence = confidence;
        c.period_s = period_s;
        (c.count, c.from_s, c.to_s, c.packets, c.severity) = (count, from, to, [first, last], severity);
        c.because = repeated(count, &c.because);
    }
    found
}

/// Returns the time from one of the causes `found` to the next, in seconds, if it is always about the same; otherwise
/// `None`. `found` is in order of time.
fn period(found: &[FoundCause]) -> Option<f64> {
    let apart: Vec<f64> = found.windows(2).map(|w| w[1].cause.from_s - w[0].cause.from_s).collect();
    let mean = apart.iter().sum::<f64>() / apart.len().max(1) as f64;
    let is_even = apart.iter().all(|apart| (apart - mean).abs() <= MAX_UNEVENNESS * mean);
    (found.len() >= MIN_PERIODIC && is_even && mean > 0.0).then_some(mean)
}

/// Minimum number of events from which a period is derived.
const MIN_PERIODIC: usize = 4;
/// Maximum deviation of the time between two events from the mean time, as a share of the mean.
const MAX_UNEVENNESS: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, quiet};

    fn found(k: u64, magnitude: i64) -> FoundCause {
        let mut found =
            FoundCause::of(CauseId::Queue, Severity::Good, 0.5, 0.9).ns(magnitude).because(format!("{k}"));
        (found.cause.from_s, found.cause.to_s) = (k as f64, k as f64 + 1.0);
        found.cause.packets = [100 * k, 100 * k + 50];
        found.cause.count = k;
        found
    }

    #[test]
    fn from_six_on_causes_of_one_kind_are_reported_as_one() {
        let of = |n: u64| merge_if_many((1..=n).map(|k| found(k, -(k as i64 % 5) * MS)).collect());
        assert_eq!(of(5).len(), 5);
        let mut all: Vec<FoundCause> = (1..=6).map(|k| found(k, -(k as i64 % 5) * MS)).collect();
        all[2].cause.severity = Severity::Poor;
        let [one] = merge_if_many(all).try_into().ok().unwrap();
        assert_eq!(one.harm, 3.0);
        let cause = one.cause;
        assert_eq!((cause.count, cause.from_s, cause.to_s, cause.packets), (21, 1.0, 7.0, [100, 650]));
        assert_eq!((cause.severity, cause.magnitude_ns), (Severity::Poor, Some(-4 * MS)));
        assert_eq!(cause.because, "21 times, the largest: 4");
        let largest = cause.largest.unwrap();
        assert_eq!((largest.from_s, largest.to_s, largest.magnitude_ns), (4.0, 5.0, -4 * MS));
        assert_eq!(cause.period_s, Some(1.0));
    }

    #[test]
    fn events_at_even_distances_have_a_period() {
        let of = |at: &[f64]| {
            let event = |at: &f64| {
                let mut event = found(1, MS);
                event.cause.from_s = *at;
                event
            };
            period(&at.iter().map(event).collect::<Vec<_>>())
        };
        assert_eq!(of(&[1.0, 3.0, 5.0, 7.0]), Some(2.0));
        assert_eq!([of(&[1.0, 3.0, 5.0]), of(&[1.0, 3.0, 5.0, 8.0]), of(&[])], [None; 3]);
    }

    #[test]
    fn a_cause_lasts_to_its_last_packet_or_to_the_end() {
        let test = quiet();
        let material = test.material();
        let mut case = Case::new(&material);
        case.duration = 50.0;
        let of = |first, last| {
            let found = FoundCause::of(CauseId::Queue, Severity::Good, 0.0, 0.0).packets(&case, first, last);
            (found.cause.from_s, found.cause.to_s)
        };
        assert_eq!([of(100, 998), of(100, 999)], [(1.0, 9.98), (1.0, 50.0)]);
        let places = |from, to| {
            FoundCause::of(CauseId::Queue, Severity::Good, 0.0, 0.0).places(&case, from, to).cause.packets
        };
        assert_eq!(
            [places(100, 200), places(100, 100), places(100, 5000)],
            [[100, 199], [100, 100], [100, 999]]
        );
    }
}
