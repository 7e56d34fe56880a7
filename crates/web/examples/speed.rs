//! Measures the response time of the largest pages: `cargo run --release -p jitlat-web --example speed -- FOLDER [TESTS]
//! [HOSTS]`.
//!
//! Makes an archive with a path of 100 000 tests of each direction, five minutes apart, one with a mesh of 100 hosts, and one with 1000
//! hosts of 20 sites, each tested with ten others, unless FOLDER has them, and requests each page over a socket as a browser does: first from a server that has just started, then again. Most
//! tests are copies of a few in the catalogue, so that this takes seconds; these pages do not read packets. Both elapsed and
//! processor time are printed; processor time is more reliable while other programs run.

#[path = "mesh.rs"]
#[allow(dead_code, reason = "its main is that of another example")]
mod mesh;

use jitlat_archive::{Archive, Filter, PoolPeriod, When};
use jitlat_core::WallTime;
use jitlat_core::scalars::Scalar;
use jitlat_web::{Settings, Web};
use mesh::Went;
use rusqlite::Connection;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Result of the functions of this example.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Time between two tests of a path, ns.
const EVERY: i64 = 300_000_000_000;
/// Number of tests that are measured; the others are copies of their rows in the catalogue.
const SAMPLE: i64 = 200;

/// Accept header of a Prometheus that supports native histograms.
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// Opens the archive in `folder`; `fill` creates it if it does not exist.
fn archive(folder: &Path, fill: impl FnOnce(&Archive, &Connection) -> Result<()>) -> Result<()> {
    if jitlat_archive::is_archive(folder) {
        return Ok(());
    }
    let begun = Instant::now();
    let archive = Archive::make(folder)?;
    fill(&archive, &Connection::open(folder.join(jitlat_archive::CATALOGUE))?)?;
    println!("{} made in {:.0} s", folder.display(), begun.elapsed().as_secs_f64());
    Ok(())
}

/// Copies every row of `table` for each row of `of`, with the values of the columns in `replaced`.
fn copy(db: &Connection, table: &str, of: &str, replaced: &[(&str, &str)]) -> Result<()> {
    let mut names = db.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = names.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let value = |name: &String| {
        let given = replaced.iter().find(|(known, _)| known == name);
        given.map_or_else(|| format!("r.\"{name}\""), |(_, value)| (*value).to_owned())
    };
    let values: Vec<String> = names.iter().map(value).collect();
    db.execute_batch(&format!("INSERT INTO {table} SELECT {} FROM {table} r JOIN {of}", values.join(", ")))?;
    Ok(())
}

/// SQL for a table `k(n)` of the numbers from 1 to `n`.
fn numbers(n: i64) -> String {
    format!(
        "(WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < {n}) SELECT n FROM k) k"
    )
}

/// Current time, ns since 1970.
pub fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// Creates a path with this number of tests of each direction until `now`, unless `folder` has it.
pub fn path(folder: &Path, now: i64, tests: i64) -> Result<()> {
    archive(folder, |archive, db| {
        for k in 0..SAMPLE {
            let went = if k % 40 < 3 { Went::Badly } else { Went::Well };
            mesh::add(archive, ("10.0.0.1", "10.0.0.2"), now - k * EVERY, went)?;
            mesh::add(archive, ("10.0.0.2", "10.0.0.1"), now - k * EVERY, Went::Well)?;
        }
        let times = numbers(tests / SAMPLE - 1);
        let id = [("id", "(r.id / 2) + k.n"), ("entered", "0")];
        let started = format!("r.started_ns - k.n * {}", SAMPLE * EVERY);
        let [number, test] = ["number", "test"].map(|name| format!("r.{name} + k.n * {}", 2 * SAMPLE));
        copy(db, "tests", &times, &[id[0], id[1], ("number", &number), ("started_ns", &started)])?;
        copy(db, "figures", &times, &[("test", &test)])?;
        Ok(db.execute_batch("DELETE FROM rollups")?)
    })
}

/// Requests a page; returns the time from the connection to the last byte, and the size of the answer.
fn ask(address: SocketAddr, page: &str) -> Result<(Duration, usize)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    let (page, accepted) = page.split_once(", as ").unwrap_or((page, "text/plain"));
    let accepted = if accepted == "protobuf" { PROTOBUF } else { accepted };
    write!(
        stream,
        "GET {page} HTTP/1.1\r\nHost: {address}\r\nAccept: {accepted}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        return Err(format!("{page}: {}", String::from_utf8_lossy(&answer[..answer.len().min(200)])).into());
    }
    Ok((begun.elapsed(), answer.len()))
}

