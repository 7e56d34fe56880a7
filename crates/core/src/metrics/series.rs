//! [`Samples`] in arrival order and [`Series`], the same in send order: the two readings of a stream.

use super::classify::Packet;
use super::seqset::SeqSet;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The accepted packets in arrival order: three columns of equal length, 20 bytes a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Sequence numbers, all different.
    #[serde(with = "steps")]
    pub seq: Vec<u32>,
    /// Send times, ns since 1970.
    #[serde(with = "steps")]
    pub sent: Vec<i64>,
    /// Raw delays, in ns.
    #[serde(with = "steps")]
    pub delay: Vec<i64>,
    /// Packets that the kernel saw spend a millisecond or longer in the queue of the sending host's interface: number, ns,
    /// in order of arrival. Known at the end of an analysis.
    #[serde(skip)]
    pub queued: Vec<(u32, i64)>,
    /// Numbers of packets that came and have no delay, ascending. Known at the end of an analysis.
    #[serde(skip)]
    pub delayless: Vec<u32>,
}

/// A column as its first value and the differences that follow, which are small and take few bytes.
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
                // What the length claims is not believed: each value takes a byte of the input.
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
    /// Accepted packets.
    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// Whether no packet was accepted.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }

    /// Adds the next arrival.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.seq.push(packet.seq);
        self.sent.push(packet.sent);
        self.delay.push(packet.delay);
    }

    /// The k-th arrival.
    #[inline]
    pub fn packet(&self, k: usize) -> Packet {
        Packet { seq: self.seq[k], sent: self.sent[k], delay: self.delay[k] }
    }

    /// Arrival time of the k-th arrival, ns since 1970.
    pub fn arrived(&self, k: usize) -> i64 {
        self.packet(k).arrived()
    }

    /// All of them in arrival order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Packet> + Clone {
        let columns = self.seq.iter().zip(&self.sent).zip(&self.delay);
        columns.map(|((&seq, &sent), &delay)| Packet { seq, sent, delay })
    }

    /// Keeps the packets for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&Packet) -> bool) {
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

/// The accepted packets in send order, that is by sequence number. Costs nothing where no packet was
/// overtaken, 8 bytes a packet otherwise.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    samples: &'a Samples,
    shuffle: Option<Shuffle>,
}

#[derive(Clone, Debug)]
struct Shuffle {
    /// By place in send order, which arrival it was.
    order: Vec<u32>,
    /// By arrival, its place in send order.
    ranks: Vec<u32>,
}

impl<'a> Series<'a> {
    /// `samples`, whose sequence numbers are exactly those of `accepted`, in send order.
    pub fn new(samples: &'a Samples, accepted: &SeqSet) -> Series<'a> {
        if samples.seq.is_sorted() {
            return Series { samples, shuffle: None };
        }
        let mut ranks_of = accepted.ranks();
        let ranks: Vec<u32> = samples.seq.iter().map(|seq| ranks_of.of(*seq)).collect();
        let mut order = vec![0; ranks.len()];
        for (k, rank) in (0..).zip(&ranks) {
            order[*rank as usize] = k;
        }
        Series { samples, shuffle: Some(Shuffle { order, ranks }) }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether it has no packets.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Whether arrival order was send order.
    pub fn in_order(&self) -> bool {
        self.shuffle.is_none()
    }

    /// Which arrival the k-th packet sent was.
    #[inline]
    pub fn arrival(&self, k: usize) -> usize {
        match &self.shuffle {
            None => k,
            Some(shuffle) => shuffle.order[k] as usize,
        }
    }

    /// By arrival, the place in send order; `None` where every arrival is in its place.
    pub fn ranks(&self) -> Option<&[u32]> {
        self.shuffle.as_ref().map(|s| &s.ranks[..])
    }

    /// The k-th accepted packet in send order.
    #[inline]
    pub fn get(&self, k: usize) -> Packet {
        self.samples.packet(self.arrival(k))
    }

    /// Arrival time of the k-th arrival.
    pub fn arrived(&self, k: usize) -> i64 {
        self.samples.arrived(k)
    }

    /// Send time and delay of the k-th accepted packet in send order.
    #[inline]
    pub fn times(&self, k: usize) -> (i64, i64) {
        let k = self.arrival(k);
        (self.samples.sent[k], self.samples.delay[k])
    }

    /// The smallest and the largest delay of the packets at `range` in send order, in ns; `None` of no packets.
    pub fn extreme_delays(&self, range: Range<usize>) -> Option<(i64, i64)> {
        let extremes = |(low, high): (i64, i64), p: Packet| (low.min(p.delay), high.max(p.delay));
        (!range.is_empty()).then(|| self.range(range).fold((i64::MAX, i64::MIN), extremes))
    }

    /// Whether send times never decrease with sequence numbers: no clock stepped back.
    pub fn sent_in_order(&self) -> bool {
        match &self.shuffle {
            None => self.samples.sent.is_sorted(),
            Some(_) => (1..self.len()).all(|k| self.times(k - 1).0 <= self.times(k).0),
        }
    }

    /// The smallest send time.
    pub fn earliest(&self) -> Option<i64> {
        self.samples.sent.iter().copied().min()
    }

    /// The largest send time.
    pub fn latest(&self) -> Option<i64> {
        self.samples.sent.iter().copied().max()
    }

    /// All packets in send order.
    pub fn iter(&self) -> SendOrder<'_> {
        self.range(0..self.len())
    }

    /// All packets in arrival order.
    pub fn arrivals(&self) -> impl ExactSizeIterator<Item = Packet> + Clone + '_ {
        self.samples.iter()
    }

