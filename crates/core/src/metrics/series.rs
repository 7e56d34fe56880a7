//! [`Samples`]: a stream in arrival order. [`Series`]: the same stream in send order.

use super::classify::AcceptedPacket;
use super::shuffle::{MovedStretch, Shuffle};
use crate::distribution::{extremes, lowest};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::OnceLock;

/// Accepted packets in arrival order: three columns of equal length, 20 bytes per packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Columns")]
pub struct Samples {
    /// Sequence numbers, all different.
    #[serde(serialize_with = "steps::serialize")]
    pub seq: Vec<u32>,
    /// Send times, ns since 1970.
    #[serde(serialize_with = "steps::serialize")]
    pub sent: Vec<i64>,
    /// Raw delays, in ns.
    #[serde(serialize_with = "steps::serialize")]
    pub delay: Vec<i64>,
    /// Packets that spent a millisecond or more in the queue of the sending host's interface, by kernel stamps:
    /// sequence number, and time in ns, in order of arrival. Set at the end of an analysis.
    #[serde(skip)]
    pub queued: Vec<(u32, i64)>,
    /// Sequence numbers of received packets whose delay is unknown, ascending. Set at the end of an analysis.
    #[serde(skip)]
    pub delayless: Vec<u32>,
}

impl Samples {
    /// Returns a sequence number that two packets have, if there is one, as in a damaged file.
    pub fn repeated(&self) -> Option<u32> {
        // Nearly always the numbers ascend, so that no sorted copy is needed.
        if self.seq.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let mut sorted = self.seq.clone();
        sorted.sort_unstable();
        sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

/// Columns of [`Samples`] as they are read. A damaged file may contain columns of different lengths.
#[derive(Deserialize)]
#[serde(rename = "Samples")]
struct Columns {
    #[serde(deserialize_with = "steps::deserialize")]
    seq: Vec<u32>,
    #[serde(deserialize_with = "steps::deserialize")]
    sent: Vec<i64>,
    #[serde(deserialize_with = "steps::deserialize")]
    delay: Vec<i64>,
}

impl TryFrom<Columns> for Samples {
    type Error = String;

    fn try_from(columns: Columns) -> Result<Samples, String> {
        let Columns { seq, sent, delay } = columns;
        if (sent.len(), delay.len()) != (seq.len(), seq.len()) {
            let (numbers, sent, delays) = (seq.len(), sent.len(), delay.len());
            return Err(format!("{numbers} sequence numbers, but {sent} send times and {delays} delays"));
        }
        Ok(Samples { seq, sent, delay, ..Samples::default() })
    }
}

/// Serialises a column as its first value and the following differences, which are small and take few bytes.
mod steps {
    use serde::de::{Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::Serializer;
    use std::fmt;
    use std::marker::PhantomData;

    pub fn serialize<T, S>(column: &[T], to: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<i64>,
        S: Serializer,
    {
        let mut last = 0i64;
        to.collect_seq(column.iter().map(|&value| {
            let step = value.into().wrapping_sub(last);
            last = value.into();
            step
        }))
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: TryFrom<i64>,
        D: Deserializer<'de>,
    {
        struct Column<T>(PhantomData<T>);

        impl<'de, T: TryFrom<i64>> Visitor<'de> for Column<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<Vec<T>, A::Error> {
                // The claimed length is not trusted for an allocation, because each value takes at least one byte of
                // input.
                let mut column = Vec::new();
                let mut last = 0i64;
                while let Some(step) = steps.next_element::<i64>()? {
                    last = last.wrapping_add(step);
                    column.push(T::try_from(last).map_err(|_| A::Error::custom("a number out of range"))?);
                }
                Ok(column)
            }
        }

        from.deserialize_seq(Column(PhantomData))
    }
}

impl Samples {
    /// Returns the number of accepted packets.
    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// Returns true if no packet was accepted.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }

    /// Adds the next arrival.
    #[inline]
    pub fn push(&mut self, packet: AcceptedPacket) {
        self.seq.push(packet.seq);
        self.sent.push(packet.sent);
        self.delay.push(packet.delay);
    }

    /// Removes all packets without releasing the memory.
    pub fn clear(&mut self) {
        self.seq.clear();
        self.sent.clear();
        self.delay.clear();
        self.queued.clear();
        self.delayless.clear();
    }

    /// Returns the k-th arrival.
    #[inline]
    pub fn packet(&self, k: usize) -> AcceptedPacket {
        AcceptedPacket { seq: self.seq[k], sent: self.sent[k], delay: self.delay[k] }
    }

    /// Returns the arrival time of the k-th arrival, ns since 1970.
    pub fn arrived(&self, k: usize) -> i64 {
        self.packet(k).arrived()
    }

    /// Iterates over all packets in arrival order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = AcceptedPacket> + Clone {
        self.part(0..self.len())
    }

    /// Iterates over the packets in `range` in arrival order.
    #[inline]
    fn part(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = AcceptedPacket> + Clone {
        let columns = self.seq[range.clone()].iter().zip(&self.sent[range.clone()]).zip(&self.delay[range]);
        columns.map(|((&seq, &sent), &delay)| AcceptedPacket { seq, sent, delay })
    }

    /// Splits off the packets with sequence numbers from `number` on and renumbers them from 0.
    pub fn split_off(&mut self, number: u32) -> Samples {
        let later = |seq: &u32| *seq >= number;
        // Nearly always the packets to move are a suffix.
        let first = self.seq.iter().position(later).unwrap_or(self.len());
        if self.seq[first..].iter().all(later) {
            let seq = self.seq.split_off(first).into_iter().map(|seq| seq - number).collect();
            let (sent, delay) = (self.sent.split_off(first), self.delay.split_off(first));
            return Samples { seq, sent, delay, ..Samples::default() };
        }
        let mut rest = Samples::default();
        self.retain(|packet| {
            let stays = packet.seq < number;
            if !stays {
                rest.push(AcceptedPacket { seq: packet.seq - number, ..*packet });
            }
            stays
        });
        rest
    }

    /// Retains only the packets for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&AcceptedPacket) -> bool) {
        let mut kept = 0;
        for k in 0..self.len() {
            let packet = self.packet(k);
            if keep(&packet) {
                (self.seq[kept], self.sent[kept], self.delay[kept]) = (packet.seq, packet.sent, packet.delay);
                kept += 1;
            }
        }
        self.seq.truncate(kept);
        self.sent.truncate(kept);
        self.delay.truncate(kept);
    }
}

/// Accepted packets in send order, that is, by sequence number. If few packets are reordered, sorting needs little
/// memory: 8 bytes for each arrival in a stretch that is not in send order.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    samples: &'a Samples,
    /// `None` if packets arrived in send order.
    shuffle: Option<Shuffle>,
    sent: OnceLock<SendOrderFacts>,
}

/// Facts about the send times of a series.
#[derive(Clone, Copy, Debug)]
struct SendOrderFacts {
    in_order: bool,
    /// Smallest and largest send time; `None` without packets.
    extremes: Option<[i64; 2]>,
}

/// Iterates over the longest ranges of consecutive numbers; `numbers` must be below 2³² − 1.
pub fn runs(numbers: &[u32]) -> impl Iterator<Item = Range<u32>> {
    numbers.chunk_by(|a, b| a.wrapping_add(1) == *b).map(|run| run[0]..run[0] + run.len() as u32)
}

impl<'a> Series<'a> {
    /// Creates a view of `samples` in send order.
    pub fn new(samples: &'a Samples) -> Series<'a> {
        Series { samples, shuffle: Shuffle::of(&samples.seq), sent: OnceLock::new() }
    }

    /// Returns the sequence numbers in arrival order.
    pub fn numbers(&self) -> &'a [u32] {
        &self.samples.seq
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns true if there are no packets.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns true if packets arrived in send order.
    pub fn in_order(&self) -> bool {
        self.shuffle.is_none()
    }

    /// Returns the arrival index of the k-th packet sent.
    #[inline]
    pub fn arrival(&self, k: usize) -> usize {
        self.shuffle.as_ref().map_or(k, |shuffle| shuffle.arrival(k))
    }

    /// Iterates over the stretches of reordered arrivals, each with the send-order index of each of its arrivals. All
    /// other packets have the same index in both orders.
    pub fn displaced(&self) -> impl Iterator<Item = (Range<usize>, &[u32])> {
        self.shuffle.iter().flat_map(|shuffle| {
            shuffle.stretches.iter().map(|s| {
                let (from, to, at) = (s.from as usize, s.to as usize, s.at as usize);
                (from..to, &shuffle.ranks[at..at + to - from])
            })
        })
    }

    /// Returns the k-th accepted packet in send order.
    #[inline]
    pub fn get(&self, k: usize) -> AcceptedPacket {
        self.samples.packet(self.arrival(k))
    }

    /// Returns the arrival time of the k-th arrival.
    pub fn arrived(&self, k: usize) -> i64 {
        self.samples.arrived(k)
    }

    /// Returns the send time and the delay of the k-th accepted packet in send order.
    #[inline]
    pub fn times(&self, k: usize) -> (i64, i64) {
        let k = self.arrival(k);
        (self.samples.sent[k], self.samples.delay[k])
    }

    /// Returns the smallest and the largest delay of the packets in `range` in send order, in ns; `None`
    /// without packets.
    #[inline]
    pub fn extreme_delays(&self, range: Range<usize>) -> Option<[i64; 2]> {
        let (delays, ends) = self.delays_of(range);
        ends.fold(extremes(delays.iter().copied()), |found, delay| {
            Some(found.map_or([delay; 2], |[low, high]| [low.min(delay), high.max(delay)]))
        })
    }

    /// Returns the smallest delay of the packets in `range` in send order, in ns; `i64::MAX` without packets.
    #[inline]
    pub fn lowest_delay(&self, range: Range<usize>) -> i64 {
        let (delays, ends) = self.delays_of(range);
        ends.fold(lowest(delays.iter().copied()), i64::min)
    }

    /// Returns the delays of the packets in `range` of the send order, in any order: a slice of consecutive arrivals,
    /// and an iterator over the packets at either end of the range that arrived among packets outside it.
    #[inline]
    fn delays_of(&self, range: Range<usize>) -> (&'a [i64], impl Iterator<Item = i64>) {
        let (mut inner, mut ends) = (range, [&[][..]; 2]);
        if let Some(shuffle) = &self.shuffle {
            let begun = |k: usize| shuffle.from(k).first().filter(|s| (s.from as usize) < k);
            let order = |s: &MovedStretch, positions: Range<usize>| {
                &shuffle.order_of(s)[positions.start - s.from as usize..][..positions.len()]
            };
            if let Some(s) = begun(inner.start) {
                let end = inner.end.min(s.to as usize);
                ends[0] = order(s, inner.start..end);
                inner.start = end;
            }
            if let Some(s) = begun(inner.end).filter(|_| !inner.is_empty()) {
                ends[1] = order(s, s.from as usize..inner.end);
                inner.end = s.from as usize;
            }
        }
        let delay = &self.samples.delay;
        (delay.get(inner).unwrap_or_default(), ends.into_iter().flatten().map(|k| delay[*k as usize]))
    }

    fn sent(&self) -> SendOrderFacts {
        *self.sent.get_or_init(|| {
            let (sent, in_order) = (&self.samples.sent, self.ascend_in_send_order());
            let ends = sent.first().zip(sent.last());
            let extremes = match ends.filter(|_| in_order && self.in_order()) {
                Some((first, last)) => Some([*first, *last]),
                None => extremes(sent.iter().copied()),
            };
            SendOrderFacts { in_order, extremes }
        })
    }

    /// Returns true if the send times ascend in send order.
    fn ascend_in_send_order(&self) -> bool {
        let sent = &self.samples.sent[..];
        let (mut at, mut last) = (0, i64::MIN);
        let mut follows = |part: &[i64]| {
            let (Some(first), Some(end)) = (part.first(), part.last()) else { return true };
            std::mem::replace(&mut last, *end) <= *first && part.is_sorted()
        };
        self.shuffle
            .iter()
            .flat_map(|shuffle| shuffle.stretches.iter().map(|s| (s, shuffle.order_of(s))))
            .all(|(s, displaced)| {
                let in_place = std::mem::replace(&mut at, s.to as usize)..s.from as usize;
                follows(&sent[in_place])
                    && displaced.iter().all(|k| follows(&sent[*k as usize..=*k as usize]))
            })
            && follows(&sent[at..])
    }

    /// Returns true if send times never decrease with the sequence number, that is, if no clock stepped back.
    pub fn sent_in_order(&self) -> bool {
        self.sent().in_order
    }

    /// Returns the smallest send time; `None` without packets.
    pub fn earliest(&self) -> Option<i64> {
        self.sent().extremes.map(|[earliest, _]| earliest)
    }

    /// Returns the largest send time; `None` without packets.
    pub fn latest(&self) -> Option<i64> {
        self.sent().extremes.map(|[_, latest]| latest)
    }

    /// Iterates over all packets in send order.
    pub fn iter(&self) -> SendOrder<'_> {
        self.range(0..self.len())
    }

    /// Iterates over all packets in arrival order.
    pub fn arrivals(&self) -> impl ExactSizeIterator<Item = AcceptedPacket> + Clone + '_ {
        self.samples.iter()
    }

    /// Iterates over a range of packets in send order.
    pub fn range(&self, range: Range<usize>) -> SendOrder<'_> {
        SendOrder::new(self, range)
    }

