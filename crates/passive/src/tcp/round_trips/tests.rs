use super::*;
use crate::testing::MS;

/// Round trips to a receiver that acknowledges data without sending any.
fn bounded() -> RoundTrips {
    let mut r = RoundTrips::default();
    r.bound();
    r
}

fn at(ms: i64) -> WallTime {
    WallTime(ms * MS)
}

#[test]
fn the_first_segment_with_a_timestamp_and_its_first_echo_count() {
    let mut r = bounded();
    r.note_sent(at(0), 7);
    r.note_sent(at(5), 7);
    r.note_sent(at(6), 8);
    r.note_echo(at(30), 7, false);
    assert_eq!(r.learnt_at(at(30)), [None, Some(Span(30 * MS))]);
    r.note_echo(at(40), 7, false);
    assert_eq!(r.learnt_at(at(40)), [None; 2], "a second echo measures nothing");
    r.note_echo(at(41), 8, false);
    assert_eq!(r.learnt_at(at(41)), [None, Some(Span(35 * MS))]);
    assert_eq!(r.figures().map(|f| f.map(|f| (f.count, f.min, f.max))), [None, Some((2, 30 * MS, 35 * MS))]);
}

#[test]
fn an_echo_ends_the_wait_for_those_sent_before() {
    let mut r = bounded();
    (0..3).for_each(|n| r.note_sent(at(n), n as u32));
    r.note_echo(at(10), 1, false);
    r.note_echo(at(11), 0, false);
    assert_eq!(r.learnt_at(at(11)), [None; 2]);
    r.note_echo(at(12), 2, false);
    assert_eq!(r.learnt_at(at(12)), [None, Some(Span(10 * MS))]);
}

#[test]
fn timestamps_that_wait_for_their_echo_are_bounded() {
    let echoed = |sent: usize| {
        let mut r = bounded();
        (0..sent as u32).for_each(|n| r.note_sent(at(0), n));
        r.note_echo(at(9), 0, false);
        r.learnt_at(at(9))[1].is_some()
    };
    assert!(echoed(MAX_PENDING_ECHOES) && !echoed(MAX_PENDING_ECHOES + 1));
}

#[test]
fn acknowledgements_are_kept_apart_from_timestamps() {
    let mut r = bounded();
    assert_eq!((r.least(), r.learnt_at(at(0))), (None, [None; 2]));
    r.note_acknowledged(at(50), at(20), false);
    assert_eq!((r.learnt_at(at(50)), r.learnt_at(at(51))), ([Some(Span(30 * MS)), None], [None; 2]));
    r.note_sent(at(60), 1);
    r.note_echo(at(80), 1, false);
    r.note_acknowledged(at(90), at(65), false);
    assert_eq!(r.least(), Some(Span(20 * MS)));
    assert_eq!(
        r.figures().map(|f| f.map(|f| (f.count, f.min, f.max))),
        [Some((2, 25 * MS, 30 * MS)), Some((1, 20 * MS, 20 * MS))]
    );
}

#[test]
fn a_timeout_follows_rfc_6298() {
    let mut r = bounded();
    assert_eq!(r.timeout(), Span(200 * MS), "nothing measured yet");
    r.note_acknowledged(at(1), at(0), false);
    assert_eq!(r.timeout(), Span(180 * MS), "not much shorter than the smallest in use");
    let mut r = bounded();
    // Smoothed round trips of 1.0, 1.1 and 1.0 s; variations of 0.5, 0.575 and 0.63125 s.
    for (rtt, timeout) in [(1000, 2_700), (1800, 3_060), (300, 3_172)] {
        r.note_acknowledged(at(rtt), at(0), false);
        assert!((r.timeout().0 - timeout * MS).abs() < MS, "{:?}", r.timeout());
    }
}

#[test]
fn what_no_acknowledgement_bounds_is_no_round_trip() {
    let mut r = RoundTrips::default();
    r.note_acknowledged(at(20), at(0), true);
    r.note_acknowledged(at(100), at(70), false);
    r.note_sent(at(110), 1);
    r.note_echo(at(130), 1, false);
    let opening = |r: &RoundTrips| r.figures().map(|f| f.map(|f| (f.count, f.median)));
    assert_eq!(opening(&r), [Some((1, 20 * MS)), None], "the handshake alone");
    r.bound();
    assert_eq!(r.figures().map(|f| f.map(|f| f.count)), [Some(2), Some(1)]);
}

#[test]
fn negative_times_and_those_above_any_timeout_are_no_round_trips() {
    let of = |first: Option<i64>, rtt: i64| {
        let mut r = bounded();
        first.into_iter().for_each(|ms| r.note_acknowledged(at(ms), at(0), false));
        r.note_acknowledged(at(50_000 + rtt), at(50_000), false);
        r.figures()[0].map_or(0, |f| f.count) > u64::from(first.is_some())
    };
    assert_eq!([-1, 0, 3000, 3001].map(|rtt| of(None, rtt)), [false, true, true, false]);
    assert_eq!([1000, 1001].map(|rtt| of(Some(22), rtt)), [true, false]);
    // The timeout of a sender with round trips of a second is longer: twice (1 s + 4 x 0.5 s).
    assert_eq!([6000, 6001].map(|rtt| of(Some(1000), rtt)), [true, false]);
}
