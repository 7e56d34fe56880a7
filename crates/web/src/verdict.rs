//! [`Verdict`]: how good a test was, as a word, a sign and a class of the style sheet.

use serde::Serialize;

/// How good a test was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The sample does not show it.
    Unknown,
    /// Nobody will notice anything.
    Good,
    /// Some will notice.
    Fair,
    /// Many will be annoyed.
    Poor,
    /// Unusable for conversation or control.
    Bad,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 5] =
        [Verdict::Good, Verdict::Fair, Verdict::Poor, Verdict::Bad, Verdict::Unknown];

    /// As the archive has it.
    pub fn named(text: &str) -> Verdict {
        Verdict::ALL.into_iter().find(|v| v.word() == text).unwrap_or(Verdict::Unknown)
    }

    /// In a word; also its class.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Unknown => "unknown",
            Verdict::Good => "good",
            Verdict::Fair => "fair",
            Verdict::Poor => "poor",
            Verdict::Bad => "bad",
        }
    }

    /// A sign that differs without its colour.
    pub fn sign(self) -> &'static str {
        match self {
            Verdict::Unknown => "?",
            Verdict::Good => "✓",
            Verdict::Fair => "~",
            Verdict::Poor => "!",
            Verdict::Bad => "✗",
        }
    }

    /// Whether somebody should look at it.
    pub fn is_bad(self) -> bool {
        self >= Verdict::Poor
    }
}
