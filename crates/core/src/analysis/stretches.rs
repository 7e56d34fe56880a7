//! [`Stretches`]: the verdict on a stream of any length in constant memory. Each stretch of 65 536 packets is
//! judged separately when it is complete, by the rules that judge a whole test. A test that fits into one
//! stretch is judged like any other test.
//!
//! An event that is in progress at the end of a stretch is not split: the next stretch begins shortly before
//! it. If it fills the stretch, the packets around its beginning are repeated at the start of the next one
//! ([`StretchSeam`]), so the next stretch shows the level before the event and the level after it.

use super::check::{Impossible, MOST_ROWS, require};
use super::gathered::{Gathered, stream_times};
use super::plain::Plain;
use super::tally::Tally;
use crate::evidence::{
    Evidence, Judgement, KnownPackets, RowNotes, SharedJudge, StretchFindings, StretchSeam, WholeStream,
};
use crate::metrics::classify::AcceptedPacket;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::schedule_error::extreme_errors;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::{Samples, Series};
use crate::record::{Moment, PacketRecord};
use crate::session::{Ending, Session};
use crate::spec::Schedule;
use crate::time::StampSource;
use serde::{Deserialize, Serialize};

/// Number of packets in a stretch.
const LENGTH: u32 = 65_536;

/// Divisor of a stretch's length. A sixteenth of a stretch is enough to show a level of delay: it is repeated at the
/// start of the next stretch, and included on both sides of an event in progress.
const OVERLAP: u32 = 16;

/// State of the verdict in constant memory: about 2 MB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretches {
    /// Session of the test as known at its beginning; not stored.
    #[serde(skip)]
    test: Option<Box<Session>>,
    /// Judge of the stretches; not stored.
    #[serde(skip)]
    judge: Option<SharedJudge>,
    length: u32,
    /// Maps packet numbers in the open stretch to sequence numbers of the stream.
    seam: StretchSeam,
    /// Due time of the stream's first packet, in ns since 1970, computed from the first packet received.
    origin: Option<i64>,
    open: Rows,
    closed: StretchFindings,
}

/// The rows of a stretch. Sequence numbers are relative to its first packet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Rows {
    samples: Samples,
    delayless: SeqSet,
    copies: Copies,
    /// Damaged rows without a valid earlier copy of the same packet.
    damaged: Copies,
    notes: RowNotes,
    /// Number of rows per source of the arrival stamp.
    arrived: [u64; 4],
    came: SeqSet,
}

/// Facts that are only known at the end of a stream.
pub struct Ended<'a> {
    pub session: &'a Session,
    pub known: KnownPackets,
    pub clock: &'a ClockEstimate,
    pub received: u64,
    pub min: Option<i64>,
    pub round_trip: bool,
}

impl Stretches {
    pub fn new(session: &Session, judge: SharedJudge) -> Stretches {
        Stretches {
            test: Some(Box::new(static_facts(session))),
            judge: Some(judge),
            length: LENGTH,
            seam: StretchSeam::default(),
            origin: None,
            open: Rows::default(),
            closed: StretchFindings::default(),
        }
    }

    /// Sets the number of packets per stretch, as [`super::Analyzer::set_stretch_length`] describes.
    pub fn set_length(&mut self, packets: u32) {
        self.length = packets;
    }

    /// Returns the state of the same test before its first packet.
    pub fn emptied(&self) -> Stretches {
        let (closed, open) = (StretchFindings::default(), Rows::default());
        let (test, judge, length) = (self.test.clone(), self.judge.clone(), self.length);
        Stretches { test, judge, length, seam: StretchSeam::default(), origin: None, open, closed }
    }

    /// Adds the rows that follow and returns true. Returns false if a stretch of `next` has already been judged,
    /// because the verdict on that stretch does not cover the rows that precede `next`.
    #[must_use]
    pub fn append(&mut self, next: Stretches) -> bool {
        next.closed.stretches == 0 && self.append_rows(next.open, next.origin)
    }

