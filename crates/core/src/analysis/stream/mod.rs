//! The analysis in constant memory, for runs without end (metrics §23): every figure in one pass,
//! percentiles from log-linear histograms, everything else exact as far as a bounded window sees.

mod copies;
mod figures;
mod head;
mod losses;

pub(super) use figures::found;

use super::plain::Plain;
use super::saved::{Impossible, MOST_ROWS, require};
use super::stretches::Stretches;
use super::tally::Tally;
use super::{Gathered, NotMergeable, Samples};
use crate::distribution::{LogHistogram, Precision};
use crate::evidence::{KnownPackets, SharedJudge};
use crate::metrics::METRICS;
use crate::metrics::classify::{AcceptedPacket, Class, Classifier};
use crate::metrics::metric::{AcceptedPackets, States};
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::one_pass::join_counts;
use crate::metrics::periods::PacketExtent;
use crate::record::PacketRecord;
use crate::session::Session;
use crate::spec::TestSpec;
use copies::CopyRuns;
use head::{HEAD, Head, Row};
use losses::Losses;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages of 512 sequence numbers kept: two million packets.
const PAGES: usize = 4096;
/// Accepted packets whose figures are computed together, at least, where so many come at once.
const TOGETHER: usize = 256;

/// Constant memory in all cases: about 7 MB at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Of all packets that came, with a delay or without.
    classifier: Classifier,
    /// How many of them have none.
    #[serde(default)]
    delayless: u64,
    tally: Tally,
    head: Head,
    /// The smallest valid sequence number of the rows after the head.
    lowest: Option<u32>,
    /// Numbers below this are forgotten: whether they were accepted is no longer known.
    forgotten: u64,
    losses: Losses,
    copies: CopyRuns,
    moments: Moments,
    sums: CoMoments,
    extent: PacketExtent,
    delays: LogHistogram,
    /// How often values went from buckets into others, as those of a part merged behind another do.
    moved: u32,
    /// The metrics of the list.
    #[serde(default)]
    metrics: States,
    /// Accepted packets that are in no sum yet; none in what is stored.
    #[serde(skip)]
    pending: Samples,
    /// The test, as far as it was known when it began: not stored.
    #[serde(skip)]
    test: Option<Arc<Session>>,
    /// What there is of a verdict; none of parts that were analysed apart.
    #[serde(default)]
    stretches: Option<Box<Stretches>>,
}

impl Stream {
    pub fn new(session: &Session, judge: Option<SharedJudge>) -> Stream {
        let stretches = judge.map(|judge| Box::new(Stretches::new(session, judge)));
        Stream {
            stretches,
            ..Stream::begun(super::declared(session), Tally::of(session), Arc::new(session.clone()))
        }
    }

    /// Of a test of `packets` packets.
    fn begun(packets: u32, tally: Tally, test: Arc<Session>) -> Stream {
        Stream {
            classifier: Classifier::new(packets),
            delayless: 0,
            tally,
            head: Head::default(),
            lowest: None,
            forgotten: 0,
            losses: Losses::default(),
            copies: CopyRuns::default(),
            moments: Moments::default(),
            sums: CoMoments::default(),
            extent: PacketExtent::default(),
            delays: LogHistogram::new(Precision::STREAM),
            moved: 0,
            metrics: States::new(METRICS, &test),
            pending: Samples::default(),
            test: Some(test),
            stretches: None,
        }
    }

    /// Of a test of which these packets are known so far.
    pub(super) fn of_packets(test: &Session, judge: Option<SharedJudge>, packets: Gathered) -> Stream {
        let mut stream = Stream::new(test, judge);
        stream.classifier.set_packets(packets.classifier.packets());
        stream.append_packets(packets);
        stream
    }

    /// The same test before its first packet.
    pub fn emptied(&self) -> Stream {
        let stretches = self.stretches.as_ref().map(|stretches| Box::new(stretches.emptied()));
        let test = self.test.clone().unwrap_or_else(|| Arc::new(Session::new(TestSpec::default())));
        Stream { stretches, ..Stream::begun(self.classifier.packets(), self.tally.emptied(), test) }
    }

