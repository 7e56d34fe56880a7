//! Logs as files: a written log can be read back, errors are reported, nothing panics.

use jitlat_core::clock::{AdapterClock, AdapterTimescale, SyncState};
use jitlat_core::noise::NoiseFloor;
use jitlat_core::record::Moment;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{
    ClockProbe, Direction, Flags, PacketRecord, Schedule, Session, Span, Stamp, StampSource, TestSpec,
    Transport, WallTime,
};
use jitlat_store::log::{LogOutput, LogReadError, LogReader, LogReading, LogVersion, LogWriter};
use jitlat_store::threads::Threads;
use proptest::prelude::*;
use std::io::{self, Cursor, Read, Write};
use std::num::NonZero;
use std::path::Path;

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// Reads a log to its end: session, records, and findings.
fn read_all(mut log: LogReader) -> Result<(Session, Vec<PacketRecord>, LogReading), LogReadError> {
    let records = log.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((log.session().clone(), records, log.reading().clone()))
}

fn read_bytes(bytes: &[u8]) -> Result<(Session, Vec<PacketRecord>, LogReading), LogReadError> {
    read_all(LogReader::from_reader("test", Box::new(Cursor::new(bytes.to_vec())))?)
}

fn write(session: &Session, end: &Session, records: &[PacketRecord], version: LogVersion) -> Vec<u8> {
    let mut log = LogWriter::new(Vec::new(), version);
    log.begin(session);
    records.iter().for_each(|r| log.record(r));
    log.finish(end);
    let (bytes, result) = log.close();
    result.unwrap();
    bytes
}

#[test]
fn the_golden_logs() {
    let (s, records, reading) = read_all(LogReader::open(&golden("b_wan_lossy_v1.log")).unwrap()).unwrap();
    assert_eq!((s.version, s.spec.packets(), s.spec.payload(), s.spec.dscp.value()), (1, 1500, 40, 46));
    assert_eq!((s.spec.period(), s.spec.transport()), (Span::millis(20), Transport::Udp));
    assert_eq!((s.src, s.dst), (Some([192, 0, 2, 10].into()), Some([198, 51, 100, 20].into())));
    assert_eq!((s.spec.src_port, s.spec.dst_port, s.direction_known), (40_001, 2667, false));
    assert_eq!(s.date.as_deref(), Some("Mon Nov 23 18:13:50 UTC 2009"));
    assert_eq!((records.len(), reading), (1456, LogReading { rows: 1456, ..LogReading::default() }));

    let (s, ..) = read_all(LogReader::open(&golden("c_unsync_v2.log")).unwrap()).unwrap();
    assert_eq!((s.version, s.classic_offset), (2, Some(Span(31_340_420_000))));
    assert_eq!(s.classic_rtt, Some(Span(3_231_000_000)));

    let (_, records, _) = read_all(LogReader::open(&golden("d_edge_small_v1.log")).unwrap()).unwrap();
    assert_eq!(records[2].delay(), Some(Span(-200_000)));
    assert_eq!((records[12].seq, records[14].flags), (-2, Flags(4)));
}

#[test]
fn classic_logs_are_written_as_they_were_read() {
    for (name, version) in [
        ("a_loopback_v1.log", LogVersion::V1),
        ("b_wan_lossy_v1.log", LogVersion::V1),
        ("c_unsync_v2.log", LogVersion::V2),
        ("d_edge_small_v1.log", LogVersion::V1),
    ] {
        let bytes = std::fs::read(golden(name)).unwrap();
        let (session, records, _) = read_bytes(&bytes).unwrap();
        assert!(write(&session, &session, &records, version) == bytes, "{name}");
    }
}

#[test]
fn crlf_blank_lines_and_comments_change_nothing() {
    let plain = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    let expected = read_bytes(plain.as_bytes()).unwrap();
    let dos = plain.replace('\n', "\r\n");
    let spaced = plain.replace('\n', "\n\n") + "\n\n# a comment\n";
    let marked = format!("\u{feff}{plain}");
    for text in [&dos, &spaced, &marked, plain.trim_end()] {
        assert_eq!(read_bytes(text.as_bytes()).unwrap(), expected);
    }
}

