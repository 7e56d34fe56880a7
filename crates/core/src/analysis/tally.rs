//! Counts that are updated row by row: traffic classes, sources of stamps, IP headers.

use super::plain::Plain;
use crate::ecn::EcnMarking;
use crate::metrics::local_queue::{LocalQueue, LocalQueueTimes};
use crate::metrics::marks::SentAndReceived;
use crate::record::{Moment, PacketRecord};
use crate::session::Session;
use crate::summary::{Coverage, ReceivedHeaders, StampCounts};
use crate::time::StampSource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Row counts in constant memory. Counting a row takes only a few increments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Payload size of the test. Not stored; [`Tally::restore`] sets it after reading.
    #[serde(skip)]
    payload: u16,
    #[serde(skip)]
    longest_wait: i64,
    /// Marks with which the packets were sent, by the specification of the test; `None` if they are taken from the records
    /// of the packets instead.
    #[serde(skip)]
    marking: Option<EcnMarking>,
    first_arrival: Option<i64>,
    last_arrival: Option<i64>,
    /// Number of rows whose receive time is before that of the previous row.
    pub rx_time_regressions: u64,
    odd_sizes: u64,
    #[serde(with = "by_octet")]
    classes: Box<[u64; 256]>,
    #[serde(with = "by_octet")]
    ttls: Box<[u64; 256]>,
    sent: [u64; 4],
    arrived: [u64; 4],
    send_lag: Lag,
    receive_lag: Lag,
    #[serde(default)]
    local_queue: LocalQueueTimes,
    #[serde(default)]
    marks: SentAndReceived,
    /// Sequence numbers of accepted packets that waited more than half a period in the receiving host, not counting the
    /// receiver's deliberate pause.
    pub waited: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Lag {
    n: i64,
    sum: i64,
    max: Option<i64>,
}

