//! Outputs in LaTe's own formats, byte for byte, for existing tools.
//!
//! * [`SampleHistory`] – converts records to samples
//! * [`summary`] – one line per test: 34 columns
//! * [`packets`] – one line per packet
//! * [`text`] – what LaTe's client prints
//! * [`stream`] – messages to a listening program, one per sample
//! * [`graphite`] – lines for Carbon
//!
//! Two errors of LaTe are not reproduced: invalid latencies do not count in the mean, and timestamps are taken from the
//! record.

pub mod graphite;
pub mod packets;
pub mod stream;
pub mod summary;
pub mod text;

use jitlat_core::record::Moment;
use jitlat_core::twoway::{processing, round_trip};
use jitlat_core::{PacketRecord, Span, WallTime};

/// A sample, as in LaTe's outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateSample {
    /// Sequence number, counted across wraps.
    pub seq: u64,
    /// Latency in ns. A missing, zero or negative value counts as an error.
    pub latency: Option<i64>,
    /// Processing time of the server in ns; `None` unless it reports one.
    pub processing: Option<i64>,
    /// Time at which the request was sent.
    pub sent: WallTime,
    /// True if a packet with this number arrived before.
    pub duplicate: bool,
    /// True if a higher number arrived first.
    pub late: bool,
    /// Share of packets lost, up to the highest sequence number so far, 0…1.
    pub lost_so_far: f64,
    /// Smallest latency so far, in ns.
    pub min: i64,
    /// Largest latency so far, in ns.
    pub max: i64,
}

impl LateSample {
    /// True if the latency is not a valid measurement.
    pub fn is_error(&self) -> bool {
        self.latency.is_none_or(|l| l <= 0)
    }

    /// Sequence number as sent, modulo 2¹⁶.
    pub fn wire_seq(&self) -> u16 {
        self.seq as u16
    }
}

/// Returns the round trip, or the one-way delay of a packet of a one-way test; `None` if it is unknown.
fn latency(record: &PacketRecord) -> Option<Span> {
    let one_way = || record.time(Moment::Arrived)?.checked_since(record.time(Moment::Sent)?);
    round_trip(record).or_else(|| one_way().filter(|_| record.time(Moment::Answered).is_none()))
}

/// Converts records, in order of arrival, to samples.
#[derive(Clone, Debug, Default)]
pub struct SampleHistory {
    highest: Option<u64>,
    missing: u64,
    min: Option<i64>,
    max: Option<i64>,
    /// Bitmap of the sequence numbers that have arrived.
    seen: Vec<u64>,
}

impl SampleHistory {
    /// Returns the sample of `record`; `None` if the record has no send time or an impossible sequence number.
    pub fn sample(&mut self, record: &PacketRecord) -> Option<LateSample> {
        let (seq, sent) = (u64::from(u32::try_from(record.seq).ok()?), record.time(Moment::Sent)?);
        let latency = latency(record).map(|s| s.0).filter(|_| record.flags.is_clean());
        let duplicate = self.note(seq);
        let before = self.highest;
        let late = !duplicate && before.is_some_and(|h| seq < h);
        if !duplicate {
            match before {
                Some(h) if seq > h => self.missing += seq - h - 1,
                None => self.missing += seq,
                _ => self.missing = self.missing.saturating_sub(1),
            }
            if let Some(l) = latency.filter(|l| *l > 0) {
                self.min = Some(self.min.map_or(l, |m| m.min(l)));
                self.max = Some(self.max.map_or(l, |m| m.max(l)));
            }
        }
        let highest = before.map_or(seq, |h| h.max(seq));
        self.highest = Some(highest);
        Some(LateSample {
            seq,
            latency,
            processing: processing(record).map(|s| s.0),
            sent,
            duplicate,
            late,
            lost_so_far: self.missing as f64 / (highest + 1) as f64,
            min: self.min.unwrap_or(0),
            max: self.max.unwrap_or(0),
        })
    }

    /// Marks `seq` as arrived. Returns true if it had already arrived. Uses one bit per sequence number up to the
    /// highest, which is limited by the number of packets sent.
    fn note(&mut self, seq: u64) -> bool {
        let (word, bit) = ((seq / 64) as usize, 1u64 << (seq % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let was = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        was
    }
}

/// Additional values in each sample (LaTe's `-X`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields {
    /// True to include the loss so far (letter `p`).
    pub lost_so_far: bool,
    /// True to include the reconstructed sequence number (letter `r`).
    pub seq: bool,
    /// True to include the smallest latency so far (letter `m`).
    pub min: bool,
    /// True to include the largest latency so far (letter `n`).
    pub max: bool,
}

impl ExtraFields {
    /// All additional values.
    pub const ALL: ExtraFields = ExtraFields { lost_so_far: true, seq: true, min: true, max: true };
}

impl core::str::FromStr for ExtraFields {
    type Err = String;

    /// Parses the letters `p`, `r`, `m`, `n`, or `a` for all, like LaTe's `-X`.
    fn from_str(letters: &str) -> Result<ExtraFields, String> {
        let mut extra = ExtraFields::default();
        for letter in letters.chars().filter(|c| *c != ',') {
            match letter {
                'a' => extra = ExtraFields::ALL,
                'p' => extra.lost_so_far = true,
                'r' => extra.seq = true,
                'm' => extra.min = true,
                'n' => extra.max = true,
                other => {
                    return Err(format!("'{other}' is not a letter of this option: use p, r, m, n, or a"));
                }
            }
        }
        Ok(extra)
    }
}

/// Formats nanoseconds as milliseconds with three decimals, rounded like the figures in the line of a test.
fn ms(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Formats a time as seconds with six decimals.
fn seconds(at: WallTime) -> String {
    let us = at.0.div_euclid(1000);
    format!("{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))
}

/// Returns the values of one sample in LaTe's order, including those of `extra`.
fn values(s: &LateSample, follow_up: bool, extra: ExtraFields) -> Vec<String> {
    let mut all = vec![s.wire_seq().to_string(), ms(s.latency.unwrap_or(0).max(0))];
    if follow_up {
        all.push(ms(s.processing.unwrap_or(0)));
    }
    all.push(seconds(s.sent));
    all.push(u8::from(s.is_error()).to_string());
    if extra.lost_so_far {
        all.push(format!("{:.2}", s.lost_so_far));
    }
    if extra.seq {
        all.push(s.seq.to_string());
    }
    if extra.min {
        all.push(ms(s.min));
    }
    if extra.max {
        all.push(ms(s.max));
    }
    all
}

#[cfg(test)]
mod tests;
