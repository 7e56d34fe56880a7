//! Sentences with the evidence of each cause (`Cause::because`).

use super::numbers::{count, moment, percent, span, time};
use crate::tcp_limits::TcpHold;
use jitlat_core::answer::{Cause, CauseId, Fault, TcpLimit};
use jitlat_core::session::{Ending, Session, SizeLimit};
use jitlat_core::spec::Direction;

/// Text between the number of events and the description of the largest one.
const LARGEST: &str = " times, the largest: ";

/// Text between the share of lost packets and their size in the evidence of size-dependent loss.
const OF_SIZE: &str = ", all of ";

/// Returns the evidence of `cause` with its direction, location and confidence: `no packet arrived for 3.0 s, from
/// 6.0 s on: 150 packets lost in a row (path, 97 % confidence)`.
pub fn evidence(cause: &Cause) -> String {
    let place = match cause.fault {
        Fault::Path => "path",
        Fault::Sender => "sending host",
        Fault::Receiver => "receiving host",
        Fault::Clock => "clock",
        Fault::Record => "recording",
    };
    let confidence = match cause.id {
        CauseId::IncompleteLog => String::new(),
        _ => format!(", {:.0} % confidence", 100.0 * cause.confidence),
    };
    format!("{}{} ({place}{confidence})", cause.because, direction(cause.direction))
}

/// Returns ` in the up direction` or ` in the down direction`; empty if the direction is unknown.
pub(super) fn direction(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Up) => " in the up direction",
        Some(Direction::Down) => " in the down direction",
        None => "",
    }
}

/// Describes several causes of one kind by their number and the largest of them.
pub fn repeated(count: u64, largest: &str) -> String {
    // The description of the largest cause may itself combine several causes.
    let of_one = largest.rsplit(LARGEST).next().unwrap_or_default();
    format!("{count}{LARGEST}{of_one}")
}

/// Describes a test in which none of `packets` arrived.
pub fn nothing_arrived(packets: u64) -> String {
    format!("none of {} arrived", count(packets, "packet"))
}

/// Describes an outage of `length_ns` in which `lost` packets were lost in a row.
pub fn outage(from_s: f64, length_ns: f64, lost: u64) -> String {
    format!(
        "no packet arrived for {}, from {} on: {} lost in a row",
        time(length_ns),
        moment(from_s),
        count(lost, "packet")
    )
}

/// Describes an outage during which the sending host stored its packets instead of losing them.
pub fn outage_at_sender(from_s: f64, length_ns: f64, packets: u64) -> String {
    format!(
        "no packet left the sending host for {}, from {} on: it stored {} until it reached the next hop again",
        time(length_ns),
        moment(from_s),
        count(packets, "packet")
    )
}

/// Describes an outage over TCP, after which `packets` arrived at once.
pub fn outage_over_tcp(from_s: f64, length_ns: f64, packets: u64) -> String {
    format!(
        "nothing arrived for {}, from {} on, then {} at once: TCP delivers nothing before a lost segment is repaired",
        time(length_ns),
        moment(from_s),
        count(packets, "packet")
    )
}

/// Describes a queue of `height_ns`.
pub fn queue(from_s: f64, to_s: f64, height_ns: i64) -> String {
    format!("packets waited up to {} in a queue, {}", time(height_ns as f64), span([from_s, to_s]))
}

/// Describes a queue of `height_ns` that dropped packets because it was full.
pub fn queue_with_drops(from_s: f64, to_s: f64, height_ns: i64, dropped: u64) -> String {
    let queue = queue(from_s, to_s, height_ns);
    match dropped {
        0 => queue,
        lost => format!("{queue}; it was full and dropped {}", count(lost, "packet")),
    }
}

/// Returns the name of a limit of a TCP connection.
pub(super) fn tcp_limit(limit: TcpLimit) -> &'static str {
    match limit {
        TcpLimit::SlowStart => "slow start",
        TcpLimit::CongestionWindow => "congestion window",
        TcpLimit::ReceiveWindow => "receive window",
        TcpLimit::SendBuffer => "send buffer",
    }
}