    /// Returns the first index whose sequence number is at least `seq`.
    pub fn position_of(&self, seq: u64) -> usize {
        let Some(last) = self.len().checked_sub(1) else { return 0 };
        // All numbers are different. This bounds the number of packets below `seq` from both sides.
        let most = u64::from(self.get(last).seq).saturating_add(1).saturating_sub(seq);
        let (mut low, mut high) =
            (self.len() - (self.len() as u64).min(most) as usize, (self.len() as u64).min(seq) as usize);
        // Nearby numbers have few gaps between them, so one or two guesses nearly always find the index.
        let mut guess =
            (u128::from(seq) * self.len() as u128 / (u128::from(self.get(last).seq) + 1)) as usize;
        for guesses in 0.. {
            if low >= high {
                break;
            }
            let middle =
                if guesses < MAX_GUESSES { guess.clamp(low, high - 1) } else { low + (high - low) / 2 };
            let here = u64::from(self.get(middle).seq);
            if here < seq {
                (low, guess) = (middle + 1, middle.saturating_add((seq - here) as usize));
            } else {
                (high, guess) = (middle, middle.saturating_sub((here - seq) as usize));
            }
        }
        low
    }
}

/// Number of reordered packets that are read at a time.
const DISPLACED_CHUNK: usize = 32;

