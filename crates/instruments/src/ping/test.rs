//! [`PingTest`]: a two-way test for a protocol's client to run. [`PingResult`]: the result that the client returns.

use super::Ping;
use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::session::Ending;
use jitlat_core::twoway::{NotAnswers, TcpSample, TwoWay};
use jitlat_core::{PacketRecord, Session, WallTime};
use jitlat_net::clock;
use jitlat_net::twoway::{self, TwoWayLink, TwoWayMeasured};
use jitlat_proto::twoway::{PingPlan, Protocol};
use std::net::SocketAddr;

/// Input of a protocol's client: a test that is ready to run.
#[derive(Clone)]
pub struct PingTest<'a> {
    /// Settings of the test.
    pub settings: &'a Ping,
    /// Requests to send, with their times.
    pub plan: PingPlan,
    /// Address of the far host, and socket settings.
    pub link: TwoWayLink,
    /// Size of a request, in bytes.
    pub size: usize,
    /// Random identifier of the test.
    pub id: u16,
    /// Random number that marks the test's packets.
    pub mark: u64,
    /// Request to end early.
    pub stop: &'a Stop,
    /// Start time of the test.
    pub created: WallTime,
}

/// Result of a two-way test.
pub struct PingResult {
    /// Answers, in arrival order.
    pub records: Vec<PacketRecord>,
    /// Facts about the test.
    pub session: Session,
    /// Number of requests sent.
    pub requests: u64,
    /// TCP_INFO samples of the kernel, one per record; empty unless the test ran over TCP.
    pub tcp: Vec<TcpSample>,
}

impl PingResult {
    /// Returns the part of the session that only two-way tests have.
    pub fn facts(&mut self) -> &mut TwoWay {
        self.session.two_way.get_or_insert_default()
    }
}

impl<'a> PingTest<'a> {
    /// Returns the same test with another port of the far host.
    #[must_use]
    pub fn at_port(&self, port: u16) -> PingTest<'a> {
        let mut test = self.clone();
        test.link.to.set_port(port);
        test
    }

    /// Runs a protocol that sends datagrams. `make` creates the protocol; its argument is true if the kernel
    /// chooses the ICMP identifier. Also returns the final state of the protocol.
    ///
    /// # Errors
    /// [`Error::Ping`] if nothing was measured.
    pub fn datagrams<P: Protocol>(&self, make: impl FnOnce(bool) -> P) -> Result<(PingResult, P), Error> {
        let measured = twoway::run(make, self.plan.clone(), &self.link, self.stop.flag())?;
        Ok(self.gather(measured))
    }

    /// Converts a finished measurement to a result.
    pub fn gather<P: Protocol>(&self, measured: TwoWayMeasured<P>) -> (PingResult, P) {
        let TwoWayMeasured {
            mut outcome,
            local,
            host,
            ending,
            path_mtu,
            unsent,
            stamps_lost,
            refused,
            prohibited,
            ..
        } = measured;
        let mut records = Vec::with_capacity(outcome.records.len());
        while let Some(mut block) = outcome.records.take_block() {
            block.iter_mut().for_each(|r| outcome.sent.join(r));
            records.extend(block);
        }
        let plan = PingPlan { spec: outcome.spec, ..self.plan.clone() };
        let mut session = self.settings.session(&plan, self.link.to);
        session.spec.src_port = local.port();
        session.created = Some(self.created);
        session.src = Some(local.ip());
        // Requests after the last answer of a lost host do not count, because the host cannot have answered
        // them.
        let sent = u32::try_from(outcome.requests.sent()).ok();
        session.sent = sent.filter(|_| ending != Ending::PeerLost);
        session.ending = ending;
        session.reason = (ending == Ending::PeerLost).then(|| lost_peer(refused > 0).to_owned());
        session.unsent = unsent;
        session.path_mtu = path_mtu;
        session.stamps_lost = stamps_lost;
        session.client = host;
        session.schedule_shifts = outcome.shifts;
        let facts = session.two_way.get_or_insert_default();
        facts.far_clock = outcome.protocol.far_clock();
        facts.far_resolution = outcome.protocol.far_resolution();
        facts.processing_apart = outcome.protocol.follows_up();
        let (directions, losses) = outcome.requests.directions();
        facts.directions = Some(directions).filter(|d| d.stateful);
        facts.losses = losses;
        facts.skipped = outcome.skipped;
        facts.marked_slowdown = outcome.slowdown;
        // ICMP errors at the end of the test are the reason for its end, which is reported separately.
        let refused = if ending == Ending::PeerLost { 0 } else { refused };
        facts.not_answers = NotAnswers { refused, prohibited, ..outcome.not_answers };
        if outcome.requests.far_count_broken() {
            let broken = "the far host restarted its answer counter during the test: losses are not counted by \
                          direction";
            facts.remarks.push(broken.to_owned());
        }
        let found = PingResult { requests: outcome.requests.sent(), records, session, tcp: Vec::new() };
        (found, outcome.protocol)
    }
}

/// Describes how contact with the far host was lost.
fn lost_peer(refused: bool) -> &'static str {
    if refused {
        "the far host reports that nothing listens on this port any more"
    } else {
        "the connection was closed"
    }
}

impl Ping {
    /// Returns the facts known before a test starts.
    pub(super) fn session(&self, plan: &PingPlan, to: SocketAddr) -> Session {
        let mut session = Session::new(plan.spec.clone());
        session.spec.dst_port = to.port();
        session.created = Some(clock::wall());
        session.dst = Some(to.ip());
        session.period_known = plan.wait.is_none();
        session.client = clock::host_facts();
        session.two_way = Some(Box::new(TwoWay {
            protocol: self.client.protocol().name.to_owned(),
            wait: plan.wait,
            timeout: Some(plan.timeout),
            ..TwoWay::default()
        }));
        session
    }
}
