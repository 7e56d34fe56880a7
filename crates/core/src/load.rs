//! [`TestLoad`]: the background traffic of a test that is measured twice, idle and under load.

use crate::spec::Direction;
use crate::time::{Span, WallTime};
use serde::{Deserialize, Serialize};

/// Phase of a test that is measured twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TestPhase {
    /// Measured first, without background traffic.
    Idle,
    /// Measured during the background traffic.
    Loaded,
}

/// Background traffic of a test, and the part of it that arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestLoad {
    /// Phase that this test is.
    pub phase: TestPhase,
    /// Streams of the load; empty in the idle phase.
    pub streams: Vec<LoadStream>,
    /// Received rate over time, for each direction that had a load.
    pub throughput: Vec<LoadThroughput>,
}

/// Result of one stream of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadStream {
    /// Description of the load, as given by the user.
    pub load: String,
    /// Direction of the stream.
    pub direction: Direction,
    /// Requested payload rate in bit/s; `None`: as fast as TCP can send.
    pub offered_bps: Option<f64>,
    /// Payload rate in bit/s that arrived during the test; `None` if unknown.
    pub received_bps: Option<f64>,
    /// True if clearly less arrived than the sender was to send, so that the path or a host was the limit. False if
    /// everything arrived: the path may carry more. `None` if unknown.
    pub filled: Option<bool>,
    /// Packets sent.
    pub sent: u64,
    /// Share of packets lost, 0…1; `None` if unknown.
    pub loss: Option<f64>,
    /// Reason why the stream ended before the test did; `None` if it did not.
    pub failure: Option<String>,
}

/// Received rate over time of all load streams in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadThroughput {
    /// Direction of the streams.
    pub direction: Direction,
    /// Start of the first interval, on the clock of the client.
    pub start: WallTime,
    /// Length of each interval.
    pub interval: Span,
    /// Payload rate in bit/s that arrived in each interval.
    pub bps: Vec<f64>,
}

/// Resolution of [`ArrivedBytes`].
const SLOT: i64 = 100_000_000;
/// Maximum number of intervals in a [`LoadThroughput`]; longer ones are used for longer tests.
const MAX_INTERVALS: i64 = 600;
/// Longest time over which bytes are spread.
const MAX_SPREAD: i64 = 10_000_000_000;
/// Minimum time over which a rate is computed: TCP delivers in bursts.
const MIN_RATE_TIME: i64 = 1_000_000_000;

impl TestLoad {
    /// Describes the idle phase.
    pub fn idle() -> TestLoad {
        TestLoad { phase: TestPhase::Idle, streams: Vec::new(), throughput: Vec::new() }
    }

    /// Returns the streams in `direction`, or all streams for a round trip (`None`).
    pub fn streams_of(&self, direction: Option<Direction>) -> impl Iterator<Item = &LoadStream> + Clone {
        self.streams.iter().filter(move |stream| direction.is_none_or(|d| d == stream.direction))
    }

    /// Returns the received rate in `direction`; `None` if there is no load, or if it is unknown.
    pub fn received_bps(&self, direction: Option<Direction>) -> Option<f64> {
        let mut rates = self.streams_of(direction).filter_map(|stream| stream.received_bps).peekable();
        rates.peek()?;
        Some(rates.sum())
    }
}

/// Bytes that arrived, by time, in slots of 100 ms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivedBytes(std::collections::BTreeMap<i64, u64>);

impl ArrivedBytes {
    /// Adds bytes that arrived at a time of the client's clock.
    pub fn add(&mut self, at: WallTime, bytes: u64) {
        let slot = self.0.entry(at.0.div_euclid(SLOT)).or_default();
        *slot = slot.saturating_add(bytes);
    }

    /// Adds bytes that arrived between two times, evenly: a TCP receiver learns of a record when all of it is there. Bytes of
    /// more than ten seconds count as arrived at their end.
    pub fn add_between(&mut self, from: WallTime, to: WallTime, bytes: u64) {
        let (first, last) = (from.0.div_euclid(SLOT), to.0.div_euclid(SLOT));
        let time = to.0.saturating_sub(from.0);
        if first >= last || time > MAX_SPREAD {
            return self.add(to, bytes);
        }
        let mut left = bytes;
        for slot in first..last {
            let (begin, end) = ((slot * SLOT).max(from.0), (slot + 1) * SLOT);
            let share = (bytes as f64 * (end - begin) as f64 / time as f64) as u64;
            self.add(WallTime(begin), share.min(left));
            left -= share.min(left);
        }
        self.add(to, left);
    }

