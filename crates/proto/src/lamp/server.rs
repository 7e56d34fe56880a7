//! [`Server`]: answers any number of LaMP sessions in bounded memory.

use crate::access::answerable;
use crate::lamp::packet::{FollowUp, HEADER_LEN, Header, Kind};
use crate::lamp::tally::Tally;
use crate::machine::Tick;
use crate::twoway::reflect::{Arrival, Silence};
use core::net::SocketAddr;
use jitlat_core::time::Source;
use jitlat_core::{Span, SteadyTime};
use std::collections::{BTreeSet, HashMap};

/// Time between repetitions of a REPORT.
const REPORT_REPEAT: Span = Span::millis(200);
const REPORT_REPEATS: u32 = 15;
/// A one-way test silent for this long is reported: its STOP was lost, and LaTe's clients wait 5 s for a report.
const SILENCE: Span = Span::seconds(3);
/// For tests with long intervals, silence begins this long after the next packet should have arrived.
const OVERDUE: Span = Span::seconds(1);
/// Sessions silent for this long are replaced by new ones if there is no room; how often that is checked.
const CROWDED: Span = Span::seconds(10);
const LOOK_FOR_ROOM: Span = Span::millis(500);
/// Most bytes a session may be sent beyond those received from it: one REPORT after the shortest test, so that forged
/// INITs are not worthwhile.
const FLOOR: i64 = 400;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct ServerRules {
    /// Sessions at a time.
    pub sessions: usize,
    /// A session silent for this long is removed: the longest time between packets.
    pub idle: Span,
    /// Whether follow-up is granted.
    pub follow_up: bool,
    /// The best kind of stamps of arrivals on this host.
    pub receive_stamps: Source,
    /// The best kind of stamps of answers on this host; they are reported through [`Server::follow_up`].
    pub send_stamps: Source,
}

impl Default for ServerRules {
    fn default() -> ServerRules {
        ServerRules {
            sessions: 16_384,
            idle: Span::seconds(120),
            follow_up: true,
            receive_stamps: Source::User,
            send_stamps: Source::User,
        }
    }
}

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Send what was appended back where it came from.
    Answer,
    /// The same; then call [`Server::follow_up`] with how long the answer took, and send that too.
    AnswerAndFollow(FollowUp),
    /// Nothing to send.
    Taken,
    /// Nothing to send: a packet of a unidirectional test, whose last it is if `last`.
    Counted {
        /// Whether the client sends no more.
        last: bool,
    },
}

#[derive(Clone, Debug)]
struct Session<R> {
    /// How the client's last packet arrived, and so how to reach it.
    route: R,
    unidirectional: Option<Box<Tally>>,
    follow_up: Option<FollowUp>,
    negotiated: bool,
    seen: SteadyTime,
    /// The longest time between two packets of it.
    longest: Span,
    /// Bytes received minus bytes sent.
    credit: i64,
    phase: Phase,
    /// The time under which it is in the [`Server`]'s agenda.
    look: SteadyTime,
}

impl<R> Session<R> {
    /// When something may be due without a packet: a report, or its removal after `idle`.
    fn next_look(&self, idle: Span) -> SteadyTime {
        let forget = self.seen + idle;
        match (&self.unidirectional, self.phase) {
            (_, Phase::Reporting { due, .. }) => due.min(forget),
            (Some(tally), Phase::Open) if tally.has_received() => {
                forget.min(self.seen + SILENCE.max(self.longest + OVERDUE))
            }
            _ => forget,
        }
    }
}

/// The state of a one-way session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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

type Name = (SocketAddr, u16);

/// Whether only servers send this: if it were answered, two servers would answer each other for ever.
fn is_answer(kind: Kind, word: FollowUp) -> bool {
    match kind {
        Kind::Reply | Kind::EndReply | Kind::ReplyTimeless | Kind::EndReplyTimeless => true,
        Kind::Report | Kind::FollowUpData => true,
        Kind::FollowUpControl => matches!(word, FollowUp::Accept | FollowUp::Deny | FollowUp::Unknown),
        _ => false,
    }
}