#[test]
fn other_files_are_named_as_such() {
    for (bytes, expected) in [
        (&b""[..], "cannot analyse test: it is empty"),
        (b"\n\n", "it is blank"),
        (b"{'a': 1}\n", "test is not a jitlat log: line 1 is '{\\'a\\': 1}'; expected a header"),
        (b"\x7fELF\x02\x01\x01\0\0", "line 1 is"),
        (b"# notes\n# more notes\n", "no '# npkts' line"),
        (b"# Fri Jul 3 19:45:51 GMT 2009\n# npkts -5\n", "npkts on line 2: '-5' is not a number of packets"),
    ] {
        let error = read_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let header = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    let header: String = header.lines().take(11).map(|l| format!("{l}\n")).collect();
    let error = read_bytes(format!("{header}hello\nworld\n").as_bytes()).unwrap_err().to_string();
    assert!(error.contains("line 12 is 'hello'; expected a row"), "{error}");
    assert!(LogReader::open(Path::new("/nonexistent")).is_err() && LogReader::open(Path::new("/")).is_err());
}

#[test]
fn absurd_headers_are_reported_and_rows_still_read() {
    let plain = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    let with = |from: &str, to: &str| read_bytes(plain.replace(from, to).as_bytes()).unwrap();

    let (s, records, reading) = with("npkts 12", "npkts 4000000000");
    assert_eq!((s.packets(), s.spec.packets()), (4_000_000_000, i32::MAX as u32));
    assert_eq!((records.len(), reading.warnings.len()), (15, 1));
    let (s, _, reading) = with("npkts 12", "npkts 0");
    assert_eq!((s.packets(), reading.warnings.len()), (0, 1));
    for (from, to) in [("pktlen 12", "pktlen 0"), ("pktlen 12", "pktlen 99999999999"), ("pktlen", "pktlen x")]
    {
        let (s, _, reading) = with(from, to);
        assert_eq!((s.payload(), reading.warnings.len()), (None, 1), "{to}: {:?}", reading.warnings);
    }
    for to in ["period 0", "period -20000000", "period 9223372036854775807"] {
        let (s, _, reading) = with("period 10000000", to);
        assert_eq!((s.period(), reading.warnings.len()), (None, 1), "{to}");
    }
    for (from, to) in [("proto 17", "proto 132"), ("src_port 5000", "src_port 99999"), ("dscp 0", "dscp 64")]
    {
        let (_, records, reading) = with(from, to);
        assert_eq!((records.len(), reading.warnings.len()), (15, 1), "{to}");
    }
    let (_, _, reading) = with("# dst_port 2667\n", "");
    assert_eq!(reading.warnings, ["the header lacks: dst_port"]);
}

#[test]
fn broken_rows_are_counted_and_quoted() {
    let mut text = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    text = text.replace("\n1 13", "\none 13").replace("\n3 1300000000020000000", "\n3 99999999999999999999");
    text += &format!("{}\n", "x".repeat(3_000_000));
    text += "15 1300000000110000000 11 1300000000115000500 4\n";
    let (_, records, reading) = read_bytes(text.as_bytes()).unwrap();
    assert_eq!((records.len(), reading.rows, reading.unreadable), (14, 14, 3));
    assert!(reading.warnings[0].contains("the first is line 13: 'one 13"), "{:?}", reading.warnings);
}

#[test]
fn a_second_log_is_not_mixed_into_the_first() {
    let one = std::fs::read(golden("d_edge_small_v1.log")).unwrap();
    let (_, records, reading) = read_bytes(&[one.clone(), one].concat()).unwrap();
    assert_eq!(records.len(), 15);
    assert!(reading.warnings[0].contains("another log begins"), "{:?}", reading.warnings);
}

#[test]
fn missing_rows_show_in_their_numbers() {
    let text = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    let text: String = text.lines().filter(|l| !l.starts_with("5 ")).map(|l| format!("{l}\n")).collect();
    let (_, _, reading) = read_bytes(text.as_bytes()).unwrap();
    assert!(reading.warnings[0].contains("line 17: row 6 instead of row 5"), "{:?}", reading.warnings);
}

#[test]
fn absurd_row_numbers_are_a_broken_numbering() {
    let mut text = std::fs::read_to_string(golden("d_edge_small_v1.log")).unwrap();
    for row in [u64::MAX, 1, u64::MAX - 1] {
        text += &format!("{row} 1300000000110000000 11 1300000000115000500 4\n");
    }
    let (_, records, reading) = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(records.len(), 18);
    let found = format!("row {} instead of row 15", u64::MAX);
    assert!(reading.warnings[0].contains(&found), "{:?}", reading.warnings);
}

/// Returns several thousand bytes at a time, as pipes do, and fails at the end of the text.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(50_000);
        match self.0.read(&mut buffer[..room])? {
            0 => Err(io::Error::other("the line is dead")),
            n => Ok(n),
        }
    }
}

