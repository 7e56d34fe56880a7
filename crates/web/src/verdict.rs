//! [`TestVerdict`]: verdict of a test, as a word, a sign and a class of the style sheet.

use serde::Serialize;

/// Verdict of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TestVerdict {
    /// The sample is too small for a verdict.
    Unknown,
    /// Users notice no problem.
    Good,
    /// Some users notice problems.
    Fair,
    /// Many users are annoyed.
    Poor,
    /// Unusable for conversation or control.
    Bad,
}

impl TestVerdict {
    /// All verdicts.
    pub const ALL: [TestVerdict; 5] =
        [TestVerdict::Good, TestVerdict::Fair, TestVerdict::Poor, TestVerdict::Bad, TestVerdict::Unknown];

    /// Parses the verdict as stored in the archive.
    pub fn named(text: &str) -> TestVerdict {
        TestVerdict::ALL.into_iter().find(|v| v.word() == text).unwrap_or(TestVerdict::Unknown)
    }

    /// Returns the word for the verdict, which is also its class.
    pub fn word(self) -> &'static str {
        match self {
            TestVerdict::Unknown => "unknown",
            TestVerdict::Good => "good",
            TestVerdict::Fair => "fair",
            TestVerdict::Poor => "poor",
            TestVerdict::Bad => "bad",
        }
    }

    /// Returns the sign, by which verdicts can be distinguished without colours.
    pub fn sign(self) -> &'static str {
        match self {
            TestVerdict::Unknown => "?",
            TestVerdict::Good => "✓",
            TestVerdict::Fair => "~",
            TestVerdict::Poor => "!",
            TestVerdict::Bad => "✗",
        }
    }

    /// True if the verdict needs attention.
    pub fn is_bad(self) -> bool {
        self >= TestVerdict::Poor
    }
}
