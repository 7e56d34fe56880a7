//! [`Server`]: answers any number of LaMP sessions in bounded memory.
//!
//! A client that has not proved that it receives packets at its address (module `proof`) never gets more
//! packets or bytes than it has sent in the same session, so forged packets cannot be used to amplify
//! traffic.

use crate::access::{ClientAddress, answerable};
use crate::lamp::packet::{HEADER_LEN, LampFollowUp, LampHeader, LampKind};
use crate::lamp::proof::{self, Prover};
use crate::lamp::tally::LampTally;
use crate::machine::Tick;
use crate::shares::{Rank, SessionName, ShareTable};
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::SocketAddr;
use jitlat_core::prefix::Prefix;
use jitlat_core::time::StampSource;
use jitlat_core::{Span, SteadyTime};
use std::collections::BTreeSet;

/// Time between repetitions of a REPORT.
const REPORT_REPEAT_INTERVAL: Span = Span::millis(200);
/// Maximum number of times that a REPORT is sent.
const MAX_REPORT_REPEATS: u32 = 15;
/// Silence after which a one-way test is reported, because its STOP may be lost. Must be below the 5 s that LaTe's
/// clients wait for a report.
const MIN_SILENCE: Span = Span::seconds(3);
/// Time after the due time of the next packet before its absence counts as silence, for tests with long intervals.
const OVERDUE_GRACE: Span = Span::seconds(1);
/// Time for which a session is retained after its last packet, because late duplicates and repetitions may
/// follow.
const ENDED_LINGER: Span = Span::seconds(3);
/// Silence after which a session of a client without proof is removed if its interval is not known yet.
const UNKNOWN_INTERVAL_TIMEOUT: Span = Span::seconds(30);
/// Silence after which a session with a known interval is removed, in multiples of its longest interval.
const IDLE_INTERVALS: i64 = 3;
/// Minimum silence before a session with a known interval is removed.
const MIN_IDLE: Span = Span::seconds(10);
/// Minimum credit of a client without proof before its unidirectional test starts, in bytes, in addition to the bytes
/// of the ACK. Even after the shortest test, a single STOP, this credit is sufficient for a report. LaTe, which repeats
/// its INIT every 100 ms, reaches it after 400 ms.
const MIN_EXCESS_BYTES: i64 = 96;

/// Rules of a server.
#[derive(Clone, Debug)]
pub struct ServerRules {
    /// Maximum number of sessions. A new session replaces the one that has been idle longest; sessions of clients
    /// without proof are replaced first.
    pub sessions: usize,
    /// Maximum number of sessions per [`ClientAddress`].
    pub sessions_per_client: usize,
    /// Longest supported time between packets. A session is removed at the latest after this time without packets, and
    /// usually much sooner.
    pub idle: Span,
    /// True if follow-up is granted.
    pub follow_up: bool,
    /// Networks whose source addresses cannot be forged: clients in them need no proof.
    pub trusted: Vec<Prefix>,
    /// Most precise source of receive timestamps on this host.
    pub receive_stamps: StampSource,
    /// Most precise source of transmit timestamps on this host, which are reported by [`Server::follow_up`].
    pub send_stamps: StampSource,
}

impl Default for ServerRules {
    fn default() -> ServerRules {
        ServerRules {
            sessions: 16_384,
            sessions_per_client: 256,
            idle: Span::seconds(120),
            follow_up: true,
            trusted: Vec::new(),
            receive_stamps: StampSource::User,
            send_stamps: StampSource::User,
        }
    }
}

/// Action to take for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LampReaction {
    /// Send the appended bytes back to the source.
    Answer,
    /// Send the appended bytes back. Then call [`Server::follow_up`] with the processing time of the answer,
    /// and send the resulting packet as well.
    AnswerAndFollow(LampFollowUp),
    /// Send nothing.
    Taken,
    /// Send nothing: the packet belongs to a unidirectional test.
    Counted {
        /// True if this is the last packet of the test.
        last: bool,
    },
}

/// A test whose first packet has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LampTestStart {
    /// Identifier of the session.
    pub id: u16,
    /// True if only the client sends.
    pub unidirectional: bool,
    /// True if the client has proved that it receives packets at its address, or needs no proof.
    pub proven: bool,
}