/// Maximum number of guesses before the search continues by bisection.
const MAX_GUESSES: usize = 8;

/// Iterator over packets in send order. [`Iterator::fold`] and methods based on it (`for_each`, `sum`, `min`)
/// are faster than calls of `next`.
#[derive(Clone, Debug)]
pub struct SendOrder<'a> {
    series: &'a Series<'a>,
    range: Range<usize>,
    /// Index up to which the next packets are either all in order or all in the same stretch.
    known_to: usize,
    /// If the next packets are in a stretch: the arrival index of each of its packets, and the send-order index of the
    /// first one.
    displaced: Option<(&'a [u32], usize)>,
}

impl<'a> SendOrder<'a> {
    fn new(series: &'a Series<'a>, range: Range<usize>) -> SendOrder<'a> {
        let known_to = if series.in_order() { usize::MAX } else { range.start };
        SendOrder { series, range, known_to, displaced: None }
    }

    /// Finds the stretch that contains packet `k`.
    fn look(&mut self, k: usize) {
        let Some(shuffle) = &self.series.shuffle else { return };
        (self.known_to, self.displaced) = match shuffle.from(k).first() {
            Some(s) if s.from as usize <= k => (s.to as usize, Some((shuffle.order_of(s), s.from as usize))),
            Some(next) => (next.from as usize, None),
            None => (usize::MAX, None),
        };
    }
}