    /// Takes over what was stored of the test for which this one was begun, after a check that an analysis can have come
    /// to it.
    pub fn restore(&mut self, read: Stream) -> Result<(), Impossible> {
        let rows = read.classifier.received;
        let packets = self.classifier.packets();
        let accepted = &read.classifier.accepted;
        let n = read.moments.n();
        let came = n.saturating_add(read.delayless);
        let end = accepted.max().map_or(0, |seq| u64::from(seq) + 1);
        let begin = accepted.runs().next().map_or(0, |run| run.start);
        let numbers =
            end <= packets.into() && read.forgotten <= begin && came <= end && accepted.len() <= came;
        require(numbers && accepted.pages() <= PAGES, "sequence numbers beyond the test")?;
        let head = read.head.is_possible(packets) && read.head.has_numbers_below(read.lowest, accepted);
        require(head, "first rows of another test")?;
        let counted =
            came.checked_add(read.copies.total).and_then(|c| c.checked_add(read.classifier.invalid));
        require(counted == Some(rows) && rows <= MOST_ROWS, "counts that do not add up")?;
        let kept = read.moments.is_possible(n)
            && read.sums.is_possible(n)
            && read.extent.is_possible(n, packets)
            && read.delays.is_possible(n)
            && read.delays.is_as_precise_as(&self.delays);
        require(kept, "sums that do not add up")?;
        let all = self.metrics.restore(&read.metrics, n);
        require(all, "metrics of another version, or that do not add up: analyse the logs again")?;
        let copies = read.copies.is_possible(accepted, read.forgotten);
        require(copies && read.losses.is_possible(read.forgotten), "losses or copies that do not add up")?;
        let tally = self.tally.restore(read.tally, rows).ok_or(Impossible("counts that do not add up"))?;
        let mut classifier = read.classifier;
        classifier.set_packets(packets);
        let stretches = match (self.stretches.take(), read.stretches) {
            (Some(mut begun), Some(read)) => {
                begun.restore(*read, rows)?;
                Some(begun)
            }
            _ => None,
        };
        let (metrics, test) = (std::mem::take(&mut self.metrics), self.test.take());
        *self = Stream { classifier, tally, stretches, metrics, test, ..read };
        Ok(())
    }

    /// See [`super::Analyzer::set_stretch_length`].
    pub fn set_stretch_length(&mut self, packets: u32) {
        if let Some(stretches) = &mut self.stretches {
            stretches.set_length(packets);
        }
    }

    /// How much too high percentiles may be, in parts of 1024.
    pub fn error(&self) -> u32 {
        self.moved.saturating_add(1)
    }

    /// See [`super::Analyzer::set_regressions`].
    pub fn set_regressions(&mut self, times: u64) {
        self.tally.rx_time_regressions = times;
    }

    /// The highest sequence number accepted.
    pub fn highest(&self) -> Option<u32> {
        self.classifier.accepted.max()
    }

    /// How much of the test of `session` is known.
    pub fn extent(&self, session: &Session) -> KnownPackets {
        let longest = |met| self.losses.longest(&self.classifier.accepted, met);
        KnownPackets::up_to(session, self.highest(), longest)
    }

    pub fn received(&self) -> u64 {
        self.classifier.received
    }

    pub fn push(&mut self, record: &PacketRecord) {
        if let Some(packet) = self.take(record) {
            self.accept(packet);
        }
    }

    /// Takes the next row, but adds no packet to the figures: gives the one that is to be added, if it was accepted.
    fn take(&mut self, record: &PacketRecord) -> Option<AcceptedPacket> {
        self.tally.row(record);
        let Some(seq) = self.classifier.number(record) else {
            self.classifier.refuse();
            return None;
        };
        self.take_row(seq, Classifier::packet(record).map_or(Row::Damaged, Row::Clean), record)
    }

