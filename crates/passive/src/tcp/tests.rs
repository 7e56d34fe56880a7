//! Exchanges written as lists of segments.

use super::delay_causes::SegmentTimes;
use super::segment::{ACK, FIN, RST, SYN};
use super::*;
use jitlat_core::Span;

mod direction;

const MS: i64 = 1_000_000;

/// Takes the segments of one connection as seen on both sides of a router. `translated` gives the client on the far side.
fn on_both_sides(translated: &str, ident: u32, hops: u8) -> TcpAnalyzer {
    let mut analyzer = TcpAnalyzer::default();
    let end = |a: SocketAddr| (jitlat_core::prefix::bits(a.ip()), a.port());
    let far: SocketAddr = translated.parse().unwrap();
    for k in 0..10u32 {
        let up = k != 1;
        let (flags, ack) = if k == 0 { (SYN, None) } else { (ACK, Some(5000)) };
        let s = TcpSegment { seq: 999 + k, ack, flags, ident, window: 1000, ..TcpSegment::default() };
        for (place, near) in [client(), far].into_iter().enumerate() {
            let (from, to) = if up { (near, server()) } else { (server(), near) };
            let at = WallTime(i64::from(k) * MS + place as i64 * 30_000);
            analyzer.segment((at, 64 - hops * place as u8), end(from), end(to), &s);
        }
    }
    analyzer
}

#[test]
fn both_sides_of_an_address_translation_are_one_connection() {
    let translated = on_both_sides("192.0.2.1:1024", 7, 1);
    assert_eq!((translated.begun(), translated.segments(), translated.translated()), (1, 10, [1, 10]));
    // A scanner sends one segment to many ports; without numbers two connections may begin alike.
    for (far, ident, hops) in [("192.0.2.1:1024", 7, 0), ("192.0.2.1:1024", 0, 1)] {
        let two = on_both_sides(far, ident, hops);
        assert_eq!((two.begun(), two.segments(), two.translated()), (2, 20, [0; 2]), "{ident} {hops}");
    }
}

struct Talk {
    analyzer: TcpAnalyzer,
    events: Vec<(i64, EventKind)>,
    ident: u32,
}

fn client() -> SocketAddr {
    "10.0.0.1:40000".parse().unwrap()
}

fn server() -> SocketAddr {
    "10.0.0.2:80".parse().unwrap()
}

impl Talk {
    fn new() -> Talk {
        Talk::of(TcpAnalyzer::default())
    }

    fn of(analyzer: TcpAnalyzer) -> Talk {
        let mut t = Talk { analyzer, events: vec![], ident: 0 };
        t.raw(0, true, TcpSegment { seq: 999, flags: SYN, window: 1000, ..TcpSegment::default() });
        t.raw(
            30,
            false,
            TcpSegment {
                seq: 4999,
                ack: Some(1000),
                flags: SYN | ACK,
                window: 1000,
                ..TcpSegment::default()
            },
        );
        t.raw(
            40,
            true,
            TcpSegment { seq: 1000, ack: Some(5000), flags: ACK, window: 1000, ..TcpSegment::default() },
        );
        t
    }

    fn raw(&mut self, ms: i64, up: bool, s: TcpSegment) {
        let (from, to) = if up { (client(), server()) } else { (server(), client()) };
        self.analyzer.events.clear();
        let end = |a: SocketAddr| (jitlat_core::prefix::bits(a.ip()), a.port());
        self.analyzer.segment((WallTime(ms * MS), 64), end(from), end(to), &s);
        self.events.extend(self.analyzer.events.iter().map(|e| (ms, e.kind)));
    }

    /// The client sends 100 bytes from `offset`.
    fn data(&mut self, ms: i64, offset: u32) {
        self.ident += 1;
        self.raw(ms, true, self.segment(offset, self.ident));
    }

    fn segment(&self, offset: u32, ident: u32) -> TcpSegment {
        let seq = 1000u32.wrapping_add(offset);
        TcpSegment {
            seq,
            ack: Some(5000),
            flags: ACK,
            window: 1000,
            payload: 100,
            ident,
            ..TcpSegment::default()
        }
    }

