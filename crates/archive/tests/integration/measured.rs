//! Measured tests: session and packets are added to the archive in one canonical form.

use crate::common::{self, known_logs};
use jitlat_archive::{AddOutcome, Archive, Filter, PreparedTest, TestId};
use jitlat_core::scalars::{Selector, selectors};
use jitlat_core::twoway::TcpSample;
use jitlat_core::{PacketRecord, Session};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::fs;
use std::io::Read;
use std::path::Path;

/// Returns the contents of a log as if it had been measured; `None` if nothing can be read.
fn measured(log: &Path) -> Option<(Session, Vec<PacketRecord>, Vec<TcpSample>)> {
    let mut reader = LogReader::open(log).ok()?;
    let records: Vec<PacketRecord> = reader.by_ref().collect::<Result<_, _>>().ok()?;
    // Every second log of round trips is treated as TCP, with a sample of the kernel's TCP_INFO per answer.
    let sample = |k: u32| TcpSample { mss: 1448, srtt_us: 20_000 + k, cwnd: 10, retransmissions: k / 50 };
    let over_tcp = reader.session().two_way.is_some() && records.len().is_multiple_of(2);
    let tcp = if over_tcp { (0..records.len() as u32).map(sample).collect() } else { Vec::new() };
    Some((reader.session().clone(), records, tcp))
}

/// Returns the log of these records.
fn written(session: &Session, records: &[PacketRecord], tcp: &[TcpSample]) -> Vec<u8> {
    let mut writer = match (&session.two_way, tcp) {
        (None, _) => LogWriter::new(Vec::new(), LogVersion::V3),
        (Some(_), []) => LogWriter::two_way(Vec::new()),
        (Some(_), _) => LogWriter::two_way_tcp(Vec::new()),
    };
    writer.begin(session);
    for (k, record) in records.iter().enumerate() {
        writer.record_tcp(record, tcp.get(k));
    }
    writer.finish(session);
    let (text, closed) = writer.close();
    closed.unwrap();
    text
}

fn add(archive: &Archive, test: PreparedTest) -> AddOutcome {
    archive.add_all(&mut [test]).unwrap().pop().unwrap().unwrap()
}

fn everything(archive: &Archive, id: TestId) -> String {
    let all: Vec<Selector> = selectors().collect();
    let tests = archive.list(&Filter::default(), &all).unwrap();
    let test = tests.iter().find(|test| test.id == id.to_string()).unwrap();
    serde_json::to_string_pretty(test).unwrap()
}

#[test]
fn a_measured_test_is_the_log_of_its_session_and_packets() {
    let folder = tempfile::tempdir().unwrap();
    let [own, of_logs] = ["own", "logs"].map(|name| Archive::make(&folder.path().join(name)).unwrap());
    let (mut tests, mut with_tcp) = (0, 0);
    for (session, records, tcp) in known_logs().iter().filter_map(|log| measured(log)) {
        let prepared = PreparedTest::measured(&session, &records, &tcp).unwrap();
        let AddOutcome::New(id) = add(&own, prepared) else { continue };
        (tests, with_tcp) = (tests + 1, with_tcp + u32::from(!tcp.is_empty()));
        let mut exported = Vec::new();
        own.log(id).unwrap().read_to_end(&mut exported).unwrap();
        assert!(exported == written(&session, &records, &tcp), "{session:?}");
        // Adding the exported log gives the same test with the same figures.
        let log = folder.path().join("test.log");
        fs::write(&log, &exported).unwrap();
        assert_eq!(own.add(&log, &[]).unwrap(), AddOutcome::Known(id));
        assert_eq!(of_logs.add(&log, &[]).unwrap(), AddOutcome::New(id));
        assert_eq!(everything(&own, id), everything(&of_logs, id));
    }
    assert!(tests > 30 && with_tcp > 0, "{tests} tests, {with_tcp} with TCP_INFO");
    let checked = own.check(true).unwrap();
    assert_eq!((checked.tests, checked.damaged.len(), checked.unfinished), (tests, 0, 0));
}

#[test]
fn a_test_that_is_measured_again_is_known_and_one_that_differs_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("a")).unwrap();
    let log = common::write_log(folder.path(), 1, common::NEW_YEAR, 100);
    let (session, mut records, _) = measured(&log).unwrap();
    let AddOutcome::New(id) = add(&archive, PreparedTest::measured(&session, &records, &[]).unwrap()) else {
        panic!("it is new")
    };
    let again = PreparedTest::measured(&session, &records, &[]).unwrap();
    assert_eq!((again.id(), add(&archive, again)), (id, AddOutcome::Known(id)));
    records.swap(3, 4);
    let other = PreparedTest::measured(&session, &records, &[]).unwrap();
    assert!(matches!(add(&archive, other), AddOutcome::New(other) if other != id));
    // A test without any arrival is a test, too.
    assert!(matches!(add(&archive, PreparedTest::measured(&session, &[], &[]).unwrap()), AddOutcome::New(_)));
}
