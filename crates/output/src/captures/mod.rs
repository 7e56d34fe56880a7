//! Reports of captured traffic, and output during a live capture.
//!
//! * [`DirectionRecorder`] – writes the records of both directions to logs and analyses them, one thread per direction
//! * [`PassiveReport`], [`SeveralCaptures`] – packets matched between two points: one measurement, or several
//! * [`ConnectionsReport`], [`OnePointReport`] – TCP connections; round trips from one point
//! * [`WebRtcReport`] – statistics of a browser's calls
//! * [`CallsReport`] – RTP streams and calls; [`StreamLogs`] – logs of the packets of the streams
//! * [`PairPrinter`], [`EventPrinter`] – a line on standard output per pair or per event, as soon as it is known

mod analysis;
mod call_logs;
mod calls;
mod lines;
mod passive;
mod recorder;
mod reports;
mod several;
mod webrtc;

pub use call_logs::StreamLogs;
pub use calls::CallsReport;
pub use lines::{EventPrinter, PairPrinter};
pub use passive::{PassiveReport, ShownCaptures};
pub use recorder::{DirectionRecorder, PointAnalyses};
pub use reports::{ConnectionsReport, OnePointReport};
pub use several::{FollowedCapture, SeveralCaptures};
pub use webrtc::{WebRtcDocument, WebRtcReport};
