//! [`PassiveError`]: why captured traffic could not be analysed.

use super::points::LivePoint;
use jitlat_net::capture::CaptureError;
use jitlat_net::capture::interface::InterfaceError;
use jitlat_net::digest::CollectorError;
use jitlat_passive::{NoPlan, PartError};

/// Why captured traffic could not be analysed, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassiveError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Packets cannot be captured at an interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Another host does not send digests.
    #[error(transparent)]
    Collector(#[from] CollectorError),
    /// Two captures have no packets in common.
    #[error("{why}{}", lines(.notes))]
    NothingCommon {
        /// What is missing to match them.
        why: NoPlan,
        /// Possible reasons.
        notes: Vec<String>,
    },
    /// Live points had too few packets in common when the time was over.
    #[error("{}{}", no_traffic(.why), lines(.notes))]
    NotLearnt {
        /// What is missing to match them.
        why: NoPlan,
        /// What each point captured, and possible reasons.
        notes: Vec<String>,
    },
    /// Both live points are the same.
    #[error("both points are {0}: name two that the traffic passes one after the other")]
    SamePoint(LivePoint),
    /// Captures that are still written have other clocks than interfaces.
    #[error("captures are followed at both points or at none: name two folders, or two interfaces and hosts")]
    FilesAlone,
    /// Digests do not say which flow a packet belongs to.
    #[error("flows and prefixes need one of the points here: digests identify packets but not their flows")]
    NoFlows,
    /// Matching as the CAIA tool does needs whole captures.
    #[error("matching like the CAIA tool is for files: it needs the whole of both captures")]
    CaiaLive,
    /// A part of captures needs a first pass over the whole.
    #[error(
        "a part of captures is found in two readings, which standard input cannot: give files, or --plan"
    )]
    NoSecondReading,
    /// Matching as the CAIA tool does depends on all packets before.
    #[error("matching like the CAIA tool needs the whole of both captures: leave --compat out for parts")]
    CaiaParts,
    /// At the second point, a part's connections have other addresses.
    #[error(
        "addresses are translated between the points, so the parts of one are not those of the other: analyse each point \
         in parts by itself (--one-point)"
    )]
    TranslatedParts,
    /// Parts cannot be joined.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The thread that reads a capture died; what it had not delivered is missing.
    #[error("the thread that reads {0} failed: what was read of it is not the whole capture")]
    ReaderFailed(String),
    /// The thread that captures at a live point died.
    #[error("the thread that captures at {0} failed: what it saw last is missing")]
    PointFailed(LivePoint),
    /// There is no TCP in a capture.
    #[error("no TCP segment in {name}: {packets} IP packets, {skipped} frames that are not IP or not understood{}",
        if *.filtered { "; only some hosts and ports were looked at" } else { "" })]
    NoTcp {
        /// The captures.
        name: String,
        /// IP packets found.
        packets: u64,
        /// Frames that hold no IP packet.
        skipped: u64,
        /// Whether a filter excluded some packets.
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
