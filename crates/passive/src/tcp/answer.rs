//! Problems of captured TCP connections: the directions with data, and the [`Answer`] for all of them.

use super::verdict::{MIN_SEGMENTS, describe_change, is_queued, round_trip, usual_wait};
use super::{BetweenPoints, DirectionFigures, ObservedConnection, RoundTripChange, TcpPoint, TcpResult};
use crate::SpreadFigures;
use crate::numbers::count;
use crate::recording::{RecordedStep, describe_step};
use core::net::SocketAddr;
use jitlat_core::answer::{Answer, Cause, CauseId, Severity};
use jitlat_core::spec::Direction;
use jitlat_core::time::{Span, WallTime};
use jitlat_verdict::severity::{of_host, of_missing, of_wait};
use jitlat_verdict::time;
use std::collections::BTreeMap;

/// Minimum share of the time during which a window is closed, for the closed window to be reported.
const MIN_CLOSED_SHARE: f64 = 0.01;
/// Minimum share of segments for reordering and duplicates to be reported.
const MIN_SEGMENT_SHARE: f64 = 0.003;
/// Minimum number of segments for reordering and duplicates to be reported.
const MIN_AFFECTED_SEGMENTS: u64 = 5;
/// Number of segments below which losses are given as a count, not as a share.
const FEW_SEGMENTS: u64 = 100;
/// Number of lost segments below which the loss may be an exception.
const FEW_LOST: u64 = 5;
/// Increase of the round trip by a change of the path, in ns, above which the change is a problem.
const LONG_DETOUR_NS: i64 = 150_000_000;
/// Maximum number of causes in an answer.
const MAX_CAUSES: usize = 16;

/// Data of one connection in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpDirection<'a> {
    /// Sender of the data.
    pub from: SocketAddr,
    /// Receiver of the data.
    pub to: SocketAddr,
    /// Statistics of the data.
    pub data: &'a DirectionFigures,
    /// Round trips between capture point and receiver, in ns; `None` if not measured.
    pub rtt: Option<SpreadFigures>,
    /// Total time for which the receiver's window was closed or full, in ns.
    pub held_ns: i64,
    /// Number of times the receiver closed its window.
    pub zero_windows: u64,
    /// Problems, worst first.
    pub causes: Vec<Cause>,
}

impl TcpDirection<'_> {
    /// Severity of the worst problem; unknown if there are too few segments, or if there is no problem and no round trip
    /// was measured: a delay would not have been seen.
    pub fn severity(&self) -> Severity {
        let least = if self.rtt.is_some() { Severity::Good } else { Severity::Unknown };
        let worst = self.causes.iter().map(|c| c.severity).fold(least, Severity::max);
        let is_known = self.is_judged() && (self.rtt.is_some() || worst > Severity::Good);
        if is_known { worst } else { Severity::Unknown }
    }

    /// Returns whether there are enough segments for a verdict.
    fn is_judged(&self) -> bool {
        self.data.data_segments >= MIN_SEGMENTS
    }
}

/// Returns the directions with data, worst first; equally bad ones are sorted by bytes, most first.
pub fn directions(r: &TcpResult) -> Vec<TcpDirection<'_>> {
    let begin = r.first.connections.iter().map(|c| c.first).min().unwrap_or(WallTime(0));
    let resolution = r.first.recording.resolution.unwrap_or(Span::ZERO);
    let both = |(c, between): (_, Option<&BetweenPoints>)| {
        let between = between.map_or([0; 2], |b| [b.up.lost_between, b.down.lost_between]);
        [
            direction_of(c, Direction::Up, (begin, resolution), between[0]),
            direction_of(c, Direction::Down, (begin, resolution), between[1]),
        ]
    };
    let mut directions: Vec<TcpDirection<'_>> = r.connections().flat_map(both).collect();
    directions.retain(|w| w.data.unique_bytes > 0);
    directions.sort_by_key(|w| std::cmp::Reverse((w.severity(), w.causes.len(), w.data.unique_bytes)));
    directions
}

