//! Progress line on the terminal while a test runs. Nothing is printed to a pipe.

use super::behind::SenderLag;
use jitlat_core::distribution::Precision;
use jitlat_core::metrics::clock::ClockEstimate;
use jitlat_core::so_far::{ReceivedSoFar, SoFar};
use jitlat_core::twoway::round_trip;
use jitlat_core::units::eng4;
use jitlat_core::{Direction, Session, Transport};
use jitlat_instruments::{Event, Observer, StreamProgress};
use jitlat_report::text;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use tracing::warn;

/// A line that is overwritten repeatedly.
pub struct ProgressLine {
    on: bool,
    shown: bool,
    /// `Some` if lines are printed below each other, at most one per second; contains the time of the last one.
    below: Option<Option<Instant>>,
}

impl ProgressLine {
    /// Creates a line that is only active on a terminal that can overwrite it.
    pub fn new() -> ProgressLine {
        ProgressLine { on: io::stderr().is_terminal() && !super::is_dumb(), shown: false, below: None }
    }

    /// Creates a line that is never printed.
    pub fn off() -> ProgressLine {
        ProgressLine { on: false, shown: false, below: None }
    }

    /// Creates a line for terminals that cannot overwrite lines. Updates are printed below each other.
    pub fn below() -> ProgressLine {
        ProgressLine { on: true, shown: false, below: Some(None) }
    }

    /// Replaces the displayed text by `text`, truncated to the width of the terminal.
    pub fn show(&mut self, text: &str) {
        if let Some(last) = &mut self.below {
            if last.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
                *last = Some(Instant::now());
                let _ = writeln!(io::stderr(), "  {text}");
            }
        } else if self.on {
            self.shown = true;
            let _ =
                write!(io::stderr(), "\r\x1b[K\x1b[?7l  {text}\x1b[?7h").and_then(|()| io::stderr().flush());
        }
    }

    /// Clears the progress line, so that other text can be printed.
    pub fn clear_terminal(&mut self) {
        self.shown = self.on && self.below.is_none();
        self.clear();
    }

    /// Removes the line from the terminal.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K").and_then(|()| io::stderr().flush());
        }
    }
}

impl Default for ProgressLine {
    fn default() -> ProgressLine {
        ProgressLine::new()
    }
}

/// An observer that shows the progress of a test.
pub struct ProgressObserver {
    line: ProgressLine,
    streams: Vec<ProgressStream>,
    /// Server whose name is printed on standard output; `None` if nothing is printed there.
    server: Option<String>,
}

/// Displayed state of one stream.
struct ProgressStream {
    so_far: SoFar,
    /// Last report from the far host, and the time of its arrival; `None` if there is none.
    far: Option<(ReceivedSoFar, Instant)>,
    /// Start of the stream.
    begun: Instant,
    /// Time of the last arrival at this host.
    arrived: Instant,
    /// True if this host receives the stream.
    is_received: bool,
    /// True if the stream consists of round trips.
    two_way: bool,
    /// True if the far host cannot report what it receives.
    classic: bool,
    /// Clock offset, in ns, that is subtracted from one-way delays.
    shift: i64,
    /// Time between packets, in seconds; `None` if unknown.
    period: Option<f64>,
    /// Lag of this host as the sender; `None` if it does not send, or if its connection may block it.
    behind: Option<SenderLag>,
}

impl ProgressObserver {
    /// Creates an observer that is only active on a terminal.
    pub fn new() -> ProgressObserver {
        ProgressObserver { line: ProgressLine::new(), streams: Vec::new(), server: None }
    }

    /// Uses `line` as the progress line.
    #[must_use]
    pub fn by(self, line: ProgressLine) -> ProgressObserver {
        ProgressObserver { line, ..self }
    }