impl core::fmt::Display for LampTestStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = if self.unidirectional { "unidirectional" } else { "ping-like" };
        let proof = if self.proven { "" } else { ", address not proven" };
        write!(f, "session {}: {kind}{proof}", self.id)
    }
}

#[derive(Clone, Debug)]
struct LampSession<R> {
    /// Return route to the client, taken from its last packet.
    route: R,
    unidirectional: Option<Box<LampTally>>,
    follow_up: Option<LampFollowUp>,
    negotiated: bool,
    seen: SteadyTime,
    /// Number of packets of the test so far.
    packets: u64,
    /// Longest time between two packets of the test.
    longest: Span,
    /// True if the last packet of a ping-like test has arrived.
    ended: bool,
    credit: Credit,
    phase: OneWayPhase,
    /// Time of this session's entry in the [`Server`]'s agenda.
    look: SteadyTime,
}

/// Packets and bytes that may still be sent to a client in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credit {
    /// No limit, because the client has proved that it receives packets.
    Proven,
    /// Packets and bytes received, minus those sent.
    Of { packets: i64, bytes: i64 },
}

impl Credit {
    /// Returns the credit at the start of a session.
    fn of(proven: bool) -> Credit {
        if proven { Credit::Proven } else { Credit::Of { packets: 0, bytes: 0 } }
    }

    fn add(&mut self, length: usize) {
        if let Credit::Of { packets, bytes } = self {
            *packets += 1;
            *bytes += length as i64;
        }
    }

    /// Returns true if a packet of `length` bytes may be sent; the packet then counts as sent.
    fn spend(&mut self, length: usize) -> bool {
        match self {
            Credit::Proven => true,
            Credit::Of { packets, bytes } if *packets >= 1 && *bytes >= length as i64 => {
                *packets -= 1;
                *bytes -= length as i64;
                true
            }
            Credit::Of { .. } => false,
        }
    }

    /// True if `length` bytes may be sent.
    fn covers(self, length: i64) -> bool {
        match self {
            Credit::Proven => true,
            Credit::Of { bytes, .. } => bytes >= length,
        }
    }

    fn rank(self) -> Rank {
        if self == Credit::Proven { Rank::Proven } else { Rank::Unproven }
    }
}

impl<R> LampSession<R> {
    fn new(route: R, unidirectional: bool, credit: Credit, now: SteadyTime) -> LampSession<R> {
        LampSession {
            route,
            unidirectional: unidirectional.then(|| Box::new(LampTally::new())),
            follow_up: None,
            negotiated: false,
            seen: now,
            packets: 0,
            longest: Span::ZERO,
            ended: false,
            credit,
            phase: OneWayPhase::Open,
            look: now,
        }
    }

    /// Returns the test if its first packet was just counted.
    fn begun(&self, id: u16) -> Option<LampTestStart> {
        let (unidirectional, proven) = (self.unidirectional.is_some(), self.credit == Credit::Proven);
        (self.packets == 1).then_some(LampTestStart { id, unidirectional, proven })
    }

    /// Returns the time at which the session is removed if no more packets arrive.
    fn forget(&self, idle: Span) -> SteadyTime {
        let over = self.ended || self.phase == (OneWayPhase::Reported { stopped: true });
        self.seen
            + match self.packets {
                _ if over => ENDED_LINGER,
                0 | 1 if self.credit != Credit::Proven => UNKNOWN_INTERVAL_TIMEOUT.min(idle),
                0 | 1 => idle,
                _ => Span(self.longest.0.saturating_mul(IDLE_INTERVALS)).max(MIN_IDLE).min(idle),
            }
    }

    /// Returns the time of the next action if no packet arrives: a report, or removal.
    fn next_look(&self, idle: Span) -> SteadyTime {
        let forget = self.forget(idle);
        match (&self.unidirectional, self.phase) {
            (_, OneWayPhase::Reporting { due, .. }) => due.min(forget),
            (Some(tally), OneWayPhase::Open) if tally.has_received() => {
                forget.min(self.seen + MIN_SILENCE.max(self.longest + OVERDUE_GRACE))
            }
            _ => forget,
        }
    }
}

