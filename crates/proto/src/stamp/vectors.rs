//! Parses every test packet in the captures: STAMP of two programs, TWAMP Light, TWAMP of perfSONAR.

use super::*;
use crate::stamp::auth::StampKey;
use crate::stamp::packet::is_answer;
use crate::stamp::tlv::{TlvStep, Tlvs};
use crate::wire::unhex;
use jitlat_core::WallTime;
use jitlat_core::ntp::TimeFormat;

const VECTORS: &str = include_str!("../../../../testdata/twamp/vectors.tsv");

struct Row {
    capture: &'static str,
    at: WallTime,
    up: bool,
    bytes: Vec<u8>,
}

fn rows() -> impl Iterator<Item = Row> {
    VECTORS.lines().skip(1).filter_map(|line| {
        let f: Vec<&str> = line.split('\t').collect();
        let [capture, _, at, "udp", way, _, _, hex] = f[..] else { return None };
        Some(Row { capture, at: WallTime(at.parse().unwrap()), up: way == "c->s", bytes: unhex(hex) })
    })
}

fn layout(capture: &str) -> Option<StampLayout> {
    match capture {
        // Encrypted packets cannot be read without the session keys (see the tests of TWAMP).
        c if c.starts_with("twamp-auth") || c.starts_with("twamp-enc") => None,
        c if c.starts_with("stamp-auth") => Some(StampLayout::Keyed),
        _ => Some(StampLayout::Clear),
    }
}

#[test]
fn every_captured_packet_decodes_and_re_encodes() {
    let mut count = 0;
    for row in rows() {
        let Some(layout) = layout(row.capture) else { continue };
        let mut again = row.bytes.clone();
        let fields = if row.up { layout.shortest_request() } else { layout.shortest_answer() };
        if row.up {
            let request = StampRequest::parse(layout, &row.bytes).unwrap();
            again[..fields.min(16)].fill(0);
            request.write(layout, &mut again);
            let sent = request.sent_at(row.at).unwrap();
            assert!((row.at - sent).0.abs() < 1_000_000_000, "{} {:?}", row.capture, row.at - sent);
        } else {
            let answer = StampAnswer::parse(layout, &row.bytes).unwrap();
            again[..14].fill(0);
            again[16..38].fill(0);
            answer.write(layout, &mut again);
            let arrived = answer.error.decode(answer.arrived, row.at).unwrap();
            let answered = answer.error.decode(answer.answered, row.at).unwrap();
            assert!((row.at - arrived).0.abs() < 1_000_000_000, "{}", row.capture);
            assert!((answered - arrived).0 >= 0, "{}", row.capture);
        }
        assert_eq!(again, row.bytes, "{}", row.capture);
        count += 1;
    }
    assert!(count > 200, "{count}");
}

#[test]
fn answers_are_distinguished_from_requests() {
    for row in rows() {
        let Some(layout) = layout(row.capture) else { continue };
        assert_eq!(is_answer(layout, &row.bytes), !row.up, "{}", row.capture);
    }
}

#[test]
fn the_authenticated_mode_of_an_independent_program() {
    let key = StampKey::new(&(0..32).collect::<Vec<u8>>());
    let other = StampKey::new(b"another key");
    let mut count = 0;
    for row in rows().filter(|r| r.capture.starts_with("stamp-auth")) {
        assert!(key.verify_base(&row.bytes) && !other.verify_base(&row.bytes), "{}", row.capture);
        let mut signed = row.bytes.clone();
        signed[96..112].fill(0);
        assert!(!key.verify_base(&signed));
        key.sign_base(&mut signed);
        assert_eq!(signed, row.bytes);
        let seq = u32::from_be_bytes(*row.bytes.first_chunk().unwrap());
        assert!(key.verify_tlvs(seq, &row.bytes[112..]), "{}", row.capture);
        assert!(row.bytes.len() == 112 || !key.verify_tlvs(seq + 1, &row.bytes[112..]));
        count += 1;
    }
    assert_eq!(count, 40);
}

#[test]
fn captured_extensions_are_whole() {
    for row in rows().filter(|r| r.capture.contains("tlvs")) {
        let base = layout(row.capture).unwrap().base();
        let kinds: Vec<u8> = Tlvs::new(&row.bytes[base..])
            .map(|s| match s {
                TlvStep::Whole(_, t) => t.kind,
                TlvStep::Malformed(at) => panic!("{} at {at}", row.capture),
            })
            .collect();
        let want: &[u8] = if base == 44 { &[4, 3, 2, 7, 1, 5] } else { &[4, 1, 8] };
        assert_eq!(kinds, want, "{}", row.capture);
    }
}

#[test]
fn mixed_formats_are_read_by_their_own_bits() {
    let row = rows().find(|r| r.capture == "stamp-unauth-ptp" && !r.up).unwrap();
    let answer = StampAnswer::parse(StampLayout::Clear, &row.bytes).unwrap();
    assert_eq!((answer.sender_error.format(), answer.error.format()), (TimeFormat::Ptp, TimeFormat::Ntp));
    let t1 = answer.sender_error.decode(answer.sender_sent, row.at).unwrap();
    assert!((row.at - t1).0.abs() < 1_000_000_000);
}
