//! Lines for Carbon, as written by LaTe's option `-g`: the figures of one interval.

use super::LateSample;
use std::collections::BTreeSet;

/// The statistics of one interval.
#[derive(Clone, Debug, Default)]
pub struct GraphiteInterval {
    count: u64,
    errors: u64,
    late: u64,
    duplicates: u64,
    good: u64,
    mean: f64,
    squares: f64,
    min: i64,
    max: i64,
    /// Sequence numbers skipped in this interval that have not arrived yet.
    open: BTreeSet<u64>,
    /// Number of late arrivals that belong to earlier intervals.
    of_before: u64,
    /// Highest sequence number so far, over all intervals.
    highest: Option<u64>,
}

/// Maximum number of gaps tracked in an interval. With more gaps, the path is down and packets are not merely
/// reordered.
const MAX_OPEN_GAPS: u64 = 100_000;

impl GraphiteInterval {
    /// Adds a sample.
    pub fn add(&mut self, s: &LateSample) {
        if s.duplicate {
            self.duplicates += 1;
            return;
        }
        self.count += 1;
        let next = self.highest.map_or(0, |h| h + 1);
        if s.late {
            self.late += 1;
            if !self.open.remove(&s.seq) {
                self.of_before += 1;
            }
        } else {
            self.open.extend((next..s.seq).rev().take(MAX_OPEN_GAPS as usize));
            self.highest = Some(s.seq);
        }
        if s.is_error() {
            self.errors += 1;
            return;
        }
        let Some(latency) = s.latency else { return };
        self.good += 1;
        self.min = if self.good == 1 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        let delta = latency as f64 - self.mean;
        self.mean += delta / self.good as f64;
        self.squares += delta * (latency as f64 - self.mean);
    }

    /// Returns the lines of this interval with the timestamp `at` (seconds since 1970), and starts a new interval.
    /// `None` if no sample arrived.
    pub fn flush(&mut self, path: &str, at: i64) -> Option<String> {
        let done = std::mem::take(self);
        self.highest = done.highest;
        if done.count + done.duplicates == 0 {
            return None;
        }
        let ms = |ns: f64| ns / 1e6;
        let deviation = if done.good > 1 { (done.squares / (done.good - 1) as f64).sqrt() } else { 0.0 };
        let mut lines = String::new();
        let mut add = |name: &str, value: String| lines += &format!("{path}.{name} {value} {at}\n");
        add("avg", format!("{:.5}", ms(done.mean)));
        add("max", format!("{:.5}", ms(done.max as f64)));
        add("min", format!("{:.5}", ms(done.min as f64)));
        add("stdev", format!("{:.5}", ms(deviation)));
        add("count", done.count.to_string());
        add("errors", done.errors.to_string());
        add("outoforder", done.late.to_string());
        let local = done.open.len() as i64;
        add("packetloss.local", local.to_string());
        // Late packets of earlier intervals are subtracted, so that all intervals together give the total loss.
        add("packetloss.net", (local - done.of_before as i64).to_string());
        add("dupcount", done.duplicates.to_string());
        Some(lines)
    }
}
