//! Which of the two languages a control connection speaks.

use core::fmt;

/// The language of a control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// 44-byte workorders: the seed's protocol. IPv4, one flow, no authentication.
    Classic,
    /// Length-prefixed frames of tagged fields.
    #[default]
    V3,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Classic => "classic",
            Dialect::V3 => "version 3",
        })
    }
}
