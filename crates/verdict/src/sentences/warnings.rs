//! Warnings: reasons to doubt a figure, and advice.

use super::numbers::{count, rate};
use crate::tcp_limits::Limits;
use jitlat_core::Span;
use jitlat_core::session::Ending;
use jitlat_core::spec::{Dscp, Transport};
use jitlat_core::units::eng3 as time;

/// Warns that the test or its log ended early.
pub fn incomplete(ending: Ending, reason: Option<&str>) -> String {
    let how = match ending {
        Ending::Interrupted => "the test was stopped early",
        Ending::ServerStopped => "the test ended early",
        Ending::PeerLost => "the connection to the other host was lost during the test",
        Ending::StorageFailed => "not all results could be stored",
        _ => "the log is truncated",
    };
    let why = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("{how}{why}; the figures cover what was received")
}

/// Warning about a complete test whose log could not be stored.
pub const LOG_NOT_STORED: &str =
    "the log could not be stored completely; the figures of this report are complete";

/// Warns that it is unknown whether some packets were received: packets after the last arrival, or packets without rows
/// in the log.
pub fn tail_unknown(within_log: bool) -> &'static str {
    if within_log {
        "the log has no rows for some packets: they count neither as sent nor as lost"
    } else {
        "the fate of the packets after the last arrival is unknown: they count neither as sent nor as lost"
    }
}

pub const NOTHING_RECEIVED: &str = "no packet was received, so there are no figures";
pub const NOTHING_VALID: &str = "no valid packet was received, so there are no figures";

/// Warns about answers that do not report the far host's processing time, or report one longer than the round trip.
pub fn processing_unknown(without: u64, answers: u64) -> String {
    format!(
        "{without} of {} carried no possible processing time of the far host: they count as received, but have no delay, neither as \
         round trips nor by direction",
        count(answers, "answer")
    )
}

/// Warns that there are too few packets for the 99.9th percentile.
pub fn few_packets(packets: u64) -> String {
    let are = if packets == 1 { "is" } else { "are" };
    format!(
        "{} {are} too few for the 99.9th percentile: it takes 1000 packets, and about 3700 to bound it",
        count(packets, "packet")
    )
}

pub const COARSE_CLOCK: &str =
    "the quartiles of delay variation coincide: the clocks are too coarse for this path";
pub const TCP: &str = "TCP repairs loss and order: neither is observable, and both appear as delay";