fn direction_of(
    c: &ObservedConnection,
    direction: Direction,
    (begin, resolution): (WallTime, Span),
    lost_between: u64,
) -> TcpDirection<'_> {
    let (from, to, data, peer) = match direction {
        Direction::Up => (c.client, c.server, &c.up, &c.down),
        Direction::Down => (c.server, c.client, &c.down, &c.up),
    };
    let held_ns = data.window_full_ns.0.saturating_add(peer.zero_window_ns.0);
    let mut result = TcpDirection {
        from,
        to,
        data,
        rtt: round_trip(data),
        held_ns,
        zero_windows: peer.zero_windows,
        causes: Vec::new(),
    };
    if data.data_segments >= MIN_SEGMENTS {
        let span = [c.first, c.last].map(|at| (at - begin).0 as f64 / 1e9);
        let found = [
            queue(&result, resolution),
            loss(&result, lost_between),
            window(&result, c),
            reordered(&result),
            duplicated(&result),
            missed(&result),
        ];
        let whole = |cause: Cause| Cause { from_s: span[0], to_s: span[1], ..cause };
        let complete = |mut cause: Cause| {
            cause.direction = Some(direction);
            cause.because = format!("{from} to {to}: {}", cause.because);
            cause
        };
        let all = found.into_iter().flatten().map(whole).chain(changes(data, resolution, (begin, span[1])));
        result.causes = all.map(complete).collect();
        // The sort is stable: of equally severe causes, the one that explains the others stays first.
        result.causes.sort_by_key(|cause| std::cmp::Reverse(cause.severity));
    }
    result
}

fn cause(id: CauseId, severity: Severity, confidence: f64, because: String) -> Cause {
    Cause { because, ..Cause::new(id, severity, confidence) }
}

