//! Constants of all version-3 frames.

/// First bytes sent by each side.
pub const PREFACE: [u8; 4] = *b"JLT3";

/// Maximum length of a frame in bytes, not counting the four bytes of the length field.
pub const MAX_FRAME: u32 = 65_536;
