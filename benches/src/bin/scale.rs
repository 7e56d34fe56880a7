//! Measures archives: packets from Parquet to figures, many small tests, and a year of a mesh.
//!
//! `cargo build --release -p jitlat-benches --bin scale && target/release/scale [MINUTES [FOLDER]]`
//!
//! Compared with, in the same run: a bare scan of the packets with a sort, and DuckDB's exact quantile if `PYTHON`
//! (default: python3) has it. Rates are per processor time, of the whole process or of its children. The year
//! consists of real tests, each entered many times at other times and for other hosts: every five minutes on one
//! path, then hourly on all 380 paths, day by day, until MINUTES (default: 1) are over. `ONLY=large|small|year` runs
//! one part. With `YEAR=FOLDER` the year is stored there, and only queried if it exists already.

use jitlat_archive::{AddOutcome, Archive, CATALOGUE, Filter, PoolPeriod, TestId, analyse};
use jitlat_benches::queued;
use jitlat_core::PacketRecord;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::Scalar;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use rusqlite::{Connection, params};
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Large tests: number, and packets of each.
const LARGE: (u64, i64) = (8, 500_000);
/// Small tests: number, and packets of each.
const SMALL: (u64, i64) = (1000, 1000);
/// 2026-01-01 00:00 UTC.
const NEW_YEAR: i64 = 1_767_225_600_000_000_000;
const HOUR: i64 = 3_600_000_000_000;
const HOSTS: i64 = 20;
/// Tests per hour of the one path.
const OFTEN: i64 = 12;

fn main() -> Result<()> {
    let minutes: f64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1.0);
    let folder = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("jitlat-scale-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load when it began: {}", load.split(' ').take(3).collect::<Vec<_>>().join(" "));
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = |part: &str| only.is_empty() || only == part;
    let run = || {
        if wanted("large") {
            large(&folder)?;
        }
        if wanted("small") {
            small(&folder)?;
        }
        if wanted("year") { year(&folder, minutes) } else { Ok(()) }
    };
    let result = run();
    fs::remove_dir_all(&folder)?;
    result
}

fn cpu(who: UsageWho) -> Duration {
    let of = |usage: Usage| {
        let time = |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
        time(usage.user_time()) + time(usage.system_time())
    };
    getrusage(who).map(of).unwrap_or_default()
}

/// Runs a case three times; returns the smallest processor time, the smallest time, and the result.
fn best<T>(who: UsageWho, mut run: impl FnMut() -> Result<T>) -> Result<(f64, f64, T)> {
    let (mut used, mut passed, mut last) = (f64::MAX, f64::MAX, None);
    for _ in 0..3 {
        let (before, begun) = (cpu(who), Instant::now());
        last = Some(run()?);
        passed = passed.min(begun.elapsed().as_secs_f64());
        used = used.min((cpu(who) - before).as_secs_f64());
    }
    Ok((used, passed, last.ok_or("never run")?))
}

fn add(
    archive: &Archive,
    folder: &Path,
    seed: u64,
    start: i64,
    packets: i64,
    hosts: (i64, i64),
) -> Result<TestId> {
    let log = folder.join("one.log");
    queued::log(File::create(&log)?, seed, start, packets, &hosts)?;
    match archive.add(&log, &[])? {
        AddOutcome::New(id) | AddOutcome::Known(id) => Ok(id),
    }
}

/// Pools all tests from their packets; returns also the number of packets.
fn pooled(root: &Path, ids: &[TestId], jobs: usize) -> Result<(u64, Pool)> {
    let tests: Vec<(TestId, ())> = ids.iter().map(|id| (*id, ())).collect();
    let mut found = analyse(root, &tests, jobs, &jitlat_verdict::options())?;
    match found.groups.remove(&()) {
        Some(pool) if found.failed.is_empty() => Ok((pool.received, pool)),
        _ => Err("a test cannot be read".into()),
    }
}

/// Scans the delays of all packets with threads that share nothing: the current speed of the machine with several
/// threads.
fn scanned(root: &Path, ids: &[TestId], threads: usize) -> Result<usize> {
    let scan = |ids: &[TestId]| -> std::result::Result<usize, jitlat_archive::ArchiveError> {
        let archive = Archive::open(root)?;
        let mut delays = Vec::new();
        for id in ids {
            let mut packets = archive.packets(*id)?;
            while packets
                .next(|all| delays.extend(all.iter().filter_map(PacketRecord::delay).map(|d| d.0)))?
            {
            }
        }
        delays.sort_unstable();
        Ok(delays.len())
    };
    std::thread::scope(|scope| {
        let shares = ids.chunks(ids.len().div_ceil(threads)).map(|share| scope.spawn(move || scan(share)));
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| Ok(share.join().map_err(|_| "a thread died")??)).sum()
    })
}