/// Runs `work` against a server that has just started.
fn served<T>(folder: &Path, work: impl FnOnce(SocketAddr) -> Result<T>) -> Result<T> {
    let mut settings = Settings::new(folder);
    settings.listen.set_port(0);
    let web = Web::bind(&settings)?;
    let address = web.address();
    let (stop, stopped) = std::os::unix::net::UnixStream::pair()?;
    let serving = std::thread::spawn(move || web.run(stopped));
    let result = work(address);
    drop(stop);
    serving.join().map_err(|_| "the server failed")??;
    result
}

/// Processor time of the threads of this process, which is more reliable than elapsed time while other programs run.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent = |task: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(spent).sum())
}

/// Prints the response time of `page`: the median of three servers that have just started, then of ten more requests to
/// each.
fn page(folder: &Path, page: &str, limit_ms: u64) -> Result<()> {
    let median = |mut all: Vec<Duration>| {
        all.sort_unstable();
        all[all.len() / 2].as_secs_f64() * 1e3
    };
    let (mut first, mut worked, mut later, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..3 {
        served(folder, |address| {
            let before = processor_time();
            let (time, length) = ask(address, page)?;
            bytes = length;
            worked.push(processor_time().saturating_sub(before));
            first.push(time);
            for _ in 0..10 {
                later.push(ask(address, page)?.0);
            }
            Ok(())
        })?;
    }
    let (first, worked, later) = (median(first), median(worked), median(later));
    let baseline = baseline(folder)?.as_secs_f64() * 1e3;
    println!(
        "{page:<44} {first:>7.0} ms first, {worked:>4.0} of the processor, {later:>5.0} ms again {:>7} kB  {:.2} of {limit_ms} ms, \
         {:.2} times the baseline",
        bytes / 1000,
        first / limit_ms as f64,
        worked / baseline
    );
    Ok(())
}

/// Processor time in which SQLite alone reads the start and the verdict of every test once: the minimum for a page that
/// examines them all. It grows with the archive and with the load of the machine as the pages do.
fn baseline(folder: &Path) -> Result<Duration> {
    let before = processor_time();
    let db = Connection::open(folder.join(jitlat_archive::CATALOGUE))?;
    let mut tests = db.prepare("SELECT started_ns, severity FROM tests NOT INDEXED")?;
    let mut rows = tests.query([])?;
    let mut bad = 0u64;
    while let Some(row) = rows.next()? {
        let (_, severity): (i64, String) = (row.get(0)?, row.get(1)?);
        bad += u64::from(severity == "bad");
    }
    std::hint::black_box(bad);
    Ok(processor_time().saturating_sub(before))
}

/// Number of hosts, sites, and partners of a host of the folded archive.
const FOLDED: (i64, i64, i64) = (1000, 20, 10);

/// Creates an archive of many hosts with sites, unless `folder` has it.
fn folded(folder: &Path, now: i64) -> Result<()> {
    let (hosts, sites, partners) = FOLDED;
    archive(folder, |archive, db| {
        for k in 0..9 {
            mesh::add(archive, ("10.2.0.0", "10.2.0.1"), now - k * EVERY, Went::Well)?;
        }
        let address = "'10.2.' || ((k.n + 1) / 250) || '.' || ((k.n + 1) % 250)";
        let others = numbers(hosts - 2) + " ON r.id = 1";
        copy(db, "hosts", &others, &[("id", "k.n + 2"), ("address", address)])?;
        db.execute_batch(&format!(
            "INSERT OR IGNORE INTO streams(src, dst, protocol, direction, payload, period_ns, dscp) \
             SELECT a.id, b.id, protocol, direction, payload, period_ns, dscp FROM hosts a, hosts b, streams s \
             WHERE s.id = 1 AND (b.id - a.id + {hosts}) % {hosts} BETWEEN 1 AND {partners}"
        ))?;
        let id = [("number", "NULL"), ("id", "(r.id / 4) + s.id * 16"), ("stream", "s.id"), ("entered", "0")];
        copy(db, "tests", "streams s ON s.id > 1 AND r.stream = 1", &id)?;
        db.execute_batch("DELETE FROM rollups")?;
        let site = |k: i64| {
            let address = if k < 2 { format!("10.2.0.{k}") } else { format!("10.2.{}.{}", k / 250, k % 250) };
            (address, [("site".to_owned(), format!("site {:02}", k % sites))].into())
        };
        Ok(archive.set_labels(&(0..hosts).map(site).collect())?)
    })
}

/// Prints the time of a query for a year, as in `jitlat archive query`: the best of three, each with a connection of its
/// own.
fn query(folder: &Path, by: PoolPeriod, now: i64, limit_ms: u64) -> Result<()> {
    let figure = Scalar::named("pdv-p99").ok_or("no such figure")?;
    let since = Some(When(WallTime(now - 365 * 86_400_000_000_000)));
    let filter = Filter { since, ..Filter::default() };
    let mut all = Vec::new();
    for _ in 0..3 {
        let archive = Archive::open(folder)?;
        let (begun, before) = (Instant::now(), processor_time());
        let points: usize =
            archive.query(&filter, &[figure], by)?.iter().map(|(_, points)| points.len()).sum();
        let worked = processor_time().saturating_sub(before).as_secs_f64() * 1e3;
        all.push((begun.elapsed().as_secs_f64() * 1e3, worked, points));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (time, worked, points) = all[0];
    println!(
        "{:<44} {time:>7.0} ms, {worked:>9.0} of the processor, {points} points  {:.2} of {limit_ms} ms",
        format!("a year's pdv-p99 by {by:?}"),
        time / limit_ms as f64
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("write a folder")?;
    let mut number = |usual: i64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (tests, hosts) = (number(100_000)?, number(100)?);
    let now = now()?;
    let [path, matrix, many] = ["path", "matrix", "many"].map(|name| Path::new(&folder).join(name));
    self::path(&path, now, tests)?;
    folded(&many, now)?;
    archive(&matrix, |archive, db| {
        for k in 0..9 {
            mesh::add(archive, ("10.0.0.1", "10.0.0.2"), now - k * EVERY, Went::Well)?;
        }
        mesh::add(archive, ("10.0.0.2", "10.0.0.1"), now, Went::Badly)?;
        let others = numbers(hosts - 2) + " ON r.id = 1";
        copy(db, "hosts", &others, &[("id", "k.n + 2"), ("address", "'10.1.0.' || k.n")])?;
        // Each path gets a stream like one of the two that were measured; one of 50 gets the bad one.
        db.execute_batch(
            "INSERT OR IGNORE INTO streams(src, dst, protocol, direction, payload, period_ns, dscp) \
             SELECT a.id, b.id, protocol, direction, payload, period_ns, dscp FROM hosts a, hosts b, streams s \
             WHERE a.id <> b.id AND s.id = 1",
        )?;
        let others = "streams s ON s.id > 2 AND r.stream = CASE WHEN s.id % 50 = 0 THEN 2 ELSE 1 END";
        let id = "(r.id / 4) + s.id * 16";
        copy(db, "tests", others, &[("number", "NULL"), ("id", id), ("stream", "s.id"), ("entered", "0")])?;
        Ok(db.execute_batch("DELETE FROM rollups")?)
    })?;
    // The first query for a period stores its figures; do this for all periods at once, without the limit of a request.
    let all = Filter::default();
    let figure = Scalar::named("pdv-p99").ok_or("no such figure")?;
    Archive::open_to_write(&path)?.query(&all, &[figure], PoolPeriod::Month)?;
    served(&path, |address| ask(address, "/path/10.0.0.1/10.0.0.2?from=1970-01-01"))?;
    page(&path, "/path/10.0.0.1/10.0.0.2", 300)?;
    page(&path, "/path/10.0.0.1/10.0.0.2?range=30d", 300)?;
    page(&path, "/path/10.0.0.1/10.0.0.2?range=1y&week=1", 600)?;
    page(&path, "/path/10.0.0.1/10.0.0.2?from=365d", 300)?;
    page(&path, "/path/10.0.0.1/10.0.0.2?from=1970-01-01", 300)?;
    for period in [PoolPeriod::Hour, PoolPeriod::Day] {
        query(&path, period, now, 300)?;
    }
    page(&matrix, "/", 500)?;
    page(&many, "/", 1000)?;
    page(&matrix, "/hosts", 500)?;
    page(&path, "/sla", 1000)?;
    // 2000 streams; the first request reads all of them, later ones only new tests.
    page(&matrix, "/metrics", 10_000)?;
    page(&matrix, "/metrics, as protobuf", 10_000)?;
    let archive = Archive::open_to_write(&matrix)?;
    let (first, next) = served(&matrix, |address| {
        let (first, _) = ask(address, "/metrics, as protobuf")?;
        let mut next = Vec::new();
        for k in 0..5 {
            mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), now + k * EVERY, Went::Well)?;
            next.push(ask(address, "/metrics, as protobuf")?.0);
        }
        next.sort_unstable();
        Ok((first.as_secs_f64() * 1e3, next[next.len() / 2].as_secs_f64() * 1e3))
    })?;
    println!(
        "/metrics after a new test {next:.0} ms, which is {:.3} of a look at all ({first:.0} ms)",
        next / first
    );
    Ok(())
}
