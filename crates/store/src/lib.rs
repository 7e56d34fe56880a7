//! Reads and writes files: logs, tables and documents of measurements.
//!
//! * [`log`] – the text logs of versions 1, 2 and 3: streaming reader, crash-safe writer
//! * [`csv`] – one line per packet, or one line per test
//! * `hdr` – histograms for HdrHistogram's tools (feature `hdr`, on by default)
//! * [`irtt`] – a two-way test in the format of irtt's client
//! * [`fping`] – round trips of a host as fping prints them; [`iperf3`] – a one-way test in the formats of iperf3
//! * [`late`] – outputs in the formats of the LaTe program
//! * [`json`] – the summary as one object, or its intervals as JSON Lines
//! * [`openmetrics`] – the summary for Prometheus
//! * [`passive`] – analyses of captures, as JSON and as lines
//! * [`webrtc`] – statistics of a browser's calls
//! * [`sweep`] – the state file, from which an interrupted sweep continues
//! * [`threads`] – number of threads that may read a log
//! * [`output`] – files that are replaced completely or not at all
//!
//! Related crates: `jitlat-core` and `jitlat-passive` compute the contents; `jitlat-archive` stores many tests;
//! `jitlat-report` writes for people.
//!
//! Writing and reading a log:
//!
//! ```
//! use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
//! use jitlat_store::log::{LogReader, LogWriter, LogVersion};
//! use std::io::Cursor;
//!
//! let session = Session::new(TestSpec::default());
//! let mut log = LogWriter::new(Vec::new(), LogVersion::V3);
//! log.begin(&session);
//! for seq in 0..100 {
//!     log.record(&PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 700)));
//! }
//! log.finish(&session);
//! let (bytes, written) = log.close();
//! written?;
//!
//! let mut failure = None;
//! let mut reader = LogReader::from_reader("example.log", Box::new(Cursor::new(bytes)))?;
//! assert_eq!(reader.records(&mut failure).count(), 100);
//! assert!(failure.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod csv;
pub mod fping;
#[cfg(feature = "hdr")]
pub mod hdr;
pub mod iperf3;
pub mod irtt;
pub mod json;
pub mod late;
pub mod log;
pub mod openmetrics;
pub mod output;
pub mod passive;
mod platform;
pub mod sweep;
pub mod threads;
pub mod webrtc;

pub use platform::split_at_equals;