/// State of a one-way session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneWayPhase {
    Open,
    /// The report is repeated until it is acknowledged. If `stopped` is false, the report was sent because of silence,
    /// and more packets may follow.
    Reporting {
        stopped: bool,
        sent: u32,
        due: SteadyTime,
    },
    /// The report was acknowledged or given up.
    Reported {
        stopped: bool,
    },
}

/// True if only servers send packets of this kind. Such packets must not be answered: two servers would answer each
/// other forever.
fn is_answer(kind: LampKind, word: LampFollowUp) -> bool {
    match kind {
        LampKind::Reply | LampKind::EndReply | LampKind::ReplyTimeless | LampKind::EndReplyTimeless => true,
        LampKind::Report | LampKind::FollowUpData => true,
        LampKind::FollowUpControl => {
            matches!(word, LampFollowUp::Accept | LampFollowUp::Deny | LampFollowUp::Unknown)
        }
        _ => false,
    }
}

/// Server of all sessions. `R` is the return route to a client, in addition to its address. The server stores
/// the route of each session's last packet, and returns it with a report.
#[derive(Clone, Debug)]
pub struct Server<R = ()> {
    rules: ServerRules,
    prover: Prover,
    sessions: ShareTable<SessionName, LampSession<R>>,
    /// All sessions, ordered by the time of their next check.
    agenda: BTreeSet<(SteadyTime, SessionName)>,
    begun: Option<LampTestStart>,
}

impl<R: Copy> Server<R> {
    /// Creates a server without sessions. `secret` must be random, so that proofs cannot be guessed.
    pub fn new(rules: ServerRules, secret: [u8; 32]) -> Server<R> {
        Server {
            prover: Prover::new(secret),
            sessions: ShareTable::new(rules.sessions, rules.sessions_per_client),
            rules,
            agenda: BTreeSet::new(),
            begun: None,
        }
    }

    /// Returns the test that the last datagram started, once; `None` if the datagram was not the first packet
    /// of a test.
    pub fn take_begun(&mut self) -> Option<LampTestStart> {
        self.begun.take()
    }

    /// Maximum memory per session in bytes, including its packet count and its entry in the agenda.
    pub const BYTES_PER_SESSION: usize = ShareTable::<SessionName, LampSession<R>>::bytes_per_entry()
        + size_of::<LampTally>()
        + 2 * size_of::<(SteadyTime, SessionName)>();

