//! [`Engine`]: the analysis of one stream of delays. It is exact while its samples fit into the permitted
//! memory; beyond that, its errors have stated limits. A one-way test is one stream, a round-trip test three.

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

/// Analysis of one stream, in progress.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    /// Session of the test, as known when the analysis began.
    pub test: Arc<Session>,
    /// Judge of each stretch of the stream, for an analysis in constant memory.
    judge: Option<SharedJudge>,
    /// Maximum number of stored packets; with more, the analysis switches to constant memory.
    max_packets: usize,
    /// Counts all received packets, including those whose delay is unknown.
    pub classifier: Classifier,
    pub tally: Tally,
    pub samples: Packets,
}

/// The packets received so far: all of them, or statistics in constant memory.
#[derive(Clone, Debug)]
pub(super) enum Packets {
    /// All packets: every figure is exact.
    All(Box<Gathered>),
    /// Statistics in constant memory: figures have a stated maximum error.
    Sketched(Box<Sketch>),
}

impl Engine {
    /// Starts the analysis of a stream of `test`.
    pub fn new(test: Arc<Session>, options: &Options) -> Engine {
        let engine = Engine::of(&test, Classifier::new(declared(&test)), Tally::of(&test), Gathered::noted());
        let max_packets = usize::try_from(options.memory / PACKET_BYTES).unwrap_or(usize::MAX);
        let engine = Engine { test, judge: options.judge.clone(), max_packets, ..engine };
        if options.streaming { engine.sketched() } else { engine }
    }

    /// Creates an exact analysis that already contains packets.
    pub fn of(test: &Arc<Session>, classifier: Classifier, tally: Tally, packets: Gathered) -> Engine {
        let samples = Packets::All(Box::new(packets));
        Engine { test: test.clone(), judge: None, max_packets: usize::MAX, classifier, tally, samples }
    }

    /// Returns an analysis of the same test without packets, in constant memory from the start.
    pub fn sketched(&self) -> Engine {
        let sketch = match &self.samples {
            Packets::All(_) => Sketch::new(&self.test, self.judge.clone()),
            Packets::Sketched(sketch) => sketch.emptied(&self.test),
        };
        Engine {
            test: self.test.clone(),
            judge: self.judge.clone(),
            max_packets: self.max_packets,
            classifier: Classifier::new(self.classifier.packets()),
            tally: self.tally.emptied(),
            samples: Packets::Sketched(Box::new(sketch)),
        }
    }

    /// Returns all packets; `None` in constant memory.
    pub fn gathered(&self) -> Option<&Gathered> {
        match &self.samples {
            Packets::All(packets) => Some(packets),
            Packets::Sketched(_) => None,
        }
    }

    /// Returns the statistics in constant memory; `None` if all packets are stored.
    pub fn sketch(&self) -> Option<&Sketch> {
        match &self.samples {
            Packets::All(_) => None,
            Packets::Sketched(sketch) => Some(sketch),
        }
    }

    /// Sets the number of packets per stretch, as [`super::Analyzer::set_stretch_length`] describes.
    pub fn set_stretch_length(&mut self, packets: u32) {
        if let Packets::Sketched(sketch) = &mut self.samples {
            sketch.set_stretch_length(packets);
        }
    }

    /// Returns the number of rows so far.
    pub fn received(&self) -> u64 {
        self.classifier.received
    }

    /// Returns the packets of `session` that are known to be received or lost.
    pub fn extent(&self, session: &Session) -> KnownPackets {
        let came = &self.classifier.accepted;
        match &self.samples {
            Packets::All(_) => KnownPackets::of(session, came),
            Packets::Sketched(sketch) => {
                KnownPackets::up_to(session, came.max(), |met| sketch.longest(came, met))
            }
        }
    }

    /// Adds the next record, in arrival order.
    #[inline]
    pub fn push(&mut self, record: &PacketRecord) {
        self.push_row(record, Classifier::packet(record).map_or(Row::Damaged, Row::Clean));
        self.limit_memory();
    }

    /// Adds the next record, in arrival order. The packet was received, but its delay is unknown.
    pub fn push_delayless(&mut self, record: &PacketRecord) {
        self.push_row(record, Row::Delayless);
    }

    #[inline]
    fn push_row(&mut self, record: &PacketRecord, row: Row) {
        self.tally.row(record);
        let Some(seq) = self.classifier.number(record) else { return self.classifier.refuse() };
        match &mut self.samples {
            Packets::All(packets) => {
                let counts = row.count(seq, &mut self.classifier);
                if counts == Counts::First && row.packet().is_some() {
                    self.tally.accepted(record, seq);
                    packets.note(record, seq);
                }
                // A copy without a delay is not compared with the arrival of the first copy.
                let at = record.arrived().filter(|_| !matches!(row, Row::Delayless));
                packets.push(seq, row, counts, at.map(|t| t.0));
            }
            Packets::Sketched(sketch) => sketch.push(&mut self.classifier, seq, row, Some(record)),
        }
    }

