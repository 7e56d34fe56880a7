//! [`RunningWindows`]: writes each window of `--interval` as soon as it has ended, while the test is still running.
//!
//! Windows are only available during the test if packets are sent periodically and arrive at this host: round trips,
//! and streams from a server. Packets that arrive at the server are known at the end. The file is then replaced by one
//! with all windows and the final data, including late packets and the sender's own stamps.

use crate::STDOUT;
use crate::terminal::{self, progress::ProgressLine};
use jitlat_core::analysis::{Analyzer, Options};
use jitlat_core::observer::{Event, Observer};
use jitlat_core::session::Ending;
use jitlat_core::summary::Interval;
use jitlat_core::{PacketRecord, Schedule, Session, TestSpec};
use jitlat_report::text;
use jitlat_store::json;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::warn;

/// Time after the end of a window during which its packets are still accepted.
const WINDOW_GRACE: Duration = Duration::from_millis(500);

/// An observer that writes the windows of each stream as they end.
pub struct RunningWindows {
    /// Length of a window, in ns; 0 without windows.
    length: i64,
    options: Options,
    file: Option<Box<dyn Write>>,
    /// True if windows are printed.
    printed: bool,
    line: ProgressLine,
    streams: Vec<RunningStream>,
}

/// State of a running stream.
struct RunningStream {
    session: Session,
    /// Due time of the stream's first packet, on this host's clock.
    begun: Instant,
    is_known: bool,
    /// Index of the next window.
    next: i64,
    /// Packets of windows that have not ended yet.
    held: Vec<PacketRecord>,
    /// Index of the first window for which this host has all packets. Earlier windows are written at the end.
    unknown_until: i64,
    /// Start times of the windows that were written, in ns.
    written: Vec<i64>,
}

impl RunningWindows {
    /// Creates the windows of an analysis with `options`, for the file at `path` if there is one; they are also printed
    /// if `printed` is true.
    pub fn new(options: Options, path: Option<&Path>, printed: bool) -> RunningWindows {
        let length = options.interval.map_or(0, |length| length.0);
        let file = path.filter(|_| length > 0).and_then(|path| match open(path) {
            Ok(file) => Some(file),
            Err(e) => {
                warn!("--as intervals: {} is only written at the end of the test: {e}", path.display());
                None
            }
        });
        RunningWindows {
            length,
            options: Options { bootstrap: None, comparable: false, wait: None, ..options },
            file,
            printed,
            line: ProgressLine::new(),
            streams: Vec::new(),
        }
    }

    /// Stops printing windows while the test runs.
    pub fn keep_quiet(&mut self) {
        self.printed = false;
    }

    /// Returns, for each stream, the start times of the windows that were written, in ns.
    pub fn written(self) -> Vec<Vec<i64>> {
        self.streams.into_iter().map(|stream| stream.written).collect()
    }

    fn write_ended(&mut self) {
        for k in 0..self.streams.len() {
            while let Some((window, session)) = self.streams[k].ended(self.length, &self.options) {
                self.write(k, &window, &session);
            }
        }
    }

    fn write(&mut self, k: usize, window: &Interval, session: &Session) {
        if let Some(file) = &mut self.file {
            let direction = session.spec.direction();
            let written = json::write_interval(file, window, direction).and_then(|()| file.flush());
            if let Err(e) = written {
                warn!("--as intervals: the other windows are written at the end of the test: {e}");
                self.file = None;
            }
        }
        let first = self.streams[k].written.is_empty();
        self.streams[k].written.push(window.start_ns);
        if self.printed {
            let name = match self.streams.len() {
                1 => "",
                _ => text::direction(session.spec.direction()),
            };
            let head = if first { text::window_head(name, window.length_ns) } else { String::new() };
            self.line.clear_terminal();
            // If the pipe is closed, this is noticed when the report is printed.
            let _ = terminal::print(&(head + &text::window_line(window)));
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    Ok(match path.as_os_str() == STDOUT {
        true => Box::new(io::stdout()),
        false => Box::new(File::create(path)?),
    })
}

/// True if text written to `path` cannot be replaced: standard output, a pipe, a device.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == STDOUT || path.metadata().is_ok_and(|m| !m.is_file())
}

impl RunningStream {
    fn new(session: &Session) -> RunningStream {
        RunningStream {
            session: session.clone(),
            begun: Instant::now(),
            is_known: false,
            next: 0,
            held: Vec::new(),
            unknown_until: 0,
            written: Vec::new(),
        }
    }