/// Compares reading on several threads with reading on one: records, findings, session, and the error.
fn check_threads(text: &[u8], fails: bool) -> u64 {
    let read = |threads: usize| {
        let text = Cursor::new(text.to_vec());
        let input: Box<dyn Read + Send> = if fails { Box::new(Failing(text)) } else { Box::new(text) };
        let mut log = LogReader::from_reader("test", input).unwrap();
        let mut records = Vec::new();
        let threads = Threads(NonZero::new(threads).unwrap());
        let ended = log.each_chunk_on(threads, |some| records.extend_from_slice(some));
        (records, log.reading().clone(), log.session().clone(), ended.map_err(|e| e.to_string()))
    };
    let alone = read(1);
    assert_eq!(alone.3.is_err(), fails);
    for threads in 2..6 {
        let (records, reading, session, ended) = read(threads);
        assert_eq!(
            (reading, session, ended),
            (alone.1.clone(), alone.2.clone(), alone.3.clone()),
            "{threads}"
        );
        assert!(records == alone.0, "{threads} threads");
    }
    alone.1.rows
}

/// Any lines among the rows, in any position.
#[test]
fn several_threads_read_what_one_does() {
    let (session, end) = full_session();
    let text = String::from_utf8(write(&session, &end, &some_records(60_000), LogVersion::V3)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let header = lines.iter().take_while(|line| line.starts_with('#')).count();
    assert_eq!(check_threads(text.as_bytes(), false), 60_000);
    let with = |at: &[(usize, String)]| {
        let mut changed = lines.clone();
        at.iter().rev().for_each(|(row, line)| changed.insert(header + row, line));
        changed.join("\n") + "\n"
    };
    let long = || "x".repeat(300_000);
    let odd = with(&[
        (0, "# comment".to_owned()),
        (9000, long()),
        (9001, String::new()),
        (20_000, "# unrecorded 5".to_owned()),
        (20_001, "no row".to_owned()),
        (40_000, lines[header + 7].replace(' ', "\t")),
        (55_000, long() + &long()),
        (59_999, "no row either".to_owned()),
    ]);
    assert_eq!(check_threads(odd.as_bytes(), false), 60_001);
    // Many such lines.
    let often: Vec<(usize, String)> =
        (0..60_000).step_by(700).map(|k| (k, lines[header + k].replace(' ', "  "))).collect();
    assert_eq!(check_threads(with(&often).as_bytes(), false), 60_000 + often.len() as u64);
    // Rows are missing in the middle, and at the end.
    let (gap, cut) = ([&lines[..header + 30_000], &lines[header + 30_010..]].concat().join("\n"), 3_000_001);
    check_threads(gap.as_bytes(), false);
    check_threads(&text.as_bytes()[..cut], false);
    assert_eq!(check_threads(&text.as_bytes()[..cut], true), rows_before(text.as_bytes(), cut) as u64);
    let twice = text.clone() + &text;
    assert_eq!(check_threads(twice.as_bytes(), false), 60_000);
}

/// Returns a version 3 session with every fact, as known before and after the stream.
fn full_session() -> (Session, Session) {
    let schedule = Schedule::Poisson { seed: 77 };
    let spec = TestSpec::new(Direction::Down, Transport::Udp, 1000, 80, Span::millis(20), schedule).unwrap();
    let sync = SyncState {
        synchronised: true,
        offset: Span(-1234),
        estimated_error: Span::micros(5),
        maximum_error: Span::millis(2),
        frequency_ppb: -13_001,
    };
    let probe = |t: i64| ClockProbe {
        sent: WallTime(t),
        arrived: WallTime(t + 10),
        answered: WallTime(t + 11),
        returned: WallTime(t + 20),
    };
    let mut before = Session::new(spec);
    before.created = Some(WallTime(1_763_697_000_123_456_789));
    before.src = Some("2001:db8::1".parse().unwrap());
    before.dst = Some("2001:db8::2".parse().unwrap());
    before.probes = vec![probe(1_000), probe(2_000)];
    before.id = Some("0123456789abcdef".into());
    before.name = Some("before the upgrade".into());
    before.tags = vec![("site".into(), "A=B\\".into()), ("k=e\\y".into(), "-".into())];
    before.client = HostFacts {
        name: Some("alpha".into()),
        system: Some("Linux 6.18.4".into()),
        clock_source: Some("tsc".into()),
        sync_before: Some(sync),
        adapter_clock: Some(AdapterClock {
            device: 1,
            timescale: AdapterTimescale::Tai,
            offset: Span(-850),
            bound: Span(1200),
        }),
        noise: Some(NoiseFloor {
            clock_read: Span(25),
            packets: 50,
            pdv_p99: Span(90_000),
            ..NoiseFloor::default()
        }),
        notes: vec!["no SCHED_FIFO: not permitted".into()],
        ..HostFacts::default()
    };
    let mut after = before.clone();
    after.probes.push(probe(3_000));
    after.sent = Some(998);
    after.client.sync_after = Some(SyncState { synchronised: false, ..sync });
    after.client.clock_step = Some(Span(-7));
    after.server = HostFacts { name: Some("beta\nline".into()), ..before.client.clone() };
    after.ending = Ending::ServerStopped;
    after.control_port = Some(3666);
    after.reason = Some("no answer from 2001:db8::2 for 10 s".into());
    after.receiver_drops = Some(3);
    after.stamps_lost = Some(4);
    after.read_pause = Some(Span(900_000));
    (before, after)
}

fn some_records(n: i64) -> Vec<PacketRecord> {
    let t0 = 1_763_697_001_000_000_000;
    let record = |i: i64| {
        let sent = t0 + i * 20_000_000;
        let mut r = PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 70_123));
        if i % 3 != 0 {
            r.set(Moment::Arrived, Stamp { at: WallTime(sent + 70_123), source: StampSource::Kernel });
            r.set_receive_lag(Some(Span(4000 + i)));
            r.set_ttl(Some(64));
            r.set_traffic_class(Some(184));
            r.set_size(Some(80));
        }
        r
    };
    (0..n).map(record).collect()
}

