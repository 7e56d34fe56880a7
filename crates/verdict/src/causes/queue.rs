//! Rule for queues on the path: packets wait behind others.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::sentences::causes::{held_back, path_hold, queue_with_drops, standing_queue};
use crate::severity::{level_of_missing, of_wait};
use crate::tcp_limits::TcpHold;
use jitlat_core::answer::{CauseId, Severity};
use jitlat_core::spec::Direction;

pub const RULE: CauseRule = CauseRule {
    id: CauseId::Queue,
    threshold: "every packet waits 5 ms or longer, and three times as long as 99 of 100 other packets, for 0.4 s \
                (5 % of a short test); or, for 30 ms and eight packets or more, delays rise and fall gradually by \
                six times the 90th percentile of the differences between neighbouring packets, and by more than \
                single packets wait elsewhere; or the medians of groups of packets rise and fall three times by \
                1.25 times that percentile; in each case by more than the slots of a link explain; or the smallest \
                delay of the test exceeds, by 12 ms, the delay that the clock probes allow for an idle path; \
                over TCP it is the connection's (`limited_by`) if, for a quarter of the time, the kernel reports that \
                the receive window or the send buffer limits it, or data waits although a full congestion window is \
                in flight and nothing was retransmitted",
    source: "ITU-T Y.1541 (50 ms of delay variation), G.114 (150 and 400 ms)",
    find,
};

/// Returns the severity of a queue of `height` ns in which the share `share` of the packets waited.
pub(crate) fn of_queue(height: i64, share: f64) -> Severity {
    let most = match share {
        ..MAX_RARE_SHARE => Severity::Fair,
        // To a listener, a packet that waits is at worst as bad as a lost one.
        share => level_of_missing(share).max(Severity::Fair),
    };
    of_wait(height).min(most)
}

/// Maximum usual length of a link's slots, in ns.
const MAX_USUAL_SLOT_NS: i64 = 12_000_000;
/// Share of waiting packets below which a queue is at worst fair, because a listener hardly notices it.
const MAX_RARE_SHARE: f64 = 0.01;

fn find(case: &Case<'_>) -> Vec<FoundCause> {
    if let Some(standing) = standing(case) {
        return vec![standing];
    }
    let n = case.delays.len().max(1) as f64;
    let queues = case.episodes.queues.iter().map(|q| {
        let share = (q.to - q.from) as f64 / n;
        let severity = of_queue(q.height, share);
        let [from, to] = [q.from, q.to].map(|place| case.stream_seconds_at(place));
        let why = queue_with_drops(from, to, q.height, case.dropped_by_queue);
        let mut found = FoundCause::of(CauseId::Queue, severity, share * (q.height as f64 / 100e6), 0.95)
            .places(case, q.from, q.to)
            .ns(q.height)
            .because(why);
        found.cause.count = q.count;
        held_by_tcp(found, case.tcp_hold(case.seconds_at(q.from), case.seconds_at(q.to)), [from, to])
    });
    let mut found: Vec<FoundCause> = queues.collect();
    found.extend(pauses(case));
    found.extend(tcp_holds(case));
    found.sort_by(|a, b| a.cause.from_s.total_cmp(&b.cause.from_s));
    found
}

/// Attributes `found` to the TCP connection, if `hold` shows that its packets waited in the sending host. `times`: start and
/// end in the stream, in seconds.
fn held_by_tcp(mut found: FoundCause, hold: Option<TcpHold>, times: [f64; 2]) -> FoundCause {
    let Some(hold) = hold else { return found };
    found.cause.limited_by = Some(hold.limit);
    let height = found.cause.magnitude_ns.unwrap_or(0);
    found.because(held_back(hold, times, height))
}

/// Returns a cause for each time during which a TCP connection, because of one of its own limits, delivered nothing or
/// accepted nothing from the program.
fn tcp_holds(case: &Case<'_>) -> Vec<FoundCause> {
    let n = case.delays.len().max(1) as f64;
    let found = |from: usize, to: usize, length: i64, at_s: f64, hold: TcpHold| {
        let share = (to - from) as f64 / n;
        let found =
            FoundCause::of(CauseId::Queue, of_queue(length, share), share * (length as f64 / 100e6), 0.9)
                .places(case, from, to)
                .ns(length);
        held_by_tcp(found, Some(hold), [at_s, at_s + length as f64 / 1e9].map(|s| case.begin.of(s)))
    };
    let delivered = super::outage::tcp_pauses(case).into_iter().filter_map(|(hold, limit)| {
        Some(found(hold.from, hold.to, hold.length, case.seconds_at(hold.from), limit?))
    });
    let accepted = case.held_by_tcp.iter().map(|(stall, limit)| {
        let at = (case.seconds_at(stall.from) - stall.length as f64 / 1e9).max(0.0);
        found(stall.from, stall.to, stall.length, at, *limit)
    });
    delivered.chain(accepted).collect()
}