    /// Creates an observer that also prints the classic lines, which announce the connection to `server` and the
    /// stream, to standard output.
    pub fn with_server(server: &str) -> ProgressObserver {
        ProgressObserver { server: Some(server.to_owned()), ..ProgressObserver::new() }
    }

    /// True if the progress is visible.
    pub fn is_shown(&self) -> bool {
        self.line.on
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
            self.streams.push(ProgressStream::new(session, Instant::now()));
        }
    }
}

impl Default for ProgressObserver {
    fn default() -> ProgressObserver {
        ProgressObserver::new()
    }
}

/// Prints a line. If the pipe is closed, this is noticed later, when the report is printed.
fn print(line: &str) {
    let _ = super::print(line);
}

impl Observer for ProgressObserver {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Connecting(address) => self.line.show(&format!("connecting to {address}")),
            Event::Unanswered(address) => {
                self.line.clear();
                warn!("connecting to {address}: no answer yet");
            }
            Event::Connected(_) => {
                self.line.clear();
                if let Some(server) = &self.server {
                    print(&(text::connecting(server) + "Connected.\n"));
                }
            }
            Event::Probing { done, of } => self.line.show(&format!("measuring the clocks: {done} of {of}")),
            Event::Started(sessions) => self.started(sessions),
            Event::Progress(progress) => {
                let now = Instant::now();
                for (stream, p) in self.streams.iter_mut().zip(progress) {
                    if let Some(text) = stream.falls_behind(p, now) {
                        self.line.clear();
                        warn!("{text}");
                    }
                }
                if self.line.on {
                    let line = describe(&self.streams, progress, now);
                    self.line.show(&line);
                }
            }
            Event::Arrived { stream, records } if self.line.on => {
                let Some(stream) = self.streams.get_mut(stream) else { return };
                let delay = |r| if stream.two_way { round_trip(r) } else { r.delay() };
                stream.arrived = Instant::now();
                for record in records {
                    stream.so_far.push(record, delay(record));
                }
            }
            Event::FarReceived { stream, so_far } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.far = Some((*so_far, Instant::now()));
                }
            }
            Event::Collecting { done, of, .. } => {
                self.line.show(&format!("collecting results: {done} of {of}"));
            }
            _ => {}
        }
    }
}

/// Minimum time without arrivals that is displayed as silence.
const SILENCE_TIME: Duration = Duration::from_secs(2);
/// Minimum number of periods without arrivals that is displayed as silence: packets of a slow stream arrive less often
/// than [`SILENCE_TIME`].
const SILENCE_PERIODS: f64 = 4.0;

/// Describes each stream, and the remaining time.
fn describe(streams: &[ProgressStream], progress: &[StreamProgress], now: Instant) -> String {
    let left = streams.iter().zip(progress).filter_map(|(stream, p)| stream.left(p)).reduce(f64::max);
    let left = left.map_or_else(String::new, |left| format!("{} left", rough(left)));
    let both = streams.len() > 1;
    let mut parts: Vec<String> =
        streams.iter().zip(progress).map(|(s, p)| s.describe(p, both, now)).collect();
    match (both, left.is_empty()) {
        (_, true) => parts.join(" | "),
        (true, false) => {
            parts.push(left);
            parts.join(" | ")
        }
        (false, false) => format!("{}, {left}", parts.join("")),
    }
}

impl ProgressStream {
    fn new(session: &Session, now: Instant) -> ProgressStream {
        let two_way = session.two_way.is_some();
        let shift = ClockEstimate::new(session, None).correction_ns.filter(|_| !two_way);
        let sends = !two_way
            && session.spec.direction() == Direction::Up
            && session.spec.transport() == Transport::Udp;
        ProgressStream {
            so_far: SoFar::new(Precision::STREAM),
            far: None,
            begun: now,
            arrived: now,
            is_received: two_way || session.spec.direction() == Direction::Down,
            two_way,
            classic: session.classic,
            shift: shift.unwrap_or(0),
            period: session.period_known.then(|| session.spec.period().as_seconds()),
            behind: sends.then(SenderLag::default),
        }
    }

