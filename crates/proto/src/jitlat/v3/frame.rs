//! What every frame of version 3 keeps to.

/// What either side says first.
pub const PREFACE: [u8; 4] = *b"JLT3";

/// Longest frame, not counting the four bytes of its length.
pub const MAX_FRAME: u32 = 65_536;
