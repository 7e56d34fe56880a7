//! HDR histograms in the interval log format (`.hlog`) of HdrHistogram's own tools. Each line contains a compressed
//! histogram in base64, tagged `latency` or `pdv`, with values in nanoseconds.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jitlat_core::analysis::Samples;
use jitlat_core::{Span, WallTime};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// Number of significant decimal digits: values are exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Divisor of the `max` column, which the format's tools expect in milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Writes histograms of the accepted packets for each `interval` of arrival time, or for the whole run: their delay
/// variation and, unless some values are negative, their latency.
///
/// # Errors
///
/// Errors of `out`.
pub fn write(out: &mut dyn Write, samples: &Samples, interval: Option<Span>) -> io::Result<()> {
    let fastest = samples.delay.iter().min().copied().unwrap_or(0);
    let first = if samples.is_empty() { WallTime(0) } else { WallTime(samples.arrived(0)) };
    let mut out = out;
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("[jitlat; values in ns, max in ms]").with_max_value_divisor(MAX_DIVISOR);
    if let Some(start) = system_time(first) {
        builder.with_start_time(start).with_base_time(start);
    }
    let mut log = builder.begin_log_with(&mut out, &mut serializer)?;
    let length = interval.map_or(i64::MAX, |i| i.0.max(1));
    let window = |k: usize| (i128::from(samples.arrived(k)) - i128::from(first.0)).max(0) as i64 / length;

    let mut from = 0;
    while from < samples.len() {
        let here = window(from);
        let to = (from..samples.len()).find(|k| window(*k) > here).unwrap_or(samples.len());
        let delays = &samples.delay[from..to];
        let last = (from..to).map(|k| samples.arrived(k)).max().unwrap_or(first.0);
        let begin = interval.map_or(0, |i| here.saturating_mul(i.0));
        let lasted = interval.unwrap_or(WallTime(last) - first);
        let (begin, lasted) =
            (Duration::from_nanos(begin.max(0) as u64), Duration::from_nanos(lasted.0.max(0) as u64));
        for (tag, origin) in [("latency", 0), ("pdv", fastest)] {
            if fastest < origin {
                continue;
            }
            let values = delays.iter().map(|d| d.saturating_sub(origin).max(0) as u64);
            log.write_histogram(&histogram(values)?, begin, lasted, Tag::new(tag)).map_err(other)?;
        }
        from = to;
    }
    Ok(())
}

fn histogram(values: impl Iterator<Item = u64>) -> io::Result<Histogram<u64>> {
    let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).map_err(other)?;
    for v in values {
        // The histogram grows to hold any value. Clamp absurd latencies to limit its memory.
        histogram.record(v).map_err(other)?;
    }
    Ok(histogram)
}

fn system_time(at: WallTime) -> Option<SystemTime> {
    u64::try_from(at.0).ok().map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns))
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn read_back(text: &[u8]) -> Vec<(String, f64, Histogram<u64>)> {
        let entries = IntervalLogIterator::new(text).map(Result::unwrap);
        entries
            .filter_map(|e| match e {
                LogEntry::Interval(i) => {
                    let bytes = base64(i.encoded_histogram());
                    let h = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                    Some((i.tag().unwrap().as_str().to_owned(), i.start_timestamp().as_secs_f64(), h))
                }
                _ => None,
            })
            .collect()
    }

    fn base64(text: &str) -> Vec<u8> {
        let value = |b: u8| match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'=').map(value).collect();
        let groups = digits.chunks(4).flat_map(|c| {
            let word = c.iter().fold(0u32, |w, d| w << 6 | u32::from(*d)) << (6 * (4 - c.len()));
            word.to_be_bytes()[1..c.len()].to_vec()
        });
        groups.collect()
    }

    fn samples(delays: &[i64]) -> Samples {
        let n = delays.len() as i64;
        let start = 1_763_697_000_000_000_000;
        Samples {
            seq: (0..n as u32).collect(),
            sent: (0..n).map(|i| start + i * 20_000_000).collect(),
            delay: delays.to_vec(),
            ..Samples::default()
        }
    }

    #[test]
    fn other_tools_find_the_same_values() {
        let delays: Vec<i64> = (0..1000).map(|i| 1_000_000 + i * 1000).collect();
        let mut out = Vec::new();
        write(&mut out, &samples(&delays), None).unwrap();
        let found = read_back(&out);
        assert_eq!(found.len(), 2);
        let (tag, start, latency) = &found[0];
        assert_eq!((tag.as_str(), *start, latency.len()), ("latency", 0.0, 1000));
        assert!((latency.value_at_percentile(50.0) as f64 / 1_499_500.0 - 1.0).abs() < 1e-3);
        assert_eq!((found[1].0.as_str(), found[1].2.min()), ("pdv", 0));
    }

    #[test]
    fn windows_add_up_and_negative_latency_is_left_out() {
        let delays: Vec<i64> = (0..100).map(|i| -5_000 + i).collect();
        let mut out = Vec::new();
        write(&mut out, &samples(&delays), Some(Span::millis(500))).unwrap();
        let found = read_back(&out);
        assert_eq!(found.iter().map(|(_, start, _)| *start).collect::<Vec<_>>(), [0.0, 0.5, 1.0, 1.5]);
        assert!(found.iter().all(|(tag, ..)| tag == "pdv"));
        assert_eq!(found.iter().map(|(.., h)| h.len()).sum::<u64>(), 100);
        write(&mut Vec::new(), &Samples::default(), None).unwrap();
    }
}