    /// The server acknowledges everything before `offset`.
    fn ack(&mut self, ms: i64, offset: u32) {
        let s = TcpSegment {
            seq: 5000,
            ack: Some(1000 + offset),
            flags: ACK,
            window: 1000,
            ..TcpSegment::default()
        };
        self.raw(ms, false, s);
    }

    fn up(&self) -> DirectionFigures {
        self.analyzer.finish().remove(0).up
    }
}

#[test]
fn a_calm_transfer() {
    let mut t = Talk::new();
    for i in 0..5 {
        t.data(100 + i * 10, i as u32 * 100);
        t.ack(150 + i * 10, i as u32 * 100 + 100);
    }
    let c = t.analyzer.finish().remove(0);
    assert_eq!((c.client, c.server), (client(), server()));
    assert_eq!((c.handshake_server_ns, c.handshake_client_ns), (Some(Span(30 * MS)), Some(Span(10 * MS))));
    let f = c.up;
    assert_eq!((f.data_segments, f.bytes, f.unique_bytes, f.retransmissions), (5, 500, 500, 0));
    let rtt = f.rtt_ack_ns.unwrap();
    assert_eq!((rtt.count, rtt.median, rtt.max), (6, 50 * MS, 50 * MS), "the handshake's too");
    assert_eq!(f.max_in_flight, 100);
    assert!(t.events.is_empty());
}

#[test]
fn a_loss_after_the_point_mended_by_duplicate_acknowledgements() {
    let mut t = Talk::new();
    (0..5).for_each(|i| t.data(100 + i, i as u32 * 100));
    for i in 0..4 {
        t.ack(150 + i, 100);
    }
    t.data(160, 100);
    t.ack(210, 500);
    let f = t.up();
    assert_eq!((f.retransmissions, f.fast, f.timeouts, f.spurious), (1, 1, 0, 0));
    assert_eq!((f.lost_after, f.lost_before, f.out_of_order), (1, 0, 0));
    assert_eq!(t.events, [(160, EventKind::Fast)]);
    assert_eq!(t.analyzer.finish()[0].down.duplicate_acks, 3);
    assert_eq!(f.rtt_ack_ns.unwrap().count, 2, "Karn: nothing of the acknowledgement that covers it");
}

#[test]
fn a_timeout_and_one_for_nothing() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.data(400, 0);
    t.ack(450, 100);
    t.data(460, 0);
    let f = t.up();
    assert_eq!((f.retransmissions, f.timeouts, f.spurious, f.lost_after), (2, 1, 1, 1));
    assert_eq!(
        (f.timeout_wait_ns, f.fast_wait_ns, f.longest_wait_ns),
        (Span(300 * MS), Span(0), Span(300 * MS))
    );
    assert_eq!(t.events, [(400, EventKind::Timeout), (460, EventKind::Spurious)]);
}

#[test]
fn what_the_receiver_reports_twice_was_not_lost() {
    let mut t = Talk::new();
    (0..2).for_each(|i| t.data(100 + i, i as u32 * 100));
    t.data(180, 100); // a probe for an acknowledgement that is only late
    t.ack(190, 200); // acknowledges both, so its timestamp would belong to the first
    let probed = t.up();
    assert_eq!((probed.retransmissions, probed.lost_after, probed.spurious), (1, 1, 0));
    let twice = TcpSegment {
        seq: 5000,
        ack: Some(1200),
        flags: ACK,
        window: 1000,
        sack: Some((1100, 1200)),
        ..TcpSegment::default()
    };
    (0..2).for_each(|_| t.raw(191, false, twice));
    let f = t.up();
    assert_eq!((f.retransmissions, f.lost_after, f.spurious), (1, 0, 1), "RFC 2883");
}

