//! Pushes of tests to a collector over HTTP: what a host sends in a body, what the collector answers, and how much each host may
//! push. Specification: `docs/protocols/push.md`.
//!
//! * [`part`] – a test in a body: a line of JSON, then the compressed log
//! * [`answer`] – offers and answers, in JSON
//! * [`quota`] – limits of what one host pushes
//! * [`earlier`] – connections of the earlier protocol, which are refused
//! * [`Retry`] – pauses between a host's attempts
//!
//! Each test is stored exactly once: a host sends a test until the collector has stored or refused it, and a collector that already
//! has it answers so. Neither side needs to remember anything about a connection that broke.

pub mod answer;
pub mod earlier;
pub mod part;
pub mod quota;
mod retry;

pub use retry::Retry;

/// TCP port of collectors.
pub const PORT: u16 = 2670;
/// Path below which a collector takes tests.
pub const PATH: &str = "/push/v1";
/// Maximum number of tests in an offer, and in one body.
pub const MAX_TESTS: usize = 256;
/// Maximum number of tags of a test.
pub const MAX_TAGS: usize = 64;

/// Returns the maximum compressed size of a log of `length` bytes, for data that cannot be compressed.
pub fn most_packed(length: u64) -> u64 {
    length.saturating_add(length / 128).saturating_add(1024)
}

/// True if `text` is the name of a log: its SHA-256, in 64 hexadecimal digits in lower case.
pub fn is_name(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// True if `text` is the name of a log that an earlier version of the program stored: XXH3-128, in 32 hexadecimal digits.
pub fn is_earlier_name(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests;