    /// See [`super::Analyzer::push_all`].
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut rest) = (Plain::new(), records);
        while let Some(first) = rest.first() {
            if self.head.rows() < HEAD {
                self.push(first);
                rest = &rest[1..];
                continue;
            }
            let taken = self.take_plain(&mut plain, rest);
            let (rows, later) = rest.split_at(taken.max(1));
            rest = later;
            match plain.ends() {
                None => self.push(first),
                Some([lowest, _]) => {
                    self.tally.plain(rows, &plain);
                    self.follow_head(lowest);
                    self.forget();
                    if let Some(stretches) = &mut self.stretches {
                        stretches.push_all(&plain, rows);
                    }
                    plain.append_to(&mut self.pending);
                    self.settle_many();
                }
            }
        }
    }

    /// Takes the packets with which `records` begins, as many as there are clean and new ones, but adds none of them to the
    /// figures: hands them out in `plain`; how many.
    fn take_plain(&mut self, plain: &mut Plain, records: &[PacketRecord]) -> usize {
        let Stream { classifier, forgotten, .. } = self;
        let (next, packets) = (classifier.next().max(*forgotten), classifier.packets());
        let in_order = plain.take(records, next, packets);
        if in_order > 0 {
            classifier.accept_all(plain.runs());
            return in_order;
        }
        plain.take_new(records, packets, |seq| {
            // Up to a number for which others are to be forgotten.
            classifier.accepted.pages() <= PAGES && u64::from(seq) >= *forgotten && classifier.accept(seq)
        })
    }

    /// Adds an accepted packet to all figures, sooner or later.
    #[inline]
    fn accept(&mut self, packet: AcceptedPacket) {
        self.pending.push(packet);
        self.settle_many();
    }

    #[inline]
    fn settle_many(&mut self) {
        if self.pending.len() >= TOGETHER {
            self.settle();
        }
    }

    /// Adds the packets that are in no sum yet.
    fn settle(&mut self) {
        let packets = std::mem::take(&mut self.pending);
        self.moments.add_all(&packets.delay);
        self.sums.add_all(&packets.sent, &packets.delay);
        let (pushed, mut at) = (AcceptedPackets::of(&packets, 0..packets.len()), 0);
        for run in pushed.runs() {
            let first = at;
            at += run.len();
            self.extent.push_run(run.len(), &packets.packet(first), &packets.packet(at - 1));
        }
        self.delays.add_all(&packets.delay);
        self.metrics.push(&pushed);
        self.pending = packets;
        self.pending.clear();
    }

    /// The same, with all packets in the sums.
    pub fn with_all_settled(&self) -> Cow<'_, Stream> {
        if self.pending.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle();
        Cow::Owned(settled)
    }

    /// [`Stream::take`] of a row with a valid number.
    fn take_row(&mut self, seq: u32, row: Row, record: &PacketRecord) -> Option<AcceptedPacket> {
        let copies = self.copies.total;
        let counts = self.count(seq, row);
        if let Some(stretches) = &mut self.stretches {
            match row {
                Row::Clean(packet) if counts => stretches.push(seq, Some(packet), record),
                Row::Delayless if counts => stretches.push(seq, None, record),
                _ if self.copies.total > copies => stretches.push_copy(seq, record),
                Row::Damaged if u64::from(seq) >= self.forgotten => stretches.push_damaged(seq, record),
                _ => {}
            }
        }
        row.packet().filter(|_| counts)
    }

    /// See [`super::Analyzer::push_delayless`].
    pub fn push_delayless(&mut self, record: &PacketRecord) {
        self.tally.row(record);
        match self.classifier.number(record) {
            Some(seq) => {
                self.take_row(seq, Row::Delayless, record);
            }
            None => self.classifier.refuse(),
        }
    }

    /// Adds a row with a valid number that is no part of a verdict.
    fn row(&mut self, seq: u32, row: Row) {
        let counts = self.count(seq, row);
        if let Some(packet) = row.packet().filter(|_| counts) {
            self.accept(packet);
        }
    }

    /// Notes a number of the rows after the head.
    fn follow_head(&mut self, seq: u32) {
        if self.lowest.is_none() {
            self.settle();
            self.metrics.mark();
        }
        self.lowest = Some(self.lowest.map_or(seq, |lowest| lowest.min(seq)));
    }

    /// Counts the next row with a valid number; whether it is the first of its packet that counts.
    fn count(&mut self, seq: u32, row: Row) -> bool {
        if self.head.rows() < HEAD {
            self.head.push(seq, row);
        } else {
            self.follow_head(seq);
        }
        if u64::from(seq) < self.forgotten {
            // Far too late to distinguish a first copy from a duplicate; its loss is already booked.
            self.classifier.refuse();
            return false;
        }
        let counts = match row {
            Row::Delayless => {
                self.classifier.received += 1;
                let is_new = self.classifier.accepted.insert(seq);
                if is_new {
                    self.delayless += 1;
                } else {
                    self.copies.push(seq);
                }
                is_new
            }
            Row::Clean(_) | Row::Damaged => match self.classifier.classify_row(seq, row.packet()) {
                Class::Accepted(_) => true,
                Class::Duplicate(seq) => {
                    self.copies.push(seq);
                    false
                }
                Class::Damaged(_) | Class::Invalid => false,
            },
        };
        if counts {
            self.forget();
        }
        counts
    }

    /// Keeps to the pages of sequence numbers there is room for.
    fn forget(&mut self) {
        while self.classifier.accepted.pages() > PAGES {
            let Some((runs, after)) = self.classifier.accepted.retire() else { break };
            runs.into_iter().for_each(|run| self.losses.received(run));
            self.copies.settle(after);
            self.forgotten = after;
        }
    }

    /// Whether it can be merged behind an analysis whose highest number is `highest`.
    pub fn check_behind(&self, highest: Option<u32>) -> Result<(), NotMergeable> {
        if self.forgotten > 0 {
            return Err(NotMergeable::Forgotten);
        }
        let late = highest.zip(self.lowest).is_some_and(|(high, low)| low <= high.saturating_add(1));
        if late { Err(NotMergeable::Interleaved) } else { Ok(()) }
    }

    /// Adds the rows that `next` has had, after [`Stream::check_behind`]. Its first rows are taken again one by one, with
    /// which all that depends on what came before comes to the same; what it has counted after them is added.
    pub fn append(&mut self, mut next: Stream) {
        if self.received() == 0 {
            *self = next;
            return;
        }
        let stretches = self.stretches.take().zip(next.stretches.clone());
        self.stretches = stretches.and_then(|(mut mine, later)| mine.append(*later).then_some(mine));
        self.tally.append(next.tally.clone(), |_| false);
        let mut lead = next.emptied();
        for (seq, row) in next.head.iter() {
            lead.row(seq, row);
            self.row(seq, row);
        }
        [&mut *self, &mut next, &mut lead].into_iter().for_each(Stream::settle);
        let Stream { classifier, lowest, copies, .. } = next;
        self.classifier.received += classifier.received.saturating_sub(lead.classifier.received);
        self.classifier.invalid += classifier.invalid.saturating_sub(lead.classifier.invalid);
        self.delayless += next.delayless.saturating_sub(lead.delayless);
        if lowest.is_none() {
            return;
        }
        self.lowest = self.lowest.min(lowest).or(lowest);
        let mut later = classifier.accepted;
        lead.classifier.accepted.iter().for_each(|seq| {
            later.remove(seq);
        });
        self.classifier.accepted.merge(&later);
        self.copies.total += copies.total.saturating_sub(lead.copies.total);
        join_counts(&mut self.copies.recent, &copies.recent, &lead.copies.recent);
        self.moments.join(next.moments, &lead.moments);
        self.sums.join(next.sums, &lead.sums);
        self.extent.join(next.extent, &lead.extent);
        self.delays.merge(&next.delays.less(&lead.delays));
        self.metrics.join(next.metrics, &lead.metrics);
        self.moved = self.moved.max(next.moved.saturating_add(1));
        self.forget();
    }

    /// Adds the rows of an analysis of all packets.
    pub(super) fn append_packets(&mut self, next: Gathered) {
        self.stretches =
            self.stretches.take().and_then(|mut mine| mine.append_packets(&next).then_some(mine));
        let Gathered { classifier, samples, delayless, copies, damaged, tally, .. } = next;
        self.tally.append(tally, |_| false);
        let before = self.received();
        damaged.iter().for_each(|(seq, _)| {
            self.row(seq, Row::Damaged);
        });
        let copies: BTreeMap<u32, u64> = copies.by_number().into_iter().collect();
        let clean = samples.iter().map(|packet| (packet.seq, Row::Clean(packet)));
        for (seq, row) in clean.chain(delayless.iter().map(|seq| (seq, Row::Delayless))) {
            self.row(seq, row);
            let again = copies.get(&seq).copied().unwrap_or(0);
            (0..again).for_each(|_| {
                self.row(seq, Row::Damaged);
            });
        }
        let others = (before + classifier.received).saturating_sub(self.received());
        self.classifier.received += others;
        self.classifier.invalid += others;
    }

    /// Counts what is still pending.
    fn settled(mut self) -> Stream {
        self.settle();
        let Stream { classifier, losses, copies, .. } = &mut self;
        classifier.accepted.runs().for_each(|run| losses.received(run));
        copies.settle(u64::MAX);
        self
    }
}
