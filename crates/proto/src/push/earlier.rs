//! The earlier protocol of collectors, on the same port: its connections are recognised, and refused with a message of
//! that protocol, so that earlier versions of the program print the reason.

/// Number of bytes after which [`is_earlier`] decides.
pub const ENOUGH: usize = 9;
/// Text for the host that connected.
pub const WHY: &str = "it takes tests over HTTPS only: update jitlat on this host";

/// True if a connection begins with a greeting of the earlier protocol: length u32, type 1, "JLTP". `None`: more bytes are needed.
pub fn is_earlier(first: &[u8]) -> Option<bool> {
    // TLS begins with 22, HTTP with a letter; a short frame with a zero.
    match first {
        [] => None,
        [other, ..] if *other != 0 => Some(false),
        _ if first.len() < ENOUGH => None,
        _ => Some(first[4] == 1 && &first[5..9] == b"JLTP"),
    }
}

/// Returns the refusal: length u32, type 15, reason 0 (another version), text.
pub fn refusal() -> Vec<u8> {
    let text = WHY.as_bytes();
    let mut out = (text.len() as u32 + 3).to_be_bytes().to_vec();
    out.extend_from_slice(&[15, 0, text.len() as u8]);
    out.extend_from_slice(text);
    out
}