    /// Adds the rows of an exact analysis, one stretch after another. Returns false if the analysis has no notes for a
    /// verdict.
    #[must_use]
    pub(super) fn append_packets(&mut self, next: &Gathered, came: SeqSet, tally: &Tally) -> bool {
        let Some(notes) = next.notes.clone() else { return false };
        let last = came.max().unwrap_or(0);
        let first = next.samples.iter().next();
        let origin = first.map(|packet| self.before(packet.seq, packet.sent));
        let Gathered { samples, delayless, copies, damaged, .. } = next;
        let (samples, delayless) = (samples.clone(), delayless.clone());
        let (copies, damaged) = (copies.sorted(), damaged.sorted());
        let mut rows = Rows { samples, delayless, copies, damaged, notes, arrived: tally.arrived(), came };
        let mut later = Vec::new();
        for begin in (1..=last / self.length).rev().map(|k| k * self.length) {
            later.push((begin, rows.split(begin)));
        }
        later.push((0, rows));
        later.into_iter().rev().all(|(begin, rows)| self.append_rows(rows.shifted(begin), origin))
    }

    /// Adds rows with the sequence numbers of the stream.
    fn append_rows(&mut self, mut next: Rows, origin: Option<i64>) -> bool {
        let StretchSeam { first, again, .. } = self.seam;
        let next = if first > 0 { next.split(first).shifted(again) } else { next };
        let Rows { samples, delayless, copies, damaged, notes, arrived, came } = next;
        self.origin = self.origin.or(origin);
        let open = &mut self.open;
        for (seq, at) in damaged.iter() {
            let to = if open.came.contains(seq) { &mut open.copies } else { &mut open.damaged };
            to.push(seq, at);
        }
        open.notes.append(&notes, &samples.seq, |seq| !open.came.contains(seq));
        for packet in samples.iter() {
            if open.came.insert(packet.seq) {
                open.samples.push(packet);
            } else {
                open.copies.push(packet.seq, Some(packet.arrived()));
            }
        }
        for seq in delayless.iter() {
            if open.came.insert(seq) {
                open.delayless.insert(seq);
            } else {
                open.copies.push(seq, None);
            }
        }
        copies.iter().for_each(|(seq, at)| open.copies.push(seq, at));
        open.arrived.iter_mut().zip(arrived).for_each(|(mine, more)| *mine += more);
        debug_assert!(came.iter().all(|seq| open.came.contains(seq)));
        while self.open.came.max().is_some_and(|seq| seq >= self.length + self.slack()) {
            self.close();
        }
        true
    }

    /// Returns the send time of packet 0, in ns, computed from the schedule and from packet `seq`, which was sent at
    /// `sent`.
    fn before(&self, seq: u32, sent: i64) -> i64 {
        let due = self.test.as_ref().and_then(|t| t.period()).map_or(0, |p| p.0);
        sent.saturating_sub(due.saturating_mul(seq.into()))
    }

    /// Returns the number of later packets after which a missing packet counts as lost.
    fn slack(&self) -> u32 {
        self.length / 4
    }

    /// Adds the first copy of packet `seq`; `packet` is `None` if its delay is unknown.
    pub fn push(&mut self, seq: u32, packet: Option<AcceptedPacket>, record: &PacketRecord) {
        while self.seam.position(seq).is_some_and(|n| n >= self.length + self.slack()) {
            self.close();
        }
        if self.origin.is_none() {
            self.origin = packet.map(|packet| self.before(seq, packet.sent));
        }
        let Some(seq) = self.seam.position(seq) else { return };
        let Rows { samples, delayless, notes, arrived, came, .. } = &mut self.open;
        arrived[record.source(Moment::Arrived) as usize] += 1;
        came.insert(seq);
        match packet {
            Some(packet) => {
                notes.push(record, seq);
                samples.push(AcceptedPacket { seq, ..packet });
            }
            None => {
                delayless.insert(seq);
            }
        }
    }

