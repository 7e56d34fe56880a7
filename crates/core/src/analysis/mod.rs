//! [`Analyzer`]: records in, [`Summary`] out. [`analyze`] runs one over an iterator.

mod assemble;
mod exact;
mod notes;
mod options;
mod plain;
mod saved;
mod stream;
mod stretches;
pub(crate) mod tally;
mod twoway;
mod union;
mod windows;

pub use crate::metrics::series::Samples;
pub use options::{Options, PACKET_BYTES};
pub(crate) use saved::Saved;

use crate::answer::Warning;
use crate::evidence::RowNotes;
use crate::helpers::Helpers;
use crate::metrics::classify::{Class, Classifier};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::duplicate::Copies;
use crate::metrics::known::DelayKind;
use crate::metrics::seqset::SeqSet;
use crate::record::PacketRecord;
use crate::session::Session;
use crate::summary::Summary;
use assemble::Findings;
use plain::Plain;
use std::borrow::Cow;
use std::sync::Arc;
use tally::Tally;

/// With fewer packets than this, starting a thread takes longer than it saves.
const LARGE: u64 = 1 << 14;

/// Sequence numbers below this are valid.
fn declared(session: &Session) -> u32 {
    session.declared.map_or(session.spec.packets(), |n| u32::try_from(n).unwrap_or(u32::MAX))
}

/// Records collected before they are analysed.
const AT_ONCE: usize = 256;

/// Analyses one stream of records in arrival order.
pub fn analyze(
    session: &Session,
    records: impl IntoIterator<Item = PacketRecord>,
    options: &Options,
) -> Summary {
    let mut analyzer = Analyzer::new(session, options);
    let mut records = records.into_iter();
    let mut some: Vec<PacketRecord> = Vec::with_capacity(AT_ONCE);
    loop {
        some.clear();
        some.extend(records.by_ref().take(AT_ONCE));
        if some.is_empty() {
            return analyzer.finish(session);
        }
        analyzer.push_all(&some);
    }
}

/// An analysis in progress. Memory: 20 bytes a packet accepted, up to about 40 while it finishes; constant beyond
/// [`Options::memory`] and with [`Options::streaming`]; never by what a header claims.
#[derive(Clone, Debug)]
pub struct Analyzer {
    options: Options,
    /// The test, as far as it was known when it began.
    test: Arc<Session>,
    mode: Mode,
}

#[derive(Clone, Debug)]
enum Mode {
    Exact(Box<Gathered>),
    Streaming(Box<stream::Stream>),
    TwoWay(Box<twoway::TwoWayAnalysis>),
}

/// What was collected row by row.
#[derive(Clone, Debug)]
struct Gathered {
    classifier: Classifier,
    /// Without the numbers of `delayless`.
    samples: Samples,
    /// Packets that came and have no delay.
    delayless: SeqSet,
    copies: Copies,
    /// Rows that are invalid only because no clean copy preceded them.
    damaged: Copies,
    tally: Tally,
    /// None of a part of a test, which has no verdict of its own.
    notes: Option<RowNotes>,
}

/// Why two analyses cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotMergeable {
    /// The later part, analysed in constant memory, has forgotten which of its first packets it accepted. One analyzer
    /// takes the whole stream instead, see [`SavedAnalysis::resume`](crate::state::SavedAnalysis::resume).
    #[error(
        "the later part is so long that in constant memory its first packets are forgotten (after two million): \
         analyse its log as what follows the first part (--merge --streaming)"
    )]
    Forgotten,
    /// Packets of the earlier part, or their neighbours, came after the rows that the later one has kept.
    #[error(
        "packets of the two parts arrived mixed, beyond the 4096 rows that an analysis in constant memory keeps: give the \
         parts in the order of time, or analyse their logs one after another (--merge --streaming)"
    )]
    Interleaved,
    /// Only the parts of one test can be put together in constant memory.
    #[error("this is a part of another test, and in constant memory only parts of one test are put together")]
    AnotherTest,
    /// They are of different traffic: what differs.
    #[error("these are not tests of the same traffic: {0}")]
    Unlike(&'static str),
    /// Together they would have more packets than a test can have.
    #[error("together these tests have more packets than one test can have (2147483647)")]
    TooLong,
    /// Their times are so far from each other that the clock cannot hold the difference.
    #[error("the times of these tests are too far apart")]
    TooFarApart,
}

const ONE_WAY_AND_TWO_WAY: NotMergeable =
    NotMergeable::Unlike("one is a one-way test, the other a two-way test");