/// Describes packets that a TCP connection held back in the sending host, for up to `height_ns`.
pub fn held_back(hold: TcpHold, times_s: [f64; 2], height_ns: i64) -> String {
    let TcpHold { limit, windows: [first, last], round_trip_us } = hold;
    let rtt = time(1e3 * f64::from(round_trip_us));
    let why = match limit {
        TcpLimit::SlowStart => format!(
            "slow start, because a round trip takes {rtt} and the congestion window grows only once per round trip (from \
             {first} to {last} segments)"
        ),
        TcpLimit::CongestionWindow => {
            format!("the congestion window of {last} segments was full, and acknowledgements take {rtt}")
        }
        TcpLimit::ReceiveWindow => {
            "the receive window was full (flow control): the receiver's buffer is too small for this path, or its program \
             reads too slowly"
                .to_owned()
        }
        TcpLimit::SendBuffer => {
            format!("the send buffer was full, and it is emptied only by acknowledgements, which take {rtt}")
        }
    };
    format!(
        "TCP held packets back for up to {}, {}: {why}; they waited in the sending host, not in a queue on the path",
        time(height_ns as f64),
        span(times_s)
    )
}

/// Describes a period during which the path itself delivered nothing.
pub fn path_hold(at_s: f64, length_ns: i64) -> String {
    format!(
        "the path delivered nothing for {} at {}, then everything at once; the kernel's stamps rule out the receiving \
         program",
        time(length_ns as f64),
        moment(at_s)
    )
}

/// Describes a queue that never empties. Every packet took at least `least_ns`, although the probes of the idle path
/// took only `rtt_ns` for a round trip.
pub fn standing_queue(least_ns: i64, rtt_ns: i64) -> String {
    format!(
        "every packet took at least {} one way, although clock probes before and after the test took {} for a round trip: \
         a queue that never empties",
        time(least_ns as f64),
        time(rtt_ns as f64)
    )
}

/// The part of a test in which losses occur.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSpan {
    /// Part that contains all or nearly all losses; `None` if losses occur in the whole test.
    pub part: Option<LossPart>,
    /// Part with the highest loss ratio, if that ratio is much higher than on average.
    pub worst: Option<WorstPart>,
}

/// The part of a test to which lost or reordered packets are confined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPart {
    /// Start and end of the part, in seconds.
    pub times_s: [f64; 2],
    /// Loss ratio in this part, 0…1; `None` for reordered packets.
    pub share: Option<f64>,
    /// True if there are no losses elsewhere.
    pub is_all: bool,
}

/// The part of a test with the highest loss ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstPart {
    /// Loss ratio in this part, 0…1.
    pub share: f64,
    /// Start of the part, in seconds.
    pub from_s: f64,
    /// End of the part, in seconds.
    pub to_s: f64,
}

impl LossSpan {
    /// Returns the part as the end of a sentence; empty for the whole test.
    fn text(self) -> String {
        let part = self.part.map_or_else(String::new, |LossPart { times_s, share, is_all }| {
            let all = if is_all { "all" } else { "nearly all" };
            let there = share.map_or_else(String::new, |share| format!(" ({} there)", percent(share)));
            format!(", {all} {}{there}", span(times_s))
        });
        let worst = self.worst.map_or_else(String::new, |worst| {
            format!(", rising to {} {}", percent(worst.share), span([worst.from_s, worst.to_s]))
        });
        part + &worst
    }
}

/// Describes losses without a pattern.
pub fn random_loss(share: f64, span: LossSpan) -> String {
    format!("{} lost, in isolated losses without a pattern{}", percent(share), span.text())
}

