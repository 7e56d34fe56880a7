//! Every judgement: what is wrong on a path, since when, how severe and how certain it is
//! ([`Answer`](jitlat_core::answer::Answer)), what the figures mean ([`findings`]), reasons to doubt a figure
//! ([`Warning`](jitlat_core::answer::Warning)), how reliable they all are ([`Opinion`]), and the conclusion about a
//! difference between runs ([`compare`], [`comparison`]) or along a sweep ([`sweep`]).
//!
//! * [`options`], [`judge`], [`judge_for`] – an analysis of `jitlat-core` whose summary contains its verdict; [`analyze`] – both
//!   at once
//! * [`PROFILES`] – what uses ask of a path; [`severity`] – every threshold of how bad something is
//! * [`RULES`] – how each kind of cause is found
//!
//! For the answer a `Case` is computed once from the [`Evidence`](jitlat_core::evidence::Evidence) that the analysis hands
//! over: how much of the test is known, delays without what clocks and routes added, queues and holds, the sender's own
//! delays, losses sorted by what lost them. The [`RULES`] read it; each names one kind of cause.
//!
//! Texts are plain: ASCII, numbers with their units; pages and terminals add what their type has.
//!
//! Neighbours: the crate is pure and depends on `jitlat-core`. `jitlat-passive` judges captured traffic with its thresholds;
//! `jitlat-report` shows what it says.
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
mod clustering;
pub mod compare;
pub mod comparison;
mod counts;
mod delays;
mod episodes;
mod findings;
mod judge;
mod judging;
mod law;
mod levels;
mod losses;
mod opinion;
mod periodic;
mod profiles;
mod schedule;
mod sentences;
pub mod severity;
mod slots;
mod steps;
pub mod sweep;
#[cfg(test)]
pub(crate) mod testing;
mod two_way;
mod warnings;

pub use causes::{CauseRule, RULES};
pub use findings::findings;
pub use judging::{analyze, judge, judge_for, options};
pub use opinion::Opinion;
pub use profiles::{PROFILES, Profile};
pub use sentences::causes::evidence;
pub use sentences::numbers::{buffer_size, rate, time};
pub use sentences::profiles::{grade_note, other_traffic_of as other_traffic};
pub use sentences::warnings::LOG_NOT_STORED;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
