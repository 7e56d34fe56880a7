//! [`Stretches`]: the verdict on a stream of any length in constant memory. Each stretch of so many packets is judged by
//! itself as soon as it is whole, by the rules that judge a test; a test of one stretch as a test is.
//!
//! What lasts when a stretch is whole is not cut in two: the next one begins shortly before it. Where it fills the
//! stretch, the packets around its begin are put before those of the next one ([`Seam`]), which so shows what it rose
//! from and what it falls to.

use super::Gathered;
use super::exact::stream_times;
use super::plain::Plain;
use super::saved::{Impossible, MOST_ROWS, require};
use crate::metrics::classify::Packet;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::schedule_error::extreme_errors;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::{Samples, Series};
use crate::record::{Moment, PacketRecord};
use crate::session::{Ending, Session};
use crate::spec::Schedule;
use crate::time::Source;
use crate::verdict::{self, Accumulated, Judgement, Material, RowNotes, Seam, Whole};
use serde::{Deserialize, Serialize};

/// Packets of a stretch.
const LENGTH: u32 = 65_536;

/// Of a stretch, this part is shown again before the next one, and before and after what lasts: enough to show a level.
const AGAIN: u32 = 16;

/// Constant memory: some 2 MB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretches {
    /// The test, as far as it was known when it began: not stored.
    #[serde(skip)]
    test: Option<Box<Session>>,
    length: u32,
    /// What the numbers of the stretch that is open stand for.
    seam: Seam,
    /// When the first packet that came was sent, or would have been if it was not the first: ns since 1970.
    origin: Option<i64>,
    open: Rows,
    closed: Accumulated,
}

/// The rows of a stretch, with numbers from its first packet on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Rows {
    samples: Samples,
    delayless: SeqSet,
    copies: Copies,
    /// Rows with numbers of which no copy that counts came before.
    damaged: Copies,
    notes: RowNotes,
    /// Rows by where their arrival was stamped.
    arrived: [u64; 4],
    came: SeqSet,
}

/// What the end of a stream adds.
pub struct Ended<'a> {
    pub session: &'a Session,
    pub known: verdict::Known,
    pub clock: &'a ClockEstimate,
    pub received: u64,
    pub min: Option<i64>,
    pub round_trip: bool,
    pub profiles: &'a [verdict::Profile],
}

impl Stretches {
    pub fn new(session: &Session) -> Stretches {
        Stretches {
            test: Some(Box::new(static_facts(session))),
            length: LENGTH,
            seam: Seam::default(),
            origin: None,
            open: Rows::default(),
            closed: Accumulated::default(),
        }
    }

    /// The same test before its first packet.
    pub fn emptied(&self) -> Stretches {
        let (closed, open) = (Accumulated::default(), Rows::default());
        let (test, length) = (self.test.clone(), self.length);
        Stretches { test, length, seam: Seam::default(), origin: None, open, closed }
    }

    /// Adds the rows that follow, unless they were judged without these: false.
    #[must_use]
    pub fn append(&mut self, next: Stretches) -> bool {
        next.closed.stretches() == 0 && self.append_rows(next.open, next.origin)
    }

    /// Adds the rows of an analysis of all packets, stretch after stretch.
    #[must_use]
    pub(super) fn append_packets(&mut self, next: &Gathered) -> bool {
        let came = next.came().into_owned();
        let Some(notes) = next.notes.clone() else { return false };
        let last = came.max().unwrap_or(0);
        let first = next.samples.iter().next();
        let origin = first.map(|packet| self.before(packet.seq, packet.sent));
        let Gathered { samples, delayless, copies, damaged, tally, .. } = next;
        let (samples, delayless) = (samples.clone(), delayless.clone());
        let (copies, damaged) = (copies.clone(), damaged.clone());
        let mut rows = Rows { samples, delayless, copies, damaged, notes, arrived: tally.arrived(), came };
        let mut later = Vec::new();
        for begin in (1..=last / self.length).rev().map(|k| k * self.length) {
            later.push((begin, rows.split(begin)));
        }
        later.push((0, rows));
        later.into_iter().rev().all(|(begin, rows)| self.append_rows(rows.shifted(begin), origin))
    }

