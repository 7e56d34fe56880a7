//! [`Sketch`]: the state of an analysis in constant memory (metrics §23). Every figure takes one pass,
//! percentiles come from log-linear histograms, and all other figures are exact within a bounded window of
//! packets.

mod copies;
mod head;
mod losses;

use super::check::{Impossible, require};
use super::gathered::Gathered;
use super::plain::Plain;
use super::row::{Counts, Row};
use super::stretches::Stretches;
use super::tally::Tally;
use super::{NotMergeable, Samples};
use crate::distribution::{LogHistogram, Precision};
use crate::evidence::SharedJudge;
use crate::metrics::METRICS;
use crate::metrics::classify::{AcceptedPacket, Classifier};
use crate::metrics::known::StreamFacts;
use crate::metrics::metric::{AcceptedPackets, States};
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::one_pass::join_counts;
use crate::metrics::periods::PacketExtent;
use crate::metrics::seqset::SeqSet;
use crate::metrics::stream;
use crate::record::PacketRecord;
use crate::session::Session;
use copies::CopyRuns;
use head::{HEAD, Head};
use losses::Losses;
use serde::{Deserialize, Serialize};

/// Number of pages of 512 sequence numbers that are stored: two million packets.
const PAGES: usize = 4096;
/// Number of accepted packets that are added to the sums together.
const BATCH: usize = 256;

/// The state of an analysis in constant memory: about 7 MB at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sketch {
    /// Counts of the rows, in the stored form only. While packets arrive, the counts are in the
    /// [`Engine`](super::engine::Engine).
    #[serde(default)]
    pub classifier: Option<Classifier>,
    /// Number of received packets whose delay is unknown.
    #[serde(default)]
    pub delayless: u64,
    /// Counts of timestamps and IP headers of the rows, in the stored form only.
    #[serde(default)]
    pub tally: Option<Tally>,
    head: Head,
    /// The smallest valid sequence number of the rows after the head.
    lowest: Option<u32>,
    /// Sequence number below which numbers are forgotten: it is no longer known whether they were accepted.
    forgotten: u64,
    losses: Losses,
    pub copies: CopyRuns,
    pub moments: Moments,
    sums: CoMoments,
    pub extent: PacketExtent,
    delays: LogHistogram,
    /// Number of times that merging another part moved values to other buckets. Each time adds 1/1024 to the error of
    /// percentiles.
    moved: u32,
    /// States of the metrics, in the order of their list.
    #[serde(default)]
    pub metrics: States,
    /// Accepted packets that are not in the sums yet; always empty in the stored form.
    #[serde(skip)]
    pending: Samples,
    /// The verdict so far; `None` if parts of the stream were analysed separately.
    #[serde(default)]
    pub stretches: Option<Box<Stretches>>,
}

impl Sketch {
    /// Creates the state for the stream of `test` before its first packet.
    pub fn new(test: &Session, judge: Option<SharedJudge>) -> Sketch {
        Sketch::begun(test, judge.map(|judge| Box::new(Stretches::new(test, judge))))
    }

    /// Returns the state of the same stream before its first packet.
    pub fn emptied(&self, test: &Session) -> Sketch {
        Sketch::begun(test, self.stretches.as_ref().map(|stretches| Box::new(stretches.emptied())))
    }

    fn begun(test: &Session, stretches: Option<Box<Stretches>>) -> Sketch {
        Sketch {
            classifier: None,
            delayless: 0,
            tally: None,
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
            metrics: States::new(METRICS, test),
            pending: Samples::default(),
            stretches,
        }
    }