fn share(part: u64, data: &DirectionFigures) -> f64 {
    (part as f64 / data.data_segments.max(1) as f64).min(1.0)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn lost(data: &DirectionFigures) -> u64 {
    data.lost_before.saturating_add(data.lost_after)
}

/// Returns a cause for each change of the path, which lasts until the next one or until the connection ends at `end_s`,
/// in seconds from `begin`.
fn changes(
    data: &DirectionFigures,
    resolution: Span,
    (begin, end_s): (WallTime, f64),
) -> impl Iterator<Item = Cause> {
    let changes = &data.rtt_changes;
    let ends = changes.iter().skip(1).map(Some).chain([None]);
    changes.iter().zip(ends).filter_map(move |(change, next)| {
        let seconds = |change: &RoundTripChange| (change.at_ns - begin).0 as f64 / 1e9;
        let (from, by) = (seconds(change), change.by().0);
        let because = format!(
            "{} at {from:.1} s: the smallest round trip changed at once from {} to {}, with as little variation after it as before, so it is not a queue",
            describe_change(change),
            time(change.before_ns.0 as f64),
            time(change.after_ns.0 as f64)
        );
        let severity = if by > LONG_DETOUR_NS { Severity::Fair } else { Severity::Good };
        let found = cause(CauseId::RouteChange, severity, 0.8, because);
        // Times are cut to the resolution, so that a difference of up to twice the resolution may be an artefact.
        (by.saturating_abs() > resolution.0.saturating_mul(2)).then_some(Cause {
            from_s: from,
            to_s: next.map_or(end_s, seconds),
            magnitude_ns: Some(by),
            ..found
        })
    })
}

fn queue(direction: &TcpDirection<'_>, resolution: Span) -> Option<Cause> {
    let r = direction.rtt?;
    let usual = usual_wait(&r, direction.data);
    // The largest round trips may be those of a longer path.
    let is_one_path = direction.data.rtt_changes.is_empty();
    let most = if is_one_path { r.p95.saturating_sub(r.min) } else { usual };
    // Two times that are cut to the resolution differ by up to twice as much as they really do.
    if usual <= resolution.0.saturating_mul(2) {
        return None;
    }
    let sure = is_queued(&r, direction.data)?;
    let because = format!(
        "minimum round trip {}, median {}, 95th percentile {}: a queue{}",
        time(r.min as f64),
        time(r.median as f64),
        time(r.p95 as f64),
        if sure { "" } else { ", or the receiver's delayed acknowledgements" }
    );
    let severity = if sure { of_wait(usual) } else { of_wait(usual).min(Severity::Fair) };
    let found = cause(CauseId::Queue, severity, if sure { 0.9 } else { 0.5 }, because);
    Some(Cause { magnitude_ns: Some(most), ..found })
}

/// Describes lost segments; `between` packets were lost between two points. `None` without losses.
fn loss(direction: &TcpDirection<'_>, between: u64) -> Option<Cause> {
    let data = direction.data;
    // Segments that were lost between the points may have been sent again without a trace at this point.
    // Between the points, packets without data also count.
    let between = between.min(data.data_segments);
    let lost = lost(data).max(between);
    if lost == 0 {
        return None;
    }
    let share = share(lost, data);
    // More timeouts than fast retransmissions mean that losses were not isolated.
    let (id, how) = match data.timeouts > data.fast {
        true => (CauseId::BurstyLoss, ": most were repaired only by timeouts"),
        false if data.fast == 0 => (CauseId::RandomLoss, ""),
        false => (CauseId::RandomLoss, ": most were repaired by fast retransmissions"),
    };
    let waited = match data.longest_wait_ns.0 {
        0 => String::new(),
        longest => format!("; the longest repair took {}", time(longest as f64)),
    };
    let location = match (data.lost_before, data.lost_after) {
        _ if between >= lost => " between the two points",
        (_, 0) => " before this point",
        (0, _) => " after this point",
        _ => "",
    };
    let because = format!("{} ({}) lost{location}{how}{waited}", count(lost, "segment"), percent(share));
    let severity = of_missing(share, lost, data.data_segments).max(of_host(of_wait(data.longest_wait_ns.0)));
    Some(Cause {
        magnitude: Some(share),
        count: lost,
        ..cause(id, severity, if lost < FEW_LOST { 0.6 } else { 0.8 }, because)
    })
}

fn window(direction: &TcpDirection<'_>, c: &ObservedConnection) -> Option<Cause> {
    let share = direction.held_ns as f64 / c.duration().0 as f64;
    if share < MIN_CLOSED_SHARE || direction.zero_windows == 0 {
        return None;
    }
    let because = format!(
        "the receiver closed its window {}, which stopped the data for {} ({} of the time)",
        count(direction.zero_windows, "time"),
        time(direction.held_ns as f64),
        percent(share)
    );
    let found = cause(CauseId::ReceiverStall, of_host(of_wait(direction.held_ns)), 0.95, because);
    Some(Cause { magnitude_ns: Some(direction.held_ns), count: direction.zero_windows, ..found })
}

fn reordered(direction: &TcpDirection<'_>) -> Option<Cause> {
    let (n, share) = (direction.data.out_of_order, share(direction.data.out_of_order, direction.data));
    let because = format!("{n} segments ({}) were reordered before this point", percent(share));
    let found = cause(CauseId::Reordering, Severity::Good, 0.9, because);
    (n >= MIN_AFFECTED_SEGMENTS && share >= MIN_SEGMENT_SHARE).then_some(Cause {
        magnitude: Some(share),
        count: n,
        ..found
    })
}

fn duplicated(direction: &TcpDirection<'_>) -> Option<Cause> {
    let (n, share) = (direction.data.duplicates, share(direction.data.duplicates, direction.data));
    let because = format!("{n} packets ({}) arrived twice", percent(share));
    let found = cause(CauseId::Duplication, Severity::Good, 0.9, because);
    (n >= MIN_AFFECTED_SEGMENTS && share >= MIN_SEGMENT_SHARE).then_some(Cause {
        magnitude: Some(share),
        count: n,
        ..found
    })
}

fn missed(direction: &TcpDirection<'_>) -> Option<Cause> {
    let (n, share) = (direction.data.unfilled_gaps, share(direction.data.unfilled_gaps, direction.data));
    let because = format!(
        "{} never filled: the capture missed these packets, so they do not count as lost",
        count(n, "gap")
    );
    let found = cause(CauseId::IncompleteLog, Severity::Unknown, 0.8, because);
    (n > 0).then_some(Cause { magnitude: Some(share), count: n, ..found })
}

/// Returns the verdict for all connections, which is that of the worst direction. It has no play-out buffer and
/// no profiles, because they do not apply to TCP.
pub fn answer(r: &TcpResult) -> Answer {
    let directions = directions(r);
    let judged: Vec<&TcpDirection<'_>> = directions.iter().filter(|w| w.is_judged()).collect();
    let mut causes: Vec<Cause> = judged.iter().flat_map(|w| w.causes.iter().cloned()).collect();
    let begin = r.first.connections.iter().map(|c| c.first).min().unwrap_or(WallTime(0));
    let clocks = capture_clocks(&r.first, begin);
    let incomplete = r.first.drops > 0 || causes.iter().any(|c| c.id == CauseId::IncompleteLog);
    // The sort is stable: the worst direction stays first.
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.severity));
    causes.truncate(MAX_CAUSES.saturating_sub(clocks.len()));
    // Good causes follow: the clock comes before them, because it explains what is left out.
    let place = causes.partition_point(|cause| cause.severity > Severity::Good);
    causes.splice(place..place, clocks);
    Answer {
        complete: !incomplete,
        host: None,
        severity: judged.iter().map(|w| w.severity()).max().unwrap_or(Severity::Unknown),
        headline: if incomplete {
            format!("The capture is incomplete. {}", headline(&judged, directions.len(), &r.first))
        } else {
            headline(&judged, directions.len(), &r.first)
        },
        buffer_ns: None,
        without_clock_step: None,
        causes,
        profiles: BTreeMap::new(),
        qoo: None,
    }
}

