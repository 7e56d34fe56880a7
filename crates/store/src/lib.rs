//! Files: logs, tables and documents of measurements, written and read.
//!
//! * [`log`] – the text logs of versions 1, 2 and 3: streaming reader, crash-safe writer
//! * [`csv`] – one line per packet, or one line per test
//! * [`hdr`] – histograms for HdrHistogram's tools
//! * [`late`] – outputs in the formats of the LaTe program
//! * [`json`] – the summary as one object, its intervals as JSON Lines
//! * [`openmetrics`] – the summary for Prometheus
//! * [`passive`] – analyses of captures, as JSON and as lines
//! * [`output`] – files that are replaced completely or not at all
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
