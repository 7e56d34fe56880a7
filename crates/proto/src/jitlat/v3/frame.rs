//! What every frame of version 3 keeps to.

/// The first bytes of either side.
pub const PREFACE: [u8; 4] = *b"JLT3";

/// Longest frame, without the four bytes of its length.
pub const MAX_FRAME: u32 = 65_536;
