//! Boundary cases of how segments are counted.

use super::*;

/// The server acknowledges everything before `offset`, in a segment modified by `change`.
fn answer(t: &mut Talk, ms: i64, offset: u32, change: impl Fn(&mut TcpSegment)) {
    let mut s =
        TcpSegment { seq: 5000, ack: Some(1000 + offset), flags: ACK, window: 1000, ..TcpSegment::default() };
    change(&mut s);
    t.raw(ms, false, s);
}

/// The client sends 100 bytes from `offset`, with a timestamp.
fn stamped(t: &mut Talk, ms: i64, offset: u32, value: u32) {
    t.ident += 1;
    let s = t.segment(offset, t.ident);
    t.raw(ms, true, TcpSegment { timestamps: Some((value, 7)), ..s });
}

#[test]
fn what_was_sent_again_measures_nothing_by_its_time_stamp() {
    let mut t = Talk::new();
    stamped(&mut t, 100, 0, 10);
    stamped(&mut t, 400, 0, 40);
    answer(&mut t, 450, 100, |s| s.timestamps = Some((9, 40)));
    assert_eq!(t.up().rtt_timestamp_ns, None);
}

#[test]
fn an_echo_of_the_first_time_stamp_shows_that_nothing_was_lost() {
    let of = |echo| {
        let mut t = Talk::new();
        stamped(&mut t, 100, 0, 10);
        stamped(&mut t, 400, 0, 40);
        answer(&mut t, 450, 100, |s| s.timestamps = Some((9, echo)));
        let f = t.up();
        (f.retransmissions, f.lost_after, f.spurious)
    };
    assert_eq!((of(10), of(40)), ((1, 0, 1), (1, 1, 0)), "Eifel, RFC 3522");
    let mut once = Talk::new();
    stamped(&mut once, 100, 0, 10);
    answer(&mut once, 150, 100, |s| s.timestamps = Some((9, 10)));
    assert_eq!(once.up().spurious, 0);
}

#[test]
fn a_probe_of_an_idle_connection_is_its_last_byte_and_nothing_else() {
    let idle = || {
        let mut t = Talk::new();
        t.data(100, 0);
        t.ack(150, 100);
        t
    };
    let counts = |t: &Talk| (t.up().keep_alives, t.up().retransmissions, t.up().unique_bytes);
    // One byte that is known and 99 that are new.
    let mut t = idle();
    cut(&mut t, 5000, 99, 100);
    assert_eq!(counts(&t), (0, 1, 199));
    // The last byte, and the end of the stream.
    let fin = |t: &mut Talk, ms, offset| {
        t.ident += 1;
        let s = t.segment(offset, t.ident);
        t.raw(ms, true, TcpSegment { payload: 1, flags: ACK | FIN, ..s });
    };
    let mut t = idle();
    fin(&mut t, 5000, 99);
    assert_eq!(counts(&t), (0, 1, 100));
    // A byte and the end of the stream, both known.
    let mut t = idle();
    fin(&mut t, 200, 100);
    t.ack(250, 102);
    fin(&mut t, 5000, 100);
    assert_eq!((counts(&t), t.up().spurious), ((0, 1, 101), 1));
}

#[test]
fn the_number_of_a_syn_is_no_byte() {
    // A SYN, and the same again with data (RFC 7413).
    let mut t = Talk { analyzer: TcpAnalyzer::default(), events: vec![], ident: 0 };
    let syn = TcpSegment { seq: 999, flags: SYN, window: 1000, ..TcpSegment::default() };
    t.raw(0, true, syn);
    t.raw(500, true, TcpSegment { payload: 10, ..syn });
    assert_eq!(t.up().unique_bytes, 10);
}

#[test]
fn what_was_sent_twice_is_in_flight_once() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.data(400, 0);
    assert_eq!(t.analyzer.connections[0].remembered()[0], (1, 0));
}

