//! [`WrongProofs`]: clients that gave wrong keys wait, longer each time.

use crate::access::ClientAddress;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;

/// Clients remembered; beyond them the one that waits least is forgotten.
const MAX_CLIENTS: usize = 1024;
/// The wait after the second wrong key; each further one doubles it.
const MIN_WAIT: Span = Span::seconds(1);
/// The longest wait.
const MAX_WAIT: Span = Span::seconds(64);

/// Who gave wrong keys of late.
#[derive(Debug, Default)]
pub(super) struct WrongProofs(HashMap<ClientAddress, Penalty>);

#[derive(Clone, Copy, Debug)]
struct Penalty {
    failures: u32,
    until: SteadyTime,
}

impl WrongProofs {
    /// How long `client` has still to wait; `None`: not at all.
    pub(super) fn wait(&self, client: ClientAddress, now: SteadyTime) -> Option<Span> {
        self.0.get(&client).map(|p| p.until - now).filter(|left| left.0 > 0)
    }

    /// `client` gave a wrong key. Returns whether it is worth a line in the log: the first, second, fourth, eighth, …
    pub(super) fn failed(&mut self, client: ClientAddress, now: SteadyTime) -> bool {
        // What is over for as long as the longest wait is forgotten.
        self.0.retain(|_, p| now - p.until < MAX_WAIT);
        if self.0.len() >= MAX_CLIENTS && !self.0.contains_key(&client) {
            let least = self.0.iter().min_by_key(|(_, p)| p.until).map(|(client, _)| *client);
            least.map(|client| self.0.remove(&client));
        }
        let penalty = self.0.entry(client).or_insert(Penalty { failures: 0, until: now });
        penalty.failures = penalty.failures.saturating_add(1);
        // The first may be a mistake: it costs nothing.
        let wait = match penalty.failures {
            1 => Span::ZERO,
            n => Span(MIN_WAIT.0 << (n - 2).min(6)).min(MAX_WAIT),
        };
        penalty.until = now + wait;
        penalty.failures.is_power_of_two()
    }

    /// `client` gave the right key.
    pub(super) fn succeeded(&mut self, client: ClientAddress) {
        self.0.remove(&client);
    }
}
