//! Truncated logs: unrecorded packets are unknown, never lost.

use jitlat_core::analysis::{Analyzer, Options, analyze};
use jitlat_core::answer::CauseId;
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::state::{Merged, SavedAnalysis};
use jitlat_core::summary::{Interval, Summary};
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, TestSpec, Transport, WallTime,
};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::io::Cursor;

const PACKETS: u64 = 400;

fn session(two_way: bool) -> Session {
    let period = Span::millis(20);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, PACKETS, 80, period, Schedule::Periodic).unwrap();
    let two_way = two_way.then(|| Box::new(TwoWay { protocol: "stamp".to_owned(), ..TwoWay::default() }));
    Session { two_way, created: Some(WallTime(1_763_697_000_000_000_000)), ..Session::new(spec) }
}

/// Records of a test that lost every tenth packet and the last three.
fn records(two_way: bool) -> Vec<PacketRecord> {
    let record = |seq: i64| {
        let sent = 1_763_697_001_000_000_000 + seq * 20_000_000;
        let mut record =
            PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + 1_000_000 + seq % 7 * 1000));
        if two_way {
            let times = [(Moment::Answered, 1_100_000), (Moment::Returned, 2_000_000)];
            for (moment, after) in times {
                record.set(moment, Stamp { at: WallTime(sent + after), source: StampSource::User });
            }
        }
        record
    };
    (0..PACKETS as i64 - 3).filter(|seq| seq % 10 != 5).map(record).collect()
}

fn log(version: LogVersion, two_way: bool) -> Vec<u8> {
    let mut log = if two_way { LogWriter::two_way(Vec::new()) } else { LogWriter::new(Vec::new(), version) };
    let begun = session(two_way);
    log.begin(&begun);
    records(two_way).iter().for_each(|record| log.record(record));
    log.finish(&Session { sent: Some(PACKETS as u32), ending: Ending::Complete, ..begun });
    let (bytes, written) = log.close();
    assert_eq!(written.unwrap().rows, PACKETS - 3 - 40);
    bytes
}

/// Returns the exact analysis of a log and the one in constant memory; `None` if the text is too short for a log.
fn analyses(bytes: &[u8]) -> Option<[Summary; 2]> {
    let both = [false, true].map(|streaming| {
        let mut log = LogReader::from_reader("cut", Box::new(Cursor::new(bytes.to_vec()))).ok()?;
        let records = log.by_ref().collect::<Result<Vec<_>, _>>().ok()?;
        let options = Options { streaming, ..jitlat_verdict::options() };
        Some(analyze(log.session(), records, &options))
    });
    let [exact, streamed] = both;
    Some([exact?, streamed?])
}

/// Number of losses below the highest number in the first `rows` rows.
fn lost_before(rows: u64) -> u64 {
    records(false)[..rows as usize].last().map_or(0, |last| last.seq as u64 + 1 - rows)
}

#[test]
fn a_cut_log_of_version_3_claims_nothing_beyond_its_last_row() {
    for two_way in [false, true] {
        let whole = log(LogVersion::V3, two_way);
        let [summary, _] = analyses(&whole).unwrap();
        assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS, 43));
        assert!(summary.answer.unwrap().complete);
        // The last cut removes the line feed only.
        for at in (0..whole.len() - 1).step_by(199).chain([whole.len() - 2]) {
            for summary in analyses(&whole[..at]).into_iter().flatten() {
                let counts = &summary.counts;
                let rows = counts.unique_valid;
                assert_eq!(
                    (counts.lost, counts.sent),
                    (lost_before(rows), rows + lost_before(rows)),
                    "cut at {at}"
                );
                assert!(counts.tail_unknown, "cut at {at}");
                assert!(summary.answer.is_none_or(|answer| !answer.complete), "cut at {at}");
            }
        }
    }
}

/// Removes the rows of the packets from `from` on.
fn without_rows_from(log: &[u8], from: u64) -> Vec<u8> {
    let text = std::str::from_utf8(log).unwrap();
    let is_kept = |line: &&str| {
        line.starts_with('#') || line.split(' ').nth(2).is_some_and(|seq| seq.parse::<u64>().unwrap() < from)
    };
    text.split_inclusive('\n').filter(is_kept).collect::<String>().into_bytes()
}