    fn period(&self) -> Option<i64> {
        let spec = &self.session.spec;
        let periodic = self.session.period_known && spec.schedule() == Schedule::Periodic;
        Some(spec.period().0).filter(|period| periodic && *period > 0)
    }

    fn arrived(&mut self, records: &[PacketRecord]) {
        let Some(period) = self.period() else { return };
        if let Some(first) = records.first().filter(|_| !self.is_known) {
            self.is_known = true;
            let due = Duration::from_nanos(first.seq.max(0).saturating_mul(period) as u64);
            self.begun = Instant::now().checked_sub(due).unwrap_or(self.begun);
        }
        self.held.extend_from_slice(records);
    }

    /// Marks the windows up to now as incomplete.
    fn missed(&mut self, length: i64) {
        self.unknown_until = self.begun.elapsed().as_nanos() as i64 / length + 1;
    }

    /// Returns the sequence number of the first packet that is due in window `k`.
    fn first_of(&self, k: i64, length: i64, period: i64) -> i64 {
        let at = i128::from(k) * i128::from(length);
        let packets = self.session.packets().min(i64::MAX as u64) as i64;
        i64::try_from((at + i128::from(period) - 1) / i128::from(period)).unwrap_or(i64::MAX).min(packets)
    }

    /// Returns the next window that has ended, with a session that covers only this window; `None` if no further window
    /// has ended.
    fn ended(&mut self, length: i64, options: &Options) -> Option<(Interval, Session)> {
        let period = self.period().filter(|_| self.is_known && length > 0)?;
        loop {
            let k = self.next;
            let end = Duration::from_nanos(k.saturating_add(1).saturating_mul(length) as u64);
            let (from, to) = (self.first_of(k, length, period), self.first_of(k + 1, length, period));
            // The last window may still be cut short, so it is written at the end.
            if self.begun.elapsed() < end + WINDOW_GRACE || to as u64 >= self.session.packets() {
                return None;
            }
            self.next += 1;
            let (own, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
                .into_iter()
                .filter(|r| r.seq >= from)
                .partition(|r| r.seq < to);
            self.held = later;
            if from < to && k >= self.unknown_until {
                return self.window(from, to, own, options).map(|(window, session)| {
                    (Interval { start_ns: k * length, first_seq: from as u64, ..window }, session)
                });
            }
        }
    }

    /// Analyses the packets `from..to` of a window like a separate test.
    fn window(
        &self,
        from: i64,
        to: i64,
        mut records: Vec<PacketRecord>,
        options: &Options,
    ) -> Option<(Interval, Session)> {
        let (spec, packets) = (&self.session.spec, (to - from) as u64);
        let (direction, transport, payload) = (spec.direction(), spec.transport(), spec.payload().into());
        let own =
            TestSpec::new(direction, transport, packets, payload, spec.period(), Schedule::Periodic).ok()?;
        let session = Session {
            spec: own,
            declared: Some(packets),
            sent: u32::try_from(packets).ok(),
            ending: Ending::Complete,
            ..self.session.clone()
        };
        let mut analyzer = Analyzer::new(&session, options);
        records.iter_mut().for_each(|record| record.seq -= from);
        analyzer.push_all(&records);
        let summary = analyzer.finish(&session);
        Some((summary.intervals.into_iter().next()?, session))
    }
}

impl Observer for RunningWindows {
    fn event(&mut self, event: &Event<'_>) {
        if self.length <= 0 {
            return;
        }
        match *event {
            Event::Started(sessions) => self.streams = sessions.iter().map(RunningStream::new).collect(),
            Event::Arrived { stream, records } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.arrived(records);
                }
                self.write_ended();
            }
            Event::Missed { stream, .. } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.missed(self.length);
                }
            }
            Event::Progress(_) => self.write_ended(),
            _ => {}
        }
    }
}
