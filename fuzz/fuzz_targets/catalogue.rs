#![no_main]
// Aims at: crates/archive/src/rows.rs crates/archive/src/rollup.rs crates/archive/src/find.rs crates/archive/src/catalogue.rs crates/archive/src/check.rs crates/archive/src/tidy.rs crates/archive/src/alerts.rs crates/archive/src/totals.rs crates/archive/src/newest.rs crates/archive/src/course.rs
// Longest input: 4096

use arbitrary::Arbitrary;
use jitlat_archive::{AddOutcome, Archive, CATALOGUE, Filter, PoolPeriod};
use jitlat_core::scalars::Scalar;
use jitlat_core::session::Ending;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_fuzz::{Heap, Scratch, uncaught};
use jitlat_store::log::{LogVersion, LogWriter};
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

/// Most bytes in use at a time: an unpacked value of the catalogue has up to 128 MiB.
const BUDGET: usize = 1 << 29;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// An alert that fires, and a resolved one, with the state of its rule and a waiting message.
const ALERTS: &str = "
INSERT INTO alerts(alert, severity, test, src, dst, since_ns, fired_ns, resolved_ns, reason, resolution) VALUES
    ('loss', 'poor', 'one', '192.0.2.1', '192.0.2.2', 1767225600000000000, 1767225660000000000, NULL, 'much is lost', NULL),
    ('delay', 'bad', 'one', '192.0.2.1', '192.0.2.2', 1767225600000000000, 1767225660000000000, 1767229200000000000, 'late', 'again well');
INSERT INTO alert_states(key, state) VALUES ('loss one', '3');
INSERT INTO alert_messages(alert, resolved, channel, tries, due_ns) VALUES (1, 0, 'mail', 2, 1767225660000000000);
INSERT OR REPLACE INTO counters(name, value) VALUES ('judged', 2);
";

/// New content of a cell.
#[derive(Arbitrary, Debug)]
enum Cell {
    Null,
    Int(i64),
    Text(String),
    Blob(Vec<u8>),
    /// A value that was packed like the archive packs it.
    Packed(Vec<u8>),
    /// The current value, unpacked, changed in some bytes, and packed again.
    Spoilt(Vec<(u16, u8)>),
    /// The value of another row.
    Other(u8),
}

#[derive(Arbitrary, Debug)]
struct Change {
    column: u8,
    row: u8,
    cell: Cell,
}

#[derive(Arbitrary, Debug)]
struct Story {
    changes: Vec<Change>,
    /// Bytes of the file to change.
    spoilt: Vec<(u32, u8)>,
}

/// An archive in memory: its files, and the columns of its tables.
struct Made {
    scratch: Scratch,
    files: Vec<(String, Vec<u8>)>,
    columns: Vec<(String, String)>,
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let root = scratch.join("made");
    let archive = Archive::make(&root).expect("an archive");
    for k in 0..3i64 {
        let start = 1_767_225_600_000_000_000 + k * 40_000_000_000_000;
        let spec = TestSpec::default().with_packets(40).expect("a number of packets");
        let session = Session {
            created: Some(WallTime(start)),
            src: Some("192.0.2.1".parse().expect("an address")),
            dst: Some("192.0.2.2".parse().expect("an address")),
            sent: Some(40),
            ending: Ending::Complete,
            ..Session::new(spec)
        };
        let log = scratch.join("a.log");
        let mut writer = LogWriter::new(fs::File::create(&log).expect("a log"), LogVersion::V3);
        writer.begin(&session);
        for i in (0..40).filter(|i| i % 13 != k) {
            let sent = start + i * 20_000_000;
            writer.record(&PacketRecord::one_way(
                i,
                WallTime(sent),
                WallTime(sent + 5_000_000 + i * i * 977 % 9973),
            ));
        }
        writer.finish(&session);
        writer.close().1.expect("a log");
        let tags = [("site".to_owned(), k.to_string())];
        assert!(matches!(archive.add(&log, &tags), Ok(AddOutcome::New(_))));
    }
    let figure = Scalar::named("pdv-p99").expect("a figure");
    archive.query(&Filter::default(), &[figure], PoolPeriod::Month).expect("roll-ups");
    drop(archive);
    let db = Connection::open(root.join(CATALOGUE)).expect("a catalogue");
    db.execute_batch(ALERTS).expect("alerts");
    let list = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' \
                AND t.name <> 'figures' ORDER BY 1, c.cid";
    let columns = {
        let mut columns = db.prepare(list).expect("a query");
        let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("columns");
        columns.collect::<Result<Vec<_>, _>>().expect("columns")
    };
    db.pragma_update(None, "journal_mode", "DELETE").expect("one file");
    drop(db);
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    Made { scratch, files, columns }
});

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()) {
        if entry.is_dir() {
            collect(root, &entry, files);
        } else {
            let name = entry.strip_prefix(root).expect("below").display().to_string();
            files.push((name, fs::read(&entry).expect("a file")));
        }
    }
}

fn packed(bytes: &[u8]) -> Value {
    Value::Blob(zstd::bulk::compress(bytes, 1).expect("it can be compressed"))
}

