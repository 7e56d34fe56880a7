//! The analysis in constant memory, for runs without end (metrics §23): every figure in one pass,
//! percentiles from log-linear histograms, everything else exact as far as a bounded window sees.

use super::assemble::{Counted, Findings, Kind, Known};
use super::plain::Plain;
use super::saved::{Impossible, MOST_ROWS, require};
use super::stretches::{Ended, Stretches};
use super::tally::Tally;
use super::{Gathered, NotMergeable, Options, Samples};
use crate::distribution::{Distribution, LogHistogram, Precision, Quantiles};
use crate::metrics::classify::{Class, Classifier, Packet};
use crate::metrics::clock::ClockEstimate;
use crate::metrics::confidence;
use crate::metrics::dejitter;
use crate::metrics::density::{Occupancy, StayBack, THRESHOLD};
use crate::metrics::entry::Running;
use crate::metrics::ipdv::StreamingIpdv;
use crate::metrics::loss::LossScan;
use crate::metrics::mapdv2::Mapdv2;
use crate::metrics::moments::{CoMoments, Moments};
use crate::metrics::one_pass::add_later_counts;
use crate::metrics::periods::Extent;
use crate::metrics::reorder::Overtaking;
use crate::metrics::seqset::{Run, SeqSet, absent, without};
use crate::metrics::skew::StreamingHull;
use crate::metrics::{METRICS, OnePass, rfc3550};
use crate::record::PacketRecord;
use crate::session::Session;
use crate::spec::{Schedule, Transport};
use crate::summary::{
    Dejitter, Duplicates, FarEnd, Inference, Ipdv, LocalQueue, Loss, Periods, Regression, Reordering,
    Rfc3550, ScheduleError, SkewHull, Stamps,
};
use crate::verdict::{self, Judgement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pages of 512 sequence numbers kept: two million packets.
const PAGES: usize = 4096;
/// Discontinuities kept.
const STRETCHES: usize = 8192;

/// Rows kept as they came, to be taken again where this analysis is merged behind another.
const HEAD: usize = 4096;

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
        self.tally.row(record);
        match self.classifier.number(record) {
            Some(seq) => {
                self.push_row(seq, Classifier::packet(record).map_or(Row::Damaged, Row::Clean), record);
            }
            None => self.classifier.refuse(),
        }
    }

    /// See [`super::Analyzer::push_all`].
    pub fn push_all(&mut self, records: &[PacketRecord]) {
        let (mut plain, mut rest) = (Plain::new(), records);
        let mut next = self.classifier.next().max(self.forgotten);
        while let Some(first) = rest.first() {
            let is_begun = self.head.rows() >= HEAD;
            let taken = if is_begun { plain.take(rest, next, self.classifier.packets()) } else { 0 };
            if taken == 0 {
                self.push(first);
                rest = &rest[1..];
                next = self.classifier.next().max(self.forgotten);
                continue;
            }
            let (rows, later) = rest.split_at(taken);
            rest = later;
            self.tally.plain(rows, &plain);
            let lowest = plain.seq()[0];
            self.lowest = Some(self.lowest.map_or(lowest, |before| before.min(lowest)));
            next = self.classifier.accept_all(plain.runs());
            self.accept_all(&plain);
            if let Some(stretches) = &mut self.stretches {
                stretches.push_all(&plain, rows);
            }
        }
    }

    fn accept_all(&mut self, packets: &Plain) {
        let (seqs, sent, delays) = (packets.seq(), packets.sent(), packets.delay());
        self.moments.add_all(delays);
        self.sums.add_all(sent, delays);
        self.extent.push_all(packets.iter());
        self.jitter.push_all(delays);
        self.mapdv2.push_all(delays);
        let mut at = 0;
        for run in packets.runs() {
            let length = run.len();
            self.overtaking.push_run(run.clone(), |k| sent[at + k].wrapping_add(delays[at + k]));
            self.stay_back.push_run(run.clone());
            self.occupancy.push_run(run);
            at += length;
        }
        self.delays.add_all(delays);
        self.ipdv.push_all(seqs, delays);
        self.hull.push_all(sent, delays);
        if !self.listed.is_empty() {
            packets.iter().for_each(|packet| self.listed.push(&packet));
        }
        if let Some((period, offsets)) = &mut self.errors {
            let offset = |p: Packet| p.sent.saturating_sub(period.saturating_mul(p.seq.into()));
            offsets.add_all(&packets.iter().map(offset).collect::<Vec<_>>());
        }
        self.forget();
    }

    fn push_row(&mut self, seq: u32, row: Row, record: &PacketRecord) {
        let copies = self.copies.total;
        let accepted = self.row(seq, row);
        let Some(stretches) = &mut self.stretches else { return };
        match row {
            Row::Clean(packet) if accepted => stretches.push(seq, Some(packet), record),
            Row::Delayless if accepted => stretches.push(seq, None, record),
            _ if self.copies.total > copies => stretches.push_copy(seq, record),
            Row::Damaged if u64::from(seq) >= self.forgotten => stretches.push_damaged(seq, record),
            _ => {}
        }
    }

    /// See [`super::Analyzer::push_delayless`].
    pub fn push_delayless(&mut self, record: &PacketRecord) {
        self.tally.row(record);
        match self.classifier.number(record) {
            Some(seq) => self.push_row(seq, Row::Delayless, record),
            None => self.classifier.refuse(),
        }
    }

    /// The next row with a valid number; whether it is the first of its packet that counts.
    fn row(&mut self, seq: u32, row: Row) -> bool {
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
        let packet = match row {
            Row::Delayless => {
                self.classifier.received += 1;
                let is_new = self.classifier.accepted.insert(seq);
                if is_new {
                    self.delayless += 1;
                    self.forget();
                } else {
                    self.copies.push(seq);
                }
                return is_new;
            }
            Row::Clean(packet) => Some(packet),
            Row::Damaged => None,
        };
        match self.classifier.classify_row(seq, packet) {
            Class::Accepted(packet) => {
                self.accept(&packet);
                return true;
            }
            Class::Duplicate(seq) => self.copies.push(seq),
            Class::Damaged(_) | Class::Invalid => {}
        }
        false
    }

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
        self.forget();
    }

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

