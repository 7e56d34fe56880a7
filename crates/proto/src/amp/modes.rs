//! How a control connection and its test packets are protected.

use core::fmt;

/// How a connection and its tests are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mode {
    /// Unprotected.
    Open = 1,
    /// Control encrypted; of test packets only the sequence number.
    Authenticated = 2,
    /// Control and test packets encrypted, except padding.
    Encrypted = 4,
    /// Control encrypted, test packets unprotected (RFC 5618).
    Mixed = 8,
}

impl Mode {
    /// All of them, the weakest first.
    pub const ALL: [Mode; 4] = [Mode::Open, Mode::Authenticated, Mode::Encrypted, Mode::Mixed];

    /// The mode with exactly these bits.
    pub fn from_bits(bits: u32) -> Option<Mode> {
        Mode::ALL.into_iter().find(|m| *m as u32 == bits)
    }

    /// Whether it needs a user and a passphrase.
    pub fn is_keyed(self) -> bool {
        self != Mode::Open
    }

    /// Whether test packets are encrypted, wholly or in part.
    pub(crate) const fn protects_test(self) -> bool {
        matches!(self, Mode::Authenticated | Mode::Encrypted)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Open => "open",
            Mode::Authenticated => "authenticated",
            Mode::Encrypted => "encrypted",
            Mode::Mixed => "mixed",
        })
    }
}

/// A set of modes, as the greeting offers them. Bits of extensions may be among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(pub u32);

impl Modes {
    /// Whether `mode` is among them.
    pub fn contains(self, mode: Mode) -> bool {
        self.0 & mode as u32 != 0
    }

    /// These modes.
    pub fn of(modes: &[Mode]) -> Modes {
        Modes(modes.iter().fold(0, |bits, m| bits | *m as u32))
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            Mode::ALL.iter().filter(|m| self.contains(**m)).map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}
