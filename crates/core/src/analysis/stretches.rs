//! [`Stretches`]: the verdict on a stream of any length in constant memory. Each stretch of so many packets is judged by
//! itself as soon as it is whole, by the rules that judge a test; a test of one stretch as a test is.

use super::Gathered;
use super::exact::stream_times;
use super::saved::{Impossible, MOST_ROWS, require};
use crate::distribution::Sample;
use crate::metrics::classify::Packet;
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::schedule_error::Errors;
use crate::metrics::seqset::SeqSet;
use crate::metrics::series::{Samples, Series};
use crate::record::{Moment, PacketRecord};
use crate::session::{Ending, Session};
use crate::spec::Schedule;
use crate::time::Source;
use crate::verdict::{self, Accumulated, Judgement, Material, RowNotes, Whole};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Packets of a stretch.
const LENGTH: u32 = 65_536;

/// Constant memory: some 2 MB.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretches {
    /// The test, as far as it was known when it began: not stored.
    #[serde(skip)]
    test: Option<Box<Session>>,
    length: u32,
    /// Number of the first packet of the stretch that is open.
    first: u32,
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
            first: 0,
            origin: None,
            open: Rows::default(),
            closed: Accumulated::default(),
        }
    }

    /// The same test before its first packet.
    pub fn emptied(&self) -> Stretches {
        let (closed, open) = (Accumulated::default(), Rows::default());
        Stretches { test: self.test.clone(), length: self.length, first: 0, origin: None, open, closed }
    }

    /// Adds the rows that follow, unless they were judged without these: false.
    #[must_use]
    pub fn append(&mut self, next: Stretches) -> bool {
        next.closed.stretches() == 0 && self.append_rows(next.open, next.origin)
    }

    /// Adds the rows of an analysis of all packets, if they are no more than those of a stretch.
    #[must_use]
    pub(super) fn append_packets(&mut self, next: &Gathered) -> bool {
        let came = next.came().into_owned();
        let Some(notes) = next.notes.clone() else { return false };
        if came.max().is_some_and(|seq| seq >= self.length + self.slack()) {
            return false;
        }
        let first = next.samples.iter().next();
        let origin = first.map(|packet| self.before(packet.seq, packet.sent));
        let Gathered { samples, delayless, copies, damaged, tally, .. } = next;
        let (samples, delayless) = (samples.clone(), delayless.clone());
        let (copies, damaged) = (copies.clone(), damaged.clone());
        let rows = Rows { samples, delayless, copies, damaged, notes, arrived: tally.arrived(), came };
        self.append_rows(rows, origin)
    }

    /// Adds rows with numbers of the stream.
    fn append_rows(&mut self, mut next: Rows, origin: Option<i64>) -> bool {
        let next = if self.first > 0 { next.split(self.first) } else { next };
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
        while seq.checked_sub(self.first).is_some_and(|n| n >= self.length + self.slack()) {
            self.close();
        }
        let Some(seq) = seq.checked_sub(self.first) else { return };
        let origin = packet.map(|packet| self.before(seq.saturating_add(self.first), packet.sent));
        self.origin = self.origin.or(origin);
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

    /// A further copy of packet `seq`.
    pub fn push_copy(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = seq.checked_sub(self.first).filter(|seq| self.open.came.contains(*seq)) else {
            return;
        };
        self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
        if self.open.copies.len() < 4 * u64::from(self.length) {
            self.open.copies.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// A row of packet `seq` that is damaged, and no further copy.
    pub fn push_damaged(&mut self, seq: u32, record: &PacketRecord) {
        let Some(seq) = seq.checked_sub(self.first) else { return };
        if seq < self.length + self.slack() && self.open.damaged.len() < 4 * u64::from(self.length) {
            self.open.arrived[record.source(Moment::Arrived) as usize] += 1;
            self.open.damaged.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// Judges the open stretch, of which everything is known, and begins the next.
    fn close(&mut self) {
        let rest = self.open.split(self.length);
        let rows = std::mem::replace(&mut self.open, rest);
        if let Some(test) = &self.test {
            let session = Session {
                declared: Some(self.length.into()),
                sent: Some(self.length),
                ending: Ending::Complete,
                ..(**test).clone()
            };
            self.closed = self.with(&rows, &session);
        }
        self.first = self.first.saturating_add(self.length);
    }

    /// What is known with the stretch of `rows`.
    fn with(&self, rows: &Rows, session: &Session) -> Accumulated {
        let mut closed = self.closed.clone();
        let clock = ClockEstimate::new(session, None);
        let origin = self.origin.unwrap_or(0);
        let period = session.period().map_or(0, |p| p.0);
        let due = origin.saturating_add(period.saturating_mul(self.first.into()));
        rows.judged(session, &clock, false, &[], |material| {
            closed.add(material, self.first, origin, due);
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
        let left = |n: u64| n.saturating_sub(self.first.into());
        let last = Session {
            declared: Some(left(session.declared.unwrap_or(session.spec.packets().into()))),
            sent: session.sent.map(|n| n.saturating_sub(self.first)),
            ending: session.ending,
            truncated: session.truncated,
            ..test.clone()
        };
        let whole = Whole { session, known, clock, received, min, round_trip, profiles };
        self.with(&self.open, &last).judgement(&whole)
    }

    /// Takes over what was stored, after a check that a stream can have come to it.
    pub fn restore(&mut self, read: Stretches, rows: u64) -> Result<(), Impossible> {
        let numbers = read.length == self.length;
        require(numbers, "stretches of another length")?;
        read.open.check(self.length + self.slack())?;
        require(read.closed.is_possible(rows), "causes that cannot be")?;
        *self = Stretches { test: self.test.take(), ..read };
        Ok(())
    }
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
    /// Takes out the rows from number `length` on, which are then numbered from there.
    fn split(&mut self, length: u32) -> Rows {
        let mut rest = Rows { notes: self.notes.split(length), ..Rows::default() };
        let Rows { samples, delayless, copies, damaged, came, .. } = self;
        samples.retain(|p| {
            let stays = p.seq < length;
            if !stays {
                rest.samples.push(Packet { seq: p.seq - length, ..*p });
            }
            stays
        });
        let moved = |from: &mut SeqSet, to: &mut SeqSet| {
            let later: Vec<u32> = from.iter().filter(|seq| *seq >= length).collect();
            for seq in later {
                from.remove(seq);
                to.insert(seq - length);
            }
        };
        moved(delayless, &mut rest.delayless);
        moved(came, &mut rest.came);
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
        let Rows { samples, copies, notes, arrived, came, delayless, .. } = self;
        let accepted = if delayless.is_empty() { Cow::Borrowed(came) } else { Cow::Owned(set(samples)) };
        let series = Series::new(samples, &accepted);
        let sample = Sample::new(samples.delay.iter().copied());
        let errors = session.period().and_then(|_| Errors::new(&series, &session.spec));
        let mut stamped = Source::ALL.into_iter().filter(|s| arrived[*s as usize] > 0);
        let arrived_by = stamped.next().filter(|_| stamped.next().is_none());
        judge(&Material {
            session,
            series: &series,
            came,
            sample: &sample,
            copies,
            clock,
            notes,
            arrived_by,
            off_schedule: errors.as_ref().and_then(Errors::extremes),
            round_trip,
            profiles,
        })
    }

    /// Whether these can be rows with numbers below `end`.
    fn check(&self, end: u32) -> Result<(), Impossible> {
        let Rows { samples, delayless, copies, damaged, notes, arrived, came } = self;
        let rows = samples.len();
        require(rows == samples.sent.len() && rows == samples.delay.len(), "columns of different lengths")?;
        let accepted = set(samples);
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

/// The numbers of `samples`.
fn set(samples: &Samples) -> SeqSet {
    let mut numbers = SeqSet::default();
    samples.seq.iter().for_each(|seq| {
        numbers.insert(*seq);
    });
    numbers
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
