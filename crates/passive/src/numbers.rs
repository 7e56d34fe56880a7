//! Formats counts for display.

/// Formats a count with its noun: `1 packet`, `7 packets`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
