//! [`read_pings`]: round trips measured by ping, from its output or from a log of `jitlat ping`.

use crate::log::LogReader;
use jitlat_core::time::{SECOND, Span, WallTime};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Maximum number of bytes read from ping's output.
const MAX_BYTES: u64 = 256 << 20;

/// Reason why no round trips could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PingsError {
    /// The file cannot be read.
    #[error("reading ping's round trips from {}: {source}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file has another format.
    #[error(
        "reading ping's round trips from {}: it is neither output of ping (use ping -D) nor a log of jitlat ping",
        .0.display()
    )]
    Other(PathBuf),
}

/// Reads the round trips in `path`, each with the time at which its request was sent: from the output of `ping -D`, or
/// from a log of `jitlat ping`. If ping's output has no timestamps, its values are assumed to be one second apart,
/// starting at `start`.
///
/// # Errors
/// [`PingsError`] if there are none.
pub fn read_pings(path: &Path, start: WallTime) -> Result<Vec<(WallTime, Span)>, PingsError> {
    if let Ok(mut reader) = LogReader::open(path) {
        let mut failure = None;
        let rows: Vec<_> =
            reader.records(&mut failure).filter_map(|r| Some((r.sent()?, r.delay()?))).collect();
        if !rows.is_empty() {
            return Ok(rows);
        }
    }
    let failed = |source| PingsError::Io { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(PingsError::Other(path.to_owned()));
    }
    let text = fs::read(path).map_err(failed)?;
    let rows: Vec<_> = String::from_utf8_lossy(&text).lines().filter_map(|l| line(l, start)).collect();
    if rows.is_empty() { Err(PingsError::Other(path.to_owned())) } else { Ok(rows) }
}

/// Parses `[1700000000.123456] 64 bytes from 192.0.2.1: icmp_seq=7 ttl=64 time=12.3 ms`.
fn line(text: &str, start: WallTime) -> Option<(WallTime, Span)> {
    let (_, after) = text.split_once("time=").or_else(|| text.split_once("time<"))?;
    let mut fields = after.split_whitespace();
    let number: f64 = fields.next()?.trim_end_matches("ms").parse().ok()?;
    let unit = match fields.next() {
        Some("us") => 1e3,
        Some("s") => 1e9,
        _ => 1e6,
    };
    let rtt = (number * unit).round();
    if !(0.0..1e15).contains(&rtt) {
        return None;
    }
    let stamp = text.trim_start().strip_prefix('[').and_then(|t| t.split_once(']'));
    let at = match stamp.and_then(|(t, _)| t.parse::<f64>().ok()) {
        // ping prints the arrival time of the reply, so subtract the round trip.
        Some(seconds) if seconds.abs() < 9e9 => WallTime((seconds * 1e9) as i64 - rtt as i64),
        _ => {
            let seq = text.split_once("seq=")?.1.split_whitespace().next()?.parse::<i64>().ok()?;
            start + Span(seq.checked_mul(SECOND)?)
        }
    };
    Some((at, Span(rtt as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_ping() {
        let start = WallTime(1000 * SECOND);
        let stamped = "[1700000000.500000] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=12.5 ms";
        let (at, rtt) = line(stamped, start).unwrap();
        assert_eq!(rtt, Span(12_500_000));
        assert!((at.0 - 1_700_000_000_487_500_000).abs() < 1000, "when the request left");
        let bare = "64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=8123 ms";
        assert_eq!(line(bare, start), Some((WallTime(1003 * SECOND), Span(8_123_000_000))));
        for other in ["PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.", "time=x ms", "time=-5 ms", ""] {
            assert_eq!(line(other, start), None);
        }
    }
}
