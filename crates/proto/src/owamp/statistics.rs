//! [`Statistics`]: prints a session's results exactly like perfSONAR's tools: `owping` and `owstats`
//! ([`Statistics::summary`]), `-v` ([`Statistics::text`]), `-R` ([`Statistics::raw`]) and `-M`
//! ([`Statistics::machine`]).
//!
//! The definitions differ from those of jitlat: delays are differences of times in double precision,
//! percentiles are counted in buckets and include lost packets, and minimum and maximum include duplicates.

use super::message::{DataRecord, SessionFinish};
use super::session::SessionData;
pub use crate::amp::printed::OwpingOptions;
use crate::amp::printed::{
    DelayBuckets, Extremes, between, endpoint, error, general, hops, reading, time_of_day, unix_seconds,
};
use core::fmt::Write;
use jitlat_core::ntp::NtpTime;
use std::collections::{BTreeMap, HashMap};

/// Maximum n for which n-reordering is counted.
const MAX_REORDERING: usize = 1000;

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
    delays: Extremes,
    /// Numbers of packets by delay, without duplicates.
    buckets: DelayBuckets,
    /// Number of packets by TTL, without duplicates; empty if hops are not counted.
    ttls: BTreeMap<u8, u64>,
    /// Number of arrivals that were preceded by at least n packets with higher sequence numbers, at index n −
    /// 1.
    reordered: Vec<u64>,
    /// Largest sum of both clocks' errors, in seconds.
    error: f64,
    unsynchronised: bool,
}

impl OwpingCounts {
    fn sent(&self) -> u64 {
        self.received.len() as u64 + self.lost
    }

    fn duplicates(&self) -> u64 {
        self.received.values().map(|copies| copies - 1).sum()
    }

    fn is_synchronised(&self) -> bool {
        !self.unsynchronised && self.arrivals > 0
    }
}

impl Statistics {
    /// Returns the lines of `owping -v`: every packet, then the summary. Times of day are UTC.
    pub fn text(&self) -> String {
        let unit = self.style.unit;
        let mut out = self.heading();
        for record in self.records() {
            let line = match delay(record) {
                None => format!("seq_no={:<10} *LOST*\n", record.seq),
                Some(delay) => {
                    let clocks = match synchronised(record) {
                        true => format!("(sync, err={} {})", unit.show(Some(errors(record))), unit.symbol()),
                        false => "(unsync)".to_owned(),
                    };
                    let delay = unit.show(Some(delay));
                    format!("seq_no={:<10} delay={delay} {}\t{clocks}\n", record.seq, unit.symbol())
                }
            };
            out += &line;
        }
        out + &self.summary()
    }

    /// Returns the lines of `owping -R`, one per record: sequence number; time, synchronisation and error of
    /// both clocks; TTL. Lost packets have no arrival time.
    pub fn raw(&self) -> String {
        let mut out = String::new();
        for record in &self.data.records {
            let sent = reading(Some(record.sent), record.send_error);
            let received = reading(record.received, record.receive_error);
            let _ = writeln!(out, "{} {sent} {received} {}", record.seq, record.ttl);
        }
        out
    }

