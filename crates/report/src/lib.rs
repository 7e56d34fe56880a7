//! Output for people: text for the console, figures, and a self-contained HTML page.
//!
//! * [`text`] – the console report, and messages before and after a run
//! * [`figure`] – figures as data, independent of how they are drawn
//! * [`draw`] – a figure as a file: SVG, PNG, PDF, EPS ([`PictureFormat`])
//! * [`html`] – the report as one HTML document
//! * [`FirstScreen`] – beginning of a page, which can also be drawn as one card
//! * [`Section`] – an instrument's part of a report
//!
//! [`draw`] and [`html`] need the feature `draw`, which is on by default.
//!
//! Related crates: `jitlat-core`, `jitlat-verdict` and `jitlat-passive` compute the figures; `jitlat-output` writes
//! reports to files and the terminal, `jitlat-web` to its pages; `jitlat-store` writes machine-readable files.
//!
//! ```
//! use jitlat_core::{Options, PacketRecord, Session, TestSpec, WallTime, analyze};
//!
//! let record = |seq: i64| PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 700 + seq % 7));
//! let session = Session::new(TestSpec::default());
//! let summary = analyze(&session, (0..1000).map(record), &Options::default());
//! let page = jitlat_report::text::report(&summary, &jitlat_report::text::TextOptions::default());
//! assert!(page.contains("latency"), "{page}");
//! ```

// Figures and their typography are used only by the feature `draw`.
#![cfg_attr(not(feature = "draw"), allow(dead_code))]

#[cfg(feature = "draw")]
pub mod draw;
#[cfg(feature = "draw")]
mod escape;
pub mod figure;
mod first;
#[cfg(feature = "draw")]
pub mod html;
mod interface;
mod marks;
mod mean;
mod picture;
mod section;
pub mod text;
mod typography;

#[cfg(feature = "draw")]
pub use escape::{escape, script_safe};
pub use first::{FirstScreen, ShownUse};
pub use picture::PictureFormat;
pub use section::{Section, call_section, passive_section, tcp_section};
pub use typography::micro_unit;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
