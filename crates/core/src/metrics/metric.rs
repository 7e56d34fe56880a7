//! [`Metric`]: the trait that the types in the module `listed` implement. [`MetricEntry`]: an entry of the list
//! [`METRICS`](super::METRICS). [`States`]: the states of all listed metrics while packets arrive.

use super::all_packets::AllPackets;
use super::known::DelayKind;
use super::series::{Samples, runs};
use super::stored::{SaveError, Stored};
use super::stream::EndedStream;
use crate::scalars::Scalar;
use crate::session::Session;
use crate::summary::Summary;
use core::any::Any;
use core::cell::OnceCell;
use core::fmt;
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::Range;

/// A metric: the scalars it reports, its state while packets arrive, and its result.
///
/// The state is bounded, and stored with the state of an analysis. Stored data may be damaged or forged, so
/// [`Metric::is_possible`] checks everything that computations rely on and the types do not guarantee.
pub(crate) trait Metric:
    Clone + fmt::Debug + Send + Sync + Serialize + DeserializeOwned + 'static
{
    /// Scalars that the metric reports, in the order in which tables list them.
    const SCALARS: &'static [Scalar];

    /// Type of the result.
    type Found: Send + 'static;

    /// Creates the metric before the first packet of a test.
    fn begin(test: &Session) -> Self;

    /// Adds the next accepted packets, in order of arrival. The default implementation suits metrics that only read
    /// facts known about every stream.
    fn push(&mut self, _packets: &AcceptedPackets<'_>) {}

    /// Adds the packets that `later` contains in addition to its earlier state `lead`. Both began in the middle of the
    /// test. `lead` contains at most the first rows after that point, which this metric has already received.
    fn join(&mut self, _later: Self, _lead: &Self) {}

    /// Starts storing additional data about the packets that follow, if [`Metric::join`] needs any.
    fn mark(&mut self) {}

    /// Returns true if this can be the state after `n` packets. Checks only the properties that computations
    /// rely on.
    fn is_possible(&self, _n: u64) -> bool {
        true
    }

    /// Returns the result for a stream that has ended. All of its packets were pushed.
    fn found(&self, stream: &EndedStream<'_>) -> Self::Found;

    /// Returns the result if all packets are in memory. The default implementation pushes them. Several threads may
    /// compute metrics at the same time.
    fn found_of_all(stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Self::Found {
        let (mut metric, samples) = (Self::begin(stream.known.session), all.samples);
        (0..samples.len()).step_by(PACKETS_PER_PUSH).for_each(|from| {
            metric.push(&AcceptedPackets::of(samples, from..samples.len().min(from + PACKETS_PER_PUSH)));
        });
        metric.found(stream)
    }

    /// Returns the values of the scalars, in order, for metrics without fields in the summary.
    fn values(_found: &Self::Found) -> Vec<Option<f64>> {
        Vec::new()
    }

    /// Writes the result into the summary, which already has the results of the metrics before it in the
    /// list. The default implementation writes [`Metric::values`].
    fn write(found: Self::Found, _stream: &EndedStream<'_>, to: &mut Summary) {
        for (scalar, value) in Self::SCALARS.iter().zip(Self::values(&found)) {
            to.figures.insert(scalar.key.to_owned(), value.filter(|value| value.is_finite()));
        }
    }
}

/// Number of packets per push if all are in memory: as many as fit into a processor's cache.
const PACKETS_PER_PUSH: usize = 4096;

/// Accepted packets in order of arrival: three columns of equal length.
pub(crate) struct AcceptedPackets<'a> {
    /// Sequence numbers.
    pub seq: &'a [u32],
    /// Send times, ns since 1970.
    pub sent: &'a [i64],
    /// Raw delays, in ns.
    pub delay: &'a [i64],
    runs: OnceCell<Vec<Range<u32>>>,
}

impl AcceptedPackets<'_> {
    /// Returns the part `range` of `samples`.
    pub fn of(samples: &Samples, range: Range<usize>) -> AcceptedPackets<'_> {
        AcceptedPackets {
            seq: &samples.seq[range.clone()],
            sent: &samples.sent[range.clone()],
            delay: &samples.delay[range],
            runs: OnceCell::new(),
        }
    }

    /// Returns the sequence numbers as runs of consecutive ones.
    pub fn runs(&self) -> &[Range<u32>] {
        self.runs.get_or_init(|| runs(self.seq).collect())
    }

    /// Returns the arrival time of the k-th packet, ns since 1970.
    pub fn arrived(&self, k: usize) -> i64 {
        self.sent[k].wrapping_add(self.delay[k])
    }
}

/// Writes a computed result into the summary.
pub(crate) type Write = Box<dyn FnOnce(&EndedStream<'_>, &mut Summary) + Send>;

/// An entry of the list of metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricEntry {
    /// Scalars that the metric reports.
    pub scalars: &'static [Scalar],
    begin: fn(&Session) -> Box<dyn MetricState>,
    found_of_all: fn(&EndedStream<'_>, &AllPackets<'_>) -> Write,
}