/// Returns a cause for each hold by the path itself. The holds are proven by the receiving kernel's stamps.
fn pauses(case: &Case<'_>) -> Vec<FoundCause> {
    let n = case.delays.len().max(1) as f64;
    let holds = case.path_holds();
    let pauses = holds.iter().map(|h| {
        let share = (h.to - h.from) as f64 / n;
        let severity = of_queue(h.length, share);
        let why = path_hold(case.stream_seconds_at(h.from), h.length);
        FoundCause::of(CauseId::Queue, severity, share * (h.length as f64 / 100e6), 0.9)
            .places(case, h.from, h.to)
            .ns(h.length)
            .because(why)
    });
    pauses.collect()
}

/// Returns the cause for a queue that never empties: the smallest delay of the stream exceeds the delay that an idle
/// path can have.
fn standing(case: &Case<'_>) -> Option<FoundCause> {
    let clock = case.material.clock;
    if !clock.direction_known {
        return None;
    }
    let up = case.material.session.spec.direction() == Direction::Up;
    let [low, high] = offsets(case)?;
    let rtt = clock.min_rtt_ns.filter(|r| *r >= 0)?;
    let min = case.material.min()?;
    // Lower bound of the smallest delay. It is compared with the largest possible delay of an idle direction, which is
    // the whole round trip.
    let least = if up { min.saturating_sub(high) } else { min.saturating_add(low) };
    let proven = least.saturating_sub(rtt / 2);
    // All packets may wait for a slot of a link.
    if proven < MAX_USUAL_SLOT_NS || least < rtt.saturating_add(rtt / 4) {
        return None;
    }
    let usual = case.delays.quantile(0, case.delays.len(), 0.5)? - case.delays.excess(0);
    let first = case.material.series.times(0).1;
    // The first packet was sent soon after the first probes, so their offset applies to it.
    let before = clock.offset_before_ns.filter(|_| clock.interval_ns.is_none() || case.clock_drift() != 0);
    let offset = before.map(|ns| ns as i64).or(clock.offset_ns)?;
    let height =
        first.saturating_add(usual).saturating_sub(if up { offset } else { offset.saturating_neg() });
    let height = height.saturating_sub(rtt / 2);
    let why = standing_queue(least, rtt);
    let found = FoundCause::of(CauseId::Queue, of_wait(height), height as f64 / 100e6, 0.95);
    Some(FoundCause { whole_test: true, ..found.whole(case).ns(height).because(why) })
}

