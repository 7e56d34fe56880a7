//! [`PassiveError`]: reason why captured traffic could not be analysed.

use super::points::LivePoint;
use jitlat_net::capture::CaptureError;
use jitlat_net::capture::interface::InterfaceError;
use jitlat_net::digest::CollectorError;
use jitlat_passive::tcp::PointRead;
use jitlat_passive::{NoPlan, PartError};

/// Reason why captured traffic could not be analysed, or only in part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassiveError {
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Packets cannot be captured on an interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Another host does not send packet digests.
    #[error(transparent)]
    Collector(#[from] CollectorError),
    /// Two captures have no packets in common.
    #[error("{why}{}", lines(.notes))]
    NothingCommon {
        /// Reason why the packets of the captures cannot be matched.
        why: NoPlan,
        /// Hints at possible reasons.
        notes: Vec<String>,
    },
    /// The live points had too few packets in common when the time limit was reached.
    #[error("{}{}", no_traffic(.why), lines(.notes))]
    NotLearnt {
        /// Reason why the packets of the points cannot be matched.
        why: NoPlan,
        /// Facts about each point, and hints at possible reasons.
        notes: Vec<String>,
    },
    /// Both live points are the same.
    #[error("both points are {0}: give two points that the traffic passes one after the other")]
    SamePoint(LivePoint),
    /// A live interface cannot be combined with a capture that is still being written: their clocks differ.
    #[error(
        "a capture that is still being written cannot be combined with an interface or a host: give two folders, or two interfaces or hosts"
    )]
    FilesAlone,
    /// Digests do not contain the flow of a packet.
    #[error("flows and prefixes need a point on this host, because digests do not contain the flow")]
    NoFlows,
    /// Matching like the CAIA tool needs complete captures.
    #[error("matching like the CAIA tool is for files: it needs the whole of both captures")]
    CaiaLive,
    /// Analysing a part of captures requires a first pass over all of them.
    #[error(
        "analysing a part of captures means reading them twice, but standard input can be read only once: give files, or --plan"
    )]
    NoSecondReading,
    /// Matching like the CAIA tool depends on all earlier packets.
    #[error(
        "matching like the CAIA tool needs the whole of both captures: leave out --compat when you analyse parts"
    )]
    CaiaParts,
    /// Addresses are translated between the points, so a part's connections have other addresses at the
    /// second point.
    #[error(
        "addresses are translated between the points, so the parts of one point do not correspond to those \
         of the other: analyse the parts of each point separately (--one-point)"
    )]
    TranslatedParts,
    /// The parts cannot be joined.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The thread that reads a capture died; packets that it had not delivered are missing.
    #[error("the thread that reads {0} failed: the end of the capture is missing")]
    ReaderFailed(String),
    /// The thread that captures at a live point died.
    #[error("the thread that captures at {0} failed: the last packets are missing")]
    PointFailed(LivePoint),
    /// A capture contains no TCP packets.
    #[error("{}{}", no_tcp(.name, .read, *.filtered), lines(.notes))]
    NoTcp {
        /// Names of the captures, in one text.
        name: String,
        /// Counts of the packets that were read.
        read: Box<PointRead>,
        /// True if a filter excluded some packets.
        filtered: bool,
        /// Messages about the files.
        notes: Vec<String>,
    },
    /// A capture contains no RTP stream.
    #[error("{}{}", no_rtp(.name, [*.packets, *.skipped, *.udp], *.filtered), lines(.notes))]
    NoRtp {
        /// Names of the captures or of the interface, in one text.
        name: String,
        /// Number of IP packets.
        packets: u64,
        /// Number of frames that are not IP packets.
        skipped: u64,
        /// Number of UDP packets.
        udp: u64,
        /// True if a filter excluded some packets.
        filtered: bool,
        /// Messages about the files.
        notes: Vec<String>,
    },
}

/// Maximum number of captures that a message names.
const MAX_NAMED_CAPTURES: usize = 3;

/// Shortens the list of captures in `names`, which are separated by commas.
fn few(names: &str) -> String {
    let all: Vec<&str> = names.split(", ").collect();
    match all.get(MAX_NAMED_CAPTURES + 1..) {
        Some(_) => {
            let more = all.len() - MAX_NAMED_CAPTURES;
            format!("{} and {more} more captures", all[..MAX_NAMED_CAPTURES].join(", "))
        }
        None => names.to_owned(),
    }
}

/// Describes a capture without RTP in one sentence; `counts` are those of IP packets, other frames, and UDP packets.
fn no_rtp(name: &str, counts: [u64; 3], filtered: bool) -> String {
    let name = few(name);
    match counts {
        [0, 0, _] => format!("{name} contains no packets"),
        [packets, skipped, udp] => format!(
            "no RTP stream in {name}: {packets} IP packets, {skipped} frames without a known IP packet, {}",
            none_recognised(udp, filtered)
        ),
    }
}

fn none_recognised(udp: u64, filtered: bool) -> String {
    let filter = if filtered { "; a filter selected only some hosts and ports" } else { "" };
    match udp {
        0 => format!("no UDP packet{filter}"),
        _ => format!("{udp} UDP packets, but no source sent 8 RTP packets in sequence{filter}"),
    }
}

/// Describes a capture without TCP in one sentence.
fn no_tcp(name: &str, read: &PointRead, filtered: bool) -> String {
    let name = few(name);
    let PointRead { packets, skipped, recording, .. } = read;
    let foreign = recording.foreign.describe().map_or(String::new(), |what| format!(" ({what})"));
    let cut = recording.foreign.truncated();
    let fragments = recording.fragments[0];
    match (packets, skipped) {
        (0, 0) if fragments > 0 => format!(
            "{name} contains {fragments} fragments of packets, none of which is complete: TCP needs whole packets"
        ),
        (0, 0) => format!("{name} contains no packets"),
        (0, n) if cut * 2 > *n => format!(
            "nothing in {name} can be analysed: {cut} of {n} frames are cut before the end of their headers; capture at least \
             128 bytes of each packet (tcpdump -s 128)"
        ),
        _ => format!(
            "no TCP segment in {name}: {packets} IP {}, {skipped} frames without a known IP packet{foreign}{}",
            if *packets == 1 { "packet" } else { "packets" },
            if filtered { "; a filter selected only some hosts and ports" } else { "" }
        ),
    }
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