/// Adds what reading adds to a session: the text of the date, and the version.
fn as_read(session: &Session) -> Session {
    let date = session.created.map(jitlat_core::units::utc_date);
    Session { date, version: 3, ..session.clone() }
}

#[test]
fn version_3_keeps_everything() {
    let (before, after) = full_session();
    let records = some_records(50);
    let bytes = write(&before, &after, &records, LogVersion::V3);
    let (session, read, reading) = read_bytes(&bytes).unwrap();
    assert_eq!(session, as_read(&after));
    assert_eq!(read, records);
    assert_eq!(reading, LogReading { rows: 50, ..LogReading::default() });

    // When read from a file, the closing lines are known at the beginning.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, &bytes).unwrap();
    let log = LogReader::open(&path).unwrap();
    assert_eq!(*log.session(), as_read(&after));
    assert_eq!(read_all(log).unwrap(), (as_read(&after), records, reading));
}

#[test]
fn what_the_header_said_too_early_is_corrected_at_the_end() {
    let (_, after) = full_session();
    let mut early = after.clone();
    early.spec.src_port = 4000;
    early.src = None;
    early.created = after.created.map(|c| WallTime(c.0 - 1));
    let records = some_records(3);
    let bytes = write(&early, &after, &records, LogVersion::V3);
    let (session, read, reading) = read_bytes(&bytes).unwrap();
    assert_eq!((session, read), (as_read(&after), records));
    assert_eq!(reading, LogReading { rows: 3, ..LogReading::default() });
}

