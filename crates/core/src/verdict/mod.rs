//! Every judgement in words: what is wrong on a path, since when, how much, how sure ([`Answer`]), what the figures
//! mean ([`findings`]), why not to believe one ([`Notes`]), how far to believe them all ([`Opinion`]), and what a
//! difference between runs comes to ([`comparison`]).
//!
//! For the answer a [`Case`](case::Case) is worked out once from the records of one way: how much of the test is known,
//! delays without what clocks and routes added, queues and holds, the sender's own delays, losses sorted by what lost
//! them. The [`RULES`] read it; each names one kind of cause. [`severity`] holds every threshold of how bad something
//! is, [`PROFILES`] what uses ask.
//!
//! Texts are plain: ASCII, numbers with their units; pages and terminals add what their type has.

mod answer;
mod case;
pub mod causes;
pub mod comparison;
mod delays;
mod episodes;
mod findings;
mod headline;
mod judge;
mod law;
mod levels;
mod losses;
mod opinion;
mod profiles;
mod schedule;
pub mod severity;
mod steps;
mod two_way;
mod warnings;
mod words;

pub use answer::{Answer, Cause, CauseId, Fault, Severity, Suitability};
pub use case::{Material, RowNotes};
pub use causes::{RULES, Rule};
pub use findings::findings;
pub use judge::{Judgement, judge};
pub use opinion::Opinion;
pub use profiles::{PROFILES, Profile};
pub use two_way::{Losses as WayLosses, two_way};
pub(crate) use warnings::Notes;

use crate::units::eng4_f64;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One conclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// Stable name: `nothing`, `loss`, `buffer`, `jitter`, `reordering`, `trend`, `delay`, `class`.
    pub code: Cow<'static, str>,
    /// How it looks.
    pub level: Level,
    /// In one plain sentence, with its evidence.
    pub text: String,
}

/// How a conclusion looks for real-time traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing to do.
    #[default]
    Good,
    /// Worth knowing.
    Note,
    /// Will be noticed.
    Poor,
    /// Unusable.
    Bad,
}

/// One reason not to believe a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warning {
    /// Stable name, e.g. `negative_delay`.
    pub code: Cow<'static, str>,
    /// In plain words: what was seen, what it means, what to do.
    pub text: String,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Level {
        match severity {
            Severity::Good => Level::Good,
            Severity::Unknown | Severity::Fair => Level::Note,
            Severity::Poor => Level::Poor,
            Severity::Bad => Level::Bad,
        }
    }
}

impl Verdict {
    /// The conclusion called `code`.
    pub fn new(code: &'static str, level: Level, text: impl Into<String>) -> Verdict {
        Verdict { code: code.into(), level, text: text.into() }
    }
}

impl Warning {
    /// The warning called `code`.
    pub fn new(code: &'static str, text: impl Into<String>) -> Warning {
        Warning { code: code.into(), text: text.into() }
    }
}

/// A time in ns as a sentence has it: four digits, below a microsecond whole nanoseconds.
fn time(ns: f64) -> String {
    if ns.abs() < 1000.0 { format!("{ns:.0} ns") } else { eng4_f64(ns) }
}
