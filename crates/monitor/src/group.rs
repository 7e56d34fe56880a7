//! Converts groups of hosts to lists of pairs, in an order from which [`rounds`](crate::rounds) makes few rounds.

/// Two ends (hosts or targets) between which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPair {
    /// Index of the first host, in the order of the group.
    pub first: u32,
    /// Index of the second host.
    pub second: u32,
    /// True if the first host connects to the second and stores the results; otherwise the second does.
    pub first_is_client: bool,
}

impl HostPair {
    /// Returns the end that starts the test and stores the results.
    pub fn client(&self) -> u32 {
        if self.first_is_client { self.first } else { self.second }
    }

    /// Returns the end that answers.
    pub fn server(&self) -> u32 {
        if self.first_is_client { self.second } else { self.first }
    }
}

/// Rule by which one end of each pair is chosen to start the tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartingEnd {
    /// Each host starts the tests of about half of its pairs.
    #[default]
    Balanced,
    /// The first end of each pair starts the tests.
    First,
    /// The second end of each pair starts the tests.
    Second,
}

/// Pairs each host with every other one, by the circle method, round after round.
pub fn mesh(hosts: &[u32]) -> Vec<(u32, u32)> {
    if hosts.len() < 2 {
        return Vec::new();
    }
    // One position is fixed and the others rotate. With an odd number of hosts, the fixed position is empty.
    let turning = if hosts.len().is_multiple_of(2) { hosts.len() - 1 } else { hosts.len() };
    let stays = hosts.len().is_multiple_of(2).then_some(hosts.len() - 1);
    let mut pairs = Vec::with_capacity(hosts.len() * (hosts.len() - 1) / 2);
    for round in 0..turning {
        let across = stays.map(|stays| (round, stays));
        let opposite = (1..=turning / 2).map(|k| ((round + k) % turning, (round + turning - k) % turning));
        // The number of rotating positions is odd, so the last of them meets the fixed one.
        for (a, b) in across.into_iter().chain(opposite) {
            pairs.push((hosts[a.min(b)], hosts[a.max(b)]));
        }
    }
    pairs
}

/// Pairs the centre with each of the other hosts.
pub fn star(centre: u32, hosts: &[u32]) -> Vec<(u32, u32)> {
    hosts.iter().filter(|host| **host != centre).map(|host| (centre, *host)).collect()
}

/// Pairs each host of a list with each host of all other lists.
pub fn disjoint(lists: &[Vec<u32>]) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for (k, left) in lists.iter().enumerate() {
        for right in &lists[k + 1..] {
            let (short, long) = (left.len().min(right.len()), left.len().max(right.len()));
            for round in 0..long {
                for place in 0..short {
                    let other = (place + round) % long;
                    let (l, r) = if left.len() <= right.len() { (place, other) } else { (other, place) };
                    pairs.push((left[l], right[r]));
                }
            }
        }
    }
    pairs
}

/// Chooses the end of each pair that starts the tests; `ends` is the number of ends. With
/// [`StartingEnd::Balanced`], each end is the client about as often as the server: the counts differ by at most
/// one.
pub fn choose_clients(pairs: &[(u32, u32)], ends: usize, client: StartingEnd) -> Vec<HostPair> {
    let pair = |(first, second): (u32, u32), first_is_client| HostPair { first, second, first_is_client };
    match client {
        StartingEnd::First => pairs.iter().map(|p| pair(*p, true)).collect(),
        StartingEnd::Second => pairs.iter().map(|p| pair(*p, false)).collect(),
        StartingEnd::Balanced => {
            pairs.iter().zip(walk(pairs, ends)).map(|(p, along)| pair(*p, along)).collect()
        }
    }
}

/// Orients each pair along walks through the graph of all pairs. An element is true if its pair is oriented from the
/// first end to the second. Walks use each pair once and continue as long as possible, so each end is left as often as
/// it is entered, except that the counts of an end with an odd number of pairs differ by one.
fn walk(pairs: &[(u32, u32)], ends: usize) -> Vec<bool> {
    // Sort the pairs by end; `begins` contains the index of each end's first pair.
    let mut begins = vec![0usize; ends + 1];
    let both = |pair: &(u32, u32)| [pair.0 as usize, pair.1 as usize];
    pairs.iter().flat_map(both).for_each(|end| begins[end + 1] += 1);
    for end in 0..ends {
        begins[end + 1] += begins[end];
    }
    let mut next = begins.clone();
    let mut of_end = vec![0u32; pairs.len() * 2];
    for (k, pair) in pairs.iter().enumerate() {
        for end in both(pair) {
            of_end[next[end]] = k as u32;
            next[end] += 1;
        }
    }
    let mut passed = vec![false; pairs.len()];
    let mut along = vec![false; pairs.len()];
    let mut next = begins.clone();
    let odd = |end: &usize| (begins[end + 1] - begins[*end]) % 2 == 1;
    // Begin at ends with an odd number of pairs, because such a walk also finishes at one; afterwards all ends
    // have an even number left.
    for start in (0..ends).filter(odd).chain(0..ends) {
        let mut at = start;
        loop {
            while next[at] < begins[at + 1] && passed[of_end[next[at]] as usize] {
                next[at] += 1;
            }
            if next[at] == begins[at + 1] {
                break;
            }
            let k = of_end[next[at]] as usize;
            passed[k] = true;
            along[k] = pairs[k].0 as usize == at;
            at = if along[k] { pairs[k].1 } else { pairs[k].0 } as usize;
        }
    }
    along
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hosts(n: u32) -> Vec<u32> {
        (0..n).collect()
    }

    #[test]
    fn a_mesh_has_each_pair_once() {
        for n in 0..40 {
            let pairs = mesh(&hosts(n));
            assert_eq!(pairs.len() as u32, n * n.saturating_sub(1) / 2, "{n} hosts");
            assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), pairs.len());
            assert!(pairs.iter().all(|(a, b)| a < b));
        }
    }

    #[test]
    fn disjoint_lists_meet_all_others_and_not_themselves() {
        let pairs = disjoint(&[vec![0, 1], vec![2, 3, 4], vec![5]]);
        assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), 6 + 2 + 3);
        assert!(!pairs.contains(&(0, 1)) && pairs.contains(&(1, 4)) && pairs.contains(&(4, 5)));
        assert_eq!(star(1, &hosts(3)), [(1, 0), (1, 2)]);
    }

    #[test]
    fn clients_are_balanced() {
        for n in [2u32, 5, 6, 50, 101] {
            let pairs = choose_clients(&mesh(&hosts(n)), n as usize, StartingEnd::Balanced);
            for host in 0..n {
                let as_client = pairs.iter().filter(|p| p.client() == host).count() as i64;
                let as_server = pairs.iter().filter(|p| p.server() == host).count() as i64;
                assert!((as_client - as_server).abs() <= 1, "{n} hosts: {as_client} and {as_server}");
            }
        }
    }
}
