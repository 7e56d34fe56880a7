//! Duplication (metrics §12; RFC 5560).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Duplication figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Duplicates {
    /// Arrivals divided by distinct packets, minus 1.
    pub duplication_fraction: Option<f64>,
    /// Packets that arrived more than once, divided by distinct packets.
    pub replicated_rate: Option<f64>,
    /// Number of runs by length: a run consists of consecutive duplicated sequence numbers.
    pub run_length_hist: BTreeMap<u64, u64>,
    /// Number of packets by number of copies.
    pub arrival_count_hist: BTreeMap<u64, u64>,
    /// Time from the first copy to each later one, in ns.
    pub time_to_duplicate: Option<TimeToDuplicate>,
}

/// Times from a packet's first arrival to its further copies, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TimeToDuplicate {
    /// Shortest time.
    pub min: i64,
    /// Median time.
    pub median: f64,
    /// Longest time.
    pub max: i64,
}

use super::seqset::SeqSet;
use super::series::Series;
use crate::distribution::sample::Sample;

/// Further copies so far, as sequence number and arrival time, in arrival order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Copies(Vec<(u32, Option<i64>)>);

impl Copies {
    /// Adds a further copy of `seq`, with its arrival time if known.
    pub fn push(&mut self, seq: u32, arrived: Option<i64>) {
        self.0.push((seq, arrived));
    }

    /// Iterates over all copies in arrival order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Option<i64>)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the copies sorted by number, then by arrival time.
    pub(crate) fn sorted(&self) -> Copies {
        let mut sorted = self.clone();
        sorted.0.sort_unstable();
        sorted
    }

    /// Returns the number of copies.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns true if there are no copies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of copies of each duplicated packet, in ascending order of sequence numbers.
    pub fn by_number(&self) -> Vec<(u32, u64)> {
        let mut numbers: Vec<u32> = self.0.iter().map(|c| c.0).collect();
        numbers.sort_unstable();
        numbers.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect()
    }

    /// Returns the figures for `accepted` distinct packets. `first` contains these packets and their sequence numbers;
    /// with it, the figures include the times from first copies to duplicates.
    pub fn figures(&self, accepted: u64, first: Option<(&Series<'_>, &SeqSet)>) -> Duplicates {
        let duplicated = self.by_number();
        let mut hist = BTreeMap::new();
        if accepted > duplicated.len() as u64 {
            hist.insert(1, accepted - duplicated.len() as u64);
        }
        let mut runs = BTreeMap::new();
        for run in duplicated.chunk_by(|a, b| a.0 + 1 == b.0) {
            *runs.entry(run.len() as u64).or_default() += 1;
            for (_, copies) in run {
                *hist.entry(1 + copies).or_default() += 1;
            }
        }
        let over = |x: u64| (accepted > 0).then(|| x as f64 / accepted as f64);
        Duplicates {
            duplication_fraction: over(self.len()),
            replicated_rate: over(duplicated.len() as u64),
            run_length_hist: runs,
            arrival_count_hist: hist,
            time_to_duplicate: first.and_then(|(series, accepted)| self.times(series, accepted)),
        }
    }

    fn times(&self, series: &Series<'_>, accepted: &SeqSet) -> Option<TimeToDuplicate> {
        if self.is_empty() {
            return None;
        }
        let mut ranks = accepted.ranks();
        let times: Vec<i64> = self
            .0
            .iter()
            .filter(|(seq, _)| accepted.contains(*seq))
            .filter_map(|&(seq, at)| Some(at?.saturating_sub(series.get(ranks.of(seq) as usize).arrived())))
            .collect();
        let sample = Sample::new(times.into_iter());
        Some(TimeToDuplicate { min: sample.min()?, median: sample.median()?, max: sample.max()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::classify::AcceptedPacket;
    use super::super::series::Samples;
    use super::*;

    fn of(arrivals: &[u32]) -> Duplicates {
        let (mut seen, mut copies) = (SeqSet::default(), Copies::default());
        for &seq in arrivals {
            if !seen.insert(seq) {
                copies.push(seq, None);
            }
        }
        copies.figures(seen.len(), None)
    }

    #[test]
    fn cases_of_rfc_5560() {
        // §5.3; the order of arrival is irrelevant (2a, 2b, 2c).
        for (arrivals, fraction, rate) in [
            (&[1, 2, 3, 4][..], 0.0, 0.0),
            (&[1, 1, 2, 2, 3, 3, 4, 4], 1.0, 1.0),
            (&[1, 2, 3, 4, 1, 2, 3, 4], 1.0, 1.0),
            (&[4, 1, 1, 2, 3, 3, 2, 4], 1.0, 1.0),
            (&[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4], 2.0, 1.0),
            (&[1, 1, 1, 2, 3, 3, 3, 4], 1.0, 0.5),
        ] {
            let d = of(arrivals);
            assert_eq!((d.duplication_fraction, d.replicated_rate), (Some(fraction), Some(rate)));
        }
    }

    #[test]
    fn runs_of_duplicated_numbers() {
        let d = of(&[1, 2, 3, 4, 5, 2, 3, 3, 5]);
        assert_eq!(d.run_length_hist, BTreeMap::from([(1, 1), (2, 1)]));
        assert_eq!(d.arrival_count_hist, BTreeMap::from([(1, 2), (2, 2), (3, 1)]));
        assert_eq!(of(&[]).duplication_fraction, None);
    }

    #[test]
    fn times_from_the_first_copy() {
        let (mut samples, mut accepted) = (Samples::default(), SeqSet::default());
        for (seq, sent) in [(0, 100), (1, 200), (3, 400)] {
            samples.push(AcceptedPacket { seq, sent, delay: 10 });
            accepted.insert(seq);
        }
        let series = Series::new(&samples);
        let mut copies = Copies::default();
        assert!(copies.is_empty());
        assert_eq!(copies.figures(3, Some((&series, &accepted))).time_to_duplicate, None);
        copies.push(3, Some(415));
        copies.push(0, Some(111));
        copies.push(3, None);
        // A packet that was never accepted has no first copy.
        copies.push(2, Some(999));
        assert!(!copies.is_empty());
        let found = copies.figures(3, Some((&series, &accepted))).time_to_duplicate;
        assert_eq!(found, Some(TimeToDuplicate { min: 1, median: 3.0, max: 5 }));
    }

    #[test]
    fn all_duplicated() {
        assert_eq!(of(&[1, 1]).arrival_count_hist, BTreeMap::from([(2, 1)]));
    }
}
