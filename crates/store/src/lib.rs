//! Files: a measurement written down and read back.
//!
//! * [`log`] – the text logs of versions 1, 2 and 3: streaming reader, crash-safe writer
//! * [`csv`] – one line a packet, or one line a test
//! * [`hdr`] – histograms for HdrHistogram's tools
//! * [`late`] – the outputs of the LaTe program, for those who have tools that read them
//! * [`json`] – the summary as one object, its intervals as JSON Lines
//! * [`openmetrics`] – the summary for Prometheus
//! * [`passive`] – what captures say, as JSON and as lines
//! * [`output`] – files that are written whole or not at all
#![forbid(unsafe_code)]

pub mod csv;
pub mod hdr;
pub mod json;
pub mod late;
pub mod log;
pub mod openmetrics;
pub mod output;
pub mod passive;
mod platform;