    /// Returns the current number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn grants(&self, requested: LampFollowUp) -> bool {
        let (receive, send) = (self.rules.receive_stamps, self.rules.send_stamps);
        self.rules.follow_up
            && match requested {
                LampFollowUp::Application => true,
                LampFollowUp::KernelReceive => receive >= StampSource::Kernel,
                LampFollowUp::Kernel => receive >= StampSource::Kernel && send >= StampSource::Kernel,
                LampFollowUp::Hardware => receive >= StampSource::Hardware && send >= StampSource::Hardware,
                _ => false,
            }
    }

    /// Handles a datagram that arrived at `arrival` over `route`, and appends the answer to `out`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrival: &RequestArrival,
        route: R,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<LampReaction, Silence> {
        // First of all: a forged source port could make this server and another service answer each other.
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let header = LampHeader::parse(datagram).ok_or(Silence::Foreign)?;
        let name = SessionName { client: arrival.from, id: header.id };
        if header.kind == LampKind::Init {
            return self.open(name, &header, datagram.len(), route, now, out);
        }
        let requested = LampFollowUp::from(header.length_or_type);
        if is_answer(header.kind, requested) {
            return Err(Silence::Loop);
        }
        let granted = match requested {
            requested if header.kind == LampKind::FollowUpControl && self.grants(requested) => {
                Some(requested)
            }
            _ => None,
        };
        let session = self.sessions.seen(&name).ok_or(Silence::NoSession)?;
        session.longest = session.longest.max(now.steady - session.seen);
        session.seen = now.steady;
        session.route = route;
        session.credit.add(datagram.len());
        match (header.kind, &mut session.unidirectional) {
            (LampKind::FollowUpControl, _) => {
                // Every follow-up request gets the same answer as the first one. LaTe answers only the first
                // one.
                if !session.negotiated {
                    session.negotiated = true;
                    // Follow-up doubles the number of packets sent to a client, so it requires a proof.
                    session.follow_up = granted.filter(|_| session.credit == Credit::Proven);
                }
                let word =
                    if session.follow_up.is_some() { LampFollowUp::Accept } else { LampFollowUp::Deny };
                // The request was credited with the same number of bytes.
                session.credit.spend(HEADER_LEN);
                out.extend(LampHeader::new(LampKind::FollowUpControl, header.id, 0, word.code()).to_bytes());
                Ok(LampReaction::Answer)
            }
            (LampKind::Ack, Some(_)) => {
                if let OneWayPhase::Reporting { stopped, .. } = session.phase {
                    session.phase = OneWayPhase::Reported { stopped };
                }
                Ok(LampReaction::Taken)
            }
            (LampKind::Continue | LampKind::Stop, Some(tally)) => {
                // The report was acknowledged or given up, so its counts are final.
                if session.phase == (OneWayPhase::Reported { stopped: true }) {
                    return Ok(LampReaction::Taken);
                }
                session.packets += 1;
                tally.note(header.seq, header.time().map(|t| arrival.at - t));
                self.begun = session.begun(header.id);
                let stopped = matches!(session.phase, OneWayPhase::Reporting { stopped: true, .. });
                if !stopped {
                    // A test that was reported because of silence continues.
                    session.phase = OneWayPhase::Open;
                    if header.kind.ends() {
                        session.phase = OneWayPhase::Reporting { stopped: true, sent: 0, due: now.steady };
                    }
                }
                self.look_sooner(name);
                Ok(LampReaction::Counted { last: header.kind.ends() })
            }
            (kind, None) => {
                let start = out.len();
                out.extend(datagram);
                if kind.reply().is_none() || !crate::lamp::packet::turn_into_reply(&mut out[start..]) {
                    out.truncate(start);
                    return Err(Silence::Foreign);
                }
                session.packets += 1;
                self.begun = session.begun(header.id);
                session.credit.spend(datagram.len());
                let reaction = session.follow_up.map_or(LampReaction::Answer, LampReaction::AnswerAndFollow);
                if kind.ends() && !session.ended {
                    session.ended = true;
                    self.look_sooner(name);
                }
                Ok(reaction)
            }
            _ => Err(Silence::Foreign),
        }
    }

    fn open(
        &mut self,
        name: SessionName,
        header: &LampHeader,
        length: usize,
        route: R,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<LampReaction, Silence> {
        let unidirectional = match header.length_or_type {
            1 => false,
            2 => true,
            _ => return Err(Silence::Foreign),
        };
        let proof = proof::of(header);
        let proven = proof.is_some_and(|p| self.prover.is_valid(p, name.client, name.id, now.steady));
        if proof.is_some() && !proven {
            // Nothing is stored for a client until it has proved its address.
            let proof = self.prover.proof(name.client, name.id, now.steady);
            out.extend(proof::ack(name.id, proof).to_bytes());
            return Ok(LampReaction::Answer);
        }
        let proven = proven || self.trusts(name.client);
        let known = self.sessions.get_mut(&name);
        let known = known.map(|s| (s.credit == Credit::Proven, s.unidirectional.is_some() == unidirectional));
        match known {
            // Anyone can forge an INIT, so it changes nothing for a client with proof.
            Some((true, _)) if !proven => return Err(Silence::Forged),
            // A repeated INIT means that the ACK was lost. LaTe acknowledges only once, so that its client
            // could never start.
            Some((was_proven, true)) if was_proven == proven => {}
            _ => {
                self.insert(name, LampSession::new(route, unidirectional, Credit::of(proven), now.steady))?;
            }
        }
        let session = self.sessions.seen(&name).ok_or(Silence::Limited)?;
        session.seen = now.steady;
        session.route = route;
        session.credit.add(length);
        // A one-way client without proof must send more bytes before its test starts, so that it can get a
        // report.
        let begun = session.packets > 0 || session.credit.covers(HEADER_LEN as i64 + MIN_EXCESS_BYTES);
        if unidirectional && !begun || !session.credit.spend(HEADER_LEN) {
            return Ok(LampReaction::Taken);
        }
        out.extend(LampHeader::new(LampKind::Ack, name.id, 0, 0).to_bytes());
        Ok(LampReaction::Answer)
    }

    fn trusts(&self, client: SocketAddr) -> bool {
        let ip = client.ip().to_canonical();
        self.rules.trusted.iter().any(|network| network.contains(ip))
    }

    /// Adds a session, which may replace another one.
    fn insert(&mut self, name: SessionName, mut session: LampSession<R>) -> Result<(), Silence> {
        // The interval is not known yet, so the session is checked again soon.
        session.look = session.next_look(self.rules.idle).min(session.seen + MIN_IDLE);
        let look = session.look;
        let (client, rank) = (ClientAddress::of(name.client.ip()), session.credit.rank());
        let replaced = self.sessions.insert(name, client, rank, session).map_err(|_| Silence::Limited)?;
        if let Some((name, replaced)) = replaced {
            self.agenda.remove(&(replaced.look, name));
        }
        self.agenda.insert((look, name));
        Ok(())
    }

    /// Updates the agenda if the next check of session `name` has become earlier.
    fn look_sooner(&mut self, name: SessionName) {
        let Some(session) = self.sessions.get_mut(&name) else { return };
        let look = session.next_look(self.rules.idle);
        if look < session.look {
            self.agenda.remove(&(session.look, name));
            self.agenda.insert((look, name));
            session.look = look;
        }
    }

    /// Appends the follow-up to the answer to request `seq` of session `id`. `took` is the processing time.
    pub fn follow_up(&self, id: u16, seq: u16, took: Span, out: &mut Vec<u8>) {
        out.extend(LampHeader::new(LampKind::FollowUpData, id, seq, 0).took(took).to_bytes());
    }

    /// Appends the next report that is due. Returns the address and the route to which to send it; `None` if
    /// no report is due.
    pub fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> Option<(SocketAddr, R)> {
        while let Some(&(due, name)) = self.agenda.first().filter(|(due, _)| *due <= now.steady) {
            self.agenda.remove(&(due, name));
            let Some(session) = self.sessions.get_mut(&name) else { continue };
            if session.forget(self.rules.idle) <= now.steady {
                self.sessions.remove(&name);
                continue;
            }
            let reported = session.report(name.id, self.rules.receive_stamps, now, out);
            session.look = session.next_look(self.rules.idle).min(now.steady + MIN_IDLE);
            self.agenda.insert((session.look, name));
            if reported {
                return Some((name.client, session.route));
            }
        }
        None
    }

    /// Returns the time, on the steady clock, by which [`poll_transmit`](Self::poll_transmit) must be called again;
    /// `None` if there are no sessions.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        self.agenda.first().map(|(due, _)| *due)
    }
}

