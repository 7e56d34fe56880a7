//! [`Rounds`]: groups pairs into rounds, by edge colouring. The pairs of a round are tested at the same time,
//! and no host is in more of these pairs than its limit allows.

use crate::group::HostPair;

/// Pairs grouped into rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    pairs: Vec<HostPair>,
    /// Indices in `pairs` at which the rounds begin, followed by the number of pairs.
    begins: Vec<u32>,
}

/// No limit on the number of pairs in a round.
pub const UNLIMITED: u32 = u32::MAX;

impl Rounds {
    /// Assigns each pair, in the given order, to the first round in which both ends have room; end `k` has room
    /// for `room[k]` pairs (at least one) per round. The number of rounds is less than twice the minimum that
    /// the busiest host needs; for meshes and disjoint lists in the order of [`group`](crate::group), it is
    /// exactly that minimum.
    pub fn new(pairs: &[HostPair], room: &[u32]) -> Rounds {
        let mut ends: Vec<EndRounds> = room.iter().map(|_| EndRounds::default()).collect();
        let mut count: Vec<u32> = Vec::new();
        let of: Vec<u32> = pairs
            .iter()
            .map(|pair| {
                let (a, b) = (pair.first as usize, pair.second as usize);
                let round = first_free(&ends[a].full, &ends[b].full);
                for k in [a, b] {
                    ends[k].take(round, room[k]);
                }
                if count.len() <= round {
                    count.resize(round + 1, 0);
                }
                count[round] += 1;
                round as u32
            })
            .collect();
        let mut begins = vec![0];
        for n in &count {
            begins.push(begins.last().copied().unwrap_or(0) + n);
        }
        let mut next: Vec<u32> = begins.clone();
        let mut sorted = pairs.to_vec();
        for (pair, round) in pairs.iter().zip(of) {
            let place = &mut next[round as usize];
            sorted[*place as usize] = *pair;
            *place += 1;
        }
        Rounds { pairs: sorted, begins }
    }

    /// Returns the number of rounds.
    pub fn len(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// True if there is no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the pairs of round `k`.
    pub fn round(&self, k: usize) -> &[HostPair] {
        &self.pairs[self.begins[k] as usize..self.begins[k + 1] as usize]
    }

    /// Returns all pairs, round after round.
    pub fn pairs(&self) -> &[HostPair] {
        &self.pairs
    }

    /// Returns, for each of the `ends` ends, the largest number of its pairs in one round.
    pub fn most(&self, ends: usize) -> Vec<u32> {
        let (mut most, mut now) = (vec![0; ends], vec![0; ends]);
        for k in 0..self.len() {
            let of_pair = |pair: &HostPair| [pair.first as usize, pair.second as usize];
            for end in self.round(k).iter().flat_map(of_pair) {
                now[end] += 1;
                most[end] = now[end].max(most[end]);
            }
            self.round(k).iter().flat_map(of_pair).for_each(|end| now[end] = 0);
        }
        most
    }
}

/// Rounds of one end.
#[derive(Default)]
struct EndRounds {
    /// Bit k is set if round k is full.
    full: Vec<u64>,
    /// Number of pairs in each round; unused if a round has room for only one pair.
    taken: Vec<u32>,
}

impl EndRounds {
    fn take(&mut self, round: usize, room: u32) {
        if room == UNLIMITED {
            return;
        }
        if room > 1 {
            if self.taken.len() <= round {
                self.taken.resize(round + 1, 0);
            }
            self.taken[round] += 1;
            if self.taken[round] < room {
                return;
            }
        }
        if self.full.len() <= round / 64 {
            self.full.resize(round / 64 + 1, 0);
        }
        self.full[round / 64] |= 1 << (round % 64);
    }
}

fn first_free(a: &[u64], b: &[u64]) -> usize {
    let words = a.len().max(b.len());
    for k in 0..words {
        let both = a.get(k).copied().unwrap_or(0) | b.get(k).copied().unwrap_or(0);
        if both != u64::MAX {
            return k * 64 + both.trailing_ones() as usize;
        }
    }
    words * 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{StartingEnd, choose_clients, disjoint, mesh, star};

    fn rounds(pairs: &[(u32, u32)], room: &[u32]) -> Rounds {
        Rounds::new(&choose_clients(pairs, room.len(), StartingEnd::Balanced), room)
    }

    #[test]
    fn meshes_and_disjoint_lists_have_as_few_rounds_as_possible() {
        for n in 2..60u32 {
            let all: Vec<u32> = (0..n).collect();
            let even = n + n % 2;
            assert_eq!(rounds(&mesh(&all), &vec![1; n as usize]).len() as u32, even - 1, "mesh of {n}");
            assert_eq!(
                rounds(&mesh(&all), &vec![3; n as usize]).len() as u32,
                (even - 1).div_ceil(3),
                "mesh of {n}, three at a time"
            );
        }
        let lists = [(0..7).collect::<Vec<u32>>(), (7..12).collect()];
        assert_eq!(rounds(&disjoint(&lists), &[1; 12]).len(), 7);
        let mut room = [1; 9];
        room[0] = 4;
        assert_eq!(rounds(&star(0, &(0..9).collect::<Vec<u32>>()), &room).len(), 2);
    }
}
