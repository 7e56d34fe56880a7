//! The analysis in constant memory, for runs without end (metrics §23): every figure in one pass,
//! percentiles from log-linear histograms, everything else exact as far as a bounded window sees.

mod copies;
mod figures;
mod head;
mod losses;

pub(super) use figures::Streamed;

use super::plain::Plain;
use super::saved::{Impossible, MOST_ROWS, require};
use super::stretches::Stretches;
use super::tally::Tally;
use super::{Gathered, NotMergeable, Samples};
use crate::distribution::{LogHistogram, Precision};
use crate::metrics::classify::{Class, Classifier, Packet};
use crate::metrics::density::{StayBack, THRESHOLD};
use crate::metrics::entry::Running;
use crate::metrics::ipdv::StreamingIpdv;
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::occupancy::Occupancy;
use crate::metrics::one_pass::add_later_counts;
use crate::metrics::periods::Extent;
use crate::metrics::reorder::Overtaking;
use crate::metrics::series::runs;
use crate::metrics::skew::StreamingHull;
use crate::metrics::{METRICS, OnePass, rfc3550};
use crate::record::PacketRecord;
use crate::session::Session;
use crate::spec::Schedule;
use crate::verdict;
use copies::CopyRuns;
use head::{HEAD, Head, Row};
use losses::Losses;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of 512 sequence numbers kept: two million packets.
const PAGES: usize = 4096;
/// Discontinuities kept.
const STRETCHES: usize = 8192;

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
    extent: Extent,
    jitter: rfc3550::Estimator,
    mapdv2: Mapdv2,
    overtaking: Overtaking,
    stay_back: StayBack,
    occupancy: Occupancy,
    delays: LogHistogram,
    ipdv: StreamingIpdv,
    hull: StreamingHull,
    errors: Option<(i64, LogHistogram)>,
    /// How often values went from buckets into others, as those of a part merged behind another do.
    moved: u32,
    /// Metrics of the list without a field of their own.
    listed: Running,
    /// What there is of a verdict; none of parts that were analysed apart.
    #[serde(default)]
    stretches: Option<Box<Stretches>>,
}

impl Stream {
    pub fn new(session: &Session) -> Stream {
        let spec = &session.spec;
        let period = session.period().filter(|_| spec.schedule() == Schedule::Periodic);
        let tally = Tally::of(session);
        let stretches = Some(Box::new(Stretches::new(session)));
        Stream { stretches, ..Stream::begun(super::declared(session), tally, period.map(|p| p.0)) }
    }

