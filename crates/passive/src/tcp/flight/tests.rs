use super::*;

fn stretch(start: u64, end: u64) -> InFlight {
    let s = TcpSegment { ident: start as u32 + 1, ..TcpSegment::default() };
    InFlight::new(WallTime(start as i64), &s, (start, end))
}

fn flight(ranges: &[(u64, u64)]) -> Flight {
    let mut flight = Flight::default();
    ranges.iter().for_each(|r| flight.add(stretch(r.0, r.1), true));
    flight
}

#[test]
fn stretches_are_in_the_order_of_the_stream() {
    let f = flight(&[(100, 200), (400, 500), (200, 300), (0, 100), (500, 600)]);
    assert_eq!(f.iter().map(|x| x.start).collect::<Vec<_>>(), [0, 100, 200, 400, 500]);
}

#[test]
fn only_what_has_bytes_in_a_range_was_sent_again() {
    let mut f = flight(&[(0, 100), (100, 200), (200, 300)]);
    f.mark_sent_again(WallTime(7), (100, 200), EventKind::Fast);
    let again: Vec<_> = f.iter().map(|x| (x.again, x.last.0)).collect();
    assert_eq!(again, [(None, 0), (Some(EventKind::Fast), 7), (None, 200)]);
    assert_eq!(f.waited(WallTime(1000), (99, 101)), Some(Span(1000)));
    assert_eq!(f.waited(WallTime(1000), (300, 400)), None);
}

#[test]
fn a_packet_seen_twice_has_its_beginning_and_identification_within_moments() {
    let f = flight(&[(0, 100), (100, 200)]);
    let holds = |at, ident, start| {
        let s = TcpSegment { ident, ..TcpSegment::default() };
        f.holds_packet(WallTime(at), &s, start, Span(50))
    };
    assert!(holds(149, 101, 100) && !holds(150, 101, 100));
    assert!(!holds(110, 102, 100) && !holds(110, 101, 0) && !holds(110, 101, 150));
    let s = TcpSegment { ident: 101, timestamps: Some((1, 2)), ..TcpSegment::default() };
    assert!(!f.holds_packet(WallTime(110), &s, 100, Span(50)), "another timestamp");
}
