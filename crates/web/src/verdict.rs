//! [`TestVerdict`]: how good a test was, as a word, a sign and a class of the style sheet.

use serde::Serialize;

/// How good a test was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TestVerdict {
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

impl TestVerdict {
    /// All of them.
    pub const ALL: [TestVerdict; 5] =
        [TestVerdict::Good, TestVerdict::Fair, TestVerdict::Poor, TestVerdict::Bad, TestVerdict::Unknown];

    /// As the archive has it.
    pub fn named(text: &str) -> TestVerdict {
        TestVerdict::ALL.into_iter().find(|v| v.word() == text).unwrap_or(TestVerdict::Unknown)
    }

    /// In a word; also its class.
    pub fn word(self) -> &'static str {
        match self {
            TestVerdict::Unknown => "unknown",
            TestVerdict::Good => "good",
            TestVerdict::Fair => "fair",
            TestVerdict::Poor => "poor",
            TestVerdict::Bad => "bad",
        }
    }

    /// A sign that differs without its colour.
    pub fn sign(self) -> &'static str {
        match self {
            TestVerdict::Unknown => "?",
            TestVerdict::Good => "✓",
            TestVerdict::Fair => "~",
            TestVerdict::Poor => "!",
            TestVerdict::Bad => "✗",
        }
    }

    /// Whether somebody should look at it.
    pub fn is_bad(self) -> bool {
        self >= TestVerdict::Poor
    }
}