impl Iterator for SendOrder<'_> {
    type Item = AcceptedPacket;

    #[inline]
    fn next(&mut self) -> Option<AcceptedPacket> {
        let k = self.range.next()?;
        if k >= self.known_to {
            self.look(k);
        }
        let arrival = self.displaced.map_or(k, |(order, from)| order[k - from] as usize);
        Some(self.series.samples.packet(arrival))
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<AcceptedPacket> {
        self.range.start = self.range.start.saturating_add(n).min(self.range.end);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    #[inline]
    fn fold<B, F: FnMut(B, AcceptedPacket) -> B>(self, start: B, mut next: F) -> B {
        let Series { samples, shuffle, .. } = self.series;
        let Range { start: mut at, end } = self.range;
        let mut sum = start;
        // Slices of equal length let the compiler omit bounds checks.
        let n = samples.len();
        let (seq, sent, delay) = (&samples.seq[..n], &samples.sent[..n], &samples.delay[..n]);
        // Reordered packets are copied into these buffers, so that one loop can process them.
        let mut read = ([0; DISPLACED_CHUNK], [0; DISPLACED_CHUNK], [0; DISPLACED_CHUNK]);
        let first = at;
        let mut stretches =
            shuffle.iter().flat_map(|shuffle| shuffle.from(first).iter().map(move |s| (shuffle, s)));
        let mut stretch = stretches.next();
        while at < end {
            let (seq, sent, delay) = match stretch {
                Some((shuffle, s)) if s.from as usize <= at => {
                    let (from, to) = (at, end.min(s.to as usize).min(at + DISPLACED_CHUNK));
                    if to == s.to as usize {
                        stretch = stretches.next();
                    }
                    at = to;
                    let order = &shuffle.order_of(s)[from - s.from as usize..to - s.from as usize];
                    let (seqs, sents, delays) = &mut read;
                    for (to, k) in order.iter().enumerate() {
                        let k = *k as usize;
                        (seqs[to], sents[to], delays[to]) = (seq[k], sent[k], delay[k]);
                    }
                    (&seqs[..order.len()], &sents[..order.len()], &delays[..order.len()])
                }
                later => {
                    let to = later.map_or(end, |(_, s)| end.min(s.from as usize));
                    let part = at..to;
                    at = to;
                    (&seq[part.clone()], &sent[part.clone()], &delay[part])
                }
            };
            for ((&seq, &sent), &delay) in seq.iter().zip(sent).zip(delay) {
                sum = next(sum, AcceptedPacket { seq, sent, delay });
            }
        }
        sum
    }
}

impl DoubleEndedIterator for SendOrder<'_> {
    fn next_back(&mut self) -> Option<AcceptedPacket> {
        self.range.next_back().map(|k| self.series.get(k))
    }
}

