//! Round trips that a web browser measures over a WebSocket, without a program on its host (docs/protocols/browser.md).
//!
//! The browser announces a test with a [`BrowserPlan`], sends requests that the server returns unchanged, and in the end reports the
//! times that it read. [`BrowserTest`] is the server's side: it decides which requests are answered, and converts the report to
//! records. Nothing in a report is believed that contradicts what the server has seen.

mod report;

pub use report::BrowserResult;

use jitlat_core::spec::SpecError;
use jitlat_core::{Direction, Schedule, Span, SteadyTime, TestSpec, Transport, WallTime};
use report::BrowserReport;
use serde::Deserialize;

/// Default TCP port of the page.
pub const PORT: u16 = 2681;
/// Name of the protocol in results.
pub const PROTOCOL: &str = jitlat_core::twoway::BROWSER_REQUESTS;
/// Name that the WebSocket's handshake must request (`Sec-WebSocket-Protocol`).
pub const SUBPROTOCOL: &str = "jitlat-browser-1";
/// Maximum length of a message, in bytes: the report of the longest test.
pub const MAX_MESSAGE: usize = 256 << 10;
/// Maximum number of requests of a test.
pub const MAX_PACKETS: u64 = 6000;
/// Length of a request's number, at its beginning: 32 bits, most significant byte first.
const SEQ_LEN: usize = 4;
/// Range of a request's length, in bytes.
const LENGTHS: std::ops::RangeInclusive<u64> = 24..=1400;
/// Minimum time between requests: timers of browsers are coarse.
const MIN_PERIOD: Span = Span::millis(5);
/// Maximum duration of the requests.
const MAX_DURATION: Span = Span::seconds(60);
/// Time for late requests and the report, after the duration of the requests.
const GRACE: Span = Span::seconds(15);
/// Time for which a browser waits for answers after its last request.
pub const TIMEOUT: Span = Span::seconds(2);
/// Memory that a test may need, in bytes: marks of answered requests, the report and its records.
pub const MEMORY: u64 = 2 << 20;
/// Maximum length of the browser's name, in characters.
const MAX_NAME: usize = 120;

/// Reason why a test is refused, or its report is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// A message cannot be read.
    #[error("the {what} cannot be read: {why}")]
    Format {
        /// Name of the message.
        what: &'static str,
        /// Reason.
        why: String,
    },
    /// The plan exceeds a limit.
    #[error("the {what} must be {limit}")]
    Plan {
        /// Name of the setting.
        what: &'static str,
        /// Permitted values.
        limit: String,
    },
    /// The specification of the test is not valid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A request has a wrong length or number, or is repeated.
    #[error("a request of {0} bytes is not one of this test")]
    Request(usize),
    /// The report contradicts what the server has seen.
    #[error("the report contradicts what the server has seen: {0}")]
    Contradiction(&'static str),
}

/// First message of a browser: the test that it wants to run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct BrowserPlan {
    /// Number of requests.
    packets: u64,
    /// Time between requests, in ms.
    period_ms: u64,
    /// Length of a request, in bytes.
    bytes: u64,
}

/// Server's side of one test.
#[derive(Clone, Debug)]
pub struct BrowserTest {
    spec: TestSpec,
    began: SteadyTime,
    created: WallTime,
    answered: Vec<bool>,
}

impl BrowserTest {
    /// Begins the test that the browser's first message announces.
    ///
    /// # Errors
    /// [`BrowserError`] if the message cannot be read, or exceeds a limit.
    pub fn begin(message: &str, now: SteadyTime, wall: WallTime) -> Result<BrowserTest, BrowserError> {
        let plan: BrowserPlan = serde_json::from_str(message)
            .map_err(|e| BrowserError::Format { what: "plan", why: e.to_string() })?;
        let refused = |what, limit: String| Err(BrowserError::Plan { what, limit });
        if !(1..=MAX_PACKETS).contains(&plan.packets) {
            return refused("number of requests", format!("1 to {MAX_PACKETS}"));
        }
        if !LENGTHS.contains(&plan.bytes) {
            return refused("length", format!("{} to {} bytes", LENGTHS.start(), LENGTHS.end()));
        }
        let longest = MAX_DURATION.0 / 1_000_000;
        let period = i64::try_from(plan.period_ms).ok().filter(|ms| *ms <= longest).map(Span::millis);
        let Some(period) = period.filter(|period| *period >= MIN_PERIOD) else {
            return refused("time between requests", format!("{} to {longest} ms", MIN_PERIOD.0 / 1_000_000));
        };
        if period.times(plan.packets as i64) > MAX_DURATION {
            return refused("duration", format!("at most {} s", longest / 1000));
        }
        let spec = TestSpec::new(
            Direction::Up,
            Transport::Tcp,
            plan.packets,
            plan.bytes,
            period,
            Schedule::Periodic,
        )?;
        Ok(BrowserTest { spec, began: now, created: wall, answered: vec![false; plan.packets as usize] })
    }

    /// Returns the specification of the test.
    pub fn spec(&self) -> &TestSpec {
        &self.spec
    }

    /// Returns the time by which the report must have arrived.
    pub fn deadline(&self) -> SteadyTime {
        self.began + self.spec.period().times(i64::from(self.spec.packets())) + GRACE
    }

    /// Checks a request, and counts it as answered. On success the caller returns it to the browser unchanged.
    ///
    /// # Errors
    /// [`BrowserError::Request`].
    pub fn answer(&mut self, request: &[u8]) -> Result<(), BrowserError> {
        let wrong = BrowserError::Request(request.len());
        let number =
            request.first_chunk::<SEQ_LEN>().filter(|_| request.len() == usize::from(self.spec.payload()));
        let seq = number.and_then(|bytes| usize::try_from(u32::from_be_bytes(*bytes)).ok());
        match seq.and_then(|seq| self.answered.get_mut(seq)) {
            Some(answered) if !*answered => {
                *answered = true;
                Ok(())
            }
            _ => Err(wrong),
        }
    }

    /// Ends the test with the browser's report. `browser` is the name that the browser gave itself.
    ///
    /// # Errors
    /// [`BrowserError`] if the report cannot be read, or contradicts what the server has seen.
    pub fn finish(
        self,
        message: &str,
        browser: &str,
        now: SteadyTime,
    ) -> Result<BrowserResult, BrowserError> {
        let report: BrowserReport = serde_json::from_str(message)
            .map_err(|e| BrowserError::Format { what: "report", why: e.to_string() })?;
        report.result(&self, browser, now)
    }
}

#[cfg(test)]
mod tests;