    /// A part of them in send order.
    pub fn range(&self, range: Range<usize>) -> SendOrder<'_> {
        SendOrder { series: self, range }
    }

    /// The first place whose sequence number is at least `seq`.
    pub fn place_of(&self, seq: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if u64::from(self.get(middle).seq) < seq { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Packets in send order. [`Iterator::fold`], and what is made of it (`for_each`, `sum`, `min`), is much faster than
/// one packet at a time.
#[derive(Clone, Debug)]
pub struct SendOrder<'a> {
    series: &'a Series<'a>,
    range: Range<usize>,
}

impl Iterator for SendOrder<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        self.range.next().map(|k| self.series.get(k))
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<Packet> {
        self.range.nth(n).map(|k| self.series.get(k))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    #[inline]
    fn fold<B, F: FnMut(B, Packet) -> B>(self, start: B, mut next: F) -> B {
        let Series { samples, shuffle } = self.series;
        match shuffle {
            None => {
                let Range { start: from, end } = self.range;
                let columns = samples.seq[from..end].iter().zip(&samples.sent[from..end]);
                let packets = columns.zip(&samples.delay[from..end]);
                packets.fold(start, |sum, ((&seq, &sent), &delay)| next(sum, Packet { seq, sent, delay }))
            }
            Some(shuffle) => {
                shuffle.order[self.range].iter().fold(start, |sum, k| next(sum, samples.packet(*k as usize)))
            }
        }
    }
}

impl DoubleEndedIterator for SendOrder<'_> {
    fn next_back(&mut self) -> Option<Packet> {
        self.range.next_back().map(|k| self.series.get(k))
    }
}

impl ExactSizeIterator for SendOrder<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_order_of_a_shuffled_stream() {
        let mut samples = Samples::default();
        let mut accepted = SeqSet::default();
        for seq in [5, 2, 9, 700, 3] {
            samples.push(Packet { seq, sent: i64::from(seq) * 10, delay: 1 });
            accepted.insert(seq);
        }
        let series = Series::new(&samples, &accepted);
        assert_eq!(series.iter().map(|p| p.seq).collect::<Vec<_>>(), [2, 3, 5, 9, 700]);
        assert_eq!([0, 2, 4, 9, 10, 701].map(|s| series.place_of(s)), [0, 0, 2, 3, 4, 5]);
        assert_eq!((series.arrival(0), series.in_order()), (1, false));
    }

    /// Arrivals of (sequence number, send time, delay), and the check of their series.
    fn with<T>(rows: &[(u32, i64, i64)], check: impl FnOnce(&Series<'_>) -> T) -> T {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        for &(seq, sent, delay) in rows {
            samples.push(Packet { seq, sent, delay });
            accepted.insert(seq);
        }
        check(&Series::new(&samples, &accepted))
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
                assert_eq!(series.extreme_delays(0..4), Some((-9, 7)));
                assert_eq!((series.extreme_delays(2..4), series.extreme_delays(2..2)), (Some((5, 6)), None));
                assert_eq!(series.arrivals().map(|p| p.seq).collect::<Vec<_>>(), rows.map(|r| r.0));
                let seqs =
                    |packets: &mut dyn Iterator<Item = Packet>| packets.map(|p| p.seq).collect::<Vec<_>>();
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
        SHUFFLED.iter().for_each(|&(seq, sent, delay)| samples.push(Packet { seq, sent, delay }));
        assert!(!samples.is_empty());
        samples.retain(|p| p.seq % 2 == 1 && p.delay < 6);
        assert_eq!(
            samples,
            Samples { seq: vec![1, 3], sent: vec![200, 300], delay: vec![-9, 5], ..Samples::default() }
        );
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
