//! Measures the ingest of a collector: tests of 1000 packets as other hosts push them, into an archive, compared with
//! SQLite alone writing the same bytes.
//!
//! `cargo build --release -p jitlat-benches --bin ingest && target/release/ingest [TESTS [FOLDER]]`
//!
//! Every test is a different log of a mesh of 20 hosts, compressed for transfer. The work of a collector is done here
//! without its network: logs are unpacked, checked against their checksums, read and analysed on as many threads as
//! there are processors, then entered in batches by one thread. Each batch is on disk before the next begins.
//! Compared with, in the same run: one test at a time, as a measuring host adds its own; and SQLite alone, which
//! writes the same bytes in batches of the same size, as blobs and as one row per packet.

use jitlat_archive::{AddOutcome, Archive, Arrived, CollectedEnds, IncomingLog, LogName, PreparedTest};
use jitlat_benches::queued;
use jitlat_core::WallTime;
use jitlat_store::log::LogReader;
use nix::sys::resource::{UsageWho, getrusage};
use rusqlite::{Connection, params};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PACKETS: i64 = 1000;
const HOSTS: u64 = 20;
/// 2026-01-01 00:00 UTC.
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;
/// Number of tests in a batch.
const BATCH: usize = 64;

/// A test as it is transferred.
struct Packed {
    name: LogName,
    bytes: u64,
    log: Vec<u8>,
}

fn main() -> Result<()> {
    let tests: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3000);
    let folder = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("jitlat-ingest-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load when it began: {}", load.split(' ').take(3).collect::<Vec<_>>().join(" "));
    let result = run(tests, &folder);
    fs::remove_dir_all(&folder)?;
    result
}

fn run(tests: u64, folder: &Path) -> Result<()> {
    let packed = (0..tests).map(test).collect::<Result<Vec<Packed>>>()?;
    let (plain, travels) = packed.iter().fold((0, 0), |(a, b), t| (a + t.bytes, b + t.log.len() as u64));
    println!(
        "{tests} tests of {PACKETS} packets: {:.1} kB each as text, {:.1} kB as it travels",
        plain as f64 / tests as f64 / 1e3,
        travels as f64 / tests as f64 / 1e3
    );
    let few = &packed[..packed.len().min(300)];
    row("one at a time", few.len(), || one_at_a_time(few, &folder.join("one")))?;
    row("read and analysed, on one thread", few.len(), || few.iter().try_for_each(|t| prepare(t).map(drop)))?;
    let before = peak();
    let whole = row("a collector", packed.len(), || collect(&packed, &folder.join("all")))?;
    println!("    its memory at most {:.0} MB, of which {:.0} MB were there before", peak(), before);
    let blobs =
        row("SQLite alone, a blob a test", packed.len(), || sqlite(&packed, &folder.join("blobs"), false))?;
    let rows =
        row("SQLite alone, a row a packet", packed.len(), || sqlite(&packed, &folder.join("rows"), true))?;
    println!(
        "a collector takes {:.2} of the time of rows, {:.1} times that of blobs",
        whole / rows,
        whole / blobs
    );
    let archive = Archive::open_to_write(&folder.join("all"))?;
    let found = archive.check(false)?;
    assert!(found.tests == tests && found.damaged.is_empty(), "{found:?}");
    Ok(())
}

/// Runs a case, prints its time and processor time, and returns its time in s.
fn row(name: &str, tests: usize, run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (before, begun) = (cpu(), Instant::now());
    run()?;
    let (passed, used) = (begun.elapsed().as_secs_f64(), (cpu() - before).as_secs_f64());
    let n = tests as f64;
    println!("{name:<36} {:>8.0} tests/s  {:>6.2} ms of processor a test", n / passed, used / n * 1e3);
    Ok(passed / n)
}

fn cpu() -> Duration {
    let of = |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    getrusage(UsageWho::RUSAGE_SELF).map(|u| of(u.user_time()) + of(u.system_time())).unwrap_or_default()
}

/// Peak memory of this process in MB.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1e3
}

