//! [`StartGate`]: begins a test at a given time, and only once the clock of this host is good enough.

use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::clock::SyncState;
use jitlat_core::start_time::StartTime;
use jitlat_core::units::{eng4, utc_date};
use jitlat_core::{Span, SteadyTime, WallTime};
use jitlat_net::clock;
use std::time::Duration;

/// Conditions for the start of a test. The default is to start at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartGate {
    /// Time of the first packet of this host; `None`: as soon as the test is set up.
    pub at: Option<StartTime>,
    /// Maximum error that the kernel may report for the system clock; `None`: any.
    pub clock_within: Option<Span>,
    /// Time after which waiting for the clock fails.
    pub clock_limit: Span,
}

impl Default for StartGate {
    fn default() -> StartGate {
        StartGate { at: None, clock_within: None, clock_limit: Span::seconds(60) }
    }
}

/// Time before the first packet at which the test is set up.
pub const SETUP_TIME: Span = Span::seconds(2);
/// Interval at which the clock's state is read.
const POLL_INTERVAL: Span = Span::millis(500);
/// Longest sleep, so that a stop is noticed soon.
const MAX_SLEEP: Span = Span::millis(100);

/// Functions of the host that the gate uses; tests replace them.
trait GateHost {
    fn wall(&mut self) -> WallTime;
    fn steady(&mut self) -> SteadyTime;
    /// Returns the state of the system clock; `None` if the kernel does not report it.
    fn clock(&mut self) -> Option<SyncState>;
    /// Sleeps for at most `span`; returns true if the test was stopped.
    fn sleep(&mut self, span: Span) -> bool;
}

struct ThisHost<'a>(&'a Stop);

impl GateHost for ThisHost<'_> {
    fn wall(&mut self) -> WallTime {
        clock::wall()
    }

    fn steady(&mut self) -> SteadyTime {
        clock::steady()
    }

    fn clock(&mut self) -> Option<SyncState> {
        clock::sync_state()
    }

    fn sleep(&mut self, span: Span) -> bool {
        std::thread::sleep(Duration::from_nanos(span.0.max(0).unsigned_abs()));
        self.0.is_requested()
    }
}

impl StartGate {
    /// Waits until the clock is good enough, and then until it is time to set up the test: [`SETUP_TIME`] before the start
    /// if the test can be set up in advance (`prepares`), otherwise at the start. Returns the time of the first packet;
    /// `None` if it is not given, or if the test was stopped.
    ///
    /// # Errors
    /// [`Error::Settings`] if the time has passed, or if the clock is not good enough in time.
    pub fn wait(&self, stop: &Stop, prepares: bool) -> Result<Option<WallTime>, Error> {
        self.wait_on(&mut ThisHost(stop), prepares)
    }

    fn wait_on(&self, host: &mut dyn GateHost, prepares: bool) -> Result<Option<WallTime>, Error> {
        let setup = if prepares { SETUP_TIME } else { Span::ZERO };
        // The start is determined before waiting for the clock, so that hosts on which the command is given at about the
        // same time choose the same start.
        let asked = host.wall();
        let at = self
            .at
            .map(|at| at.after(asked, setup))
            .transpose()
            .map_err(|e| Error::Settings(e.to_string()))?;
        if let Some(bound) = self.clock_within
            && !wait_for_clock(host, bound, self.clock_limit, at.map(|at| at - setup))?
        {
            return Ok(None);
        }
        if let Some(at) = at {
            if (at - setup) - host.wall() > Span::ZERO {
                // This is logged without a terminal, too: otherwise the command would seem to hang.
                tracing::info!("--start-at: waiting until {}", utc_date(at));
            }
            loop {
                let left = (at - setup) - host.wall();
                if left <= Span::ZERO {
                    break;
                }
                if host.sleep(left.min(MAX_SLEEP)) {
                    return Ok(None);
                }
            }
        }
        Ok(at)
    }
}