/// The server's side of all sessions. `R` is how a client is reached, in addition to its address; the server keeps that
/// of each session's last packet and returns it with a report.
#[derive(Clone, Debug)]
pub struct Server<R = ()> {
    rules: ServerRules,
    sessions: HashMap<Name, Session<R>>,
    /// Every session, under the time at which it is to be checked.
    agenda: BTreeSet<(SteadyTime, Name)>,
    /// When silent sessions may be searched again, to make room.
    make_room: SteadyTime,
}

impl<R: Copy> Server<R> {
    /// A server without sessions.
    pub fn new(rules: ServerRules) -> Server<R> {
        let make_room = SteadyTime(i64::MIN);
        Server { rules, sessions: HashMap::new(), agenda: BTreeSet::new(), make_room }
    }

    /// Sessions at the moment.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn grants(&self, wish: FollowUp) -> bool {
        let (receive, send) = (self.rules.receive_stamps, self.rules.send_stamps);
        self.rules.follow_up
            && match wish {
                FollowUp::Application => true,
                FollowUp::KernelReceive => receive >= Source::Kernel,
                FollowUp::Kernel => receive >= Source::Kernel && send >= Source::Kernel,
                FollowUp::Hardware => receive >= Source::Hardware && send >= Source::Hardware,
                _ => false,
            }
    }

    /// Handles a datagram received at `arrival`, by `route`; the answer is appended to `out`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrival: &Arrival,
        route: R,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<Reaction, Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let header = Header::parse(datagram).ok_or(Silence::Foreign)?;
        let name = (arrival.from, header.id);
        if header.kind == Kind::Init {
            return self.open(name, &header, datagram.len(), route, now, out);
        }
        let wish = FollowUp::from(header.length_or_type);
        if is_answer(header.kind, wish) {
            return Err(Silence::Loop);
        }
        let granted = match wish {
            wish if header.kind == Kind::FollowUpControl && self.grants(wish) => Some(wish),
            _ => None,
        };
        let session = self.sessions.get_mut(&name).ok_or(Silence::NoSession)?;
        session.longest = session.longest.max(now.steady - session.seen);
        session.seen = now.steady;
        session.route = route;
        session.credit += datagram.len() as i64;
        match (header.kind, &mut session.unidirectional) {
            (Kind::FollowUpControl, _) => {
                // Every request is answered (LaTe answers the first only), the same as the first time.
                if !session.negotiated {
                    session.negotiated = true;
                    session.follow_up = granted;
                }
                let word = if session.follow_up.is_some() { FollowUp::Accept } else { FollowUp::Deny };
                out.extend(Header::new(Kind::FollowUpControl, header.id, 0, word.code()).to_bytes());
                session.credit -= HEADER_LEN as i64;
                Ok(Reaction::Answer)
            }
            (Kind::Ack, Some(_)) => {
                if let Phase::Reporting { stopped, .. } = session.phase {
                    session.phase = Phase::Reported { stopped };
                }
                Ok(Reaction::Taken)
            }
            (Kind::Continue | Kind::Stop, Some(tally)) => {
                if session.phase == (Phase::Reported { stopped: true }) {
                    return Ok(Reaction::Taken);
                }
                tally.note(header.seq, header.time().map(|t| arrival.at - t));
                let stopped = matches!(session.phase, Phase::Reporting { stopped: true, .. });
                if !stopped {
                    // A test that was only silent continues.
                    session.phase = Phase::Open;
                    if header.kind.ends() {
                        session.phase = Phase::Reporting { stopped: true, sent: 0, due: now.steady };
                    }
                }
                let look = session.next_look(self.rules.idle);
                if look < session.look {
                    self.agenda.remove(&(session.look, name));
                    self.agenda.insert((look, name));
                    session.look = look;
                }
                Ok(Reaction::Counted { last: header.kind.ends() })
            }
            (kind, None) => {
                let start = out.len();
                out.extend(datagram);
                if kind.reply().is_none() || !crate::lamp::packet::turn_into_reply(&mut out[start..]) {
                    out.truncate(start);
                    return Err(Silence::Foreign);
                }
                session.credit -= datagram.len() as i64;
                Ok(session.follow_up.map_or(Reaction::Answer, Reaction::AnswerAndFollow))
            }
            _ => Err(Silence::Foreign),
        }
    }

    fn open(
        &mut self,
        name: Name,
        header: &Header,
        length: usize,
        route: R,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<Reaction, Silence> {
        let unidirectional = match header.length_or_type {
            1 => false,
            2 => true,
            _ => return Err(Silence::Foreign),
        };
        let known = self.sessions.get_mut(&name).filter(|s| s.unidirectional.is_some() == unidirectional);
        match known {
            // Repeated: the ACK was lost. (LaTe acknowledges only once, and the client can never start.)
            Some(session) => {
                session.seen = now.steady;
                session.route = route;
                session.credit += length as i64 - HEADER_LEN as i64;
            }
            None => {
                if self.sessions.len() >= self.rules.sessions && !self.sessions.contains_key(&name) {
                    self.make_room(now);
                    if self.sessions.len() >= self.rules.sessions {
                        return Err(Silence::Limited);
                    }
                }
                let look = now.steady + self.rules.idle;
                let session = Session {
                    route,
                    unidirectional: unidirectional.then(|| Box::new(Tally::new())),
                    follow_up: None,
                    negotiated: false,
                    seen: now.steady,
                    longest: Span::ZERO,
                    credit: length as i64 - HEADER_LEN as i64,
                    phase: Phase::Open,
                    look,
                };
                if let Some(replaced) = self.sessions.insert(name, session) {
                    self.agenda.remove(&(replaced.look, name));
                }
                self.agenda.insert((look, name));
            }
        }
        out.extend(Header::new(Kind::Ack, name.1, 0, 0).to_bytes());
        Ok(Reaction::Answer)
    }

    /// Appends the follow-up to the answer to request `seq` of session `id`, which took this host `took`.
    pub fn follow_up(&self, id: u16, seq: u16, took: Span, out: &mut Vec<u8>) {
        out.extend(Header::new(Kind::FollowUpData, id, seq, 0).took(took).to_bytes());
    }

    /// Appends the next report due and returns where to send it, and by which route.
    pub fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> Option<(SocketAddr, R)> {
        while let Some(&(due, name)) = self.agenda.first().filter(|(due, _)| *due <= now.steady) {
            self.agenda.remove(&(due, name));
            let Some(session) = self.sessions.get_mut(&name) else { continue };
            if now.steady - session.seen >= self.rules.idle {
                self.sessions.remove(&name);
                continue;
            }
            let reported = session.report(name.1, self.rules.receive_stamps, now, out);
            session.look = session.next_look(self.rules.idle);
            self.agenda.insert((session.look, name));
            if reported {
                return Some((name.0, session.route));
            }
        }
        None
    }

    /// When, on the steady clock, to call [`poll_transmit`](Self::poll_transmit) at the latest.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// Forgets sessions that have been silent for a while, if they have not just been looked for.
    fn make_room(&mut self, now: Tick) {
        if now.steady < self.make_room {
            return;
        }
        self.make_room = now.steady + LOOK_FOR_ROOM;
        let agenda = &mut self.agenda;
        self.sessions.retain(|name, session| {
            let stays = now.steady - session.seen < CROWDED;
            if !stays {
                agenda.remove(&(session.look, *name));
            }
            stays
        });
    }
}

impl<R> Session<R> {
    /// Appends the report of session `id`, if one is due.
    fn report(&mut self, id: u16, stamps: Source, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(tally) = &self.unidirectional else { return false };
        let silence = SILENCE.max(self.longest + OVERDUE);
        if self.phase == Phase::Open && tally.has_received() && now.steady - self.seen >= silence {
            self.phase = Phase::Reporting { stopped: false, sent: 0, due: now.steady };
        }
        let Phase::Reporting { stopped, sent, due } = self.phase else { return false };
        if now.steady < due {
            return false;
        }
        let text = tally.report(stamps, !stopped).to_string();
        let length = (HEADER_LEN + text.len() + 1) as i64;
        if sent >= REPORT_REPEATS || self.credit + FLOOR < length {
            self.phase = Phase::Reported { stopped };
            return false;
        }
        // A NUL at the end is counted: LaTe parses the text without looking at its length.
        let header = Header::new(Kind::Report, id, sent as u16, (text.len() + 1) as u16).at(now.wall);
        out.extend(header.to_bytes());
        out.extend(text.as_bytes());
        out.push(0);
        self.phase = Phase::Reporting { stopped, sent: sent + 1, due: now.steady + REPORT_REPEAT };
        self.credit -= length;
        true
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
