//! Files made here, byte by byte.

use super::*;
use std::io::{Cursor, Write};

/// What a capture holds: time, link type, length on the wire, bytes.
type Row = (i64, u16, u32, Vec<u8>);

fn read(bytes: Vec<u8>) -> (Vec<Row>, Vec<String>, u64) {
    let mut c = Capture::from_reader("test", Cursor::new(bytes)).unwrap();
    let mut rows = Vec::new();
    while let Some(f) = c.next_frame() {
        rows.push((f.at.0, f.link.0, f.wire_length, f.data.to_vec()));
    }
    (rows, c.notes().to_vec(), c.drops())
}

fn w32(big: bool, n: u32) -> [u8; 4] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

fn w16(big: bool, n: u16) -> [u8; 2] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

fn pcap(magic: u32, big: bool, extra: usize) -> Vec<u8> {
    let mut v = w32(big, magic).to_vec();
    v.extend([0; 12]);
    v.extend(w32(big, 96));
    v.extend(w32(big, 0xf400_0001)); // Ethernet, with a frame check sequence noted above
    for (i, bytes) in [&b"one"[..], b"", b"three"].iter().enumerate() {
        for n in [1_700_000_000 + i as u32, 999_999, bytes.len() as u32, 1500] {
            v.extend(w32(big, n));
        }
        v.extend(vec![0; extra]);
        v.extend(*bytes);
    }
    v
}

fn expected(fraction: i64) -> Vec<Row> {
    [&b"one"[..], b"", b"three"]
        .iter()
        .enumerate()
        .map(|(i, b)| ((1_700_000_000 + i as i64) * 1_000_000_000 + fraction, 1, 1500, b.to_vec()))
        .collect()
}

#[test]
fn pcap_in_both_resolutions_and_byte_orders() {
    for big in [false, true] {
        assert_eq!(read(pcap(0xa1b2_c3d4, big, 0)), (expected(999_999_000), vec![], 0));
        assert_eq!(read(pcap(0xa1b2_3c4d, big, 0)), (expected(999_999), vec![], 0));
        assert_eq!(read(pcap(0xa1b2_cd34, big, 8)), (expected(999_999_000), vec![], 0));
    }
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = w32(big, padded as u32 + 12);
    let mut v = [w32(big, kind), length].concat();
    v.extend(body);
    v.resize(8 + padded, 0);
    v.extend(length);
    v
}

fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let mut v = [w16(big, code), w16(big, value.len() as u16)].concat();
    v.extend(value);
    v.resize(4 + value.len().next_multiple_of(4), 0);
    v
}

fn pcapng(big: bool) -> Vec<u8> {
    let mut v = block(big, 0x0a0d_0d0a, &[&w32(big, 0x1a2b_3c4d)[..], &[0; 12]].concat());
    let idb = |link: u16, options: Vec<u8>| {
        block(big, 1, &[&w16(big, link)[..], &[0; 2], &w32(big, 96), &options].concat())
    };
    v.extend(idb(1, vec![]));
    v.extend(idb(113, [option(big, 2, b"eth0"), option(big, 9, &[9])].concat()));
    let hour = if big { 3600u64.to_be_bytes() } else { 3600u64.to_le_bytes() };
    v.extend(idb(101, [option(big, 9, &[0x80 | 10]), option(big, 14, &hour)].concat()));
    v.extend(block(big, 0xbad, &[1, 2, 3])); // unknown: passed over
    let mut packet = |interface: u32, units: u64, bytes: &[u8]| {
        let body = [interface, (units >> 32) as u32, units as u32, bytes.len() as u32, 1500];
        v.extend(block(big, 6, &[&body.map(|n| w32(big, n)).concat()[..], bytes].concat()));
    };
    packet(0, 1_700_000_000_000_001, b"one");
    packet(1, 1_700_000_000_000_000_001, b"two!");
    packet(2, 1536, b"three"); // 1.5 s in units of 2^-10 s
    v.extend(block(big, 3, &[&w32(big, 3)[..], b"abc"].concat()));
    let dropped = if big { 42u64.to_be_bytes() } else { 42u64.to_le_bytes() };
    v.extend(block(big, 5, &[&w32(big, 0)[..], &[0; 8], &option(big, 5, &dropped)].concat()));
    v
}

#[test]
fn pcapng_with_an_interface_of_each_kind() {
    for big in [false, true] {
        let (rows, notes, drops) = read(pcapng(big));
        assert_eq!(
            rows,
            [
                (1_700_000_000_000_001_000, 1, 1500, b"one".to_vec()),
                (1_700_000_000_000_000_001, 113, 1500, b"two!".to_vec()),
                (3_601_500_000_000, 101, 1500, b"three".to_vec()),
            ]
        );
        assert_eq!(drops, 42);
        assert!(notes.len() == 1 && notes[0].contains("1 packets have no time stamp"), "{notes:?}");
    }
    // Two sections of different byte order, as `cat` makes them.
    assert_eq!(read([pcapng(true), pcapng(false)].concat()).0.len(), 6);
}