    /// Adds clean packets, all of which are new, and their rows.
    pub(super) fn push_all(&mut self, packets: &Plain, rows: &[PacketRecord]) {
        let positions = packets.ends().and_then(|[a, b]| self.seam.position(a).zip(self.seam.position(b)));
        let within = |last: u32| last < self.length + self.slack() && packets.alike;
        let ends = packets.ends().zip(positions.filter(|(_, last)| within(*last)));
        // One offset applies to all packets, unless the numbering changes between them.
        let shift = ends.and_then(|([a, b], (first, last))| {
            let by = first.wrapping_sub(a);
            (b.wrapping_add(by) == last).then_some(by)
        });
        let Some(by) = shift else {
            return packets.iter().zip(rows).for_each(|(p, row)| self.push(p.seq, Some(p), row));
        };
        let seqs: Vec<u32> = packets.seq().iter().map(|seq| seq.wrapping_add(by)).collect();
        if self.origin.is_none() {
            self.origin = packets.iter().next().map(|packet| self.before(packet.seq, packet.sent));
        }
        let Rows { samples, notes, arrived, came, .. } = &mut self.open;
        arrived[rows[0].source(Moment::Arrived) as usize] += rows.len() as u64;
        let moved = |seq: u32| seq.wrapping_add(by);
        packets.runs().for_each(|run| came.insert_run(moved(run.start)..moved(run.end)));
        notes.push_all(rows, &seqs, packets.alike, packets.lags);
        samples.seq.extend_from_slice(&seqs);
        samples.sent.extend_from_slice(packets.sent());
        samples.delay.extend_from_slice(packets.delay());
    }