#[test]
fn overtaken_is_not_lost_and_lost_is_not_overtaken() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.data(102, 200);
    t.data(103, 100); // a millisecond late
    t.data(104, 400);
    (0..4).for_each(|i| t.ack(150 + i, 300));
    t.data(180, 300); // 76 ms later, after duplicate acknowledgements
    let f = t.up();
    assert_eq!((f.out_of_order, f.lost_before, f.fast, f.unfilled_gaps), (1, 1, 1, 0));
    assert_eq!(f.unique_bytes, 500);
}

/// The IP identifications prove it, although at a point near the receiver acknowledgements seem to request
/// it.
#[test]
fn a_packet_numbered_before_the_one_that_overtook_it_is_not_sent_again() {
    let with = |ident| {
        let mut t = Talk::new();
        t.data(100, 0);
        let numbered = |t: &Talk, offset, ident| TcpSegment { ident, ..t.segment(offset, 0) };
        let (opener, late) = (numbered(&t, 200, 42), numbered(&t, 100, ident));
        t.raw(102, true, opener);
        (0..4).for_each(|i| t.ack(103 + i, 100));
        t.raw(108, true, late);
        let f = t.up();
        (f.out_of_order, f.retransmissions, f.lost_before)
    };
    assert_eq!(with(41), (1, 0, 0));
    assert_eq!(with(43), (0, 1, 1), "sent after it");
    assert_eq!(with(0), (0, 1, 1), "not numbered");
}

#[test]
fn an_empty_segment_with_the_last_number_again_is_a_probe() {
    let mut t = Talk::new();
    t.data(100, 0);
    let probe = TcpSegment { payload: 0, ..t.segment(99, 0) };
    t.raw(120, true, probe);
    assert_eq!(t.up().keep_alives, 0, "not everything is acknowledged");
    t.ack(150, 100);
    t.raw(1150, true, probe);
    let f = t.up();
    assert_eq!((f.keep_alives, f.retransmissions), (1, 0));
}

/// A connection whose server has received 100 bytes and closes its window at 150 ms.
fn closed() -> Talk {
    let mut t = Talk::new();
    t.data(100, 0);
    window(&mut t, 150, 100, 0);
    t
}

/// The server acknowledges everything before `offset` and advertises this window.
fn window(t: &mut Talk, ms: i64, offset: u32, window: u16) {
    let s = TcpSegment { seq: 5000, ack: Some(1000 + offset), flags: ACK, window, ..TcpSegment::default() };
    t.raw(ms, false, s);
}

/// The client sends one byte from `offset`.
fn byte(t: &mut Talk, ms: i64, offset: u32) {
    t.ident += 1;
    let s = t.segment(offset, t.ident);
    t.raw(ms, true, TcpSegment { payload: 1, ..s });
}

#[test]
fn a_byte_beyond_a_closed_window_is_a_probe_whether_it_is_taken_or_not() {
    let counts = |t: &Talk| {
        let f = t.up();
        (f.keep_alives, f.retransmissions, f.lost_before + f.lost_after, f.unfilled_gaps, f.unique_bytes)
    };
    // Not accepted: sent three times, then again as a part of the data.
    let mut t = closed();
    for (k, ms) in [350, 750, 1550].into_iter().enumerate() {
        byte(&mut t, ms, 100);
        window(&mut t, ms + 50, 100, 0);
        assert_eq!(counts(&t), (k as u64 + 1, 0, 0, 0, 100));
    }
    window(&mut t, 1600, 100, 1000);
    t.data(1610, 100);
    t.ack(1660, 200);
    assert_eq!((counts(&t), t.analyzer.finish()[0].down.duplicate_acks), ((3, 0, 0, 0, 200), 0));
    // Accepted: the data continues after it, and the next probe is the byte after it.
    let mut t = closed();
    byte(&mut t, 350, 100);
    window(&mut t, 400, 101, 0);
    byte(&mut t, 800, 101);
    window(&mut t, 850, 102, 1000);
    t.data(860, 102);
    t.ack(900, 202);
    assert_eq!(counts(&t), (2, 0, 0, 0, 202));
    // Accepted, but the acknowledgement was not captured.
    let mut t = closed();
    byte(&mut t, 350, 100);
    t.data(860, 101);
    t.ack(900, 201);
    assert_eq!(counts(&t), (1, 0, 0, 0, 201));
}