/// Warns that a TCP connection itself held packets back during a stream of `duration` seconds. `windows`: congestion window at
/// the start and the largest one, in segments; `round_trip_us`: longest smoothed round trip, in µs.
pub fn tcp_limited(limits: Limits, duration: f64, windows: [u32; 2], round_trip_us: u32) -> String {
    let seconds = |s: f64| time(1e9 * s);
    let parts = [
        (limits.slow_start, "in slow start"),
        (limits.congestion, "because of the congestion window"),
        (limits.receive, "because of the receive window (flow control)"),
        (limits.send_buffer, "because of the send buffer"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(s, _)| *s >= 0.01 * duration)
        .map(|(s, why)| format!("{} {why}", seconds(*s)))
        .collect();
    format!(
        "TCP held packets back in the sending host for {} of {}: {}. A connection sends a window of data ({} segments at \
         first, {} at most) and then waits for acknowledgements, which take a round trip of {}: this delay is TCP's, not the \
         path's",
        seconds(limits.total().min(duration)),
        seconds(duration),
        parts.join(", "),
        windows[0],
        windows[1],
        time(1e3 * f64::from(round_trip_us))
    )
}

/// Warns that the smallest delay changed `changes` times; the first change was by `first_ns`, at `packet`.
pub fn path_change(changes: u64, first_ns: Option<i64>, packet: u64) -> String {
    let by = first_ns.map_or_else(String::new, |ns| format!(" by {}", time(ns as f64)));
    format!(
        "the smallest delay changes {}{by} at packet {packet}: the route or a clock changed; use the figures of each \
         segment, not the jitter of the whole test",
        if changes == 1 { "once,".to_owned() } else { format!("{}, first", count(changes, "time")) }
    )
}

pub const CLOCK_INCONSISTENT: &str =
    "no single clock offset fits all probes: a clock was set, or the clocks drift apart";

/// Warns that the clock of a host (`client` or `server`) was set.
pub fn clock_step(host: &str, by_ns: i64) -> String {
    format!("the {host}'s clock was set by {} during the test", time(by_ns as f64))
}

/// Warns that receive times went backwards `times` times.
pub fn receive_time_went_back(times: u64) -> String {
    format!("receive times went backwards {}: the receiver's clock was set", count(times, "time"))
}

/// Warns that the smallest raw delay is negative.
pub fn negative_delay(min_ns: i64) -> String {
    format!(
        "the smallest raw delay is {}: the clocks disagree; jitter and loss are not affected",
        time(min_ns as f64)
    )
}

pub const CLOCKS_UNKNOWN: &str =
    "clock offset unknown: no absolute delay; jitter, loss and buffer are not affected";

/// Warns that the smallest raw delay is larger than a round trip.
pub fn delay_exceeds_rtt(min_ns: i64, rtt_ns: i64) -> String {
    format!(
        "the smallest raw one-way delay, {}, exceeds the round trip of {}: the clocks disagree",
        time(min_ns as f64),
        time(rtt_ns as f64)
    )
}

/// Warns that the smallest corrected delay is impossible.
pub fn corrected_out_of_range(min_ns: i64, rtt_ns: i64) -> String {
    format!(
        "the smallest corrected delay, {}, is not between 0 and the round trip of {}: the clock estimate is wrong, or the \
         direction in the log is",
        time(min_ns as f64),
        time(rtt_ns as f64)
    )
}

/// Warns that the round trip is not about twice the smallest corrected delay.
pub fn asymmetric(min_ns: i64, rtt_ns: i64) -> String {
    format!(
        "the round trip of {} is {:.1} times the smallest corrected delay of {}: the path is asymmetric, or the clock \
         estimate is wrong",
        time(rtt_ns as f64),
        rtt_ns as f64 / min_ns as f64,
        time(min_ns as f64)
    )
}

pub const DIRECTION_UNKNOWN: &str = "this log does not name the sender: the correction assumes the client; if it was the \
                                     server, corrected delays are wrong by twice the offset";

/// Warns that the sender fell behind its schedule. `sent` and `asked` are packets per second, `late_ns` is the lateness
/// at the end.
pub fn schedule_stretched(transport: Transport, sent: f64, asked: f64, late_ns: f64) -> String {
    let (who, advice) = match transport {
        Transport::Udp => ("the sending host", "; --pace spin may help"),
        Transport::Tcp => ("the sender or its connection", ""),
    };
    format!(
        "{who} sent {} packets per second instead of {}, and was {} behind at the end{advice}",
        rate(sent),
        rate(asked),
        time(late_ns)
    )
}

/// Warns that the sending host itself was late.
pub fn sender_late(times: u64, longest_ns: i64) -> String {
    format!(
        "the sender was more than half a period late {}, at most {}: this is the sending host, not the path",
        count(times, "time"),
        time(longest_ns as f64)
    )
}

/// Warns that groups of packets arrived together after a pause.
pub fn stall_suspect(groups: u64) -> String {
    format!(
        "{} of packets arrived together after a pause: the receiving host stalled, or a queue on the path did",
        count(groups, "group")
    )
}

/// Warns that jitter at some percentiles does not exceed the host's own noise.
pub fn noise_floor(percentiles: &str, floor_p99_ns: i64) -> String {
    format!(
        "jitter at {percentiles} % is less than twice the noise of this host (99 % within {} on its loopback): it may come \
         from the host, not the path",
        time(floor_p99_ns as f64)
    )
}

/// Warns that the receiving kernel dropped packets.
pub fn receiver_drops(packets: u64) -> String {
    format!(
        "the receiving kernel dropped {} because its buffer was full: the path did not lose them",
        count(packets, "datagram")
    )
}

/// Warns that the clocks drift apart. The raw jitter includes this drift.
pub fn skew(ppm: f64) -> String {
    format!(
        "the clocks drift apart by {ppm:.1} ppm: the raw jitter includes this drift, the de-skewed figures do not"
    )
}

/// Warns that packets, or answers if `of_answers` is true, arrived with a DSCP other than the requested one.
pub fn dscp_changed(of_answers: bool, asked: u8, others: u64, all: u64, mostly: u8) -> String {
    format!(
        "{} DSCP {asked}, but {others} of {} arrived with another, mostly {mostly}",
        if of_answers { "answers were requested with" } else { "sent with" },
        count(all, "packet")
    )
}

/// Warns that the DSCP of requests was changed on the path to the far host.
pub fn request_dscp_changed(asked: u8, others: u64, all: u64, mostly: u8) -> String {
    format!(
        "the path changes the class of service: requests were sent with {}, but {others} of {all} arrived at the far host \
         with another, mostly {}",
        dscp(asked),
        dscp(mostly)
    )
}

/// Returns the DSCP with its name, if it has one: `DSCP 46 (EF)`.
fn dscp(value: u8) -> String {
    Dscp::new(value.into()).map_or_else(|| format!("DSCP {value}"), |dscp| format!("DSCP {dscp}"))
}

/// Warns that `marked` of `all` requests arrived at the far host with congestion marks.
pub fn request_congestion_marked(marked: u64, all: u64) -> String {
    format!("{marked} of {all} requests arrived at the far host with ECN congestion marks")
}

/// Warns that requests, which are sent without ECN, arrived at the far host as ECN-capable.
pub fn request_ecn_changed(changed: u64, all: u64) -> String {
    format!(
        "the path changes the ECN field: requests were sent without ECN, but {changed} of {all} arrived at the far host as \
         ECN-capable"
    )
}

/// Warns that `marked` of `all` packets arrived with congestion marks. `queue` is true if packets also waited in a
/// queue.
pub fn congestion_marked(marked: u64, all: u64, queue: bool) -> String {
    let meaning = if queue {
        "the queue on the path signals congestion"
    } else {
        "a queue on the path signals congestion before it delays packets noticeably"
    };
    format!("{marked} of {} arrived with ECN congestion marks: {meaning}", count(all, "packet"))
}

/// Warning about a test that was slowed down `rounds` times by CE, to one request per `period`.
pub fn slowed_by_marks(rounds: u64, period: Span) -> String {
    let times = if rounds == 1 { "once".to_owned() } else { format!("{rounds} times") };
    format!(
        "routers marked packets of this test with CE, so the time between requests was increased {times}, to {}: the spacing is not \
         the requested one",
        time(period.0 as f64)
    )
}