    /// Adds the next records, in arrival order. Faster than one [`push`](Engine::push) per record, with the same
    /// result.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut rest) = (Plain::new(), records);
        while let Some(first) = rest.first() {
            let taken = self.take_plain(&mut plain, &rest[..rest.len().min(self.max_batch())]);
            let (rows, later) = rest.split_at(taken.max(1));
            rest = later;
            if taken == 0 {
                self.push(first);
                continue;
            }
            self.tally.plain(rows, &plain);
            match &mut self.samples {
                Packets::All(packets) => {
                    if plain.lags {
                        rows.iter().zip(plain.seq()).for_each(|(row, seq)| self.tally.accepted(row, *seq));
                    }
                    packets.push_all(&plain, rows);
                }
                Packets::Sketched(sketch) => sketch.push_all(&mut self.classifier, &plain, rows),
            }
            self.limit_memory();
        }
    }

    /// Returns the maximum number of rows that may be added together. Because of this limit, constant memory
    /// begins with the same row regardless of how the rows are divided into calls.
    fn max_batch(&self) -> usize {
        match &self.samples {
            Packets::All(packets) => self.max_packets.saturating_add(1).saturating_sub(packets.samples.len()),
            Packets::Sketched(sketch) => sketch.max_batch(),
        }
    }

    /// Accepts the packets at the start of `records` that are clean and new, and stores them in `plain`.
    /// Returns their number.
    fn take_plain(&mut self, plain: &mut Plain, records: &[PacketRecord]) -> usize {
        let Engine { classifier, samples, .. } = self;
        let (forgotten, pages) = match samples {
            Packets::All(_) => (0, usize::MAX),
            Packets::Sketched(sketch) => sketch.remembers(),
        };
        // Numbers below `next` may be copies, and forgotten numbers cannot be classified: both take the slow path.
        let (next, packets) = (classifier.next().max(forgotten), classifier.packets());
        let in_order = plain.take(records, next, packets);
        if in_order > 0 {
            classifier.accept_all(plain.runs());
            return in_order;
        }
        plain.take_new(records, packets, |seq| {
            // Stop at a packet after which the oldest numbers would be forgotten.
            classifier.accepted.pages() <= pages && u64::from(seq) >= forgotten && classifier.accept(seq)
        })
    }

    /// Switches to constant memory if the stored packets exceed the limit.
    #[inline]
    pub fn limit_memory(&mut self) {
        if let Packets::All(packets) = &self.samples
            && packets.samples.len() > self.max_packets
        {
            let whole = core::mem::replace(self, self.sketched());
            self.append_rows(whole);
        }
    }

    /// Checks that [`Engine::append`] can add `next`.
    pub fn check_append(&self, next: &Engine) -> Result<(), NotMergeable> {
        next.sketch().map_or(Ok(()), |sketch| sketch.check_behind(self.classifier.accepted.max()))
    }

    /// Appends the analysis of the rows that follow. Call [`Engine::check_append`] first.
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
        self.limit_memory();
    }

    /// Adds the rows of an analysis that has stored all packets. They are classified again, because the packets that
    /// preceded them are now known.
    fn append_rows(&mut self, next: Engine) {
        let Engine { classifier, tally, samples: Packets::All(packets), .. } = next else { return };
        let came = &self.classifier.accepted;
        match &mut self.samples {
            Packets::All(mine) => {
                self.tally.append(tally, |seq| !came.contains(seq));
                mine.append_notes(&packets, |seq| !came.contains(seq));
            }
            Packets::Sketched(sketch) => {
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

    /// Adds a row that arrived at `at` and was already counted by another analysis.
    fn push_again(&mut self, seq: u32, row: Row, at: Option<i64>) {
        match &mut self.samples {
            Packets::All(packets) => packets.push(seq, row, row.count(seq, &mut self.classifier), at),
            Packets::Sketched(sketch) => sketch.push(&mut self.classifier, seq, row, None),
        }
    }

    /// Adds the rows of `next`; both analyses are in constant memory. The first rows of `next` are pushed again one by
    /// one, which reproduces everything that depends on earlier packets; the counts of its later rows are added.
    fn append_sketch(&mut self, next: Engine) {
        let mut lead = next.sketched();
        let Engine { classifier, tally, samples: Packets::Sketched(later), .. } = next else { return };
        self.tally.append(tally, |_| false);
        for (seq, row) in later.first_rows() {
            lead.push_again(seq, row, None);
            self.push_again(seq, row, None);
        }
        let Packets::Sketched(had) = lead.samples else { return };
        let Packets::Sketched(sketch) = &mut self.samples else { return };
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
