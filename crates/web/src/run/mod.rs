//! Tests that are started from a page, and watched there.
//!
//! * [`Runner`] – what makes them: the command has one; [`RunOffer`], [`RunRequest`], [`Planned`] – what passes between it and the page
//! * [`PageRuns`] – who may start them, and how much; `table` – those there are
//! * [`feed`] – what happens in one; `watched` – what is known of it, and its figures
//! * `form` – `/run`, where one is asked for; `page` – `/run/ID`, where it is watched; `api` – both as JSON

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

/// Makes tests. Its calls may block: they come from threads that may wait.
pub trait Runner: Debug + Send + Sync {
    /// What may be asked for.
    ///
    /// # Errors
    /// Those of the archive, which knows hosts.
    fn offer(&self, archive: &Archive) -> Result<RunOffer, jitlat_archive::ArchiveError>;

    /// What a test would send.
    ///
    /// # Errors
    /// What cannot be understood of it.
    fn plan(&self, wish: &RunRequest, host: &HostOffer) -> Result<Planned, RunRefusal>;

    /// Starts a test, now or when there is room for it, and says there what becomes of it.
    ///
    /// # Errors
    /// Why it is never started.
    fn start(&self, wish: &RunRequest, host: &HostOffer, feed: RunFeed) -> Result<(), RunRefusal>;
}

/// What may be asked for.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunOffer {
    /// The name of this host, where tests start.
    pub from: String,
    /// With which hosts.
    pub hosts: Vec<HostOffer>,
    /// What is measured, and how; the first is the usual one.
    pub tests: Vec<TestOffer>,
    /// Applications whose packets a test may send: name, and what it is.
    pub profiles: Vec<(String, String)>,
}

/// A host to test with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostOffer {
    /// What it is called; its address if it has no name.
    pub name: String,
    /// Where it is: an address, or a name that leads to one.
    pub address: String,
    /// Whether it only answers round trips.
    pub only_answers: bool,
}

/// Something to measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestOffer {
    /// As a wish names it.
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether packets go one way, so that it has a direction, and a far end that is a jitlat.
    pub one_way: bool,
}

/// A test that somebody wants. Texts are as on the command line; what is not said is as there, or as the profile has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// The far host, by its name in the offer.
    pub host: String,
    /// What is measured, by its id in the offer; empty: the first.
    pub test: String,
    /// `both`, `forward` (to the far host) or `backward`; empty: `both`, and of round trips nothing else.
    pub direction: String,
    /// The application whose packets are sent; empty: none, what follows says how.
    pub profile: String,
    /// Packets, a number; empty: as long as `duration` says.
    pub packets: String,
    /// How long packets are sent: `10s`.
    pub duration: String,
    /// Time between packets: `20ms`.
    pub period: String,
    /// Bytes of a packet's payload.
    pub size: String,
}

impl RunRequest {
    /// The wish that a form makes, by the value of each field.
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
        }
    }
}

/// What a test will send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Planned {
    /// In words: what is measured, and how.
    pub about: String,
    /// How long packets are sent, ns.
    pub duration_ns: i64,
    /// Packets, in all directions together.
    pub packets: u64,
    /// Bits a second on the wire, in the direction that has more.
    pub bits_per_second: u64,
}

impl Planned {
    fn duration(&self) -> Span {
        Span(self.duration_ns)
    }
}

/// Why a test is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRefusal {
    /// Something of the wish is wrong or not allowed: the field, empty for the whole, and what to write.
    Wish(String, String),
    /// There is no room for it now: until when, or for what.
    Busy(String),
}

impl RunRefusal {
    /// Why, in a sentence.
    pub fn why(&self) -> &str {
        match self {
            RunRefusal::Wish(_, why) | RunRefusal::Busy(why) => why,
        }
    }
}

/// Running tests from the page.
#[derive(Clone, Debug)]
pub struct PageRuns {
    /// Makes them.
    pub runner: Arc<dyn Runner>,
    /// Who may start and stop them.
    pub who: Starters,
    /// How much.
    pub limits: RunLimits,
}

/// Who may start tests, and stop them.
#[derive(Clone, Debug)]
pub enum Starters {
    /// Everybody on this host. Only where the page is for its users.
    Local,
    /// Who has this token, which is another than that for reading.
    Token(Token),
}