    /// Returns true if nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|bytes| *bytes == 0)
    }

    /// Adds the bytes of another stream.
    pub fn add_all(&mut self, other: &ArrivedBytes) {
        for (slot, bytes) in &other.0 {
            let mine = self.0.entry(*slot).or_default();
            *mine = mine.saturating_add(*bytes);
        }
    }

    /// Returns the mean rate in bit/s between two times, extended backwards to at least a second.
    pub fn rate(&self, from: WallTime, to: WallTime) -> f64 {
        let from = from.0.min(to.0.saturating_sub(MIN_RATE_TIME));
        let (first, last) = (from.div_euclid(SLOT), to.0.div_euclid(SLOT));
        let bytes: u64 = self.0.range(first..=last.max(first)).map(|(_, bytes)| *bytes).sum();
        bits(bytes) / seconds(last.max(first) - first + 1)
    }

    /// Returns the rate over time up to `to`; `None` if nothing arrived until then.
    pub fn throughput(&self, direction: Direction, to: WallTime) -> Option<LoadThroughput> {
        let last = to.0.div_euclid(SLOT);
        let first = *self.0.range(..=last).next()?.0;
        let merged = ((last - first + 1) / MAX_INTERVALS + 1).max(1);
        let mut bps = Vec::new();
        let mut from = first;
        // A final interval that is not complete would look like a fall of the rate.
        while from + merged - 1 <= last {
            let bytes: u64 = self.0.range(from..from + merged).map(|(_, bytes)| *bytes).sum();
            bps.push((bits(bytes) / seconds(merged)).round());
            from += merged;
        }
        (!bps.is_empty()).then(|| LoadThroughput {
            direction,
            start: WallTime(first.saturating_mul(SLOT)),
            interval: Span(merged.saturating_mul(SLOT)),
            bps,
        })
    }
}

fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

/// Returns the length of `slots`, in seconds.
fn seconds(slots: i64) -> f64 {
    slots as f64 * SLOT as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn arrived(times: impl IntoIterator<Item = i64>) -> ArrivedBytes {
        let mut arrived = ArrivedBytes::default();
        times.into_iter().for_each(|ms| arrived.add(WallTime(ms * MS), 1250));
        arrived
    }

    #[test]
    fn a_rate_counts_what_arrived_in_its_time() {
        // 10 kbit every 10 ms is 1 Mbit/s; it begins 5 s after the epoch.
        let load = arrived((500..1000).map(|k| k * 10));
        let rate = |from: i64, to: i64| load.rate(WallTime(from * MS), WallTime(to * MS)).round();
        assert_eq!(rate(6000, 7999), 1e6);
        assert_eq!(rate(9950, 9951), 1e6, "a short test is extended backwards");
        assert_eq!(rate(0, 4999), 0.0);
        assert_eq!(rate(0, 9999), 5e5);
        assert_eq!(ArrivedBytes::default().rate(WallTime(0), WallTime(i64::MAX)), 0.0);
    }

    #[test]
    fn records_are_spread_over_the_time_of_their_arrival() {
        let mut load = ArrivedBytes::default();
        // A megabit from 50 ms to 450 ms.
        load.add_between(WallTime(50 * MS), WallTime(450 * MS), 125_000);
        let of = load.throughput(Direction::Up, WallTime(499 * MS)).unwrap();
        assert_eq!(of.bps, [1.25e6, 2.5e6, 2.5e6, 2.5e6, 1.25e6]);
        load.add_between(WallTime(0), WallTime(i64::MAX), 1000);
        load.add_between(WallTime(90 * MS), WallTime(20 * MS), 1000);
        assert_eq!(load.throughput(Direction::Up, WallTime(99 * MS)).unwrap().bps, [1.33e6]);
    }

    #[test]
    fn throughput_begins_with_the_load_and_ends_with_the_test() {
        let load = arrived((500..1000).map(|k| k * 10));
        let of = load.throughput(Direction::Up, WallTime(7999 * MS)).unwrap();
        assert_eq!((of.start, of.interval), (WallTime(5000 * MS), Span(100 * MS)));
        assert_eq!(of.bps, vec![1e6; 30]);
        assert_eq!(load.throughput(Direction::Up, WallTime(4000 * MS)), None);
        let long = arrived((0..1_000_000).map(|k| k * 10));
        let long = long.throughput(Direction::Down, WallTime(9_999_999 * MS)).unwrap();
        assert!(long.bps.len() <= 600 && long.bps.iter().all(|bps| *bps == 1e6), "{}", long.bps.len());
    }
}
