//! Lines about captured traffic: one per pair, or one per event.

use jitlat_passive::tcp::{DirectedEvent, EventKind};
use jitlat_passive::{RatedPair, SyntheticPair};
use std::io::{self, Write};

/// Columns of a pair's line: `[count] timestamp rtt [spt] [owd-out owd-in] [sizes] [rate]`. Times are in seconds with
/// six decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairColumns {
    /// True to print the number of the pair, from 1.
    pub count: bool,
    /// True to print the time between the packets of the pair at the monitor point.
    pub turnaround: bool,
    /// True to print the raw one-way delays.
    pub one_way: bool,
    /// True to print the lengths of the two IP packets, in bytes.
    pub sizes: bool,
    /// True to print the moving average of the pair rate, in pairs per second.
    pub rate: bool,
    /// True to print times on the monitor's clock, false for the reference clock.
    pub monitor_clock: bool,
    /// True to print the time of the pair's first packet, false for its middle.
    pub begin: bool,
    /// True to print a negative round trip as 0, as the CAIA tool does.
    pub no_negative: bool,
}

/// Formats pairs as lines.
#[derive(Clone, Debug)]
pub struct PairLines {
    columns: PairColumns,
    line: Vec<u8>,
    number: u64,
}

impl PairLines {
    /// Creates a formatter with the columns `columns`.
    pub fn new(columns: PairColumns) -> PairLines {
        PairLines { columns, line: Vec::with_capacity(128), number: 0 }
    }

    /// Writes the line of the next pair.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&mut self, out: &mut impl Write, e: &RatedPair) -> io::Result<()> {
        self.number += 1;
        self.line.clear();
        self.columns.format(&mut self.line, self.number, e);
        out.write_all(&self.line)
    }
}

impl PairColumns {
    fn format(&self, line: &mut Vec<u8>, number: u64, e: &RatedPair) {
        let p = &e.pair;
        if self.count {
            // Writing to a vector cannot fail.
            let _ = write!(line, "{number:>6} ");
        }
        seconds(line, self.timestamp(p));
        let rtt = if self.no_negative { p.rtt().0.max(0) } else { p.rtt().0 };
        column(line, rtt);
        if self.turnaround {
            column(line, p.turnaround().0);
        }
        if self.one_way {
            column(line, p.delay_out().0);
            column(line, p.delay_in().0);
        }
        if self.sizes {
            let _ = write!(line, " {} {}", p.out.length, p.back.length);
        }
        if self.rate {
            let _ = write!(line, " {:.1}", e.rate);
        }
        line.push(b'\n');
    }

    fn timestamp(&self, p: &SyntheticPair) -> i64 {
        match (self.begin, self.monitor_clock) {
            (true, _) => p.out.reference.0,
            (_, true) => p.middle_at_monitor().0,
            _ => p.middle().0,
        }
    }
}

fn column(line: &mut Vec<u8>, ns: i64) {
    line.push(b' ');
    seconds(line, ns);
}

/// Appends nanoseconds as seconds with six decimals, rounded half up.
fn seconds(line: &mut Vec<u8>, ns: i64) {
    let us = ns.saturating_add(500).div_euclid(1000);
    if us < 0 {
        line.push(b'-');
    }
    let (whole, decimals) = (us.unsigned_abs() / 1_000_000, us.unsigned_abs() % 1_000_000);
    let mut digits = itoa::Buffer::new();
    line.extend_from_slice(digits.format(whole).as_bytes());
    line.push(b'.');
    // Zeros after another digit must not be omitted.
    line.extend_from_slice(&digits.format(1_000_000 + decimals as u32).as_bytes()[1..]);
}

/// Writes an event of a TCP connection as a line: time in seconds, sender, receiver, kind, bytes, and the delay of the data
/// or the window.
///
/// # Errors
/// Errors of `out`.
pub fn write_tcp_event(out: &mut impl Write, s: &DirectedEvent) -> io::Result<()> {
    let what = match s.event.kind {
        EventKind::Fast => "fast-retransmission",
        EventKind::Timeout => "timeout-retransmission",
        EventKind::Probe => "early-retransmission",
        EventKind::Spurious => "spurious-retransmission",
        EventKind::OutOfOrder => "out-of-order",
        EventKind::Duplicate => "duplicate",
        EventKind::ZeroWindow => "window-closed",
        EventKind::WindowOpens => "window-open",
        EventKind::WindowFull => "window-full",
    };
    let us = s.event.at.0.div_euclid(1000);
    write!(
        out,
        "{}.{:06} {} {} {what} {}",
        us.div_euclid(1_000_000),
        us.rem_euclid(1_000_000),
        s.from,
        s.to,
        s.event.bytes
    )?;
    match s.event.waited {
        Some(w) => writeln!(out, " {:.6}", w.as_seconds()),
        None => writeln!(out, " -"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_decimals() {
        let text = |ns| {
            let mut v = Vec::new();
            seconds(&mut v, ns);
            String::from_utf8(v).unwrap()
        };
        for (ns, expected) in [
            (0, "0.000000"),
            (499, "0.000000"),
            (500, "0.000001"),
            (48_927_000, "0.048927"),
            (-12_000, "-0.000012"),
            (1_795_178_768_454_145_000, "1795178768.454145"),
            (i64::MAX, "9223372036.854775"),
        ] {
            assert_eq!(text(ns), expected);
        }
    }
}