#[test]
fn a_gap_that_is_filled_sooner_than_a_round_trip_was_overtaken() {
    // The handshake took 30 ms.
    let of = |ms, bytes| {
        let mut t = Talk::new();
        cut(&mut t, 100, 100, 100);
        cut(&mut t, ms, 0, bytes);
        let f = t.up();
        (f.out_of_order, f.lost_before, f.fast, f.timeouts)
    };
    assert_eq!(of(129, 100), (1, 0, 0, 0));
    assert_eq!(of(130, 100), (0, 1, 1, 0));
    assert_eq!(of(102, 150), (0, 1, 1, 0), "half of it was seen before");
    // No timeout is shorter than 180 ms.
    assert_eq!((of(279, 100), of(280, 100)), ((0, 1, 1, 0), (0, 1, 0, 1)));
}

#[test]
fn a_gap_of_which_the_receiver_told_was_filled_for_that() {
    let of = |tell: &dyn Fn(&mut Talk)| {
        let mut t = Talk::new();
        t.data(100, 0);
        t.data(101, 200);
        tell(&mut t);
        t.data(501, 100);
        let f = t.up();
        (f.fast, f.timeouts, f.fast_wait_ns)
    };
    assert_eq!(of(&|t| t.ack(150, 100)), (0, 1, Span(0)));
    assert_eq!(of(&|t| (0..4).for_each(|i| t.ack(150 + i, 100))), (1, 0, Span(400 * MS)));
    assert_eq!(of(&|t| answer(t, 150, 100, |s| s.sack = Some((1200, 1300)))), (1, 0, Span(400 * MS)));
}

#[test]
fn what_is_acknowledged_behind_a_segment_shows_that_it_was_lost() {
    let of = |sack| {
        let mut t = Talk::new();
        (0..4).for_each(|i| t.data(100 + i, i as u32 * 100));
        answer(&mut t, 150, 0, |s| s.sack = Some(sack));
        t.data(160, 100);
        let f = t.up();
        (f.lost_after, f.fast, f.timeouts)
    };
    assert_eq!(of((1200, 1300)), (1, 1, 0));
    assert_eq!(of((1100, 1200)), (1, 0, 0), "itself, and nothing behind it");
    assert_eq!(of((1500, 1600)), (1, 0, 0), "what was never sent");
}

#[test]
fn each_report_of_a_duplicate_is_about_one_retransmission() {
    let talk = || {
        let mut t = Talk::new();
        (0..3).for_each(|i| t.data(100 + i, i as u32 * 100));
        t
    };
    let counts = |t: &Talk| (t.up().lost_after, t.up().spurious);
    let mut t = talk();
    t.data(400, 0);
    t.data(401, 100);
    answer(&mut t, 450, 300, |s| s.sack = Some((1000, 1100)));
    assert_eq!(counts(&t), (1, 1));
    answer(&mut t, 451, 300, |s| s.sack = Some((1100, 1200)));
    assert_eq!(counts(&t), (0, 2));
    // Segments next to the retransmitted one are not affected.
    let mut t = talk();
    t.data(400, 100);
    answer(&mut t, 450, 300, |s| s.sack = Some((1000, 1100)));
    answer(&mut t, 451, 300, |s| s.sack = Some((1200, 1300)));
    assert_eq!(counts(&t), (1, 0));
    answer(&mut t, 452, 300, |s| s.sack = Some((1199, 1200)));
    assert_eq!(counts(&t), (0, 1));
}

#[test]
fn only_data_fill_a_window_that_is_open() {
    let mut t = Talk::new();
    cut(&mut t, 100, 0, 1000);
    t.raw(
        101,
        true,
        TcpSegment { seq: 2000, ack: Some(5000), flags: ACK, window: 1000, ..TcpSegment::default() },
    );
    assert_eq!(t.up().window_full, 1);
    // Data waits for room, twice; the end of the stream needs no room.
    t.ack(150, 1000);
    cut(&mut t, 200, 1000, 1000);
    t.ack(230, 2000);
    cut(&mut t, 300, 2000, 1000);
    let fin =
        TcpSegment { seq: 4000, ack: Some(5000), flags: ACK | FIN, window: 1000, ..TcpSegment::default() };
    t.raw(301, true, fin);
    assert_eq!((t.up().window_full, t.up().window_full_ns), (3, Span(80 * MS)));
    // A byte sent into a closed window probes whether it is still closed.
    let mut t = Talk::new();
    t.data(100, 0);
    answer(&mut t, 150, 100, |s| s.window = 0);
    cut(&mut t, 400, 100, 1);
    assert_eq!(t.up().window_full, 0);
}

