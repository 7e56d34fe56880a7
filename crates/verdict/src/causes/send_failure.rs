//! Rule for packets that the sending host's system refused.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::{send_failure, skipped};
use crate::severity::of_missing;
use crate::skips::skips;
use jitlat_core::answer::CauseId;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::SendFailure,
    threshold: "the sending host's system refused at least 0.1 % of the packets, the kernel stamped their entry \
                into the queue of its interface but never their departure, or the sender skipped them although \
                no stall explains it",
    source: "definition: what a host did is not the path's fault; ITU-T Y.1541 (0.1 %)",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    refused(case).into_iter().chain(unexplained_skips(case)).collect()
}

/// Returns the cause for packets that the sender skipped although it did not stall; `None` if it skipped too few.
fn unexplained_skips(case: &Case<'_>) -> Option<FoundCause> {
    let runs: Vec<_> = skips(case).into_iter().filter(|s| s.stall.is_none()).map(|s| s.run).collect();
    let (first, last) = (runs.first()?.start, runs.last().map(|run| run.start + run.len - 1)?);
    let packets: u64 = runs.iter().map(|run| run.len).sum();
    let planned = case.known.sent + case.material.session.skipped.iter().map(|run| run.len).sum::<u64>();
    let share = packets as f64 / planned.max(1) as f64;
    if share < 1e-3 {
        return None;
    }
    let severity = of_missing(share, packets, planned);
    let found = FoundCause::of(CauseId::SendFailure, severity, share, 1.0).share(share);
    let found = found.packets(case, first, last);
    let times = [found.cause.from_s, found.cause.to_s].map(|s| case.begin.of(s));
    Some(found.because(skipped(packets, share, times)))
}

/// Returns the cause for packets that the sending host's system refused.
fn refused(case: &Case<'_>) -> Vec<FoundCause> {
    let refused = case.material.session.refused().min(case.known.sent);
    let share = refused as f64 / case.known.sent.max(1) as f64;
    if refused == 0 || share < 1e-3 {
        return Vec::new();
    }
    let severity = of_missing(share, refused, case.known.sent);
    let runs = &case.refused;
    let found = FoundCause::of(CauseId::SendFailure, severity, share, 1.0).share(share);
    let (found, when) = match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => {
            let found = found.packets(case, first.start, last.start + last.len - 1);
            let times = [found.cause.from_s, found.cause.to_s].map(|s| case.begin.of(s));
            // The times of isolated failures are meaningless.
            let is_time = runs.iter().any(|r| 2 * r.len >= refused);
            (found, is_time.then_some(times))
        }
        _ => (found.whole(case), None),
    };
    vec![found.because(send_failure(refused, share, when))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, Test, every, first, found_in};

    /// Finds the cause in 10 000 packets of which the system refused `refused`; the runs `gone` have no records.
    fn of(refused: u64, gone: &[(u32, u32)]) -> Option<FoundCause> {
        let is_gone = |k: u32| gone.iter().any(|(from, len)| (*from..from + len).contains(&k));
        let mut test = Test::new(10_000, 10 * MS, &every(10 * MS, 10_000, |k| (!is_gone(k)).then_some(0)));
        test.session.unsent = refused;
        found_in(&test, &RULE, |_| ()).into_iter().next()
    }

    #[test]
    fn a_system_that_refuses_one_of_a_thousand_is_named() {
        assert_eq!(first(0..=100, |n| of(n as u64, &[]).is_some()), 10);
        let found = of(200, &[]).unwrap();
        assert_eq!((found.cause.magnitude, found.harm, found.cause.packets), (Some(0.02), 0.02, [0, 9999]));
        assert_eq!(found.cause.severity, of_missing(0.02, 200, 10_000));
        assert_eq!(
            found.cause.because,
            "the sending host did not send 200 packets (2.0 %): its system refused them, or the queue of its interface was full; the path did not lose them"
        );
        assert_eq!(of(20_000, &[]).unwrap().cause.magnitude, Some(1.0), "no more than were sent");
    }

    #[test]
    fn packets_skipped_at_the_end_are_not_refused() {
        let sent = every(10 * MS, 1000, |k| (k < 960).then_some(0));
        let mut test = Test::new(1000, 10 * MS, &sent);
        test.session.skipped = vec![crate::testing::run(960, 40)];
        test.session.unsent = 40;
        let [found] = found_in(&test, &RULE, |_| ()).try_into().ok().unwrap();
        assert_eq!(
            found.cause.because,
            "the sender skipped 40 packets (4.0 %), from 9.6 s to 10.0 s: it was too late for them, or its system refused them; the path did not lose them"
        );
    }

    #[test]
    fn where_losses_are_about_as_many_they_are_these() {
        assert_eq!(of(100, &[(500, 50), (800, 60)]).unwrap().cause.packets, [500, 859]);
        assert_eq!(of(100, &[(500, 50), (800, 61)]).unwrap().cause.packets, [0, 9999]);
        let said = |refused, gone: &[(u32, u32)]| of(refused, gone).unwrap().cause.because;
        assert!(
            said(100, &[(500, 50), (800, 50)])
                .contains("did not send 100 packets (1.0 %), from 5.0 s to 8.5 s:")
        );
        assert!(said(99, &[(500, 33), (700, 33), (900, 33)]).contains("did not send 99 packets (0.99 %)"));
        assert_eq!(
            of(100, &[(500, 103), (800, 60)]).unwrap().cause.packets,
            [500, 602],
            "the one run that is as long"
        );
    }
}
