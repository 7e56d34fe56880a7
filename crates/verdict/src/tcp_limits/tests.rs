use super::*;
use crate::testing::{MS, SECOND, Test, packets, verdict_on};
use jitlat_core::answer::{Answer, CauseId};
use jitlat_core::spec::{Direction, Schedule, Transport};
use jitlat_core::time::Span;

/// Moments every 100 ms for 20 s; `change` sets the state at each second.
fn moments(change: impl Fn(f64, &mut TcpMoment)) -> Vec<TcpMoment> {
    let mut last = TcpMoment { window: 10, round_trip_us: 3_200_000, ..TcpMoment::default() };
    let at = |k: i64| {
        let mut moment = TcpMoment { at: Span::millis(100 * k), ..last };
        change(k as f64 / 10.0, &mut moment);
        last = moment;
        moment
    };
    (0..=200).map(at).collect()
}

/// Slow start on a path with a round trip of 3.2 s, until 12 s: the window doubles with each round trip.
fn slow_start() -> Vec<TcpMoment> {
    moments(|at, m| {
        m.window = 10 << ((at / 3.2) as u32);
        (m.slow_start, m.unacknowledged) = (true, m.window);
        m.unsent = if at < 12.0 { 4000 } else { 0 };
    })
}

/// Verdict on a TCP test of 1000 packets of 80 bytes, one every 20 ms, over 1.6 s: until 12 s each packet waits for the end
/// of the round trip in which it was sent.
fn on_a_long_path(moments: Vec<TcpMoment>) -> Answer {
    let times = (0..1000_i64).map(|k| {
        let sent = k * 20 * MS;
        let round = 3200 * MS;
        let waits = if sent < 12 * SECOND { round - sent % round } else { 0 };
        (sent, 1600 * MS + waits)
    });
    let mut test =
        Test::with(1000, 20 * MS, &packets(times), Schedule::Periodic, (Direction::Up, Transport::Tcp));
    test.session.tcp = moments;
    verdict_on(&test)
}

#[test]
fn the_kernel_shows_the_limit_of_a_connection() {
    let limit = |moments: &[TcpMoment], from, to| between(moments, from, to).map(|hold| hold.limit);
    assert_eq!(limit(&slow_start(), 1.0, 9.0), Some(TcpLimit::SlowStart));
    assert_eq!(limit(&slow_start(), 14.0, 18.0), None);
    let hold = between(&slow_start(), 0.0, 9.0).unwrap();
    assert_eq!((hold.windows, hold.round_trip_us), ([10, 40], 3_200_000));
    let full = moments(|_, m| (m.unacknowledged, m.unsent) = (10, 900));
    assert_eq!(limit(&full, 1.0, 9.0), Some(TcpLimit::CongestionWindow));
    let lossy = moments(|at, m| (m.unacknowledged, m.unsent, m.retransmissions) = (10, 900, at as u32));
    assert_eq!(limit(&lossy, 1.0, 9.0), None, "packets wait for repairs");
    let closed = moments(|at, m| m.receive_window_us = if at > 5.0 { ((at - 5.0) * 1e6) as u64 } else { 0 });
    assert_eq!([limit(&closed, 1.0, 3.0), limit(&closed, 6.0, 8.0)], [None, Some(TcpLimit::ReceiveWindow)]);
    let buffer = moments(|at, m| m.send_buffer_us = (at * 4e5) as u64);
    assert_eq!(limit(&buffer, 6.0, 8.0), Some(TcpLimit::SendBuffer));
    assert_eq!([limit(&[], 0.0, 1.0), limit(&full[..1], 0.0, 1.0)], [None; 2]);
}

#[test]
fn slow_start_on_a_long_path_is_not_a_queue_of_the_path() {
    let without = on_a_long_path(Vec::new());
    assert!(!without.causes.is_empty() && without.causes.iter().all(|c| c.limited_by.is_none()));
    let answer = on_a_long_path(slow_start());
    assert!(answer.causes.iter().all(|c| c.id == CauseId::Queue), "{:?}", answer.causes);
    let cause = &answer.causes[0];
    assert_eq!(cause.limited_by, Some(TcpLimit::SlowStart));
    assert!(cause.because.contains("TCP held packets back for up to 3.2 s"), "{}", cause.because);
    assert!(
        cause.because.contains(
            "slow start, because a round trip takes 3.2 s and the congestion window grows only once per round trip"
        ),
        "{}",
        cause.because
    );
    assert!(
        answer.headline.contains("TCP held packets back") && answer.headline.contains("(slow start)"),
        "{}",
        answer.headline
    );
}

#[test]
fn a_program_that_waits_for_a_full_buffer_does_not_stall() {
    // The program cannot send for 2.1 s, and then catches up.
    let times = (0..1000_i64).map(|k| {
        let due = k * 20 * MS;
        let sent = if (300..405).contains(&k) { (300 * 20 + 2100) * MS + k } else { due };
        (sent, 1600 * MS)
    });
    let verdict = |moments| {
        let mut test = Test::with(
            1000,
            20 * MS,
            &packets(times.clone()),
            Schedule::Periodic,
            (Direction::Up, Transport::Tcp),
        );
        test.session.tcp = moments;
        verdict_on(&test)
    };
    let ids = |answer: &Answer| answer.causes.iter().map(|c| (c.id, c.limited_by)).collect::<Vec<_>>();
    assert_eq!(ids(&verdict(Vec::new())), [(CauseId::SenderStall, None)]);
    let closed = |at: f64| ((at.clamp(6.0, 8.1) - 6.0) * 1e6) as u64;
    let answer = verdict(moments(|at, m| m.receive_window_us = closed(at)));
    assert_eq!(ids(&answer), [(CauseId::Queue, Some(TcpLimit::ReceiveWindow))]);
    assert_eq!(answer.host.unwrap().causes, []);
    assert!(answer.causes[0].because.contains("the receive window was full (flow control)"));
    let answer = verdict(moments(|at, m| m.send_buffer_us = closed(at)));
    assert_eq!(ids(&answer), [(CauseId::Queue, Some(TcpLimit::SendBuffer))]);
}