impl Analyzer {
    /// An analysis of the stream `session` describes. What is not known yet (probes, the end) may be
    /// filled in the session given to [`Analyzer::finish`].
    pub fn new(session: &Session, options: &Options) -> Analyzer {
        let (options, test) = (options.clone(), Arc::new(session.clone()));
        if let Some(facts) = &session.two_way {
            let two_way = twoway::TwoWayAnalysis::new(session, facts, &options);
            return Analyzer { options, test, mode: Mode::TwoWay(Box::new(two_way)) };
        }
        if options.streaming {
            let mode = Mode::Streaming(Box::new(stream::Stream::new(&test, options.judge.clone())));
            return Analyzer { options, test, mode };
        }
        let gathered = Gathered {
            classifier: Classifier::new(declared(session)),
            tally: Tally::of(session),
            notes: Some(RowNotes::default()),
            ..Gathered::empty()
        };
        Analyzer { options, test, mode: Mode::Exact(Box::new(gathered)) }
    }

    /// The next record, in arrival order.
    #[inline]
    pub fn push(&mut self, record: &PacketRecord) {
        match &mut self.mode {
            Mode::Exact(gathered) => {
                gathered.push(record);
                self.keep_to_memory();
            }
            Mode::Streaming(stream) => stream.push(record),
            Mode::TwoWay(views) => views.push(record),
        }
    }

    /// Goes on in constant memory, where the packets that are kept take more than they may.
    #[inline]
    fn keep_to_memory(&mut self) {
        if let Mode::Exact(gathered) = &mut self.mode
            && gathered.samples.len() as u64 * PACKET_BYTES > self.options.memory
        {
            let gathered = core::mem::replace(&mut **gathered, Gathered::empty());
            let stream = stream::Stream::of_packets(&self.test, self.options.judge.clone(), gathered);
            self.mode = Mode::Streaming(Box::new(stream));
        }
    }

