//! Rule for clocks that were set.

use super::rule::{CauseRule, Find, FoundCause, merge_if_many};
use crate::case::Case;
use crate::sentences::causes::{SteppedClock, clock_step};
use crate::steps::StepReason;
use jitlat_core::answer::{CauseId, Severity};

pub const RULE: CauseRule = CauseRule {
    id: CauseId::ClockStep,
    threshold: "delays change permanently while send times leave the schedule by the opposite amount; or while the \
                probes' offset or the clock state that a host reports changes by the same amount; or by more than \
                any detour; or packets that arrive in order have decreasing arrival times",
    source: "RFC 7679 §3.7.1, RFC 5905",
    find,
};

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    let clock = |r: &StepReason| matches!(r, StepReason::SenderClock | StepReason::ReceiverClock);
    let found = case.steps.iter().filter(|(_, r)| clock(r)).map(|(step, reason)| {
        let (clock, by) = match reason {
            StepReason::SenderClock if case.is_media() => (SteppedClock::Recording, -step.change),
            StepReason::SenderClock => (SteppedClock::Sender, -step.change),
            _ if case.is_media() => (SteppedClock::Recording, step.change),
            _ => (SteppedClock::Receiver, step.change),
        };
        let why = clock_step(case.stream_seconds_at(step.place), clock, by);
        let confidence = if *reason == StepReason::SenderClock { 0.97 } else { 0.95 };
        FoundCause::of(CauseId::ClockStep, Severity::Good, 1e-3, confidence)
            .places(case, step.place, case.delays.len())
            .ns(by)
            .because(why)
    });
    merge_if_many(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::LevelStep;
    use crate::testing::{MS, found_in, quiet};

    #[test]
    fn each_clock_that_was_set_is_named_with_its_way() {
        let step = |place, change| LevelStep { place, change, ramp: 0, spread: [0, 0] };
        let found = found_in(&quiet(), &RULE, |case| {
            case.steps = vec![
                (step(100, 5 * MS), StepReason::SenderClock),
                (step(200, -5 * MS), StepReason::SenderClock),
                (step(300, 5 * MS), StepReason::ReceiverClock),
                (step(400, -5 * MS), StepReason::ReceiverClock),
                (step(500, 5 * MS), StepReason::Route),
                (step(600, 5 * MS), StepReason::Queue),
            ];
        });
        let said: Vec<_> = found
            .iter()
            .map(|f| (f.cause.from_s, f.cause.magnitude_ns.unwrap() / MS, f.cause.confidence))
            .collect();
        assert_eq!(said, [(1.0, -5, 0.97), (2.0, 5, 0.97), (3.0, 5, 0.95), (4.0, -5, 0.95)]);
        let because: Vec<_> = found.iter().map(|f| f.cause.because.as_str()).collect();
        assert_eq!(
            because[0],
            "the sending host's clock was set back by 5.0 ms at 1.0 s; the path's delay did not change"
        );
        assert_eq!(
            because[1],
            "the sending host's clock was set forward by 5.0 ms at 2.0 s; the path's delay did not change"
        );
        assert_eq!(
            because[2],
            "the receiving host's clock was set forward by 5.0 ms at 3.0 s; the path's delay did not change"
        );
        assert_eq!(found[0].cause.packets, [100, 999]);
    }
}
