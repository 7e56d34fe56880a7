//! Log lines about the decisions of a server on its clients, in the same form for all services.

use jitlat_core::time::SECOND;
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::policy::{Gate, Service};
use std::fmt::Display;
use std::net::SocketAddr;

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

#[cfg(test)]
mod tests {
    use super::*;
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
