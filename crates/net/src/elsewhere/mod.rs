//! Substitutes, on other systems, for functions that jitlat has only on Linux: they have the same names, and return one error.

use std::io;

/// Returns an error: this system cannot do `what`.
pub(crate) fn refusal(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what}: jitlat can do this only on Linux"))
}
