//! [`Server`]: answers any number of LaMP sessions in bounded memory.

use crate::lamp::packet::{FollowUp, HEADER_LEN, Header, Kind};
use crate::lamp::report::Report;
use crate::machine::Tick;
use crate::twoway::reflect::{Arrival, Silence, answerable};
use core::net::SocketAddr;
use jitlat_core::time::Source;
use jitlat_core::{Span, SteadyTime};
use std::collections::HashMap;

/// Between repetitions of a REPORT.
const REPORT_REPEAT: Span = Span::millis(200);
const REPORT_REPEATS: u32 = 15;
/// A one-way test silent for this long is reported: its STOP was lost, and LaTe's clients wait 5 s for a report.
const SILENCE: Span = Span::seconds(3);
/// Where packets come more rarely, silence begins this long after the next one should have come.
const OVERDUE: Span = Span::seconds(1);
/// Between two looks for silent sessions.
const SWEEP: Span = Span::millis(500);
/// Sessions silent for this long make room for new ones when there is none left.
const CROWDED: Span = Span::seconds(10);
/// What a session may be sent beyond what came from it: a first REPORT after the shortest test, and no
/// more, so that forged INITs are not worth their while.
const FLOOR: i64 = 400;
/// Numbers remembered to recognise duplicates, in a row.
const WINDOW: usize = 4096;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct ServerRules {
    /// Sessions at a time.
    pub sessions: usize,
    /// A session silent for this long is forgotten: the longest time between packets.
    pub idle: Span,
    /// Whether follow-up is granted.
    pub follow_up: bool,
    /// The best stamps this host takes of arrivals.
    pub receive_stamps: Source,
    /// The best stamps this host takes of answers; what comes of them is told through
    /// [`Server::follow_up`].
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
}

#[derive(Clone, Debug)]
struct Session {
    unidirectional: Option<Box<Tally>>,
    follow_up: Option<FollowUp>,
    negotiated: bool,
    seen: SteadyTime,
    /// The longest time between two packets of it.
    longest: Span,
    /// Bytes received minus bytes sent.
    credit: i64,
    phase: Phase,
}

/// Where a one-way session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Its report is sent until it is acknowledged. Not `stopped`: for its silence, and more may yet come.
    Reporting {
        stopped: bool,
        sent: u32,
        due: SteadyTime,
    },
    /// The report was acknowledged, or given up.
    Told {
        stopped: bool,
    },
}

/// What a unidirectional session has found.
#[derive(Clone, Debug)]
struct Tally {
    received: u64,
    good: u64,
    min: i64,
    max: i64,
    mean: f64,
    squares: f64,
    out_of_order: u64,
    errors: u64,
    duplicates: u64,
    highest: Option<i64>,
    recent: [u64; WINDOW / 64],
}

impl Tally {
    fn new() -> Tally {
        Tally {
            received: 0,
            good: 0,
            min: i64::MAX,
            max: 0,
            mean: 0.0,
            squares: 0.0,
            out_of_order: 0,
            errors: 0,
            duplicates: 0,
            highest: None,
            recent: [0; WINDOW / 64],
        }
    }

    fn note(&mut self, seq: u16, latency: Option<Span>) {
        let number = match self.highest {
            // The number with these low bits that is nearest to the highest so far.
            Some(h) => h + i64::from(seq.wrapping_sub(h as u16) as i16),
            None => seq.into(),
        };
        if self.repeated(number) {
            self.duplicates += 1;
            return;
        }
        if self.highest.is_some_and(|h| number < h) {
            self.out_of_order += 1;
        }
        self.highest = Some(self.highest.map_or(number, |h| h.max(number)));
        self.received += 1;
        let Some(us) = latency.map(|l| l.0.div_euclid(1000)).filter(|us| *us > 0) else {
            self.errors += 1;
            return;
        };
        // Errors do not enter the mean (they do in LaTe, which biases it).
        self.good += 1;
        self.min = self.min.min(us);
        self.max = self.max.max(us);
        let delta = us as f64 - self.mean;
        self.mean += delta / self.good as f64;
        self.squares += delta * (us as f64 - self.mean);
    }

