//! [`SessionTable`]: resources shared by all sessions of a server, and stored results.

use super::flow::{ReceiveReport, SendReport};
use super::limits::{ServerLimits, TransferLoad};
use super::recording::SentStamps;
use crate::access::ClientAddress;
use crate::policy::{Ask, Gate, Grant, ONE_WAY, PolicyRefusal, Scope};
use core::fmt;
use core::net::IpAddr;
use jitlat_core::session::HostFacts;
use jitlat_core::{SteadyTime, TestSpec};
use std::collections::HashMap;
use std::sync::Arc;

/// Identifier of a session: 64 unguessable bits, displayed as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Error: the text is not a session identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session identifier has 16 hexadecimal digits")]
pub struct NotASession;

impl core::str::FromStr for SessionId {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<SessionId, NotASession> {
        let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        id.map(SessionId).ok_or(NotASession)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// Server's results of a finished flow.
#[derive(Clone, Debug)]
pub struct FlowResults {
    /// Agreed specification of the stream.
    pub spec: TestSpec,
    /// Records or transmit timestamps.
    pub outcome: FlowOutcome,
    /// True if the server was stopped during the test, which ended this stream early.
    pub cut: bool,
}

/// Result of a flow, depending on the server's role.
#[derive(Clone, Debug)]
pub enum FlowOutcome {
    /// The server was the receiver: records.
    Received(ReceiveReport),
    /// The server was the sender: transmit timestamps.
    Sent(SendReport),
    /// The flow failed for this reason.
    Failed(String),
}

/// Server's results of a finished session.
#[derive(Clone, Debug)]
pub struct SessionResults {
    /// Results by flow number.
    pub flows: Vec<FlowResults>,
    /// Facts about the server after the test.
    pub host: HostFacts,
}

/// Resources that a session needs; see [`SessionTable::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Identifier of the session.
    pub id: SessionId,
    /// Address of the control peer.
    pub client: IpAddr,
    /// Maximum memory for records and timestamps, in bytes.
    pub memory: u64,
    /// Maximum transfer of the streams that the server sends.
    pub sent: TransferLoad,
    /// Maximum transfer of the streams that the server receives.
    pub received: TransferLoad,
    /// True if the client has proved a key.
    pub proven: bool,
}

/// Result of looking up a session by its identifier.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The test is over and has these results.
    Finished(Arc<SessionResults>),
    /// The test is not over yet, so the client should retry later.
    Running,
    /// The session does not exist, or was removed.
    Unknown,
}

impl Lookup {
    /// True if the session has results.
    pub fn has_results(&self) -> bool {
        matches!(self, Lookup::Finished(_))
    }
}

/// Sessions of a server, admitted by its [`Gate`] within the rates of its [`ServerLimits`]. Results that are
/// not fetched are stored for a limited time. A server has one table behind a lock, and every call is short.
#[derive(Debug)]
pub struct SessionTable {
    limits: ServerLimits,
    gate: Gate,
    sessions: HashMap<SessionId, SessionEntry>,
}

#[derive(Debug)]
struct SessionEntry {
    client: ClientAddress,
    memory: u64,
    grant: Grant,
    /// Maximum load that the sent streams cause; zero once the test is over.
    sent: TransferLoad,
    received: TransferLoad,
    /// Results, and the time at which they are removed; `None` while the test is running.
    stored: Option<(Arc<SessionResults>, SteadyTime)>,
    /// True if the results were requested over another connection while the test was running.
    is_awaited: bool,
}

impl SessionTable {
    /// Creates an empty table with its own gate.
    pub fn new(limits: ServerLimits) -> SessionTable {
        let gate = limits.gate();
        SessionTable::sharing(limits, gate)
    }

    /// Creates an empty table whose resources are counted by `gate`.
    pub fn sharing(limits: ServerLimits, gate: Gate) -> SessionTable {
        SessionTable { limits, gate, sessions: HashMap::new() }
    }

    /// Returns the limits of the server.
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Reserves resources for a session, or returns the rule that forbids it. If necessary, the client's own stored
    /// results are removed, oldest first. The gate may also remove results of clients that use more resources than this
    /// one.
    pub fn admit(&mut self, claim: Claim, now: SteadyTime) -> Result<(), PolicyRefusal> {
        self.expire(now);
        let client = self.gate.policy().client_of(claim.client);
        self.check_rates(client, &claim)?;
        let grant = loop {
            match self.gate.admit(ONE_WAY, claim.client, Ask::session(claim.memory).proven(claim.proven), now)
            {
                Ok(grant) => break grant,
                Err(refusal) if !self.drop_oldest(client) => return Err(refusal),
                Err(_) => {}
            }
        };
        let Claim { id, memory, sent, received, .. } = claim;
        self.sessions.insert(
            id,
            SessionEntry { client, memory, grant, sent, received, stored: None, is_awaited: false },
        );
        Ok(())
    }