/// A row with a valid number.
#[derive(Clone, Copy)]
enum Row {
    /// Nothing is wrong with it.
    Clean(Packet),
    /// Nothing is wrong with it, but it has no delay.
    Delayless,
    /// Anomaly flagged, or times missing.
    Damaged,
}

/// The first rows with valid numbers, in arrival order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Head {
    rows: Samples,
    /// Places of those that are no clean copies, whose times mean nothing.
    damaged: Vec<u32>,
    /// Places of those that have no delay.
    #[serde(default)]
    delayless: Vec<u32>,
}

impl Head {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn push(&mut self, seq: u32, row: Row) {
        let place = self.rows.len() as u32;
        let packet = match row {
            Row::Clean(packet) => Some(packet),
            Row::Delayless => {
                self.delayless.push(place);
                None
            }
            Row::Damaged => {
                self.damaged.push(place);
                None
            }
        };
        self.rows.push(packet.unwrap_or(Packet { seq, sent: 0, delay: 0 }));
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Row)> + '_ {
        let among = |places: &[u32], place: u32| places.binary_search(&place).is_ok();
        let row = move |place, packet| match () {
            () if among(&self.damaged, place) => Row::Damaged,
            () if among(&self.delayless, place) => Row::Delayless,
            () => Row::Clean(packet),
        };
        (0..).zip(self.rows.iter()).map(move |(k, packet)| (packet.seq, row(k, packet)))
    }

    /// Whether these can be the first rows of a test of `packets` packets.
    fn is_possible(&self, packets: u32) -> bool {
        let Samples { seq, sent, delay, .. } = &self.rows;
        let columns = seq.len() <= HEAD && seq.len() == sent.len() && seq.len() == delay.len();
        let of_clock = |(sent, delay): (&i64, &i64)| sent.checked_add(*delay).is_some();
        columns && seq.iter().all(|seq| *seq < packets) && sent.iter().zip(delay).all(of_clock)
    }

    /// Whether all numbers accepted are below `forgotten`, above the `lowest` of later rows, or these rows'.
    fn has_numbers_below(&self, lowest: Option<u32>, accepted: &SeqSet) -> bool {
        let mut known = self.rows.seq.clone();
        known.sort_unstable();
        let mut early = accepted.iter().take_while(|seq| lowest.is_none_or(|lowest| *seq < lowest));
        early.all(|seq| known.binary_search(&seq).is_ok())
    }
}

