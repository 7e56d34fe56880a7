//! One line on the terminal while a test runs; silence in a pipe.

use crate::cli::TestArgs;
use jitlat_core::observer::StreamProgress;
use std::io::{self, IsTerminal, Write};

/// A line that is written over again and again.
pub struct ProgressLine {
    on: bool,
    shown: bool,
}

impl ProgressLine {
    /// On a terminal, and only there.
    pub fn new() -> ProgressLine {
        ProgressLine { on: io::stderr().is_terminal(), shown: false }
    }

    /// Shows `text` in place of what was there, cut off at the edge of the terminal.
    pub fn show(&mut self, text: &str) {
        if self.on {
            self.shown = true;
            let _ =
                write!(io::stderr(), "\r\x1b[K\x1b[?7l  {text}\x1b[?7h").and_then(|()| io::stderr().flush());
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K").and_then(|()| io::stderr().flush());
        }
    }

    /// Packets, what `told` says of losses and jitter so far, time left.
    pub fn running(&mut self, streams: &[StreamProgress], told: &[Option<String>], args: &TestArgs) {
        if !self.on {
            return;
        }
        let period = args.stream.specs(0).ok().and_then(|s| s.first().map(|s| s.period().as_seconds()));
        let period = period.unwrap_or(0.0);
        let parts: Vec<String> =
            streams.iter().zip(told).map(|(p, told)| part(p, told.as_deref(), period)).collect();
        self.show(&parts.join(" | "));
    }
}

fn part(p: &StreamProgress, told: Option<&str>, period: f64) -> String {
    let done = p.sent.max(p.received);
    let left = f64::from(p.packets.saturating_sub(done)) * period;
    if p.received > 0 || p.sent == 0 {
        let told = told.map_or_else(|| format!("{} missing", p.missing), str::to_owned);
        format!("{} of {} received, {told}, {left:.0} s left", p.received, p.packets)
    } else {
        format!("{} of {} sent, {left:.0} s left", p.sent, p.packets)
    }
}
