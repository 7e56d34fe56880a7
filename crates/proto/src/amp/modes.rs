//! How a control connection and its test packets are protected.

use core::fmt;

/// How a connection and its tests are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SecurityMode {
    /// Unprotected.
    Open = 1,
    /// Control encrypted; of test packets only the sequence number.
    Authenticated = 2,
    /// Control and test packets encrypted, except padding.
    Encrypted = 4,
    /// Control encrypted, test packets unprotected (RFC 5618).
    Mixed = 8,
}

impl SecurityMode {
    /// All of them, the weakest first.
    pub const ALL: [SecurityMode; 4] =
        [SecurityMode::Open, SecurityMode::Authenticated, SecurityMode::Encrypted, SecurityMode::Mixed];

    /// The mode with exactly these bits.
    pub fn from_bits(bits: u32) -> Option<SecurityMode> {
        SecurityMode::ALL.into_iter().find(|m| *m as u32 == bits)
    }

    /// Whether it needs a user and a passphrase.
    pub fn is_keyed(self) -> bool {
        self != SecurityMode::Open
    }

    /// Whether test packets are encrypted, wholly or in part.
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

/// A set of modes, as the greeting offers them. Bits of extensions may be among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SecurityModes(pub u32);

impl SecurityModes {
    /// Whether `mode` is among them.
    pub fn contains(self, mode: SecurityMode) -> bool {
        self.0 & mode as u32 != 0
    }

    /// These modes.
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
