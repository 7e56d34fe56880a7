//! Tests that are started from a page and watched there.
//!
//! * [`Runner`] – runs them: the command provides one; [`RunOffer`], [`RunRequest`], [`Planned`] – data exchanged with it
//! * [`PageRuns`] – authorisation to start tests, and their limits; `table` – the list of tests
//! * [`feed`] – events of a test; `watched` – its state and its figures
//! * `form` – `/run`, the form that starts a test; `page` – `/run/ID`, where it is watched; `api` – both as JSON

pub mod api;
mod feed;
pub mod form;
pub mod page;
mod start;
mod table;
pub mod watched;

pub use feed::RunFeed;
pub use table::RunLimits;
pub(crate) use table::RunTable;

use crate::token::Token;
use jitlat_archive::Archive;
use jitlat_core::Span;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;

/// Runs tests. The functions may block, because they are called from threads that may wait.
pub trait Runner: Debug + Send + Sync {
    /// Returns the hosts and tests to choose from.
    ///
    /// # Errors
    /// Errors of the archive, from which hosts may be read.
    fn offer(&self, archive: &Archive) -> Result<RunOffer, jitlat_archive::ArchiveError>;

    /// Returns the traffic that a test would send.
    ///
    /// # Errors
    /// Reason why the request is invalid.
    fn plan(&self, wanted_test: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal>;

    /// Starts a test, now or later when capacity is free, and reports its progress to `feed`.
    ///
    /// # Errors
    /// Reason why the test is not started.
    fn start(&self, wanted_test: &RunRequest, host: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal>;
}

/// Hosts and tests to choose from.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunOffer {
    /// Name of this host, where tests start.
    pub from: String,
    /// Hosts to test with.
    pub hosts: Vec<HostOffer>,
    /// True if the users of this host may name any other host, too.
    pub any_host: bool,
    /// Kinds of tests; the first is the default.
    pub tests: Vec<TestOffer>,
    /// Profiles whose packets a test may send: name and description.
    pub profiles: Vec<(String, String)>,
}

/// A host to test with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOffer {
    /// Name of the host; its address if it has none.
    pub name: String,
    /// Address, or a name that resolves to one.
    pub address: String,
    /// True if the host can only be pinged, because it does not run jitlat.
    pub only_answers: bool,
}

/// A kind of test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestOffer {
    /// Id, as used in requests.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// True for one-way tests, which have a direction and need jitlat at the far host.
    pub one_way: bool,
}

/// Request for a test. Values have the same form as on the command line; an empty field selects the default of
/// the command line or of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// The far host, by its name in the offer.
    pub host: String,
    /// Kind of test, by its id in the offer; the first if empty.
    pub test: String,
    /// `both`, `forward` (to the far host) or `backward`; `both` if empty, and for round trips.
    pub direction: String,
    /// Profile whose packets are sent; if empty, the following fields apply.
    pub profile: String,
    /// Number of packets; if empty, `duration` applies.
    pub packets: String,
    /// Time during which packets are sent: `10s`.
    pub duration: String,
    /// Time between packets: `20ms`.
    pub period: String,
    /// Size of a packet's payload in bytes.
    pub size: String,
    /// Direction of background traffic over TCP, with which the test is repeated: `up` (to the far host), `down` or
    /// `both`; if empty, the test runs once, without it.
    pub load: String,
    /// Rate of that traffic in each direction: `5Mbit`, which is the default.
    pub load_rate: String,
}

impl RunRequest {
    /// Creates the request from the value of each field of a form.
    pub(crate) fn of_form<'a>(value: impl Fn(&str) -> Option<&'a str>) -> RunRequest {
        let of = |name: &str| value(name).unwrap_or("").to_owned();
        RunRequest {
            host: of("host"),
            test: of("test"),
            direction: of("direction"),
            profile: of("profile"),
            packets: of("packets"),
            duration: of("duration"),
            period: of("period"),
            size: of("size"),
            load: of("load"),
            load_rate: of("load_rate"),
        }
    }
}

/// Traffic of a planned test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Planned {
    /// Description of the test.
    pub about: String,
    /// Time during which packets are sent, ns.
    pub duration_ns: i64,
    /// Number of packets, in all directions together.
    pub packets: u64,
    /// Rate on the wire in bits per second, in the direction with the higher rate.
    pub bits_per_second: u64,
}

impl Planned {
    fn duration(&self) -> Span {
        Span(self.duration_ns)
    }
}

/// Reason why a test is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRefusal {
    /// A field of the request is wrong or not allowed: the field (empty for the request as a whole), and what to write
    /// instead.
    Field(String, String),
    /// No capacity is free. Contains the reason, or the time until which to wait.
    Busy(String),
}

impl RunRefusal {
    /// Returns the reason as a sentence.
    pub fn why(&self) -> &str {
        match self {
            RunRefusal::Field(_, why) | RunRefusal::Busy(why) => why,
        }
    }
}

/// Settings for running tests from the page.
#[derive(Clone, Debug)]
pub struct PageRuns {
    /// Runs the tests.
    pub runner: Arc<dyn Runner>,
    /// Clients that may start and stop tests.
    pub who: Starters,
    /// Limits of the tests.
    pub limits: RunLimits,
}

/// Clients that may start and stop tests.
#[derive(Clone, Debug)]
pub enum Starters {
    /// All users of this host. Only possible if the page is restricted to them.
    Local,
    /// Anyone with this token, which differs from the one for reading.
    Token(Token),
}
