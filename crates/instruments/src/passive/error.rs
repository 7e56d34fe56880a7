//! [`PassiveError`]: why captured traffic could not be followed.

use super::points::LivePoint;
use jitlat_core::passive::NoPlan;
use jitlat_net::capture::CaptureError;
use jitlat_net::capture::interface::InterfaceError;
use jitlat_net::digest::CollectorError;

/// Why captured traffic could not be followed, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassiveError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// An interface cannot be captured at.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Another host reports nothing.
    #[error(transparent)]
    Collector(#[from] CollectorError),
    /// Two captures have nothing in common.
    #[error("{why}{}", lines(.notes))]
    NothingCommon {
        /// What is missing.
        why: NoPlan,
        /// What may be the reason, in words.
        notes: Vec<String>,
    },
    /// Live points had too little in common when their time was over.
    #[error("{}{}", no_traffic(.why), lines(.notes))]
    NotLearnt {
        /// What is missing.
        why: NoPlan,
        /// What each point saw, and what may be the reason, in words.
        notes: Vec<String>,
    },
    /// Both live points are the same.
    #[error("both points are {0}: name two interfaces that the traffic passes one after the other")]
    SamePoint(LivePoint),
    /// Digests carry no flows.
    #[error(
        "flows and prefixes need one of the points here: digests do not tell flows, only which packets are the same"
    )]
    NoFlows,
    /// Matching like the CAIA tool takes whole captures.
    #[error("matching like the CAIA tool is for files: it needs the whole of both captures")]
    CaiaLive,
    /// The thread that reads a capture has died: what it had not handed over is missing.
    #[error("the thread that reads {0} failed: what was read of it is not the whole capture")]
    ReaderFailed(String),
    /// The thread of a live point has died.
    #[error("the thread that captures at {0} failed: what it saw last is missing")]
    PointFailed(LivePoint),
    /// There is no TCP in a capture.
    #[error("no TCP segment in {name}: {packets} IP packets, {skipped} frames that are not IP or not understood{}",
        if *.filtered { "; only some hosts and ports were looked at" } else { "" })]
    NoTcp {
        /// Which captures.
        name: String,
        /// IP packets read.
        packets: u64,
        /// Other frames.
        skipped: u64,
        /// Whether only some packets were looked at.
        filtered: bool,
    },
}

fn lines(notes: &[String]) -> String {
    notes.iter().map(|note| format!("\n  {note}")).collect()
}

fn no_traffic(why: &NoPlan) -> String {
    match why {
        NoPlan::Empty => "no traffic was seen at both points".to_owned(),
        why => why.to_string(),
    }
}