/// A stream that has ended, with what is known of its test.
pub(super) struct Streamed<'a> {
    stream: Stream,
    known: Known<'a>,
    extent: verdict::Known,
    kind: Kind,
}

impl<'a> Streamed<'a> {
    pub fn new(stream: Stream, session: &'a Session, options: &'a Options, kind: Kind) -> Streamed<'a> {
        let stream = stream.settled();
        let extent = stream.extent(session);
        let counted = Counted {
            sent: extent.sent,
            tail_unknown: !extent.complete,
            end: extent.end,
            received: stream.classifier.received,
            accepted: stream.moments.n() + stream.delayless,
            duplicate: stream.copies.total,
            invalid: stream.classifier.invalid,
            late: 0,
            rx_time_regressions: stream.tally.rx_time_regressions,
        };
        let known = Known {
            session,
            options,
            percents: options.all_percents(),
            clock: ClockEstimate::new(session, None),
            counted,
            periods: Periods::new(session, &stream.extent),
        };
        Streamed { stream, known, extent, kind }
    }
}

impl Findings for Streamed<'_> {
    fn known(&self) -> &Known<'_> {
        &self.known
    }

    fn delays(&self) -> (Distribution, Distribution) {
        let (delays, moments) = (&self.stream.delays, &self.stream.moments);
        let latency = delays.distribution(moments, self.known.wanted());
        let pdv = match delays.quantiles() {
            Quantiles::Exact(sample) => latency.above_minimum(moments, Some(&sample)),
            Quantiles::Counted(_) => latency.above_minimum(moments, None),
        };
        (latency, pdv)
    }

    fn delayless(&self) -> u64 {
        self.stream.delayless
    }

    fn ipdv(&self) -> Ipdv {
        self.stream.ipdv.figures(self.known.counted.sent)
    }

    fn rfc3550_jitter(&self) -> Option<Rfc3550> {
        self.stream.jitter.output()
    }

    fn mapdv2(&self) -> Option<f64> {
        self.stream.mapdv2.output()
    }

    fn loss(&self) -> Loss {
        let Counted { sent, end, .. } = self.known.counted;
        let unrecorded = self.known.session.unrecorded_in(0, end);
        self.stream.losses.clone().finish(
            end,
            end.saturating_sub(sent),
            unrecorded,
            self.known.periods.mean(),
        )
    }

    fn duplicates(&self) -> Duplicates {
        self.stream.copies.figures(self.known.counted.accepted)
    }

    fn reordering(&self) -> Reordering {
        Reordering {
            observable: self.known.session.spec.transport() == Transport::Udp,
            rd_fd_dt128: self.stream.stay_back.clone().finish(),
            rbd_fb_bt128: self.stream.occupancy.histogram(),
            ..self.stream.overtaking.output()
        }
    }

    fn regressions(&self) -> [Option<Regression>; 2] {
        let (on_send, on_arrival) = self.stream.sums.output();
        [on_send, on_arrival].map(|line| line.map(Regression::from))
    }

    fn skew_hull(&self) -> Option<SkewHull> {
        self.stream.hull.clone().figures(self.stream.sums.on_send())
    }

    fn schedule_error(&self) -> Option<ScheduleError> {
        let (period, offsets) = self.stream.errors.as_ref()?;
        ScheduleError::approximate(offsets, *period)
    }

    fn inference(&self) -> Inference {
        confidence::of_mean(&self.stream.moments)
    }

    fn dejitter(&self) -> Option<Dejitter> {
        let Known { clock, counted, .. } = &self.known;
        let min = self.stream.delays.min()?;
        let reference = dejitter::reference_delay(clock, Some(min))?;
        let receiver = self.known.receiver();
        Some(dejitter::approximate(&self.stream.delays, min, counted.sent, reference, &receiver))
    }

    fn stamps(&self) -> Stamps {
        self.stream.tally.stamps(self.known.session)
    }

    fn local_queue(&self) -> Option<LocalQueue> {
        self.stream.tally.local_queue()
    }

    fn far_end(&self) -> FarEnd {
        self.stream.tally.far_end()
    }

    fn figures(&self) -> BTreeMap<String, Option<f64>> {
        self.stream.listed.clone().figures()
    }

    fn judgement(&self) -> Option<Judgement> {
        self.stream.stretches.as_ref()?.judgement(&Ended {
            session: self.known.session,
            known: self.extent,
            clock: &self.known.clock,
            received: self.known.counted.accepted,
            min: self.stream.moments.min(),
            round_trip: self.kind == Kind::RoundTrips,
            profiles: &self.known.options.profiles,
        })
    }
}