#[test]
fn an_acknowledgement_far_beyond_the_data_is_not_of_them() {
    let longest = |beyond: u32| {
        let mut t = Talk::new();
        t.data(100, 0);
        answer(&mut t, 140, 100 + beyond, |_| {});
        t.ack(150, 100);
        t.up().rtt_ack_ns.map(|r| (r.count, r.max))
    };
    assert_eq!((longest(1 << 30), longest((1 << 30) + 1)), (Some((2, 40 * MS)), Some((2, 50 * MS))));
}

#[test]
fn an_older_acknowledgement_takes_nothing_back() {
    let mut t = Talk::new();
    (0..3).for_each(|i| t.data(100 + i, i as u32 * 100));
    t.ack(150, 300);
    t.ack(151, 100);
    t.data(160, 100);
    assert_eq!((t.up().spurious, t.up().lost_after), (1, 0));
}

#[test]
fn an_acknowledgement_seen_before_its_data_is_no_duplicate_afterwards() {
    let mut t = Talk::new();
    t.ack(99, 100);
    t.data(100, 0);
    t.ack(110, 100);
    assert_eq!(t.analyzer.finish()[0].down.duplicate_acks, 0);
}

#[test]
fn nothing_is_a_duplicate_once_the_connection_was_reset() {
    let mut t = Talk::new();
    (0..2).for_each(|i| t.data(100 + i, i as u32 * 100));
    t.ack(150, 100);
    t.raw(160, false, TcpSegment { seq: 5000, flags: RST, ..TcpSegment::default() });
    t.ack(170, 100);
    assert_eq!(t.analyzer.finish()[0].down.duplicate_acks, 0);
}

#[test]
fn ports_may_be_used_again_as_soon_as_both_ends_are_acknowledged() {
    let connections = |last: bool| {
        let mut t = Talk::new();
        let close = |seq, ack, flags| TcpSegment {
            seq,
            ack: Some(ack),
            flags,
            window: 1000,
            ..TcpSegment::default()
        };
        t.raw(160, true, close(1000, 5000, FIN | ACK));
        t.raw(170, false, close(5000, 1001, FIN | ACK));
        if last {
            t.raw(180, true, close(1001, 5001, ACK));
        }
        t.raw(300, true, TcpSegment { seq: 77, flags: SYN, window: 1000, ..TcpSegment::default() });
        t.analyzer.finish().len()
    };
    assert_eq!((connections(false), connections(true)), (1, 2));
}

#[test]
fn a_reset_counts_if_its_number_fits_and_frees_what_is_held() {
    let held = |seq| {
        let mut t = Talk::new();
        t.data(100, 0);
        t.raw(110, false, TcpSegment { seq, flags: RST, ..TcpSegment::default() });
        t.analyzer.connections[0].remembered()[0]
    };
    assert_eq!((held(5000), held(5001), held(9_000_000)), ((0, 0), (1, 0), (1, 0)));
}

#[test]
fn connections_beyond_the_limit_are_counted_and_the_others_followed() {
    let mut analyzer = TcpAnalyzer::default();
    let syn = TcpSegment { seq: 1, flags: SYN, window: 1000, ..TcpSegment::default() };
    let mut send = |client: usize, s| {
        analyzer.segment((WallTime(0), 64), (client as u128, 40_000), (u128::MAX, 80), &s);
        (analyzer.connections.len(), analyzer.not_followed())
    };
    let last = (0..MAX_CONNECTIONS + 3).map(|k| send(k, syn)).last().unwrap();
    assert_eq!(last, (MAX_CONNECTIONS, 3));
    assert_eq!(send(7, TcpSegment { seq: 2, payload: 100, flags: ACK, ..syn }), (MAX_CONNECTIONS, 3));
    assert_eq!(analyzer.finish()[7].up.unique_bytes, 100);
    assert_eq!(analyzer.segments(), MAX_CONNECTIONS as u64 + 4);
}
