//! Exchanges written as lists of segments.

use super::*;

const MS: i64 = 1_000_000;

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
        let mut t = Talk { analyzer: TcpAnalyzer::default(), events: vec![], ident: 0 };
        t.raw(0, true, Segment { seq: 999, flags: SYN, window: 1000, ..Segment::default() });
        t.raw(
            30,
            false,
            Segment { seq: 4999, ack: Some(1000), flags: SYN | ACK, window: 1000, ..Segment::default() },
        );
        t.raw(
            40,
            true,
            Segment { seq: 1000, ack: Some(5000), flags: ACK, window: 1000, ..Segment::default() },
        );
        t
    }

    fn raw(&mut self, ms: i64, up: bool, s: Segment) {
        let (from, to) = if up { (client(), server()) } else { (server(), client()) };
        self.analyzer.events.clear();
        let end = |a: SocketAddr| (crate::passive::packet::bits(a.ip()), a.port());
        self.analyzer.segment(WallTime(ms * MS), end(from), end(to), &s);
        self.events.extend(self.analyzer.events.iter().map(|e| (ms, e.kind)));
    }

    /// The client sends 100 bytes from `offset`.
    fn data(&mut self, ms: i64, offset: u32) {
        self.ident += 1;
        self.raw(ms, true, self.segment(offset, self.ident));
    }

    fn segment(&self, offset: u32, ident: u32) -> Segment {
        let seq = 1000u32.wrapping_add(offset);
        Segment { seq, ack: Some(5000), flags: ACK, window: 1000, payload: 100, ident, ..Segment::default() }
    }

    /// The server acknowledges everything before `offset`.
    fn ack(&mut self, ms: i64, offset: u32) {
        let s =
            Segment { seq: 5000, ack: Some(1000 + offset), flags: ACK, window: 1000, ..Segment::default() };
        self.raw(ms, false, s);
    }

    fn up(&self) -> LaneFigures {
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
    let closed = Segment { seq: 5000, ack: Some(2000), flags: ACK, window: 0, ..Segment::default() };
    t.raw(150, false, closed);
    t.raw(160, false, closed);
    t.raw(650, false, Segment { window: 1000, ..closed });
    let c = t.analyzer.finish().remove(0);
    assert_eq!((c.up.window_full, c.down.zero_windows, c.down.zero_window_ns), (1, 1, Span(500 * MS)));
    assert_eq!(t.events.last(), Some(&(650, EventKind::WindowOpens)));
}

#[test]
fn timestamps_measure_what_acknowledgements_cannot() {
    let mut t = Talk::new();
    let sent = |ts| Segment { timestamps: Some((ts, 7)), ..Talk::new().segment((ts - 1) * 100, ts) };
    t.raw(100, true, sent(1));
    t.raw(110, true, sent(2));
    let echo = |ecr, ack| Segment {
        seq: 5000,
        ack: Some(ack),
        flags: ACK,
        window: 1000,
        timestamps: Some((9, ecr)),
        ..Segment::default()
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

proptest::proptest! {
    #[test]
    fn no_segments_make_it_panic(
        list in proptest::collection::vec((proptest::prelude::any::<(bool, u32, Option<u32>, u8)>(), 0u32..3000, 0i64..1000, proptest::prelude::any::<Option<(u32, u32)>>()), 0..60)
    ) {
        let mut t = Talk::new();
        for ((up, seq, ack, flags), payload, ms, pair) in list {
            t.raw(ms, up, Segment { seq, ack, flags, payload, timestamps: pair, sack: pair, ..Segment::default() });
        }
        let c = t.analyzer.finish();
        proptest::prop_assert_eq!(c.len(), 1);
    }
}