/// Returns the range of the clock offset during the stream, in ns; `None` if it is unknown. If the clocks drift, there
/// may be no single offset that fits all probes. The range then extends from the offset before the stream to the offset
/// after it.
fn offsets(case: &Case<'_>) -> Option<[i64; 2]> {
    let clock = case.material.clock;
    if let Some(interval) = clock.interval_ns.filter(|_| case.clock_drift() == 0) {
        return Some(interval);
    }
    let at = |offset: Option<f64>, rtt: Option<i64>| {
        let (offset, half) = (offset? as i64, rtt.filter(|r| *r >= 0)? / 2 + 1);
        Some([offset.saturating_sub(half), offset.saturating_add(half)])
    };
    let [a, b] = at(clock.offset_before_ns, clock.min_rtt_before_ns)?;
    let [c, d] = at(clock.offset_after_ns, clock.min_rtt_after_ns)?;
    Some([a.min(c), b.max(d)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episodes::{Episode, Hold};
    use crate::testing::{MS, Test, every, first, found_in, quiet};
    use jitlat_core::metrics::clock::ClockEstimate;
    use jitlat_core::spec::{Direction, Schedule, Transport};
    use jitlat_core::time::StampSource;

    /// Cause of a queue that delays the packets `from` up to but not including `to`, of 1000.
    fn of(from: usize, to: usize, height: i64, dropped: u64) -> FoundCause {
        let queue = Episode { from, to, height, count: 3 };
        let found = found_in(&quiet(), &RULE, |case| {
            (case.episodes.queues, case.dropped_by_queue) = (vec![queue], dropped);
        });
        found.into_iter().next().unwrap()
    }

    #[test]
    fn a_queue_is_described() {
        let found = of(200, 300, 80 * MS, 0);
        let cause = &found.cause;
        assert_eq!((cause.from_s, cause.to_s, cause.packets, cause.count), (2.0, 3.0, [200, 299], 3));
        assert_eq!((cause.magnitude_ns, found.harm), (Some(80 * MS), 0.1 * 0.8));
        assert_eq!(cause.because, "packets waited up to 80 ms in a queue, from 2.0 s to 3.0 s");
        assert!(
            of(200, 300, 80 * MS, 7).cause.because.ends_with("to 3.0 s; it was full and dropped 7 packets")
        );
    }

    #[test]
    fn packets_that_wait_are_no_worse_than_lost_ones() {
        let severity = |packets: usize| of(200, 200 + packets, 200 * MS, 0).cause.severity;
        assert_eq!([30, 31].map(severity), [Severity::Fair, Severity::Poor]);
    }

    #[test]
    fn what_the_kernel_saw_held_the_path_held() {
        let of = |by, packets: usize| {
            let test = Test { arrived_by: by, ..quiet() };
            let hold = Hold { from: 200, to: 200 + packets, length: 200 * MS };
            found_in(&test, &RULE, |case| case.episodes.holds = vec![hold])
        };
        assert!(of(Some(StampSource::User), 20).is_empty() && of(None, 20).is_empty());
        let found = of(Some(StampSource::Kernel), 20).remove(0);
        assert_eq!((found.cause.packets, found.cause.magnitude_ns), ([200, 219], Some(200 * MS)));
        assert!((found.harm - 0.02 * 2.0).abs() < 1e-12);
        assert!(
            found
                .cause
                .because
                .starts_with("the path delivered nothing for 200 ms at 2.0 s, then everything at once")
        );
        let severity = |packets| of(Some(StampSource::Kernel), packets).remove(0).cause.severity;
        assert_eq!([30, 31].map(severity), [Severity::Fair, Severity::Poor]);
    }

    /// Cause found in packets with this smallest delay, between clocks that are 1 s ± 1 ms apart; the probes took `rtt`.
    fn standing_queue(
        direction: Direction,
        delay: i64,
        rtt: i64,
        change: fn(&mut ClockEstimate),
    ) -> Option<FoundCause> {
        let theta = 1000 * MS;
        let offset = if direction == Direction::Up { theta } else { -theta };
        let packets = every(10 * MS, 1000, |k| Some(offset + delay + i64::from((k + 3) % 10) * MS));
        let mut test = Test::with(1000, 10 * MS, &packets, Schedule::Periodic, (direction, Transport::Udp));
        test.clock = ClockEstimate {
            direction_known: true,
            interval_ns: Some([theta - MS, theta + MS]),
            offset_ns: Some(theta),
            min_rtt_ns: Some(rtt),
            ..ClockEstimate::default()
        };
        change(&mut test.clock);
        found_in(&test, &RULE, |_| ()).into_iter().find(|f| f.whole_test)
    }

    #[test]
    fn a_queue_that_never_empties_is_more_than_an_idle_path_can_take() {
        for direction in [Direction::Up, Direction::Down] {
            let of = |delay, rtt| standing_queue(direction, delay, rtt, |_| ()).is_some();
            // The delay less the clocks' error of 1 ms must exceed half the round trip by 12 ms and the whole by a quarter.
            assert_eq!(first(0..=100 * MS, |ns| of(ns, 2 * MS)), 14 * MS);
            assert_eq!(first(0..=100 * MS, |ns| of(ns, 40 * MS)), 51 * MS);
            let found = standing_queue(direction, 101 * MS, 40 * MS, |_| ()).unwrap();
            assert_eq!(
                found.cause.because,
                "every packet took at least 100 ms one way, although clock probes before and after the test took 40 ms \
                 for a round trip: a queue that never empties"
            );
            // The median delay is 106 ms, 20 ms of which are the path's own.
            assert_eq!((found.cause.magnitude_ns, found.cause.packets), (Some(86 * MS), [0, 999]));
            assert!((found.harm - 0.86).abs() < 1e-9);
            assert_eq!(found.cause.severity, Severity::Fair);
        }
    }

    #[test]
    fn without_clocks_no_queue_stands() {
        let of = |change| standing_queue(Direction::Up, 101 * MS, 40 * MS, change).is_some();
        assert!(of(|_| ()));
        assert!(!of(|c| c.direction_known = false));
        assert!(!of(|c| c.interval_ns = None));
        assert!(
            !of(|c| c.min_rtt_ns = None)
                && !of(|c| c.min_rtt_ns = Some(-1))
                && of(|c| c.min_rtt_ns = Some(0))
        );
        let mut skewed = quiet();
        skewed.clock = ClockEstimate {
            direction_known: true,
            interval_ns: Some([-MS, MS]),
            offset_ns: Some(0),
            min_rtt_ns: Some(MS),
            ..ClockEstimate::default()
        };
        let standing = |skew| !found_in(&skewed, &RULE, |case| case.skew = skew).is_empty();
        assert!(standing(None) && !standing(Some(1e-5)));
    }
}