#[test]
fn a_byte_is_a_probe_only_of_a_closed_window_and_when_all_is_acknowledged() {
    let of = |at: u32, size: u32, change: fn(&mut Talk)| {
        let mut t = closed();
        change(&mut t);
        let s = t.segment(at, 9);
        t.raw(350, true, TcpSegment { payload: size, ..s });
        t.up().keep_alives
    };
    assert_eq!(of(100, 1, |_| ()), 1);
    assert_eq!(of(100, 2, |_| ()), 0, "data that were under way when it closed");
    assert_eq!(of(101, 1, |_| ()), 0, "not the next byte");
    assert_eq!(of(100, 1, |t| window(t, 300, 100, 1)), 0, "open");
    assert_eq!(of(200, 1, |t| t.data(160, 100)), 0, "not everything is acknowledged");
}

#[test]
fn the_same_packet_twice_is_a_duplicate() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.raw(101, true, t.segment(0, 1));
    let f = t.up();
    assert_eq!((f.duplicates, f.retransmissions), (1, 0));
}

#[test]
fn windows_close_open_and_fill() {
    let mut t = Talk::new();
    (0..10).for_each(|i| t.data(100, i * 100));
    let closed = TcpSegment { seq: 5000, ack: Some(2000), flags: ACK, window: 0, ..TcpSegment::default() };
    t.raw(150, false, closed);
    t.raw(160, false, closed);
    t.raw(650, false, TcpSegment { window: 1000, ..closed });
    let c = t.analyzer.finish().remove(0);
    assert_eq!((c.up.window_full, c.down.zero_windows, c.down.zero_window_ns), (1, 1, Span(500 * MS)));
    assert_eq!(t.events.last(), Some(&(650, EventKind::WindowOpens)));
}

#[test]
fn timestamps_measure_what_acknowledgements_cannot() {
    let mut t = Talk::new();
    let sent = |ts| TcpSegment { timestamps: Some((ts, 7)), ..Talk::new().segment((ts - 1) * 100, ts) };
    t.raw(100, true, sent(1));
    t.raw(110, true, sent(2));
    let echo = |ecr, ack| TcpSegment {
        seq: 5000,
        ack: Some(ack),
        flags: ACK,
        window: 1000,
        timestamps: Some((9, ecr)),
        ..TcpSegment::default()
    };
    t.raw(140, false, echo(1, 1100));
    t.raw(145, false, echo(1, 1100));
    t.raw(160, false, echo(2, 1200));
    let rtt = t.up().rtt_timestamp_ns.unwrap();
    assert_eq!((rtt.count, rtt.min, rtt.max), (2, 40 * MS, 50 * MS));
}

#[test]
fn sequence_numbers_wrap() {
    let mut t = Talk { analyzer: TcpAnalyzer::default(), events: vec![], ident: 0 };
    for i in 0..6u32 {
        t.data(100 + i64::from(i), (u32::MAX - 1200).wrapping_add(i * 100));
    }
    let f = t.up();
    assert_eq!((f.unique_bytes, f.retransmissions, f.unfilled_gaps), (600, 0, 0));
}

/// The client sends `bytes` from `offset` in one segment.
fn cut(t: &mut Talk, ms: i64, offset: u32, bytes: u32) {
    t.ident += 1;
    let s = t.segment(offset, t.ident);
    t.raw(ms, true, TcpSegment { payload: bytes, ..s });
}

#[test]
fn each_byte_counts_once_however_it_is_cut() {
    // The first thousand bytes were lost before this point, and all three thousand are retransmitted in one
    // segment.
    let mut t = Talk::new();
    cut(&mut t, 100, 1000, 2000);
    cut(&mut t, 400, 0, 3000);
    let f = t.up();
    assert_eq!((f.bytes, f.unique_bytes), (5000, 3000));
    assert_eq!((f.retransmissions, f.lost_before, f.unfilled_gaps), (1, 1, 0));
    assert_eq!((f.timeouts, f.timeout_wait_ns), (1, Span(300 * MS)));
}