/// Makes the change if the schema allows it.
fn change(db: &Connection, made: &Made, change: &Change) -> rusqlite::Result<()> {
    let (table, column) = &made.columns[usize::from(change.column) % made.columns.len()];
    let key = format!(
        "SELECT \"{column}\" FROM {table} LIMIT 1 OFFSET ?1 % (SELECT max(count(*), 1) FROM {table})"
    );
    let there: Value = db.query_row(&key, [change.row], |row| row.get(0))?;
    let value = match &change.cell {
        Cell::Null => Value::Null,
        Cell::Int(x) => Value::Integer(*x),
        Cell::Text(text) => Value::Text(text.clone()),
        Cell::Blob(bytes) => Value::Blob(bytes.clone()),
        Cell::Packed(bytes) => packed(bytes),
        Cell::Spoilt(spoilt) => match there.clone() {
            Value::Blob(bytes) => {
                let mut bytes = zstd::bulk::decompress(&bytes, 1 << 20).unwrap_or(bytes);
                for (at, x) in spoilt {
                    let len = bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(usize::from(*at) % len) {
                        *byte = *x;
                    }
                }
                packed(&bytes)
            }
            Value::Integer(x) => Value::Integer(x ^ spoilt.first().map_or(1, |(at, _)| i64::from(*at))),
            value => value,
        },
        Cell::Other(row) => db.query_row(&key, [row], |row| row.get(0))?,
    };
    let set = format!("UPDATE OR IGNORE {table} SET \"{column}\" = ?1 WHERE \"{column}\" IS ?2");
    db.execute(&set, params![value, there]).map(drop)
}

/// Calls everything that reads the archive in `root`, and everything that repairs it.
fn read_everything(root: &Path) {
    let Ok(archive) = Archive::open_to_write(root) else { return };
    for test in archive.list(&Filter::default(), &[]).unwrap_or_default().iter().take(8) {
        let Ok(id) = archive.find(&test.id) else { continue };
        if let Ok(log) = archive.log(id) {
            // Unreadable logs are reported as errors by the reader.
            let _ = std::io::copy(&mut log.take(1 << 24), &mut std::io::sink());
        }
        let _ = archive.session(id);
        if let Ok(mut reader) = archive.reader(id, "log") {
            let _ = reader.records(&mut None).take(10_000).count();
        }
        if let (Ok(header), Ok(mut packets)) = (archive.header(id), archive.packets(id))
            && let Ok(mut log) = header.assemble()
        {
            while let Ok(rows) = packets.rows()
                && !rows.is_empty()
                && rows.iter().all(|row| log.push(row, |_| {}).is_ok())
            {}
            let _ = log.finish(|_| {});
        }
    }
    let _ = archive.newest();
    let _ = archive.extent();
    for (stream, _) in archive.streams(&Filter::default()).unwrap_or_default().into_iter().take(8) {
        let _ = archive.first_and_last(stream);
        let _ = archive.verdicts(stream, i64::MIN, i64::MAX);
        let _ = archive.course(stream, PoolPeriod::Day, i64::MIN, i64::MAX);
    }
    let _ = archive.totals(None, 8);
    let _ = archive.totals(Some(&[0]), 8);
    let _ = archive.judged();
    let _ = archive.entered_after(0, 100);
    let _ = archive.rule_states("");
    let _ = archive.alerts(100);
    let _ = archive.dropped_messages();
    if let Ok(waiting) = archive.waiting("mail", i64::MAX, 100) {
        let _ = archive.not_sent(&waiting.iter().map(|message| message.id).collect::<Vec<_>>(), 0);
    }
    let figure = Scalar::named("pdv-p99.9").expect("a figure");
    for period in [PoolPeriod::Test, PoolPeriod::Day, PoolPeriod::All] {
        let _ = archive.query(&Filter::default(), &[figure], period);
    }
    let _ = archive.check(true);
    let _ = archive.compact();
    drop(archive);
    let _ = fs::remove_dir_all(root.join("tmp"));
}

// An archive with three tests and arbitrary cells in its catalogue, or arbitrary bytes in its file: the result is an
// error at most, within bounded memory.
libfuzzer_sys::fuzz_target!(|story: Story| {
    let made = &*MADE;
    let root = made.scratch.join("a");
    let _ = fs::remove_dir_all(&root);
    for (name, bytes) in &made.files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    fs::create_dir_all(root.join("tmp")).expect("a folder");
    let catalogue = root.join(CATALOGUE);
    let db = Connection::open(&catalogue).expect("a catalogue");
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
        .expect("settings");
    for one in story.changes.iter().take(20) {
        // A change that the schema refuses has no effect.
        let _ = change(&db, made, one);
    }
    drop(db);
    if !story.spoilt.is_empty() {
        let mut bytes = fs::read(&catalogue).expect("a catalogue");
        for (at, x) in story.spoilt.iter().take(100) {
            let len = bytes.len();
            bytes[*at as usize % len] = *x;
        }
        fs::write(&catalogue, bytes).expect("a catalogue");
    }
    let most = HEAP.most_during(|| uncaught(|| read_everything(&root)));
    assert!(most < BUDGET, "{most} bytes for {story:?}");
});
