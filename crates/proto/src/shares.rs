//! [`ShareTable`]: a bounded table of sessions in which every client has a limited share.

use crate::access::ClientAddress;
use core::net::{IpAddr, SocketAddr};
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Identity of a session: its client, and a number that distinguishes the client's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionName {
    pub(crate) client: SocketAddr,
    pub(crate) id: u16,
}

impl Hash for SessionName {
    /// Hashes two numbers, which takes a fraction of the time needed for hashing each field.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(match self.client.ip() {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        });
        state.write_u32(u32::from(self.client.port()) << 16 | u32::from(self.id));
    }
}

/// Rank of a session. A session ranks higher if its client has proved that it receives packets at its address. Sessions
/// of lower rank are replaced first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Unproven,
    Proven,
}

const RANKS: [Rank; 2] = [Rank::Unproven, Rank::Proven];

/// Index that means "no entry".
const NONE: u32 = u32::MAX;

/// Kind of an order: over all entries, or over the entries of one client. Every entry is in one order of each kind.
#[derive(Clone, Copy)]
enum OrderKind {
    All,
    Clients,
}

/// A doubly linked list of entries, from the longest idle to the most recently used.
#[derive(Clone, Copy, Debug)]
struct IdleOrder {
    oldest: u32,
    newest: u32,
}

const EMPTY: IdleOrder = IdleOrder { oldest: NONE, newest: NONE };

#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

#[derive(Clone, Debug)]
struct ShareEntry<K, V> {
    key: K,
    /// Value of the entry; `None` if the slot is free.
    value: Option<V>,
}

/// Positions of an entry in the orders.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Index of the client's share.
    share: u32,
    rank: Rank,
    links: [Links; 2],
}

#[derive(Clone, Debug)]
struct Share {
    client: ClientAddress,
    /// Number of entries of the client; 0 if the share is free.
    entries: usize,
    orders: [IdleOrder; 2],
}

/// Table with a maximum number of entries in total and per client. If the client's share is used up, a new
/// entry replaces an entry of the same client; otherwise the entry of the lowest rank that has been idle
/// longest. An entry of a higher rank is never replaced. Every operation takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct ShareTable<K, V> {
    total: usize,
    per_client: usize,
    /// Indices of entries by key. The keys themselves are stored elsewhere, so that the index of thousands of
    /// entries fits into the processor's cache.
    index: HashTable<u32>,
    hasher: RandomState,
    entries: Vec<ShareEntry<K, V>>,
    /// Positions of each entry in the orders.
    nodes: Vec<Node>,
    free: Vec<u32>,
    orders: [IdleOrder; 2],
    shares: Vec<Share>,
    share_of: HashMap<ClientAddress, u32>,
    free_shares: Vec<u32>,
}

impl<K: Copy + Eq + Hash, V> ShareTable<K, V> {
    /// Creates an empty table.
    pub(crate) fn new(total: usize, per_client: usize) -> ShareTable<K, V> {
        ShareTable {
            total: total.min(NONE as usize),
            per_client,
            index: HashTable::new(),
            hasher: RandomState::new(),
            entries: Vec::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            orders: [EMPTY; 2],
            shares: Vec::new(),
            share_of: HashMap::new(),
            free_shares: Vec::new(),
        }
    }

    /// Returns the maximum memory of an entry in bytes, including its key, its positions in the orders, and a
    /// share that belongs to its client only.
    pub(crate) const fn bytes_per_entry() -> usize {
        let index = size_of::<u32>() + size_of::<(ClientAddress, u32)>();
        let entry = size_of::<ShareEntry<K, V>>() + size_of::<Node>() + size_of::<Share>();
        // Tables grow by doubling, and the maps leave an eighth free.
        2 * (entry + 2 * size_of::<u32>() + index + 2)
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the index of the entry with this key; `None` if there is no such entry.
    fn position(&self, key: &K) -> Option<u32> {
        self.index.find(self.hasher.hash_one(key), |at| self.entries[*at as usize].key == *key).copied()
    }

    /// Returns the value of the entry with this key, without changing its position in the orders; `None` if there is no
    /// such entry.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.position(key)?;
        self.at(at)
    }

    /// Returns the value of the entry with this key, and makes it the most recently used; `None` if there is no such
    /// entry.
    pub(crate) fn seen(&mut self, key: &K) -> Option<&mut V> {
        let at = self.touch(key)?;
        self.at(at)
    }