#[test]
fn one_segment_fills_two_gaps() {
    let mut t = Talk::new();
    cut(&mut t, 100, 100, 100);
    cut(&mut t, 101, 300, 100);
    cut(&mut t, 102, 500, 100);
    cut(&mut t, 400, 0, 400);
    let f = t.up();
    assert_eq!((f.unique_bytes, f.retransmissions, f.unfilled_gaps), (500, 1, 1), "one gap is left");
    // Those bytes were seen before: the data in flight no longer gives a round trip.
    t.ack(450, 400);
    t.ack(460, 600);
    let rtt = t.up().rtt_ack_ns.unwrap();
    assert_eq!((rtt.count, rtt.max), (2, 358 * MS), "the handshake's, and that of the last segment");
}

#[test]
fn a_gap_and_what_follows_it_in_one_segment() {
    let mut t = Talk::new();
    cut(&mut t, 100, 100, 100);
    cut(&mut t, 400, 0, 300);
    cut(&mut t, 401, 300, 100);
    let f = t.up();
    assert_eq!((f.unique_bytes, f.unfilled_gaps, f.max_in_flight), (400, 0, 400));
    // The end of the segment is new and gives a round trip.
    t.ack(450, 300);
    assert_eq!(t.up().rtt_ack_ns.map(|r| r.count), Some(1), "the handshake's: part of it was sent twice");
    t.ack(451, 400);
    assert_eq!(t.up().rtt_ack_ns.map(|r| (r.count, r.max)), Some((2, 50 * MS)));
    // The FIN is not a byte of the payload.
    let fin =
        TcpSegment { seq: 1300, ack: Some(5000), flags: ACK | FIN, payload: 100, ..TcpSegment::default() };
    t.raw(500, true, fin);
    assert_eq!(t.up().unique_bytes, 400);
}

#[test]
fn a_gap_that_is_acknowledged_was_missed_by_the_capture() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.data(101, 200);
    t.ack(150, 300);
    assert_eq!(t.up().unfilled_gaps, 1);
}

#[test]
fn gaps_are_bounded_however_they_are_cut() {
    let mut t = Talk::new();
    cut(&mut t, 100, 1_000_000, 100);
    for i in 0..5000 {
        cut(&mut t, 101, 10 + i * 100, 1);
    }
    let [(_, gaps), _] = t.analyzer.connections[0].remembered();
    assert_eq!(gaps, 256);
    assert_eq!(t.up().unfilled_gaps, 5001, "the others are counted");
}

#[test]
fn a_connection_that_is_over_holds_little_and_its_ports_may_be_used_again() {
    let mut t = Talk::new();
    (0..5).for_each(|i| t.data(100 + i, i as u32 * 100));
    t.ack(150, 500);
    let close =
        |seq, ack, flags| TcpSegment { seq, ack: Some(ack), flags, window: 1000, ..TcpSegment::default() };
    t.raw(160, true, close(1500, 5000, FIN | ACK));
    t.raw(170, false, close(5000, 1501, FIN | ACK));
    t.raw(180, true, close(1501, 5001, ACK));
    let before = t.up();
    assert_eq!(t.analyzer.connections[0].remembered(), [(0, 0); 2]);
    assert_eq!((before.unique_bytes, before.rtt_ack_ns.map(|r| r.count)), (500, Some(3)));
    // The last acknowledgement was lost: the FIN is repeated and does not change a round trip.
    t.raw(370, false, close(5000, 1501, FIN | ACK));
    t.raw(380, true, close(1501, 5001, ACK));
    assert_eq!(t.up().rtt_ack_ns, before.rtt_ack_ns);
    // The same ports, one hour later.
    t.raw(3_600_000, true, TcpSegment { seq: 77, flags: SYN, window: 1000, ..TcpSegment::default() });
    let c = t.analyzer.finish();
    assert_eq!((c.len(), c[0].up.retransmissions, c[1].first), (2, 0, WallTime(3_600_000 * MS)));
    assert_eq!((c[1].client, c[1].up.segments), (client(), 1));
}