/// Runs of loss from runs of reception.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Losses {
    next: u64,
    scan: LossScan,
}

impl Losses {
    /// Whether these can be the losses among the numbers below `forgotten`.
    fn is_possible(&self, forgotten: u64) -> bool {
        self.next <= forgotten && self.scan.is_possible(self.next)
    }

    fn received(&mut self, run: Run) {
        if run.start > self.next {
            self.scan.push(Run { start: self.next, len: run.start - self.next });
        }
        self.next = run.start + run.len;
    }

    /// Length of the longest run of losses below `met`, where `accepted` has what is not counted here yet.
    fn longest(&self, accepted: &SeqSet, met: u64) -> u64 {
        let counted = |run: Run| (run.start + run.len).saturating_sub(run.start.max(self.next));
        let later = absent(accepted.runs(), met).map(counted).max().unwrap_or(0);
        later.max(self.scan.longest())
    }

    /// The figures of the packets below `end` that are not `unrecorded`, of which there are `unknown`.
    fn finish(
        mut self,
        end: u64,
        unknown: u64,
        unrecorded: impl Iterator<Item = Run> + Clone,
        period: Option<f64>,
    ) -> crate::metrics::loss::Loss {
        // When these runs were counted, it was not known that they are no losses.
        unrecorded.clone().for_each(|run| self.scan.remove(run));
        let last = (end > self.next).then(|| Run { start: self.next, len: end - self.next });
        without(last.into_iter(), unrecorded).for_each(|run| self.scan.push(run));
        self.scan.finish(end, unknown, period)
    }
}

/// Further copies, counted by runs once their numbers can no longer come again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CopyRuns {
    total: u64,
    duplicated: u64,
    recent: BTreeMap<u32, u64>,
    run: Option<(u32, u64)>,
    runs: BTreeMap<u64, u64>,
    counts: BTreeMap<u64, u64>,
}

impl CopyRuns {
    /// Whether these can be the copies of packets that are `accepted` or have a number below `forgotten`.
    fn is_possible(&self, accepted: &SeqSet, forgotten: u64) -> bool {
        let known = self.recent.keys().all(|seq| accepted.contains(*seq));
        let run = self.run.is_none_or(|(last, len)| u64::from(last) < forgotten && len <= forgotten);
        let counted = |of: &BTreeMap<u64, u64>| of.values().map(|count| u128::from(*count)).sum::<u128>();
        let (runs, duplicated) = (counted(&self.runs), u128::from(self.duplicated));
        let copies = self.recent.values().map(|copies| u128::from(*copies)).sum::<u128>() + duplicated;
        known
            && run
            && copies <= self.total.into()
            && counted(&self.counts) == duplicated
            && runs <= duplicated
    }

    fn push(&mut self, seq: u32) {
        self.total += 1;
        *self.recent.entry(seq).or_default() += 1;
    }

    /// Books the copies of numbers below `limit`.
    fn settle(&mut self, limit: u64) {
        while let Some(entry) = self.recent.first_entry() {
            if u64::from(*entry.key()) >= limit {
                return;
            }
            let (seq, copies) = entry.remove_entry();
            self.duplicated += 1;
            *self.counts.entry(1 + copies).or_default() += 1;
            self.run = match self.run {
                Some((last, len)) if last + 1 == seq => Some((seq, len + 1)),
                ended => {
                    self.close(ended);
                    Some((seq, 1))
                }
            };
        }
        if limit == u64::MAX {
            let last = self.run.take();
            self.close(last);
        }
    }

    fn close(&mut self, run: Option<(u32, u64)>) {
        if let Some((_, len)) = run {
            *self.runs.entry(len).or_default() += 1;
        }
    }

    fn figures(&self, accepted: u64) -> Duplicates {
        let over = |x: u64| (accepted > 0).then(|| x as f64 / accepted as f64);
        let mut arrival_count_hist = self.counts.clone();
        if accepted > self.duplicated {
            arrival_count_hist.insert(1, accepted - self.duplicated);
        }
        Duplicates {
            duplication_fraction: over(self.total),
            replicated_rate: over(self.duplicated),
            run_length_hist: self.runs.clone(),
            arrival_count_hist,
            time_to_duplicate: None,
        }
    }
}
