//! Files: a measurement written down and read back.
//!
//! * [`log`] – the text logs of versions 1, 2 and 3: streaming reader, crash-safe writer
#![forbid(unsafe_code)]

pub mod log;