/// Returns causes for the steps of the recording's clock that senders show. `begin` is the time from which the times of
/// causes are counted.
fn capture_clocks(point: &TcpPoint, begin: WallTime) -> Vec<Cause> {
    const MAX_NAMED: usize = 4;
    let proven = || point.recording.steps.iter().filter(|step| step.proven);
    let of_step = |step: &RecordedStep| {
        let at = (step.at - begin).0 as f64 / 1e9;
        let because = format!("{} at {at:.1} s: nothing is measured across this step", describe_step(step));
        let found = cause(CauseId::CaptureClock, Severity::Good, 0.95, because);
        Cause { from_s: at, to_s: at, magnitude_ns: Some(step.by_ns.0), ..found }
    };
    let mut causes: Vec<Cause> = proven().take(MAX_NAMED).map(of_step).collect();
    let all = proven().count();
    if let Some(last) = causes.last_mut().filter(|_| all > MAX_NAMED) {
        last.count = (all - MAX_NAMED + 1) as u64;
        last.because.push_str(&format!("; {} more such steps follow", all - MAX_NAMED));
    }
    causes
}

/// Describes the usual round trip of the path, with both sides of the capture point; empty if it is not known.
fn path_round_trip(point: &TcpPoint) -> String {
    let show = |ns: i64| below_resolution(ns, point.recording.resolution);
    let only = match &point.connections[..] {
        [only] => (only.server_rtt(), only.client_rtt()),
        _ => (None, None),
    };
    // The median of a side on which acknowledgements may be delayed is not that of the path.
    let is_delayed = |data: &DirectionFigures| {
        data.data_segments >= MIN_SEGMENTS
            && round_trip(data).is_some_and(|r| is_queued(&r, data) == Some(false))
    };
    match (point.path(), only) {
        (Some(p), _) if p.connections == 1 => format!(
            "; round trip {}: {} to the server, {} to the client{}",
            show(p.median),
            show(p.server),
            show(p.client),
            match &point.connections[..] {
                [only] if is_delayed(&only.up) || is_delayed(&only.down) =>
                    ", perhaps with delayed acknowledgements",
                _ => "",
            }
        ),
        (Some(p), _) => format!(
            "; round trips {} to {}, usually {}: {} to the server, {} to the client",
            show(p.least),
            show(p.most),
            show(p.median),
            show(p.server),
            show(p.client)
        ),
        (None, (Some(server), None)) => {
            format!("; round trip {} to the server, unknown to the client", show(server))
        }
        (None, (None, Some(client))) => {
            format!("; round trip {} to the client, unknown to the server", show(client))
        }
        _ => sides_round_trips(point),
    }
}

