use super::*;
use crate::testing::{MS, first};
use jitlat_core::time::{SECOND, Span, WallTime};

fn spread(count: u64, min: i64, median: i64) -> Option<SpreadFigures> {
    Some(SpreadFigures {
        count,
        min,
        p05: min,
        p25: min,
        median,
        mean: median as f64,
        p75: median,
        p95: median,
        p99: median,
        max: median,
    })
}

/// A connection of 10 s.
fn connection(up: DirectionFigures, down: DirectionFigures) -> ObservedConnection {
    ObservedConnection {
        client: "10.0.0.1:40000".parse().unwrap(),
        server: "10.0.0.2:80".parse().unwrap(),
        first: WallTime(SECOND),
        last: WallTime(11 * SECOND),
        handshake_server_ns: None,
        handshake_client_ns: None,
        up,
        down,
    }
}

fn data(data_segments: u64) -> DirectionFigures {
    DirectionFigures { segments: data_segments.max(1), data_segments, ..DirectionFigures::default() }
}

#[test]
fn ten_segments_are_enough_to_conclude_from() {
    let lines = |up, down| explain_delays(&connection(data(up), data(down)), None);
    assert_eq!(first(0..=100, |n| !lines(n as u64, 0).is_empty()), 10);
    assert_eq!(
        lines(10, 0),
        [
            "from client: no segment was retransmitted",
            "from client: the receiver's window never limited the data"
        ]
    );
    assert!(lines(0, 10).iter().all(|line| line.starts_with("from server: ")));
}

#[test]
fn without_segments_of_the_receiver_its_window_is_unknown() {
    let lines = explain_delays(&connection(data(10), DirectionFigures::default()), None);
    assert!(lines[1].starts_with("from client: the receiver's window is unknown"), "{lines:?}");
}

#[test]
fn a_window_that_the_peer_closed_holds_this_side_up() {
    let closed = DirectionFigures { zero_windows: 2, zero_window_ns: Span(SECOND), ..data(0) };
    let full = DirectionFigures { window_full_ns: Span(SECOND), ..data(10) };
    let line = explain_delays(&connection(full.clone(), closed), None).pop().unwrap();
    assert_eq!(
        line,
        "from client: the receiver's window was full or closed (2 times) for 2.00 s (20.0 % of the time)"
    );
    let line = explain_delays(&connection(data(0), full), None).pop().unwrap();
    assert_eq!(line, "from server: the receiver's window was full for 1.00 s (10.0 % of the time)");
}

#[test]
fn timestamps_are_preferred_unless_they_are_few() {
    let of = |timestamp, ack| {
        let data = DirectionFigures { rtt_timestamp_ns: timestamp, rtt_ack_ns: ack, ..data(10) };
        round_trip(&data).map(|r| r.min)
    };
    assert_eq!(first(0..=20, |n| of(spread(n as u64, 1, 1), spread(10, 2, 2)) == Some(1)), 5);
    assert_eq!(
        (of(None, spread(9, 2, 2)), of(spread(1, 1, 1), None), of(None, None)),
        (Some(2), Some(1), None)
    );
}

fn path_of(min: i64, median: i64, variation: Option<i64>) -> String {
    let between = DirectionBetween { delay_variation_median_ns: variation, ..DirectionBetween::default() };
    path(&DirectionFigures { rtt_ack_ns: spread(9, min, median), ..data(10) }, Some(&between)).unwrap()
}

#[test]
fn a_queue_is_what_exceeds_the_idle_round_trip() {
    let says = |min, text: &'static str| move |median| path_of(min, median, None).contains(text);
    // Above the idle round trip, above 5 ms, and from 200 ms on more than a delayed acknowledgement.
    assert_eq!(first(10 * MS..=200 * MS, says(10 * MS, "a queue on the path, or")), 20 * MS + 1);
    assert_eq!(first(MS..=100 * MS, says(MS, "a queue on the path, or")), 6 * MS + 1);
    assert_eq!(first(10 * MS..=900 * MS, says(10 * MS, "the path contributes most")), 210 * MS);
    assert_eq!(first(300 * MS..=900 * MS, says(300 * MS, "the path contributes most")), 600 * MS + 1);
    assert_eq!(
        path_of(10 * MS, 310 * MS, None),
        "the path contributes most: minimum round trip 10.0 ms, median 310 ms: a queue of 300 ms"
    );
    assert_eq!(
        path_of(10 * MS, 11 * MS, None),
        "the path adds little: minimum round trip 10.0 ms, median 11.0 ms"
    );
    assert!(
        path_of(10 * MS, 30 * MS, None).starts_with("minimum round trip 10.0 ms, median 30.0 ms: a queue")
    );
}

#[test]
fn a_queue_is_divided_among_what_lies_between_the_points_and_the_rest() {
    let share = |variation, median| path_of(10 * MS, median, Some(variation));
    assert!(share(100 * MS, 210 * MS).ends_with("; 50 % of the difference between the two points"));
    assert!(share(900 * MS, 210 * MS).ends_with("; 100 % of the difference between the two points"));
    assert!(!share(100 * MS, 210 * MS - 1).contains("between the two points"));
}

#[test]
fn what_was_sent_again_is_counted_with_its_waits() {
    let of = |change: fn(&mut DirectionFigures), lost| {
        let mut data = DirectionFigures { retransmissions: 3, ..data(30) };
        change(&mut data);
        let between = DirectionBetween { lost_between: lost, ..DirectionBetween::default() };
        retransmissions(&data, Some(&between)).unwrap()
    };
    assert_eq!(of(|d| d.retransmissions = 0, 5), "no segment was retransmitted");
    assert_eq!(of(|_| (), 0), "3 segments (10.0 %) retransmitted");
    assert_eq!(
        of(|d| (d.fast, d.fast_wait_ns, d.longest_wait_ns) = (1, Span(1), Span(1)), 0),
        "3 segments (10.0 %) retransmitted after 1 ns on average, 1 ns at most"
    );
    let waits = |d: &mut DirectionFigures| {
        (d.fast, d.fast_wait_ns, d.timeouts, d.timeout_wait_ns) = (2, Span(20 * MS), 1, Span(40 * MS));
        (d.longest_wait_ns, d.spurious) = (Span(40 * MS), 1);
    };
    assert_eq!(
        of(waits, 1),
        "3 segments (10.0 %) retransmitted after 20.0 ms on average, 40.0 ms at most, 1 of them unnecessarily; \
         1 packet lost between the two points"
    );
}