    /// Makes the entry with this key the most recently used. Returns its index, which is valid until the entry is
    /// removed; `None` if there is no such entry.
    pub(crate) fn touch(&mut self, key: &K) -> Option<u32> {
        let at = self.position(key)?;
        let rank = self.nodes[at as usize].rank;
        // The newest entry of the whole table is also the newest of its client.
        if self.orders[rank as usize].newest != at {
            self.unlink(at);
            self.link(at);
        }
        Some(at)
    }

    /// Returns the value of the entry at this index; `None` if the slot is free.
    pub(crate) fn at(&mut self, at: u32) -> Option<&mut V> {
        self.entries.get_mut(at as usize)?.value.as_mut()
    }

    /// Adds an entry, or replaces the entry with the same key. Returns the entry that was removed to make
    /// room, if any.
    ///
    /// # Errors
    /// The table or the client's share is full of entries of a higher rank.
    pub(crate) fn insert(
        &mut self,
        key: K,
        client: ClientAddress,
        rank: Rank,
        value: V,
    ) -> Result<Option<(K, V)>, Full> {
        let replaced = match self.position(&key) {
            Some(_) => Some(key),
            None if self.share(client).map_or(0, |s| s.entries) >= self.per_client => {
                let orders = self.share(client).map_or([EMPTY; 2], |s| s.orders);
                Some(self.longest_idle(orders, rank).ok_or(Full)?)
            }
            None if self.len() >= self.total => Some(self.longest_idle(self.orders, rank).ok_or(Full)?),
            None => None,
        };
        let replaced = replaced.and_then(|key| Some((key, self.remove(&key)?)));
        let share = self.share_for(client);
        self.shares[share as usize].entries += 1;
        let node = Node { share, rank, links: [Links { older: NONE, newer: NONE }; 2] };
        let entry = ShareEntry { key, value: Some(value) };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.entries.push(entry);
                self.nodes.push(node);
                self.entries.len() as u32 - 1
            }
        };
        let ShareTable { index, hasher, entries, .. } = self;
        index.insert_unique(hasher.hash_one(key), at, |at| hasher.hash_one(entries[*at as usize].key));
        self.link(at);
        Ok(replaced)
    }

    fn share(&self, client: ClientAddress) -> Option<&Share> {
        self.share_of.get(&client).map(|at| &self.shares[*at as usize])
    }

    /// Returns the index of the share that belongs to `client`; creates the share if necessary.
    fn share_for(&mut self, client: ClientAddress) -> u32 {
        let ShareTable { shares, share_of, free_shares, .. } = self;
        *share_of.entry(client).or_insert_with(|| {
            let share = Share { client, entries: 0, orders: [EMPTY; 2] };
            match free_shares.pop() {
                Some(at) => {
                    shares[at as usize] = share;
                    at
                }
                None => {
                    shares.push(share);
                    shares.len() as u32 - 1
                }
            }
        })
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let ShareTable { index, hasher, entries, .. } = self;
        let found = index.find_entry(hasher.hash_one(key), |at| entries[*at as usize].key == *key);
        let (at, _) = found.ok()?.remove();
        self.unlink(at);
        let position = self.nodes[at as usize].share;
        let share = &mut self.shares[position as usize];
        share.entries -= 1;
        if share.entries == 0 {
            self.share_of.remove(&share.client);
            self.free_shares.push(position);
        }
        self.free.push(at);
        self.entries[at as usize].value.take()
    }

    /// Returns the key of the entry that has been idle longest among those of the lowest rank; `None` if this rank is
    /// above `rank`.
    fn longest_idle(&self, orders: [IdleOrder; 2], rank: Rank) -> Option<K> {
        let at = RANKS.iter().filter(|r| **r <= rank).map(|r| orders[*r as usize].oldest);
        at.into_iter().find(|at| *at != NONE).map(|at| self.entries[at as usize].key)
    }

    fn link(&mut self, at: u32) {
        let Node { share, rank, .. } = self.nodes[at as usize];
        append(&mut self.nodes, &mut self.orders[rank as usize], OrderKind::All, at);
        append(
            &mut self.nodes,
            &mut self.shares[share as usize].orders[rank as usize],
            OrderKind::Clients,
            at,
        );
    }

    fn unlink(&mut self, at: u32) {
        let Node { share, rank, .. } = self.nodes[at as usize];
        take_out(&mut self.nodes, &mut self.orders[rank as usize], OrderKind::All, at);
        take_out(
            &mut self.nodes,
            &mut self.shares[share as usize].orders[rank as usize],
            OrderKind::Clients,
            at,
        );
    }
}

