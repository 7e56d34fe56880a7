//! One line on the terminal while a test runs; nothing in a pipe.

use super::so_far::SoFar;
use jitlat_core::Session;
use jitlat_core::twoway::round_trip;
use jitlat_instruments::{Event, Observer, StreamProgress};
use jitlat_report::text;
use std::io::{self, IsTerminal, Write};
use tracing::warn;

/// A line that is overwritten repeatedly.
pub struct ProgressLine {
    on: bool,
    shown: bool,
}

impl ProgressLine {
    /// Active only on a terminal that can overwrite a line.
    pub fn new() -> ProgressLine {
        ProgressLine { on: io::stderr().is_terminal() && !super::is_dumb(), shown: false }
    }

    /// Shows `text` in place of the previous one, truncated to the width of the terminal.
    pub fn show(&mut self, text: &str) {
        if self.on {
            self.shown = true;
            let _ =
                write!(io::stderr(), "\r\x1b[K\x1b[?7l  {text}\x1b[?7h").and_then(|()| io::stderr().flush());
        }
    }

    /// Makes room for a line of text, whichever line is shown.
    pub fn clear_terminal(&mut self) {
        self.shown = self.on;
        self.clear();
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K").and_then(|()| io::stderr().flush());
        }
    }
}

/// An observer that shows the progress of a test.
pub struct Progress {
    line: ProgressLine,
    streams: Vec<Stream>,
    /// The server to name on standard output; `None`: nothing is printed there.
    server: Option<String>,
}

/// The state shown of one stream.
struct Stream {
    so_far: SoFar,
    /// Seconds between packets; `None` if unknown.
    period: Option<f64>,
    two_way: bool,
}

impl Progress {
    /// Active only on a terminal.
    pub fn new() -> Progress {
        Progress { line: ProgressLine::new(), streams: Vec::new(), server: None }
    }

    /// Also prints the classic lines to standard output: connecting to `server`, and what is sent.
    pub fn with_server(server: &str) -> Progress {
        Progress { server: Some(server.to_owned()), ..Progress::new() }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        self.line.clear();
    }

    fn started(&mut self, sessions: &[Session]) {
        self.line.clear();
        for session in sessions {
            if self.server.is_some() {
                print(&(text::sending(session) + "\n"));
            }
            self.streams.push(Stream {
                so_far: SoFar::new(),
                period: session.period_known.then(|| session.spec.period().as_seconds()),
                two_way: session.two_way.is_some(),
            });
        }
    }
}

/// Prints a line; a closed pipe is noticed later, when the report is printed.
fn print(line: &str) {
    let _ = super::print(line);
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Connecting(address) => self.line.show(&format!("connecting to {address}")),
            Event::Unanswered(address) => {
                self.line.clear();
                warn!("{address} does not answer yet; it is tried for some seconds more");
            }
            Event::Connected(_) => {
                self.line.clear();
                if let Some(server) = &self.server {
                    print(&(text::connecting(server) + "Connected.\n"));
                }
            }
            Event::Probing { done, of } => self.line.show(&format!("measuring the clocks: {done} of {of}")),
            Event::Started(sessions) => self.started(sessions),
            Event::Progress(progress) if self.line.on => {
                let parts: Vec<String> =
                    self.streams.iter().zip(progress).map(|(stream, p)| stream.describe(p)).collect();
                self.line.show(&parts.join(" | "));
            }
            Event::Arrived { stream, records } if self.line.on => {
                let Some(stream) = self.streams.get_mut(stream) else { return };
                let delay = |r| if stream.two_way { round_trip(r) } else { r.delay() };
                records.iter().for_each(|r| stream.so_far.push(r, delay(r)));
            }
            Event::Collecting { done, of, .. } => {
                self.line.show(&format!("collecting results: {done} of {of}"));
            }
            _ => {}
        }
    }
}

impl Stream {
    /// Packets, losses and jitter so far, time left.
    fn describe(&self, p: &StreamProgress) -> String {
        let left = f64::from(p.packets.saturating_sub(p.sent.max(p.received)));
        // The duration of a stop-and-wait test depends on the path.
        let left = self.period.map_or_else(String::new, |period| format!(", {} left", rough(left * period)));
        let quality = self.so_far.describe();
        if self.two_way {
            let quality = quality.map_or_else(String::new, |q| format!(", {q}"));
            return format!("{} of {} sent, {} answered{quality}{left}", p.sent, p.packets, p.received);
        }
        if p.received == 0 {
            return format!("{} of {} sent{left}", p.sent, p.packets);
        }
        let quality = quality.unwrap_or_else(|| format!("{} missing", p.missing));
        format!("{} of {} received, {quality}{left}", p.received, p.packets)
    }
}

/// A time left, in the unit in which it is a small number.
fn rough(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_a_stream_is() {
        let stream = |two_way, period| Stream { so_far: SoFar::new(), period, two_way };
        let p = |sent, received| StreamProgress { packets: 100, sent, received, missing: 1 };
        let one_way = stream(false, Some(0.5));
        assert_eq!(one_way.describe(&p(50, 0)), "50 of 100 sent, 25 s left");
        assert_eq!(one_way.describe(&p(0, 50)), "50 of 100 received, 1 missing, 25 s left");
        let long = |period| stream(false, Some(period)).describe(&p(0, 0));
        assert_eq!(long(864.0), "0 of 100 sent, 24 h left");
        assert_eq!(long(6.0), "0 of 100 sent, 10 min left");
        assert_eq!(stream(true, None).describe(&p(50, 48)), "50 of 100 sent, 48 answered");
    }
}
