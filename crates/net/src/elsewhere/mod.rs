//! Substitutes of what jitlat can do only on Linux, for other systems: the same names, and one refusal.

use std::io;

/// Returns an error: this system cannot do `what`.
pub(crate) fn refusal(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what}: jitlat can do this only on Linux"))
}