/// Describes losses in bursts of `mean` packets on average. `burst_ratio` is that mean divided by the mean length of
/// random bursts; it is `None` if the lost packets of a burst are not adjacent.
pub fn bursty_loss(share: f64, bursts: u64, mean: f64, burst_ratio: Option<f64>, span: LossSpan) -> String {
    let (packets, compared) = match burst_ratio {
        Some(ratio) => ("packets", format!("{ratio:.1} times what random loss would give")),
        None => ("lost packets", "closer together than random loss would be".to_owned()),
    };
    let size = match bursts {
        1 => format!("{mean:.0} {packets}"),
        _ => format!("{mean:.1} {packets} on average"),
    };
    format!("{} lost in {} of {size}, {compared}{}", percent(share), count(bursts, "burst"), span.text())
}

/// Describes losses above a rate limit.
pub fn policing(share: f64, span: LossSpan) -> String {
    format!(
        "{} lost at even intervals or at peaks of the rate{}, without additional delay: a rate limit drops them",
        percent(share),
        span.text()
    )
}

/// Describes losses that repeat every `period_s` seconds, with `length` lost packets on average.
pub fn periodic_loss(share: f64, period_s: f64, length: f64, span: LossSpan) -> String {
    let each = if length < 1.05 { "1 packet".to_owned() } else { format!("{length:.1} packets on average") };
    format!(
        "{} lost at regular intervals: {each} every {}{}",
        percent(share),
        time(1e9 * period_s),
        span.text()
    )
}

/// Describes the loss of packets of `size` bytes and more.
pub fn size_dependent(share: f64, size: u16) -> String {
    format!("{} lost{OF_SIZE}{size} bytes or more; shorter packets pass", percent(share))
}

/// Returns the packet size in the evidence of size-dependent loss: `700 bytes or more`.
pub(super) fn lost_size(because: &str) -> &str {
    let after = because.split(OF_SIZE).nth(1).and_then(|size| size.split(';').next());
    after.unwrap_or("more than a certain size")
}

/// Describes reordered packets, half of which were late by `late_ns` or more. `part_s` is the part of the test that
/// contains them, in seconds.
pub fn reordering(share: f64, late_ns: i64, part_s: Option<[f64; 2]>) -> String {
    let part = part_s.map(|times_s| LossPart { times_s, share: None, is_all: true });
    let span = LossSpan { part, worst: None }.text();
    format!(
        "{} reordered, half of them late by {} or more{span}",
        percent(share),
        time(late_ns.max(0) as f64)
    )
}

/// Describes a path that became longer or shorter by `change_ns`, until `until_s`, or until the end of the test if that
/// is `None`. `lost` packets were lost during the change. `clock` is the clock of the recording in which the change was
/// seen.
pub fn route_change(
    from_s: f64,
    until_s: Option<f64>,
    change_ns: i64,
    lost: u64,
    clock: RecordingsClock,
) -> String {
    let how = if change_ns > 0 { "longer" } else { "shorter" };
    let by = time(change_ns.saturating_abs() as f64);
    let until = until_s.map_or_else(|| "to the end of the test".to_owned(), |s| format!("to {}", moment(s)));
    let lost = match lost {
        0 => String::new(),
        1 => "; 1 packet was lost at the change".to_owned(),
        n => format!("; {n} packets were lost at the change"),
    };
    let or_clock = match clock {
        RecordingsClock::NotSet => "",
        RecordingsClock::Unknown => OR_CLOCK,
    };
    format!("the path was {by} {how}, from {} {until}{lost}{or_clock}", moment(from_s))
}

/// State of the clock of a recording at a change of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingsClock {
    /// The clock was not set, or there is no recording.
    NotSet,
    /// The clock may have been set: one stream at one capture point cannot exclude this.
    Unknown,
}

/// End of the sentence about a change of the delay, if the recording's clock may have been set.
const OR_CLOCK: &str = ", or the recording's clock was set";
/// Confidence in a route change if the recording's clock may have been set.
pub const OF_PATH_OR_CLOCK: f64 = 0.6;
/// Confidence in a route change if no clock was set.
pub const OF_PATH: f64 = 0.93;

