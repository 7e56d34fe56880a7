//! Constants of all version-3 frames.

/// First bytes that each side sends.
pub const PREFACE: [u8; 4] = *b"JLT3";

/// Maximum length of a frame in bytes, without the four bytes of its length.
pub const MAX_FRAME: u32 = 65_536;
