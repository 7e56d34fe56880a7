//! Log lines about the decisions of a server on its clients, in the same form for all services.

use jitlat_core::time::SECOND;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::access::ClientAddress;
use jitlat_proto::policy::{Gate, Service};
use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

/// Logs that `peer` was accepted.
pub(crate) fn accepted(service: Service, peer: SocketAddr, what: impl Display) {
    tracing::info!(service, %peer, decision = "accepted", "{what}");
}

/// Logs that `peer` was refused, with the reason.
pub(crate) fn refused(service: Service, peer: SocketAddr, why: impl Display) {
    tracing::info!(service, %peer, decision = "refused", "{why}");
}

/// Records that `peer` used a wrong key. The gate delays the peer, and limits how often wrong keys are logged.
pub(crate) fn wrong_key(gate: &Gate, service: Service, peer: SocketAddr) {
    if gate.wrong_key(peer.ip(), crate::clock::steady()) {
        tracing::warn!(service, %peer, decision = "refused", "a wrong key");
    }
}

/// Maximum number of log lines per second about the tests of one reflector.
const MAX_LINES: usize = 20;

/// Tests accepted by one datagram reflector and not logged yet. They are logged after the first answers and
/// at a limited rate, because a host that forges source addresses can begin any number of tests. `T`
/// describes a test.
pub(crate) struct BegunTests<T> {
    service: Service,
    waiting: Vec<(SocketAddr, T)>,
    left_out: u64,
    /// Start of the second in which `lines` were written.
    since: SteadyTime,
    lines: usize,
}

impl<T: Display> BegunTests<T> {
    pub(crate) fn new(service: Service) -> BegunTests<T> {
        let waiting = Vec::with_capacity(MAX_LINES);
        BegunTests { service, waiting, left_out: 0, since: SteadyTime(i64::MIN), lines: 0 }
    }

    /// Records that the first packet of a test from `peer` has arrived.
    pub(crate) fn began(&mut self, peer: SocketAddr, what: T) {
        if self.waiting.len() < MAX_LINES {
            self.waiting.push((peer, what));
        } else {
            self.left_out += 1;
        }
    }

    /// Writes the pending lines and, once per second, the number of tests that were left out. Returns the
    /// time within which to call again; `None` if nothing is pending.
    pub(crate) fn write(&mut self, now: SteadyTime) -> Option<Span> {
        if self.waiting.is_empty() && self.left_out == 0 {
            return None;
        }
        if now.0.saturating_sub(self.since.0) >= SECOND {
            (self.since, self.lines) = (now, 0);
            if self.left_out > 0 {
                let left_out = std::mem::take(&mut self.left_out);
                tracing::info!(
                    service = self.service,
                    decision = "accepted",
                    "{left_out} more tests were accepted but not logged"
                );
            }
        }
        let lines = self.waiting.len().min(MAX_LINES - self.lines);
        self.left_out += (self.waiting.len() - lines) as u64;
        self.lines += lines;
        self.waiting.drain(..).take(lines).for_each(|(peer, what)| accepted(self.service, peer, what));
        (self.left_out > 0).then(|| self.since + Span::seconds(1) - now)
    }
}

/// Clients of a datagram reflector whose requests have a property worth a warning: one warning for each client, at most
/// one per second, because a host that forges source addresses can pretend to be any number of clients.
pub(crate) struct OddClients {
    known: HashSet<ClientAddress>,
    /// The same clients in the order of their warnings.
    order: VecDeque<ClientAddress>,
    /// Time of the last warning.
    last: SteadyTime,
}

/// Number of clients that are remembered. A client that is forgotten is warned about again.
const MAX_ODD_CLIENTS: usize = 256;

impl OddClients {
    pub(crate) fn new() -> OddClients {
        OddClients {
            known: HashSet::with_capacity(MAX_ODD_CLIENTS),
            order: VecDeque::with_capacity(MAX_ODD_CLIENTS),
            last: SteadyTime(i64::MIN),
        }
    }

    /// True if a warning about `peer` is due; it then counts as written.
    pub(crate) fn is_news(&mut self, peer: IpAddr, now: SteadyTime) -> bool {
        if now.0.saturating_sub(self.last.0) < SECOND {
            return false;
        }
        let client = ClientAddress::of(peer);
        if self.known.contains(&client) {
            return false;
        }
        if self.order.len() == MAX_ODD_CLIENTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(client);
        self.order.push_back(client);
        self.last = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_warned_about_once_and_forged_addresses_fill_neither_log_nor_memory() {
        let mut clients = OddClients::new();
        let at = |ms: i64| SteadyTime(0) + Span::millis(ms);
        let honest = IpAddr::from([192, 0, 2, 1]);
        assert!(clients.is_news(honest, at(0)));
        assert!(!clients.is_news(honest, at(5_000)));
        let forged = |n: i64| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
        let warned = (0..100_000).filter(|n| clients.is_news(forged(*n), at(6_000 + n / 10))).count();
        assert_eq!(warned, 10, "in ten seconds");
        assert_eq!((clients.known.len(), clients.order.len()), (11, 11));
        (0..1000).for_each(|n| assert!(clients.is_news(forged(200_000 + n), at(20_000 + 1000 * n))));
        assert_eq!((clients.known.len(), clients.order.len()), (MAX_ODD_CLIENTS, MAX_ODD_CLIENTS));
        assert!(clients.is_news(honest, at(9_000_000)), "it was forgotten");
    }
    use jitlat_proto::policy::STAMP;

    #[test]
    fn clients_that_forge_their_addresses_do_not_fill_the_log() {
        let peer = "192.0.2.1:40000".parse().unwrap();
        let mut tests = BegunTests::new(STAMP);
        let (begin, mut lines) = (SteadyTime(5 * SECOND), 0);
        for tick in 0..100 {
            (0..50).for_each(|_| tests.began(peer, "session 0"));
            let before = if tick % 10 == 0 { 0 } else { tests.lines };
            let due = tests.write(begin + Span::millis(100 * tick));
            lines += tests.lines - before;
            assert_eq!(due.is_some_and(|due| due <= Span::seconds(1)), tests.left_out > 0, "{due:?}");
        }
        assert_eq!(lines, 10 * MAX_LINES, "in ten seconds");
        assert!(tests.left_out <= 500, "more than a second passed before the summary: {}", tests.left_out);
        // After this summary nothing is pending, and a test that begins after a pause is logged again.
        assert_eq!(tests.write(begin + Span::seconds(20)), None);
        tests.began(peer, "session 1");
        assert_eq!((tests.write(begin + Span::seconds(30)), tests.lines), (None, 1));
    }
}