/// True if `change` is a change of the delay for which the recording's clock may be the reason.
pub fn is_path_or_clock(change: &Cause) -> bool {
    change.because.ends_with(OR_CLOCK)
}

/// Names the path as the only cause of `change`, because other streams of the recording show that the clock was not
/// set. Returns false if `change` is not a change of the delay with an open reason.
pub fn confirm_path(change: &mut Cause) -> bool {
    let Some(sentence) = change.because.strip_suffix(OR_CLOCK) else { return false };
    change.because = sentence.to_owned();
    change.confidence = OF_PATH;
    true
}

/// The clock that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteppedClock {
    /// Clock of the sending host.
    Sender,
    /// Clock of the receiving host.
    Receiver,
    /// Clock of the recording, or media clock of the sender: a capture of one stream does not show which.
    Recording,
}

/// Describes a clock that was set by `by_ns`.
pub fn clock_step(at_s: f64, clock: SteppedClock, by_ns: i64) -> String {
    let who = match clock {
        SteppedClock::Sender => "the sending host's clock",
        SteppedClock::Receiver => "the receiving host's clock",
        SteppedClock::Recording => "the recording's clock or the sender's media clock",
    };
    let direction = if by_ns > 0 { "forward" } else { "back" };
    format!(
        "{who} was set {direction} by {} at {}; the path's delay did not change",
        time(by_ns.saturating_abs() as f64),
        moment(at_s)
    )
}

/// Describes clocks that drift apart.
pub fn clock_skew(ppm: f64, error: f64, drift_ns: i64) -> String {
    // Errors that would be rounded to 0 are omitted.
    let interval = if error < 0.05 {
        String::new()
    } else {
        format!(" ({:.1} to {:.1} with 95 % confidence)", (ppm - error).max(0.0), ppm + error)
    };
    format!(
        "the clocks drift apart by {ppm:.1} ppm{interval}, {} over the test, which is not a change of the path's delay",
        time(drift_ns.saturating_abs() as f64)
    )
}

/// Describes a media clock that runs too slowly by `ppm`, or too fast if `drift_ns` is negative.
pub fn media_clock(ppm: f64, drift_ns: i64) -> String {
    let how = if drift_ns < 0 { "fast" } else { "slow" };
    format!(
        "the sender's media clock runs {how} by {:.2} %, {} over the test; the path's delay did not change",
        ppm / 10_000.0,
        time(drift_ns.saturating_abs() as f64)
    )
}

/// Describes a change of the delay by `change_ns` between two times, at a rate of at most `ppm`, as by the adjustment
/// of a clock. `is_confirmed` is true if the clock probes show the same change.
pub fn clock_adjusted(ppm: f64, change_ns: i64, times_s: [f64; 2], is_confirmed: bool) -> String {
    let by = time(change_ns.saturating_abs() as f64);
    let span = span(times_s);
    if is_confirmed {
        format!(
            "a clock was adjusted by {by}, at up to {ppm:.0} ppm, {span}; the path's delay did not change"
        )
    } else {
        format!(
            "the delay changed by {by} {span}, at no time faster than a clock that is adjusted ({ppm:.0} ppm), and no jitter \
             shows a queue"
        )
    }
}

/// Describes a stall of the sending program, after which `packets` left late and `lost` others were lost; it skipped
/// `skipped` others, which would have left too late.
pub fn sender_stall(from_s: f64, length_ns: i64, packets: u64, skipped: u64, lost: u64) -> String {
    let effect = match (packets, skipped) {
        (_, 0) => format!("{} left late", count(packets, "packet")),
        (0, n) => format!("{} {} not sent", count(n, "packet"), were(n)),
        (_, n) => format!("{} left late, {n} {} not sent", count(packets, "packet"), were(n)),
    };
    let lost = match lost {
        0 => String::new(),
        n => format!(
            ", and {n} more {} lost among those that it sent at once (not counted as losses of the path)",
            were(n)
        ),
    };
    format!("the sender stalled for {}, from {} on: {effect}{lost}", time(length_ns as f64), moment(from_s))
}

fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// Describes a stall of the receiving program, after which it read `packets` at once. Its full buffer dropped another
/// `dropped` packets.
pub fn receiver_stall(from_s: f64, length_ns: i64, packets: u64, dropped: u64) -> String {
    let dropped = match dropped {
        0 => String::new(),
        n => format!("; its full buffer dropped {} meanwhile, which the path delivered", count(n, "packet")),
    };
    format!(
        "the receiver stalled for {}, from {} on, and then read {} at once{dropped}",
        time(length_ns as f64),
        moment(from_s),
        count(packets, "packet")
    )
}

/// Describes packets that the receiving host dropped without a known stall of its program.
pub fn receiver_drops(dropped: u64, share: f64) -> String {
    format!(
        "the receiving program read too slowly: the full buffer of its socket dropped {} ({}), which the path delivered",
        count(dropped, "packet"),
        percent(share)
    )
}

/// Facts about packets that waited in the interface of the sending host.
#[derive(Clone, Copy, Debug)]
pub struct LocalQueueFacts {
    /// Time from the first packet to the first that waited, in seconds.
    pub from_s: f64,
    /// Time from the first packet to the last that waited, in seconds.
    pub to_s: f64,
    /// Share of packets that waited.
    pub share: f64,
    /// 95th percentile of the waits, in ns.
    pub height_ns: i64,
    /// Longest wait, in ns.
    pub longest_ns: i64,
    /// True if the waits are upper bounds, because the kernel stamped only departures.
    pub upper_bounds: bool,
}

/// Describes a queue in the sending host.
pub fn local_queue(facts: LocalQueueFacts) -> String {
    let bound = if facts.upper_bounds { " (upper bounds: the kernel stamped departures only)" } else { "" };
    format!(
        "{} of the packets waited in the sending host's own interface, {}: 95 % of these up to {}, the longest {}{bound}",
        percent(facts.share),
        span([facts.from_s, facts.to_s]),
        time(facts.height_ns as f64),
        time(facts.longest_ns as f64)
    )
}

/// Describes packets that arrive twice, or more than twice if `more_often` is set.
pub fn duplication(share: f64, more_often: bool) -> String {
    let times = if more_often { "more than twice" } else { "twice" };
    if share > 0.95 {
        format!("every packet arrives {times}: a loop, a mirror port or two links")
    } else {
        format!("{} of the packets arrive {times}", percent(share))
    }
}

/// Describes packets that do not pass because of their size.
pub fn too_large(limit: SizeLimit) -> String {
    let SizeLimit { packet, passes, fails, payload } = limit;
    let passing = if fails <= passes + 1 {
        format!("packets of up to {passes} bytes do (-l {payload})")
    } else {
        format!("packets of at least up to {passes} bytes do (-l {payload}; {fails} do not)")
    };
    format!(
        "packets of {packet} bytes do not pass, {passing}: a link has a smaller MTU, and no message reports it"
    )
}

/// Describes first packets that were lost while the path MTU was being discovered. `length`: length of the packets.
pub fn lost_to_mtu_discovery(lost: u64, length: Option<u32>, mtu: u32) -> String {
    let first = if lost == 1 { "packet was".to_owned() } else { format!("{lost} packets were") };
    let length =
        length.map_or_else(|| "longer packets".to_owned(), |length| format!("packets of {length} bytes"));
    format!(
        "the first {first} lost until the path MTU of {mtu} bytes was known: since then {length} are sent in fragments"
    )
}

/// Describes packets that the sending host did not send, between the times `when_s` (in seconds) if these are known.
pub fn send_failure(packets: u64, share: f64, when_s: Option<[f64; 2]>) -> String {
    let when = when_s.map_or_else(String::new, |times_s| format!(", {}", span(times_s)));
    format!(
        "the sending host did not send {} ({}){when}: its system refused them, or the queue of its interface was full; \
         the path did not lose them",
        count(packets, "packet"),
        percent(share)
    )
}

