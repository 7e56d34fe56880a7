//! [`Statistics`]: prints a session's results exactly like perfSONAR's tools: `owping -v` and `owstats -v`
//! ([`Statistics::text`]), and `-R` ([`Statistics::raw`]).
//!
//! The definitions differ from those of jitlat: delays are differences of times in double precision,
//! percentiles are counted in buckets and include lost packets, and minimum and maximum include duplicates.

use super::message::DataRecord;
use super::session::SessionData;
use core::fmt::Write;
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::units::civil;
use std::collections::{BTreeMap, HashMap};

/// Maximum n for which n-reordering is counted.
const MAX_REORDERING: usize = 1000;

/// Format of the statistics: options of owping.
#[derive(Clone, Debug, PartialEq)]
pub struct OwpingOptions {
    /// Width of the buckets in which delays are counted for median and percentiles, in seconds (`-b`).
    pub bucket: f64,
    /// Additional percentiles, in percent (`-a`).
    pub percentiles: Vec<f64>,
}

impl Default for OwpingOptions {
    fn default() -> OwpingOptions {
        OwpingOptions { bucket: 0.0001, percentiles: Vec::new() }
    }
}

/// Results of a session, with their output format.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Records of the session.
    pub data: SessionData,
    /// Format of the output.
    pub style: OwpingOptions,
}

/// Counts according to the definitions of owping.
#[derive(Default)]
struct OwpingCounts {
    /// Number of records of received packets, by sequence number.
    received: HashMap<u32, u64>,
    lost: u64,
    arrivals: u64,
    least: Option<f64>,
    most: Option<f64>,
    /// Number of packets by delay bucket, without duplicates.
    buckets: BTreeMap<i64, u64>,
    /// Number of packets by TTL, without duplicates.
    ttls: BTreeMap<u8, u64>,
    /// Number of arrivals that were preceded by at least n packets with higher sequence numbers, at index n −
    /// 1.
    reordered: Vec<u64>,
    /// Largest sum of both clocks' errors, in seconds.
    error: f64,
    unsynchronised: bool,
}

impl Statistics {
    /// Returns the lines of `owping -v`: every packet, then the summary. Times of day are UTC.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let heading = self.heading();
        out += &heading;
        for record in self.records() {
            let line = match delay(record) {
                None => format!("seq_no={:<10} *LOST*\n", record.seq),
                Some(delay) => {
                    let clocks = match synchronised(record) {
                        true => format!("(sync, err={} ms)", milliseconds(Some(errors(record)))),
                        false => "(unsync)".to_owned(),
                    };
                    let delay = milliseconds(Some(delay));
                    format!("seq_no={:<10} delay={delay} ms\t{clocks}\n", record.seq)
                }
            };
            out += &line;
        }
        out += &heading;
        self.summary(&mut out);
        out
    }

    /// Returns the lines of `owping -R`, one per record: sequence number; time, synchronisation and error of
    /// both clocks; TTL. Lost packets have no arrival time.
    pub fn raw(&self) -> String {
        let mut out = String::new();
        for record in &self.data.records {
            let clock = |at: u64, error: ErrorEstimate| {
                let synchronised = u8::from(error.synchronised());
                format!("{at:020} {synchronised} {}", general(seconds(error), 6))
            };
            let sent = clock(record.sent.0, record.send_error);
            let received = clock(record.received.map_or(0, |at| at.0), record.receive_error);
            let _ = writeln!(out, "{} {sent} {received} {}", record.seq, record.ttl);
        }
        out
    }

    fn heading(&self) -> String {
        let request = &self.data.session.request;
        let end = |ip: IpAddr, port: u16| match SocketAddr::new(ip, port) {
            SocketAddr::V4(at) => format!("[{}]:{port}", at.ip()),
            SocketAddr::V6(at) => at.to_string(),
        };
        let (from, to) =
            (end(request.sender, request.sender_port), end(request.receiver, request.receiver_port));
        let sid: String = request.sid.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\n--- owping statistics from {from} to {to} ---\nSID:\t{sid}\n")
    }

    /// Returns the records of packets that were not skipped.
    fn records(&self) -> impl Iterator<Item = &DataRecord> {
        let skips = &self.data.skips;
        let skipped = move |seq: u32| {
            let next = skips.partition_point(|skip| skip.last < seq);
            skips.get(next).is_some_and(|skip| skip.first <= seq)
        };
        self.data.records.iter().filter(move |record| !skipped(record.seq))
    }

    fn count(&self) -> OwpingCounts {
        let mut counted = OwpingCounts::default();
        let mut order: Vec<u32> = Vec::new();
        for record in self.records() {
            let Some(delay) = delay(record) else {
                counted.lost += 1;
                continue;
            };
            let larger =
                order.iter().rev().take(MAX_REORDERING).take_while(|other| record.seq < **other).count();
            counted.reordered.resize(counted.reordered.len().max(larger), 0);
            counted.reordered[..larger].iter_mut().for_each(|n| *n += 1);
            order.push(record.seq);
            counted.arrivals += 1;
            counted.least = Some(counted.least.map_or(delay, |least| least.min(delay)));
            counted.most = Some(counted.most.map_or(delay, |most| most.max(delay)));
            counted.error = counted.error.max(errors(record));
            counted.unsynchronised |= !synchronised(record);
            let copies = counted.received.entry(record.seq).or_default();
            *copies += 1;
            if *copies == 1 {
                let buckets = delay / self.style.bucket;
                let bucket = if buckets < 0.0 { buckets.floor() } else { buckets.ceil() };
                *counted.buckets.entry(bucket as i64).or_default() += 1;
                *counted.ttls.entry(record.ttl).or_default() += 1;
            }
        }
        counted
    }

    fn summary(&self, out: &mut String) {
        let counted = self.count();
        let sent = counted.received.len() as u64 + counted.lost;
        let schedule = &mut self.data.session.schedule();
        let first = schedule.next();
        let last = schedule.last().or(first);
        for (name, at) in [("first", first), ("last", last)] {
            let _ = writeln!(out, "{name}:\t{}", at.map(time_of_day).unwrap_or_default());
        }
        let share = if sent == 0 { 0.0 } else { 100.0 * counted.lost as f64 / sent as f64 };
        let duplicates: u64 = counted.received.values().map(|copies| copies - 1).sum();
        let _ = writeln!(out, "{sent} sent, {} lost ({share:.3}%), {duplicates} duplicates", counted.lost);
        let percentile = |percent: f64| counted.percentile(percent / 100.0, sent, self.style.bucket);
        let error = match counted.unsynchronised || counted.arrivals == 0 {
            true => "(unsync)".to_owned(),
            false => format!("(err={} ms)", milliseconds(Some(counted.error))),
        };
        let _ = writeln!(
            out,
            "one-way delay min/median/max = {}/{}/{} ms, {error}",
            milliseconds(counted.least),
            milliseconds(percentile(50.0)),
            milliseconds(counted.most)
        );
        let jitter = percentile(95.0).zip(percentile(50.0)).map(|(high, median)| high - median);
        let _ = writeln!(out, "one-way jitter = {} ms (P95-P50)", milliseconds(jitter));
        if !self.style.percentiles.is_empty() {
            *out += "Percentiles:\n";
        }
        for percent in &self.style.percentiles {
            let _ = writeln!(out, "\t{percent:.1}: {} ms", milliseconds(percentile(*percent)));
        }
        let hops: Vec<u8> = counted.ttls.keys().rev().map(|ttl| 255 - ttl).collect();
        let _ = match hops[..] {
            [] => writeln!(out, "TTL not reported"),
            [hops] => writeln!(out, "hops = {hops} (consistently)"),
            [least, .., most] => {
                writeln!(out, "hops takes {} values; min hops = {least}, max hops = {most}", hops.len())
            }
        };
        for (n, arrivals) in (1..).zip(&counted.reordered) {
            let share = 100.0 * *arrivals as f64 / counted.arrivals as f64;
            let _ = writeln!(out, "{n}-reordering = {share:.6}%");
        }
        *out += &match counted.reordered.len() {
            0 => "no reordering\n\n".to_owned(),
            n => format!("no {}-reordering\n\n", n + 1),
        };
    }
}

