//! [`Metric`]: what a file of this folder exports, one line of the list [`METRICS`](super::METRICS).

use super::classify::Packet;
use super::one_pass::OnePass;
use super::seqset::SeqSet;
use super::series::{Samples, Series};
use crate::distribution::sample::Sample;
use crate::scalars::Scalar;
use crate::session::Session;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A metric: the scalars it reports, and how they are computed where the summary has no field for them.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The scalars it reports, in the order of tables.
    pub scalars: &'static [Scalar],
    compute: Compute,
}

#[derive(Clone, Copy, Debug)]
enum Compute {
    /// The summary has its own fields for it.
    Fields,
    OnePass(fn() -> Box<dyn Pass>),
    Stream(fn(&Stream<'_>, &mut Vec<Option<f64>>)),
}

/// Everything known about a stream when all its packets are available.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The test.
    pub session: &'a Session,
    /// Packets sent.
    pub sent: u64,
    /// The accepted packets in send order and in arrival order.
    pub series: &'a Series<'a>,
    /// Their delays in ascending order.
    pub delays: &'a Sample,
    /// Their sequence numbers.
    pub accepted: &'a SeqSet,
}

impl Metric {
    /// The key of its first scalar.
    fn name(&self) -> &'static str {
        self.scalars.first().map_or("", |scalar| scalar.key)
    }

    /// A metric whose scalars are fields of the summary.
    pub const fn of_fields(scalars: &'static [Scalar]) -> Metric {
        Metric { scalars, compute: Compute::Fields }
    }