#[test]
fn drop_counters_that_lie_do_no_harm() {
    let statistics = |interface: u32, dropped: u64| {
        let options = [option(false, 5, &dropped.to_le_bytes()), option(false, 7, &dropped.to_le_bytes())];
        block(false, 5, &[&w32(false, interface)[..], &[0; 8], &options.concat()].concat())
    };
    let v = [pcapng(false), statistics(0, u64::MAX), statistics(1, u64::MAX), statistics(2, 7)].concat();
    assert_eq!(read(v).2, u64::MAX);
}

#[test]
fn a_file_cut_anywhere_gives_the_packets_before_the_cut() {
    for whole in [pcap(0xa1b2_c3d4, false, 0), pcapng(false)] {
        let all = read(whole.clone()).0;
        let mut most = 0;
        for n in 24..whole.len() {
            let (rows, _, _) = read(whole[..n].to_vec());
            assert_eq!(rows, all[..rows.len()]);
            assert!(rows.len() >= most);
            most = rows.len();
        }
        assert_eq!(most, all.len() - usize::from(whole[0] == 0xd4));
    }
    let (_, notes, _) = read(pcap(0xa1b2_c3d4, false, 0)[..50].to_vec());
    assert!(notes[0].contains("ends in the middle of a packet at byte 43"), "{notes:?}");
}

#[test]
fn a_lying_length_is_named_and_nothing_is_allocated_for_it() {
    let mut v = pcap(0xa1b2_c3d4, false, 0);
    v[43 + 8..43 + 12].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let (rows, notes, _) = read(v);
    assert_eq!(rows.len(), 1);
    assert!(notes[0].contains("damaged at byte 43"), "{notes:?}");
    let mut v = pcapng(false);
    v[4..8].copy_from_slice(&7u32.to_le_bytes());
    assert!(read(v).1[0].contains("impossible length"));
}

#[test]
fn what_is_no_capture_is_refused() {
    for bytes in [&b""[..], b"\xd4\xc3\xb2", b"hello, world: this is plainly not a capture"] {
        let Err(e) = Capture::from_reader("x.txt", Cursor::new(bytes.to_vec())) else { panic!("accepted") };
        assert!(e.to_string().contains("x.txt"), "{e}");
    }
    assert!(matches!(Capture::open(&[]), Err(CaptureError::Nothing)));
    assert!(matches!(Capture::open(&["/nonexistent.pcap".into()]), Err(CaptureError::Io { .. })));
}

#[test]
fn packed_files_are_unpacked() {
    let plain = pcap(0xa1b2_c3d4, false, 0);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    assert_eq!(read(gz.finish().unwrap()).0, expected(999_999_000));

    let pack = |b: &[u8]| ruzstd::encoding::compress_to_vec(b, ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(read(pack(&plain)).0, expected(999_999_000));
    let two_frames = [pack(&plain[..60]), pack(&plain[60..])].concat();
    assert_eq!(read(two_frames).0, expected(999_999_000));

    // xz of a raw-IP capture of the three bytes "abc" at 7.000008 s
    let xz = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x16,
        0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x00, 0x2a, 0x00, 0x20, 0x5d, 0x00, 0x6a, 0x30, 0xd1,
        0xc8, 0x7d, 0x8b, 0xf8, 0x09, 0x9b, 0xad, 0x94, 0x4b, 0x8b, 0x19, 0xc6, 0xf9, 0x53, 0xdf, 0xda, 0xf2,
        0xd4, 0xe5, 0xa3, 0x94, 0x72, 0x62, 0x15, 0x06, 0x3f, 0xd8, 0x00, 0x20, 0x00, 0x7e, 0xc4, 0x07, 0x14,
        0x87, 0x22, 0x95, 0xee, 0x00, 0x01, 0x3c, 0x2b, 0x94, 0x35, 0xc9, 0xff, 0x1f, 0xb6, 0xf3, 0x7d, 0x01,
        0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];
    assert_eq!(read(xz.to_vec()).0, [(7_000_008_000, 101, 1500, b"abc".to_vec())]);

    let mut broken = pack(&plain);
    broken.truncate(broken.len() - 3);
    let _ = Capture::from_reader("z", Cursor::new(broken)).map(|mut c| while c.next_frame().is_some() {});
}

#[test]
fn several_files_are_one_capture() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a.pcap", "b.pcapng", "c.pcap"].iter().map(|n| dir.path().join(n)).collect();
    std::fs::write(&paths[0], pcap(0xa1b2_c3d4, false, 0)).unwrap();
    std::fs::write(&paths[1], pcapng(true)).unwrap();
    std::fs::write(&paths[2], b"not a capture at all, just some text").unwrap();
    let mut c = Capture::open(&paths).unwrap();
    while c.next_frame().is_some() {}
    assert_eq!(c.frames(), 6);
    assert!(c.notes().iter().any(|n| n.contains("c.pcap is not a capture")), "{:?}", c.notes());
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_hang(
        mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
        kind in 0usize..4,
        at in 0usize..400,
        value: u32,
    ) {
        let head = [pcap(0xa1b2_c3d4, false, 0), pcapng(false), pcapng(true), vec![]][kind].clone();
        bytes.splice(0..0, head);
        if let Some(b) = bytes.get_mut(at..at + 4) {
            b.copy_from_slice(&value.to_le_bytes());
        }
        if let Ok(mut c) = Capture::from_reader("fuzz", Cursor::new(bytes)) {
            while c.next_frame().is_some() {}
        }
    }
}