    /// Replaces this state by a stored one, after checking that an analysis of this stream can have produced it with
    /// the rows counted in `read_of`.
    pub fn restore(&mut self, read: Sketch, read_of: &Classifier, packets: u32) -> Result<(), Impossible> {
        let (rows, accepted) = (read_of.received, &read_of.accepted);
        let n = read.moments.n();
        let came = n.saturating_add(read.delayless);
        let end = accepted.max().map_or(0, |seq| u64::from(seq) + 1);
        let begin = accepted.runs().next().map_or(0, |run| run.start);
        let numbers =
            end <= packets.into() && read.forgotten <= begin && came <= end && accepted.len() <= came;
        require(numbers && accepted.pages() <= PAGES, "sequence numbers beyond the end of the test")?;
        let head = read.head.is_possible(packets) && read.head.has_numbers_below(read.lowest, accepted);
        require(head, "first rows of another test")?;
        let counted = came.checked_add(read.copies.total).and_then(|c| c.checked_add(read_of.invalid));
        require(counted == Some(rows), "inconsistent counts")?;
        let kept = read.moments.is_possible(n)
            && read.sums.is_possible(n)
            && read.extent.is_possible(n, packets)
            && read.delays.is_possible(n)
            && read.delays.is_as_precise_as(&self.delays);
        require(kept, "inconsistent sums")?;
        let all = self.metrics.restore(&read.metrics, n);
        require(all, "metrics of another version or inconsistent metrics: analyse the logs again")?;
        let copies = read.copies.is_possible(accepted, read.forgotten);
        require(copies && read.losses.is_possible(read.forgotten), "inconsistent losses or copies")?;
        let stretches = match (self.stretches.take(), read.stretches) {
            (Some(mut begun), Some(read)) => {
                begun.restore(*read, rows)?;
                Some(begun)
            }
            _ => None,
        };
        *self = Sketch { stretches, metrics: std::mem::take(&mut self.metrics), ..read };
        Ok(())
    }

    /// Sets the number of packets per stretch, as [`super::Analyzer::set_stretch_length`] describes.
    pub fn set_stretch_length(&mut self, packets: u32) {
        if let Some(stretches) = &mut self.stretches {
            stretches.set_length(packets);
        }
    }

    /// Returns the maximum error of percentiles, in units of 1/1024. Percentiles are never too low.
    pub fn error(&self) -> u32 {
        self.moved.saturating_add(1)
    }

    /// Returns the number below which packets are forgotten, and the number of pages beyond which further
    /// packets are forgotten.
    pub fn remembers(&self) -> (u64, usize) {
        (self.forgotten, PAGES)
    }

    /// Returns the maximum number of rows that may be added together; 0 while the head is being filled.
    pub fn max_batch(&self) -> usize {
        // The head stores its rows one by one.
        if self.head.rows() < HEAD { 0 } else { usize::MAX }
    }

    /// Returns the length of the longest loss burst below sequence number `met`; `came` contains the recent numbers
    /// received.
    pub fn longest(&self, came: &SeqSet, met: u64) -> u64 {
        self.losses.longest(came, met)
    }