#[test]
fn a_connection_that_was_reset_is_over() {
    let mut t = Talk::new();
    t.data(100, 0);
    t.raw(110, false, TcpSegment { seq: 5000, ack: Some(1100), flags: RST | ACK, ..TcpSegment::default() });
    assert_eq!(t.analyzer.connections[0].remembered()[0], (0, 0));
    assert_eq!(t.up().rtt_ack_ns.map(|r| r.count), Some(2), "what the reset acknowledges is known");
    t.raw(120, true, TcpSegment { seq: 999, flags: SYN, window: 1000, ..TcpSegment::default() });
    assert_eq!(t.analyzer.finish().len(), 2, "even with the same first number");
}

#[test]
fn a_connection_that_is_half_closed_goes_on() {
    let mut t = Talk::new();
    let server_sends = |seq, payload, ack| TcpSegment {
        seq,
        payload,
        ack: Some(ack),
        flags: ACK,
        window: 1000,
        ..TcpSegment::default()
    };
    t.raw(
        100,
        true,
        TcpSegment { seq: 1000, ack: Some(5000), flags: FIN | ACK, window: 1000, ..TcpSegment::default() },
    );
    t.raw(110, false, server_sends(5000, 0, 1001));
    t.raw(120, false, server_sends(5000, 100, 1001));
    assert_eq!(t.analyzer.connections[0].remembered()[1].0, 1, "in flight");
}

#[test]
fn what_opens_another_connection() {
    let syn = |seq, ack: Option<u32>| {
        let flags = if ack.is_some() { SYN | ACK } else { SYN };
        TcpSegment { seq, ack, flags, window: 1000, ..TcpSegment::default() }
    };
    let connections = |ms, up, s: TcpSegment| {
        let mut t = Talk::new();
        t.raw(ms, up, s);
        t.analyzer.finish().len()
    };
    // A SYN after a second of silence opens a new connection, unless its number shows that it is the same SYN
    // again.
    assert_eq!((connections(1039, true, syn(7, None)), connections(1040, true, syn(7, None))), (1, 2));
    assert_eq!(
        (connections(1500, true, syn(999, None)), connections(1500, false, syn(4999, Some(1000)))),
        (1, 1)
    );
    assert_eq!((connections(500, true, syn(7, None)), connections(1500, false, syn(7, Some(1000)))), (1, 2));
    let mut t = Talk::new();
    t.raw(110, false, TcpSegment { seq: 5000, ack: Some(1000), flags: RST | ACK, ..TcpSegment::default() });
    t.raw(120, false, syn(4999, Some(1000)));
    assert_eq!(t.analyzer.finish().len(), 1, "an answer opens nothing");
}

#[test]
fn a_handshake_is_timed_from_both_sides() {
    let mut t = Talk { analyzer: TcpAnalyzer::default(), events: vec![], ident: 0 };
    let s = |seq, ack, flags| TcpSegment { seq, ack, flags, window: 1000, ..TcpSegment::default() };
    t.raw(0, true, s(999, None, SYN));
    t.raw(30, false, s(4999, Some(1000), SYN | ACK));
    // The server sends at once: that is not the client's answer.
    t.raw(35, false, TcpSegment { payload: 10, ..s(5000, Some(1000), ACK) });
    t.raw(42, true, s(1000, Some(5000), ACK));
    t.raw(60, true, s(1000, Some(5010), ACK));
    let c = t.analyzer.finish().remove(0);
    assert_eq!(
        (c.handshake_server_ns, c.handshake_client_ns),
        (Some(Span::millis(30)), Some(Span::millis(12)))
    );
    assert_eq!(c.duration(), Span::millis(60));
    assert!(c.is_between(client(), server()) && c.is_between(server(), client()));
    assert!(!c.is_between(client(), client()));
}

