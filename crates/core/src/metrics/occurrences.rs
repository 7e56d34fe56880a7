//! [`Occurrences`]: counts of numbers, most of which are small.

use super::one_pass::join_counts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of occurrences of each number. Small numbers are counted in an array that ends at the largest of them, large
/// numbers in a map.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<u64, u64>", into = "BTreeMap<u64, u64>")]
pub(super) struct Occurrences {
    near: Vec<u64>,
    far: BTreeMap<u64, u64>,
}

impl From<BTreeMap<u64, u64>> for Occurrences {
    fn from(all: BTreeMap<u64, u64>) -> Occurrences {
        let mut occurrences = Occurrences::default();
        all.into_iter().for_each(|(number, times)| *occurrences.of(number) += times);
        occurrences
    }
}

impl From<Occurrences> for BTreeMap<u64, u64> {
    fn from(occurrences: Occurrences) -> BTreeMap<u64, u64> {
        let near = (0..).zip(occurrences.near).filter(|(_, times)| *times > 0);
        near.chain(occurrences.far).collect()
    }
}

impl Occurrences {
    /// Limit of small numbers: numbers from this one on are large.
    const NEAR: u64 = 1024;

    /// Counts one more occurrence of `number`.
    #[inline]
    pub fn add(&mut self, number: u64) {
        match usize::try_from(number).ok().and_then(|number| self.near.get_mut(number)) {
            Some(times) => *times += 1,
            None => *self.of(number) += 1,
        }
    }

    /// Returns the count of `number`.
    fn of(&mut self, number: u64) -> &mut u64 {
        if number >= Self::NEAR {
            return self.far.entry(number).or_default();
        }
        let number = number as usize;
        if number >= self.near.len() {
            self.near.resize(number + 1, 0);
        }
        &mut self.near[number]
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u128 {
        self.near.iter().chain(self.far.values()).map(|times| u128::from(*times)).sum()
    }

    /// Returns the counts by number, without zeros.
    pub fn to_map(&self) -> BTreeMap<u64, u64> {
        self.clone().into()
    }

    /// Adds the occurrences that `whole` contains in addition to its earlier state `lead`.
    pub fn join(&mut self, whole: &Occurrences, lead: &Occurrences) {
        let mut all = self.to_map();
        join_counts(&mut all, &whole.to_map(), &lead.to_map());
        *self = all.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_counted_alike() {
        let mut counts = Occurrences::default();
        let numbers = [3, 0, 1023, 1024, 3, u64::MAX, 1024, 1024];
        numbers.into_iter().for_each(|number| counts.add(number));
        let all = BTreeMap::from([(0, 1), (3, 2), (1023, 1), (1024, 3), (u64::MAX, 1)]);
        assert_eq!((counts.to_map(), counts.total()), (all.clone(), 8));
        let stored = serde_json::to_string(&counts).unwrap();
        assert_eq!(stored, serde_json::to_string(&all).unwrap());
        let read: Occurrences = serde_json::from_str(&stored).unwrap();
        assert_eq!(read.to_map(), all);
        // The counts made after the first five.
        let (mut mine, mut lead) = (Occurrences::from(BTreeMap::from([(1024, 7)])), Occurrences::default());
        numbers[..5].iter().for_each(|number| lead.add(*number));
        mine.join(&counts, &lead);
        assert_eq!(mine.to_map(), BTreeMap::from([(1024, 9), (u64::MAX, 1)]));
    }
}
