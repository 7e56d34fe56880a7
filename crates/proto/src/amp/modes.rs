//! Security modes of a control connection and its test packets.

use core::fmt;

/// Protection of a control connection and its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SecurityMode {
    /// Unprotected.
    Open = 1,
    /// Control connection encrypted; in test packets, only the sequence number is encrypted.
    Authenticated = 2,
    /// Control connection and test packets encrypted, except for padding.
    Encrypted = 4,
    /// Control connection encrypted, test packets unprotected (RFC 5618).
    Mixed = 8,
}

impl SecurityMode {
    /// All modes, weakest first.
    pub const ALL: [SecurityMode; 4] =
        [SecurityMode::Open, SecurityMode::Authenticated, SecurityMode::Encrypted, SecurityMode::Mixed];

    /// Returns the mode that has exactly these bits; `None` if none does.
    pub fn from_bits(bits: u32) -> Option<SecurityMode> {
        SecurityMode::ALL.into_iter().find(|m| *m as u32 == bits)
    }

    /// True if the mode needs a user and a passphrase.
    pub fn is_keyed(self) -> bool {
        self != SecurityMode::Open
    }

    /// True if test packets are encrypted, wholly or in part.
    pub(crate) const fn protects_test(self) -> bool {
        matches!(self, SecurityMode::Authenticated | SecurityMode::Encrypted)
    }
}

impl fmt::Display for SecurityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecurityMode::Open => "open",
            SecurityMode::Authenticated => "authenticated",
            SecurityMode::Encrypted => "encrypted",
            SecurityMode::Mixed => "mixed",
        })
    }
}

/// Set of modes offered in a greeting. It may contain unknown bits of extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SecurityModes(pub u32);

impl SecurityModes {
    /// True if the set contains `mode`.
    pub fn contains(self, mode: SecurityMode) -> bool {
        self.0 & mode as u32 != 0
    }

    /// Creates a set that contains `modes`.
    pub fn of(modes: &[SecurityMode]) -> SecurityModes {
        SecurityModes(modes.iter().fold(0, |bits, m| bits | *m as u32))
    }
}

impl fmt::Display for SecurityModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            SecurityMode::ALL.iter().filter(|m| self.contains(**m)).map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}
