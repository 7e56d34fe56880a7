//! [`Replies`]: prints a line for each answer of a round-trip test while it runs, as `ping` and `fping` do.

use super::progress::ProgressLine;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::twoway::round_trip;
use jitlat_core::{PacketRecord, Session, Span};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum number of lines per second. Nobody reads more, and a slow terminal would delay the other observers.
const MAX_LINES: u32 = 100;
/// Time for which an answer is awaited in addition to the timeout of the test, because events arrive in batches.
pub const GRACE: Duration = Duration::from_millis(200);
/// Maximum number of requests without an answer that are remembered individually.
const MAX_OPEN: usize = 100_000;

/// An observer that prints each answer, and each request whose answer did not arrive in time.
pub struct Replies {
    lines: Lines,
    timeout: Duration,
    open: OpenRequests,
    far: Option<IpAddr>,
    /// True if answers are expected.
    expected: bool,
    line: ProgressLine,
}

impl Replies {
    /// Creates an observer of a test whose answers count as lost after `timeout`.
    pub fn new(timeout: Span) -> Replies {
        let timeout = Duration::from_nanos(timeout.0.unsigned_abs()) + GRACE;
        Replies {
            lines: Lines::default(),
            timeout,
            open: OpenRequests::default(),
            far: None,
            expected: true,
            line: ProgressLine::new(),
        }
    }

    fn print(&mut self, text: &str) {
        if !text.is_empty() {
            self.line.clear_terminal();
            // If the pipe is closed, this is noticed when the report is printed.
            let _ = super::print(text);
        }
    }

    fn arrived(&mut self, records: &[PacketRecord], now: Instant) {
        let mut text = String::new();
        for record in records {
            self.open.sent(record.seq.saturating_add(1), now + self.timeout);
            let is_first = self.open.answered(record.seq);
            let line = reply(record, self.far, is_first);
            text += &self.lines.admitted(&line, now);
        }
        self.print(&text);
    }

    fn lost(&mut self, runs: Vec<(i64, i64)>, now: Instant) {
        let lines: Vec<String> =
            runs.into_iter().map(|run| self.lines.admitted(&unanswered(run), now)).collect();
        self.print(&lines.concat());
    }
}

impl Observer for Replies {
    fn event(&mut self, event: &Event<'_>) {
        let now = Instant::now();
        match *event {
            Event::Started(sessions) => {
                let session: Option<&Session> = sessions.first();
                self.far = session.and_then(|s| s.dst);
                self.expected =
                    session.and_then(|s| s.two_way.as_ref()).is_none_or(|facts| facts.expects_answers());
            }
            Event::Arrived { records, .. } => self.arrived(records, now),
            Event::Progress([progress, ..]) if self.expected => {
                self.open.sent(progress.sent.into(), now + self.timeout);
                let late = self.open.overdue(now);
                self.lost(late, now);
            }
            // Contains answers that were not in `Arrived`, such as the last ones.
            Event::Records { records, .. } => {
                let new: Vec<PacketRecord> =
                    records.iter().filter(|record| self.open.is_open(record.seq)).copied().collect();
                self.arrived(&new, now);
            }
            Event::Finished(sessions) => {
                let sent = sessions.first().and_then(|s| s.sent).map_or(i64::MAX, i64::from);
                if self.expected {
                    let rest = self.open.rest(sent);
                    self.lost(rest, now);
                }
                let text = self.lines.rest();
                self.print(&text);
            }
            _ => {}
        }
    }
}

/// Returns the line of an answer from `far`.
fn reply(record: &PacketRecord, far: Option<IpAddr>, is_first: bool) -> String {
    let size = record.size().map_or_else(|| "answer".to_owned(), |bytes| format!("{bytes} bytes"));
    let from = far.map_or_else(String::new, |far| format!(" from {far}"));
    let ttl = record.ttl().map_or_else(String::new, |ttl| format!(" ttl={ttl}"));
    let time = round_trip(record)
        .map_or_else(|| "unknown".to_owned(), |time| format!("{:.3} ms", time.0 as f64 / 1e6));
    let again = if is_first { "" } else { " (late or duplicate)" };
    format!("{size}{from}: seq={}{ttl} time={time}{again}\n", record.seq)
}

/// Returns the line about consecutive requests without an answer, from the first to the last.
fn unanswered((first, last): (i64, i64)) -> String {
    match last - first {
        0 => format!("no answer to seq={first}\n"),
        more => format!("no answer to seq={first} to {last} ({} requests)\n", more + 1),
    }
}

/// Requests that have not been answered yet.
#[derive(Debug, Default)]
pub struct OpenRequests {
    /// Numbers of these requests.
    numbers: BTreeSet<i64>,
    /// Requests below this number have been sent.
    next: i64,
    /// Deadlines: after each of these times, the requests below the given number count as lost.
    deadlines: VecDeque<(Instant, i64)>,
}