impl MetricEntry {
    /// Creates the entry for `M`.
    pub const fn of<M: Metric>() -> MetricEntry {
        MetricEntry {
            scalars: M::SCALARS,
            begin: |test| Box::new(M::begin(test)),
            found_of_all: |stream, all| {
                let found = M::found_of_all(stream, all);
                Box::new(move |stream, to| M::write(found, stream, to))
            },
        }
    }

    /// Returns the key of the metric's first scalar, under which its state is stored.
    fn name(&self) -> &'static str {
        self.scalars.first().map_or("", |scalar| scalar.key)
    }

    /// Returns true if the metric applies to streams with delays of this kind.
    pub fn is_of(&self, kind: DelayKind) -> bool {
        kind != DelayKind::Direction || self.scalars.iter().any(|scalar| scalar.applies.directions)
    }

    /// Computes the result of a stream with all packets in memory.
    pub fn found_of_all(&self, stream: &EndedStream<'_>, all: &AllPackets<'_>) -> Write {
        (self.found_of_all)(stream, all)
    }
}

/// A [`Metric`] of any type, which allows metrics to be used as trait objects.
trait MetricState: Stored + fmt::Debug + Send + Sync {
    fn push(&mut self, packets: &AcceptedPackets<'_>);
    fn join(&mut self, later: Box<dyn MetricState>, lead: &dyn MetricState);
    fn mark(&mut self);
    fn is_possible(&self, n: u64) -> bool;
    fn found(&self, stream: &EndedStream<'_>) -> Write;
    fn copy(&self) -> Box<dyn MetricState>;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<M: Metric> MetricState for M {
    fn push(&mut self, packets: &AcceptedPackets<'_>) {
        Metric::push(self, packets);
    }

    fn join(&mut self, later: Box<dyn MetricState>, lead: &dyn MetricState) {
        if let (Ok(later), Some(lead)) = (later.into_any().downcast::<M>(), lead.as_any().downcast_ref()) {
            Metric::join(self, *later, lead);
        }
    }

    fn mark(&mut self) {
        Metric::mark(self);
    }

    fn is_possible(&self, n: u64) -> bool {
        Metric::is_possible(self, n)
    }

    fn found(&self, stream: &EndedStream<'_>) -> Write {
        let found = Metric::found(self, stream);
        Box::new(move |stream, to| M::write(found, stream, to))
    }

    fn copy(&self) -> Box<dyn MetricState> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Clone for Box<dyn MetricState> {
    fn clone(&self) -> Box<dyn MetricState> {
        (**self).copy()
    }
}

/// States of the listed metrics while packets arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    running: Vec<(MetricEntry, Box<dyn MetricState>)>,
    /// Stored states, by the key of each metric's first scalar.
    stored: BTreeMap<String, StateBytes>,
}

impl States {
    /// Creates the states of `list` before the first packet of a test.
    pub fn new(list: &[MetricEntry], test: &Session) -> States {
        let running = list.iter().map(|entry| (*entry, (entry.begin)(test))).collect();
        States { running, stored: BTreeMap::new() }
    }

    /// Adds the next accepted packets.
    pub fn push(&mut self, packets: &AcceptedPackets<'_>) {
        self.running.iter_mut().for_each(|(_, state)| state.push(packets));
    }

    /// Calls [`Metric::mark`] on all metrics.
    pub fn mark(&mut self) {
        self.running.iter_mut().for_each(|(_, state)| state.mark());
    }

    /// Calls [`Metric::join`] on all metrics. The three states must have the same list of metrics.
    pub fn join(&mut self, later: States, lead: &States) {
        for (((_, mine), (_, later)), (_, lead)) in
            self.running.iter_mut().zip(later.running).zip(&lead.running)
        {
            mine.join(later, &**lead);
        }
    }

    /// Writes the results for `stream` to `to`; for one direction of a round-trip test, writes only the results that
    /// apply to directions.
    pub fn write(&self, stream: &EndedStream<'_>, to: &mut Summary) {
        let these = self.running.iter().filter(|(entry, _)| entry.is_of(stream.known.kind));
        these.for_each(|(_, state)| state.found(stream)(stream, to));
    }

    /// Restores the stored states in `read`. Returns true if all of them exist and are possible after `n` packets.
    pub fn restore(&mut self, read: &States, n: u64) -> bool {
        self.running.iter_mut().all(|(entry, state)| {
            let bytes = read.stored.get(entry.name());
            bytes.is_some_and(|bytes| state.load(&bytes.0).is_ok()) && state.is_possible(n)
        })
    }
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let saved = self.running.iter().map(|(entry, state)| Ok((entry.name(), StateBytes(state.save()?))));
        let saved: Result<BTreeMap<_, _>, SaveError> = saved.collect();
        saved.map_err(<S::Error as serde::ser::Error>::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<States, D::Error> {
        Ok(States { running: Vec::new(), stored: BTreeMap::deserialize(from)? })
    }
}

#[derive(Clone, Debug)]
struct StateBytes(Vec<u8>);

impl Serialize for StateBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for StateBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StateBytes, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = StateBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<StateBytes, E> {
                Ok(StateBytes(bytes.to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<StateBytes, A::Error> {
                let mut all = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    all.push(byte);
                }
                Ok(StateBytes(all))
            }
        }

        from.deserialize_bytes(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::tally::Tally;
    use crate::metrics::classify::AcceptedPacket;
    use crate::metrics::clock::ClockEstimate;
    use crate::metrics::duplicate::Copies;
    use crate::metrics::known::{ArrivalCounts, StreamFacts};
    use crate::metrics::periods::MeanPeriods;
    use crate::metrics::seqset::SeqSet;
    use crate::metrics::series::Series;
    use crate::scalars::{ScalarGetter, ScalarUnit};
    use crate::spec::TestSpec;
    use std::borrow::Cow;
    use std::sync::OnceLock;

    /// Test metric: the last delay, and the number of packets whose delay was smaller than that of the packet
    /// before.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Falls {
        last: Option<i64>,
        falls: u64,
    }

    impl Metric for Falls {
        const SCALARS: &'static [Scalar] = &[
            Scalar::new("last", "last", ScalarUnit::Time, ScalarGetter::Computed),
            Scalar::new("falls", "falls", ScalarUnit::Packets, ScalarGetter::Computed),
        ];
        type Found = [Option<f64>; 2];

        fn begin(_: &Session) -> Falls {
            Falls::default()
        }

        fn push(&mut self, packets: &AcceptedPackets<'_>) {
            for delay in packets.delay {
                self.falls += u64::from(self.last.is_some_and(|last| *delay < last));
                self.last = Some(*delay);
            }
        }

        fn join(&mut self, later: Falls, lead: &Falls) {
            self.falls += later.falls - lead.falls;
            self.last = later.last;
        }

        fn found(&self, _: &EndedStream<'_>) -> [Option<f64>; 2] {
            [self.last.map(|last| last as f64), Some(self.falls as f64)]
        }

        fn values(found: &[Option<f64>; 2]) -> Vec<Option<f64>> {
            found.to_vec()
        }
    }

    const LIST: &[MetricEntry] = &[MetricEntry::of::<Falls>()];

    /// Returns the states after the packets in `range`, storing and restoring them midway.
    fn of(samples: &Samples, range: Range<usize>, session: &Session) -> States {
        let mut states = States::new(LIST, session);
        for k in range {
            states.push(&AcceptedPackets::of(samples, k..k + 1));
            if k % 70 == 0 {
                let stored = rmp_serde::to_vec_named(&states).unwrap();
                let mut read = States::new(LIST, session);
                assert!(read.restore(&crate::msgpack::from_slice(&stored).unwrap(), 0));
                states = read;
            }
        }
        states
    }

    #[test]
    fn a_new_metric_needs_nothing_else() {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        for seq in 0..5000 {
            samples.push(AcceptedPacket { seq, sent: 0, delay: (i64::from(seq) * 7) % 10 });
            accepted.insert(seq);
        }
        let (session, options) = (Session::new(TestSpec::default()), Options::default());
        let known = StreamFacts {
            session: &session,
            options: &options,
            percents: Vec::new(),
            clock: ClockEstimate::default(),
            counted: ArrivalCounts::default(),
            periods: MeanPeriods::default(),
            kind: DelayKind::OneWay,
            tally: &Tally::of(&session),
            two_way: OnceLock::new(),
        };
        let (copies, came) = (Copies::default(), Cow::Borrowed(&accepted));
        let packets = (&samples, Series::new(&samples));
        let all = AllPackets::new(&known, packets, &accepted, came, &copies, Vec::new());
        let stream = EndedStream::of_all(&all);
        let mut at_hand = Summary::default();
        LIST[0].found_of_all(&stream, &all)(&stream, &mut at_hand);
        assert_eq!((at_hand.figures["last"], at_hand.figures["falls"]), (Some(3.0), Some(3499.0)));
        let figures = |states: &States| {
            let mut summary = Summary::default();
            states.write(&stream, &mut summary);
            summary.figures
        };
        assert_eq!(figures(&of(&samples, 0..5000, &session)), at_hand.figures);
        // When two parts are joined, the first rows of the later part are pushed again to the earlier one.
        let mut joined = of(&samples, 0..2900, &session);
        joined.join(of(&samples, 2000..5000, &session), &of(&samples, 2000..2900, &session));
        assert_eq!(figures(&joined), at_hand.figures);
        // A state that was not stored is missing, and other bytes are rejected.
        let none = States { running: Vec::new(), stored: BTreeMap::new() };
        assert!(!States::new(LIST, &session).restore(&none, 0));
        let wrong = BTreeMap::from([("last".to_owned(), StateBytes(vec![0xc1]))]);
        assert!(!States::new(LIST, &session).restore(&States { running: Vec::new(), stored: wrong }, 0));
    }
}
