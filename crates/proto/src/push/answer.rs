//! Offers and answers of a collector, in JSON. Unknown fields belong to a later version and are ignored.

use super::{MAX_TESTS, is_earlier_name, is_name};
use jitlat_core::Span;
use serde::{Deserialize, Serialize};

/// State of a host that pushes, and the names of tests that the collector may already have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// Number of tests that wait on the host.
    pub waiting: u64,
    /// Number of tests that the host removed before they were pushed, since pushing to this collector began.
    pub dropped: u64,
    /// Names of tests, at most [`MAX_TESTS`]: SHA-256, or XXH3-128 of tests that an earlier version stored.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Slots without a result, at most [`MAX_NEWS`], of tests that the pushing host starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<LostSlot>,
    /// Routes from the host, at most [`MAX_NEWS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<SeenRoute>,
}

/// Maximum number of slots, and of routes, in one offer.
pub const MAX_NEWS: usize = 64;
/// Maximum length of a name and of a reason, in bytes, and maximum number of hops of a route.
const MAX_TEXT: usize = 300;
const MAX_HOPS: usize = 64;

/// A slot without a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostSlot {
    /// Name of the test.
    pub test: String,
    /// Name of the far host.
    pub server: String,
    /// Start of the slot, ns since 1970.
    pub at_ns: i64,
    /// Start of the first of the consecutive slots that were lost for the same reason, ns since 1970.
    pub since_ns: i64,
    /// Kind of the loss: `path`, `own` (the pushing host lost the slot), or `not stored` (the result could not be
    /// stored).
    pub fault: String,
    /// Reason for the loss, as text.
    pub reason: String,
}

/// A route from the host that pushes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRoute {
    /// Name of the section in the file.
    pub route: String,
    /// Name of the far end.
    pub dst: String,
    /// Time at which the route was first seen, ns since 1970.
    pub first_ns: i64,
    /// Time at which the route was last seen, ns since 1970.
    pub last_ns: i64,
    /// Addresses of the routers by hop. Several addresses of a hop are separated by commas; `*` stands for a router
    /// that did not answer.
    pub hops: Vec<String>,
}

impl LostSlot {
    /// Permitted values of [`fault`](LostSlot::fault).
    pub const FAULTS: [&'static str; 3] = ["path", "own", "not stored"];

    fn fits(&self) -> bool {
        [&self.test, &self.server, &self.reason].into_iter().all(|text| is_line(text))
            && LostSlot::FAULTS.contains(&self.fault.as_str())
    }
}

impl SeenRoute {
    fn fits(&self) -> bool {
        let is_hop = |hop: &String| {
            !hop.is_empty() && hop.bytes().all(|b| b.is_ascii_hexdigit() || b".:,*".contains(&b))
        };
        [&self.route, &self.dst].into_iter().all(|text| is_line(text))
            && self.hops.len() <= MAX_HOPS
            && self.hops.iter().all(|hop| hop.len() <= MAX_TEXT && is_hop(hop))
    }
}

/// True for text that has one line of at most [`MAX_TEXT`] bytes.
fn is_line(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.contains(char::is_control)
}

impl Offers {
    /// Parses a body.
    ///
    /// # Errors
    /// Description of the problem.
    pub fn parse(body: &[u8]) -> Result<Offers, String> {
        let offers: Offers = serde_json::from_slice(body).map_err(|e| e.to_string())?;
        if offers.tests.len() > MAX_TESTS {
            return Err(format!("more than {MAX_TESTS} tests in one offer"));
        }
        if offers.slots.len() > MAX_NEWS || offers.routes.len() > MAX_NEWS {
            return Err(format!("more than {MAX_NEWS} slots or routes in one offer"));
        }
        if !offers.slots.iter().all(LostSlot::fits) || !offers.routes.iter().all(SeenRoute::fits) {
            return Err(
                "a slot or a route has a text that is too long, or is not what it should be".to_owned()
            );
        }
        match offers.tests.iter().find(|name| !is_name(name) && !is_earlier_name(name)) {
            Some(wrong) => Err(format!("'{}' is not the SHA-256 of a log", wrong.escape_debug())),
            None => Ok(offers),
        }
    }
}

/// Answer to [`Offers`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Names of the offered tests that the collector has.
    pub known: Vec<String>,
}

/// Answer for one test of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartAnswer {
    /// Name of the test.
    pub hash: String,
    /// Status as of an answer for this test alone: 201 stored, 200 known already, 422 refused for ever, 429 over a quota, 503 not now.
    pub status: u16,
    /// Reason, if the test was neither stored nor known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Seconds to wait before the next attempt; with 429 and 503.
    #[serde(default, rename = "retry-after", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// Outcome of a test for the host that pushes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The collector has the test.
    Stored,
    /// The collector will never take the test, for this reason.
    Refused(String),
    /// The host keeps the test for this reason, and tries again after this pause.
    Later(String, Span),
}

impl PartAnswer {
    /// Answer for a stored test.
    pub fn stored(hash: &str) -> PartAnswer {
        PartAnswer { hash: hash.to_owned(), status: 201, error: None, retry_after: None }
    }

    /// Answer for a test that the collector has already.
    pub fn known(hash: &str) -> PartAnswer {
        PartAnswer { status: 200, ..PartAnswer::stored(hash) }
    }

    /// Answer for a test that the collector never takes.
    pub fn refused(hash: &str, why: String) -> PartAnswer {
        PartAnswer { status: 422, error: Some(why), ..PartAnswer::stored(hash) }
    }

    /// Answer for a test that exceeds a quota of its host.
    pub fn over_quota(hash: &str, why: String, wait: Span) -> PartAnswer {
        PartAnswer {
            status: 429,
            error: Some(why),
            retry_after: Some(seconds(wait)),
            ..PartAnswer::stored(hash)
        }
    }

    /// Answer for a test that cannot be stored now.
    pub fn later(hash: &str, why: String, wait: Span) -> PartAnswer {
        PartAnswer {
            status: 503,
            error: Some(why),
            retry_after: Some(seconds(wait)),
            ..PartAnswer::stored(hash)
        }
    }

    /// Returns the meaning of the answer for the host that pushes. An unknown status means that the test is kept.
    pub fn outcome(&self) -> Outcome {
        let why = || self.error.clone().unwrap_or_else(|| format!("status {}", self.status));
        match self.status {
            200 | 201 => Outcome::Stored,
            422 => Outcome::Refused(why()),
            _ => Outcome::Later(why(), pause(self.retry_after)),
        }
    }
}

/// Returns whole seconds, at least 1.
fn seconds(wait: Span) -> u64 {
    (wait.0.max(1) as u64).div_ceil(1_000_000_000)
}

/// Returns the pause that a collector requested, one hour at most.
pub fn pause(retry_after: Option<u64>) -> Span {
    Span::seconds(retry_after.unwrap_or(0).min(3600) as i64)
}

/// Answer to a body with several tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartAnswers {
    /// Answers in the order of the parts. Parts without an answer were not read.
    pub tests: Vec<PartAnswer>,
    /// Reason why the rest of the body was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Answer to a request that failed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// Reason, and what to do about it.
    pub error: String,
}