    /// The next records, in arrival order: the same as one after the other by [`Analyzer::push`], and faster.
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        match &mut self.mode {
            Mode::Exact(gathered) => {
                gathered.push_all(records);
                self.keep_to_memory();
            }
            Mode::Streaming(stream) => stream.push_all(records),
            Mode::TwoWay(views) => views.push_all(records),
        }
    }

    /// The next record, of an answer that came and of which no delay is known ([`lacks_delay`](crate::twoway::lacks_delay)).
    fn push_delayless(&mut self, record: &PacketRecord) {
        match &mut self.mode {
            Mode::Exact(gathered) => gathered.push_delayless(record),
            Mode::Streaming(stream) => stream.push_delayless(record),
            Mode::TwoWay(_) => {}
        }
    }

    /// Adds the analysis of the rows that follow, which must be of the same session: together they give
    /// exactly what one analyzer of all rows would; in constant memory, which the result is if either is, but for what
    /// docs/metrics lists. On an error this one is as it was.
    pub fn append(&mut self, next: Analyzer) -> Result<(), NotMergeable> {
        self.check_append(&next)?;
        match (&mut self.mode, next.mode) {
            (Mode::Exact(gathered), Mode::Exact(next)) => gathered.append(*next),
            (Mode::Streaming(stream), Mode::Streaming(next)) => stream.append(*next),
            (Mode::Streaming(stream), Mode::Exact(next)) => stream.append_packets(*next),
            (Mode::Exact(gathered), Mode::Streaming(next)) => {
                let mut stream = next.emptied();
                stream.append_packets(core::mem::replace(&mut **gathered, Gathered::empty()));
                stream.append(*next);
                self.mode = Mode::Streaming(Box::new(stream));
            }
            (Mode::TwoWay(views), Mode::TwoWay(next)) => views.append(*next)?,
            (Mode::TwoWay(_), _) | (_, Mode::TwoWay(_)) => return Err(ONE_WAY_AND_TWO_WAY),
        }
        self.keep_to_memory();
        Ok(())
    }

    /// Whether [`Analyzer::append`] can add `next`.
    fn check_append(&self, next: &Analyzer) -> Result<(), NotMergeable> {
        match (&self.mode, &next.mode) {
            (Mode::Exact(gathered), Mode::Streaming(next)) => {
                next.check_behind(gathered.classifier.accepted.max())
            }
            (Mode::Streaming(stream), Mode::Streaming(next)) => next.check_behind(stream.highest()),
            (Mode::TwoWay(views), Mode::TwoWay(next)) => {
                views.round_trip.check_append(&next.round_trip)?;
                views.up.check_append(&next.up)?;
                views.down.check_append(&next.down)
            }
            (Mode::TwoWay(_), _) | (_, Mode::TwoWay(_)) => Err(ONE_WAY_AND_TWO_WAY),
            _ => Ok(()),
        }
    }

    /// Says how often receive times went back, where the order of the rows is not that of the times analysed.
    fn set_regressions(&mut self, times: u64) {
        match &mut self.mode {
            Mode::Exact(gathered) => gathered.tally.rx_time_regressions = times,
            Mode::Streaming(stream) => stream.set_regressions(times),
            Mode::TwoWay(_) => {}
        }
    }

    /// Sets how many packets are judged at a time in constant memory, for tests; before the first packet.
    #[doc(hidden)]
    pub fn set_stretch_length(&mut self, packets: u32) {
        if let Mode::Streaming(stream) = &mut self.mode {
            stream.set_stretch_length(packets);
        }
    }

    /// Whether all packets are kept: not in constant memory.
    pub(crate) fn keeps_packets(&self) -> bool {
        match &self.mode {
            Mode::Exact(_) => true,
            Mode::Streaming(_) => false,
            Mode::TwoWay(views) => views.round_trip.keeps_packets(),
        }
    }

    /// Number of rows pushed so far.
    pub fn received(&self) -> u64 {
        match &self.mode {
            Mode::Exact(gathered) => gathered.classifier.received,
            Mode::Streaming(stream) => stream.received(),
            Mode::TwoWay(views) => views.received(),
        }
    }

    /// The summary of everything pushed, with everything now known about the session.
    pub fn finish(self, session: &Session) -> Summary {
        self.finish_with_samples(session).0
    }

    /// The same, with the accepted packets for figures (none in streaming mode).
    pub fn finish_with_samples(self, session: &Session) -> (Summary, Samples) {
        self.finish_by(session, None)
    }

    /// The same, of a long test on several threads at once. Each takes the memory of what it computes, up to about 20 bytes a packet.
    pub fn finish_with_helpers(self, session: &Session, helpers: &dyn Helpers) -> (Summary, Samples) {
        let helpers = Some(helpers).filter(|_| self.received() >= LARGE);
        self.finish_by(session, helpers)
    }

    fn finish_by(self, session: &Session, helpers: Option<&dyn Helpers>) -> (Summary, Samples) {
        if let Mode::TwoWay(views) = self.mode {
            return views.finish(session, helpers);
        }
        self.found(session, DelayKind::OneWay, helpers, |found, notes| assemble::summary(found, None, notes))
    }

    /// What `make` makes of what was found of one stream, with what was noted on the way; and the accepted packets.
    fn found<T>(
        self,
        session: &Session,
        kind: DelayKind,
        helpers: Option<&dyn Helpers>,
        make: impl FnOnce(&dyn Findings, Vec<Warning>) -> T,
    ) -> (T, Samples) {
        let mut notes = Vec::new();
        match self.mode {
            Mode::Exact(mut gathered) => {
                let clock = exact::clock(&gathered, session);
                let late = gathered.drop_late(&clock, &self.options, &mut notes);
                let test = (session, &self.options, kind);
                let made = exact::found(&gathered, test, clock, late, helpers, |found| make(found, notes));
                let queued = gathered.notes.map(|notes| notes.queued).unwrap_or_default();
                let delayless = gathered.delayless.iter().collect();
                (made, Samples { queued, delayless, ..gathered.samples })
            }
            Mode::Streaming(stream) => {
                if let Some(wait) = self.options.wait {
                    notes.push(notes::wait_refused(wait));
                }
                notes.push(notes::constant_memory(stream.error()));
                let test = (session, &self.options, kind);
                (stream::found(*stream, test, |found| make(found, notes)), Samples::default())
            }
            Mode::TwoWay(views) => views.round_trip.found(session, kind, helpers, make),
        }
    }
}

impl Gathered {
    /// The summary of a test without packets.
    fn empty() -> Gathered {
        Gathered {
            classifier: Classifier::new(0),
            samples: Samples::default(),
            delayless: SeqSet::default(),
            copies: Copies::default(),
            damaged: Copies::default(),
            tally: Tally::new(0, i64::MAX),
            notes: None,
        }
    }

    #[inline]
    fn push(&mut self, record: &PacketRecord) {
        let Gathered { classifier, samples, delayless, copies, damaged, tally, notes } = self;
        tally.row(record);
        if !delayless.is_empty()
            && let Some(seq) = classifier.number(record).filter(|seq| delayless.contains(*seq))
        {
            classifier.received += 1;
            copies.push(seq, record.arrived().map(|t| t.0));
            return;
        }
        match classifier.classify(record) {
            Class::Accepted(packet) => {
                tally.accepted(record, packet.seq);
                if let Some(notes) = notes {
                    notes.push(record, packet.seq);
                }
                samples.push(packet);
            }
            Class::Duplicate(seq) => copies.push(seq, record.arrived().map(|t| t.0)),
            Class::Damaged(seq) => damaged.push(seq, record.arrived().map(|t| t.0)),
            Class::Invalid => {}
        }
    }

    fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut rest) = (Plain::new(), records);
        while let Some(first) = rest.first() {
            let taken = self.take(&mut plain, rest);
            let (rows, later) = rest.split_at(taken.max(1));
            rest = later;
            if taken == 0 {
                self.push(first);
                continue;
            }
            self.tally.plain(rows, &plain);
            if plain.lags {
                rows.iter().zip(plain.seq()).for_each(|(row, seq)| self.tally.accepted(row, *seq));
            }
            if let Some(notes) = &mut self.notes {
                notes.push_all(rows, plain.seq(), plain.alike, plain.lags);
            }
            plain.append_to(&mut self.samples);
        }
    }

    /// Accepts the packets with which `records` begins, as many as there are clean and new ones, and hands them out in
    /// `plain`; how many.
    fn take(&mut self, plain: &mut Plain, records: &[PacketRecord]) -> usize {
        if !self.delayless.is_empty() {
            return 0;
        }
        let (next, packets) = (self.classifier.next(), self.classifier.packets());
        let in_order = plain.take(records, next, packets);
        if in_order > 0 {
            self.classifier.accept_all(plain.runs());
            return in_order;
        }
        plain.take_new(records, packets, |seq| self.classifier.accept(seq))
    }

    fn push_delayless(&mut self, record: &PacketRecord) {
        self.tally.row(record);
        let Some(seq) = self.classifier.number(record) else { return self.classifier.refuse() };
        self.classifier.received += 1;
        if self.classifier.accepted.contains(seq) || !self.delayless.insert(seq) {
            self.copies.push(seq, record.arrived().map(|t| t.0));
        }
    }

    /// The numbers of all packets that came, with a delay or without.
    fn came(&self) -> Cow<'_, SeqSet> {
        if self.delayless.is_empty() {
            return Cow::Borrowed(&self.classifier.accepted);
        }
        let mut came = self.classifier.accepted.clone();
        came.merge(&self.delayless);
        Cow::Owned(came)
    }

    /// The rows of `next` classified again, now that it is known what came before them.
    fn append(&mut self, next: Gathered) {
        self.classifier.received += next.classifier.received;
        self.classifier.invalid += next.classifier.invalid;
        for (seq, arrived) in next.damaged.iter() {
            if self.classifier.accepted.contains(seq) || self.delayless.contains(seq) {
                self.classifier.invalid -= 1;
                self.copies.push(seq, arrived);
            } else {
                self.damaged.push(seq, arrived);
            }
        }
        let (accepted, delayless) = (&self.classifier.accepted, &self.delayless);
        let is_new = |seq: u32| !accepted.contains(seq) && !delayless.contains(seq);
        self.tally.append(next.tally, is_new);
        if let (Some(notes), Some(later)) = (&mut self.notes, next.notes) {
            notes.append(&later, &next.samples.seq, is_new);
        }
        for packet in next.samples.iter() {
            if !self.delayless.contains(packet.seq) && self.classifier.accepted.insert(packet.seq) {
                self.samples.push(packet);
            } else {
                self.copies.push(packet.seq, Some(packet.arrived()));
            }
        }
        for seq in next.delayless.iter() {
            if self.classifier.accepted.contains(seq) || !self.delayless.insert(seq) {
                self.copies.push(seq, None);
            }
        }
        next.copies.iter().for_each(|(seq, arrived)| self.copies.push(seq, arrived));
    }

    /// Takes out the packets that arrived after the waiting time (metrics §1) and counts them. Without
    /// clocks to trust the wait is refused.
    fn drop_late(&mut self, clock: &ClockEstimate, options: &Options, notes: &mut Vec<Warning>) -> u64 {
        let Some(wait) = options.wait else { return 0 };
        let correction = match (clock.correction_ns, clock.synchronised()) {
            (Some(correction), _) => correction,
            (None, Some(_)) => 0,
            (None, None) if options.trust_clocks => 0,
            (None, None) => {
                notes.push(notes::wait_refused(wait));
                return 0;
            }
        };
        let limit = wait.0.saturating_add(correction);
        let before = self.samples.len();
        let accepted = &mut self.classifier.accepted;
        self.samples.retain(|packet| {
            let in_time = packet.delay <= limit;
            if !in_time {
                accepted.remove(packet.seq);
            }
            in_time
        });
        (before - self.samples.len()) as u64
    }
}