impl OwpingCounts {
    /// Returns the upper edge of the bucket by which `share` of all sent packets have arrived, in seconds;
    /// `None` if fewer have arrived.
    fn percentile(&self, share: f64, sent: u64, bucket: f64) -> Option<f64> {
        let mut arrived = 0;
        let reaches = |(_, packets): &(&i64, &u64)| {
            arrived += **packets;
            arrived as f64 >= share * sent as f64
        };
        self.buckets.iter().find(reaches).map(|(index, _)| *index as f64 * bucket)
    }
}

/// Returns the delay of a received packet in seconds, computed as in owping, which loses the last bits of the times;
/// `None` if the packet was lost.
fn delay(record: &DataRecord) -> Option<f64> {
    let seconds = |at: NtpTime| at.0 as f64 / UNITS;
    Some(seconds(record.received?) - seconds(record.sent))
}

const UNITS: f64 = (1_u64 << 32) as f64;

fn seconds(error: ErrorEstimate) -> f64 {
    let scale = i32::from(error.0 >> 8 & 0x3f) - 32;
    f64::from(error.0 & 0xff) * 2_f64.powi(scale)
}

/// Returns the sum of the errors of both clocks, in seconds.
fn errors(record: &DataRecord) -> f64 {
    seconds(record.send_error) + seconds(record.receive_error)
}

fn synchronised(record: &DataRecord) -> bool {
    record.send_error.synchronised() && record.receive_error.synchronised()
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or("nan".to_owned(), |seconds| general(seconds * 1000.0, 3))
}

/// Formats `value` with `digits` significant digits, like C's `%g`.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i32 {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), power.abs());
    }
    trimmed(&format!("{value:.*}", (digits as i32 - 1 - power).max(0) as usize))
}

/// Formats a time of day with its date in UTC, to the nearest millisecond.
fn time_of_day(at: NtpTime) -> String {
    // Eras of 2^32 s begin in 1900 and 2036. Times without the highest bit belong to the later era.
    let era = i64::from(at.0 >> 63 == 0) << 32;
    let thousandths = ((u128::from(at.0) * 1000 + (1 << 31)) >> 32) as i64;
    // 2 208 988 800 s lie between the beginning of the NTP era in 1900 and 1970.
    let seconds = thousandths.div_euclid(1000) + era - 2_208_988_800;
    let thousandths = thousandths.rem_euclid(1000);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{thousandths:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        let three: Vec<String> =
            [0.0806, 0.2, 71.057, 999.6, 1234.0, 0.00001, -0.5, 0.0].map(|x| general(x, 3)).into();
        assert_eq!(three, ["0.0806", "0.2", "71.1", "1e+03", "1.23e+03", "1e-05", "-0.5", "0"]);
        assert_eq!(general(2_f64.powi(-32), 6), "2.32831e-10");
    }

    #[test]
    fn times_of_the_day_go_on_after_2036() {
        assert_eq!(time_of_day(NtpTime(0xeeac_be46_ffff_ffff)), "2026-11-22T01:05:11.000");
        assert_eq!(time_of_day(NtpTime(0)), "2036-02-07T06:28:16.000");
    }
}
