//! Every judgement: what is wrong on a path, since when, how severe and how certain it is ([`Answer`]), what the
//! figures mean ([`findings`]), reasons to doubt a figure (`Notes`), how reliable they all are ([`Opinion`]), and the
//! conclusion about a difference between runs ([`comparison`]).
//!
//! For the answer a `Case` is computed once from the records of one way: how much of the test is known,
//! delays without what clocks and routes added, queues and holds, the sender's own delays, losses sorted by what lost
//! them. The [`RULES`] read it; each names one kind of cause. [`severity`] holds every threshold of how bad something
//! is, [`PROFILES`] what uses ask.
//!
//! Texts are plain: ASCII, numbers with their units; pages and terminals add what their type has.

mod accumulated;
mod answer;
mod case;
pub mod causes;
pub mod comparison;
mod conclusion;
mod delays;
mod episodes;
mod findings;
mod headline;
mod judge;
mod known;
mod law;
mod levels;
mod losses;
mod material;
mod numbers;
mod opinion;
mod profiles;
mod schedule;
pub mod severity;
mod steps;
#[cfg(test)]
pub(crate) mod testing;
mod two_way;
mod warnings;

pub(crate) use accumulated::{Accumulated, Seam, Whole};
pub use answer::{Answer, Cause, CauseId, Fault, Severity, Suitability};
pub use causes::{RULES, Rule};
pub use conclusion::{Level, Verdict, Warning};
pub use findings::findings;
pub use judge::{Judgement, judge};
pub(crate) use known::Known;
pub use material::{Material, RowNotes};
pub use numbers::{rate, time};
pub use opinion::Opinion;
pub use profiles::{PROFILES, Profile};
pub use two_way::{Losses as WayLosses, two_way};
pub(crate) use warnings::Notes;