impl<R> LampSession<R> {
    /// Appends the report of session `id` and returns true, if a report is due.
    fn report(&mut self, id: u16, stamps: StampSource, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(tally) = &self.unidirectional else { return false };
        let silence = MIN_SILENCE.max(self.longest + OVERDUE_GRACE);
        if self.phase == OneWayPhase::Open && tally.has_received() && now.steady - self.seen >= silence {
            self.phase = OneWayPhase::Reporting { stopped: false, sent: 0, due: now.steady };
        }
        let OneWayPhase::Reporting { stopped, sent, due } = self.phase else { return false };
        if now.steady < due {
            return false;
        }
        let text = tally.report(stamps, !stopped).to_string();
        let length = HEADER_LEN + text.len() + 1;
        // A client without proof must not get more than it has sent, however often the report is lost.
        if sent >= MAX_REPORT_REPEATS || !self.credit.spend(length) {
            self.phase = OneWayPhase::Reported { stopped };
            return false;
        }
        // The length includes a final NUL, because LaTe parses the text without checking its length.
        let header = LampHeader::new(LampKind::Report, id, sent as u16, (text.len() + 1) as u16).at(now.wall);
        out.extend(header.to_bytes());
        out.extend(text.as_bytes());
        out.push(0);
        self.phase =
            OneWayPhase::Reporting { stopped, sent: sent + 1, due: now.steady + REPORT_REPEAT_INTERVAL };
        true
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