#[test]
fn what_was_delivered_is_remembered_where_it_is_wanted() {
    let t = Talk::new();
    let plain = t.analyzer.finish().remove(0);
    assert_eq!(t.analyzer.delivery_history(&plain, true), None);
    let mut t = Talk::of(TcpAnalyzer::with_history());
    t.data(100, 0);
    t.ack(130, 100);
    t.data(140, 100);
    let c = t.analyzer.finish().remove(0);
    let [up, down] = [true, false].map(|up| t.analyzer.delivery_history(&c, up).unwrap());
    let stretch =
        |end, ms: i64| SegmentTimes { end, first: WallTime(ms * MS), last: WallTime(ms * MS), why: None };
    assert_eq!((up.segments, up.held_up), (vec![stretch(100, 100), stretch(200, 140)], vec![]));
    assert!(down.segments.is_empty() && down.held_up.is_empty());
}

#[test]
fn a_one_sided_capture_holds_a_bounded_number_of_segments() {
    let mut t = Talk { analyzer: TcpAnalyzer::default(), events: vec![], ident: 0 };
    (0..20_000).for_each(|i| t.data(100 + i64::from(i), i * 100));
    assert_eq!(t.analyzer.connections[0].remembered()[0], (4096, 0));
    assert_eq!(t.up().unique_bytes, 2_000_000);
}

#[test]
fn a_byte_sent_again_when_all_is_acknowledged_probes_an_idle_connection() {
    let of = |acknowledged: bool, offset, bytes| {
        let mut t = Talk::new();
        t.data(100, 0);
        if acknowledged {
            t.ack(150, 100);
        }
        cut(&mut t, 5000, offset, bytes);
        let f = t.up();
        (f.keep_alives, f.retransmissions)
    };
    assert_eq!(of(true, 99, 1), (1, 0));
    assert_eq!(of(false, 99, 1), (0, 1), "nothing is acknowledged");
    assert_eq!(of(true, 98, 1).0, 0, "not the last byte");
    assert_eq!(of(true, 98, 2).0, 0, "more than a byte");
}

#[test]
fn a_duplicate_acknowledgement_changes_nothing_while_data_are_in_flight() {
    let same = TcpSegment { seq: 5000, ack: Some(1100), flags: ACK, window: 1000, ..TcpSegment::default() };
    let duplicates = |again: TcpSegment, in_flight: bool| {
        let mut t = Talk::new();
        t.data(100, 0);
        if in_flight {
            t.data(101, 100);
        }
        t.raw(150, false, same);
        t.raw(151, false, again);
        t.analyzer.finish()[0].down.duplicate_acks
    };
    assert_eq!(duplicates(same, true), 1);
    for (again, why) in [
        (TcpSegment { payload: 9, ..same }, "it carries data"),
        (TcpSegment { window: 900, ..same }, "the window changes"),
        (TcpSegment { flags: ACK | FIN, ..same }, "the end"),
        (TcpSegment { flags: ACK | SYN, ..same }, "a beginning"),
        (TcpSegment { ack: Some(1050), ..same }, "it is older"),
    ] {
        assert_eq!(duplicates(again, true), 0, "{why}");
    }
    assert_eq!(duplicates(same, false), 0, "nothing is in flight");
}

#[test]
fn a_window_is_full_when_all_of_it_is_in_flight() {
    let full = |bytes: u32| {
        let mut t = Talk::new();
        cut(&mut t, 100, 0, bytes);
        t.up().window_full
    };
    assert_eq!([998, 999, 1000, 1001].map(full), [0, 0, 1, 1]);
}

/// Builds a TCP packet from the client or from the server.
fn packet(up: bool, (client_port, seq): (u16, u32), ack: Option<u32>, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut v = vec![0x45, 0];
    v.extend((40 + payload.len() as u16).to_be_bytes());
    v.extend([0, 7, 0x40, 0, 64, 6, 0, 0]);
    let (ports, ends) = match up {
        true => ([client_port, 80], [[10, 0, 0, 1], [10, 0, 0, 2]]),
        false => ([80, client_port], [[10, 0, 0, 2], [10, 0, 0, 1]]),
    };
    v.extend(ends.concat());
    v.extend(ports.map(u16::to_be_bytes).concat());
    v.extend([seq, ack.unwrap_or(0)].map(u32::to_be_bytes).concat());
    v.extend([0x50, flags, 3, 0xe8, 0, 0, 0, 0]);
    v.extend(payload);
    v
}

