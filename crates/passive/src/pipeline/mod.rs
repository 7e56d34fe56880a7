//! Steps from the frames of two capture points to matched packets, for files and live interfaces. Frames and
//! times are arguments; this module reads nothing.
//!
//! Files, read from the beginning: [`CaptureHead`]s (or, if they have nothing in common, [`PreviewSample`]s)
//! are surveyed to make a [`MatchPlan`](super::MatchPlan); a [`PacketNamer`] per point makes sightings;
//! [`join`] matches them.
//!
//! Live points deliver captured packets with the time range they cover ([`PointDelivery`]): a [`Learner`]
//! makes the plan, a [`Merger`] matches everything up to the time that both points have reached.
//!
//! [`MatchObservers`] receive the fate of the packets.

mod capture_facts;
mod delivery;
mod filter;
mod joining;
mod learning;
mod merging;
mod naming;
mod observers;
mod offset_steps;
mod previews;
#[cfg(test)]
mod testing;

pub use capture_facts::{CaptureFacts, LengthCounts};
pub use delivery::{CapturedBatch, FrameBatch, PointDelivery};
pub use filter::{NotAFilter, PacketFilter};
pub use joining::{SightingSource, join, join_like_caia};
pub use learning::{Learner, NotLearnt};
pub use merging::Merger;
pub use naming::{NamingRule, PacketNamer, SharedFlowNumbers};
pub use observers::MatchObservers;
pub use offset_steps::{OffsetSteps, PointStep};
pub use previews::{CaptureHead, PreviewSample};
