//! [`Server`]: answers any number of LaMP sessions in bounded memory.
//!
//! A client that has not proven to receive what is sent to its address ([`super::proof`]) is never sent more packets or
//! bytes than it has sent in the same session, so that forged packets gain nothing.

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
const MAX_REPORT_REPEATS: u32 = 15;
/// A one-way test silent for this long is reported: its STOP was lost, and LaTe's clients wait 5 s for a report.
const MIN_SILENCE: Span = Span::seconds(3);
/// For tests with long intervals, silence begins this long after the next packet should have arrived.
const OVERDUE_GRACE: Span = Span::seconds(1);
/// A session whose last packet came is forgotten after this long: late copies and repetitions may follow.
const ENDED_LINGER: Span = Span::seconds(3);
/// A session of a client without proof is forgotten after so long without a packet, as long as its interval is unknown.
const UNKNOWN_INTERVAL_TIMEOUT: Span = Span::seconds(30);
/// Sessions whose interval is known are forgotten after three of their longest, but not before this long.
const IDLE_INTERVALS: i64 = 3;
const MIN_IDLE: Span = Span::seconds(10);
/// Bytes that a client without proof must have sent in excess before its unidirectional test begins: with the shortest
/// test, one STOP, they are enough for a report. LaTe, which repeats its INIT every 100 ms, has sent them after 400 ms.
const MIN_EXCESS_BYTES: i64 = 96;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerRules {
    /// Sessions at a time. The longest idle one makes room for another, those without proof first.
    pub sessions: usize,
    /// Of these, sessions of one [`ClientAddress`].
    pub sessions_per_client: usize,
    /// The longest time between packets: a session silent for this long is removed, most are much sooner.
    pub idle: Span,
    /// Whether follow-up is granted.
    pub follow_up: bool,
    /// Networks whose addresses nobody can forge: their clients need no proof.
    pub trusted: Vec<Prefix>,
    /// The best kind of stamps of arrivals on this host.
    pub receive_stamps: StampSource,
    /// The best kind of stamps of answers on this host; they are reported through [`Server::follow_up`].
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

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LampReaction {
    /// Send what was appended back where it came from.
    Answer,
    /// The same; then call [`Server::follow_up`] with how long the answer took, and send that too.
    AnswerAndFollow(LampFollowUp),
    /// Nothing to send.
    Taken,
    /// Nothing to send: a packet of a unidirectional test, whose last it is if `last`.
    Counted {
        /// Whether the client sends no more.
        last: bool,
    },
}

/// A test whose first packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LampTestStart {
    /// Its number.
    pub id: u16,
    /// Whether only the client sends.
    pub unidirectional: bool,
    /// Whether its client has proven to receive what is sent to its address, or needs no proof.
    pub proven: bool,
}

impl core::fmt::Display for LampTestStart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = if self.unidirectional { "unidirectional" } else { "ping-like" };
        let proof = if self.proven { "" } else { ", its address without proof" };
        write!(f, "session {}: {kind}{proof}", self.id)
    }
}

#[derive(Clone, Debug)]
struct LampSession<R> {
    /// How the client's last packet arrived, and so how to reach it.
    route: R,
    unidirectional: Option<Box<LampTally>>,
    follow_up: Option<LampFollowUp>,
    negotiated: bool,
    seen: SteadyTime,
    /// Packets of the test so far.
    packets: u64,
    /// The longest time between two packets of it.
    longest: Span,
    /// Whether the last packet of a ping-like test came.
    ended: bool,
    credit: Credit,
    phase: OneWayPhase,
    /// The time under which it is in the [`Server`]'s agenda.
    look: SteadyTime,
}

/// What a client may still be sent in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credit {
    /// Anything: it has proven to receive it.
    Proven,
    /// Packets and bytes received minus those sent.
    Of { packets: i64, bytes: i64 },
}

