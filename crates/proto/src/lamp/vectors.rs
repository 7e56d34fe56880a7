//! Parses every packet in the captures of the reference program.

use super::*;
use crate::lamp::packet::{HEADER_LEN, push_payload, turn_into_reply};
use crate::wire::unhex;

const VECTORS: &str = include_str!("../../../../testdata/lamp/vectors.tsv");

#[test]
fn every_captured_packet_decodes_and_re_encodes() {
    let mut seen = [0; 15];
    let mut rows = 0;
    for line in VECTORS.lines().skip(1) {
        let f: Vec<&str> = line.split('\t').collect();
        let [_, _, _, _, name, id, seq, code, seconds, micros, length, hex] = f[..] else { panic!("{line}") };
        let (hex, whole) = hex.strip_suffix("...").map_or((hex, true), |h| (h, false));
        let bytes = unhex(hex);
        let header = LampHeader::parse(&bytes).unwrap_or_else(|| panic!("{line}"));
        let code = u16::from_str_radix(&code[2..], 16).unwrap();
        assert_eq!((header.id, header.seq), (id.parse().unwrap(), seq.parse().unwrap()), "{line}");
        assert_eq!(header.length_or_type, code, "{line}");
        assert_eq!((header.seconds, header.micros), (seconds.parse().unwrap(), micros.parse().unwrap()));
        let debug = format!("{:?}", header.kind).to_uppercase();
        let plain = name
            .replace(['_'], "")
            .replace("PINGLIKE", "")
            .replace("UNIDIR", "")
            .replace("TLESS", "TIMELESS");
        assert_eq!(debug.replace("REQUEST", "REQ"), plain.replace("CTRL", "CONTROL"), "{line}");

        let mut again = header.to_bytes().to_vec();
        let length: usize = length.parse().unwrap();
        match header.kind {
            LampKind::Report => {
                let text = std::str::from_utf8(&bytes[HEADER_LEN..]).unwrap();
                again.extend(text.parse::<LampReport>().unwrap().to_string().bytes());
            }
            _ => push_payload(&mut again, length - HEADER_LEN),
        }
        assert_eq!(again.len(), length, "{line}");
        assert!(if whole { again == bytes } else { again.starts_with(&bytes) }, "{line}");
        seen[header.kind as usize] += 1;
        rows += 1;
    }
    assert_eq!(rows, 511);
    assert!(seen.iter().all(|n| *n > 0), "every kind is there: {seen:?}");
}

#[test]
fn the_reference_server_changes_nothing_but_the_kind() {
    let rows: Vec<Vec<&str>> = VECTORS.lines().skip(1).map(|l| l.split('\t').collect()).collect();
    let mut pairs = 0;
    for request in rows.iter().filter(|r| r[3] == "c->s" && r[4].contains("REQ") && !r[11].ends_with("...")) {
        let answer = rows.iter().find(|a| {
            a[0] == request[0]
                && a[3] == "s->c"
                && a[4].contains("REPLY")
                && a[5..10] == request[5..10]
                && !a[11].ends_with("...")
        });
        let Some(answer) = answer else { continue };
        let mut bytes = unhex(request[11]);
        assert!(turn_into_reply(&mut bytes));
        assert_eq!(bytes, unhex(answer[11]), "{}", request[0]);
        pairs += 1;
    }
    assert!(pairs > 100, "{pairs}");
}