fn has_note(summary: &Summary, text: &str) -> bool {
    summary.warnings.iter().any(|w| w.text.starts_with(text))
}

/// A log of an old version has its final name only if it is complete: packets without a row are lost.
#[test]
fn a_log_of_an_old_version_without_its_last_rows_has_lost_these_packets() {
    for version in [LogVersion::V1, LogVersion::V2] {
        let whole = log(version, false);
        for summary in analyses(&whole).unwrap() {
            assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS, 43));
            assert!(!has_note(&summary, "no rows for the last"));
        }
        // Below 400 − 106 packets, every tenth is lost.
        for summary in analyses(&without_rows_from(&whole, PACKETS - 106)).unwrap() {
            let counts = &summary.counts;
            assert_eq!((counts.sent, counts.lost), (PACKETS, 106 + 29));
            assert!(!counts.tail_unknown && summary.answer.as_ref().unwrap().complete);
            assert!(has_note(&summary, "no rows for the last 106 packets: lost, or the file was cut"));
        }
        for summary in analyses(&without_rows_from(&whole, 0)).unwrap() {
            assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS, PACKETS));
            assert!(summary.answer.unwrap().complete);
        }
    }
}

/// A log with its final name is cut at every place: packets without a row are lost, unless even the header is
/// incomplete.
#[test]
fn a_cut_log_of_an_old_version_says_so() {
    for version in [LogVersion::V1, LogVersion::V2] {
        let whole = log(version, false);
        for at in (0..whole.len()).step_by(151) {
            for summary in analyses(&whole[..at]).into_iter().flatten() {
                let counts = &summary.counts;
                match counts.unique_valid {
                    0 => assert!(counts.lost == 0 || counts.lost == PACKETS, "cut at {at}"),
                    rows => assert_eq!(counts.lost, PACKETS - rows, "cut at {at}"),
                }
            }
            let reader = LogReader::from_reader("cut", Box::new(Cursor::new(whole[..at].to_vec())));
            let Ok(mut reader) = reader else { continue };
            if reader.by_ref().any(|row| row.is_err()) {
                continue;
            }
            let notes = reader.reading().warnings.join("\n");
            if reader.reading().truncated {
                assert!(notes.contains("the log is truncated in line"), "cut at {at}: {notes}");
            }
        }
    }
    let whole = log(LogVersion::V1, false);
    let mut reader =
        LogReader::from_reader("cut", Box::new(Cursor::new(whole[..whole.len() - 3].to_vec()))).unwrap();
    assert!(reader.by_ref().all(|row| row.is_ok()));
    let note = "no rows for the last 5 packets: lost, or the file was cut";
    assert!(reader.reading().warnings.iter().any(|w| w == note), "{:?}", reader.reading().warnings);
}

/// The log has another name while its test runs and after a crash, and its end is unknown.
#[test]
fn the_end_of_a_part_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    for (version, name) in [(LogVersion::V1, "a.log.part"), (LogVersion::V2, "b.part")] {
        let path = folder.path().join(name);
        std::fs::write(&path, without_rows_from(&log(version, false), PACKETS - 106)).unwrap();
        let mut reader = LogReader::open(&path).unwrap();
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        let summary = analyze(reader.session(), records, &jitlat_verdict::options());
        assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS - 106, 29));
        assert!(summary.counts.tail_unknown && !summary.answer.unwrap().complete);
        let notes = &reader.reading().warnings;
        assert!(notes.iter().any(|note| note.contains("ends with .part")), "{notes:?}");
    }
}

