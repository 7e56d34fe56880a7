//! Makes an archive to look at: `cargo run -p jitlat-web --example mesh -- FOLDER`, then `jitlat web FOLDER`.
//!
//! Five hosts test each other every hour for the last three days. One direction of one path has been bad since last night,
//! and another host has been silent for a day.

use jitlat_archive::Archive;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_store::log::{LogVersion, LogWriter};
use std::fs::File;
use std::path::Path;

/// One hour, ns.
pub const HOUR: i64 = 3_600_000_000_000;

/// Quality of a simulated test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// No packet lost, little jitter.
    Well,
    /// Long losses, much jitter.
    Badly,
}

/// Adds a test of 250 packets from one address to another, which starts at `at`.
pub fn add(
    archive: &Archive,
    (src, dst): (&str, &str),
    at: i64,
    went: Went,
) -> Result<(), Box<dyn std::error::Error>> {
    const PERIOD: i64 = 20_000_000;
    let spec = TestSpec::default().with_packets(250)?;
    let session = Session {
        created: Some(WallTime(at)),
        src: Some(src.parse()?),
        dst: Some(dst.parse()?),
        sent: Some(250),
        ..Session::new(spec)
    };
    let path = archive.root().join("tmp").join(format!("{src}-{dst}-{at}.log"));
    let mut out = LogWriter::new(File::create(&path)?, LogVersion::V3);
    out.begin(&session);
    // Deterministic, so that every run is the same.
    let mut state = (at as u64) ^ (src.len() as u64) << 32 | 1;
    let mut noise = move |most: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most.unsigned_abs()) as i64
    };
    for i in 0..250 {
        let (mut delay, lost) =
            (12_000_000 + noise(1_500_000), went == Went::Badly && (60..90).contains(&(i % 125)));
        if went == Went::Badly {
            delay += noise(120_000_000);
        }
        if !lost {
            let sent = at + i * PERIOD;
            out.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + delay)));
        }
    }
    out.finish(&Session { ending: jitlat_core::session::Ending::Complete, ..session });
    out.close().1?;
    archive.add(&path, &[])?;
    std::fs::remove_file(&path)?;
    Ok(())
}

/// Five hosts, tested every hour until `now`.
pub fn mesh(folder: &Path, now: i64, hours: i64) -> Result<Archive, Box<dyn std::error::Error>> {
    let archive = Archive::make(folder)?;
    let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    for (a, src) in hosts.iter().enumerate() {
        for (b, dst) in hosts.iter().enumerate().filter(|(b, _)| *b != a) {
            for hour in (1..=hours).rev() {
                // The last host has been silent for a day; the path from the first to the second has a gap.
                if a == 4 && hour <= 24 || (a, b) == (0, 1) && (40..46).contains(&hour) {
                    continue;
                }
                let bad = (a, b) == (2, 3) && hour <= 9 || (a, b) == (1, 0) && (20..23).contains(&hour);
                let went = if bad { Went::Badly } else { Went::Well };
                let begun = now - hour * HOUR + (a as i64 * 5 + b as i64) * 60_000_000_000;
                add(&archive, (src, dst), begun, went)?;
            }
        }
    }
    Ok(archive)
}

#[allow(dead_code, reason = "tests use the functions")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("write a folder")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    mesh(Path::new(&folder), i64::try_from(now.as_nanos())?, 72)?;
    Ok(())
}
