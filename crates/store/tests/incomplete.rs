//! Logs cut short: what was not recorded is unknown, never lost.

use jitlat_core::analysis::{Options, analyze};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Source, Span, Stamp, TestSpec, Transport, WallTime,
};
use jitlat_store::log::{LogReader, LogWriter, Version};
use std::io::Cursor;

const PACKETS: u64 = 400;

fn session(two_way: bool) -> Session {
    let period = Span::millis(20);
    let spec = TestSpec::new(Direction::Up, Transport::Udp, PACKETS, 80, period, Schedule::Periodic).unwrap();
    let two_way = two_way.then(|| Box::new(TwoWay { protocol: "stamp".to_owned(), ..TwoWay::default() }));
    Session { two_way, created: Some(WallTime(1_763_697_000_000_000_000)), ..Session::new(spec) }
}

/// Every tenth packet is lost, and the last three.
fn records(two_way: bool) -> Vec<PacketRecord> {
    let record = |seq: i64| {
        let sent = 1_763_697_001_000_000_000 + seq * 20_000_000;
        let mut record =
            PacketRecord::one_way(seq, WallTime(sent), WallTime(sent + 1_000_000 + seq % 7 * 1000));
        if two_way {
            let times = [(Moment::Answered, 1_100_000), (Moment::Returned, 2_000_000)];
            for (moment, after) in times {
                record.set(moment, Stamp { at: WallTime(sent + after), source: Source::User });
            }
        }
        record
    };
    (0..PACKETS as i64 - 3).filter(|seq| seq % 10 != 5).map(record).collect()
}

fn log(version: Version, two_way: bool) -> Vec<u8> {
    let mut log = if two_way { LogWriter::two_way(Vec::new()) } else { LogWriter::new(Vec::new(), version) };
    let begun = session(two_way);
    log.begin(&begun);
    records(two_way).iter().for_each(|record| log.record(record));
    log.finish(&Session { sent: Some(PACKETS as u32), ending: Ending::Complete, ..begun });
    let (bytes, written) = log.close();
    assert_eq!(written.unwrap().rows, PACKETS - 3 - 40);
    bytes
}

/// The analysis of a log, and of a log in constant memory; `None` if it is too short to be one.
fn analyses(bytes: &[u8]) -> Option<[Summary; 2]> {
    let both = [false, true].map(|streaming| {
        let mut log = LogReader::from_reader("cut", Box::new(Cursor::new(bytes.to_vec()))).ok()?;
        let records = log.by_ref().collect::<Result<Vec<_>, _>>().ok()?;
        let options = Options { streaming, ..Options::default() };
        Some(analyze(log.session(), records, &options))
    });
    let [exact, streamed] = both;
    Some([exact?, streamed?])
}

/// The losses below the highest number met.
fn lost_before(rows: u64) -> u64 {
    records(false)[..rows as usize].last().map_or(0, |last| last.seq as u64 + 1 - rows)
}

#[test]
fn a_cut_log_of_version_3_claims_nothing_beyond_its_last_row() {
    for two_way in [false, true] {
        let whole = log(Version::V3, two_way);
        let [summary, _] = analyses(&whole).unwrap();
        assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS, 43));
        assert!(summary.answer.unwrap().complete);
        // The last cut takes the line feed only.
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

/// Old logs do not say where they end: a few packets missing there may be lost.
#[test]
fn a_cut_log_of_an_old_version_claims_little_beyond_its_last_row() {
    for version in [Version::V1, Version::V2] {
        let whole = log(version, false);
        let [summary, _] = analyses(&whole).unwrap();
        assert_eq!((summary.counts.sent, summary.counts.lost), (PACKETS, 43));
        for at in (0..whole.len()).step_by(151) {
            for summary in analyses(&whole[..at]).into_iter().flatten() {
                let counts = &summary.counts;
                let claimed = counts.lost - lost_before(counts.unique_valid);
                let complete = summary.answer.map_or(!counts.tail_unknown, |answer| answer.complete);
                // The header comes before the number of packets: of nothing, nothing is claimed.
                let none = counts.unique_valid == 0;
                assert!(claimed == 0 || complete && claimed < 13 && !none, "cut at {at}: {claimed} lost");
            }
        }
    }
}
