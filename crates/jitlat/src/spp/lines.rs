//! [`PairPrinter`]: prints a line for each pair as soon as it is known.

use jitlat_passive::{CaptureEvent, CaptureObserver};
use jitlat_store::passive::{PairColumns, PairLines};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Prints pairs to standard output.
pub struct PairPrinter {
    /// `None` if lines are not requested, or if standard output is closed.
    out: Option<BufWriter<Stdout>>,
    lines: PairLines,
    /// Whether to flush each line.
    live: bool,
    /// Why lines are missing at the end; `None`: none are.
    failure: Option<io::Error>,
}

impl PairPrinter {
    /// Prints lines with these columns, if they are `wanted`; with `live`, each at once.
    pub fn new(columns: PairColumns, wanted: bool, live: bool) -> PairPrinter {
        PairPrinter {
            out: wanted.then(|| BufWriter::with_capacity(1 << 16, io::stdout())),
            lines: PairLines::new(columns),
            live,
            failure: None,
        }
    }

    /// A closed pipe (`| head`) is not an error.
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

    /// Ends the lines; returns why some are missing.
    pub fn finish(mut self) -> Option<anyhow::Error> {
        self.flush();
        self.failure.map(|e| anyhow::Error::new(e).context("cannot write to standard output"))
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