impl Credit {
    /// At the beginning of a session.
    fn of(proven: bool) -> Credit {
        if proven { Credit::Proven } else { Credit::Of { packets: 0, bytes: 0 } }
    }

    fn add(&mut self, length: usize) {
        if let Credit::Of { packets, bytes } = self {
            *packets += 1;
            *bytes += length as i64;
        }
    }

    /// Whether a packet of `length` may be sent, which then counts as sent.
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

    /// Whether `length` bytes may be sent.
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

    /// The test, if its first packet was counted just now.
    fn begun(&self, id: u16) -> Option<LampTestStart> {
        let (unidirectional, proven) = (self.unidirectional.is_some(), self.credit == Credit::Proven);
        (self.packets == 1).then_some(LampTestStart { id, unidirectional, proven })
    }

    /// When it is forgotten if nothing comes.
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

    /// When something may be due without a packet: a report, or its removal.
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

/// The state of a one-way session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneWayPhase {
    Open,
    /// Its report is sent until it is acknowledged. Without `stopped`: because of silence, and more packets may come.
    Reporting {
        stopped: bool,
        sent: u32,
        due: SteadyTime,
    },
    /// The report was acknowledged, or given up.
    Reported {
        stopped: bool,
    },
}

/// Whether only servers send this: if it were answered, two servers would answer each other for ever.
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

/// The server's side of all sessions. `R` is how a client is reached, in addition to its address; the server keeps that
/// of each session's last packet and returns it with a report.
#[derive(Clone, Debug)]
pub struct Server<R = ()> {
    rules: ServerRules,
    prover: Prover,
    sessions: ShareTable<SessionName, LampSession<R>>,
    /// Every session, under the time at which it is to be checked.
    agenda: BTreeSet<(SteadyTime, SessionName)>,
    begun: Option<LampTestStart>,
}

impl<R: Copy> Server<R> {
    /// A server without sessions. `secret` is random, so that proofs cannot be guessed.
    pub fn new(rules: ServerRules, secret: [u8; 32]) -> Server<R> {
        Server {
            prover: Prover::new(secret),
            sessions: ShareTable::new(rules.sessions, rules.sessions_per_client),
            rules,
            agenda: BTreeSet::new(),
            begun: None,
        }
    }

    /// The test that the datagram handled last began; `None` if it was no test's first packet, or was asked before.
    pub fn take_begun(&mut self) -> Option<LampTestStart> {
        self.begun.take()
    }

    /// Bytes that a session takes at most: with its count of packets and its place in the agenda.
    pub const BYTES_PER_SESSION: usize = ShareTable::<SessionName, LampSession<R>>::bytes_per_entry()
        + size_of::<LampTally>()
        + 2 * size_of::<(SteadyTime, SessionName)>();

