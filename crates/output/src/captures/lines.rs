//! [`PairPrinter`], [`EventPrinter`]: print one line per pair or event on standard output, as soon as the pair or event
//! is known.

use crate::error::{Context, Error, Result};
use jitlat_instruments::Stop;
use jitlat_passive::{CaptureEvent, CaptureObserver};
use jitlat_store::passive::{PairColumns, PairLines, write_tcp_event};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Prints pairs of packets to standard output.
pub struct PairPrinter {
    /// Standard output; `None` if lines are not requested, or if it was closed.
    out: Option<BufWriter<Stdout>>,
    lines: PairLines,
    /// True if standard output is flushed after each line.
    live: bool,
    /// Error that ended the output; `None` if no lines are missing.
    failure: Option<io::Error>,
}

impl PairPrinter {
    /// Creates a printer of lines with these columns. It prints nothing unless `wanted` is true. If `live` is true, it
    /// flushes standard output after each line.
    pub fn new(columns: PairColumns, wanted: bool, live: bool) -> PairPrinter {
        PairPrinter {
            out: wanted.then(|| BufWriter::with_capacity(1 << 16, io::stdout())),
            lines: PairLines::new(columns),
            live,
            failure: None,
        }
    }

    /// Stops printing after an error. A closed pipe (`| head`) is not an error.
    fn end_if_failed(&mut self, result: io::Result<()>) {
        if let Err(e) = result {
            self.out = None;
            self.failure = Some(e).filter(|e| e.kind() != ErrorKind::BrokenPipe);
        }
    }

    fn flush(&mut self) {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        self.end_if_failed(flushed);
    }

    /// Stops printing. Returns the reason if lines are missing.
    pub fn finish(mut self) -> Option<Error> {
        self.flush();
        self.failure.and_then(|e| Err::<(), _>(e).context("cannot write to standard output").err())
    }
}

impl CaptureObserver for PairPrinter {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        let CaptureEvent::Pairs(pairs) = event else { return };
        if let Some(out) = &mut self.out {
            let written = pairs.iter().try_for_each(|pair| self.lines.write(out, pair));
            self.end_if_failed(written);
        }
        if self.live {
            self.flush();
        }
    }
}

/// Prints a line for each event of TCP connections.
pub struct EventPrinter {
    out: BufWriter<Stdout>,
    failure: Option<io::Error>,
    /// Stop that is requested when standard output is closed.
    stop: Stop,
    /// True if each line is printed immediately.
    live: bool,
}

impl EventPrinter {
    /// Creates a printer of events that requests `stop` when standard output is closed. If `live` is true, each line is
    /// printed immediately.
    pub fn new(stop: Stop, live: bool) -> EventPrinter {
        EventPrinter { out: BufWriter::with_capacity(1 << 16, io::stdout()), failure: None, stop, live }
    }

    /// Stops printing. A closed pipe (`| head`) is not an error.
    ///
    /// # Errors
    /// [`Error`] if lines are missing.
    pub fn finish(mut self) -> Result<()> {
        match self.failure.map_or_else(|| self.out.flush(), Err) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("cannot write to standard output"),
            _ => Ok(()),
        }
    }
}

impl CaptureObserver for EventPrinter {
    fn capture_event(&mut self, event: &CaptureEvent<'_>) {
        let (CaptureEvent::Tcp(events), None) = (event, &self.failure) else { return };
        let mut written = events.iter().try_for_each(|e| write_tcp_event(&mut self.out, e));
        if self.live {
            written = written.and_then(|()| self.out.flush());
        }
        if let Err(e) = written {
            self.failure = Some(e);
            self.stop.request();
        }
    }
}