#[test]
fn how_many_packets_there_are_may_be_known_at_the_end_alone() {
    // Captured traffic: the header states the maximum number of packets.
    let (mut begin, _) = full_session();
    begin.sent = None;
    begin.declared = Some(u64::from(jitlat_core::spec::MAX_PACKETS));
    let end = Session { sent: Some(9), declared: Some(9), ..begin.clone() };
    let records = some_records(7);
    let text = write(&begin, &end, &records, LogVersion::V3);
    let (session, read, reading) = read_bytes(&text).unwrap();
    assert_eq!((session.packets(), session.declared, read.len()), (9, None, 7), "{:?}", reading.warnings);
    assert!(reading.warnings.is_empty() && !session.truncated, "{:?}", reading.warnings);
    // The same from a file, whose end is read first.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    std::fs::write(&path, &text).unwrap();
    let (session, read, reading) = read_all(LogReader::open(&path).unwrap()).unwrap();
    assert_eq!((session.packets(), read.len()), (9, 7));
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
}

#[test]
fn version_3_begins_like_version_1() {
    let (before, after) = full_session();
    let text = String::from_utf8(write(&before, &after, &some_records(2), LogVersion::V3)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# Fri Nov 21 03:50:00 UTC 2025");
    assert_eq!(lines[1..5], ["# command SENDING", "# npkts 1000", "# pktlen 80", "# proto 17"]);
    assert_eq!(lines[10], "# dscp 0");
    let row = lines.iter().find(|l| l.starts_with("1 ")).unwrap();
    assert_eq!(*row, "1 1763697001020000000 1 1763697001020070123 0 uk - 4001 64 184 80 -");
}

#[test]
fn the_documented_example_is_one() {
    let page = include_str!("../../../../docs/formats/log-v3.md");
    let example = page.split("```").nth(1).unwrap().trim_start();
    let (session, records, reading) = read_bytes(example.replace("…\n", "").as_bytes()).unwrap();
    assert_eq!((records.len(), session.probes.len(), session.ending), (2, 2, Ending::Complete));
    assert_eq!(session.client.name.as_deref(), Some("alpha"));
    assert_eq!(records[0].dscp(), Some(46));
    assert_eq!(reading.warnings, ["the log states 1000 rows, but 2 were found"]);
    let written = String::from_utf8(write(&session, &session, &records, LogVersion::V3)).unwrap();
    for derived in ["clock_offset", "clock_interval", "control_rtt"] {
        let line = example.lines().rfind(|l| l.starts_with(&format!("# {derived} "))).unwrap();
        assert!(written.contains(line), "{line} in {written}");
    }
    let date = session.created.map(jitlat_core::units::utc_date);
    assert_eq!(date, session.date, "line 1 and `created` agree");
}

#[test]
fn two_way_records_keep_all_four_times() {
    let mut record = PacketRecord::new(4);
    for (i, moment) in [Moment::Sent, Moment::Answered, Moment::Returned].into_iter().enumerate() {
        record.set(moment, Stamp { at: WallTime(100 + i as i64), source: StampSource::ALL[i] });
    }
    let mut log = LogWriter::two_way(Vec::new());
    let session = Session::new(TestSpec::default());
    log.begin(&session);
    log.record(&record);
    log.finish(&session);
    let (_, read, _) = read_bytes(&log.close().0).unwrap();
    assert_eq!(read, [record]);
}

/// Number of complete rows before byte `at`.
fn rows_before(bytes: &[u8], at: usize) -> usize {
    let lines = bytes[..at].split_inclusive(|b| *b == b'\n');
    lines.filter(|l| l[0].is_ascii_digit() && l.ends_with(b"\n")).count()
}

#[test]
fn cut_at_any_byte_no_complete_row_is_lost_and_the_cut_is_reported() {
    let (before, after) = full_session();
    let v3 = write(&before, &after, &some_records(20), LogVersion::V3);
    let v1 = std::fs::read(golden("d_edge_small_v1.log")).unwrap();
    for bytes in [v3, v1] {
        let (_, all, _) = read_bytes(&bytes).unwrap();
        for at in 0..bytes.len() {
            let Ok((_, read, reading)) = read_bytes(&bytes[..at]) else {
                assert_eq!(rows_before(&bytes, at), 0, "an error although there are rows, cut at {at}");
                continue;
            };
            let whole = rows_before(&bytes, at);
            assert!(read.len() == whole || (read.len() == whole + 1 && reading.warnings.is_empty()), "{at}");
            for (a, b) in read.iter().zip(&all) {
                // A truncated flag column is still zero or not.
                assert_eq!((a.seq, a.delay(), a.flags.is_clean()), (b.seq, b.delay(), b.flags.is_clean()));
            }
            let at_line_end = bytes[..at].ends_with(b"\n") || bytes[at..].starts_with(b"\n");
            assert!(
                at_line_end || read.len() > whole || !reading.warnings.is_empty(),
                "cut at {at} in silence"
            );
        }
    }
}

/// A disk that accepts a limited number of bytes.
struct SmallDisk {
    bytes: Vec<u8>,
    size: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.size - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..n]);
        if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogOutput for SmallDisk {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.bytes.truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_only_what_does_not_fit() {
    let (before, after) = full_session();
    let records = some_records(5000);
    let whole = write(&before, &after, &records, LogVersion::V3);
    for size in [whole.len() / 2, whole.len() / 3, whole.len() - 10] {
        let mut log = LogWriter::new(SmallDisk { bytes: Vec::new(), size }, LogVersion::V3);
        log.begin(&before);
        records.iter().for_each(|r| log.record(r));
        log.finish(&after);
        let (disk, result) = log.close();
        let kept = result.unwrap_err().rows as usize;
        let (_, read, _) = read_bytes(&disk.bytes).unwrap();
        assert!(read == records[..kept], "{} rows for {kept}", read.len());
        assert!(kept >= rows_before(&whole, size), "{kept} rows in {size} bytes");
    }
}

fn any_record() -> impl Strategy<Value = PacketRecord> {
    let time = || proptest::option::of(any::<i64>().prop_filter("missing", |t| *t != i64::MIN));
    let lag = || proptest::option::of(i32::MIN + 1..=i32::MAX);
    let octet = || proptest::option::of(1u8..);
    let stamps = (time(), time(), 0..4usize, 0..4usize);
    let lags = (lag(), lag(), lag());
    (any::<(i64, u16)>(), stamps, lags, octet(), octet(), proptest::option::of(1u16..)).prop_map(
        |((seq, flags), (sent, arrived, s, a), (send_lag, receive_lag, entry_lag), ttl, class, size)| {
            let mut r = PacketRecord::new(seq);
            for (moment, at, source) in [(Moment::Sent, sent, s), (Moment::Arrived, arrived, a)] {
                if let Some(at) = at {
                    r.set(moment, Stamp { at: WallTime(at), source: StampSource::ALL[source] });
                }
            }
            r.flags = Flags(flags);
            r.set_send_lag(send_lag.map(|l| Span(l.into())));
            if r.local_queue().is_some() {
                r.set_entry_lag(entry_lag.map(|l| Span(l.into())));
            }
            r.set_receive_lag(receive_lag.map(|l| Span(l.into())));
            r.set_ttl(ttl);
            r.set_traffic_class(class.map(|c| c - 1));
            r.set_size(size);
            r
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_records_survive(records in proptest::collection::vec(any_record(), 0..40)) {
        let (before, after) = full_session();
        let bytes = write(&before, &after, &records, LogVersion::V3);
        let (session, read, reading) = read_bytes(&bytes).unwrap();
        prop_assert_eq!(session, as_read(&after));
        prop_assert_eq!(read, records);
        prop_assert!(reading.warnings.is_empty());
    }

    #[test]
    fn any_words_survive(name in ".*", reason in "\\PC*|[\\\\\n\r=-]*", key in ".*", value in "[=\\\\\n\r a-]*") {
        let (before, mut after) = full_session();
        after.name = Some(name);
        after.reason = Some(reason.clone());
        after.server.notes = vec![reason];
        after.tags = vec![(key, value)];
        let bytes = write(&before, &after, &[], LogVersion::V3);
        prop_assert_eq!(read_bytes(&bytes).unwrap().0, as_read(&after));
    }

    #[test]
    fn a_flipped_bit_never_panics(at in any::<prop::sample::Index>(), bit in 0..8) {
        let (before, after) = full_session();
        let mut bytes = write(&before, &after, &some_records(12), LogVersion::V3);
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        if let Ok((_, records, _)) = read_bytes(&bytes) {
            prop_assert!(records.len() <= 13);
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_bytes(&bytes);
        let header = b"# Fri Jul 3 19:46:11 UTC 2009\n# npkts 3\n";
        let _ = read_bytes(&[&header[..], &bytes].concat());
    }
}
