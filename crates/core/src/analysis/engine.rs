//! [`Engine`]: the analysis of one stream of delays, exact while its samples fit the memory they may take, within a stated
//! error beyond. A test that goes one way is one stream; a round-trip test is three.

use super::gathered::Gathered;
use super::options::{Options, PACKET_BYTES};
use super::plain::Plain;
use super::row::{Counts, Row};
use super::sketch::Sketch;
use super::tally::Tally;
use super::{NotMergeable, declared};
use crate::evidence::{KnownPackets, SharedJudge};
use crate::metrics::classify::Classifier;
use crate::record::PacketRecord;
use crate::session::Session;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An analysis of one stream in progress.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    /// The test, as far as it was known when it began.
    pub test: Arc<Session>,
    /// Who judges the stretches of a stream whose samples are sketched.
    judge: Option<SharedJudge>,
    /// Packets that are kept while there are no more.
    room: usize,
    /// Of all packets that came, with a delay or without.
    pub classifier: Classifier,
    pub tally: Tally,
    pub samples: Kept,
}

/// What is kept of the packets.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// All of them: every figure is exact.
    All(Box<Gathered>),
    /// Constant memory, figures within a stated error.
    Sketched(Box<Sketch>),
}

impl Engine {
    /// The analysis of the stream of `test`.
    pub fn new(test: Arc<Session>, options: &Options) -> Engine {
        let engine = Engine::of(&test, Classifier::new(declared(&test)), Tally::of(&test), Gathered::noted());
        let room = usize::try_from(options.memory / PACKET_BYTES).unwrap_or(usize::MAX);
        let engine = Engine { test, judge: options.judge.clone(), room, ..engine };
        if options.streaming { engine.sketched() } else { engine }
    }

    /// Of these packets, all of which are kept.
    pub fn of(test: &Arc<Session>, classifier: Classifier, tally: Tally, packets: Gathered) -> Engine {
        let samples = Kept::All(Box::new(packets));
        Engine { test: test.clone(), judge: None, room: usize::MAX, classifier, tally, samples }
    }

    /// The same before its first packet, in constant memory from there on.
    pub fn sketched(&self) -> Engine {
        let sketch = match &self.samples {
            Kept::All(_) => Sketch::new(&self.test, self.judge.clone()),
            Kept::Sketched(sketch) => sketch.emptied(&self.test),
        };
        Engine {
            test: self.test.clone(),
            judge: self.judge.clone(),
            room: self.room,
            classifier: Classifier::new(self.classifier.packets()),
            tally: self.tally.emptied(),
            samples: Kept::Sketched(Box::new(sketch)),
        }
    }

    /// All packets; `None` if they are not kept.
    pub fn gathered(&self) -> Option<&Gathered> {
        match &self.samples {
            Kept::All(packets) => Some(packets),
            Kept::Sketched(_) => None,
        }
    }

    /// What is kept instead of the packets; `None` if they are.
    pub fn sketch(&self) -> Option<&Sketch> {
        match &self.samples {
            Kept::All(_) => None,
            Kept::Sketched(sketch) => Some(sketch),
        }
    }

    /// See [`super::Analyzer::set_stretch_length`].
    pub fn set_stretch_length(&mut self, packets: u32) {
        if let Kept::Sketched(sketch) = &mut self.samples {
            sketch.set_stretch_length(packets);
        }
    }

    /// Number of rows so far.
    pub fn received(&self) -> u64 {
        self.classifier.received
    }

    /// How much of the test of `session` is known.
    pub fn extent(&self, session: &Session) -> KnownPackets {
        let came = &self.classifier.accepted;
        match &self.samples {
            Kept::All(_) => KnownPackets::of(session, came),
            Kept::Sketched(sketch) => {
                KnownPackets::up_to(session, came.max(), |met| sketch.longest(came, met))
            }
        }
    }

    /// The next record, in arrival order.
    #[inline]
    pub fn push(&mut self, record: &PacketRecord) {
        self.push_row(record, Classifier::packet(record).map_or(Row::Damaged, Row::Clean));
        self.keep_to_room();
    }

    /// The next record, of a packet that came and of which no delay is known.
    pub fn push_delayless(&mut self, record: &PacketRecord) {
        self.push_row(record, Row::Delayless);
    }

    #[inline]
    fn push_row(&mut self, record: &PacketRecord, row: Row) {
        self.tally.row(record);
        let Some(seq) = self.classifier.number(record) else { return self.classifier.refuse() };
        match &mut self.samples {
            Kept::All(packets) => {
                let counts = row.count(seq, &mut self.classifier);
                if counts == Counts::First && row.packet().is_some() {
                    self.tally.accepted(record, seq);
                    packets.note(record, seq);
                }
                // Without a delay its arrival is nothing that the first copy's can be compared with.
                let at = record.arrived().filter(|_| !matches!(row, Row::Delayless));
                packets.push(seq, row, counts, at.map(|t| t.0));
            }
            Kept::Sketched(sketch) => sketch.push(&mut self.classifier, seq, row, Some(record)),
        }
    }