    /// Whether `number` was noted before, within the window; notes it.
    fn repeated(&mut self, number: i64) -> bool {
        let highest = self.highest.unwrap_or(number - 1);
        if number <= highest - WINDOW as i64 {
            return false;
        }
        let bit = |n: i64| (n.rem_euclid(WINDOW as i64) as usize / 64, 1u64 << (n.rem_euclid(64)));
        // Numbers newly passed over were not seen in this turn of the window.
        for n in (highest + 1).max(number - WINDOW as i64 + 1)..=number {
            let (word, mask) = bit(n);
            self.recent[word] &= !mask;
        }
        let (word, mask) = bit(number);
        let seen = self.recent[word] & mask != 0;
        self.recent[word] |= mask;
        seen
    }

    fn report(&self, stamps: Source, timed_out: bool) -> Report {
        let highest = self.highest.filter(|_| self.received > 0);
        Report {
            min_us: (self.good > 0).then_some(self.min as u64),
            mean_us: self.mean,
            max_us: self.max as u64,
            received: self.received,
            out_of_order: self.out_of_order,
            errors: self.errors,
            stamps: Some(stamps),
            variance_us2: if self.good > 1 { self.squares / (self.good - 1) as f64 } else { 0.0 },
            highest_seq: highest.map(|h| h as u16),
            wraps: highest.map_or(0, |h| h.div_euclid(65_536).max(0) as u64),
            timed_out,
            duplicates: Some(self.duplicates),
        }
    }
}

type Name = (SocketAddr, u16);

/// Whether only servers send this: answered, two of them would never fall silent.
fn is_answer(kind: Kind, word: FollowUp) -> bool {
    match kind {
        Kind::Reply | Kind::EndReply | Kind::ReplyTimeless | Kind::EndReplyTimeless => true,
        Kind::Report | Kind::FollowUpData => true,
        Kind::FollowUpControl => matches!(word, FollowUp::Accept | FollowUp::Deny | FollowUp::Unknown),
        _ => false,
    }
}

/// The server's side of all sessions.
#[derive(Clone, Debug)]
pub struct Server {
    rules: ServerRules,
    sessions: HashMap<Name, Session>,
    /// Sessions that have a report to deliver.
    reporting: Vec<Name>,
    sweep: SteadyTime,
}