/// Describes the longest usual round trip on each side of the point, for connections of which only one side is known.
fn sides_round_trips(point: &TcpPoint) -> String {
    let show = |ns: i64| below_resolution(ns, point.recording.resolution);
    let most = |of: fn(&ObservedConnection) -> Option<i64>| point.connections.iter().filter_map(of).max();
    let sides = [
        (most(ObservedConnection::server_rtt), "to the servers"),
        (most(ObservedConnection::client_rtt), "to the clients"),
    ];
    let known: Vec<String> =
        sides.iter().filter_map(|(ns, to)| Some(format!("{} {to}", show((*ns)?)))).collect();
    if known.is_empty() { String::new() } else { format!("; round trips at most {}", known.join(", ")) }
}

/// Formats a time in ns; `< 10 ms` if it is below the resolution of the recording.
pub fn below_resolution(ns: i64, resolution: Option<Span>) -> String {
    match resolution.filter(|resolution| ns < resolution.0) {
        Some(resolution) => format!("< {}", time(resolution.0 as f64)),
        None => time(ns as f64),
    }
}

/// Describes a change of the path in a headline.
fn path_change(cause: &Cause) -> String {
    let by = cause.magnitude_ns.unwrap_or(0);
    let how = if by > 0 { "longer" } else { "shorter" };
    format!("the path became {} {how} at {:.1} s", time(by.saturating_abs() as f64), cause.from_s)
}

