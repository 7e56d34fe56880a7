//! Every judgement in words: what the figures mean ([`findings`]), why not to believe one ([`Notes`]), the answer
//! in a sentence ([`Opinion`]), and what a difference between runs comes to ([`comparison`]).
//!
//! Texts are plain: ASCII, numbers with their units; pages and terminals add what their type has.

pub mod comparison;
mod findings;
mod opinion;
mod warnings;

pub use findings::findings;
pub use opinion::Opinion;
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