impl ExactSizeIterator for SendOrder<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Long ranges in order, and others in any order.
        #[test]
        fn equals_a_plain_sort(
            parts in prop::collection::vec((0usize..90, prop::collection::vec(any::<u16>(), 0..8)), 1..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 8),
        ) {
            let mut keys: Vec<(u64, u32)> = Vec::new();
            for (in_order, late) in parts {
                for _ in 0..in_order {
                    keys.push((keys.len() as u64 * 10, keys.len() as u32 * 2));
                }
                // Most packets move a little, some far.
                for by in late {
                    let by = if by % 7 == 0 { by / 64 } else { by % 64 };
                    keys.push((keys.len() as u64 * 10 + u64::from(by), keys.len() as u32 * 2));
                }
            }
            keys.sort_unstable();
            let mut samples = Samples::default();
            for (k, (_, seq)) in (0..).zip(&keys) {
                samples.push(AcceptedPacket { seq: *seq, sent: i64::from(*seq / 8), delay: k });
            }
            let mut sorted: Vec<AcceptedPacket> = samples.iter().collect();
            sorted.sort_by_key(|p| p.seq);
            let series = Series::new(&samples);
            prop_assert_eq!(series.in_order(), samples.seq.is_sorted());
            prop_assert_eq!(series.iter().collect::<Vec<_>>(), sorted.clone());
            let n = sorted.len();
            for pair in cuts.chunks(2) {
                let (a, b) = (pair[0].index(n + 1), pair[1].index(n + 1));
                let range = a.min(b)..a.max(b);
                let folded = series.range(range.clone()).fold(Vec::new(), |mut all, p| {
                    all.push(p);
                    all
                });
                prop_assert_eq!(&folded[..], &sorted[range.clone()]);
                let delays = || folded.iter().map(|p| p.delay);
                let extremes = delays().min().zip(delays().max()).map(|(low, high)| [low, high]);
                prop_assert_eq!(series.extreme_delays(range.clone()), extremes);
                prop_assert_eq!(series.lowest_delay(range), delays().min().unwrap_or(i64::MAX));
            }
            let mut positions: Vec<usize> = (0..n).collect();
            for (arrivals, ranks) in series.displaced() {
                prop_assert!(arrivals.len() > 1);
                arrivals.zip(ranks).for_each(|(k, position)| positions[k] = *position as usize);
            }
            for (k, position) in positions.into_iter().enumerate() {
                prop_assert_eq!((series.arrival(position), sorted[position].seq), (k, samples.seq[k]));
            }
            for seq in (0..2 * n as u64 + 3).step_by(3) {
                prop_assert_eq!(series.position_of(seq), sorted.partition_point(|p| u64::from(p.seq) < seq));
            }
            let sent = sorted.iter().map(|p| p.sent);
            prop_assert_eq!((series.earliest(), series.latest()), (sent.clone().min(), sent.clone().max()));
            prop_assert!(series.sent_in_order());
            let by_run: Vec<u32> = runs(&samples.seq).flatten().collect();
            prop_assert_eq!(&by_run, &samples.seq);
        }
    }

    #[test]
    fn send_order_of_a_shuffled_stream() {
        let mut samples = Samples::default();
        for seq in [5, 2, 9, 700, 3] {
            samples.push(AcceptedPacket { seq, sent: i64::from(seq) * 10, delay: 1 });
        }
        let series = Series::new(&samples);
        assert_eq!(series.iter().map(|p| p.seq).collect::<Vec<_>>(), [2, 3, 5, 9, 700]);
        assert_eq!([0, 2, 4, 9, 10, 701].map(|s| series.position_of(s)), [0, 0, 2, 3, 4, 5]);
        assert_eq!((series.arrival(0), series.in_order()), (1, false));
    }

    #[test]
    fn numbers_that_came_twice_are_all_there() {
        let mut samples = Samples::default();
        for (delay, seq) in (0..).zip([3, 1, 2, 2, 1, 9]) {
            samples.push(AcceptedPacket { seq, sent: 0, delay });
        }
        let packets: Vec<_> = Series::new(&samples).iter().map(|p| (p.seq, p.delay)).collect();
        assert_eq!(packets, [(1, 1), (1, 4), (2, 2), (2, 3), (3, 0), (9, 5)]);
    }

    /// Creates the series of arrivals of (sequence number, send time, delay), and passes it to `check`.
    fn with<T>(rows: &[(u32, i64, i64)], check: impl FnOnce(&Series<'_>) -> T) -> T {
        let mut samples = Samples::default();
        for &(seq, sent, delay) in rows {
            samples.push(AcceptedPacket { seq, sent, delay });
        }
        check(&Series::new(&samples))
    }

    const IN_ORDER: [(u32, i64, i64); 4] = [(0, 100, 7), (1, 200, -9), (3, 300, 5), (9, 400, 6)];
    const SHUFFLED: [(u32, i64, i64); 4] = [(1, 200, -9), (0, 100, 7), (9, 400, 6), (3, 300, 5)];

    #[test]
    fn both_orders_of_arrival_read_alike() {
        for rows in [IN_ORDER, SHUFFLED] {
            with(&rows, |series| {
                assert_eq!(
                    (series.len(), series.is_empty(), series.in_order()),
                    (4, false, rows == IN_ORDER)
                );
                assert_eq!((series.times(1), series.times(2)), ((200, -9), (300, 5)));
                assert_eq!((series.earliest(), series.latest()), (Some(100), Some(400)));
                assert_eq!(series.extreme_delays(0..4), Some([-9, 7]));
                assert_eq!((series.extreme_delays(2..4), series.extreme_delays(2..2)), (Some([5, 6]), None));
                assert_eq!(series.arrivals().map(|p| p.seq).collect::<Vec<_>>(), rows.map(|r| r.0));
                let seqs = |packets: &mut dyn Iterator<Item = AcceptedPacket>| {
                    packets.map(|p| p.seq).collect::<Vec<_>>()
                };
                assert_eq!(seqs(&mut series.iter().rev()), [9, 3, 1, 0]);
                let mut some = series.range(0..3);
                assert_eq!((some.len(), some.nth(1).map(|p| p.seq)), (3, Some(1)));
                assert_eq!((some.len(), seqs(&mut some), some.next()), (1, vec![3], None));
            });
        }
        with(&[], |none| {
            assert_eq!((none.is_empty(), none.earliest(), none.latest()), (true, None, None));
        });
    }

    #[test]
    fn send_times_may_step_back() {
        let steps_back = |rows: &[_]| with(rows, |series| !series.sent_in_order());
        assert!(!steps_back(&IN_ORDER) && !steps_back(&SHUFFLED) && !steps_back(&[]));
        assert!(!steps_back(&[(0, 5, 0), (1, 5, 0)]) && !steps_back(&[(1, 5, 0), (0, 5, 0)]));
        assert!(steps_back(&[(0, 5, 0), (1, 4, 0)]) && steps_back(&[(1, 4, 0), (0, 5, 0)]));
        assert!(steps_back(&[(1, 2, 0), (0, 1, 0), (2, 1, 0)]), "the last pair alone");
    }

    #[test]
    fn packets_are_taken_out_in_place() {
        let mut samples = Samples::default();
        assert!(samples.is_empty());
        SHUFFLED.iter().for_each(|&(seq, sent, delay)| samples.push(AcceptedPacket { seq, sent, delay }));
        assert!(!samples.is_empty());
        samples.retain(|p| p.seq % 2 == 1 && p.delay < 6);
        assert_eq!(
            samples,
            Samples { seq: vec![1, 3], sent: vec![200, 300], delay: vec![-9, 5], ..Samples::default() }
        );
    }

    #[test]
    fn packets_are_split_by_number() {
        for rows in [IN_ORDER, SHUFFLED] {
            for number in 0..11 {
                let mut samples = Samples::default();
                rows.iter().for_each(|&(seq, sent, delay)| samples.push(AcceptedPacket { seq, sent, delay }));
                let all: Vec<AcceptedPacket> = samples.iter().collect();
                let rest: Vec<AcceptedPacket> = samples.split_off(number).iter().collect();
                let later = |p: &&AcceptedPacket| p.seq >= number;
                let moved = all.iter().filter(later).map(|p| AcceptedPacket { seq: p.seq - number, ..*p });
                assert_eq!(rest, moved.collect::<Vec<_>>());
                assert_eq!(
                    samples.iter().collect::<Vec<_>>(),
                    all.iter().filter(|p| !later(p)).copied().collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn columns_are_stored_as_differences() {
        let samples = Samples {
            seq: vec![7, 3, u32::MAX],
            sent: vec![i64::MAX, i64::MIN, 5],
            delay: vec![-1, 1, 0],
            ..Samples::default()
        };
        let stored = serde_json::to_value(&samples).unwrap();
        assert_eq!(stored["seq"], serde_json::json!([7, -4, u64::from(u32::MAX) - 3]));
        assert_eq!(serde_json::from_value::<Samples>(stored.clone()).unwrap(), samples);
        let refused = |seq: serde_json::Value| {
            let mut stored = stored.clone();
            stored["seq"] = seq;
            serde_json::from_value::<Samples>(stored).unwrap_err().to_string()
        };
        assert!(refused(serde_json::json!([7, -8])).contains("out of range"));
        assert!(refused("7".into()).contains("expected a column of numbers"));
    }
}
