//! [`WastedGrants`]: clients that did not use their grants.

use crate::access::ClientAddress;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;

/// Maximum number of clients stored. Above it, the oldest entry is removed.
const MAX_CLIENTS: usize = 4096;
/// Time after which a client's entry expires.
const MAX_AGE: Span = Span::seconds(60);

/// Clients that recently wasted a grant: it was never used before it was evicted or, for a session, released.
#[derive(Debug, Default)]
pub(super) struct WastedGrants(HashMap<ClientAddress, SteadyTime>);

impl WastedGrants {
    /// Records that `client` did not use its grant.
    pub(super) fn add(&mut self, client: ClientAddress, now: SteadyTime) {
        if self.0.len() >= MAX_CLIENTS && !self.0.contains_key(&client) {
            self.0.retain(|_, at| now - *at < MAX_AGE);
            if self.0.len() >= MAX_CLIENTS {
                let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(client, _)| *client);
                oldest.map(|client| self.0.remove(&client));
            }
        }
        self.0.insert(client, now);
    }

    /// True if `client` recently wasted a grant.
    pub(super) fn has(&self, client: ClientAddress, now: SteadyTime) -> bool {
        self.0.get(&client).is_some_and(|at| now - *at < MAX_AGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_bounded_many_are_remembered_for_a_minute() {
        let client = |n: u32| ClientAddress::of(core::net::Ipv4Addr::from_bits(n).into());
        let at = |n: u32| SteadyTime(i64::from(n) * 1_000_000);
        let mut wasted = WastedGrants::default();
        let many = 2 * MAX_CLIENTS as u32;
        (0..many).for_each(|n| wasted.add(client(n), at(n)));
        assert_eq!(wasted.0.len(), MAX_CLIENTS);
        assert!(wasted.has(client(many - 1), at(many)) && !wasted.has(client(0), at(many)));
        assert!(!wasted.has(client(many - 1), at(many - 1) + MAX_AGE));
    }
}
