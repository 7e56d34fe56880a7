//! [`TwoWay`]: what a two-way test tells beside its packets.

use crate::time::{Source, Span};
use serde::{Deserialize, Serialize};

/// The context of a two-way test, beside what every [`Session`](crate::Session) has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwoWay {
    /// Name of the protocol, in small letters: `icmp`, `stamp`, `twamp`, `lamp`, `tcp`.
    pub protocol: String,
    /// Stop and wait: each request left this long after the answer to the one before. `None` = open loop.
    pub wait: Option<Span>,
    /// How long an answer could take.
    pub timeout: Option<Span>,
    /// The far host's two times are readings of its clock, so that one-way delays have a meaning. Where
    /// not, only their difference has one.
    pub far_clock: bool,
    /// Loss, duplication and reordering by direction, where the far host's own count tells them.
    pub directions: Option<Directions>,
    /// Where each run of lost requests was lost, ascending, where the far host's own count tells.
    pub losses: Vec<LossRun>,
    /// What was received and is no measurement.
    pub not_answers: NotAnswers,
    /// What the far host found of a test that goes one way only.
    pub far_report: Option<FarReport>,
    /// The kernel's account of the connection, where there is one.
    pub tcp: Option<TcpStats>,
    /// What the protocol alone tells, in sentences.
    pub remarks: Vec<String>,
}

/// Loss, duplication and reordering by direction, in packets, from the far host's own count of its
/// answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directions {
    /// The far host numbers its answers itself. Where not, all that follows is 0 and means nothing.
    pub stateful: bool,
    /// Requests lost on the way there.
    pub up_lost: u64,
    /// Answers lost on the way back.
    pub down_lost: u64,
    /// Lost, but there is no telling where: requests behind the last one answered, and as many as the count leaves
    /// open where packets overtook each other or came twice.
    pub unknown_lost: u64,
    /// Requests that reached the far host more than once.
    pub up_duplicates: u64,
    /// Answers that came back more than once.
    pub down_duplicates: u64,
    /// Requests that reached the far host after a later one.
    pub up_reordered: u64,
    /// Answers that came back after a later one.
    pub down_reordered: u64,
}

/// A run of requests without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRun {
    /// Number of the first.
    pub first: u32,
    /// How many.
    pub length: u32,
    /// Where they were lost.
    pub way: LostOn,
}

/// Where a run of requests without an answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostOn {
    /// All on the way there.
    Up,
    /// All on the way back.
    Down,
    /// Some there and some back, or not known.
    Either,
}

/// Datagrams that were no answers, by kind. They are counted here and nowhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAnswers {
    /// Not of this test.
    pub foreign: u64,
    /// Not what the protocol allows.
    pub malformed: u64,
    /// Failed their integrity check.
    pub forged: u64,
    /// Answers to requests never sent or long gone.
    pub unmatched: u64,
}

/// What the far host reports of a test that goes one way only (LaMP's REPORT). Of two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarReport {
    /// Unique packets received.
    pub received: u64,
    /// Smallest latency.
    pub min: Option<Span>,
    /// Mean latency.
    pub mean: Option<Span>,
    /// Largest.
    pub max: Option<Span>,
    /// Standard deviation.
    pub stddev: Option<Span>,
    /// Arrived after a later one.
    pub out_of_order: u64,
    /// Received with a latency of zero or below: no measurement.
    pub errors: u64,
    /// Further copies, where the far host looked for them.
    pub duplicates: Option<u64>,
    /// How the far host took its stamps, if it says.
    pub stamps: Option<Source>,
    /// Highest sequence number (wrapping), if any packet came.
    pub highest_seq: Option<u16>,
    /// Wraps of the sequence number.
    pub wraps: u64,
    /// The session ended because packets ceased to come, not by its last packet.
    pub timed_out: bool,
}

/// How the kernel saw a TCP connection over a test, sample by sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpStats {
    /// Segments sent again during the test.
    pub retransmissions: u64,
    /// Smallest smoothed round-trip time, in us.
    pub srtt_min_us: u32,
    /// Largest.
    pub srtt_max_us: u32,
    /// The last.
    pub srtt_last_us: u32,
    /// Smallest congestion window, in segments.
    pub cwnd_min: u32,
    /// Largest.
    pub cwnd_max: u32,
    /// Segment size, in bytes.
    pub mss: u32,
}

/// The kernel's account of a TCP connection when one answer was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// Segment size, in bytes.
    pub mss: u32,
    /// Smoothed round-trip time, in us.
    pub srtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments sent again since the connection was opened.
    pub retransmissions: u32,
}

impl TcpStats {
    /// What `samples`, in order, come to; `None` of none.
    pub fn of(samples: &[TcpSample]) -> Option<TcpStats> {
        let last = samples.last()?;
        let range = |f: fn(&TcpSample) -> u32| {
            let least = samples.iter().map(f).min().unwrap_or(0);
            (least, samples.iter().map(f).max().unwrap_or(0))
        };
        let ((srtt_min_us, srtt_max_us), (cwnd_min, cwnd_max)) = (range(|s| s.srtt_us), range(|s| s.cwnd));
        Some(TcpStats {
            retransmissions: last.retransmissions.into(),
            srtt_min_us,
            srtt_max_us,
            srtt_last_us: last.srtt_us,
            cwnd_min,
            cwnd_max,
            mss: last.mss,
        })
    }
}
