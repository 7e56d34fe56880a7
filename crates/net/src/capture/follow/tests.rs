use super::*;
use crate::capture::PcapWriter;
use jitlat_core::time::SECOND;
use jitlat_passive::LinkType;
use std::io::Write;

/// Maximum wait for data that has been written.
const LIMIT: Duration = Duration::from_secs(60);

/// Builds a capture with one packet at each of `seconds`.
fn pcap(seconds: std::ops::Range<i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, LinkType::RAW, 96).unwrap();
    for at in seconds {
        let at = WallTime(at * SECOND);
        writer.write(&Frame { at, link: LinkType::RAW, wire_length: 1500, data: &[0x45, 0] }).unwrap();
    }
    bytes
}

/// Reads until `packets` packets have been received; returns their times in seconds.
fn read(followed: &mut FollowedFiles, packets: usize) -> Vec<i64> {
    let mut seen = Vec::new();
    let found = jitlat_waiting::within(LIMIT, || {
        while seen.len() < packets && followed.poll(3, |f| seen.push(f.at.0 / SECOND)) > 0 {}
        seen.len() >= packets
    });
    assert!(found, "{seen:?}, {:?}", followed.notes());
    seen
}

/// Declares the captures complete, and returns the times of the remaining packets in seconds.
fn rest(followed: &mut FollowedFiles) -> Vec<i64> {
    followed.end();
    let mut seen = Vec::new();
    while followed.poll(1000, |f| seen.push(f.at.0 / SECOND)) > 0 {}
    seen
}

fn seconds(range: std::ops::Range<i64>) -> Vec<i64> {
    range.collect()
}

#[test]
fn files_are_read_as_they_appear_and_grow() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut followed = FollowedFiles::open(dir.path()).unwrap();
    assert_eq!(followed.poll(10, |_| ()), 0);
    // First only a header, then packets, the last one written in two pieces.
    let bytes = pcap(100..110);
    let mut first = File::create(file("x.pcap9")).unwrap();
    for (from, to, packets) in [(0, 24, 0), (24, 24 + 18 * 3 + 7, 3), (24 + 18 * 3 + 7, 24 + 18 * 6, 3)] {
        first.write_all(&bytes[from..to]).unwrap();
        let begins = if from == 0 { 0 } else { 100 + (from as i64 - 24) / 18 };
        assert_eq!(read(&mut followed, packets), seconds(begins..begins + packets as i64));
    }
    // The second file sorts before the first by name; the first file gets its last bytes at the last moment.
    first.write_all(&bytes[24 + 18 * 6..]).unwrap();
    std::fs::write(file("notes.txt"), "no capture").unwrap();
    std::fs::write(file("x.pcap10"), pcap(110..120)).unwrap();
    assert_eq!(read(&mut followed, 14), seconds(106..120));
    std::fs::write(file("x.pcap12"), pcap(130..135)).unwrap();
    assert_eq!(read(&mut followed, 5), seconds(130..135));
    // At the end, everything is read except files that begin before one that has already been read.
    std::fs::write(file("x.pcap11"), pcap(120..130)).unwrap();
    std::fs::write(file("x.pcap8"), pcap(140..141)).unwrap();
    assert_eq!((rest(&mut followed), rest(&mut followed)), (vec![140], vec![]));
    assert!(followed.notes().concat().contains("x.pcap11: skipped"), "{:?}", followed.notes());
}

#[test]
fn a_ring_of_names_is_read_round_after_round() {
    let dir = tempfile::tempdir().unwrap();
    let file = |k: i64| dir.path().join(format!("ring{}", k % 2));
    let mut followed = FollowedFiles::open(dir.path()).unwrap();
    for round in 0..6 {
        // Files differ in length, because the modification time alone may be too coarse to show the change.
        std::fs::write(file(round), pcap(round * 10..round * 10 + 4 + round)).unwrap();
        assert_eq!(read(&mut followed, 4 + round as usize), seconds(round * 10..round * 10 + 4 + round));
    }
    assert_eq!((rest(&mut followed), followed.notes()), (vec![], &[][..]));
}

#[test]
fn what_was_packed_or_comes_too_late_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let packed = |range| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&pcap(range)).unwrap();
        packed.finish().unwrap()
    };
    std::fs::write(file("a.pcap"), pcap(10..20)).unwrap();
    // A file that was compressed before it was read.
    std::fs::write(file("0.pcap.gz"), packed(0..10)).unwrap();
    let old = SystemTime::now() - Duration::from_secs(60);
    File::options().append(true).open(file("0.pcap.gz")).unwrap().set_modified(old).unwrap();
    let mut followed = FollowedFiles::open(dir.path()).unwrap();
    assert_eq!(read(&mut followed, 20), seconds(0..20));
    std::fs::write(file("a.pcap.gz"), packed(10..20)).unwrap();
    std::fs::remove_file(file("a.pcap")).unwrap();
    std::fs::write(file("late.pcap"), pcap(3..5)).unwrap();
    std::fs::write(file("b.pcap"), pcap(20..23)).unwrap();
    assert_eq!(rest(&mut followed), [20, 21, 22]);
    let notes = followed.notes().concat();
    assert!(notes.contains("late.pcap: skipped") && followed.notes().len() == 1, "{notes}");
}

#[test]
fn a_file_cut_at_any_byte_is_read_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grows");
    let pcap = pcap(0..4);
    // A pcapng file: a section, an interface, and blocks of an unknown type between packets.
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let mut section = 0x1a2b_3c4du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut pcapng = [block(0x0a0d_0d0a, &section), block(1, &[101, 0, 0, 0, 0, 0, 0, 0])].concat();
    for at in 0..4u64 {
        let words = [0u32, 0, (at * 1_000_000) as u32, 4, 1500];
        let mut body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        body.extend([0x45, 0, 0, 0]);
        pcapng.extend(block(6, &body));
        pcapng.extend(block(0x0bad, &[7; 40]));
    }
    for bytes in [pcap, pcapng] {
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let mut followed = FollowedFiles::open(&path).unwrap();
            let mut seen = Vec::new();
            followed.poll(10, |f| seen.push(f.at.0 / SECOND));
            File::options().append(true).open(&path).unwrap().write_all(&bytes[cut..]).unwrap();
            seen.extend(rest(&mut followed));
            assert_eq!((seen, followed.notes()), (seconds(0..4), &[][..]), "{cut}");
        }
    }
}

#[test]
fn what_is_not_there_cannot_be_followed() {
    let dir = tempfile::tempdir().unwrap();
    assert!(FollowedFiles::open(&dir.path().join("none")).is_err());
}
