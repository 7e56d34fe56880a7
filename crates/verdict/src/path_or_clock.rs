//! [`confirm_path`]: changes of the delay in a recording, once it is known that the recording's clock was not set.

use crate::sentences::{causes, headline};
use jitlat_core::answer::{Answer, Cause};

/// Names the path as the only reason for those changes of the delay that the recording's clock may have caused and for
/// which `stood` returns true. `stood` must be true if other streams of the recording show that the clock was not set
/// then.
pub fn confirm_path(answer: &mut Answer, stood: impl Fn(&Cause) -> bool) {
    let open = answer.causes.iter_mut().filter(|cause| causes::is_path_or_clock(cause));
    let confirmed: Vec<bool> = open.map(|cause| stood(cause) && causes::confirm_path(cause)).collect();
    if !confirmed.is_empty() && confirmed.iter().all(|all| *all) {
        answer.headline = headline::confirm_path(&answer.headline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::causes::{OF_PATH, OF_PATH_OR_CLOCK, RecordingsClock, route_change};
    use jitlat_core::answer::{CauseId, Severity};
    use std::collections::BTreeMap;

    fn answer() -> Answer {
        let cause = |from_s: f64| Cause {
            from_s,
            because: route_change(from_s, None, 30_000_000, 0, RecordingsClock::Unknown),
            ..Cause::new(CauseId::RouteChange, Severity::Good, OF_PATH_OR_CLOCK)
        };
        Answer {
            complete: true,
            severity: Severity::Good,
            host: None,
            headline:
                "Good: the delay rose by 30 ms at 1.0 s: a change of the path or of the recording's clock."
                    .to_owned(),
            buffer_ns: None,
            without_clock_step: None,
            causes: vec![cause(1.0), cause(2.0)],
            profiles: BTreeMap::new(),
            qoo: None,
        }
    }

    #[test]
    fn the_path_is_named_where_the_clock_is_known_to_have_stood() {
        let mut all = answer();
        confirm_path(&mut all, |_| true);
        assert_eq!(all.headline, "Good: the delay rose by 30 ms at 1.0 s: another path.");
        assert_eq!(all.causes[0].because, "the path was 30 ms longer, from 1.0 s to the end of the test");
        assert_eq!(all.causes[0].confidence, OF_PATH);
        let mut one = answer();
        confirm_path(&mut one, |cause| cause.from_s > 1.5);
        assert_eq!(one.headline, answer().headline);
        let ends = ", or the recording's clock was set";
        assert_eq!([0, 1].map(|k| one.causes[k].because.ends_with(ends)), [true, false]);
    }
}
