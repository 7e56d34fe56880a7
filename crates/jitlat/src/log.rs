//! The log on standard error: one line per event, filtered by level.
//!
//! In long-running commands (`jitlat serve`, live capture) and with `--log-level`, each line has a date, and the rate
//! of repeated lines is limited. Other commands print the message after the program's name.
//!
//! Logging neither fails nor blocks: a line that standard error does not accept (because it is closed or full)
//! is dropped, and the next line starts with the number of dropped lines.

use clap::ValueEnum;
use jitlat_core::printable::is_unprintable;
use jitlat_core::units::civil;
use jitlat_net::wake::stderr_is_ready;
use jitlat_output::terminal;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Time, level, message, and fields as `name=value`.
    #[default]
    Text,
    /// One JSON object per line: `time`, `level`, `message`, and fields by name.
    Json,
}

/// Level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

/// Starts logging at `level`; the default is info. With `runs_long`, lines have dates.
pub fn start(level: Option<LogLevel>, format: LogFormat, runs_long: bool) {
    start_with(
        level,
        match format {
            LogFormat::Json => LineFormat::Json(Mutex::default()),
            LogFormat::Text if runs_long || level.is_some() => LineFormat::Dated(Mutex::default()),
            LogFormat::Text => LineFormat::Plain("jitlat"),
        },
    );
}

/// Starts logging for the command line of another program, whose name begins each line.
pub fn start_as(program: &'static str) {
    start_with(None, LineFormat::Plain(program));
}

fn start_with(level: Option<LogLevel>, format: LineFormat) {
    let log = Log { level: level.unwrap_or(LogLevel::Info).into(), format };
    // This fails only in tests of this program, which may have set another subscriber.
    let _ = tracing::subscriber::set_global_default(log);
}

/// Writes each event up to `level` as a line. The program has no spans; those of libraries are ignored.
struct Log {
    level: LevelFilter,
    format: LineFormat,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut lines = String::new();
        self.format.lines(event, &mut lines);
        // This never fails: lines that cannot be written are counted.
        let _ = StandardError.write(lines.as_bytes());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// True if the event comes from this program and not from a library.
fn is_own(event: &Event<'_>) -> bool {
    matches!(event.metadata().target().split("::").next(), Some("jitlat" | "jitlat_output"))
}

/// Formats of lines.
enum LineFormat {
    /// `jitlat: message`, with the name of the program.
    Plain(&'static str),
    /// Time (UTC), level, message.
    Dated(Mutex<Repetitions>),
    /// JSON objects.
    Json(Mutex<Repetitions>),
}

impl LineFormat {
    /// Appends the lines of `event`: none if it is not shown, two if events were left out before it.
    fn lines(&self, event: &Event<'_>, lines: &mut String) {
        match self {
            // A server that a command runs itself (for the demonstration, or the loopback of `doctor`) logs warnings
            // only.
            LineFormat::Plain(_) if !is_own(event) && *event.metadata().level() > Level::WARN => {}
            LineFormat::Plain(program) => {
                lines.extend([program, ": "]);
                append_fields(event, lines);
            }
            LineFormat::Json(repetitions) => {
                let object = Object::of(event);
                let (admitted, left_out) = admit(repetitions, event, &object);
                if left_out > 0 {
                    let message = format!("{left_out} more lines of this kind were left out");
                    Object::new(Level::INFO, &message).append(lines);
                }
                if admitted {
                    object.append(lines);
                }
            }
            LineFormat::Dated(repetitions) => {
                let (admitted, left_out) = admit(repetitions, event, &Object::of(event));
                let head = |level: &Level| format!("{} {level:>5} ", now_in_utc());
                if left_out > 0 {
                    lines.push_str(&head(&Level::INFO));
                    lines.push_str(&format!("{left_out} more lines of this kind were left out\n"));
                }
                if admitted {
                    lines.push_str(&head(event.metadata().level()));
                    append_fields(event, lines);
                }
            }
        }
    }
}

/// Appends message and fields (`name=value`) of `event`, and the end of the line.
fn append_fields(event: &Event<'_>, lines: &mut String) {
    let mut text = FieldText(String::new());
    event.record(&mut text);
    // Text from other hosts must not change the terminal.
    let is_text = |c: char| matches!(c, '\n' | '\t') || !is_unprintable(c);
    lines.extend(text.0.chars().map(|c| if is_text(c) { c } else { char::REPLACEMENT_CHARACTER }));
    lines.push('\n');
}

/// Message and fields of an event as text.
struct FieldText(String);

impl Visit for FieldText {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        if field.name() != "message" {
            self.0.extend([field.name(), "="]);
        }
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{value:?}");
    }
}

/// Returns the current time as in RFC 3339, in UTC, with microseconds.
fn now_in_utc() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
    let (year, month, day) = civil(days as i64);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", now.subsec_micros())
}

/// Returns true if a line may be written now, and the number of lines left out before it. Lines about accepted
/// tests are never left out.
fn admit(repetitions: &Mutex<Repetitions>, event: &Event<'_>, object: &Object) -> (bool, u64) {
    if object.0.get("decision").is_some_and(|decision| decision == "accepted") {
        return (true, 0);
    }
    let mut repetitions = repetitions.lock().unwrap_or_else(PoisonError::into_inner);
    repetitions.admit(event.metadata().callsite(), Instant::now())
}