    /// Adds rows with numbers of the stream.
    fn append_rows(&mut self, mut next: Rows, origin: Option<i64>) -> bool {
        let Seam { first, again, .. } = self.seam;
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

    /// When the first packet was sent, where packet `seq` was at `sent`, by the schedule: ns.
    fn before(&self, seq: u32, sent: i64) -> i64 {
        let due = self.test.as_ref().and_then(|t| t.period()).map_or(0, |p| p.0);
        sent.saturating_sub(due.saturating_mul(seq.into()))
    }

    /// Packets that came after so many later ones are not waited for.
    fn slack(&self) -> u32 {
        self.length / 4
    }

    /// The first copy of packet `seq`, of which `packet` is None if it has no delay.
    pub fn push(&mut self, seq: u32, packet: Option<Packet>, record: &PacketRecord) {
        while self.seam.place(seq).is_some_and(|n| n >= self.length + self.slack()) {
            self.close();
        }
        if self.origin.is_none() {
            self.origin = packet.map(|packet| self.before(seq, packet.sent));
        }
        let Some(seq) = self.seam.place(seq) else { return };
        let Rows { samples, delayless, notes, arrived, came, .. } = &mut self.open;
        arrived[record.source(Moment::Arrived) as usize] += 1;
        came.insert(seq);
        match packet {
            Some(packet) => {
                notes.push(record, seq);
                samples.push(Packet { seq, ..packet });
            }
            None => {
                delayless.insert(seq);
            }
        }
    }

    /// Clean packets of which none came before, and their rows.
    pub(super) fn push_all(&mut self, packets: &Plain, rows: &[PacketRecord]) {
        let places = packets.ends().and_then(|[a, b]| self.seam.place(a).zip(self.seam.place(b)));
        let within = |last: u32| last < self.length + self.slack() && packets.alike;
        let ends = packets.ends().zip(places.filter(|(_, last)| within(*last)));
        // All are shifted alike, unless numbers end there.
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

    /// A further copy of packet `seq`.
    pub fn push_copy(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = self.seam.place(seq).filter(|seq| self.open.came.contains(*seq)) else {
            return;
        };
        self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
        if self.open.copies.len() < 4 * u64::from(self.length) {
            self.open.copies.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// A row of packet `seq` that is damaged, and no further copy.
    pub fn push_damaged(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = self.seam.place(seq) else { return };
        if seq < self.length + self.slack() && self.open.damaged.len() < 4 * u64::from(self.length) {
            self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
            self.open.damaged.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// Judges the open stretch, of which everything is known, and begins the next.
    fn close(&mut self) {
        let (length, again) = (self.length, self.length / AGAIN);
        let rest = self.open.split(length);
        let mut rows = std::mem::replace(&mut self.open, rest);
        let mut lasting = Vec::new();
        if let Some(test) = self.test.as_deref() {
            let closed = self.with(&rows, &part(test, length), Some(&mut lasting));
            // From shortly before what lasts on, packets belong to the next stretch.
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

    /// Puts those of `rows` that are shown `again` before the open stretch, which follows them from `cut` on.
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
        self.seam = Seam {
            again: shown,
            first: old.number(cut),
            from: old.number(again.start),
            left_out: before.saturating_add(later),
        };
        let rest = std::mem::take(&mut self.open);
        self.open = lead.later(later).joined(rest, shown);
    }

    /// What is known with the stretch of `rows`. `lasting`: where in it what lasts to its end begins.
    fn with(&self, rows: &Rows, session: &Session, lasting: Option<&mut Vec<u32>>) -> Accumulated {
        let mut closed = self.closed.clone();
        let clock = ClockEstimate::new(session, None);
        let origin = self.origin.unwrap_or(0);
        let period = session.period().map_or(0, |p| p.0);
        let due = origin.saturating_add(period.saturating_mul(self.seam.first.into()));
        rows.judged(session, &clock, false, &[], |material| {
            let found = closed.add(material, &self.seam, origin, due);
            if let Some(lasting) = lasting {
                *lasting = found;
            }
        });
        closed
    }

    /// The verdict on the stream.
    pub fn judgement(&self, ended: &Ended<'_>) -> Option<Judgement> {
        let Ended { session, known, clock, received, min, round_trip, profiles } = *ended;
        if self.closed.stretches() == 0 {
            let times = stream_times(&self.open.samples, session.spec.direction());
            let clock = ClockEstimate::new(session, times);
            return Some(self.open.judged(session, &clock, round_trip, profiles, verdict::judge));
        }
        let test = self.test.as_deref()?;
        let Seam { first, again, .. } = self.seam;
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
        let whole = Whole { session, known, clock, received, min, short, round_trip, profiles };
        self.with(&self.open, &last, None).judgement(&whole)
    }

    /// Takes over what was stored, after a check that a stream can have come to it.
    pub fn restore(&mut self, read: Stretches, rows: u64) -> Result<(), Impossible> {
        let numbers = read.length == self.length;
        require(numbers, "stretches of another length")?;
        let Seam { again, first, from, left_out } = read.seam;
        let shown = again <= read.length / AGAIN * 2 && again <= first && from <= first && left_out >= 0;
        require(shown && (again > 0 || first == 0), "packets shown again that cannot be")?;
        read.open.check(self.length + self.slack())?;
        require(read.closed.is_possible(rows), "causes that cannot be")?;
        *self = Stretches { test: self.test.take(), ..read };
        Ok(())
    }
}

/// The session of a stretch of `length` packets of `test`, all of which are known.
fn part(test: &Session, length: u32) -> Session {
    let packets = u64::from(length);
    Session { declared: Some(packets), sent: Some(length), ending: Ending::Complete, ..test.clone() }
}

/// What of a session does not depend on how its test ends, for tests of a part of its packets.
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
    /// The same with numbers `by` higher.
    fn shifted(self, by: u32) -> Rows {
        Rows::default().joined(self, by)
    }

    /// These and then `later`, with numbers `by` higher.
    fn joined(mut self, later: Rows, by: u32) -> Rows {
        let Rows { samples, delayless, copies, damaged, notes, arrived, came } = later;
        samples.iter().for_each(|p| self.samples.push(Packet { seq: p.seq.saturating_add(by), ..p }));
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

    /// The same sent `by` ns later.
    fn later(mut self, by: i64) -> Rows {
        self.samples.sent.iter_mut().for_each(|sent| *sent = sent.saturating_add(by));
        self
    }

    /// Takes out the rows from number `length` on, which are then numbered from there.
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
        // Nearly all were stamped alike.
        rest.arrived = self.arrived.map(|n| u64::from(n > 0));
        rest
    }

    /// What `judge` makes of these rows of the test of `session`.
    fn judged<T>(
        &self,
        session: &Session,
        clock: &ClockEstimate,
        round_trip: bool,
        profiles: &[verdict::Profile],
        judge: impl FnOnce(&Material<'_>) -> T,
    ) -> T {
        let Rows { samples, copies, notes, arrived, came, .. } = self;
        let series = Series::new(samples);
        let mut stamped = Source::ALL.into_iter().filter(|s| arrived[*s as usize] > 0);
        let arrived_by = stamped.next().filter(|_| stamped.next().is_none());
        judge(&Material {
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
            profiles,
        })
    }

    /// Whether these can be rows with numbers below `end`.
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
        require(numbers, "sequence numbers beyond the test")?;
        let apart = delayless.iter().all(|seq| came.contains(seq) && !accepted.contains(seq));
        require(apart && came.len() == accepted.len() + delayless.len(), "counts that do not add up")?;
        let of_clock = |p: Packet| p.sent.checked_add(p.delay).is_some();
        require(samples.iter().all(of_clock), "a time beyond the clock")?;
        require(copies.iter().all(|(seq, _)| came.contains(seq)), "a copy of no packet")?;
        require(damaged.iter().all(|(seq, _)| seq < end), "sequence numbers beyond the test")?;
        require(notes.is_possible(&accepted), "a note on no packet")?;
        require(arrived.iter().all(|n| *n <= MOST_ROWS), "counts that do not add up")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analyzer, Mode, Options, analyze};
    use crate::record::Flags;
    use crate::spec::{Direction, TestSpec, Transport};
    use crate::verdict::{Answer, CauseId};
    use crate::{Span, WallTime};

    const MS: i64 = 1_000_000;
    const PERIOD: i64 = 10 * MS;
    const PACKETS: u32 = 20_000;

    fn session() -> Session {
        let spec = TestSpec::new(
            Direction::Up,
            Transport::Udp,
            PACKETS.into(),
            80,
            Span(PERIOD),
            Schedule::Periodic,
        );
        Session { sent: Some(PACKETS), ending: Ending::Complete, ..Session::new(spec.unwrap()) }
    }

    /// A number from 0 to 999 that looks random.
    fn draw(k: u32, of: u32) -> i64 {
        let x = (u64::from(k) << 8 | u64::from(of)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as i64 % 1000
    }

    /// Packets that wait as `extra` says, in ns, besides 5 ms and up to 0.1 ms of jitter; None is lost.
    fn records(extra: impl Fn(u32) -> Option<i64>) -> Vec<PacketRecord> {
        let record = |k: u32| {
            let sent = 1_700_000_000_000_000_000 + i64::from(k) * PERIOD;
            let delay = 5 * MS + 100 * draw(k, 1) + extra(k)?;
            Some(PacketRecord::one_way(k.into(), WallTime(sent), WallTime(sent + delay)))
        };
        let mut records: Vec<PacketRecord> = (0..PACKETS).filter_map(record).collect();
        records.sort_by_key(PacketRecord::arrived);
        records
    }

    fn in_stretches(length: u32) -> Analyzer {
        let streaming = Options { streaming: true, ..Options::default() };
        let mut analyzer = Analyzer::new(&session(), &streaming);
        if let Mode::Streaming(stream) = &mut analyzer.mode {
            stream.stretches_mut().unwrap().length = length;
        }
        analyzer
    }

    /// The answers with all packets at hand, and of stretches of `length`.
    fn answers(records: &[PacketRecord], length: u32) -> [Answer; 2] {
        let exact = analyze(&session(), records.iter().copied(), &Options::default());
        let mut analyzer = in_stretches(length);
        records.iter().for_each(|r| analyzer.push(r));
        [exact.answer.unwrap(), analyzer.finish(&session()).answer.unwrap()]
    }

    fn ids(answer: &Answer) -> Vec<CauseId> {
        answer.causes.iter().map(|c| c.id).collect()
    }

    /// Tests with one fault each, and its name.
    fn tests() -> Vec<(Option<CauseId>, Vec<PacketRecord>)> {
        // A TCP upload fills the queue and takes its rate back, again and again.
        let queue = |from: u32, to: u32| {
            let filled = |k: u32| 20 * MS + i64::from(k % 250) * 300_000 + 2000 * draw(k, 2);
            move |k: u32| Some(if (from..to).contains(&k) { filled(k - from) } else { 0 })
        };
        let away = |from: u32, to: u32| move |k: u32| (!(from..to).contains(&k)).then_some(0);
        let twice: Vec<PacketRecord> = records(|_| Some(0)).into_iter().flat_map(|r| [r, r]).collect();
        vec![
            (None, records(|_| Some(0))),
            (Some(CauseId::RandomLoss), records(|k| (draw(k, 3) >= 30).then_some(0))),
            (Some(CauseId::BurstyLoss), records(|k| (draw(k / 5, 3) >= 30).then_some(0))),
            (Some(CauseId::Outage), records(away(6200, 6500))),
            (Some(CauseId::Outage), records(away(7300, 7700))),
            (Some(CauseId::Outage), records(away(4000, 12_000))),
            (Some(CauseId::Queue), records(queue(8000, 9000))),
            (Some(CauseId::Queue), records(queue(6000, 9000))),
            (Some(CauseId::Duplication), twice),
        ]
    }

    #[test]
    fn stretches_together_say_what_all_packets_say() {
        for (fault, records) in tests() {
            for length in [2500, 7500] {
                let [exact, stretches] = answers(&records, length);
                assert_eq!(exact.causes.first().map(|c| c.id), fault, "{exact:#?}");
                assert_eq!(ids(&stretches), ids(&exact), "{length}: {stretches:#?}");
                assert_eq!(stretches.severity, exact.severity, "{fault:?}, {length}");
                for (mine, theirs) in stretches.causes.iter().zip(&exact.causes) {
                    let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
                    assert!(
                        near(mine.from_s, theirs.from_s, 1.0) && near(mine.to_s, theirs.to_s, 1.0),
                        "{mine:?} {theirs:?}"
                    );
                    let sizes = mine.magnitude_ns.zip(theirs.magnitude_ns);
                    assert!(sizes.is_none_or(|(a, b)| near(a as f64, b as f64, 0.1 * b as f64)), "{mine:?}");
                    let shares = mine.magnitude.zip(theirs.magnitude);
                    assert!(shares.is_none_or(|(a, b)| near(a, b, 0.2 * b)), "{mine:?} {theirs:?}");
                }
                let uses =
                    |a: &Answer| a.profiles.iter().map(|(k, v)| (k.clone(), v.severity)).collect::<Vec<_>>();
                assert_eq!(uses(&stretches), uses(&exact), "{fault:?}, {length}");
            }
        }
    }

    /// What a packet waits besides, in ns; None of one that is lost.
    type Extra<'a> = &'a dyn Fn(u32) -> Option<i64>;

    /// Of 200 000 packets: three stretches and a bit. Each fault lies in one of them, over a border, or fills one.
    #[test]
    fn a_long_test_has_the_same_answer_in_constant_memory() {
        const MANY: u32 = 200_000;
        let records = |extra: Extra<'_>| {
            let record = |k: u32| {
                let sent = 1_700_000_000_000_000_000 + i64::from(k) * PERIOD;
                let delay = 5 * MS + 100 * draw(k, 1) + extra(k)?;
                Some(PacketRecord::one_way(k.into(), WallTime(sent), WallTime(sent + delay)))
            };
            let mut records: Vec<PacketRecord> = (0..MANY).filter_map(record).collect();
            records.sort_by_key(PacketRecord::arrived);
            records
        };
        let session = {
            let spec = session().spec;
            let (direction, transport) = (spec.direction(), spec.transport());
            let spec =
                TestSpec::new(direction, transport, MANY.into(), 80, spec.period(), Schedule::Periodic)
                    .unwrap();
            Session { sent: Some(MANY), ending: Ending::Complete, ..Session::new(spec) }
        };
        // A queue that stands, with livelier delays, and drains.
        let plateau = |from: u32, to: u32| {
            move |k: u32| {
                Some(match k {
                    k if !(from..to).contains(&k) => 0,
                    k => (40 * MS + 2000 * draw(k, 2)).min(8 * MS * i64::from(to - k)),
                })
            }
        };
        let away = |from: u32, to: u32| move |k: u32| (!(from..to).contains(&k)).then_some(0);
        let longer = |from: u32| move |k: u32| Some(if k < from { 0 } else { 8 * MS });
        let until = |from: u32, to: u32| move |k: u32| Some(if (from..to).contains(&k) { 8 * MS } else { 0 });
        let cases: [(&str, Option<CauseId>, Extra<'_>); 12] = [
            ("clean", None, &|_| Some(0)),
            ("outage in one", Some(CauseId::Outage), &away(20_000, 20_500)),
            ("outage over a border", Some(CauseId::Outage), &away(65_000, 66_500)),
            ("queue in one", Some(CauseId::Queue), &plateau(70_000, 90_000)),
            ("queue over a border", Some(CauseId::Queue), &plateau(125_000, 140_000)),
            ("queue that fills most of one", Some(CauseId::Queue), &plateau(68_000, 129_000)),
            ("queue to the end of one", Some(CauseId::Queue), &plateau(72_000, 133_000)),
            ("queue that fills more than one", Some(CauseId::Queue), &plateau(40_000, 160_000)),
            ("queue that does not end", Some(CauseId::Queue), &plateau(60_000, MANY)),
            ("longer way for more than one", Some(CauseId::RouteChange), &until(50_000, 150_000)),
            ("route", Some(CauseId::RouteChange), &longer(100_000)),
            ("losses", Some(CauseId::RandomLoss), &|k| (draw(k, 3) >= 20).then_some(0)),
        ];
        for (name, fault, extra) in cases {
            let records = records(extra);
            let answer = |streaming: bool| {
                let options = Options { streaming, ..Options::default() };
                analyze(&session, records.iter().copied(), &options).answer.unwrap()
            };
            let [exact, stretches] = [answer(false), answer(true)];
            assert_eq!(ids(&exact), Vec::from_iter(fault), "{name}: {:#?}", exact.causes);
            assert_eq!(ids(&stretches), ids(&exact), "{name}: {:#?}", stretches.causes);
            assert_eq!(
                stretches.severity, exact.severity,
                "{name}: {:#?} {:#?}",
                stretches.causes, exact.causes
            );
            let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
            for (mine, theirs) in stretches.causes.iter().zip(&exact.causes) {
                let times = near(mine.from_s, theirs.from_s, 1.0) && near(mine.to_s, theirs.to_s, 1.0);
                assert!(times, "{name}: {mine:?} {theirs:?}");
                let sizes = mine.magnitude_ns.zip(theirs.magnitude_ns);
                assert!(
                    sizes.is_none_or(|(a, b)| near(a as f64, b as f64, 0.05 * b as f64)),
                    "{name}: {mine:?}"
                );
                let shares = mine.magnitude.zip(theirs.magnitude);
                assert!(shares.is_none_or(|(a, b)| near(a, b, 0.05 * b)), "{name}: {mine:?} {theirs:?}");
                assert_eq!(mine.because, theirs.because, "{name}");
            }
        }
    }

    #[test]
    fn a_test_of_one_stretch_is_judged_as_any_test() {
        for (_, records) in tests() {
            let [exact, one] = answers(&records, LENGTH);
            assert_eq!(one, exact);
        }
    }

    #[test]
    fn damaged_rows_and_rows_far_too_late_are_no_packets_of_a_stretch() {
        let mut all = records(|_| Some(0));
        let mut damaged = all[5000];
        damaged.flags = Flags::LENGTH;
        all[5000] = damaged;
        // Packet 10 comes after all others: in its stretch it is lost.
        let late = all.remove(10);
        all.push(late);
        let [_, stretches] = answers(&all, 2500);
        assert_eq!(ids(&stretches), []);
    }
}