    /// Returns a message if this host sends and is falling behind the schedule, otherwise `None`.
    fn falls_behind(&mut self, p: &StreamProgress, now: Instant) -> Option<String> {
        let period = self.period.filter(|_| p.sent < p.packets)?;
        self.behind.as_mut()?.look(now, p.sent, period)
    }

    /// Returns the remaining time, in seconds; `None` if the period is unknown, as in a stop-and-wait test, whose
    /// duration depends on the path.
    fn left(&self, p: &StreamProgress) -> Option<f64> {
        Some(f64::from(p.packets.saturating_sub(p.sent.max(p.received))) * self.period?)
    }

    /// Describes packets, delay, jitter and losses so far. The text is shortened if there is `another` stream.
    fn describe(&self, p: &StreamProgress, another: bool, now: Instant) -> String {
        let count = match (self.two_way, self.is_received) {
            (true, _) => format!("{} of {} sent, {} answered", p.sent, p.packets, p.received),
            (false, true) => format!("{} of {} received", p.received, p.packets),
            (false, false) => format!("{} of {} sent", p.sent, p.packets),
        };
        let quality = self.quality(p, another, now).unwrap_or_default();
        match (another, self.is_received) {
            (false, _) if quality.is_empty() => count,
            (false, _) => format!("{count}, {quality}"),
            (true, _) if quality.is_empty() => count,
            (true, true) => format!("down: {quality}"),
            (true, false) => format!("up: {quality}"),
        }
    }

    /// Describes losses, delay and jitter; `None` while nothing is known.
    fn quality(&self, p: &StreamProgress, short: bool, now: Instant) -> Option<String> {
        if let Some(silence) = self.silence(p, now) {
            return Some(format!("nothing received for {:.1} s", silence.as_secs_f64()));
        }
        let figures = match (&self.far, self.is_received) {
            (_, true) => self.so_far.figures(),
            (Some((far, _)), false) => *far,
            (None, false) if self.classic => {
                return Some("the classic protocol reports received packets at the end".to_owned())
                    .filter(|_| !short);
            }
            (None, false) => return None,
        };
        let (fastest, median, p99) = (figures.fastest()?, figures.median()?, figures.p99()?);
        let delay = eng4(median.saturating_sub(self.shift));
        let jitter = eng4(p99.saturating_sub(fastest));
        if short {
            return Some(format!("{} lost, {delay}, jitter {jitter}", figures.missing));
        }
        let runs = match figures.runs {
            0 | 1 => String::new(),
            n => format!(" in {n} bursts (longest {})", figures.longest),
        };
        Some(format!("{} missing{runs}, delay {delay}, jitter 99% {jitter}", figures.missing))
    }

    /// Returns the time since the last arrival if it is unusually long and something was sent; otherwise `None`.
    fn silence(&self, p: &StreamProgress, now: Instant) -> Option<Duration> {
        let since = |at: Instant| now.saturating_duration_since(at);
        let silence = match (&self.far, self.is_received) {
            (_, true) => since(self.arrived),
            (Some((far, said)), false) => match far.silence {
                Some(silence) => Duration::from_nanos(silence.0.max(0).unsigned_abs()) + since(*said),
                None => since(self.begun),
            },
            (None, false) => return None,
        };
        let sent_all =
            !self.is_received && p.sent >= p.packets || self.is_received && p.received >= p.packets;
        let usual =
            Duration::try_from_secs_f64(self.period.unwrap_or(0.0) * SILENCE_PERIODS).unwrap_or(SILENCE_TIME);
        (silence >= SILENCE_TIME.max(usual) && !sent_all).then_some(silence)
    }
}