    /// Adds a further copy of packet `seq`.
    pub fn push_copy(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = self.seam.position(seq).filter(|seq| self.open.came.contains(*seq)) else {
            return;
        };
        self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
        if self.open.copies.len() < 4 * u64::from(self.length) {
            self.open.copies.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// Adds a damaged row of packet `seq` that is not a further copy.
    pub fn push_damaged(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = self.seam.position(seq) else { return };
        if seq < self.length + self.slack() && self.open.damaged.len() < 4 * u64::from(self.length) {
            self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
            self.open.damaged.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// Judges the current stretch, which is complete, and begins the next one.
    fn close(&mut self) {
        let (length, again) = (self.length, self.length / OVERLAP);
        let rest = self.open.split(length);
        let mut rows = std::mem::replace(&mut self.open, rest);
        let mut lasting = Vec::new();
        if let Some(test) = self.test.as_deref() {
            let closed = self.with(&rows, &part(test, length), Some(&mut lasting));
            // The next stretch begins shortly before the event in progress, so that the event is judged as a whole.
            let begins = lasting.iter().copied().find(|begin| *begin >= self.seam.again + 2 * again);
            if let Some(begin) = begins {
                let cut = begin - again / 8;
                let later = rows.split(cut);
                self.closed = self.with(&rows, &part(test, cut), None);
                self.open = later.joined(std::mem::take(&mut self.open), length - cut);
                return self.begin(rows, cut - again..cut, cut);
            }
            self.closed = closed;
        }
        let around = lasting
            .last()
            .map(|begin| self.seam.within(begin.saturating_sub(again)..(begin + again).min(length)));
        self.begin(rows, around.unwrap_or(length - again..length), length);
    }

    /// Begins the next stretch: repeats the packets `again` of `rows`, and continues with the packets from `cut` on.
    fn begin(&mut self, mut rows: Rows, again: std::ops::Range<u32>, cut: u32) {
        let (old, shown) = (self.seam, again.len() as u32);
        let last_sent = |rows: &Rows| rows.samples.iter().map(|p| p.sent).max();
        let before_cut = last_sent(&rows);
        drop(rows.split(again.end));
        let lead = rows.split(again.start);
        let later = match before_cut.zip(last_sent(&lead)) {
            Some((all, these)) if again.end < cut => all.saturating_sub(these),
            _ => 0,
        };
        let before = if again.start < old.again { old.left_out } else { 0 };
        self.seam = StretchSeam {
            again: shown,
            first: old.number(cut),
            from: old.number(again.start),
            left_out: before.saturating_add(later),
        };
        let rest = std::mem::take(&mut self.open);
        self.open = lead.later(later).joined(rest, shown);
    }

    /// Returns the findings including those of the stretch `rows`. `lasting` receives the start positions of events
    /// that are still in progress at the end of the stretch.
    fn with(&self, rows: &Rows, session: &Session, lasting: Option<&mut Vec<u32>>) -> StretchFindings {
        let mut closed = self.closed.clone();
        let clock = ClockEstimate::new(session, None);
        let origin = self.origin.unwrap_or(0);
        let period = session.period().map_or(0, |p| p.0);
        let due = origin.saturating_add(period.saturating_mul(self.seam.first.into()));
        let Some(judge) = &self.judge else { return closed };
        rows.judged(session, &clock, false, |evidence| {
            let found = judge.add_stretch(&mut closed, evidence, &self.seam, origin, due);
            if let Some(lasting) = lasting {
                *lasting = found;
            }
        });
        closed
    }

    /// Returns the verdict on the stream; `None` without a judge, or if the judge cannot give a verdict.
    pub fn judgement(&self, ended: &Ended<'_>) -> Option<Judgement> {
        let Ended { session, known, clock, received, min, round_trip } = *ended;
        let judge = self.judge.as_ref()?;
        if self.closed.stretches == 0 {
            let times = stream_times(&self.open.samples, session.spec.direction());
            let clock = ClockEstimate::new(session, times);
            return Some(self.open.judged(session, &clock, round_trip, |evidence| judge.judge(evidence)));
        }
        let test = self.test.as_deref()?;
        let StretchSeam { first, again, .. } = self.seam;
        let left = |n: u64| n.saturating_sub(first.into()).saturating_add(again.into());
        let last = Session {
            declared: Some(left(session.declared.unwrap_or(session.spec.packets().into()))),
            sent: session.sent.map(|n| n.saturating_sub(first).saturating_add(again)),
            ending: session.ending,
            truncated: session.truncated,
            ..test.clone()
        };
        let is_short = left(known.sent) < u64::from(again + self.length / 4);
        let short = is_short.then_some(first);
        let whole = WholeStream { session, known, clock, received, min, short, round_trip };
        judge.judge_stretches(self.with(&self.open, &last, None), &whole)
    }

    /// Replaces this state by a stored one, after checking that a stream can have produced it.
    pub fn restore(&mut self, read: Stretches, rows: u64) -> Result<(), Impossible> {
        let numbers = read.length == self.length;
        require(numbers, "the stretches have a different length")?;
        let StretchSeam { again, first, from, left_out } = read.seam;
        let shown = again <= read.length / OVERLAP * 2 && again <= first && from <= first && left_out >= 0;
        require(shown && (again > 0 || first == 0), "an impossible range of repeated packets")?;
        read.open.check(self.length + self.slack())?;
        require(read.closed.is_possible(rows), "impossible causes")?;
        *self = Stretches { test: self.test.take(), judge: self.judge.take(), ..read };
        Ok(())
    }
}

/// Returns the session for judging a stretch of `test` as a complete test of `length` packets.
fn part(test: &Session, length: u32) -> Session {
    let packets = u64::from(length);
    Session { declared: Some(packets), sent: Some(length), ending: Ending::Complete, ..test.clone() }
}

/// Returns the facts of a session that do not depend on how its test ends. Parts of the test are judged with them.
fn static_facts(session: &Session) -> Session {
    let period_known = session.period_known && session.spec.schedule() == Schedule::Periodic;
    Session {
        version: session.version,
        direction_known: session.direction_known,
        period_known,
        ..Session::new(session.spec.clone())
    }
}

impl Rows {
    /// Returns the rows with `by` added to each sequence number.
    fn shifted(self, by: u32) -> Rows {
        Rows::default().joined(self, by)
    }

    /// Appends the rows `later`, with `by` added to each sequence number.
    fn joined(mut self, later: Rows, by: u32) -> Rows {
        let Rows { samples, delayless, copies, damaged, notes, arrived, came } = later;
        samples.iter().for_each(|p| self.samples.push(AcceptedPacket { seq: p.seq.saturating_add(by), ..p }));
        for (mine, theirs) in [(&mut self.delayless, &delayless), (&mut self.came, &came)] {
            theirs.iter().for_each(|seq| {
                mine.insert(seq.saturating_add(by));
            });
        }
        for (mine, theirs) in [(&mut self.copies, &copies), (&mut self.damaged, &damaged)] {
            theirs.iter().for_each(|(seq, at)| mine.push(seq.saturating_add(by), at));
        }
        let seqs: Vec<u32> = samples.seq.iter().map(|seq| seq.saturating_add(by)).collect();
        self.notes.append(&notes.shifted(by), &seqs, |_| true);
        self.arrived.iter_mut().zip(arrived).for_each(|(mine, more)| *mine += more);
        self
    }

    /// Returns the rows with `by` ns added to their send times.
    fn later(mut self, by: i64) -> Rows {
        self.samples.sent.iter_mut().for_each(|sent| *sent = sent.saturating_add(by));
        self
    }

    /// Splits off the rows from sequence number `length` on, and renumbers them from 0.
    fn split(&mut self, length: u32) -> Rows {
        let mut rest = Rows { notes: self.notes.split(length), ..Rows::default() };
        let Rows { samples, delayless, copies, damaged, came, .. } = self;
        rest.samples = samples.split_off(length);
        (rest.delayless, rest.came) = (delayless.split_off(length), came.split_off(length));
        for (copies, later) in [(copies, &mut rest.copies), (damaged, &mut rest.damaged)] {
            let mut kept = Copies::default();
            for (seq, at) in copies.iter() {
                match seq.checked_sub(length) {
                    Some(seq) => later.push(seq, at),
                    None => kept.push(seq, at),
                }
            }
            *copies = kept;
        }
        // Only the occurrence of a source matters, and nearly all rows have the same source.
        rest.arrived = self.arrived.map(|n| u64::from(n > 0));
        rest
    }

    /// Calls `judge` with these rows as evidence about the test that `session` describes, and returns its result.
    fn judged<T>(
        &self,
        session: &Session,
        clock: &ClockEstimate,
        round_trip: bool,
        judge: impl FnOnce(&Evidence<'_>) -> T,
    ) -> T {
        let Rows { samples, copies, notes, arrived, came, .. } = self;
        let series = Series::new(samples);
        let mut stamped = StampSource::ALL.into_iter().filter(|s| arrived[*s as usize] > 0);
        let arrived_by = stamped.next().filter(|_| stamped.next().is_none());
        judge(&Evidence {
            session,
            series: &series,
            came,
            sample: None,
            copies,
            clock,
            notes,
            arrived_by,
            off_schedule: session.period().and_then(|_| extreme_errors(&series, &session.spec)),
            round_trip,
        })
    }

    /// Checks that the rows are possible and that their sequence numbers are below `end`.
    fn check(&self, end: u32) -> Result<(), Impossible> {
        let Rows { samples, delayless, copies, damaged, notes, arrived, came } = self;
        let rows = samples.len();
        require(rows == samples.sent.len() && rows == samples.delay.len(), "columns of different lengths")?;
        let mut accepted = SeqSet::default();
        samples.seq.iter().for_each(|seq| {
            accepted.insert(*seq);
        });
        require(accepted.len() == rows as u64, "a packet accepted twice")?;
        let numbers = came.max().is_none_or(|seq| seq < end) && accepted.iter().all(|seq| came.contains(seq));
        require(numbers, "sequence numbers beyond the end of the test")?;
        let apart = delayless.iter().all(|seq| came.contains(seq) && !accepted.contains(seq));
        require(apart && came.len() == accepted.len() + delayless.len(), "inconsistent counts")?;
        let of_clock = |p: AcceptedPacket| p.sent.checked_add(p.delay).is_some();
        require(samples.iter().all(of_clock), "a time outside the clock's range")?;
        require(copies.iter().all(|(seq, _)| came.contains(seq)), "a copy of an unknown packet")?;
        require(damaged.iter().all(|(seq, _)| seq < end), "sequence numbers beyond the end of the test")?;
        require(notes.is_possible(&accepted), "a note about an unknown packet")?;
        require(arrived.iter().all(|n| *n <= MOST_ROWS), "inconsistent counts")
    }
}