fn append(nodes: &mut [Node], order: &mut IdleOrder, among: OrderKind, at: u32) {
    nodes[at as usize].links[among as usize] = Links { older: order.newest, newer: NONE };
    match order.newest {
        NONE => order.oldest = at,
        newest => nodes[newest as usize].links[among as usize].newer = at,
    }
    order.newest = at;
}

fn take_out(nodes: &mut [Node], order: &mut IdleOrder, among: OrderKind, at: u32) {
    let Links { older, newer } = nodes[at as usize].links[among as usize];
    match older {
        NONE => order.oldest = newer,
        older => nodes[older as usize].links[among as usize].newer = newer,
    }
    match newer {
        NONE => order.newest = older,
        newer => nodes[newer as usize].links[among as usize].older = older,
    }
}

/// Error: there is no room for an entry of this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(n: u8) -> ClientAddress {
        ClientAddress::of([192, 0, 2, n].into())
    }

    #[test]
    fn the_longest_idle_makes_room_and_proven_entries_last() {
        let mut table = ShareTable::new(3, 3);
        for (key, rank) in [(1, Rank::Proven), (2, Rank::Unproven), (3, Rank::Unproven)] {
            assert_eq!(table.insert(key, client(key), rank, ()), Ok(None));
        }
        table.seen(&2);
        assert_eq!(table.insert(4, client(4), Rank::Unproven, ()), Ok(Some((3, ()))));
        assert_eq!(table.insert(5, client(5), Rank::Proven, ()), Ok(Some((2, ()))));
        assert_eq!(table.insert(6, client(6), Rank::Proven, ()), Ok(Some((4, ()))));
        // Only entries of clients with proof are left.
        assert_eq!(table.insert(7, client(7), Rank::Unproven, ()), Err(Full));
        assert_eq!(table.insert(7, client(7), Rank::Proven, ()), Ok(Some((1, ()))));
    }

    #[test]
    fn a_client_replaces_its_own() {
        let mut table = ShareTable::new(10, 2);
        for key in 0..6 {
            let replaced = (key >= 2).then(|| (key - 2, ()));
            assert_eq!(table.insert(key, client(1), Rank::Unproven, ()), Ok(replaced));
        }
        assert_eq!(table.insert(9, client(2), Rank::Unproven, ()), Ok(None));
        assert_eq!(table.len(), 3);
    }

    proptest! {
        /// Compares the table with a list that is searched linearly.
        #[test]
        fn as_the_plain_list(
            steps in proptest::collection::vec((0u8..4, 0u8..12, any::<bool>()), 0..200),
        ) {
            let mut table = ShareTable::new(6, 3);
            // Keys with their ranks, longest idle first. Each client has three keys.
            let mut list: Vec<(u8, Rank)> = Vec::new();
            for (step, key, proven) in steps {
                let rank = if proven { Rank::Proven } else { Rank::Unproven };
                let at = list.iter().position(|(k, _)| *k == key);
                match step {
                    0 => {
                        prop_assert_eq!(table.remove(&key).is_some(), at.is_some());
                        at.map(|at| list.remove(at));
                    }
                    1 => {
                        prop_assert_eq!(table.seen(&key).is_some(), at.is_some());
                        if let Some(at) = at {
                            let entry = list.remove(at);
                            list.push(entry);
                        }
                    }
                    _ => {
                        let own = list.iter().filter(|(k, _)| k % 3 == key % 3).count();
                        let candidates = |k: &u8| own < 3 || k % 3 == key % 3;
                        let oldest = list.iter().filter(|(k, r)| candidates(k) && *r <= rank).min_by_key(|(_, r)| *r);
                        let replaced = match at {
                            Some(_) => Some(key),
                            None if own >= 3 || list.len() >= 6 => oldest.map(|(k, _)| *k),
                            None => None,
                        };
                        let full = at.is_none() && (own >= 3 || list.len() >= 6) && replaced.is_none();
                        let expected = if full { Err(Full) } else { Ok(replaced.map(|k| (k, ()))) };
                        prop_assert_eq!(table.insert(key, client(key % 3), rank, ()), expected);
                        if !full {
                            list.retain(|(k, _)| Some(*k) != replaced);
                            list.push((key, rank));
                        }
                    }
                }
                prop_assert_eq!(table.len(), list.len());
                for (key, _) in &list {
                    prop_assert!(table.get_mut(key).is_some());
                }
            }
        }
    }
}