/// Waits until the kernel reports an error of at most `bound`; returns false if the test was stopped.
fn wait_for_clock(
    host: &mut dyn GateHost,
    bound: Span,
    limit: Span,
    until: Option<WallTime>,
) -> Result<bool, Error> {
    let began = host.steady();
    loop {
        let state = host.clock();
        if state.is_some_and(|s| s.synchronised && s.maximum_error <= bound) {
            return Ok(true);
        }
        let waited = host.steady() - began;
        let is_start_due = until.is_some_and(|until| host.wall() >= until);
        if waited >= limit || is_start_due {
            let longer = match is_start_due {
                true => "the start came first: give a later --start-at",
                false => "wait longer with --clock-limit",
            };
            let seen = match state {
                None => "the kernel does not report the state of its clock".to_owned(),
                Some(s) if !s.synchronised => "the kernel reports the clock as not synchronised".to_owned(),
                Some(s) => format!("the kernel reports an error of up to {}", eng4(s.maximum_error.0)),
            };
            let waited = eng4(waited.0);
            return Err(Error::Settings(format!(
                "--clock-within {}: after {waited}, {seen}; run chrony or ntpd (milliseconds), or ptp4l and phc2sys \
                 (microseconds), {longer}, or allow a larger error",
                eng4(bound.0)
            )));
        }
        // Sleeps for short times, so that a stop is noticed soon.
        for _ in 0..POLL_INTERVAL.0 / MAX_SLEEP.0 {
            if host.sleep(MAX_SLEEP) {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::SECOND;

    /// A host in virtual time, whose clock has an error that `error` returns for the seconds since the start.
    struct Fake {
        now: Span,
        error: fn(i64) -> Option<(bool, Span)>,
        stops: Option<Span>,
    }

    const NOON: i64 = (20_785 * 86_400 + 43_200) * SECOND;

    impl GateHost for Fake {
        fn wall(&mut self) -> WallTime {
            WallTime(NOON) + self.now
        }

        fn steady(&mut self) -> SteadyTime {
            SteadyTime(0) + self.now
        }

        fn clock(&mut self) -> Option<SyncState> {
            (self.error)(self.now.0 / SECOND).map(|(synchronised, maximum_error)| SyncState {
                synchronised,
                offset: Span::ZERO,
                estimated_error: Span::ZERO,
                maximum_error,
                frequency_ppb: 0,
            })
        }

        fn sleep(&mut self, span: Span) -> bool {
            assert!(span > Span::ZERO && span <= MAX_SLEEP);
            self.now = self.now + span;
            self.stops.is_some_and(|stops| self.now >= stops)
        }
    }

    fn gate(at: Option<&str>, within: Option<Span>) -> StartGate {
        let at = at.map(|at| at.parse().unwrap());
        StartGate { at, clock_within: within, ..StartGate::default() }
    }

    /// Waits; returns the start, in seconds after noon, and the time spent waiting.
    fn waited(gate: &StartGate, mut host: Fake) -> (Result<Option<i64>, String>, Span) {
        let start = gate.wait_on(&mut host, true);
        let start = start.map(|at| at.map(|at| (at.0 - NOON) / SECOND)).map_err(|e| e.to_string());
        (start, host.now)
    }

    const GOOD: fn(i64) -> Option<(bool, Span)> = |_| Some((true, Span::micros(200)));

    #[test]
    fn the_test_is_set_up_two_seconds_before_its_start() {
        let host = || Fake { now: Span::millis(3500), error: GOOD, stops: None };
        assert_eq!(waited(&gate(None, None), host()), (Ok(None), Span::millis(3500)));
        assert_eq!(waited(&gate(Some("+10s"), None), host()), (Ok(Some(10)), Span::seconds(8)));
        assert_eq!(waited(&gate(Some("12:00:30"), None), host()), (Ok(Some(30)), Span::seconds(28)));
        let (past, _) = waited(&gate(Some("2026-11-28T12:00:03Z"), None), host());
        assert!(past.unwrap_err().contains("the start time passed"));
        let stopped = Fake { stops: Some(Span::seconds(5)), ..host() };
        assert_eq!(waited(&gate(Some("+10s"), None), stopped), (Ok(None), Span::seconds(5)));
    }

    #[test]
    fn the_gate_opens_when_the_clock_is_good_enough() {
        let bound = Some(Span::millis(1));
        let host = |error| Fake { now: Span::ZERO, error, stops: None };
        assert_eq!(waited(&gate(None, bound), host(GOOD)), (Ok(None), Span::ZERO));
        // Synchronised after 20 s, and within the bound after 30 s.
        let later = |s| Some((s >= 20, if s >= 30 { Span::micros(900) } else { Span::millis(40) }));
        assert_eq!(waited(&gate(None, bound), host(later)), (Ok(None), Span::seconds(30)));
        assert_eq!(waited(&gate(Some("12:00:40"), bound), host(later)), (Ok(Some(40)), Span::seconds(38)));
        for (error, seen) in [
            ((|_| None) as fn(i64) -> Option<(bool, Span)>, "does not report the state"),
            (|_| Some((false, Span::seconds(16))), "as not synchronised"),
            (|_| Some((true, Span::millis(40))), "an error of up to 40.00 ms"),
        ] {
            let (failed, waited) = waited(&gate(None, bound), host(error));
            let why = failed.unwrap_err();
            assert!(why.contains(seen) && why.contains("--clock-within 1.000 ms"), "{why}");
            assert_eq!(waited, Span::seconds(60));
        }
        // The clock is not good enough at the start, so waiting longer is useless.
        let (failed, waited) = waited(&gate(Some("12:00:12"), bound), host(later));
        let why = failed.unwrap_err();
        assert!(why.contains("later --start-at") && !why.contains("--clock-limit"), "{why}");
        assert_eq!(waited, Span::seconds(10));
        let stopped = Fake { stops: Some(Span::seconds(5)), ..host(later) };
        assert_eq!(self::waited(&gate(None, bound), stopped), (Ok(None), Span::seconds(5)));
    }
}
