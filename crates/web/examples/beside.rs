//! Compares a year of a path in the archive, in SQLite alone, and in a Prometheus that scraped figures of each test (as from
//! a textfile of node_exporter): `cargo run --release -p jitlat-web --example beside -- FOLDER`.
//!
//! All three hold the same 100 000 tests. The archive stores their distributions and returns the percentile of all packets
//! of a day. The two others store figures of each test, from which no percentile of a day can be computed: the maximum of
//! the day is queried instead.

#[path = "speed.rs"]
#[allow(dead_code, reason = "its main is that of another example")]
mod speed;

#[path = "../tests/scraper/mod.rs"]
mod scraper;

use jitlat_archive::{Archive, Filter, PoolPeriod, When};
use jitlat_core::WallTime;
use jitlat_core::scalars::Scalar;
use rusqlite::Connection;
use scraper::Prometheus;
use speed::Result;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const DAY: i64 = 86_400_000_000_000;

/// Returns the shortest of five durations, ms, and the result.
fn best<T>(mut work: impl FnMut() -> Result<T>) -> Result<(f64, T)> {
    let mut timed = || -> Result<(f64, T)> {
        let begun = Instant::now();
        let made = work()?;
        Ok((begun.elapsed().as_secs_f64() * 1e3, made))
    };
    let mut best = timed()?;
    for _ in 0..4 {
        let next = timed()?;
        if next.0 < best.0 {
            best = next;
        }
    }
    Ok(best)
}

/// Total size of the files in a folder and its subfolders.
fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn line(name: &str, time: f64, of: f64, bytes_a_test: f64, answer: &str) {
    println!(
        "{name:<34} {time:>8.1} ms  {:>6.2} of the archive's  {bytes_a_test:>6.0} B a test  {answer}",
        time / of
    );
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).ok_or("write a folder")?;
    let folder = Path::new(&folder);
    let now = speed::now()?;
    let path = folder.join("path");
    speed::path(&path, now, 100_000)?;
    let archive = Archive::open(&path)?;
    let figure = |key: &str| Scalar::named(key).ok_or("no such figure");
    let since = Some(When(WallTime(now - 365 * DAY)));
    let filter = Filter { since, ..Filter::default() };
    // Figures of each test, which is all that the two others store.
    let all = Filter::default();
    let [p99, loss] = ["pdv-p99", "loss"].map(|key| {
        figure(key).and_then(|f| archive.query(&all, &[f], PoolPeriod::Test).map_err(|_| "unread"))
    });
    let (p99, loss) = (p99?.remove(0).1, loss?.remove(0).1);
    let tests = p99.len() as f64;
    println!("{tests} tests; the year's 99th percentile of jitter by day:");
    let (own, points) =
        best(|| Ok(archive.query(&filter, &[figure("pdv-p99")?], PoolPeriod::Day)?.remove(0).1.len()))?;
    let catalogue = std::fs::metadata(path.join(jitlat_archive::CATALOGUE))?.len();
    line("archive: of all packets of a day", own, own, catalogue as f64 / tests, &format!("{points} days"));

    let file = folder.join("alone.sqlite");
    let _ = std::fs::remove_file(&file);
    let alone = Connection::open(&file)?;
    alone.execute_batch("CREATE TABLE tests(path TEXT, at INTEGER, p99 REAL, loss REAL, PRIMARY KEY(path, at)) WITHOUT ROWID; BEGIN")?;
    {
        let mut insert =
            alone.prepare("INSERT OR REPLACE INTO tests VALUES ('10.0.0.1 10.0.0.2', ?, ?, ?)")?;
        for (a, b) in p99.iter().zip(&loss) {
            insert.execute((a.start_ns, a.values[0], b.values[0]))?;
        }
    }
    alone.execute_batch("COMMIT")?;
    let (time, days) = best(|| {
        let query = "SELECT at / 86400000000000, max(p99) FROM tests WHERE path = '10.0.0.1 10.0.0.2' AND at >= ? GROUP BY 1";
        let mut days = alone.prepare(query)?;
        let rows = days.query_map([now - 365 * DAY], |row| row.get::<_, f64>(1))?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.len())
    })?;
    line(
        "SQLite alone: the worst test of a day",
        time,
        own,
        std::fs::metadata(&file)?.len() as f64 / tests,
        &format!("{days} days"),
    );

    let data = tempfile::tempdir()?;
    let mut text = String::new();
    for (name, points) in [("path_jitter_p99_seconds", &p99), ("path_loss_ratio", &loss)] {
        let _ = writeln!(text, "# TYPE {name} gauge");
        for point in points {
            let scale = if name == "path_loss_ratio" { 1.0 } else { 1e9 };
            if let Some(value) = point.values[0] {
                let (value, at) = (value / scale, point.start_ns as f64 / 1e9);
                let _ = writeln!(text, "{name}{{src=\"10.0.0.1\",dst=\"10.0.0.2\"}} {value} {at:.3}");
            }
        }
    }
    text.push_str("# EOF\n");
    let samples = data.path().join("samples.txt");
    std::fs::write(&samples, text)?;
    let made = Command::new("promtool")
        // By default every two hours of the year become a block, and each block reads the whole file.
        .args(["tsdb", "create-blocks-from", "--max-block-duration=9000h", "openmetrics"])
        .args([&samples, &data.path().join("data")])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("Prometheus: no promtool, or it cannot make blocks");
        return Ok(());
    }
    let size = bytes(&data.path().join("data")) as f64 / tests;
    let Some(prometheus) = Prometheus::start(data, "global: {}\n", &["--storage.tsdb.retention.time=10y"])
    else {
        return Ok(());
    };
    let range = format!("start={}&end={}&step=86400", (now - 364 * DAY) / 1_000_000_000, now / 1_000_000_000);
    let (time, days) = best(|| {
        let answer = prometheus.get(&format!(
            "/api/v1/query_range?query=max_over_time(path_jitter_p99_seconds%5B1d%5D)&{range}"
        ));
        Ok(answer["data"]["result"][0]["values"].as_array().map_or(0, Vec::len))
    })?;
    line("Prometheus: the worst test of a day", time, own, size, &format!("{days} days"));
    Ok(())
}