    /// The next records, in arrival order: the same as one after the other, and faster.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut rest) = (Plain::new(), records);
        while let Some(first) = rest.first() {
            let taken = self.take_plain(&mut plain, &rest[..rest.len().min(self.at_once())]);
            let (rows, later) = rest.split_at(taken.max(1));
            rest = later;
            if taken == 0 {
                self.push(first);
                continue;
            }
            self.tally.plain(rows, &plain);
            match &mut self.samples {
                Kept::All(packets) => {
                    if plain.lags {
                        rows.iter().zip(plain.seq()).for_each(|(row, seq)| self.tally.accepted(row, *seq));
                    }
                    packets.push_all(&plain, rows);
                }
                Kept::Sketched(sketch) => sketch.push_all(&mut self.classifier, &plain, rows),
            }
            self.keep_to_room();
        }
    }

    /// Rows that may be taken together, so that constant memory begins with the same row wherever they were cut.
    fn at_once(&self) -> usize {
        match &self.samples {
            Kept::All(packets) => self.room.saturating_add(1).saturating_sub(packets.samples.len()),
            Kept::Sketched(sketch) => sketch.at_once(),
        }
    }

    /// Accepts the packets with which `records` begins, as many as there are clean and new ones, and hands them out in
    /// `plain`; how many.
    fn take_plain(&mut self, plain: &mut Plain, records: &[PacketRecord]) -> usize {
        let Engine { classifier, samples, .. } = self;
        let (forgotten, pages) = match samples {
            Kept::All(_) => (0, usize::MAX),
            Kept::Sketched(sketch) => sketch.remembers(),
        };
        let (next, packets) = (classifier.next().max(forgotten), classifier.packets());
        let in_order = plain.take(records, next, packets);
        if in_order > 0 {
            classifier.accept_all(plain.runs());
            return in_order;
        }
        plain.take_new(records, packets, |seq| {
            // Up to a number for which others are to be forgotten.
            classifier.accepted.pages() <= pages && u64::from(seq) >= forgotten && classifier.accept(seq)
        })
    }

    /// Goes on in constant memory, where the packets that are kept take more than they may.
    #[inline]
    pub fn keep_to_room(&mut self) {
        if let Kept::All(packets) = &self.samples
            && packets.samples.len() > self.room
        {
            let whole = core::mem::replace(self, self.sketched());
            self.append_rows(whole);
        }
    }

    /// Whether [`Engine::append`] can add `next`.
    pub fn check_append(&self, next: &Engine) -> Result<(), NotMergeable> {
        next.sketch().map_or(Ok(()), |sketch| sketch.check_behind(self.classifier.accepted.max()))
    }

    /// Adds what followed, after [`Engine::check_append`].
    pub fn append(&mut self, next: Engine) {
        if next.sketch().is_none() {
            self.append_rows(next);
        } else if self.received() == 0 {
            *self = next;
        } else {
            if self.sketch().is_none() {
                let whole = core::mem::replace(self, next.sketched());
                self.append_rows(whole);
            }
            self.append_sketch(next);
        }
        self.keep_to_room();
    }

    /// Adds the rows of an analysis that has kept all packets: they are classified again, now that it is known what came
    /// before them.
    fn append_rows(&mut self, next: Engine) {
        let Engine { classifier, tally, samples: Kept::All(packets), .. } = next else { return };
        let came = &self.classifier.accepted;
        match &mut self.samples {
            Kept::All(mine) => {
                self.tally.append(tally, |seq| !came.contains(seq));
                mine.append_notes(&packets, |seq| !came.contains(seq));
            }
            Kept::Sketched(sketch) => {
                sketch.append_stretches(&packets, classifier.accepted, &tally);
                self.tally.append(tally, |_| false);
            }
        }
        let before = self.received();
        let Gathered { samples, delayless, copies, damaged, .. } = *packets;
        damaged.iter().for_each(|(seq, at)| self.push_again(seq, Row::Damaged, at));
        let mut again: BTreeMap<u32, Vec<Option<i64>>> = BTreeMap::new();
        copies.iter().for_each(|(seq, at)| again.entry(seq).or_default().push(at));
        let clean = samples.iter().map(|packet| (packet.seq, Row::Clean(packet)));
        for (seq, row) in clean.chain(delayless.iter().map(|seq| (seq, Row::Delayless))) {
            self.push_again(seq, row, row.packet().map(|packet| packet.arrived()));
            for at in again.get(&seq).into_iter().flatten() {
                self.push_again(seq, Row::Damaged, *at);
            }
        }
        let others = (before + classifier.received).saturating_sub(self.received());
        self.classifier.received += others;
        self.classifier.invalid += others;
    }

    /// Takes a row again that arrived at `at` and was noted and counted elsewhere.
    fn push_again(&mut self, seq: u32, row: Row, at: Option<i64>) {
        match &mut self.samples {
            Kept::All(packets) => packets.push(seq, row, row.count(seq, &mut self.classifier), at),
            Kept::Sketched(sketch) => sketch.push(&mut self.classifier, seq, row, None),
        }
    }

    /// Adds the rows that `next` has had, in constant memory like this one. Its first rows are taken again one by one, with
    /// which all that depends on what came before comes to the same; what it has counted after them is added.
    fn append_sketch(&mut self, next: Engine) {
        let mut lead = next.sketched();
        let Engine { classifier, tally, samples: Kept::Sketched(later), .. } = next else { return };
        self.tally.append(tally, |_| false);
        for (seq, row) in later.first_rows() {
            lead.push_again(seq, row, None);
            self.push_again(seq, row, None);
        }
        let Kept::Sketched(had) = lead.samples else { return };
        let Kept::Sketched(sketch) = &mut self.samples else { return };
        let had_rows = lead.classifier;
        self.classifier.received += classifier.received.saturating_sub(had_rows.received);
        self.classifier.invalid += classifier.invalid.saturating_sub(had_rows.invalid);
        let mut new = classifier.accepted;
        had_rows.accepted.iter().for_each(|seq| {
            new.remove(seq);
        });
        self.classifier.accepted.merge(&new);
        sketch.join(*later, *had, &mut self.classifier);
    }
}
