//! Verdicts on tests: faults of the path, with their time, severity and confidence
//! ([`Answer`](jitlat_core::answer::Answer)), conclusions from the figures ([`findings`]), reasons to doubt a figure
//! ([`Warning`](jitlat_core::answer::Warning)), the reliability of all figures ([`Opinion`]), and conclusions about
//! differences between runs ([`compare`], [`comparison`]) or along a sweep ([`sweep`]).
//!
//! * [`options`], [`judge`], [`judge_for`]: add the verdict to the summary of a `jitlat-core` analysis; [`analyze`]:
//!   analyses and judges in one call
//! * [`load`]: the delay that a load adds, and its grade
//! * [`PROFILES`]: requirements of applications; [`severity`]: thresholds of all severities
//! * [`RULES`]: rules that detect the kinds of cause
//!
//! A verdict begins with a `Case`, which is computed once from the [`Evidence`](jitlat_core::evidence::Evidence) of the
//! analysis. It contains the packets known to be received or lost, delays corrected for clocks and routes, queues and
//! holds, the sender's own delays, and losses grouped by origin. Each of the [`RULES`] examines the case for one kind
//! of cause.
//!
//! Sentences are plain ASCII; terminals and pages typeset them (`µs` for `us`).
//!
//! The crate does no input or output and depends on `jitlat-core` only. `jitlat-passive` judges captured traffic with
//! the thresholds of this crate; `jitlat-report` displays the verdicts.
//!
//! ```
//! use jitlat_core::answer::{CauseId, Severity};
//! use jitlat_core::{PacketRecord, Session, Span, TestSpec, WallTime};
//!
//! let session = Session::new(TestSpec::default());
//! let sent = |seq: i64| WallTime(seq * 20_000_000);
//! // Packets 300 to 499 of 1000 do not arrive: four seconds.
//! let arrived = (0..1000).filter(|seq| !(300..500).contains(seq));
//! let records = arrived.map(|seq| PacketRecord::one_way(seq, sent(seq), sent(seq) + Span::millis(30)));
//! let summary = jitlat_verdict::analyze(&session, records);
//! let answer = summary.answer.expect("enough packets to judge");
//! assert_eq!((answer.severity, answer.causes[0].id), (Severity::Bad, CauseId::Outage));
//! ```
#![forbid(unsafe_code)]

mod accumulated;
mod case;
pub mod causes;
mod clock_bounds;
mod clustering;
mod coincidence;
pub mod compare;
pub mod comparison;
mod counts;
mod delays;
mod episodes;
mod findings;
mod flood;
mod judge;
mod judging;
mod law;
mod levels;
pub mod load;
mod losses;
mod marks;
mod opinion;
mod outcome;
mod path_or_clock;
mod periodic;
mod profiles;
mod schedule;
mod sentences;
pub mod severity;
mod skips;
mod slew;
mod slots;
mod steps;
pub mod sweep;
mod tcp_limits;
#[cfg(test)]
pub(crate) mod testing;
mod two_way;
mod wander;
mod warnings;

pub use causes::{CauseRule, MARK_RULES, MarkRule, RULES};
pub use findings::findings;
pub use judging::{analyze, judge, judge_for, judge_with_hosts, options};
pub use opinion::{Opinion, jitter_note};
pub use path_or_clock::confirm_path;
pub use profiles::{PROFILES, Profile};
pub use sentences::causes::evidence;
pub use sentences::findings::{drawn_without_clock_step, with_clock_step, without_clock_step};
pub use sentences::numbers::{buffer_size, rate, time};
pub use sentences::profiles::{OUTAGES, grade_note, host_note, other_traffic_of as other_traffic};
pub use sentences::warnings::LOG_NOT_STORED;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
