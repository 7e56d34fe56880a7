//! [`Verdict`]: a conclusion from figures, with its importance. [`Warning`]: a reason not to trust a figure.

use super::Severity;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A conclusion from one or more figures, as a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Verdict {
    /// Stable name: `nothing`, `loss`, `buffer`, `jitter`, `reordering`, `trend`, `delay`, `class`.
    pub code: Cow<'static, str>,
    /// Importance for users.
    pub level: Level,
    /// The conclusion and its evidence in one plain sentence.
    pub text: String,
}

/// Importance of a conclusion for real-time traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing needs to be done.
    #[default]
    Good,
    /// Worth knowing, but users will not notice it.
    Note,
    /// Users will notice the effect.
    Poor,
    /// The path is unusable for real-time traffic.
    Bad,
}

/// A reason not to trust a figure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Warning {
    /// Stable name, e.g. `negative_delay`.
    pub code: Cow<'static, str>,
    /// Observation, consequence, and remedy.
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
    /// Creates a verdict with the stable name `code`.
    pub fn new(code: &'static str, level: Level, text: impl Into<String>) -> Verdict {
        Verdict { code: code.into(), level, text: text.into() }
    }
}

impl Warning {
    /// Creates a warning with the stable name `code`.
    pub fn new(code: &'static str, text: impl Into<String>) -> Warning {
        Warning { code: code.into(), text: text.into() }
    }
}
