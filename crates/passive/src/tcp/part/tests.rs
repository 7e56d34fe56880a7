use super::*;
use crate::tcp::EventKind;
use crate::{LinkType, decode};
use jitlat_core::time::WallTime;
use proptest::prelude::*;

fn share(text: &str) -> ConnectionShare {
    text.parse().unwrap()
}

fn connection(port: u16, bytes: u64) -> ObservedConnection {
    let of = |bytes| DirectionFigures { segments: 3, bytes, ..DirectionFigures::default() };
    ObservedConnection {
        client: SocketAddr::new([10, 0, 0, 1].into(), port),
        server: SocketAddr::new([10, 0, 0, 2].into(), 80),
        first: WallTime(1_700_000_000_000_000_000),
        last: WallTime(1_700_000_001_000_000_000),
        handshake_server_ns: None,
        handshake_client_ns: None,
        up: of(bytes),
        down: of(7),
    }
}

fn part(number: &str, connections: &[(u64, u16, u64)]) -> ConnectionsPart {
    let mut part = ConnectionsPart::new(share(number), String::new());
    part.points.push(PointRead { name: "a.pcap".to_owned(), packets: 99, ..PointRead::default() });
    for (begins, port, bytes) in connections {
        let connection = connection(*port, *bytes);
        let event = TcpEvent { at: connection.last, kind: EventKind::Fast, bytes: 9, waited: None };
        let event = DirectedEvent { from: connection.client, to: connection.server, event };
        part.segments += 6;
        part.events.push(FoundEvent::new(begins + 1, &event));
        part.connections.push(FoundConnection { begins: *begins, connection, between: None });
    }
    part
}

#[test]
fn both_directions_of_a_connection_belong_to_one_part() {
    let packet = |from: u16, back: bool| {
        let (mut a, mut b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut ports = [from.to_be_bytes(), 80u16.to_be_bytes()];
        if back {
            (a, b) = (b, a);
            ports.reverse();
        }
        [&[0x45, 0, 0, 28, 0, 7, 0x40, 0, 64, 6, 1, 2], &a[..], &b, &ports.concat(), &[0; 4]].concat()
    };
    for of in [1, 2, 7] {
        let shares: Vec<ConnectionShare> = (1..=of).map(|k| share(&format!("{k}/{of}"))).collect();
        let mut each = vec![0; of];
        for port in 40_000..40_400 {
            let owners = [false, true].map(|back| {
                let bytes = packet(port, back);
                let p = decode(LinkType::RAW, &bytes, 28).unwrap();
                let owners: Vec<usize> = (0..of).filter(|k| shares[*k].has(&p)).collect();
                assert_eq!(owners.len(), 1);
                owners[0]
            });
            assert_eq!(owners[0], owners[1]);
            each[owners[0]] += 1;
        }
        assert!(each.iter().all(|n| *n > 400 / of / 2), "{each:?}");
    }
    assert_eq!(share("3/4").to_string(), "3/4");
    for text in ["", "1", "0/4", "5/4", "1/0", "1/5000", "-1/4"] {
        assert!(text.parse::<ConnectionShare>().is_err(), "{text}");
    }
}

#[test]
fn parts_in_any_order_are_the_whole() {
    let parts = [part("1/3", &[(5, 1, 10), (9, 2, 500)]), part("2/3", &[]), part("3/3", &[(1, 3, 10)])];
    let whole = ConnectionsPart::join(vec![parts[2].clone(), parts[0].clone(), parts[1].clone()]).unwrap();
    let at: Vec<u64> = whole.events.iter().map(|event| event.packet).collect();
    assert_eq!(at, [2, 6, 10]);
    let result = whole.result();
    // Of connections with equally many bytes, the one that begins first.
    let ports: Vec<u16> = result.first.connections.iter().map(|c| c.client.port()).collect();
    assert_eq!((ports, result.first.segments, result.first.packets), (vec![2, 3, 1], 18, 99));
    assert!(result.between.is_empty());
}

#[test]
fn what_is_not_all_the_parts_of_one_whole_is_refused() {
    let join = |numbers: &[&str]| ConnectionsPart::join(numbers.iter().map(|n| part(n, &[])).collect()).err();
    assert_eq!(join(&["2/2", "1/2"]), None);
    assert_eq!(join(&[]), Some(PartError::NoPart));
    assert_eq!(join(&["1/3", "3/3"]), Some(PartError::Missing { number: 2, of: 3 }));
    assert_eq!(join(&["1/3", "2/3"]), Some(PartError::Missing { number: 3, of: 3 }));
    assert_eq!(join(&["2/2"]), Some(PartError::Missing { number: 1, of: 2 }));
    assert_eq!(join(&["1/2", "1/2", "2/2"]), Some(PartError::Twice { number: 1, of: 2 }));
    assert_eq!(join(&["1/2", "2/3"]), Some(PartError::OtherCaptures));
    let mut other = part("2/2", &[]);
    other.points[0].checksum = 1;
    assert_eq!(ConnectionsPart::join(vec![part("1/2", &[]), other]).err(), Some(PartError::OtherCaptures));
}

#[test]
fn what_was_written_is_read_and_damage_is_told() {
    let written = part("2/3", &[(5, 1, 10), (9, 2, 500)]);
    let bytes = written.save().unwrap();
    assert_eq!(ConnectionsPart::load(&bytes), Ok(written));
    for at in 0..bytes.len() {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 1;
        assert!(ConnectionsPart::load(&spoilt).is_err(), "{at}");
        assert!(ConnectionsPart::load(&bytes[..at]).is_err(), "{at}");
    }
    assert_eq!(ConnectionsPart::load(b"jitlat part 1\n"), Err(PartError::NotAState("tcp")));
    assert_eq!(ConnectionsPart::load(b"jitlat tcp part 2\n"), Err(PartError::Version));
}

proptest! {
    /// Arbitrary bytes with a correct checksum are either refused, or can be joined and shown.
    #[test]
    fn no_bytes_are_too_bad(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let bytes = part("1/2", &[(5, 1, 10), (9, 2, 500)]).save().unwrap();
        let mut body = bytes[FIRST_LINE.len() + 8..].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Ok(part) = ConnectionsPart::load(&seal(FIRST_LINE, &body)) {
            let mut other = part.clone();
            other.shares = vec![share("2/2")];
            let _ = ConnectionsPart::join(vec![part.clone(), other]).map(ConnectionsPart::result);
            part.result();
        }
    }
}
