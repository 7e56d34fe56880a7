//! Rule for incomplete logs: packets that were not recorded are unknown, not lost.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::{MissingPart, incomplete_log};
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::metrics::seqset::SeqRun;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::IncompleteLog,
    threshold: "nothing proves that the log is complete: a log of version 3 lacks its closing lines or has another \
                ending, a line is cut, rows are unreadable or were not written, the last packets left too late for the receiver's results, \
                or (versions 1 and 2) the name ends with `.part` or the header is cut",
    source: "definition: what was not recorded is unknown, never lost",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let known = case.known;
    if known.complete {
        return Vec::new();
    }
    let session = case.material.session;
    let within = |run: Option<SeqRun>| run.map(|run| [run.start, run.start + run.len]);
    let mut unrecorded = session.unrecorded_in(0, known.end);
    let first = within(unrecorded.next());
    let last = within(unrecorded.last()).or(first);
    let share = known.unknown as f64 / (known.unknown + known.sent).max(1) as f64;
    let is_recorded = session.truncated || session.has_end_lines();
    let part = MissingPart::of(session, known.tail > 0);
    let why = incomplete_log(part, known.unknown, share, first.is_none());
    let mut found = FoundCause::of(
        CauseId::IncompleteLog,
        Severity::Unknown,
        share,
        if is_recorded { 1.0 } else { 0.85 },
    )
    .share(share)
    .because(why);
    let (from, from_s) = match first {
        Some([from, _]) => (from, case.seconds(from)),
        None => (known.end, case.duration),
    };
    let (to, to_s) = match last {
        Some([_, to]) if known.tail == 0 => (to, case.seconds(to)),
        _ => {
            let period = case.material.period().unwrap_or(0) as f64 / 1e9;
            (known.end + known.tail, case.duration + period * known.tail as f64)
        }
    };
    found.cause.packets = [from, to.saturating_sub(1)];
    (found.cause.from_s, found.cause.to_s) = (from_s, to_s);
    vec![found]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Test, found_in, known, quiet, run};
    use jitlat_core::session::Ending;

    /// Finds the cause in a test with 1000 known packets, `tail` unknown ones after them, and the unrecorded
    /// runs `unrecorded`.
    fn of(tail: u64, unrecorded: &[(u64, u64)], change: impl FnOnce(&mut Test)) -> FoundCause {
        let mut test = quiet();
        test.session.unrecorded = unrecorded.iter().map(|(start, len)| run(*start, *len)).collect();
        change(&mut test);
        let gone: u64 = unrecorded.iter().map(|(_, len)| len).sum();
        let mut known = known(1000, tail, false);
        (known.sent, known.unknown) = (1000 - gone, tail + gone);
        found_in(&test, &RULE, |case| (case.known, case.duration) = (known, 10.0)).remove(0)
    }

    #[test]
    fn what_is_unknown_is_at_the_end() {
        assert!(found_in(&quiet(), &RULE, |_| ()).is_empty());
        let found = of(250, &[], |_| ());
        assert_eq!((found.cause.from_s, found.cause.to_s, found.cause.packets), (10.0, 12.5, [1000, 1249]));
        assert_eq!((found.harm, found.cause.magnitude), (0.2, Some(0.2)));
        let table = [
            (Ending::PeerLost, false, "the connection to the other host was lost"),
            (Ending::ServerStopped, false, "the server was stopped during the test"),
            (Ending::StorageFailed, false, "not all results could be stored"),
            (Ending::Unknown, true, "the log is truncated"),
            (Ending::Unknown, false, "the log ends long before the last packet"),
        ];
        let late =
            of(250, &[], |test| (test.session.ending, test.session.unreported) = (Ending::Complete, 250));
        assert_eq!(
            late.cause.because,
            "the last packets left too late to be part of the receiver's results: 250 packets at the end (20 %) are unknown"
        );
        for (ending, truncated, how) in table {
            let found =
                of(250, &[], |test| (test.session.ending, test.session.truncated) = (ending, truncated));
            assert_eq!(found.cause.because, format!("{how}: 250 packets at the end (20 %) are unknown"));
        }
    }

    #[test]
    fn what_is_unknown_within_the_log_has_its_place() {
        let within = of(0, &[(100, 50), (300, 50)], |_| ());
        assert_eq!((within.cause.from_s, within.cause.to_s, within.cause.packets), (1.0, 3.5, [100, 349]));
        assert_eq!(within.cause.because, "rows are missing within the log: 100 packets (10 %) are unknown");
        assert_eq!(of(0, &[(100, 50)], |_| ()).cause.packets, [100, 149]);
        let both = of(250, &[(100, 50)], |_| ());
        assert_eq!((both.cause.from_s, both.cause.to_s, both.cause.packets), (1.0, 12.5, [100, 1249]));
        assert_eq!(
            both.cause.because,
            "the log ends long before the last packet: 300 packets (24 %) are unknown"
        );
    }

    #[test]
    fn an_old_log_that_is_not_cut_leaves_a_doubt() {
        let confidence = |truncated, version| {
            let found =
                of(250, &[], |test| (test.session.truncated, test.session.version) = (truncated, version));
            found.cause.confidence
        };
        let of = [(true, 3), (false, 3), (true, 2), (false, 2)].map(|(t, v)| confidence(t, v));
        assert_eq!(of, [1.0, 1.0, 1.0, 0.85]);
    }
}
