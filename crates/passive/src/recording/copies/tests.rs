use super::*;
use crate::{LinkType, decode};

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// Returns an Ethernet frame with a TCP segment. `ident` and `seq` number the packet; `link` is part of the link-layer
/// address.
fn frame(ident: u16, seq: u8, ttl: u8, link: u8) -> Vec<u8> {
    let mut v = vec![2, 0, 0, 0, 0, link, 2, 0, 0, 0, 0, 9, 8, 0];
    v.extend([
        0x45,
        0,
        0,
        44,
        (ident >> 8) as u8,
        ident as u8,
        0x40,
        0,
        ttl,
        6,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    v.extend([0x9c, 0x40, 0, 80, 0, 0, 0, seq, 0, 0, 0, 1, 0x50, 24, 1, 0, 7, 7, 0, 0, 1, 2, 3, 4]);
    v
}

fn found(first: &[u8], gap: i64, second: &[u8]) -> Option<CopyKind> {
    let mut finder = CopyFinder::default();
    let mut find = |at: i64, bytes: &[u8]| {
        let p = decode(LinkType::ETHERNET, bytes, bytes.len() as u32).unwrap();
        finder.find(WallTime(at), &p, flow_of(&p), false)
    };
    assert_eq!(find(0, first), None);
    find(gap, second)
}

#[test]
fn a_packet_at_another_place_is_a_copy_for_longer_than_an_equal_one() {
    let first = frame(5, 1, 64, 1);
    assert_eq!(found(&first, 30 * US, &frame(5, 1, 63, 2)), Some(CopyKind::Elsewhere));
    assert_eq!(found(&first, 200 * MS, &frame(5, 1, 64, 2)), Some(CopyKind::Elsewhere), "another link");
    assert_eq!(found(&first, 201 * MS, &frame(5, 1, 63, 2)), None);
    assert_eq!(found(&first, 30 * US, &frame(5, 1, 62, 1)), Some(CopyKind::Elsewhere), "two routers");
    assert_eq!(found(&first, 30 * US, &frame(5, 1, 61, 1)), None, "a loop is the path's");
    assert_eq!(found(&first, MS, &frame(5, 1, 64, 1)), Some(CopyKind::Same));
    assert_eq!(found(&first, MS + 1, &frame(5, 1, 64, 1)), None, "a duplicate of the path, or sent again");
}

#[test]
fn without_numbers_an_equal_packet_may_be_sent_again() {
    let first = frame(0, 1, 64, 1);
    assert_eq!(found(&first, 100 * US, &first), Some(CopyKind::Same));
    assert_eq!(found(&first, 101 * US, &first), None);
    assert_eq!(found(&first, 5 * MS, &frame(0, 1, 63, 2)), Some(CopyKind::Elsewhere));
    assert_eq!(found(&first, 5 * MS + 1, &frame(0, 1, 63, 2)), None);
}

/// Takes segments one microsecond apart; returns how many are copies.
fn copies(frames: &[Vec<u8>]) -> usize {
    let mut finder = CopyFinder::default();
    let of = |(at, bytes): (i64, &Vec<u8>)| {
        let p = decode(LinkType::ETHERNET, bytes, bytes.len() as u32).unwrap();
        usize::from(finder.find(WallTime(at), &p, flow_of(&p), false).is_some())
    };
    (0..).step_by(1000).zip(frames).map(of).sum()
}

#[test]
fn equal_acknowledgements_without_numbers_are_copies_only_among_others() {
    let data: Vec<Vec<u8>> = (0..20).map(|k| frame(0, k, 64, 1)).collect();
    let mut ack = frame(0, 200, 64, 1);
    ack.truncate(ack.len() - 4);
    (ack[17], ack[14 + 20 + tcp::FLAGS]) = (40, 16);
    let again = vec![ack; 4];
    assert_eq!(copies(&[&data[..], &again].concat()), 0);
    let twice: Vec<Vec<u8>> = data.iter().flat_map(|f| [f.clone(), f.clone()]).collect();
    assert_eq!(copies(&[&twice[..], &again[..2]].concat()), 21);
}

#[test]
fn other_packets_are_no_copies() {
    let first = frame(5, 1, 64, 1);
    for other in [frame(6, 1, 64, 1), frame(5, 2, 64, 1)] {
        assert_eq!(found(&first, 30 * US, &other), None);
    }
    // The checksum may be filled in later.
    let mut filled = first.clone();
    filled[14 + 20 + 16] = 99;
    assert_eq!(found(&first, 30 * US, &filled), Some(CopyKind::Same));
}
