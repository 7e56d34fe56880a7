//! [`Verdict`]: a conclusion from figures, and how it looks; [`Warning`]: why not to believe one.

use super::Severity;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One conclusion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Warning {
    /// Stable name, e.g. `negative_delay`.
    pub code: Cow<'static, str>,
    /// What was seen, what it means, and what to do.
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
