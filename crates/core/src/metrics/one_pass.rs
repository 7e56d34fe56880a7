//! [`OnePass`] and [`Merge`]: figures computed while packets arrive.

use super::classify::AcceptedPacket;
use std::collections::BTreeMap;

/// A figure of accepted packets in arrival order, computed in one pass and constant memory.
pub trait OnePass: Default {
    /// Type of the result.
    type Output;
    /// Adds the next accepted packet.
    fn push(&mut self, packet: &AcceptedPacket);
    /// Returns the figure for the packets so far.
    fn output(&self) -> Self::Output;
}

/// A [`OnePass`] that merges exactly: merged instances, each of which received one part of a stream, give the same
/// output as one instance that received the whole stream.
pub trait Merge: OnePass {
    /// Adds the state of the next part of the stream.
    fn merge(&mut self, next: Self);
}

/// Adds the difference between the counts `whole` and their earlier state `lead` to `counts`.
pub(crate) fn join_counts<K: Copy + Ord>(
    counts: &mut BTreeMap<K, u64>,
    whole: &BTreeMap<K, u64>,
    lead: &BTreeMap<K, u64>,
) {
    for (key, count) in whole {
        let later = count.saturating_sub(lead.get(key).copied().unwrap_or(0));
        if later > 0 {
            *counts.entry(*key).or_default() += later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_counts_are_added_and_nothing_else() {
        let mut counts = BTreeMap::from([(1, 5), (2, 1)]);
        let (lead, whole) = (BTreeMap::from([(1, 2), (3, 4)]), BTreeMap::from([(1, 9), (3, 4), (4, 6)]));
        join_counts(&mut counts, &whole, &lead);
        assert_eq!(counts, BTreeMap::from([(1, 12), (2, 1), (4, 6)]));
    }
}
