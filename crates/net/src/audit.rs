//! What a server decides about its clients, in the log: one form for all services.

use jitlat_core::SteadyTime;
use jitlat_core::time::SECOND;
use jitlat_proto::policy::{Gate, Service};
use std::fmt::Display;
use std::net::SocketAddr;

/// `peer` is served.
pub(crate) fn accepted(service: Service, peer: SocketAddr, what: impl Display) {
    tracing::info!(service, %peer, decision = "accepted", "{what}");
}

/// `peer` is not served.
pub(crate) fn refused(service: Service, peer: SocketAddr, why: impl Display) {
    tracing::info!(service, %peer, decision = "refused", "{why}");
}

/// `peer` gave a wrong key: it has to wait, and the log has fewer and fewer lines about it.
pub(crate) fn wrong_key(gate: &Gate, service: Service, peer: SocketAddr) {
    if gate.wrong_key(peer.ip(), crate::clock::steady()) {
        tracing::warn!(service, %peer, decision = "refused", "a wrong key");
    }
}

/// Lines a second about the tests of one reflector.
const LINES: usize = 20;

/// The tests that one reflector of datagrams has accepted, until their lines are written: after their first answers, and
/// only so many a second, because a host that forges addresses can begin any number. `T` is what is said of a test.
pub(crate) struct BegunTests<T> {
    service: Service,
    waiting: Vec<(SocketAddr, T)>,
    left_out: u64,
    /// When the second began in which `lines` were written.
    since: SteadyTime,
    lines: usize,
}

impl<T: Display> BegunTests<T> {
    pub(crate) fn new(service: Service) -> BegunTests<T> {
        let waiting = Vec::with_capacity(LINES);
        BegunTests { service, waiting, left_out: 0, since: SteadyTime(i64::MIN), lines: 0 }
    }

    /// The first packet of a test of `peer` came.
    pub(crate) fn began(&mut self, peer: SocketAddr, what: T) {
        if self.lines + self.waiting.len() < LINES {
            self.waiting.push((peer, what));
        } else {
            self.left_out += 1;
        }
    }

    /// Writes the lines that wait, and once a second how many were left out.
    pub(crate) fn write(&mut self, now: SteadyTime) {
        for (peer, what) in self.waiting.drain(..) {
            self.lines += 1;
            accepted(self.service, peer, what);
        }
        if self.lines > 0 && now.0.saturating_sub(self.since.0) >= SECOND {
            (self.since, self.lines) = (now, 0);
            if self.left_out > 0 {
                let left_out = std::mem::take(&mut self.left_out);
                tracing::info!(
                    service = self.service,
                    decision = "accepted",
                    "{left_out} more tests than have a line"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::Span;
    use jitlat_proto::policy::STAMP;

    #[test]
    fn clients_that_forge_their_addresses_do_not_fill_the_log() {
        let peer = "192.0.2.1:40000".parse().unwrap();
        let mut tests = BegunTests::new(STAMP);
        let (begin, mut lines) = (SteadyTime(5 * SECOND), 0);
        for tick in 0..100 {
            (0..50).for_each(|_| tests.began(peer, "session 0"));
            lines += tests.waiting.len();
            tests.write(begin + Span::millis(100 * tick));
        }
        // Ten seconds; the first has twice as many.
        assert!((10 * LINES..=12 * LINES).contains(&lines), "{lines}");
        assert!(tests.left_out < 500, "what was left out is in the log after a second: {}", tests.left_out);
    }
}