fn headline(judged: &[&TcpDirection<'_>], all: usize, point: &TcpPoint) -> String {
    let Some(worst) = judged.first() else {
        return match all {
            0 => "No verdict: no connection carried data.".to_owned(),
            _ => format!("No verdict: no connection carried {MIN_SEGMENTS} segments of data."),
        };
    };
    let severity = worst.severity();
    let name = ["Unknown", "Good", "Fair", "Poor", "Bad"][severity as usize];
    let affected = judged.iter().filter(|w| w.severity() > Severity::Good).count();
    let Some(first) = worst.causes.first().filter(|_| affected > 0) else {
        let path = path_round_trip(point);
        let causes = || judged.iter().flat_map(|w| &w.causes);
        if let Some(change) = causes().find(|c| c.id == CauseId::RouteChange) {
            let others = causes().filter(|c| c.id == CauseId::RouteChange).count() - 1;
            let more = if others > 0 { format!(" ({others} more)") } else { String::new() };
            return format!("{name}: {}{more}{path}.", path_change(change));
        }
        let losses = small_losses(judged);
        let known = judged.iter().filter(|w| w.rtt.is_some()).count();
        if known == 0 {
            let losses = losses.map_or(String::new(), |losses| format!("; {losses}"));
            return format!("No verdict: no round trip was captured, so the delay is unknown{losses}.");
        }
        // There are small delays among the causes, so the headline must not claim that nothing delayed the data.
        if causes().any(|c| matches!(c.id, CauseId::Queue | CauseId::ReceiverStall)) {
            let small = small_delays(judged);
            let losses = losses.map_or(String::new(), |losses| format!("; {losses}"));
            return format!("{name}: {small}{losses}{path}.");
        }
        if let Some(losses) = losses {
            return format!("{name}: {losses}{path}.");
        }
        let data = match (known, judged.len()) {
            (1, 1) => "the data".to_owned(),
            (1, _) => "the data in 1 direction".to_owned(),
            (n, _) => format!("data in {n} directions"),
        };
        return format!("{name}: nothing delayed {data}{path}.");
    };
    let lost = match (first.count, worst.data.data_segments) {
        (1, all @ 0..FEW_SEGMENTS) => format!("1 of {all} segments is lost"),
        (n, all @ 0..FEW_SEGMENTS) => format!("{n} of {all} segments are lost"),
        _ => format!("{} of the segments are lost", percent(first.magnitude.unwrap_or(0.0))),
    };
    let size = time(first.magnitude_ns.unwrap_or(0) as f64);
    let what = match first.id {
        CauseId::Queue => format!("data waits up to {size} in a queue"),
        CauseId::ReceiverStall => format!("the receiver did not read for {size}"),
        CauseId::RouteChange => path_change(first),
        _ => lost,
    };
    let also = worst.causes.iter().skip(1).find(|c| c.severity > Severity::Good && c.magnitude.is_some());
    let also = also.map_or(String::new(), |c| format!(", {} are lost", percent(c.magnitude.unwrap_or(0.0))));
    let others = match (affected, judged.len()) {
        (_, 1) => String::new(),
        (1, n) => format!("; no problems with the other {}", n - 1),
        (affected, n) => format!("; {affected} of {n} directions are affected"),
    };
    format!("{name}: {what}{also}, {} to {}{others}.", worst.from, worst.to)
}

/// Describes delays that are usually small. The longest ones may be far above the usual ones.
fn small_delays(judged: &[&TcpDirection<'_>]) -> String {
    let is_long = |c: &Cause| {
        c.id == CauseId::Queue && c.magnitude_ns.is_some_and(|most| of_wait(most) > Severity::Good)
    };
    let long = judged.iter().filter(|w| w.causes.iter().any(is_long));
    match long.filter_map(|w| w.rtt).map(|r| r.p95).max() {
        Some(p95) => {
            format!("usually only small delays, but 5 % of the round trips took {} or more", time(p95 as f64))
        }
        None => "only small delays".to_owned(),
    }
}

/// Describes losses that are not a problem, with the longest repair. `None` without losses.
fn small_losses(judged: &[&TcpDirection<'_>]) -> Option<String> {
    let is_loss = |c: &&Cause| matches!(c.id, CauseId::RandomLoss | CauseId::BurstyLoss);
    let lossy = || judged.iter().filter_map(|w| Some((w, w.causes.iter().find(is_loss)?.count)));
    let lost: u64 = lossy().map(|(_, lost)| lost).sum();
    let longest = lossy().map(|(w, _)| w.data.longest_wait_ns.0).max()?;
    let repair = match longest {
        0 => String::new(),
        longest => format!(", the longest repair took {}", time(longest as f64)),
    };
    Some(format!("{} lost{repair}", count(lost, "segment")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn rtt(min: i64, median: i64) -> Option<SpreadFigures> {
        let [p05, p25, p75, p99] = [min, min, median, 2 * median];
        let (p95, max, mean) = (2 * median, 2 * median, median as f64);
        Some(SpreadFigures { count: 1000, min, p05, p25, median, mean, p75, p95, p99, max })
    }

    fn data(segments: u64) -> DirectionFigures {
        DirectionFigures {
            data_segments: segments,
            unique_bytes: 1000 * segments,
            rtt_timestamp_ns: rtt(20 * MS, 21 * MS),
            ..DirectionFigures::default()
        }
    }

    fn connection(k: u8, up: DirectionFigures, down: DirectionFigures) -> ObservedConnection {
        ObservedConnection {
            client: SocketAddr::from(([192, 0, 2, k], 5000)),
            server: SocketAddr::from(([198, 51, 100, 7], 443)),
            first: WallTime(i64::from(k) * 1000 * MS),
            last: WallTime(i64::from(k) * 1000 * MS + 10_000 * MS),
            handshake_server_ns: None,
            handshake_client_ns: None,
            up,
            down,
        }
    }

    fn of(connections: Vec<ObservedConnection>) -> TcpResult {
        TcpResult { first: TcpPoint { connections, ..TcpPoint::default() }, ..TcpResult::default() }
    }

    fn one(change: impl FnOnce(&mut DirectionFigures, &mut DirectionFigures)) -> Answer {
        let (mut up, mut down) = (data(1000), DirectionFigures::default());
        change(&mut up, &mut down);
        answer(&of(vec![connection(0, up, down)]))
    }

    #[test]
    fn nothing_wrong_is_said_with_the_round_trip() {
        let fine = one(|_, _| ());
        assert_eq!((fine.severity, fine.causes.len(), fine.complete), (Severity::Good, 0, true));
        assert_eq!(
            fine.headline,
            "Good: nothing delayed the data; round trip 21 ms to the server, unknown to the client."
        );
        let few = one(|up, _| up.data_segments = 9);
        assert_eq!(
            (few.severity, &*few.headline),
            (Severity::Unknown, "No verdict: no connection carried 10 segments of data.")
        );
        assert_eq!(answer(&of(Vec::new())).headline, "No verdict: no connection carried data.");
    }

    #[test]
    fn without_round_trips_the_delay_is_unknown() {
        let unseen = one(|up, _| (up.rtt_timestamp_ns, up.lost_after, up.retransmissions) = (None, 1, 1));
        assert_eq!((unseen.severity, unseen.causes.len()), (Severity::Unknown, 1));
        assert_eq!(
            unseen.headline,
            "No verdict: no round trip was captured, so the delay is unknown; 1 segment lost."
        );
    }

    #[test]
    fn a_round_trip_with_delayed_acknowledgements_is_not_the_paths() {
        let of_down = |median: i64| {
            one(|_, down| *down = DirectionFigures { rtt_timestamp_ns: rtt(10_000, median), ..data(1000) })
                .headline
        };
        assert!(of_down(40 * MS).ends_with("40 ms to the client, perhaps with delayed acknowledgements."));
        assert!(of_down(15_000).ends_with(" to the client."));
    }

    #[test]
    fn repairs_and_rare_long_delays_are_not_called_nothing() {
        let repaired = one(|up, _| {
            (up.lost_after, up.retransmissions, up.fast, up.longest_wait_ns) = (1, 1, 1, Span(32 * MS));
        });
        assert_eq!(repaired.severity, Severity::Good);
        assert!(repaired.headline.starts_with("Good: 1 segment lost, the longest repair took 32 ms; round"));
        let rare = |p95: i64| {
            one(|up, _| up.rtt_timestamp_ns = rtt(22 * MS, 60 * MS).map(|r| SpreadFigures { p95, ..r }))
                .headline
        };
        assert!(
            rare(610 * MS).contains("but 5 % of the round trips took 610 ms or more"),
            "{}",
            rare(610 * MS)
        );
        assert!(rare(70 * MS).starts_with("Good: only small delays; "), "{}", rare(70 * MS));
    }

    #[test]
    fn a_queue_and_its_losses_are_named() {
        let queued = one(|up, _| {
            up.rtt_timestamp_ns = rtt(20 * MS, 2000 * MS);
            (up.lost_after, up.retransmissions, up.fast) = (41, 41, 41);
        });
        assert_eq!(queued.severity, Severity::Bad);
        assert_eq!(
            queued.headline,
            "Bad: data waits up to 4.0 s in a queue, 4.1 % are lost, 192.0.2.0:5000 to 198.51.100.7:443."
        );
        let ids: Vec<&str> = queued.causes.iter().map(|c| c.id.name()).collect();
        assert_eq!(ids, ["queue", "random-loss"]);
        let first = &queued.causes[0];
        assert_eq!((first.direction, first.from_s, first.to_s), (Some(Direction::Up), 0.0, 10.0));
        assert!(
            queued.causes[1]
                .because
                .ends_with("lost after this point: most were repaired by fast retransmissions")
        );
    }

    #[test]
    fn a_loss_among_few_segments_is_counted() {
        let of = |all: u64, lost: u64| {
            one(|up, _| {
                (up.data_segments, up.lost_after, up.retransmissions, up.fast) = (all, lost, lost, lost);
            })
        };
        let few = of(20, 4);
        assert!(few.headline.contains(": 4 of 20 segments are lost, "), "{}", few.headline);
        assert_eq!(few.causes[0].confidence, 0.6);
        assert!(of(200, 40).headline.contains(": 20.0 % of the segments are lost, "));
    }

    #[test]
    fn a_round_trip_may_be_a_delayed_acknowledgement() {
        // At most two segments are in flight, so that an acknowledgement may be delayed by half a second.
        let single =
            |median: i64| one(|up, _| (up.rtt_timestamp_ns, up.max_in_flight) = (rtt(MS, median * MS), 1000));
        assert_eq!((single(300).severity, single(300).causes[0].confidence), (Severity::Fair, 0.5));
        assert_eq!(single(700).causes[0].confidence, 0.9);
        let maybe = one(|up, _| up.rtt_timestamp_ns = rtt(20 * MS, 190 * MS));
        assert_eq!((maybe.severity, maybe.causes[0].confidence), (Severity::Fair, 0.5));
        assert!(maybe.causes[0].because.contains("delayed acknowledgements"));
        assert!(one(|up, _| up.rtt_timestamp_ns = rtt(20 * MS, 39 * MS)).causes.is_empty());
    }

    #[test]
    fn windows_that_close_are_the_receivers() {
        let closed = |ns: i64| one(|_, down| (down.zero_windows, down.zero_window_ns) = (3, Span(ns)));
        assert!(closed(99 * MS).causes.is_empty());
        let stalled = closed(4000 * MS);
        assert_eq!((stalled.causes[0].id, stalled.severity), (CauseId::ReceiverStall, Severity::Fair));
        assert!(stalled.headline.starts_with("Fair: the receiver did not read for 4.0 s, 192.0.2.0:5000"));
        // A full window is normal: it does not mean that the receiver stopped reading.
        assert!(one(|up, _| up.window_full_ns = Span(9000 * MS)).causes.is_empty());
    }

    #[test]
    fn what_a_capture_missed_is_not_lost() {
        let gaps = one(|up, _| up.unfilled_gaps = 7);
        assert_eq!((gaps.complete, gaps.severity), (false, Severity::Good));
        assert!(gaps.headline.starts_with("The capture is incomplete. Good: nothing delayed the data"));
        assert_eq!(gaps.causes[0].id, CauseId::IncompleteLog);
        let odd = one(|up, _| (up.out_of_order, up.duplicates) = (5, 4));
        assert_eq!(odd.causes.iter().map(|c| c.id).collect::<Vec<_>>(), [CauseId::Reordering]);
        assert_eq!(odd.severity, Severity::Good);
    }

    #[test]
    fn the_worst_way_comes_first() {
        let mut lossy = data(100);
        (lossy.lost_before, lossy.timeouts, lossy.retransmissions) = (20, 20, 20);
        lossy.longest_wait_ns = Span(800 * MS);
        let r =
            of(vec![connection(1, data(5000), data(50)), connection(2, lossy, DirectionFigures::default())]);
        let directions = directions(&r);
        assert_eq!(directions.iter().map(|w| w.data.data_segments).collect::<Vec<_>>(), [100, 5000, 50]);
        let answer = answer(&r);
        assert_eq!(
            answer.headline,
            "Bad: 20.0 % of the segments are lost, 192.0.2.2:5000 to 198.51.100.7:443; no problems with the other 2."
        );
        assert_eq!((answer.causes[0].id, answer.causes[0].from_s), (CauseId::BurstyLoss, 1.0));
        assert!(answer.causes[0].because.contains("the longest repair took 800 ms"));
    }
}
