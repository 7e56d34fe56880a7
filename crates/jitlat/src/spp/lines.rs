//! The lines of the CAIA tool: `[count] timestamp rtt [spt] [owd-out owd-in]`, seconds with six decimals.

use super::SppArgs;
use crate::present;
use jitlat_core::passive::{Estimate, Pair};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Writes pairs to standard output.
pub struct Lines {
    /// `None` when they are not wanted, or nobody reads them any longer.
    out: Option<BufWriter<Stdout>>,
    columns: Columns,
    line: Vec<u8>,
    number: u64,
    /// Why lines are missing at the end.
    failure: Option<io::Error>,
}

#[derive(Clone, Copy, Default)]
struct Columns {
    count: bool,
    turnaround: bool,
    one_way: bool,
    sizes: bool,
    rate: bool,
    monitor_clock: bool,
    begin: bool,
    no_negative: bool,
}

impl Lines {
    pub fn new(args: &SppArgs) -> Lines {
        let wanted = !args.summary && !present::is_silent(&args.report);
        Lines {
            out: wanted.then(|| BufWriter::with_capacity(1 << 16, io::stdout())),
            columns: Columns {
                count: args.count,
                turnaround: args.turnaround,
                one_way: args.one_way,
                sizes: args.sizes,
                rate: args.rate,
                monitor_clock: args.monitor_clock,
                begin: args.begin,
                no_negative: args.compat,
            },
            line: Vec::with_capacity(128),
            number: 0,
            failure: None,
        }
    }

    /// Discards every line.
    pub fn none() -> Lines {
        Lines { out: None, columns: Columns::default(), line: Vec::new(), number: 0, failure: None }
    }

    /// Writes some pairs. What cannot be written ends the lines, and nothing else.
    pub fn print(&mut self, pairs: impl Iterator<Item = Estimate>) {
        for e in pairs {
            self.number += 1;
            let Some(out) = &mut self.out else { continue };
            self.line.clear();
            self.columns.format(&mut self.line, self.number, &e);
            let written = out.write_all(&self.line);
            self.end_if_failed(written);
        }
    }

    /// Pairs so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Lets what was printed be seen.
    pub fn flush(&mut self) {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        self.end_if_failed(flushed);
    }

    /// A reader that goes away (`| head`) is no failure.
    fn end_if_failed(&mut self, result: io::Result<()>) {
        if let Err(e) = result {
            self.out = None;
            self.failure = Some(e).filter(|e| e.kind() != ErrorKind::BrokenPipe);
        }
    }

    /// Ends the lines; why some of them are missing.
    pub fn finish(mut self) -> Option<anyhow::Error> {
        self.flush();
        self.failure.map(|e| anyhow::Error::new(e).context("cannot write to standard output"))
    }
}

impl Columns {
    fn format(&self, line: &mut Vec<u8>, number: u64, e: &Estimate) {
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

    fn timestamp(&self, p: &Pair) -> i64 {
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

/// Nanoseconds as seconds with six decimals, rounded half up.
fn seconds(line: &mut Vec<u8>, ns: i64) {
    let us = ns.saturating_add(500).div_euclid(1000);
    if us < 0 {
        line.push(b'-');
    }
    let us = us.unsigned_abs();
    let mut digits = [b'0'; 20];
    let (mut rest, mut at) = (us, digits.len());
    while rest > 0 || at > digits.len() - 7 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    line.extend_from_slice(&digits[at..14]);
    line.push(b'.');
    line.extend_from_slice(&digits[14..]);
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