    /// Sessions at the moment.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn grants(&self, wish: LampFollowUp) -> bool {
        let (receive, send) = (self.rules.receive_stamps, self.rules.send_stamps);
        self.rules.follow_up
            && match wish {
                LampFollowUp::Application => true,
                LampFollowUp::KernelReceive => receive >= StampSource::Kernel,
                LampFollowUp::Kernel => receive >= StampSource::Kernel && send >= StampSource::Kernel,
                LampFollowUp::Hardware => receive >= StampSource::Hardware && send >= StampSource::Hardware,
                _ => false,
            }
    }

    /// Handles a datagram received at `arrival`, by `route`; the answer is appended to `out`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrival: &RequestArrival,
        route: R,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<LampReaction, Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let header = LampHeader::parse(datagram).ok_or(Silence::Foreign)?;
        let name = SessionName { client: arrival.from, id: header.id };
        if header.kind == LampKind::Init {
            return self.open(name, &header, datagram.len(), route, now, out);
        }
        let wish = LampFollowUp::from(header.length_or_type);
        if is_answer(header.kind, wish) {
            return Err(Silence::Loop);
        }
        let granted = match wish {
            wish if header.kind == LampKind::FollowUpControl && self.grants(wish) => Some(wish),
            _ => None,
        };
        let session = self.sessions.seen(&name).ok_or(Silence::NoSession)?;
        session.longest = session.longest.max(now.steady - session.seen);
        session.seen = now.steady;
        session.route = route;
        session.credit.add(datagram.len());
        match (header.kind, &mut session.unidirectional) {
            (LampKind::FollowUpControl, _) => {
                // Every request is answered (LaTe answers the first only), the same as the first time.
                if !session.negotiated {
                    session.negotiated = true;
                    // It doubles the packets.
                    session.follow_up = granted.filter(|_| session.credit == Credit::Proven);
                }
                let word =
                    if session.follow_up.is_some() { LampFollowUp::Accept } else { LampFollowUp::Deny };
                // It has just been credited with as much.
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
                if session.phase == (OneWayPhase::Reported { stopped: true }) {
                    return Ok(LampReaction::Taken);
                }
                session.packets += 1;
                tally.note(header.seq, header.time().map(|t| arrival.at - t));
                self.begun = session.begun(header.id);
                let stopped = matches!(session.phase, OneWayPhase::Reporting { stopped: true, .. });
                if !stopped {
                    // A test that was only silent continues.
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
            // Nothing is kept of a client that has yet to prove that it is there.
            let proof = self.prover.proof(name.client, name.id, now.steady);
            out.extend(proof::ack(name.id, proof).to_bytes());
            return Ok(LampReaction::Answer);
        }
        let proven = proven || self.trusts(name.client);
        let known = self.sessions.get_mut(&name);
        let known = known.map(|s| (s.credit == Credit::Proven, s.unidirectional.is_some() == unidirectional));
        match known {
            // Anybody can forge an INIT: it changes nothing of a client that is known.
            Some((true, _)) if !proven => return Err(Silence::Forged),
            // Repeated: the ACK was lost. (LaTe acknowledges only once, and the client can never start.)
            Some((was_proven, true)) if was_proven == proven => {}
            _ => {
                self.insert(name, LampSession::new(route, unidirectional, Credit::of(proven), now.steady))?;
            }
        }
        let session = self.sessions.seen(&name).ok_or(Silence::Limited)?;
        session.seen = now.steady;
        session.route = route;
        session.credit.add(length);
        // A client that sends only and proves nothing sends more before its test begins, so that it can be reported.
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

    /// Adds a session, which another may have to leave room for.
    fn insert(&mut self, name: SessionName, mut session: LampSession<R>) -> Result<(), Silence> {
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

    /// Updates the time at which session `name` is to be checked, if that is sooner now.
    fn look_sooner(&mut self, name: SessionName) {
        let Some(session) = self.sessions.get_mut(&name) else { return };
        let look = session.next_look(self.rules.idle);
        if look < session.look {
            self.agenda.remove(&(session.look, name));
            self.agenda.insert((look, name));
            session.look = look;
        }
    }

    /// Appends the follow-up to the answer to request `seq` of session `id`, which took this host `took`.
    pub fn follow_up(&self, id: u16, seq: u16, took: Span, out: &mut Vec<u8>) {
        out.extend(LampHeader::new(LampKind::FollowUpData, id, seq, 0).took(took).to_bytes());
    }

    /// Appends the next report due and returns where to send it, and by which route.
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

    /// When, on the steady clock, to call [`poll_transmit`](Self::poll_transmit) at the latest.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        self.agenda.first().map(|(due, _)| *due)
    }
}

impl<R> LampSession<R> {
    /// Appends the report of session `id`, if one is due.
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
        if sent >= MAX_REPORT_REPEATS || !self.credit.spend(length) {
            self.phase = OneWayPhase::Reported { stopped };
            return false;
        }
        // A NUL at the end is counted: LaTe parses the text without looking at its length.
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