    fn heading(&self) -> String {
        let request = &self.data.session.request;
        let from = endpoint(request.sender, request.sender_port);
        let to = endpoint(request.receiver, request.receiver_port);
        format!("\n--- owping statistics from {from} to {to} ---\nSID:\t{}\n", request.sid)
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
            counted.delays.count(delay);
            counted.error = counted.error.max(errors(record));
            counted.unsynchronised |= !synchronised(record);
            let copies = counted.received.entry(record.seq).or_default();
            *copies += 1;
            if *copies == 1 {
                counted.buckets.count(delay, self.style.bucket);
                if self.style.counts_hops {
                    *counted.ttls.entry(record.ttl).or_default() += 1;
                }
            }
        }
        counted
    }

    /// Returns the scheduled times of the first and the last packet; `None` without packets.
    fn ends(&self) -> [Option<NtpTime>; 2] {
        let schedule = &mut self.data.session.schedule();
        let first = schedule.next();
        [first, schedule.last().or(first)]
    }

    /// Returns the lines of `owping` without options. Times of day are UTC.
    pub fn summary(&self) -> String {
        let mut out = self.heading();
        let counted = self.count();
        let sent = counted.sent();
        for (name, at) in ["first", "last"].into_iter().zip(self.ends()) {
            let _ = writeln!(out, "{name}:\t{}", at.map(time_of_day).unwrap_or_default());
        }
        let share = if sent == 0 { 0.0 } else { 100.0 * counted.lost as f64 / sent as f64 };
        let duplicates = counted.duplicates();
        let _ = writeln!(out, "{sent} sent, {} lost ({share:.3}%), {duplicates} duplicates", counted.lost);
        let (unit, bucket) = (self.style.unit, self.style.bucket);
        let symbol = unit.symbol();
        let percentile = |percent: f64| counted.buckets.percentile(percent / 100.0, sent, bucket);
        let error = match counted.is_synchronised() {
            false => "(unsync)".to_owned(),
            true => format!("(err={} {symbol})", unit.show(Some(counted.error))),
        };
        let _ = writeln!(
            out,
            "one-way delay min/median/max = {}/{}/{} {symbol}, {error}",
            unit.show(counted.delays.least()),
            unit.show(percentile(50.0)),
            unit.show(counted.delays.most())
        );
        let jitter = counted.buckets.jitter(sent, bucket);
        let _ = writeln!(out, "one-way jitter = {} {symbol} (P95-P50)", unit.show(jitter));
        if !self.style.percentiles.is_empty() {
            out += "Percentiles:\n";
        }
        for percent in &self.style.percentiles {
            let _ = writeln!(out, "\t{percent:.1}: {} {symbol}", unit.show(percentile(*percent)));
        }
        out += &hops("", &counted.ttls).unwrap_or_else(|| "TTL not reported\n".to_owned());
        for (n, arrivals) in (1..).zip(&counted.reordered) {
            let share = 100.0 * *arrivals as f64 / counted.arrivals as f64;
            let _ = writeln!(out, "{n}-reordering = {share:.6}%");
        }
        out += &match counted.reordered.len() {
            0 => "no reordering\n\n".to_owned(),
            n => format!("no {}-reordering\n\n", n + 1),
        };
        out
    }

    /// Returns the lines of `owping -M`: a key and a value each, in seconds, and histograms.
    pub fn machine(&self) -> String {
        let mut out = String::new();
        let counted = self.count();
        let (data, request) = (&self.data, &self.data.session.request);
        let sent = counted.sent();
        let mut line = |key: &str, value: String| {
            let _ = writeln!(out, "{key}\t{value}");
        };
        line("SUMMARY", "3.00".to_owned());
        line("SID", request.sid.to_string());
        for (end, ip, port) in
            [("FROM", request.sender, request.sender_port), ("TO", request.receiver, request.receiver_port)]
        {
            line(&format!("{end}_HOST"), ip.to_string());
            line(&format!("{end}_ADDR"), ip.to_string());
            line(&format!("{end}_PORT"), port.to_string());
        }
        let ends = self.ends().map(Option::unwrap_or_default);
        for (name, at) in ["START_TIME", "END_TIME"].into_iter().zip(ends) {
            line(name, format!("{:020}", at.0));
        }
        if self.style.unix_times {
            for (name, at) in ["UNIX_START_TIME", "UNIX_END_TIME"].into_iter().zip(ends) {
                line(name, format!("{:.6}", unix_seconds(at)));
            }
        }
        if let Some(dscp) = request.dscp() {
            line("DSCP", format!("0x{dscp:02x}"));
        }
        line("LOSS_TIMEOUT", request.timeout.0.to_string());
        line("PACKET_PADDING", request.padding.to_string());
        line("SESSION_PACKET_COUNT", request.packets.to_string());
        line("SAMPLE_PACKET_COUNT", request.packets.to_string());
        line("BUCKET_WIDTH", general(self.style.bucket, 6));
        line("SESSION_FINISHED", u8::from(data.finished == SessionFinish::Normally).to_string());
        line("SENT", sent.to_string());
        line("SYNC", u8::from(counted.is_synchronised()).to_string());
        line("MAXERR", general(counted.error, 6));
        line("DUPS", counted.duplicates().to_string());
        line("LOST", counted.lost.to_string());
        let bucket = self.style.bucket;
        for (name, value) in [
            ("MIN", counted.delays.least()),
            ("MEDIAN", counted.buckets.percentile(0.5, sent, bucket)),
            ("MAX", counted.delays.most()),
            ("PDV", counted.buckets.jitter(sent, bucket)),
        ] {
            value.into_iter().for_each(|value| line(name, general(value, 6)));
        }
        if !counted.buckets.0.is_empty() {
            out += "<BUCKETS>\n";
            for (index, packets) in &counted.buckets.0 {
                let _ = writeln!(out, "\t{index}\t{packets}");
            }
            out += "</BUCKETS>\n";
        }
        if let (Some(least), Some(most)) = (counted.ttls.keys().next(), counted.ttls.keys().next_back()) {
            let _ = writeln!(out, "MINTTL\t{least}\nMAXTTL\t{most}\n<TTLBUCKETS>");
            for (ttl, packets) in &counted.ttls {
                let _ = writeln!(out, "\t{ttl}\t{packets}");
            }
            out += "</TTLBUCKETS>\n";
        }
        out += "\n<NREORDERING>\n";
        for (n, packets) in (1..).zip(&counted.reordered) {
            let _ = writeln!(out, "\t{n}\t{packets}");
        }
        if counted.reordered.is_empty() {
            out += "\t1\t0\n";
        }
        out += "</NREORDERING>\n";
        out
    }
}

/// Returns the delay of a received packet in seconds; `None` if the packet was lost.
fn delay(record: &DataRecord) -> Option<f64> {
    Some(between(record.sent, record.received?))
}

/// Returns the sum of the errors of both clocks, in seconds.
fn errors(record: &DataRecord) -> f64 {
    error(record.send_error) + error(record.receive_error)
}

fn synchronised(record: &DataRecord) -> bool {
    record.send_error.synchronised() && record.receive_error.synchronised()
}