/// Checks the analysis of a log from whose middle something is missing, here of rows `from..to`.
fn check_without(bytes: &[u8], from: usize, to: usize, what: &str) {
    let rows = records(false);
    let before = rows[..from].last().map_or(0, |last| last.seq as u64 + 1);
    let after = rows.get(to).map_or(PACKETS, |row| row.seq as u64);
    let known_lost = 43 - (before..after).filter(|seq| seq % 10 == 5 || *seq >= PACKETS - 3).count() as u64;
    for summary in analyses(bytes).unwrap() {
        let counts = &summary.counts;
        assert_eq!(counts.unique_valid, (rows.len() - (to - from)) as u64, "{what}");
        assert_eq!((counts.lost, counts.sent), (known_lost, PACKETS - (after - before)), "{what}");
        let hist = &summary.loss.run_length_hist;
        assert_eq!(hist.iter().map(|(len, runs)| len * runs).sum::<u64>(), known_lost, "{what}: {hist:?}");
        assert!(hist.keys().all(|len| [1, 3].contains(len)), "{what}: {hist:?}");
        assert!(counts.tail_unknown, "{what}");
        if let Some(answer) = summary.answer {
            assert!(!answer.complete, "{what}");
            let cause = answer.causes.iter().find(|c| c.id == CauseId::IncompleteLog).unwrap();
            assert_eq!(cause.packets, [before, after - 1], "{what}");
            assert!(cause.from_s < cause.to_s, "{what}: {cause:?}");
        }
    }
}

/// Byte range of rows `from..to`.
fn byte_range(log: &[u8], from: usize, to: usize) -> [usize; 2] {
    let text = std::str::from_utf8(log).unwrap();
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.starts_with('#') {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(text.find("# rows").unwrap());
    [starts[from], starts[to]]
}

#[test]
fn rows_missing_within_a_log_are_unknown() {
    let rows = records(false).len();
    for (from, to) in [(0, 1), (0, 50), (4, 5), (5, 7), (100, 101), (100, 250), (rows - 1, rows), (40, rows)]
    {
        let what = |how: &str| format!("{how} of rows {from} to {to}");
        // Overwritten, as by a block that never reached the disk.
        let mut overwritten = log(LogVersion::V3, false);
        let [start, end] = byte_range(&overwritten, from, to);
        overwritten[start..end - 1].fill(0);
        check_without(&overwritten, from, to, &what("overwriting"));
        // Removed: their numbers are missing, and the closing lines state how many rows there were.
        if to < rows {
            let mut removed = log(LogVersion::V3, false);
            removed.drain(start..end);
            check_without(&removed, from, to, &what("removing"));
        }
        // Never written, because the disk was too slow.
        let mut slow = LogWriter::new(Vec::new(), LogVersion::V3);
        let begun = session(false);
        slow.begin(&begun);
        for (k, record) in records(false).iter().enumerate() {
            if (from..to).contains(&k) { slow.miss(1) } else { slow.record(record) }
        }
        if to < rows {
            slow.finish(&Session { sent: Some(PACKETS as u32), ending: Ending::Complete, ..begun });
            check_without(&slow.close().0, from, to, &what("not writing"));
        }
    }
}

#[test]
fn windows_and_merged_tests_leave_out_what_is_unknown() {
    let mut bytes = log(LogVersion::V3, false);
    let [start, end] = byte_range(&bytes, 30, 100);
    bytes.drain(start..end);
    let options = Options { interval: Some(Span::seconds(1)), ..jitlat_verdict::options() };
    let mut reader = LogReader::from_reader("removed", Box::new(Cursor::new(bytes))).unwrap();
    let mut analyzer = Analyzer::new(reader.session(), &options);
    reader.by_ref().for_each(|record| analyzer.push(&record.unwrap()));
    let state = SavedAnalysis::of(reader.session().clone(), analyzer);
    let one = state.clone().finish();
    let sums = |of: fn(&Interval) -> u64| one.intervals.iter().map(of).sum::<u64>();
    assert_eq!((sums(|w| w.sent), sums(|w| w.lost)), (one.counts.sent, one.counts.lost));
    assert!(one.counts.lost < 43 && one.counts.tail_unknown);

    let mut both = state.clone();
    let mut next = state;
    next.session_mut().id = Some("another".to_owned());
    assert_eq!(both.merge(next).unwrap(), Merged::United);
    let both = both.finish();
    assert_eq!((both.counts.sent, both.counts.lost), (2 * one.counts.sent, 2 * one.counts.lost));
    assert!(both.counts.tail_unknown);
    let loaded = SavedAnalysis::load(
        &SavedAnalysis::of(reader.session().clone(), Analyzer::new(reader.session(), &options))
            .save()
            .unwrap(),
        &options,
    );
    assert_eq!(loaded.unwrap().session().unrecorded, reader.session().unrecorded);
}