/// Time, level, message and fields of an event, by name.
struct Object(serde_json::Map<String, serde_json::Value>);

impl Object {
    fn new(level: Level, message: &str) -> Object {
        let level = level.as_str().to_ascii_lowercase();
        let fields = [("time", now_in_utc()), ("level", level), ("message", message.to_owned())];
        Object(fields.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect())
    }

    fn of(event: &Event<'_>) -> Object {
        let mut object = Object::new(*event.metadata().level(), "");
        event.record(&mut object);
        object
    }

    /// Appends the object as one line.
    fn append(self, lines: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{}", serde_json::Value::Object(self.0));
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

/// Maximum number of lines of one kind (from one position in the program) per [`WINDOW`]. Further lines are counted, not written.
const MAX_LINES_PER_WINDOW: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Limits the rate of each kind of line.
#[derive(Default)]
struct Repetitions {
    kinds: HashMap<Identifier, RepeatWindow>,
}

struct RepeatWindow {
    since: Instant,
    admitted: u32,
    left_out: u64,
}

impl Repetitions {
    /// Returns true if a line of this kind may be written now, and the number of lines dropped in earlier windows.
    fn admit(&mut self, kind: Identifier, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        self.kinds.retain(|_, kind| {
            let over = now.duration_since(kind.since) >= WINDOW;
            left_out += if over { kind.left_out } else { 0 };
            !over
        });
        let kind = self.kinds.entry(kind).or_insert(RepeatWindow { since: now, admitted: 0, left_out: 0 });
        let admitted = kind.admitted < MAX_LINES_PER_WINDOW;
        if admitted {
            kind.admitted += 1;
        } else {
            kind.left_out += 1;
        }
        (admitted, left_out)
    }
}

/// Writer to standard error. A line whose write would fail or block is dropped and counted.
struct StandardError;

/// Lines stored while the terminal shows a full-screen view; `None`: lines are written at once.
static HELD_LINES: Mutex<Option<Vec<u8>>> = Mutex::new(None);
/// Maximum size of the stored lines, in bytes; further lines are dropped.
const MAX_HELD_BYTES: usize = 1 << 16;

/// Guard that holds back log lines for a terminal. The lines are written when the guard is dropped.
pub struct HeldLines(());

/// Starts to hold back lines if standard error is a terminal.
pub fn hold() -> HeldLines {
    if io::stderr().is_terminal() {
        *HELD_LINES.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }
    HeldLines(())
}

impl Drop for HeldLines {
    fn drop(&mut self) {
        let held = HELD_LINES.lock().unwrap_or_else(PoisonError::into_inner).take();
        for line in held.unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            let _ = StandardError.write(line);
        }
    }
}

/// Number of lines dropped since the last one that was written.
static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);

/// Number of bytes that a ready pipe accepts without blocking (`PIPE_BUF`).
const MAX_ATOMIC_WRITE: usize = 4096;

impl Write for StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.is_empty() {
            return Ok(0);
        }
        if let Some(held) = &mut *HELD_LINES.lock().unwrap_or_else(PoisonError::into_inner) {
            match held.len() + line.len() <= MAX_HELD_BYTES {
                true => held.extend_from_slice(line),
                false => drop(DROPPED_LINES.fetch_add(1, Ordering::Relaxed)),
            }
            return Ok(line.len());
        }
        let dropped = DROPPED_LINES.swap(0, Ordering::Relaxed);
        let note = match dropped {
            // The line replaces the progress, which is drawn again below it.
            0 if terminal::work::is_shown() => "\r\x1b[K".to_owned(),
            0 => String::new(),
            n => format!("jitlat: {n} lines before this one could not be written\n"),
        };
        let cut = line.len().min(MAX_ATOMIC_WRITE - note.len());
        let whole = [note.as_bytes(), &line[..cut]].concat();
        if !stderr_is_ready() || io::stderr().write_all(&whole).is_err() {
            DROPPED_LINES.fetch_add(dropped + 1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::callsite::Callsite;

    #[test]
    fn repetitions_are_counted_instead() {
        // The type must have a size: two zero-sized values could share an address, by which call sites are
        // distinguished.
        struct Place {
            _number: u8,
        }
        static HERE: Place = Place { _number: 0 };
        static THERE: Place = Place { _number: 1 };
        static META: tracing::Metadata<'static> = tracing::metadata! {
            name: "x", target: "x", level: tracing::Level::INFO, fields: &[],
            callsite: &HERE, kind: tracing::metadata::Kind::EVENT
        };
        impl Callsite for Place {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &tracing::Metadata<'_> {
                &META
            }
        }
        let (here, there) = (|| Identifier(&HERE), || Identifier(&THERE));
        let start = Instant::now();
        let mut repetitions = Repetitions::default();
        let admitted = (0..50).filter(|_| repetitions.admit(here(), start).0).count();
        assert_eq!(admitted, MAX_LINES_PER_WINDOW as usize);
        assert_eq!(repetitions.admit(there(), start), (true, 0), "another kind is not limited");
        let later = start + WINDOW;
        assert_eq!(repetitions.admit(there(), later), (true, 40));
        assert_eq!(repetitions.admit(here(), later), (true, 0));
    }
}