/// Describes packets that the sender reports as skipped, without a stall that explains it.
pub fn skipped(packets: u64, share: f64, times_s: [f64; 2]) -> String {
    format!(
        "the sender skipped {} ({}), {}: it was too late for them, or its system refused them; the path did not lose them",
        count(packets, "packet"),
        percent(share),
        span(times_s)
    )
}

/// Reason why a part of a test was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingPart {
    /// The server was stopped.
    ServerStopped,
    /// The connection to the other host was lost.
    PeerLost,
    /// The results could not be stored.
    StorageFailed,
    /// The log is truncated.
    CutLog,
    /// Rows are missing within the log.
    Rows,
    /// The log ends long before the last packet was due.
    Tail,
    /// The last packets were sent too late to be in the receiver's results.
    Late,
}

impl MissingPart {
    /// Returns the reason why a part of the test of `session` was not recorded. `tail` is true if the fate of its last
    /// packets is unknown.
    pub fn of(session: &Session, tail: bool) -> MissingPart {
        let Session { ending, truncated, unreported, .. } = *session;
        match ending {
            Ending::Complete if unreported > 0 && tail => MissingPart::Late,
            Ending::ServerStopped => MissingPart::ServerStopped,
            Ending::PeerLost => MissingPart::PeerLost,
            Ending::StorageFailed => MissingPart::StorageFailed,
            _ if truncated => MissingPart::CutLog,
            _ if tail => MissingPart::Tail,
            _ => MissingPart::Rows,
        }
    }
}

/// Describes a part of the test that was not recorded. It contains `unknown` packets, at the end of the log or within
/// it.
pub fn incomplete_log(part: MissingPart, unknown: u64, share: f64, at_end: bool) -> String {
    let how = match part {
        MissingPart::PeerLost => "the connection to the other host was lost",
        MissingPart::ServerStopped => "the server was stopped during the test",
        MissingPart::StorageFailed => "not all results could be stored",
        MissingPart::CutLog => "the log is truncated",
        MissingPart::Rows => "rows are missing within the log",
        MissingPart::Tail => "the log ends long before the last packet",
        MissingPart::Late => "the last packets left too late to be part of the receiver's results",
    };
    let place = if at_end { " at the end" } else { "" };
    let are = if unknown == 1 { "is" } else { "are" };
    format!("{how}: {}{place} ({}) {are} unknown", count(unknown, "packet"), percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::answer::Severity;

    #[test]
    fn evidence_ends_with_where_it_lies_and_how_certain_it_is() {
        let mut cause = Cause::new(CauseId::RandomLoss, Severity::Fair, 0.9);
        cause.because = random_loss(0.02, LossSpan::default());
        let text = "2.0 % lost, in isolated losses without a pattern";
        assert_eq!(evidence(&cause), format!("{text} (path, 90 % confidence)"));
        cause.direction = Some(Direction::Down);
        assert_eq!(evidence(&cause), format!("{text} in the down direction (path, 90 % confidence)"));
        let log = Cause::new(CauseId::IncompleteLog, Severity::Unknown, 0.7);
        assert_eq!(evidence(&log), " (recording)");
    }

    #[test]
    fn the_largest_of_several_is_described_once() {
        let one = queue(1.0, 2.0, 30_000_000);
        assert_eq!(
            repeated(3, &one),
            "3 times, the largest: packets waited up to 30 ms in a queue, from 1.0 s to 2.0 s"
        );
        assert_eq!(repeated(9, &repeated(3, &one)), repeated(9, &one));
    }

    #[test]
    fn the_size_of_lost_packets_is_read_from_the_evidence() {
        assert_eq!(lost_size(&size_dependent(0.02, 700)), "700 bytes or more");
        assert_eq!(lost_size("no size"), "more than a certain size");
    }
}