impl OpenRequests {
    /// Records that the requests below `next` have been sent; their answers are awaited until `deadline`.
    pub fn sent(&mut self, next: i64, deadline: Instant) {
        if next <= self.next {
            return;
        }
        // If more requests are under way, lines about the older ones would be useless.
        let first = self.next.max(next.saturating_sub(MAX_OPEN as i64));
        self.numbers.extend(first..next);
        while self.numbers.len() > MAX_OPEN {
            self.numbers.pop_first();
        }
        self.next = next;
        self.deadlines.push_back((deadline, next));
    }

    /// True if the request `seq` has been neither answered nor counted as lost, or is not known to have been sent.
    pub fn is_open(&self, seq: i64) -> bool {
        seq >= self.next || self.numbers.contains(&seq)
    }

    /// Removes a request; returns false if it was already answered, or counted as lost.
    pub fn answered(&mut self, seq: i64) -> bool {
        self.numbers.remove(&seq)
    }

    /// Removes the requests whose answers did not arrive in time, and returns the runs that they form.
    pub fn overdue(&mut self, now: Instant) -> Vec<(i64, i64)> {
        let mut below = 0;
        while let Some((_, next)) = self.deadlines.pop_front_if(|(deadline, _)| *deadline <= now) {
            below = next;
        }
        self.below(below)
    }

    /// Removes the remaining requests below `sent`, and returns the runs that they form.
    pub fn rest(&mut self, sent: i64) -> Vec<(i64, i64)> {
        self.below(sent)
    }

    fn below(&mut self, limit: i64) -> Vec<(i64, i64)> {
        let later = self.numbers.split_off(&limit);
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for seq in std::mem::replace(&mut self.numbers, later) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == seq => *last = seq,
                _ => runs.push((seq, seq)),
            }
        }
        runs
    }
}

/// Limit of the number of lines per second.
#[derive(Debug, Default)]
struct Lines {
    /// Start of the current second, and the number of lines in it.
    second: Option<(Instant, u32)>,
    /// Number of lines that were left out and not counted yet.
    omitted: u64,
}

impl Lines {
    /// Returns `line`, after a count of those left out before; empty if there were too many lines in this second.
    fn admitted(&mut self, line: &str, now: Instant) -> String {
        let (begun, count) = match self.second {
            Some((begun, count)) if now.duration_since(begun) < Duration::from_secs(1) => (begun, count),
            _ => (now, 0),
        };
        self.second = Some((begun, count + 1));
        if count >= MAX_LINES {
            self.second = Some((begun, count));
            self.omitted += 1;
            return String::new();
        }
        self.rest() + line
    }

    /// Returns the count of the lines that were left out.
    fn rest(&mut self) -> String {
        match std::mem::take(&mut self.omitted) {
            0 => String::new(),
            omitted => format!("... {omitted} more, not shown\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::record::Moment;
    use jitlat_core::{Stamp, StampSource};

    #[test]
    fn an_answer_is_shown_as_ping_shows_it() {
        let mut record = PacketRecord::new(3);
        let stamp = |at| Stamp { at: WallTime(at), source: StampSource::Kernel };
        record.set(Moment::Sent, stamp(1_000_000));
        record.set(Moment::Returned, stamp(13_345_678));
        let far = Some("192.0.2.7".parse().unwrap());
        assert_eq!(reply(&record, far, true), "answer from 192.0.2.7: seq=3 time=12.346 ms\n");
        record.set_ttl(Some(57));
        record.set_size(Some(64));
        assert_eq!(
            reply(&record, far, false),
            "64 bytes from 192.0.2.7: seq=3 ttl=57 time=12.346 ms (late or duplicate)\n"
        );
    }

    #[test]
    fn requests_without_an_answer_are_named_when_their_time_is_over() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut open = OpenRequests::default();
        open.sent(3, at(100));
        open.sent(5, at(200));
        assert!(open.answered(1) && open.answered(4));
        assert_eq!(open.overdue(at(99)), []);
        assert_eq!(open.overdue(at(100)), [(0, 0), (2, 2)]);
        assert!(!open.answered(2) && !open.is_open(2), "it counts as lost");
        assert!(open.is_open(3) && open.is_open(5), "the last one may have been sent since");
        assert_eq!(open.overdue(at(500)), [(3, 3)]);
        open.sent(9, at(900));
        assert_eq!(open.rest(8), [(5, 7)], "the last one was not sent");
        assert_eq!(unanswered((5, 7)), "no answer to seq=5 to 7 (3 requests)\n");
        assert_eq!(unanswered((5, 5)), "no answer to seq=5\n");
        open.sent(i64::MAX, at(1000));
        assert_eq!(open.numbers.len(), MAX_OPEN);
    }

    #[test]
    fn more_lines_than_anybody_reads_are_counted() {
        let begin = Instant::now();
        let mut lines = Lines::default();
        let shown = (0..250).filter(|_| !lines.admitted("x\n", begin).is_empty()).count();
        assert_eq!(shown, MAX_LINES as usize);
        let next = lines.admitted("x\n", begin + Duration::from_secs(1));
        assert_eq!(next, "... 150 more, not shown\nx\n");
    }
}