    /// Checks the rate limits in each direction: those for the sum of a client's streams, and those for the sum of all
    /// clients' streams, if any.
    fn check_rates(&self, client: ClientAddress, claim: &Claim) -> Result<(), PolicyRefusal> {
        let own = || self.sessions.values().filter(|e| e.client == client);
        self.limits.check_together(own().map(|e| e.sent).sum(), claim.sent)?;
        self.limits.check_together(own().map(|e| e.received).sum(), claim.received)?;
        let total = self.gate.policy().quota(ONE_WAY, Scope::ServiceTotal);
        if total.packets.is_some() || total.bytes.is_some() {
            let limits = ServerLimits {
                rate: total.packets.unwrap_or(u32::MAX),
                bandwidth: total.bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(8)),
                ..self.limits.clone()
            };
            let all = || self.sessions.values();
            limits.check_together(all().map(|e| e.sent).sum(), claim.sent)?;
            limits.check_together(all().map(|e| e.received).sum(), claim.received)?;
        }
        Ok(())
    }

    fn drop_oldest(&mut self, client: ClientAddress) -> bool {
        let own = self.sessions.iter().filter(|(_, e)| e.client == client);
        let stored = own.filter_map(|(id, e)| e.stored.as_ref().map(|(_, until)| (*until, *id)));
        stored.min_by_key(|k| k.0).is_some_and(|(_, id)| self.sessions.remove(&id).is_some())
    }

    /// Ends the test `id`, and stores its results for [`ServerLimits::keep`].
    pub fn keep(&mut self, id: SessionId, results: Arc<SessionResults>, now: SteadyTime) {
        let until = now + self.limits.keep;
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.memory = results.memory().min(entry.memory);
            entry.grant.shrink(entry.memory);
            entry.grant.keep_alive(now);
            (entry.sent, entry.received) = Default::default();
            entry.stored = Some((results, until));
        }
    }

    /// Returns true if the session `id` must make room for another one. Unless `used` is `None`, it is recorded as the
    /// time at which the session's test was last used.
    pub fn is_evicted(&self, id: SessionId, used: Option<SteadyTime>) -> bool {
        let Some(entry) = self.sessions.get(&id) else { return false };
        if let Some(now) = used {
            entry.grant.touch(now);
        }
        entry.grant.is_evicted()
    }

    /// Records a keep-alive that the client of `id` sent at `now`.
    pub fn keep_alive(&self, id: SessionId, now: SteadyTime) {
        if let Some(entry) = self.sessions.get(&id) {
            entry.grant.keep_alive(now);
        }
    }

    /// Returns the results of `id`. The identifier alone is sufficient for access, because the client's
    /// address may have changed. If the test is running, its results are [awaited](SessionTable::is_awaited) from now on.
    pub fn find(&mut self, id: SessionId) -> Lookup {
        match self.sessions.get_mut(&id) {
            None => Lookup::Unknown,
            Some(SessionEntry { stored: Some((results, _)), .. }) => Lookup::Finished(Arc::clone(results)),
            Some(running) => {
                running.is_awaited = true;
                Lookup::Running
            }
        }
    }

    /// Returns true if the results of `id` were requested over another connection while its test was running: the client
    /// has given up the connection of the test.
    pub fn is_awaited(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|entry| entry.is_awaited)
    }

    /// Removes a session whose results were fetched, or that failed before it had results.
    pub fn forget(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// Removes results that have expired or whose memory was needed. Returns the time at which the next results expire;
    /// `None` if no results are stored. [`admit`](SessionTable::admit) also does this.
    pub fn expire(&mut self, now: SteadyTime) -> Option<SteadyTime> {
        let lasts = |e: &SessionEntry| {
            e.stored.as_ref().is_none_or(|(_, until)| now < *until && !e.grant.is_evicted())
        };
        self.sessions.retain(|_, e| lasts(e));
        self.sessions.values().filter_map(|e| e.stored.as_ref().map(|(_, until)| *until)).min()
    }

    /// Returns the memory of running tests and stored results, in bytes.
    pub fn memory(&self) -> u64 {
        self.sessions.values().map(|e| e.memory).sum()
    }

    /// Returns the number of sessions that are running or have stored results.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

impl SessionResults {
    /// Returns the memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        let of = |flow: &FlowResults| match &flow.outcome {
            FlowOutcome::Received(r) => super::Recording::cost(r.recording.len()),
            FlowOutcome::Sent(s) => s.stamps.as_ref().map_or(0, SentStamps::memory),
            FlowOutcome::Failed(_) => 0,
        };
        self.flows.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::{Span, StampSource};

    const A: &str = "192.0.2.1";
    const B: &str = "192.0.2.2";

    fn sessions() -> SessionTable {
        SessionTable::new(ServerLimits {
            sessions: 3,
            sessions_per_client: 2,
            memory: 1000,
            memory_per_client: 600,
            keep: Span(100),
            ..ServerLimits::default()
        })
    }

    fn admit(l: &mut SessionTable, id: u64, client: &str, memory: u64, now: i64) -> Result<(), &'static str> {
        let (sent, received) = Default::default();
        let claim = Claim {
            id: SessionId(id),
            client: client.parse().unwrap(),
            memory,
            sent,
            received,
            proven: false,
        };
        l.admit(claim, SteadyTime(now)).map_err(|r| match r {
            PolicyRefusal::Limit(limit) => limit.limit,
            other => panic!("{other}"),
        })
    }

    fn results() -> Arc<SessionResults> {
        Arc::new(SessionResults { flows: Vec::new(), host: HostFacts::default() })
    }

    #[test]
    fn results_take_what_their_records_and_stamps_take() {
        let stamps = |packets| {
            let mut stamps = SentStamps::new(StampSource::Kernel);
            stamps.reserve(packets);
            stamps.reserve_entries(packets / 2);
            FlowOutcome::Sent(SendReport { stamps: Some(stamps), ..Default::default() })
        };
        let of = |outcome| FlowResults { spec: Default::default(), outcome, cut: false };
        let flows = vec![of(stamps(4)), of(stamps(6))];
        let results = SessionResults { flows, host: HostFacts::default() };
        assert_eq!(results.memory(), 8 * (4 + 2 + 6 + 3));
    }

    #[test]
    fn one_client_cannot_take_everything() {
        let mut l = sessions();
        assert_eq!(admit(&mut l, 1, A, 601, 0), Err("max-memory-per-client"));
        assert_eq!(admit(&mut l, 1, A, 600, 0), Ok(()));
        assert_eq!(admit(&mut l, 2, A, 1, 0), Err("max-memory-per-client"));
        assert_eq!(admit(&mut l, 2, A, 0, 0), Ok(()));
        assert_eq!(admit(&mut l, 3, A, 0, 0), Err("max-sessions-per-client"));
        assert_eq!(admit(&mut l, 3, B, 401, 0), Err("max-memory"));
        assert_eq!(admit(&mut l, 3, B, 400, 0), Ok(()));
        assert_eq!(admit(&mut l, 4, B, 0, 0), Err("max-sessions"));
        l.forget(SessionId(1));
        assert_eq!(admit(&mut l, 4, B, 200, 0), Ok(()));
    }

    #[test]
    fn rates_hold_for_all_sessions_of_a_client() {
        let limits = ServerLimits { rate: 100, bandwidth: 64_000, ..ServerLimits::default() };
        let mut table = SessionTable::new(limits);
        let mut admit = |id, client: &str, sent, received| {
            let load = |packets| TransferLoad { packets, bits: packets * 100 };
            let client = client.parse().unwrap();
            let claim = Claim {
                id: SessionId(id),
                client,
                memory: 0,
                sent: load(sent),
                received: load(received),
                proven: false,
            };
            let refused = table.admit(claim, SteadyTime(0)).map_err(|r| r.to_string());
            if id == 3 {
                table.keep(SessionId(2), results(), SteadyTime(0));
            }
            refused
        };
        assert_eq!(admit(1, A, 6, 10), Ok(()));
        let why = "max-rate is limited to 100 packets/s on this server (5 packets within 100 ms in addition to 6 in use requested)";
        assert_eq!(admit(2, A, 5, 0), Err(why.to_owned()));
        assert_eq!(admit(2, A, 4, 0), Ok(()));
        assert_eq!(admit(3, B, 10, 10), Ok(()), "another client has its own limits, and session 2 ends");
        assert_eq!(admit(4, A, 4, 0), Ok(()), "a test that is over counts no longer");
        assert!(admit(5, A, 0, 1).unwrap_err().starts_with("max-rate"));
    }

    #[test]
    fn kept_results_are_found_until_they_expire_or_make_room() {
        let mut l = sessions();
        let id = SessionId(1);
        assert_eq!(admit(&mut l, 1, A, 600, 0), Ok(()));
        assert!(matches!(l.find(id), Lookup::Running));
        l.keep(id, results(), SteadyTime(10));
        assert!(l.find(id).has_results());
        assert_eq!(l.memory(), 0, "only what is held counts");
        l.expire(SteadyTime(109));
        assert!(l.find(id).has_results());
        l.expire(SteadyTime(110));
        assert!(!l.find(id).has_results());

        assert!(admit(&mut l, 2, A, 1, 200).is_ok() && admit(&mut l, 3, A, 1, 200).is_ok());
        l.keep(SessionId(2), results(), SteadyTime(200));
        assert!(admit(&mut l, 4, A, 1, 201).is_ok(), "the oldest stored makes room");
        assert!(!l.find(SessionId(2)).has_results());
        l.keep(SessionId(99), results(), SteadyTime(0));
        assert!(!l.find(SessionId(99)).has_results(), "only admitted sessions are stored");
    }

    #[test]
    fn kept_results_of_clients_that_hold_more_make_room() {
        let mut l = sessions();
        assert!(admit(&mut l, 1, A, 1, 0).is_ok() && admit(&mut l, 2, A, 1, 0).is_ok());
        assert!(admit(&mut l, 3, B, 1, 0).is_ok());
        let long = SessionTable::sharing(
            ServerLimits { keep: Span::seconds(600), ..l.limits.clone() },
            l.gate.clone(),
        );
        l.limits = long.limits;
        l.keep(SessionId(1), results(), SteadyTime(1));
        let running = [2, 3].map(SessionId);
        for id in running {
            assert!(!l.is_evicted(id, Some(SteadyTime(900_000_000))));
        }
        assert_eq!(admit(&mut l, 4, B, 1, 400_000_000), Err("max-sessions"), "not idle for long");
        assert_eq!(admit(&mut l, 4, B, 1, 1_000_000_000), Ok(()));
        l.expire(SteadyTime(1_000_000_000));
        assert!(!l.find(SessionId(1)).has_results() && l.sessions() == 3);
    }

    #[test]
    fn a_test_of_which_nothing_comes_makes_room_and_one_in_use_does_not() {
        let mut l = sessions();
        let at = |ms: i64| ms * 1_000_000;
        for (id, client) in [(1, A), (2, B), (3, "192.0.2.3")] {
            assert_eq!(admit(&mut l, id, client, 1, at(0)), Ok(()));
        }
        for ms in (0..3000).step_by(100) {
            assert!(!l.is_evicted(SessionId(1), Some(SteadyTime(at(ms)))));
        }
        assert_eq!(admit(&mut l, 4, "192.0.2.4", 1, at(3000)), Ok(()));
        let evicted = [1, 2, 3].map(|id| l.is_evicted(SessionId(id), None));
        assert_eq!(evicted.map(usize::from).iter().sum::<usize>(), 1, "{evicted:?}");
        assert!(!evicted[0], "the one in use");
    }

    #[test]
    fn a_name_is_sixteen_hexadecimal_digits() {
        let id = SessionId(0x00ff_0000_0000_00a1);
        assert_eq!(
            (id.to_string(), format!("{id:?}")),
            ("00ff0000000000a1".into(), "SessionId(00ff0000000000a1)".into())
        );
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "ff", "+0ff0000000000a1", "00ff0000000000a1b", "00ff0000000000g1"] {
            assert_eq!(bad.parse::<SessionId>(), Err(NotASession), "{bad}");
        }
    }

    #[test]
    fn limits_of_all_clients_together_hold_for_each_rate() {
        let load = |packets| TransferLoad { packets, bits: packets * 800 };
        let admitted = |set: fn(&mut crate::policy::Quota)| {
            let limits = ServerLimits::default();
            let mut policy = crate::policy::Policy::default();
            limits.apply_to(&mut policy);
            set(&mut policy.service(ONE_WAY).total);
            let mut table = SessionTable::sharing(limits, Gate::new(policy));
            let mut admit = |id, client: &str| {
                let (client, sent) = (client.parse().unwrap(), load(6));
                let claim = Claim {
                    id: SessionId(id),
                    client,
                    memory: 0,
                    sent,
                    received: TransferLoad::default(),
                    proven: false,
                };
                table.admit(claim, SteadyTime(0)).map_err(|r| r.to_string())
            };
            (admit(1, A), admit(2, B).map_err(|why| why.split(' ').next().unwrap_or_default().to_owned()))
        };
        assert_eq!(admitted(|_| ()), (Ok(()), Ok(())));
        assert_eq!(admitted(|total| total.packets = Some(100)), (Ok(()), Err("max-rate".to_owned())));
        assert_eq!(admitted(|total| total.bytes = Some(6000)), (Ok(()), Err("max-bandwidth".to_owned())));
        assert_eq!(admitted(|total| total.bytes = Some(12_000)), (Ok(()), Ok(())));
    }
}