fn parquet_files(root: &Path) -> Result<(Vec<PathBuf>, u64)> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for day in fs::read_dir(root.join("packets"))? {
        for file in fs::read_dir(day?.path())? {
            let file = file?;
            bytes += file.metadata()?.len();
            files.push(file.path());
        }
    }
    Ok((files, bytes))
}

fn large(folder: &Path) -> Result<()> {
    let root = folder.join("large");
    let archive = Archive::make(&root)?;
    let begun = Instant::now();
    let ids = (0..LARGE.0)
        .map(|k| add(&archive, folder, k, NEW_YEAR + k as i64 * 10 * HOUR, LARGE.1, (1, 2)))
        .collect::<Result<Vec<_>>>()?;
    let added = begun.elapsed().as_secs_f64();
    let whose = UsageWho::RUSAGE_SELF;
    let (exact, one, (rows, pool)) = best(whose, || pooled(&root, &ids, 1))?;
    let (files, bytes) = parquet_files(&root)?;
    println!(
        "{} tests, {rows} rows: {:.2} bytes a row (target 9); written and added in {added:.1} s",
        ids.len(),
        bytes as f64 / rows as f64
    );
    let rate = |used: f64| rows as f64 / used / 1e6;
    let row = |name: &str, used: f64, said: &str| {
        println!("{name:<62} {used:>7.2} cpu-s {:>6.1} M rows/cpu-s {said}", rate(used));
    };
    let percentile = Scalar::named("pdv-p99.9").ok_or("no such figure")?;
    let delay = Scalar::named("latency-p99.9").ok_or("no such figure")?;
    let said =
        |pool: &Pool| format!("p99.9 of delay {:?}, PDV {:?}", pool.scalar(delay), pool.scalar(percentile));
    row("every figure, from Parquet (target 5)", exact, &said(&pool));
    let (scan, _, last) = best(whose, || {
        let mut delays = Vec::new();
        for id in &ids {
            let mut packets = archive.packets(*id)?;
            while packets
                .next(|all| delays.extend(all.iter().filter_map(PacketRecord::delay).map(|d| d.0)))?
            {
            }
        }
        delays.sort_unstable();
        let rank = (delays.len() * 999).div_ceil(1000);
        Ok(delays[rank - 1])
    })?;
    row("the packets alone, delays sorted: p99.9", scan, &format!("{last}"));
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let list = files.iter().map(|f| format!("'{}'", f.display())).collect::<Vec<_>>().join(",");
    for (name, of) in [("exact", "quantile_disc"), ("approximate", "approx_quantile")] {
        let script = format!(
            "import duckdb\nc=duckdb.connect()\nc.execute('SET threads=1')\n\
             print(c.sql(\"SELECT {of}(arrived_ns-sent_ns,0.999) FROM read_parquet([{list}])\").fetchall()[0][0])"
        );
        let mut run = || {
            let output = Command::new(&python).args(["-c", &script]).stderr(Stdio::null()).output()?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() { Ok(said) } else { Err("no duckdb".into()) }
        };
        // The start of the program is not part of the time.
        let (start, _, _) = match best(UsageWho::RUSAGE_CHILDREN, || {
            let started = Command::new(&python)
                .args(["-c", "import duckdb; duckdb.connect()"])
                .stderr(Stdio::null())
                .status()?;
            if started.success() { Ok(()) } else { Err("no duckdb".into()) }
        }) {
            Ok(start) => start,
            Err(_) => {
                println!("{python} has no duckdb: skipped");
                break;
            }
        };
        let (used, _, said) = best(UsageWho::RUSAGE_CHILDREN, &mut run)?;
        row(&format!("DuckDB, one thread, {name} p99.9 of delay"), (used - start).max(1e-3), &said);
    }
    let (two_cpu, two, again) = best(whose, || pooled(&root, &ids, 2))?;
    let (_, bare_one, _) = best(whose, || scanned(&root, &ids, 1))?;
    let (_, bare_two, _) = best(whose, || scanned(&root, &ids, 2))?;
    println!(
        "analysed by one thread {one:.2} s ({exact:.2} cpu-s), by two {two:.2} s ({two_cpu:.2} cpu-s): {:.2} times as fast (target 1.8 on \
         a quiet machine), same pool: {}",
        one / two,
        again == (rows, pool)
    );
    println!(
        "bare threads, half of the tests each, packets alone: one {bare_one:.2} s, two {bare_two:.2} s: {:.2} times as fast; analysed / bare: {:.2}",
        bare_one / bare_two,
        one / two / (bare_one / bare_two)
    );
    Ok(())
}

