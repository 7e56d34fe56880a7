//! [`RunTable`]: the requested tests, and limits on their number.

use super::feed::LiveRun;
use super::{Planned, RunRefusal, RunRequest};
use jitlat_core::Span;
use jitlat_report::figure::group_thousands;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Limits of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Maximum number of tests at the same time, including waiting ones.
    pub at_once: usize,
    /// Maximum number of tests started within an hour.
    pub per_hour: usize,
    /// Maximum sending time of a test.
    pub longest: Span,
    /// Maximum rate of a test in a direction, bits per second on the wire.
    pub bits_per_second: u64,
    /// Maximum number of packets of a test.
    pub packets: u64,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits {
            at_once: 1,
            per_hour: 60,
            longest: Span::seconds(60),
            bits_per_second: 10_000_000,
            packets: 1_000_000,
        }
    }
}

/// Maximum number of ended tests in the table.
const MAX_ENDED_RUNS: usize = 32;
const HOUR: i64 = 3_600_000_000_000;

impl RunLimits {
    /// Checks that a test is within the limits.
    pub(crate) fn check(&self, planned: &Planned) -> Result<(), RunRefusal> {
        let wrong = |field: &str, why: String| Err(RunRefusal::Field(field.to_owned(), why));
        if planned.duration() > self.longest {
            let (asked, most) = (planned.duration_ns, self.longest.0);
            let [asked, most] = [asked, most].map(seconds);
            return wrong("duration", format!("it would send for {asked}, but the limit is {most}"));
        }
        if planned.bits_per_second > self.bits_per_second {
            let [asked, most] = [planned.bits_per_second, self.bits_per_second].map(|b| bits(b as f64));
            return wrong("period", format!("it would send {asked}, but the limit is {most}"));
        }
        if planned.packets > self.packets {
            let [asked, most] = [planned.packets, self.packets].map(|n| group_thousands(&n.to_string()));
            return wrong("packets", format!("it would send {asked} packets, but the limit is {most}"));
        }
        Ok(())
    }
}

/// Formats a time in seconds, for people.
pub fn seconds(ns: i64) -> String {
    format!("{} s", ns as f64 / 1e9)
}

/// Formats a rate in bits per second, for people.
pub fn bits(rate: f64) -> String {
    match rate {
        1e9.. => format!("{:.1} Gbit/s", rate / 1e9),
        1e6.. => format!("{:.1} Mbit/s", rate / 1e6),
        _ => format!("{:.0} kbit/s", rate / 1e3),
    }
}

/// Requested tests, newest last.
#[derive(Debug, Default)]
pub struct RunTable(Mutex<VecDeque<Arc<LiveRun>>>);

impl RunTable {
    /// Adds a test at `now` (ns since 1970), within the limits.
    pub fn admit(
        &self,
        wanted_test: &RunRequest,
        planned: Planned,
        limits: &RunLimits,
        now: i64,
    ) -> Result<Arc<LiveRun>, RunRefusal> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.iter().filter(|run| !run.is_over()).count();
        if open >= limits.at_once {
            let are = if open == 1 { "another test is" } else { "other tests are" };
            return Err(RunRefusal::Busy(format!("{are} running: wait, or stop one")));
        }
        let recent = all.iter().filter(|run| now.saturating_sub(run.created_ns) < HOUR).count();
        if recent >= limits.per_hour {
            return Err(RunRefusal::Busy(format!(
                "the limit of tests per hour is reached ({recent}): try again later"
            )));
        }
        let run = LiveRun::new(wanted_test, planned, now);
        all.push_back(run.clone());
        // Keep tests for an hour, because they count towards the hourly limit.
        while all.len() > MAX_ENDED_RUNS.max(limits.per_hour)
            && let Some(place) = all.iter().position(|run| run.is_over())
        {
            all.remove(place);
        }
        Ok(run)
    }

    /// Removes a test that was never started.
    pub fn forget(&self, run: &LiveRun) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| known.id != run.id);
    }

    /// Returns the test with this id; `None` if the id is unknown or the test was removed.
    pub fn find(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|run| run.id == id).cloned()
    }

    /// Returns all tests, newest first.
    pub fn all(&self) -> Vec<Arc<LiveRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunFeed;

    fn planned(duration_ns: i64, bits_per_second: u64, packets: u64) -> Planned {
        Planned { about: String::new(), duration_ns, packets, bits_per_second }
    }

    #[test]
    fn what_is_too_long_too_fast_or_too_much_is_refused_with_the_limit() {
        let limits = RunLimits::default();
        assert_eq!(limits.check(&planned(60_000_000_000, 10_000_000, 1_000_000)), Ok(()));
        for (wrong, field, said) in [
            (planned(61_000_000_000, 1, 1), "duration", "the limit is 60 s"),
            (planned(1, 10_000_001, 1), "period", "the limit is 10.0 Mbit/s"),
            (planned(1, 1, 1_000_001), "packets", "packets, but the limit"),
        ] {
            let Err(RunRefusal::Field(about, why)) = limits.check(&wrong) else { panic!("{wrong:?}") };
            assert!(about == field && why.contains(said), "{about}: {why}");
        }
    }

    #[test]
    fn one_at_a_time_and_so_many_an_hour() {
        let (table, limits) = (RunTable::default(), RunLimits { per_hour: 3, ..RunLimits::default() });
        let admit = |now| table.admit(&RunRequest::default(), planned(1, 1, 1), &limits, now);
        for at in 0..3 {
            let run = admit(at).unwrap();
            assert!(
                matches!(admit(at), Err(RunRefusal::Busy(why)) if why.contains("another test is running"))
            );
            RunFeed::new(run.clone()).ended(Err("x".to_owned()));
            assert!(run.is_over());
        }
        assert!(
            matches!(admit(HOUR - 1), Err(RunRefusal::Busy(why)) if why.contains("limit of tests per hour"))
        );
        let run = admit(HOUR).unwrap();
        assert_eq!(table.all()[0].id, run.id);
        table.forget(&run);
        assert!(table.find(&run.id).is_none() && table.all().len() == 3);
    }
}