/// Serialises counts by value of an octet, omitting zeros.
mod by_octet {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<S: Serializer>(counts: &[u64; 256], to: S) -> Result<S::Ok, S::Error> {
        to.collect_map((0u8..=255).zip(counts).filter(|(_, count)| **count > 0))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[u64; 256]>, D::Error> {
        let mut counts = Box::new([0; 256]);
        for (octet, count) in BTreeMap::<u8, u64>::deserialize(from)? {
            counts[usize::from(octet)] = count;
        }
        Ok(counts)
    }
}

fn add(counts: &mut [u64], more: &[u64]) {
    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

impl Lag {
    fn append(&mut self, next: Lag) {
        self.n += next.n;
        self.sum = self.sum.saturating_add(next.sum);
        self.max = self.max.max(next.max);
    }

    fn add(&mut self, lag: i64) {
        self.n += 1;
        self.sum = self.sum.saturating_add(lag);
        self.max = self.max.max(Some(lag));
    }

    fn mean(&self) -> Option<i64> {
        (self.n > 0).then(|| self.sum / self.n)
    }
}

impl Tally {
    /// Creates a tally for the packets of a session.
    pub fn of(session: &Session) -> Tally {
        let spec = &session.spec;
        let longest =
            session.period().map_or(i64::MAX, |period| (period.0 / 2).saturating_add(spec.read_pause().0));
        Tally { marking: Some(spec.marking), ..Tally::new(spec.payload(), longest) }
    }

    /// Creates a tally for packets of `payload` bytes. It lists packets that waited in the receiving host
    /// more than `longest_wait` ns.
    pub fn new(payload: u16, longest_wait: i64) -> Tally {
        Tally {
            payload,
            longest_wait,
            marking: Some(EcnMarking::Off),
            first_arrival: None,
            last_arrival: None,
            rx_time_regressions: 0,
            odd_sizes: 0,
            classes: Box::new([0; 256]),
            ttls: Box::new([0; 256]),
            sent: [0; 4],
            arrived: [0; 4],
            send_lag: Lag::default(),
            receive_lag: Lag::default(),
            local_queue: LocalQueueTimes::default(),
            marks: SentAndReceived::default(),
            waited: Vec::new(),
        }
    }

    /// Returns an empty tally for the same test.
    pub fn emptied(&self) -> Tally {
        Tally { marking: self.marking, ..Tally::new(self.payload, self.longest_wait) }
    }

    /// Takes the marks from the records of the packets instead of the specification of the test, which does not apply to
    /// the packets of this view.
    pub fn take_reported_marks(&mut self) {
        self.marking = None;
    }

    /// Converts stored counts to a tally of this test; `None` if they exceed `rows` in total.
    pub fn restore(&self, read: Tally, rows: u64) -> Option<Tally> {
        let counts = read.classes.iter().chain(&read.ttls[..]).chain(&read.sent).chain(&read.arrived);
        let lags = [&read.send_lag, &read.receive_lag].map(|lag| u64::try_from(lag.n).unwrap_or(u64::MAX));
        let within = counts.chain(&lags).chain([&read.odd_sizes, &read.rx_time_regressions]);
        let possible = within.copied().all(|count| count <= rows)
            && read.local_queue.is_possible(rows)
            && read.marks.is_possible(rows)
            && read.waited.len() as u64 <= rows;
        let Tally { payload, longest_wait, marking, .. } = *self;
        possible.then_some(Tally { payload, longest_wait, marking, ..read })
    }

    /// Returns the tally with `by` ns added to its arrival times and `numbers` to its sequence numbers.
    pub fn shifted(mut self, numbers: u32, by: i64) -> Tally {
        for time in [&mut self.first_arrival, &mut self.last_arrival] {
            *time = time.map(|t| t.saturating_add(by));
        }
        self.waited.iter_mut().for_each(|seq| *seq = seq.saturating_add(numbers));
        self
    }

    /// Counts the fields of a row that do not depend on its class.
    #[inline]
    pub fn row(&mut self, record: &PacketRecord) {
        if let Some(arrived) = record.arrived() {
            self.rx_time_regressions += u64::from(self.last_arrival.is_some_and(|last| arrived.0 < last));
            self.first_arrival = self.first_arrival.or(Some(arrived.0));
            self.last_arrival = Some(arrived.0);
            self.arrived[record.source(Moment::Arrived) as usize] += 1;
        }
        if record.sent().is_some() {
            self.sent[record.source(Moment::Sent) as usize] += 1;
        }
        self.lags(record);
        if let Some(class) = record.traffic_class() {
            self.classes[usize::from(class)] += 1;
        }
        self.mark(record);
        if let Some(ttl) = record.ttl() {
            self.ttls[usize::from(ttl)] += 1;
        }
        self.odd_sizes += u64::from(record.size().is_some_and(|s| s != self.payload));
    }

    /// Counts the marks of a row.
    #[inline]
    fn mark(&mut self, record: &PacketRecord) {
        let sent = match self.marking {
            Some(EcnMarking::Off) => return,
            Some(marking) => u64::try_from(record.seq).ok().map(|seq| marking.of(seq)),
            None => record.answer_mark(),
        };
        if let (Some(sent), Some(received)) = (sent, record.ecn()) {
            self.marks.add(sent, received, record.delay());
        }
    }

    /// Counts the lags of a row.
    #[inline]
    fn lags(&mut self, record: &PacketRecord) {
        if let Some(lag) = record.send_lag() {
            self.send_lag.add(lag.0);
        }
        self.local_queue.push(record);
        if let Some(lag) = record.receive_lag() {
            self.receive_lag.add(lag.0);
        }
    }

    /// Counts clean rows that belong to `packets`.
    pub(super) fn plain(&mut self, rows: &[PacketRecord], packets: &Plain) {
        let Some((first, others)) = rows.split_first() else { return };
        if !packets.alike {
            return rows.iter().for_each(|row| self.row(row));
        }
        self.row(first);
        if packets.lags {
            others.iter().for_each(|row| self.lags(row));
        }
        if self.marking != Some(EcnMarking::Off) {
            others.iter().for_each(|row| self.mark(row));
        }
        let times = others.len() as u64;
        let mut last = self.last_arrival;
        for row in others {
            let at = row.arrived().map(|t| t.0);
            self.rx_time_regressions += u64::from(at < last);
            last = at;
        }
        self.last_arrival = last;
        self.arrived[first.source(Moment::Arrived) as usize] += times;
        self.sent[first.source(Moment::Sent) as usize] += times;
        if let Some(class) = first.traffic_class() {
            self.classes[usize::from(class)] += times;
        }
        if let Some(ttl) = first.ttl() {
            self.ttls[usize::from(ttl)] += times;
        }
        if first.size().is_some_and(|s| s != self.payload) {
            self.odd_sizes += times;
        }
    }

    /// Counts an accepted row of packet `seq`.
    #[inline]
    pub fn accepted(&mut self, record: &PacketRecord, seq: u32) {
        if record.receive_lag().is_some_and(|lag| lag.0 > self.longest_wait) {
            self.waited.push(seq);
        }
    }

    /// Adds the rows that follow; `new` returns true for packets that were not accepted before.
    pub fn append(&mut self, next: Tally, new: impl Fn(u32) -> bool) {
        let stepped = self.last_arrival.zip(next.first_arrival).is_some_and(|(last, first)| first < last);
        self.rx_time_regressions += next.rx_time_regressions + u64::from(stepped);
        self.first_arrival = self.first_arrival.or(next.first_arrival);
        self.last_arrival = next.last_arrival.or(self.last_arrival);
        self.odd_sizes += next.odd_sizes;
        add(&mut self.classes[..], &next.classes[..]);
        add(&mut self.ttls[..], &next.ttls[..]);
        add(&mut self.sent, &next.sent);
        add(&mut self.arrived, &next.arrived);
        self.send_lag.append(next.send_lag);
        self.receive_lag.append(next.receive_lag);
        self.local_queue.merge(&next.local_queue);
        self.marks.merge(&next.marks);
        self.waited.extend(next.waited.into_iter().filter(|seq| new(*seq)));
    }

    /// Returns the numbers of stamps by source, with the lags.
    pub fn stamps(&self, session: &Session) -> StampCounts {
        let coverage = |[user, kernel, hardware, wire]: [u64; 4]| Coverage { user, kernel, hardware, wire };
        StampCounts {
            sent: coverage(self.sent),
            arrived: coverage(self.arrived),
            send_lag_mean_ns: self.send_lag.mean(),
            send_lag_max_ns: self.send_lag.max,
            sent_lost: session.stamps_lost,
            receive_lag_mean_ns: self.receive_lag.mean(),
            receive_lag_max_ns: self.receive_lag.max,
            receive_pause_ns: session.read_pause.map(|pause| pause.0),
        }
    }

    /// Returns the time spent in the queue of the sending host's interface; `None` if it is unknown.
    pub fn local_queue(&self) -> Option<LocalQueue> {
        self.local_queue.figures()
    }

    /// Returns the numbers of rows by the mark as sent and the mark as received, and the delays of marked packets.
    pub fn marks(&self) -> &SentAndReceived {
        &self.marks
    }

    /// Returns the number of rows per source of the arrival stamp.
    pub fn arrived(&self) -> [u64; 4] {
        self.arrived
    }

    /// Returns the source of the arrival stamps; `None` if there are no stamps, or stamps from several sources.
    pub fn arrived_by(&self) -> Option<StampSource> {
        let mut taken = StampSource::ALL.into_iter().filter(|s| self.arrived[*s as usize] > 0);
        taken.next().filter(|_| taken.next().is_none())
    }

    /// Returns the IP header fields that the receiver observed.
    pub fn far_end(&self) -> ReceivedHeaders {
        let mut seen = ReceivedHeaders { odd_sizes: self.odd_sizes, ..ReceivedHeaders::default() };
        let add = |map: &mut BTreeMap<u8, u64>, key: u8, count: u64| {
            if count > 0 {
                *map.entry(key).or_default() += count;
            }
        };
        for value in 0..=u8::MAX {
            let class = self.classes[usize::from(value)];
            add(&mut seen.dscp, value >> 2, class);
            add(&mut seen.ecn, value & 3, class);
            add(&mut seen.ttl, value, self.ttls[usize::from(value)]);
        }
        seen
    }
}