impl Server {
    /// A server without sessions.
    pub fn new(rules: ServerRules) -> Server {
        Server { rules, sessions: HashMap::new(), reporting: Vec::new(), sweep: SteadyTime(i64::MIN) }
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

    /// A datagram came in at `arrival`; what to send back is appended to `out`.
    pub fn handle(
        &mut self,
        datagram: &[u8],
        arrival: &Arrival,
        now: Tick,
        out: &mut Vec<u8>,
    ) -> Result<Reaction, Silence> {
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let header = Header::parse(datagram).ok_or(Silence::Foreign)?;
        let name = (arrival.from, header.id);
        if header.kind == Kind::Init {
            return self.open(name, &header, datagram.len(), now, out);
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
                    session.phase = Phase::Told { stopped };
                    self.reporting.retain(|n| *n != name);
                }
                Ok(Reaction::Taken)
            }
            (Kind::Continue | Kind::Stop, Some(tally)) => {
                if session.phase == (Phase::Told { stopped: true }) {
                    return Ok(Reaction::Taken);
                }
                tally.note(header.seq, header.time().map(|t| arrival.at - t));
                let stopped = matches!(session.phase, Phase::Reporting { stopped: true, .. });
                if !stopped {
                    // A test that was only silent goes on.
                    self.reporting.retain(|n| *n != name);
                    session.phase = Phase::Open;
                    if header.kind.ends() {
                        session.phase = Phase::Reporting { stopped: true, sent: 0, due: now.steady };
                        self.reporting.push(name);
                    }
                }
                Ok(Reaction::Taken)
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
                session.credit += length as i64 - HEADER_LEN as i64;
            }
            None => {
                if self.sessions.len() >= self.rules.sessions && !self.sessions.contains_key(&name) {
                    self.expire(now, CROWDED);
                    if self.sessions.len() >= self.rules.sessions {
                        return Err(Silence::Limited);
                    }
                }
                self.reporting.retain(|n| *n != name);
                let session = Session {
                    unidirectional: unidirectional.then(|| Box::new(Tally::new())),
                    follow_up: None,
                    negotiated: false,
                    seen: now.steady,
                    longest: Span::ZERO,
                    credit: length as i64 - HEADER_LEN as i64,
                    phase: Phase::Open,
                };
                self.sessions.insert(name, session);
            }
        }
        out.extend(Header::new(Kind::Ack, name.1, 0, 0).to_bytes());
        Ok(Reaction::Answer)
    }

    /// Appends the follow-up to the answer to request `seq` of session `id`, which took this host `took`.
    pub fn follow_up(&self, id: u16, seq: u16, took: Span, out: &mut Vec<u8>) {
        out.extend(Header::new(Kind::FollowUpData, id, seq, 0).took(took).to_bytes());
    }

    /// Appends the next report due and returns where to send it.
    pub fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> Option<SocketAddr> {
        if now.steady >= self.sweep {
            self.sweep = now.steady + SWEEP;
            self.expire(now, self.rules.idle);
        }
        let mut k = 0;
        while let Some(&name) = self.reporting.get(k) {
            let Some(session) = self.sessions.get_mut(&name) else {
                self.reporting.swap_remove(k);
                continue;
            };
            let (Phase::Reporting { stopped, sent, due }, Some(tally)) =
                (session.phase, &session.unidirectional)
            else {
                self.reporting.swap_remove(k);
                continue;
            };
            if now.steady < due {
                k += 1;
                continue;
            }
            let text = tally.report(self.rules.receive_stamps, !stopped).to_string();
            let length = (HEADER_LEN + text.len() + 1) as i64;
            if sent >= REPORT_REPEATS || session.credit + FLOOR < length {
                session.phase = Phase::Told { stopped };
                self.reporting.swap_remove(k);
                continue;
            }
            // A NUL at the end, counted: LaTe scans the text without looking at its length.
            let header = Header::new(Kind::Report, name.1, sent as u16, (text.len() + 1) as u16).at(now.wall);
            out.extend(header.to_bytes());
            out.extend(text.as_bytes());
            out.push(0);
            session.phase = Phase::Reporting { stopped, sent: sent + 1, due: now.steady + REPORT_REPEAT };
            session.credit -= length;
            return Some(name.0);
        }
        None
    }

    /// When, on the steady clock, to call [`poll_transmit`](Self::poll_transmit) at the latest.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        if self.sessions.is_empty() {
            return None;
        }
        let due = self.reporting.iter().filter_map(|n| match self.sessions.get(n)?.phase {
            Phase::Reporting { due, .. } => Some(due),
            _ => None,
        });
        due.chain([self.sweep]).min()
    }

    /// Reports one-way sessions that have fallen silent, and forgets those silent for `idle`.
    fn expire(&mut self, now: Tick, idle: Span) {
        let reporting = &mut self.reporting;
        self.sessions.retain(|name, session| {
            let silent = now.steady - session.seen;
            let heard = session.unidirectional.as_ref().is_some_and(|tally| tally.received > 0);
            if session.phase == Phase::Open && heard && silent >= SILENCE.max(session.longest + OVERDUE) {
                session.phase = Phase::Reporting { stopped: false, sent: 0, due: now.steady };
                reporting.push(*name);
            }
            silent < idle
        });
        let sessions = &self.sessions;
        reporting.retain(|n| sessions.contains_key(n));
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
