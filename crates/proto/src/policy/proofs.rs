//! [`WrongProofs`]: makes clients that gave wrong keys wait, longer each time.

use crate::access::ClientAddress;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;

/// Maximum number of clients stored. Above it, the client with the shortest wait is removed.
const MAX_CLIENTS: usize = 1024;
/// Wait after the second wrong key; each further wrong key doubles it.
const MIN_WAIT: Span = Span::seconds(1);
/// Maximum wait.
const MAX_WAIT: Span = Span::seconds(64);

/// Clients that recently gave wrong keys or tokens.
#[derive(Debug, Default)]
pub struct WrongProofs(HashMap<ClientAddress, Penalty>);

#[derive(Clone, Copy, Debug)]
struct Penalty {
    failures: u32,
    until: SteadyTime,
}

impl WrongProofs {
    /// Returns the time that `client` must still wait; `None`: no wait.
    pub fn wait(&self, client: ClientAddress, now: SteadyTime) -> Option<Span> {
        self.0.get(&client).map(|p| p.until - now).filter(|left| left.0 > 0)
    }

    /// Records that `client` gave a wrong key. Returns true if the failure should be logged, which applies to
    /// failures 1, 2, 4, 8, …
    pub fn failed(&mut self, client: ClientAddress, now: SteadyTime) -> bool {
        // Entries are removed once the maximum wait has passed since their wait ended.
        self.0.retain(|_, p| now - p.until < MAX_WAIT);
        if self.0.len() >= MAX_CLIENTS && !self.0.contains_key(&client) {
            let least = self.0.iter().min_by_key(|(_, p)| p.until).map(|(client, _)| *client);
            least.map(|client| self.0.remove(&client));
        }
        let penalty = self.0.entry(client).or_insert(Penalty { failures: 0, until: now });
        penalty.failures = penalty.failures.saturating_add(1);
        // The first wrong key may be a mistake, so it causes no wait.
        let wait = match penalty.failures {
            1 => Span::ZERO,
            n => Span(MIN_WAIT.0 << (n - 2).min(6)).min(MAX_WAIT),
        };
        penalty.until = now + wait;
        penalty.failures.is_power_of_two()
    }

    /// Records that `client` gave the right key.
    pub fn succeeded(&mut self, client: ClientAddress) {
        self.0.remove(&client);
    }
}
