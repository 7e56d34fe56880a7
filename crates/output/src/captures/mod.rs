//! Reports of captured traffic, and what is written while it is followed.
//!
//! * [`WayRecorder`] – writes the records of both directions to logs and analyses them, a thread each
//! * [`PassiveReport`], [`SeveralCaptures`] – packets of two points matched: of one measurement, of several
//! * [`ConnectionsReport`], [`OnePointReport`] – TCP connections; round trips from one point
//! * [`PairPrinter`], [`EventPrinter`] – a line on standard output per pair or per event, as soon as it is known

mod analysis;
mod lines;
mod passive;
mod reports;
mod several;
mod ways;

pub use lines::{EventPrinter, PairPrinter};
pub use passive::{PassiveReport, ShownCaptures};
pub use reports::{ConnectionsReport, OnePointReport};
pub use several::{FollowedCapture, SeveralCaptures};
pub use ways::{DirectionRecorder, PointAnalyses};
