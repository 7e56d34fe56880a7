//! Rule for route changes: the path becomes longer or shorter.

use super::rule::{CauseRule, Find, FoundCause, merge_if_many};
use crate::case::Case;
use crate::sentences::causes::{OF_PATH, OF_PATH_OR_CLOCK, RecordingsClock, route_change};
use crate::steps::StepReason;
use jitlat_core::answer::{CauseId, Severity};

pub const RULE: CauseRule = CauseRule {
    id: CauseId::RouteChange,
    threshold: "the smallest delay changes, within three packets, from one level that lasts 100 ms to another, by \
                0.1 ms and more than the 90th percentile of the differences between neighbouring packets; no clock \
                explains it, and no ramp, loss or larger jitter indicates a queue",
    source: "RFC 5481 §6.2, RFC 2330 §15 (clocks)",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let routes: Vec<_> = case.steps.iter().filter(|(_, r)| *r == StepReason::Route).map(|(s, _)| s).collect();
    let n = case.delays.len();
    let mut found = Vec::new();
    let mut k = 0;
    while k < routes.len() {
        let step = routes[k];
        let next = routes.get(k + 1);
        // A change and its reversal are one cause.
        let back = next.is_some_and(|s| (s.change + step.change).abs() <= step.change.abs() / 4);
        let end = next.map_or(n, |s| s.place);
        let place = case.delays.seq(step.place);
        let meanwhile =
            case.lost_at_steps.iter().filter(|r| r.start <= place && place <= r.start + r.len + 1);
        let until = next.map(|_| case.stream_seconds_at(end));
        let from = case.stream_seconds_at(step.place);
        let (clock, confidence) = match case.is_media() {
            true => (RecordingsClock::Unknown, OF_PATH_OR_CLOCK),
            false => (RecordingsClock::NotSet, OF_PATH),
        };
        let why = route_change(from, until, step.change, meanwhile.map(|r| r.len).sum(), clock);
        let severity = if step.change > 150_000_000 { Severity::Fair } else { Severity::Good };
        let harm = step.change.unsigned_abs() as f64 / 1e9 * 0.01;
        found.push(
            FoundCause::of(CauseId::RouteChange, severity, harm, confidence)
                .places(case, step.place, end)
                .ns(step.change)
                .because(why),
        );
        k += if back { 2 } else { 1 };
    }
    merge_if_many(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::LevelStep;
    use crate::testing::{MS, found_in, quiet, run};

    fn of(steps: &[(usize, i64)], lost: &[(u64, u64)]) -> Vec<FoundCause> {
        let step = |(place, change): &(usize, i64)| {
            (LevelStep { place: *place, change: *change, ramp: 0, spread: [0, 0] }, StepReason::Route)
        };
        found_in(&quiet(), &RULE, |case| {
            case.steps = steps.iter().map(step).collect();
            case.lost_at_steps = lost.iter().map(|(start, len)| run(*start, *len)).collect();
        })
    }

    fn said(steps: &[(usize, i64)]) -> Vec<String> {
        of(steps, &[]).into_iter().map(|f| f.cause.because).collect()
    }

    #[test]
    fn a_change_of_the_route_is_described() {
        assert_eq!(said(&[(300, 5 * MS)]), ["the path was 5.0 ms longer, from 3.0 s to the end of the test"]);
        assert_eq!(
            said(&[(300, -5 * MS)]),
            ["the path was 5.0 ms shorter, from 3.0 s to the end of the test"]
        );
        let found = of(&[(300, 5 * MS)], &[]).remove(0);
        assert_eq!((found.cause.packets, found.cause.magnitude_ns), ([300, 999], Some(5 * MS)));
        assert!((found.harm - 5e-5).abs() < 1e-12);
        let severity = |ns| of(&[(300, ns)], &[]).remove(0).cause.severity;
        assert_eq!(
            [150 * MS, 150 * MS + 1, -200 * MS].map(severity),
            [Severity::Good, Severity::Fair, Severity::Good]
        );
    }

    #[test]
    fn there_and_back_is_one_change() {
        let back = "the path was 8.0 ms longer, from 3.0 s to 5.0 s";
        // A change back by the same amount, within a quarter.
        for by in [-8, -6, -10] {
            assert_eq!(said(&[(300, 8 * MS), (500, by * MS)]), [back]);
        }
        assert_eq!(of(&[(300, 8 * MS), (500, -8 * MS)], &[])[0].cause.packets, [300, 499]);
        for by in [-6 * MS + 1, -10 * MS - 1, 8 * MS] {
            assert_eq!(said(&[(300, 8 * MS), (500, by)]).len(), 2);
        }
        // A change lasts to the next one.
        assert_eq!(
            said(&[(300, 8 * MS), (500, 8 * MS)]),
            [
                "the path was 8.0 ms longer, from 3.0 s to 5.0 s",
                "the path was 8.0 ms longer, from 5.0 s to the end of the test"
            ]
        );
        assert_eq!(said(&[(100, 8 * MS), (300, -8 * MS), (500, 8 * MS), (700, -8 * MS)]).len(), 2);
        assert_eq!(said(&[(100, MS), (300, 8 * MS), (500, -8 * MS)]).len(), 2);
    }

    #[test]
    fn packets_lost_meanwhile_are_counted() {
        let with = |runs: &[(u64, u64)]| {
            of(&[(300, 5 * MS)], runs)[0].cause.because.split("; ").nth(1).map(str::to_owned)
        };
        assert_eq!(with(&[(290, 9)]).as_deref(), Some("9 packets were lost at the change"));
        assert_eq!(with(&[(290, 8)]), None, "ends before the packet before it");
        assert_eq!(with(&[(300, 1)]).as_deref(), Some("1 packet was lost at the change"));
        assert_eq!(with(&[(301, 3)]), None);
        assert_eq!(with(&[(290, 9), (300, 2)]).as_deref(), Some("11 packets were lost at the change"));
    }

    #[test]
    fn clocks_and_queues_are_no_routes() {
        let step = LevelStep { place: 300, change: MS, ramp: 0, spread: [0, 0] };
        for reason in [StepReason::SenderClock, StepReason::ReceiverClock, StepReason::Queue] {
            assert!(found_in(&quiet(), &RULE, |case| case.steps = vec![(step, reason)]).is_empty());
        }
    }
}
