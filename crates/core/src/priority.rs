//! [`AccessCategory`]: the access categories of Wi-Fi, used as priorities within the sending host.

use core::fmt;
use core::str::FromStr;

/// An access category of IEEE 802.11 (EDCA), in ascending order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessCategory {
    /// Background traffic (AC_BK).
    Background,
    /// Best-effort traffic (AC_BE).
    BestEffort,
    /// Video (AC_VI).
    Video,
    /// Voice (AC_VO).
    Voice,
}

impl AccessCategory {
    /// All categories, in order.
    pub const ALL: [AccessCategory; 4] = [
        AccessCategory::Background,
        AccessCategory::BestEffort,
        AccessCategory::Video,
        AccessCategory::Voice,
    ];

    /// Returns the corresponding priority within the sending host (`SO_PRIORITY`), as LaTe sets it.
    pub fn priority(self) -> u32 {
        match self {
            AccessCategory::Background => 1,
            AccessCategory::BestEffort => 0,
            AccessCategory::Video => 4,
            AccessCategory::Voice => 6,
        }
    }
}

impl fmt::Display for AccessCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessCategory::Background => "BK",
            AccessCategory::BestEffort => "BE",
            AccessCategory::Video => "VI",
            AccessCategory::Voice => "VO",
        })
    }
}

/// Error: not the name of an access category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an access category: give BK, BE, VI or VO")]
pub struct UnknownCategory(pub String);

impl FromStr for AccessCategory {
    type Err = UnknownCategory;

    fn from_str(text: &str) -> Result<AccessCategory, UnknownCategory> {
        let named = |c: &AccessCategory| c.to_string().eq_ignore_ascii_case(text.trim());
        AccessCategory::ALL.into_iter().find(named).ok_or_else(|| UnknownCategory(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_ordered_by_urgency_and_read_in_any_case() {
        let mut given: Vec<AccessCategory> = ["vo", "BE", "VI", "bk"].map(|t| t.parse().unwrap()).into();
        given.sort();
        assert_eq!(given, AccessCategory::ALL);
        assert_eq!(given.iter().map(|c| c.priority()).collect::<Vec<_>>(), [1, 0, 4, 6]);
        assert!("AC_VO".parse::<AccessCategory>().is_err());
    }
}