#[test]
fn the_state_of_a_connection_is_known_after_each_packet() {
    use crate::{LinkType, decode};
    let mut analyzer = TcpAnalyzer::default();
    let mut push = |ms: i64, bytes: Vec<u8>| {
        let p = decode(LinkType::RAW, &bytes, bytes.len() as u32).unwrap();
        let events: Vec<_> =
            analyzer.push(WallTime(ms * MS), &p).map(|e| (e.from, e.to, e.event.kind)).collect();
        (events, analyzer.status(WallTime(ms * MS), &p).unwrap(), analyzer.segments())
    };
    push(0, packet(true, (40_000, 999), None, SYN, b""));
    push(30, packet(false, (40_000, 4999), Some(1000), SYN | ACK, b""));
    let (events, [up, down], segments) = push(40, packet(true, (40_000, 1000), Some(5000), ACK, b"hello"));
    assert_eq!((events, segments), (vec![], 3));
    assert_eq!(
        (up.in_flight, up.window, down.in_flight, down.window),
        (Some(5), Some(1000), Some(0), Some(1000))
    );
    assert_eq!((down.rtt_ack, up.rtt_ack), (Some(Span(10 * MS)), None));
    let (_, [up, _], _) = push(90, packet(false, (40_000, 5000), Some(1005), ACK, b""));
    assert_eq!((up.in_flight, up.rtt_ack), (Some(0), Some(Span(50 * MS))));
    push(100, packet(true, (40_000, 1005), Some(5000), ACK, b"again"));
    let (events, ..) = push(900, packet(true, (40_000, 1005), Some(5000), ACK, b"again"));
    assert_eq!(events, [(client(), server(), EventKind::Timeout)]);
    let other = packet(true, (40_001, 1), None, SYN, b"");
    let p = decode(LinkType::RAW, &other, 40).unwrap();
    assert!(analyzer.status(WallTime(0), &p).is_none(), "no such connection");
    assert_eq!(analyzer.not_followed(), 0);
}

proptest::proptest! {
    /// For any segmentation, loss and retransmission before the point: unique bytes are the bytes of the
    /// stream that were seen, and gaps are those that were not.
    #[test]
    fn unique_bytes_are_the_bytes_seen(
        list in proptest::collection::vec((0u32..2000, 1u32..800), 1..40)
    ) {
        let mut t = Talk::new();
        let mut seen = vec![false; 3000];
        for (k, (offset, bytes)) in list.iter().enumerate() {
            cut(&mut t, 100 + k as i64, *offset, *bytes);
            seen[*offset as usize..(offset + bytes) as usize].fill(true);
        }
        let f = t.up();
        proptest::prop_assert_eq!(f.unique_bytes, seen.iter().filter(|s| **s).count() as u64);
        let last = seen.iter().rposition(|s| *s).unwrap();
        let gaps = (0..=last).filter(|i| !seen[*i] && (*i == 0 || seen[*i - 1])).count() as u64;
        proptest::prop_assert_eq!(f.unfilled_gaps, gaps);
        proptest::prop_assert_eq!(f.max_in_flight, last as u64 + 1);
    }

    #[test]
    fn no_segments_make_it_panic(
        list in proptest::collection::vec((proptest::prelude::any::<(bool, u32, Option<u32>, u8)>(), 0u32..3000, 0i64..1000, proptest::prelude::any::<Option<(u32, u32)>>()), 0..60)
    ) {
        let mut t = Talk::new();
        let opened = 1 + list.iter().filter(|l| l.0.3 & SYN != 0).count();
        for ((up, seq, ack, flags), payload, ms, pair) in list {
            t.raw(ms, up, TcpSegment { seq, ack, flags, payload, timestamps: pair, sack: pair, ..TcpSegment::default() });
        }
        let c = t.analyzer.finish();
        proptest::prop_assert!((1..=opened).contains(&c.len()));
    }
}