    /// Of a test of `packets` packets, one every `period` ns.
    fn begun(packets: u32, tally: Tally, period: Option<i64>) -> Stream {
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
            extent: Extent::default(),
            jitter: rfc3550::Estimator::default(),
            mapdv2: Mapdv2::default(),
            overtaking: Overtaking::bounded(STRETCHES),
            stay_back: StayBack::new(THRESHOLD, 0),
            occupancy: Occupancy::new(THRESHOLD, 0),
            delays: LogHistogram::new(Precision::STREAM),
            ipdv: StreamingIpdv::default(),
            hull: StreamingHull::default(),
            errors: period.map(|p| (p, LogHistogram::new(Precision::STREAM))),
            moved: 0,
            listed: Running::new(METRICS),
            stretches: None,
        }
    }

    /// The same test before its first packet.
    pub fn emptied(&self) -> Stream {
        let period = self.errors.as_ref().map(|(period, _)| *period);
        let stretches = self.stretches.as_ref().map(|stretches| Box::new(stretches.emptied()));
        Stream { stretches, ..Stream::begun(self.classifier.packets(), self.tally.emptied(), period) }
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
            && read.jitter.is_possible(n)
            && read.mapdv2.is_possible(n)
            && read.overtaking.is_possible(n, STRETCHES)
            && read.stay_back.is_possible(n, THRESHOLD)
            && read.occupancy.is_possible(n, THRESHOLD)
            && read.delays.is_possible(n)
            && read.delays.is_as_precise_as(&self.delays)
            && read.ipdv.is_possible(n)
            && read.hull.is_possible(n);
        require(kept, "sums that do not add up")?;
        let errors = match (&read.errors, &self.errors) {
            (Some((period, read)), Some((known, begun))) => {
                period == known && read.is_possible(n) && read.is_as_precise_as(begun)
            }
            (read, begun) => read.is_some() == begun.is_some(),
        };
        require(errors, "another schedule")?;
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
        *self = Stream { classifier, tally, stretches, ..read };
        Ok(())
    }

    #[cfg(test)]
    pub fn stretches_mut(&mut self) -> Option<&mut Stretches> {
        self.stretches.as_deref_mut()
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
    pub fn extent(&self, session: &Session) -> verdict::Known {
        let longest = |met| self.losses.longest(&self.classifier.accepted, met);
        verdict::Known::up_to(session, self.highest(), longest)
    }

    pub fn received(&self) -> u64 {
        self.classifier.received
    }

    pub fn push(&mut self, record: &PacketRecord) {
        if let Some(packet) = self.take(record) {
            self.accept(&packet);
        }
    }

    /// Takes the next row, but adds no packet to the figures: gives the one that is to be added, if it was accepted.
    fn take(&mut self, record: &PacketRecord) -> Option<Packet> {
        self.tally.row(record);
        let Some(seq) = self.classifier.number(record) else {
            self.classifier.refuse();
            return None;
        };
        self.take_row(seq, Classifier::packet(record).map_or(Row::Damaged, Row::Clean), record)
    }

    /// See [`super::Analyzer::push_all`].
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut accepted, mut rest) = (Plain::new(), Samples::default(), records);
        while let Some(first) = rest.first() {
            if self.head.rows() < HEAD {
                // Figures that are to be taken apart there must be of the head's rows when it is full.
                self.push(first);
                rest = &rest[1..];
                continue;
            }
            let taken = self.take_plain(&mut plain, rest);
            let (rows, later) = rest.split_at(taken.max(1));
            rest = later;
            match plain.ends() {
                None => self.take(first).into_iter().for_each(|packet| accepted.push(packet)),
                Some([lowest, _]) => {
                    self.tally.plain(rows, &plain);
                    self.lowest = Some(self.lowest.map_or(lowest, |before| before.min(lowest)));
                    self.forget();
                    if let Some(stretches) = &mut self.stretches {
                        stretches.push_all(&plain, rows);
                    }
                    plain.append_to(&mut accepted);
                }
            }
            if accepted.len() >= TOGETHER {
                self.accept_all(&accepted);
                accepted.clear();
            }
        }
        self.accept_all(&accepted);
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

    /// Adds the next accepted packets to all figures: what [`Stream::accept`] adds of each of them.
    fn accept_all(&mut self, packets: &Samples) {
        let Samples { seq, sent, delay, .. } = packets;
        let runs: Vec<Range<u32>> = runs(seq).collect();
        self.moments.add_all(delay);
        self.sums.add_all(sent, delay);
        self.jitter.push_all(delay);
        self.mapdv2.push_all(delay);
        let mut at = 0;
        for run in &runs {
            let (first, length) = (at, run.len());
            at += length;
            self.extent.push_run(length, &packets.packet(first), &packets.packet(at - 1));
            self.overtaking.push_run(run.clone(), |k| packets.arrived(first + k));
            self.stay_back.push_run(run.clone());
            self.occupancy.push_run(run.clone());
        }
        self.delays.add_all(delay);
        self.ipdv.push_all(&runs, delay);
        self.hull.push_all(sent, delay);
        if !self.listed.is_empty() {
            packets.iter().for_each(|packet| self.listed.push(&packet));
        }
        if let Some((period, offsets)) = &mut self.errors {
            let due = |seq: u32| period.saturating_mul(seq.into());
            let late: Vec<i64> =
                seq.iter().zip(sent).map(|(seq, sent)| sent.saturating_sub(due(*seq))).collect();
            offsets.add_all(&late);
        }
    }

    /// [`Stream::take`] of a row with a valid number.
    fn take_row(&mut self, seq: u32, row: Row, record: &PacketRecord) -> Option<Packet> {
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
            self.accept(&packet);
        }
    }

    /// Counts the next row with a valid number; whether it is the first of its packet that counts.
    fn count(&mut self, seq: u32, row: Row) -> bool {
        if self.head.rows() < HEAD {
            self.head.push(seq, row);
            if self.head.rows() == HEAD {
                self.overtaking.mark();
            }
        } else {
            self.lowest = Some(self.lowest.map_or(seq, |lowest| lowest.min(seq)));
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

    /// Adds an accepted packet to all figures.
    fn accept(&mut self, packet: &Packet) {
        self.moments.push(packet);
        self.sums.push(packet);
        self.extent.push(packet);
        self.jitter.push(packet);
        self.mapdv2.push(packet);
        self.overtaking.push(packet);
        self.stay_back.push(packet.seq);
        self.occupancy.push(packet.seq);
        self.delays.add(packet.delay);
        self.ipdv.push(packet);
        self.hull.push(packet);
        self.listed.push(packet);
        if let Some((period, offsets)) = &mut self.errors {
            offsets.add(packet.sent.saturating_sub(period.saturating_mul(packet.seq.into())));
        }
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
    pub fn append(&mut self, next: Stream) {
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
        add_later_counts(&mut self.copies.recent, &copies.recent, &lead.copies.recent);
        self.moments.add_later(next.moments, &lead.moments);
        self.sums.add_later(next.sums, &lead.sums);
        self.extent.add_later(next.extent, &lead.extent);
        self.jitter.add_later(next.jitter, &lead.jitter);
        self.mapdv2.add_later(next.mapdv2, &lead.mapdv2);
        self.overtaking.add_later(next.overtaking, &lead.overtaking);
        self.stay_back.add_later(next.stay_back, &lead.stay_back);
        self.occupancy.add_later(next.occupancy, &lead.occupancy);
        self.delays.merge(&next.delays.less(&lead.delays));
        self.ipdv.add_later(next.ipdv, &lead.ipdv);
        self.hull.add_later(next.hull, lead.hull);
        if let (Some((_, mine)), Some((_, whole)), Some((_, lead))) =
            (&mut self.errors, &next.errors, &lead.errors)
        {
            mine.merge(&whole.less(lead));
        }
        self.moved = self.moved.max(next.moved.saturating_add(1));
        // A metric of any kind cannot be taken apart.
        self.listed = Running::default();
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
        let Stream { classifier, losses, copies, .. } = &mut self;
        classifier.accepted.runs().for_each(|run| losses.received(run));
        copies.settle(u64::MAX);
        self
    }
}
