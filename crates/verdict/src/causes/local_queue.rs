//! Rule for packets that wait in the sending host's own interface.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::schedule::MIN_STAY_NS;
use crate::sentences::causes::{LocalQueueFacts, local_queue};
use crate::severity::of_wait;
use jitlat_core::answer::{CauseId, Severity};

pub const RULE: CauseRule = CauseRule {
    id: CauseId::LocalQueue,
    threshold: "eight packets and 1 % of all stay 5 ms or longer in the queue of the sending host's interface, \
                according to the kernel's stamps of entry and departure; without stamps of entry, between the send \
                call and the departure, unless they all leave together",
    source: "ITU-T Y.1541 (50 ms); definition: what a host did is not the path's fault",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let Some(height) = case.late.height() else { return Vec::new() };
    // A burst of test packets queues behind itself, which is not a fault.
    let worth = MIN_STAY_NS.max(height / 6);
    let long = || case.late.queued.iter().filter(|(_, ns)| *ns >= worth);
    let (Some(first), Some(last)) = (long().next(), long().next_back()) else { return Vec::new() };
    let share = long().count() as f64 / case.delays.len().max(1) as f64;
    let severity = if share < 0.02 { of_wait(height).min(Severity::Fair) } else { of_wait(height) };
    let longest = long().map(|(_, ns)| *ns).max().unwrap_or(height);
    // The cause begins when the first of these packets enters the queue.
    let from = (case.seconds_at(first.0) - first.1 as f64 / 1e9).max(0.0);
    let why = local_queue(LocalQueueFacts {
        from_s: case.begin.of(from),
        to_s: case.stream_seconds_at(last.0),
        share,
        height_ns: height,
        longest_ns: longest,
        upper_bounds: !case.material.notes.entries,
    });
    let mut found = FoundCause::of(CauseId::LocalQueue, severity, share * (height as f64 / 100e6), 0.95)
        .places(case, first.0, last.0 + 1)
        .ns(height)
        .because(why);
    found.cause.from_s = from;
    vec![found]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, found_in, quiet};

    /// Finds the cause in 1000 packets of which those from index 100 on waited `waits`, in ns.
    fn of(waits: &[i64]) -> Option<FoundCause> {
        let queued = (100..).zip(waits).map(|(k, ns)| (k, *ns)).collect();
        found_in(&quiet(), &RULE, |case| case.late.queued = queued).into_iter().next()
    }

    #[test]
    fn a_queue_in_the_sender_is_described() {
        assert!(of(&[]).is_none());
        let found = of(&[30 * MS; 50]).unwrap();
        assert_eq!((found.cause.packets, found.cause.magnitude_ns), ([100, 149], Some(30 * MS)));
        assert!((found.harm - 0.05 * 0.3).abs() < 1e-12);
        assert_eq!(
            found.cause.because,
            "5.0 % of the packets waited in the sending host's own interface, from 1.0 s to 1.5 s: 95 % of these up to 30 ms, the longest 30 ms (upper bounds: the kernel stamped departures only)"
        );
    }

    #[test]
    fn what_waits_less_than_a_sixth_is_a_burst_of_its_own() {
        let with = |ns: i64| of(&[&[ns; 10][..], &[60 * MS; 50]].concat()).unwrap().cause.packets;
        assert_eq!(with(10 * MS), [100, 159]);
        assert_eq!(with(10 * MS - 1), [110, 159]);
        // Waits below 5 ms do not count.
        let with = |ns: i64| of(&[&[ns; 10][..], &[6 * MS; 50]].concat()).unwrap().cause.packets;
        assert_eq!([with(5 * MS), with(5 * MS - 1)], [[100, 159], [110, 159]]);
    }

    #[test]
    fn fewer_than_2_of_100_are_fair_at_worst() {
        let severity = |count| of(&vec![200 * MS; count]).unwrap().cause.severity;
        assert_eq!([severity(19), severity(20)], [Severity::Fair, Severity::Poor]);
    }
}