/// Makes test `k`: one of a mesh every second.
fn test(k: u64) -> Result<Packed> {
    let hosts = (1 + k % HOSTS, 1 + (k + 1 + k / HOSTS % (HOSTS - 1)) % HOSTS);
    let text = queued::log(Vec::new(), k, NEW_YEAR + k as i64 * 1_000_000_000, PACKETS, &hosts)?;
    let log = zstd::bulk::compress(&text, 3)?;
    Ok(Packed { name: LogName::of(&text), bytes: text.len() as u64, log })
}

fn unpack(archive: &Archive, test: &Packed) -> Result<Vec<u8>> {
    let mut incoming = IncomingLog::new(archive, test.name, test.bytes)?;
    for piece in test.log.chunks(1 << 16) {
        incoming.push(piece)?;
    }
    match incoming.finish()? {
        Arrived::Text(text) => Ok(text),
        Arrived::File(_) => Err("a test of 1000 packets is no long one".into()),
    }
}

fn prepare(test: &Packed) -> Result<PreparedTest> {
    let text = zstd::bulk::decompress(&test.log, test.bytes as usize)?;
    Ok(PreparedTest::new(&text, "one.log", &[])?)
}

fn one_at_a_time(tests: &[Packed], root: &Path) -> Result<()> {
    let archive = Archive::make(root)?;
    let log = root.join("one.log");
    for test in tests {
        fs::write(&log, unpack(&archive, test)?)?;
        archive.add(&log, &[])?;
    }
    Ok(())
}

fn collect(tests: &[Packed], root: &Path) -> Result<()> {
    let archive = Archive::make(root)?;
    let threads = std::thread::available_parallelism()?.get();
    let next = AtomicUsize::new(0);
    // The queue of prepared tests is bounded, like a collector's memory.
    let (to, prepared) = mpsc::sync_channel(2 * BATCH);
    std::thread::scope(|scope| {
        let work = |to: mpsc::SyncSender<PreparedTest>| -> Result<()> {
            let own = Archive::open(root)?;
            while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let text = unpack(&own, test)?;
                to.send(
                    PreparedTest::new(&text, "one.log", &[])?.from_host("host", &CollectedEnds::default()),
                )?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let to = to.clone();
                scope.spawn(move || work(to))
            })
            .collect();
        drop(to);
        while let Ok(first) = prepared.recv() {
            let mut batch = vec![first];
            batch.extend(prepared.try_iter().take(BATCH - 1));
            for added in archive.add_all(&mut batch)? {
                assert!(matches!(added?, AddOutcome::New(_)));
            }
        }
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a thread died")?)
    })
}

fn sqlite(tests: &[Packed], path: &Path, rows: bool) -> Result<()> {
    let mut db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(
        "CREATE TABLE tests(id INTEGER PRIMARY KEY, hash TEXT, log BLOB); \
         CREATE TABLE packets(test INTEGER, seq INTEGER, sent INTEGER, arrived INTEGER, size INTEGER);",
    )?;
    for batch in tests.chunks(BATCH) {
        let all = db.transaction()?;
        for test in batch {
            let insert = "INSERT INTO tests(hash, log) VALUES (?, ?)";
            let log = (!rows).then_some(&test.log);
            all.prepare_cached(insert)?.execute(params![test.name.to_string(), log])?;
            if rows {
                let id = all.last_insert_rowid();
                let text = std::io::Cursor::new(zstd::bulk::decompress(&test.log, test.bytes as usize)?);
                let insert = "INSERT INTO packets(test, seq, sent, arrived, size) VALUES (?, ?, ?, ?, ?)";
                let mut insert = all.prepare_cached(insert)?;
                for record in LogReader::from_reader("log", Box::new(text))? {
                    let record = record?;
                    let time = |t: Option<WallTime>| t.map(|t| t.0);
                    let (sent, arrived) = (time(record.sent()), time(record.arrived()));
                    insert.execute(params![id, record.seq, sent, arrived, record.size()])?;
                }
            }
        }
        all.commit()?;
    }
    Ok(())
}