fn small(folder: &Path) -> Result<()> {
    let root = folder.join("small");
    let archive = Archive::make(&root)?;
    let begun = Instant::now();
    let start = |k: u64| NEW_YEAR + k as i64 * 60_000_000_000;
    let ids = (0..SMALL.0)
        .map(|k| add(&archive, folder, k, start(k), SMALL.1, (1, 2)))
        .collect::<Result<Vec<_>>>()?;
    let added = begun.elapsed().as_secs_f64();
    archive.compact()?;
    let each = |used: f64| used * 1e3 / ids.len() as f64;
    let (alone, _, ()) = best(UsageWho::RUSAGE_SELF, || {
        ids.iter().take(50).try_for_each(|id| archive.analyse(*id, &jitlat_verdict::options()).map(drop))?;
        Ok(())
    })?;
    let (used, _, (rows, _)) = best(UsageWho::RUSAGE_SELF, || pooled(&root, &ids, 1))?;
    let figure = Scalar::named("latency-p99").ok_or("no such figure")?;
    // Uses the tests' own pools in the catalogue: the roll-up of the year is not stored, that of its only month is.
    let forget = || Connection::open(root.join(CATALOGUE))?.execute("DELETE FROM rollups", []);
    let (merged, _, point) = best(UsageWho::RUSAGE_SELF, || {
        forget()?;
        let found = archive.query(&Filter::default(), &[figure], PoolPeriod::Month)?;
        Ok(found[0].1[0].tests)
    })?;
    let (_, bytes) = parquet_files(&root)?;
    println!(
        "{} tests of {} packets: {:.3} cpu-ms each in bulk (target 0.5), {:.2} one by one from shared row groups; {:.2} bytes a row; \
         written and added in {:.1} ms each",
        ids.len(),
        SMALL.1,
        each(used),
        alone * 1e3 / 50.0,
        bytes as f64 / rows as f64,
        added * 1e3 / ids.len() as f64
    );
    println!(
        "their pools ({point} tests, {:.1} kB each) merged to hours, days and a month: {:.1} M rows/cpu-s (target 15)",
        pool_bytes(&root)? / 1e3,
        rows as f64 / merged / 1e6
    );
    Ok(())
}

/// Mean size of the pool of a test, in bytes.
fn pool_bytes(root: &Path) -> Result<f64> {
    let db = Connection::open(root.join(CATALOGUE))?;
    Ok(db.query_row("SELECT avg(length(pool)) FROM tests", [], |row| row.get(0))?)
}

/// Enters the test `template` again as another one, `at` a time and between other hosts.
fn enter_again(db: &Connection, template: i64, id: i64, at: i64, stream: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO tests(id, hash, stream, started_ns, name, source, added_ns, packets, log_bytes, file, row_group, first_row, severity, \
         headline, rest, session, pool, entered) \
         SELECT ?2, printf('%032x', ?2), ?4, ?3, name, source, added_ns, packets, log_bytes, NULL, row_group, first_row, severity, \
         headline, rest, session, pool, ?2 FROM tests WHERE id = ?1",
    )?
    .execute(params![template, id, at, stream])?;
    let mut columns =
        db.prepare_cached("SELECT name FROM pragma_table_info('figures') WHERE name <> 'test'")?;
    let columns = columns.query_map([], |r| Ok(format!("\"{}\"", r.get::<_, String>(0)?)))?;
    let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?.join(", ");
    let copy = format!(
        "INSERT INTO figures(test, {columns}) SELECT (SELECT number FROM tests WHERE id = ?2), {columns} FROM figures \
         WHERE test = (SELECT number FROM tests WHERE id = ?1)"
    );
    db.prepare_cached(&copy)?.execute(params![template, id]).map(drop)
}

fn year(folder: &Path, minutes: f64) -> Result<()> {
    let kept = std::env::var_os("YEAR").map(PathBuf::from);
    let root = kept.unwrap_or_else(|| folder.join("year"));
    if !root.exists() {
        make_year(&root, minutes)?;
    }
    ask_year(&root)
}