/// Formats a remaining time, in the unit that gives a small number.
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
    use jitlat_core::{PacketRecord, Schedule, Span, TestSpec, WallTime};

    fn stream(direction: Direction, period: i64) -> ProgressStream {
        let spec =
            TestSpec::new(direction, Transport::Udp, 100, 80, Span(period), Schedule::Periodic).unwrap();
        ProgressStream::new(&Session::new(spec), Instant::now())
    }

    fn progress(sent: u32, received: u32) -> StreamProgress {
        StreamProgress { packets: 100, sent, received, missing: 1 }
    }

    fn received(k: i64) -> PacketRecord {
        PacketRecord::one_way(k, WallTime(0), WallTime(12_100_000 + k * 32_000))
    }

    #[test]
    fn a_line_says_how_far_a_stream_is_and_how_good() {
        let mut up = stream(Direction::Up, 500_000_000);
        let now = up.begun;
        let line = |stream: &ProgressStream, p, now| describe(std::slice::from_ref(stream), &[p], now);
        assert_eq!(line(&up, progress(50, 0), now), "50 of 100 sent, 25 s left");
        let mut so_far = SoFar::new(Precision::FLOW);
        for packet in (0..49).filter(|k| *k != 7).map(received) {
            so_far.push(&packet, packet.delay());
        }
        let at = |seconds| now + Duration::from_secs_f64(seconds);
        up.far = Some((ReceivedSoFar { silence: Some(Span::millis(100)), ..so_far.take() }, now));
        let usual = "50 of 100 sent, 1 missing, delay 12.87 ms, jitter 99% 1.536 ms, 25 s left";
        assert_eq!(line(&up, progress(50, 0), at(1.0)), usual);
        assert_eq!(
            line(&up, progress(50, 0), at(1.9)),
            "50 of 100 sent, nothing received for 2.0 s, 25 s left"
        );
        assert_eq!(line(&up, progress(100, 0), at(9.0)).find("nothing"), None, "it is over");
        up.far = Some((ReceivedSoFar::default(), now));
        let none = line(&up, progress(50, 0), at(3.2));
        assert!(none.contains("nothing received for 3.2 s"), "{none}");
        up.classic = true;
        up.far = None;
        let classic = line(&up, progress(50, 0), at(9.0));
        assert_eq!(
            classic,
            "50 of 100 sent, the classic protocol reports received packets at the end, 25 s left"
        );
        let long = |period| line(&stream(Direction::Up, period), progress(0, 0), now);
        assert_eq!(long(864_000_000_000), "0 of 100 sent, 24 h left");
        assert_eq!(long(6_000_000_000), "0 of 100 sent, 10 min left");
    }

    #[test]
    fn both_directions_fit_a_line() {
        let mut streams = [stream(Direction::Up, 500_000_000), stream(Direction::Down, 500_000_000)];
        let now = streams[0].begun;
        assert_eq!(
            describe(&streams, &[progress(50, 0), progress(0, 49)], now),
            "50 of 100 sent | 49 of 100 received | 26 s left"
        );
        let mut so_far = SoFar::new(Precision::FLOW);
        for k in 0..49 {
            so_far.push(&received(k), received(k).delay());
            streams[1].so_far.push(&received(2 * k), received(2 * k).delay());
        }
        streams[0].far = Some((ReceivedSoFar { silence: Some(Span(1)), ..so_far.take() }, now));
        let line = describe(&streams, &[progress(50, 0), progress(0, 49)], now);
        assert_eq!(
            line,
            "up: 0 lost, 12.87 ms, jitter 1.536 ms | down: 48 lost, 13.64 ms, jitter 3.072 ms | 26 s left"
        );
    }

    #[test]
    fn round_trips_are_answered() {
        let mut two_way = stream(Direction::Up, 500_000_000);
        (two_way.two_way, two_way.is_received, two_way.period) = (true, true, None);
        let now = two_way.begun;
        assert_eq!(describe(&[two_way], &[progress(50, 48)], now), "50 of 100 sent, 48 answered");
    }
}
