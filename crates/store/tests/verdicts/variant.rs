//! [`Variant`]: a simulated test, and the verdict that a network engineer would give.

use jitlat_core::Span;
use jitlat_core::summary::ClockEstimate;
use jitlat_impair::{Trial, TrialOutcome};
use jitlat_store::log::{LogVersion, LogWriter};

/// A test to be simulated and saved, with its true faults.
pub struct Variant {
    pub trial: Trial,
    /// Version of the log.
    pub version: LogVersion,
    /// Damage to the log after it is written.
    pub damage: Damage,
    pub truth: Truth,
}

/// Damage to a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Damage {
    /// No damage.
    None,
    /// Truncated after this share of its rows: at the end of a line (`true`), or within a line.
    Cut(f64, bool),
    /// Closing lines replaced by these lines, after this share of its rows.
    Ends(f64, &'static str),
}

/// The correct verdict.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Names of causes, any of which may be reported first; empty if there is no fault.
    pub main: Vec<&'static str>,
    /// Other causes that are present, or that the records may suggest. Any further cause is wrong.
    pub also: Vec<&'static str>,
    /// Severities, any of which is right.
    pub severity: Vec<&'static str>,
    /// Times of the main cause, any of which is right: start and end since the first packet, and tolerance, in seconds.
    pub times: Vec<(f64, f64, f64)>,
    /// Magnitude of the main cause (ns or a ratio), and factor of tolerance.
    pub magnitude: Option<(f64, f64)>,
    /// True if reporting no cause is also right.
    pub or_nothing: bool,
    /// Sign of the magnitude, if it has one.
    pub sign: Option<f64>,
    /// A word that the evidence contains.
    pub says: Option<&'static str>,
    /// Clock skew, in parts per million.
    pub ppm: Option<f64>,
    /// Period of the main cause, in seconds.
    pub period_s: Option<f64>,
    /// False for truncated logs.
    pub complete: bool,
}

impl Truth {
    /// No fault.
    pub fn clean() -> Truth {
        Truth { severity: vec!["good"], complete: true, ..Truth::default() }
    }

    /// This fault.
    pub fn of(main: &'static str, severity: &[&'static str]) -> Truth {
        Truth { main: vec![main], severity: severity.to_vec(), complete: true, ..Truth::default() }
    }

    pub fn also(mut self, others: &[&'static str]) -> Truth {
        self.also.extend(others);
        self
    }

    pub fn between(mut self, from: f64, to: f64, tolerance: f64) -> Truth {
        self.times.push((from, to, tolerance));
        self
    }

    pub fn signed(mut self, value: f64) -> Truth {
        self.sign = Some(value.signum());
        self
    }

    pub fn magnitude(mut self, value: f64, factor: f64) -> Truth {
        self.magnitude = Some((value, factor));
        self
    }
}

impl Variant {
    /// Returns the name of the log's file. A log of version 1 or 2 has its final name only if it is whole.
    pub fn name(&self) -> &'static str {
        if matches!(self.damage, Damage::None) { "simulated" } else { "simulated.part" }
    }

    /// Returns the log of the test, as in a file.
    pub fn log(&self) -> Vec<u8> {
        let TrialOutcome { mut session, records, .. } = self.trial.run();
        if self.version == LogVersion::V2 {
            // Version 2 prints the clock estimate of the probes in the header.
            let clock = ClockEstimate::new(&session, None);
            session.classic_offset = clock.offset_median_ns.map(|ns| Span(ns as i64));
            session.classic_rtt = clock.min_rtt_ns.map(Span);
        }
        let two_way = session.two_way.is_some();
        let mut writer =
            if two_way { LogWriter::two_way(Vec::new()) } else { LogWriter::new(Vec::new(), self.version) };
        let mut early = session.clone();
        // Facts known only after the test follow the rows.
        if self.version == LogVersion::V3 {
            early.sent = None;
            early.ending = Default::default();
            early.probes.truncate(self.trial.probes as usize);
        }
        writer.begin(&early);
        for record in &records {
            writer.record(record);
        }
        writer.finish(&session);
        let (mut log, result) = writer.close();
        result.expect("memory does not run out");
        self.damage(&mut log, records.len());
        log
    }

    fn damage(&self, log: &mut Vec<u8>, rows: usize) {
        let (share, tail) = match self.damage {
            Damage::None => return,
            Damage::Cut(share, whole) => (share, if whole { "" } else { "cut" }),
            Damage::Ends(share, lines) => (share, lines),
        };
        let keep = (rows as f64 * share) as usize;
        let ends = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let is_row = |at: &usize| log.get(*at).is_some_and(|b| *b != b'#');
        let lines: Vec<usize> = starts.iter().copied().filter(is_row).collect();
        let Some(&end) = lines.get(keep) else { return };
        if tail == "cut" {
            let next = lines.get(keep + 1).copied().unwrap_or(log.len());
            log.truncate(end + (next - end) / 2);
        } else {
            log.truncate(end);
            log.extend_from_slice(tail.as_bytes());
        }
    }
}