fn make_year(root: &Path, minutes: f64) -> Result<()> {
    let archive = Archive::make(root)?;
    let folder = root.join("tmp");
    let templates = (0..50)
        .map(|k| Ok(add(&archive, &folder, k, NEW_YEAR - 400 * 24 * HOUR + k as i64 * HOUR, 1000, (1, 2))?.0))
        .collect::<Result<Vec<i64>>>()?;
    let db = Connection::open(root.join(CATALOGUE))?;
    db.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    let mut streams = Vec::new();
    for (a, b) in (1..=HOSTS).flat_map(|a| (1..=HOSTS).filter(move |b| *b != a).map(move |b| (a, b))) {
        let host = |n: i64| -> rusqlite::Result<i64> {
            let address = format!("10.0.0.{n}");
            db.execute("INSERT OR IGNORE INTO hosts(address) VALUES (?)", [&address])?;
            db.query_row("SELECT id FROM hosts WHERE address = ?", [&address], |r| r.get(0))
        };
        let (src, dst) = (host(a)?, host(b)?);
        db.execute(
            "INSERT OR IGNORE INTO streams(src, dst, protocol, direction, payload, period_ns, dscp, model) \
             SELECT ?1, ?2, protocol, direction, payload, period_ns, dscp, model FROM streams LIMIT 1",
            [src, dst],
        )?;
        let found = "SELECT id FROM streams WHERE (src, dst) = (?, ?)";
        streams.push(db.query_row(found, [src, dst], |r| r.get::<_, i64>(0))?);
    }
    let (mut made, begun) = (0i64, Instant::now());
    let limit = Duration::from_secs_f64(60.0 * minutes);
    let mut enter = |at: i64, stream: i64| {
        made += 1;
        let template = templates[(made * 31 + made / 50) as usize % templates.len()];
        enter_again(&db, template, made, at, stream).map(|()| made)
    };
    for k in 0..365 * 24 * OFTEN {
        enter(NEW_YEAR + k * HOUR / OFTEN, streams[1])?;
    }
    let entered = begun.elapsed();
    let mut days = 0;
    'all: for day in 0..365 {
        for stream in &streams {
            for hour in 0..24 {
                if *stream != streams[1] {
                    enter(NEW_YEAR + day * 24 * HOUR + hour * HOUR, *stream)?;
                }
            }
            if begun.elapsed() > limit + entered {
                break 'all;
            }
        }
        days += 1;
    }
    db.execute_batch("COMMIT")?;
    drop(db);
    let bytes = fs::metadata(root.join(CATALOGUE))?.len() as f64;
    println!(
        "a year of one path, every five minutes, and {days} days hourly of {} paths: {made} tests entered in {:.0} s, {:.0} MB, {:.1} kB a test",
        streams.len(),
        begun.elapsed().as_secs_f64(),
        bytes / 1e6,
        bytes / made as f64 / 1e3
    );
    let begun = cpu(UsageWho::RUSAGE_SELF);
    let figure = Scalar::named("pdv-p99.9").ok_or("no such figure")?;
    let days = archive
        .query(&one_path()?, figure, PoolPeriod::Day)?
        .iter()
        .map(|(_, points)| points.len())
        .sum::<usize>();
    let used = (cpu(UsageWho::RUSAGE_SELF) - begun).as_secs_f64() * 1e3;
    println!("{:<62} {used:>8.1} cpu-ms, {days} points", "the path's year by day, roll-ups never made");
    let before = cpu(UsageWho::RUSAGE_SELF);
    for k in 0..48 {
        add(
            &archive,
            &root.join("tmp"),
            1000 + k as u64,
            NEW_YEAR + 365 * 24 * HOUR + k * HOUR / OFTEN,
            1000,
            (1, 3),
        )?;
    }
    let added = (cpu(UsageWho::RUSAGE_SELF) - before).as_secs_f64() * 1e3 / 48.0;
    println!("{:<62} {added:>8.1} cpu-ms", "a test of 1000 packets added to that path (mean of 48)");
    Ok(())
}

/// Filter of the path with tests every five minutes.
fn one_path() -> Result<Filter> {
    Ok(Filter { path: Some("10.0.0.1:10.0.0.3".parse()?), ..Filter::default() })
}

fn ask_year(root: &Path) -> Result<()> {
    let figure = Scalar::named("pdv-p99.9").ok_or("no such figure")?;
    let filter = one_path()?;
    let times = |name: &str, target: u32, run: &dyn Fn(&Archive) -> Result<usize>| -> Result<()> {
        let archive = Archive::open(root)?;
        let (before, begun) = (cpu(UsageWho::RUSAGE_SELF), Instant::now());
        let n = run(&archive)?;
        let (used, passed) = (cpu(UsageWho::RUSAGE_SELF) - before, begun.elapsed());
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("{name:<62} {:>8.1} cpu-ms {:>8.1} ms (target {target}), {n} points", ms(used), ms(passed));
        Ok(())
    };
    let by = |period: PoolPeriod| {
        let filter = filter.clone();
        move |archive: &Archive| -> Result<usize> {
            let found = archive.query(&filter, &[figure], period)?;
            Ok(found.iter().map(|(_, points)| points.len()).sum())
        }
    };
    for (name, period) in [
        ("the year by day", PoolPeriod::Day),
        ("by month", PoolPeriod::Month),
        ("the year in one", PoolPeriod::Year),
        ("by hour", PoolPeriod::Hour),
        ("by hour again", PoolPeriod::Hour),
        ("by test", PoolPeriod::Test),
    ] {
        times(name, 300, &by(period))?;
    }
    times("all tests of that path, listed", 0, &|archive| Ok(archive.list(&filter, &[])?.len()))?;
    Ok(())
}