    /// A metric computed in one pass over the accepted packets in arrival order, in constant memory: one value a
    /// figure. Its figures are [`Take::Computed`](crate::scalars::Take::Computed). What it keeps is stored with the state of
    /// an analysis, and can be anything when it is read back: its arithmetic must not rely on it.
    pub const fn one_pass<T, const N: usize>(scalars: &'static [Scalar; N]) -> Metric
    where
        T: OnePass<Output = [Option<f64>; N]> + Kept,
    {
        Metric { scalars, compute: Compute::OnePass(|| Box::new(T::default())) }
    }

    /// A metric that needs all packets at once: one value a figure. Its figures are undefined in an analysis in
    /// constant memory.
    pub const fn of_stream(
        scalars: &'static [Scalar],
        values: fn(&Stream<'_>, &mut Vec<Option<f64>>),
    ) -> Metric {
        Metric { scalars, compute: Compute::Stream(values) }
    }
}

/// What can be kept while packets arrive, and stored. It follows from what it derives.
pub trait Kept: Clone + core::fmt::Debug + Send + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + core::fmt::Debug + Send + Serialize + DeserializeOwned + 'static> Kept for T {}

/// A [`OnePass`] of any type.
trait Pass: core::fmt::Debug + Send {
    fn save(&self) -> Result<Vec<u8>, rmp_serde::encode::Error>;
    fn load(&mut self, bytes: &[u8]) -> Result<(), crate::msgpack::Error>;
    fn push(&mut self, packets: &[Packet]);
    fn values(&self) -> Vec<Option<f64>>;
    fn copy(&self) -> Box<dyn Pass>;
}

impl<T, const N: usize> Pass for T
where
    T: OnePass<Output = [Option<f64>; N]> + Kept,
{
    fn push(&mut self, packets: &[Packet]) {
        packets.iter().for_each(|packet| OnePass::push(self, packet));
    }

    fn save(&self) -> Result<Vec<u8>, rmp_serde::encode::Error> {
        rmp_serde::to_vec_named(self)
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), crate::msgpack::Error> {
        *self = crate::msgpack::from_slice(bytes)?;
        Ok(())
    }

    fn values(&self) -> Vec<Option<f64>> {
        self.output().to_vec()
    }

    fn copy(&self) -> Box<dyn Pass> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Pass> {
    fn clone(&self) -> Box<dyn Pass> {
        self.copy()
    }
}

/// Packets passed at once, so that calling a metric through a trait object costs almost nothing per packet.
const BATCH: usize = 256;

/// The figures of the metrics of `list` that have no field in the summary, over a complete stream.
pub fn computed(list: &[Metric], stream: &Stream<'_>, arrivals: &Samples) -> BTreeMap<String, Option<f64>> {
    let mut running = Running::new(list);
    if !running.passes.is_empty() {
        arrivals.iter().for_each(|packet| running.push(&packet));
    }
    let mut figures = running.figures();
    for metric in list {
        if let Compute::Stream(values) = metric.compute {
            let mut found = Vec::new();
            values(stream, &mut found);
            insert(&mut figures, metric, found);
        }
    }
    figures
}

/// The one-pass metrics of the list, while packets arrive.
#[derive(Clone, Debug, Default)]
pub struct Running {
    passes: Vec<(Metric, Box<dyn Pass>)>,
    batch: Vec<Packet>,
}

impl Running {
    /// Those of `list` before the first packet.
    pub fn new(list: &[Metric]) -> Running {
        let begun = |metric: &Metric| match metric.compute {
            Compute::OnePass(begin) => Some((*metric, begin())),
            Compute::Fields | Compute::Stream(_) => None,
        };
        Running { passes: list.iter().filter_map(begun).collect(), batch: Vec::new() }
    }

    /// Those of `list` that were stored: the figures of the others are unknown.
    fn restored(
        list: &[Metric],
        stored: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Running, crate::msgpack::Error> {
        let mut running = Running::new(list);
        running.passes.retain(|(metric, _)| stored.contains_key(metric.name()));
        for (metric, pass) in &mut running.passes {
            pass.load(&stored[metric.name()])?;
        }
        Ok(running)
    }

    /// Whether none of the list is one.
    pub fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// The next accepted packet.
    #[inline]
    pub fn push(&mut self, packet: &Packet) {
        if self.passes.is_empty() {
            return;
        }
        self.batch.push(*packet);
        if self.batch.len() >= BATCH {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for (_, pass) in &mut self.passes {
            pass.push(&self.batch);
        }
        self.batch.clear();
    }

    /// The values so far, by figure.
    pub fn figures(mut self) -> BTreeMap<String, Option<f64>> {
        self.settle();
        let mut figures = BTreeMap::new();
        for (metric, pass) in &self.passes {
            insert(&mut figures, metric, pass.values());
        }
        figures
    }
}

/// The state of each metric by the key of its first figure.
impl Serialize for Running {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut settled = self.clone();
        settled.settle();
        let saved = settled.passes.iter().map(|(metric, pass)| Ok((metric.name(), pass.save()?)));
        let saved: Result<BTreeMap<_, _>, rmp_serde::encode::Error> = saved.collect();
        saved.map_err(S::Error::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Running {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Running, D::Error> {
        let stored = BTreeMap::deserialize(from)?;
        Running::restored(super::METRICS, &stored).map_err(D::Error::custom)
    }
}

fn insert(figures: &mut BTreeMap<String, Option<f64>>, metric: &Metric, values: Vec<Option<f64>>) {
    let finite = |value: Option<f64>| value.filter(|v| v.is_finite());
    for (scalar, value) in metric.scalars.iter().zip(values) {
        figures.insert(scalar.key.to_owned(), finite(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalars::{Take, Unit};

    /// The largest delay and how many packets had none above the one before.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Rising {
        last: Option<i64>,
        falls: u64,
    }

    impl OnePass for Rising {
        type Output = [Option<f64>; 2];

        fn push(&mut self, packet: &Packet) {
            self.falls += u64::from(self.last.is_some_and(|last| packet.delay < last));
            self.last = Some(packet.delay);
        }

        fn output(&self) -> [Option<f64>; 2] {
            [self.last.map(|x| x as f64), Some(self.falls as f64)]
        }
    }

    const RISING: Metric = Metric::one_pass::<Rising, 2>(&[
        Scalar::new("last", "last", Unit::Time, Take::Computed),
        Scalar::new("falls", "falls", Unit::Packets, Take::Computed),
    ]);
    const SENT_TWICE: Metric = Metric::of_stream(
        &[Scalar::new("twice", "twice", Unit::Packets, Take::Computed)],
        |stream, values| values.push(Some(2.0 * stream.sent as f64)),
    );

    #[test]
    fn a_new_metric_is_computed_with_all_packets_at_hand_and_without() {
        let list = [RISING, SENT_TWICE];
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        let mut running = Running::new(&list);
        for seq in 0..1000 {
            let packet = Packet { seq, sent: 0, delay: (i64::from(seq) * 7) % 10 };
            samples.push(packet);
            accepted.insert(seq);
            running.push(&packet);
            if seq % 300 == 0 {
                let stored = rmp_serde::to_vec(&running).unwrap();
                let stored = crate::msgpack::from_slice(&stored).unwrap();
                running = Running::restored(&list, &stored).unwrap();
            }
        }
        let series = Series::new(&samples);
        let delays = Sample::new(samples.delay.iter().copied());
        let session = Session::new(crate::TestSpec::default());
        let stream =
            Stream { session: &session, sent: 1000, series: &series, delays: &delays, accepted: &accepted };
        let exact = computed(&list, &stream, &samples);
        assert_eq!(exact["last"], Some(3.0));
        assert_eq!(exact["falls"], Some(699.0));
        assert_eq!(exact["twice"], Some(2000.0));
        let streaming = running.clone().figures();
        assert_eq!(streaming.keys().collect::<Vec<_>>(), ["falls", "last"]);
        assert!(streaming.iter().all(|(key, value)| exact[key] == *value));
        // A metric that was not stored is unknown, and none can be read from anything.
        assert!(Running::restored(&list, &BTreeMap::new()).unwrap().figures().is_empty());
        assert!(Running::restored(&list, &BTreeMap::from([("last".to_owned(), vec![0xc1])])).is_err());
    }
}