    /// Iterates over the first rows, unchanged.
    pub(super) fn first_rows(&self) -> impl Iterator<Item = (u32, Row)> + '_ {
        self.head.iter()
    }

    /// Adds the next row of packet `seq`. Without `record`, the row is not judged.
    pub(super) fn push(&mut self, to: &mut Classifier, seq: u32, row: Row, record: Option<&PacketRecord>) {
        if self.head.rows() < HEAD {
            self.head.push(seq, row);
        } else {
            self.follow_head(seq);
        }
        if u64::from(seq) < self.forgotten {
            // The packet already counts as lost: it is too late to distinguish a first copy from a
            // duplicate.
            return to.refuse();
        }
        let counts = row.count(seq, to);
        match counts {
            Counts::First => {
                self.delayless += u64::from(row.packet().is_none());
                self.forget(to);
            }
            Counts::Copy => self.copies.push(seq),
            Counts::Nothing => {}
        }
        if let Some((stretches, record)) = self.stretches.as_mut().zip(record) {
            match counts {
                Counts::First => stretches.push(seq, row.packet(), record),
                Counts::Copy => stretches.push_copy(seq, record),
                Counts::Nothing => stretches.push_damaged(seq, record),
            }
        }
        if let Some(packet) = row.packet().filter(|_| counts == Counts::First) {
            self.accept(packet);
        }
    }

    /// Adds packets, all of which are new, and their rows.
    pub(super) fn push_all(&mut self, to: &mut Classifier, packets: &Plain, rows: &[PacketRecord]) {
        let Some([lowest, _]) = packets.ends() else { return };
        self.follow_head(lowest);
        self.forget(to);
        if let Some(stretches) = &mut self.stretches {
            stretches.push_all(packets, rows);
        }
        packets.append_to(&mut self.pending);
        self.settle_many();
    }

    /// Adds an accepted packet; the sums may be updated later.
    #[inline]
    fn accept(&mut self, packet: AcceptedPacket) {
        self.pending.push(packet);
        self.settle_many();
    }

    #[inline]
    fn settle_many(&mut self) {
        if self.pending.len() >= BATCH {
            self.settle();
        }
    }

    /// Adds the pending packets to the sums.
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

    /// Returns the form to be stored, in which all packets are included in the sums.
    pub fn stored(&self, classifier: Classifier, tally: Tally) -> Sketch {
        let mut stored = Sketch { classifier: Some(classifier), tally: Some(tally), ..self.clone() };
        stored.settle();
        stored
    }

    /// Records the number of a row after the head.
    fn follow_head(&mut self, seq: u32) {
        if self.lowest.is_none() {
            self.settle();
            self.metrics.mark();
        }
        self.lowest = Some(self.lowest.map_or(seq, |lowest| lowest.min(seq)));
    }

    /// Forgets the oldest sequence numbers while there are more than [`PAGES`] pages.
    fn forget(&mut self, of: &mut Classifier) {
        while of.accepted.pages() > PAGES {
            let Some((runs, after)) = of.accepted.retire() else { break };
            runs.into_iter().for_each(|run| self.losses.received(run));
            self.copies.settle(after);
            self.forgotten = after;
        }
    }

    /// Checks that this analysis can be appended to one whose highest sequence number is `highest`.
    pub fn check_behind(&self, highest: Option<u32>) -> Result<(), NotMergeable> {
        if self.forgotten > 0 {
            return Err(NotMergeable::Forgotten);
        }
        let late = highest.zip(self.lowest).is_some_and(|(high, low)| low <= high.saturating_add(1));
        if late { Err(NotMergeable::Interleaved) } else { Ok(()) }
    }

    /// Adds all packets of a stream to the verdict so far.
    pub(super) fn append_stretches(&mut self, next: &Gathered, came: SeqSet, tally: &Tally) {
        self.stretches =
            self.stretches.take().and_then(|mut mine| mine.append_packets(next, came, tally).then_some(mine));
    }

    /// Adds the packets that `next` contains in addition to its earlier state `lead`. This analysis already contains
    /// the rows of `lead`; `all` contains all accepted packets.
    pub fn join(&mut self, mut next: Sketch, mut lead: Sketch, all: &mut Classifier) {
        let stretches = self.stretches.take().zip(next.stretches.take());
        self.stretches = stretches.and_then(|(mut mine, later)| mine.append(*later).then_some(mine));
        [&mut *self, &mut next, &mut lead].into_iter().for_each(Sketch::settle);
        self.delayless += next.delayless.saturating_sub(lead.delayless);
        if next.lowest.is_none() {
            return;
        }
        self.lowest = self.lowest.min(next.lowest).or(next.lowest);
        self.copies.total += next.copies.total.saturating_sub(lead.copies.total);
        join_counts(&mut self.copies.recent, &next.copies.recent, &lead.copies.recent);
        self.moments.join(next.moments, &lead.moments);
        self.sums.join(next.sums, &lead.sums);
        self.extent.join(next.extent, &lead.extent);
        self.delays.merge(&next.delays.less(&lead.delays));
        self.metrics.join(next.metrics, &lead.metrics);
        self.moved = self.moved.max(next.moved.saturating_add(1));
        self.forget(all);
    }

    /// Counts everything that is pending when the stream has ended; `came` contains the sequence numbers that have not
    /// been counted yet.
    pub fn end(&mut self, came: &SeqSet) {
        self.settle();
        came.runs().for_each(|run| self.losses.received(run));
        self.copies.settle(u64::MAX);
    }

    /// Returns the statistics of the finished stream, from which metrics are computed.
    pub fn figures(&self, known: &StreamFacts<'_>) -> stream::Sketch<'_> {
        let (session, counted) = (known.session, known.counted);
        let uncounted = session.uncounted_in(0, counted.end);
        let unknown = counted.end.saturating_sub(counted.sent);
        stream::Sketch {
            moments: &self.moments,
            sums: &self.sums,
            delays: &self.delays,
            loss: self.losses.clone().finish(counted.end, unknown, uncounted, known.periods.mean()),
            duplicates: self.copies.figures(counted.accepted),
        }
    }
}
