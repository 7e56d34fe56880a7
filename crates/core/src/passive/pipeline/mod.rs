//! From the frames of two capture points to matched packets: the steps between reading and the figures, for
//! readers of files and captures at interfaces. Frames and times come as arguments; nothing is read here.
//!
//! Files, both from the beginning: [`CaptureHead`]s (or, where they have nothing in common, [`PreviewSample`]s) are
//! surveyed into a [`Plan`](super::Plan); a [`PacketNamer`] a point makes sightings; [`join`] matches them.
//!
//! Live points deliver what they saw together with the time it covers ([`Delivery`]): a [`Learner`] makes the plan,
//! a [`Merger`] joins what both points have come past.
//!
//! [`MatchObservers`] take what becomes of the packets.

mod capture_facts;
mod delivery;
mod filter;
mod joining;
mod learning;
mod merging;
mod naming;
mod observers;
mod previews;

pub use capture_facts::{CaptureFacts, LengthCounts};
pub use delivery::{Delivered, Delivery, FrameBatch};
pub use filter::{NotAFilter, PacketFilter};
pub use joining::{SightingSource, join, join_like_caia};
pub use learning::{Learner, NotLearnt};
pub use merging::Merger;
pub use naming::{NamingRule, PacketNamer, SharedFlowNumbers};
pub use observers::MatchObservers;
pub use previews::{CaptureHead, PreviewSample};
