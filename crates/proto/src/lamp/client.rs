//! [`Client`]: the conversation around a LaMP test, and its requests.

use crate::lamp::packet::{FollowUp, HEADER_LEN, Header, Kind, push_payload};
use crate::lamp::proof;
use crate::lamp::report::Report;
use crate::machine::Tick;
use crate::twoway::{ConversationState, Protocol, Received, Reply};
use jitlat_core::{Span, SteadyTime, WallTime};

/// Time between repetitions of INIT and FOLLOWUP_CTRL.
const REPEAT_INTERVAL: Span = Span::millis(100);
/// Number of repetitions of either.
const MAX_REPEATS: u32 = 30;
/// How long to wait after the last INIT, and for a follow-up's answer: LaTe servers may start slowly.
const LAST_ANSWER_GRACE: Span = Span::seconds(2);
/// Longest wait for a REPORT: a LaTe server that lost the STOP sends it after 4 s of silence.
const REPORT_TIMEOUT: Span = Span::seconds(7);
/// Time between repetitions of STOP.
const STOP_REPEAT_INTERVAL: Span = Span::seconds(1);
const MAX_STOP_REPEATS: u32 = 3;
/// How long repeated REPORTs are still acknowledged: two of the server's intervals.
const REPORT_LINGER: Span = Span::millis(450);

/// The kind of test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Requests and replies: round trips.
    PingLike,
    /// Requests only; the server reports at the end. One-way: needs synchronised clocks.
    Unidirectional,
}

/// LampOptions of a client.
#[derive(Clone, Copy, Debug)]
pub struct LampOptions {
    /// Identifier of the session; random.
    pub id: u16,
    /// Kind of test.
    pub mode: Mode,
    /// Payload bytes.
    pub payload: usize,
    /// Requests have no time; the client's own records do. LaTe does this with kernel transmit stamps.
    pub timeless: bool,
    /// Ask the server for its processing time, taken with these stamps; `None`: do not.
    pub follow_up: Option<FollowUp>,
    /// Send requests to a broadcast address: no conversation, and no answers are expected.
    pub broadcast: bool,
}

/// The result of the request for follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUpState {
    /// Not requested.
    Unasked,
    /// No answer yet.
    Asked,
    /// The server sends its processing times.
    Accepted,
    /// The server refuses.
    Denied,
    /// The server has not answered: taken as a refusal.
    Unanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    Init,
    Negotiate,
    Ready,
    /// All sent; in follow-up mode the last processing time is awaited.
    Drain,
    AwaitReport,
    Reported,
    Over,
    Failed,
}

/// The client's side of one session.
#[derive(Clone, Debug)]
pub struct Client {
    options: LampOptions,
    state: SessionState,
    follow_up: FollowUpState,
    report: Option<Report>,
    /// What the server's ACK said that the next INIT returns, as proof that it arrived here; 0: nothing yet.
    proof: u64,
    /// Number of repetitions in this state.
    repeats: u32,
    due: Option<SteadyTime>,
    until: Option<SteadyTime>,
    /// Whether to send an ACK for the server's REPORT.
    owe_ack: bool,
    last: Option<u16>,
    last_answered: bool,
}

impl Client {
    /// A client that sends its INIT as soon as it is polled.
    pub fn new(options: LampOptions) -> Client {
        let follow_up = match options.follow_up {
            Some(_) if options.mode == Mode::PingLike => FollowUpState::Asked,
            _ => FollowUpState::Unasked,
        };
        Client {
            options,
            state: if options.broadcast { SessionState::Ready } else { SessionState::Init },
            follow_up,
            report: None,
            proof: 0,
            repeats: 0,
            due: None,
            until: None,
            owe_ack: false,
            last: None,
            last_answered: false,
        }
    }

    /// The result of the request for follow-up.
    pub fn follow_up(&self) -> FollowUpState {
        self.follow_up
    }

    /// The server's report of a unidirectional test.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    fn enter(&mut self, state: SessionState) {
        self.state = state;
        self.repeats = 0;
        self.due = None;
        self.until = None;
    }

    /// Whether a packet must be repeated now.
    fn repeat(&mut self, now: SteadyTime, most: u32, gap: Span, grace: Span) -> bool {
        if self.repeats >= most || self.due.is_some_and(|d| now < d) {
            return false;
        }
        self.repeats += 1;
        self.due = Some(now + gap);
        if self.repeats >= most {
            self.due = None;
            self.until = Some(now + grace);
        }
        true
    }

    fn data_kind(&self, last: bool) -> Kind {
        match (self.options.mode, self.options.timeless, last) {
            (Mode::PingLike, false, false) => Kind::Request,
            (Mode::PingLike, false, true) => Kind::EndRequest,
            (Mode::PingLike, true, false) => Kind::RequestTimeless,
            (Mode::PingLike, true, true) => Kind::EndRequestTimeless,
            (Mode::Unidirectional, _, false) => Kind::Continue,
            (Mode::Unidirectional, _, true) => Kind::Stop,
        }
    }
}

impl Protocol for Client {
    fn request(&mut self, seq: u32, last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let (kind, length) = (self.data_kind(last), self.options.payload);
        let header =
            Header::new(kind, self.options.id, seq as u16, u16::try_from(length).unwrap_or(u16::MAX));
        let timeless = self.options.timeless && self.options.mode == Mode::PingLike;
        let header = if timeless { header } else { header.at(sent) };
        out.extend(header.to_bytes());
        push_payload(out, length);
        self.last = Some(seq as u16);
    }

    fn receive(&mut self, datagram: &[u8], _near: WallTime) -> Received {
        let Some(header) = Header::parse(datagram) else { return Received::Malformed };
        if header.id != self.options.id {
            return Received::Foreign;
        }
        match header.kind {
            Kind::Ack if self.state == SessionState::Init => {
                if let Some(proof) = proof::of(&header) {
                    if proof != self.proof {
                        self.proof = proof;
                        self.due = None;
                    }
                    return Received::Conversation;
                }
                let ask = self.follow_up == FollowUpState::Asked;
                self.enter(if ask { SessionState::Negotiate } else { SessionState::Ready });
                Received::Conversation
            }
            Kind::Ack => Received::Conversation,
            Kind::FollowUpControl => {
                let answer = match FollowUp::from(header.length_or_type) {
                    FollowUp::Accept => FollowUpState::Accepted,
                    FollowUp::Deny | FollowUp::Unknown => FollowUpState::Denied,
                    // A follow-up request: our own, returned.
                    _ => return Received::Malformed,
                };
                if self.state == SessionState::Negotiate {
                    self.follow_up = answer;
                    self.enter(SessionState::Ready);
                }
                Received::Conversation
            }
            Kind::Reply | Kind::EndReply | Kind::ReplyTimeless | Kind::EndReplyTimeless => {
                let timeless = matches!(header.kind, Kind::ReplyTimeless | Kind::EndReplyTimeless);
                if self.options.mode != Mode::PingLike || timeless != self.options.timeless {
                    return Received::Malformed;
                }
                let whole = usize::from(header.length_or_type) == datagram.len() - HEADER_LEN
                    && datagram.len() - HEADER_LEN == self.options.payload.min(u16::MAX.into());
                Received::Reply(Reply {
                    seq: header.seq.into(),
                    seq_bits: 16,
                    arrived: None,
                    answered: None,
                    far_seq: None,
                    damaged: !whole,
                    earlier: None,
                })
            }
            Kind::FollowUpData if self.follow_up == FollowUpState::Accepted => {
                if self.last == Some(header.seq) && self.state == SessionState::Drain {
                    self.last_answered = true;
                }
                match header.time() {
                    Some(took) => Received::Took { seq: header.seq, took: Span(took.0) },
                    None => Received::Conversation,
                }
            }
            Kind::Report if self.options.mode == Mode::Unidirectional => {
                let length = usize::from(header.length_or_type);
                let text =
                    datagram.get(HEADER_LEN..HEADER_LEN + length).and_then(|b| std::str::from_utf8(b).ok());
                let Some(report) = text.and_then(|t| t.parse::<Report>().ok()) else {
                    return Received::Malformed;
                };
                self.owe_ack = true;
                // The last report counts: one sent early, because of a pause, is replaced.
                self.report = Some(report);
                Received::Conversation
            }
            _ => Received::Malformed,
        }
    }

    fn poll_conversation(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let id = self.options.id;
        let now = now.steady;
        if self.owe_ack {
            self.owe_ack = false;
            out.extend(Header::new(Kind::Ack, id, 0, 0).to_bytes());
            return true;
        }
        let seq = self.repeats as u16;
        let again = matches!(self.state, SessionState::Init | SessionState::Negotiate)
            && self.repeat(now, MAX_REPEATS, REPEAT_INTERVAL, LAST_ANSWER_GRACE);
        match self.state {
            SessionState::Init if again => {
                let mode = if self.options.mode == Mode::PingLike { 1 } else { 2 };
                out.extend(proof::init(id, seq, mode, self.proof).to_bytes());
                true
            }
            SessionState::Negotiate if again => {
                let code = self.options.follow_up.unwrap_or(FollowUp::Application).code();
                out.extend(Header::new(Kind::FollowUpControl, id, seq, code).to_bytes());
                true
            }
            SessionState::AwaitReport
                if self.repeats < MAX_STOP_REPEATS
                    && self.report.is_none()
                    && self.due.is_some_and(|d| now >= d) =>
            {
                self.repeats += 1;
                self.due = (self.repeats < MAX_STOP_REPEATS).then_some(now + STOP_REPEAT_INTERVAL);
                let seq = self.last.unwrap_or(0);
                let length = u16::try_from(self.options.payload).unwrap_or(u16::MAX);
                // A repetition, including its time, would give a server that lost the first one a wrong latency;
                // therefore it has no time, which causes an error there instead of a wrong value.
                out.extend(Header::new(Kind::Stop, id, seq, length).to_bytes());
                push_payload(out, self.options.payload);
                true
            }
            _ => false,
        }
    }

    fn conversation_timeout(&self) -> Option<SteadyTime> {
        if self.owe_ack {
            return Some(SteadyTime(i64::MIN));
        }
        match self.state {
            SessionState::Init | SessionState::Negotiate if self.due.is_none() && self.until.is_none() => {
                Some(SteadyTime(i64::MIN))
            }
            _ => [self.due, self.until].into_iter().flatten().min(),
        }
    }

    fn conversation_state(&mut self, now: SteadyTime) -> ConversationState {
        let expired = self.until.is_some_and(|u| now >= u);
        match self.state {
            SessionState::Init if expired => self.enter(SessionState::Failed),
            SessionState::Negotiate if expired => {
                self.follow_up = FollowUpState::Unanswered;
                self.enter(SessionState::Ready);
            }
            SessionState::Drain if expired || self.last_answered => self.enter(SessionState::Over),
            SessionState::AwaitReport if self.report.is_some() => {
                self.enter(SessionState::Reported);
                self.until = Some(now + REPORT_LINGER);
            }
            SessionState::AwaitReport | SessionState::Reported if expired => self.enter(SessionState::Over),
            _ => {}
        }
        match self.state {
            SessionState::Init | SessionState::Negotiate => ConversationState::Opening,
            SessionState::Ready => ConversationState::Ready,
            SessionState::Drain | SessionState::AwaitReport | SessionState::Reported => {
                ConversationState::Closing
            }
            SessionState::Over => ConversationState::Over,
            SessionState::Failed => ConversationState::Failed(format!(
                "no LaMP server answered {MAX_REPEATS} INIT packets: is one running there (`jitlat serve`, `LaTe -s`), \
                 and does the firewall let UDP through?"
            )),
        }
    }

    fn all_sent(&mut self, now: SteadyTime) {
        match self.options.mode {
            Mode::Unidirectional => {
                self.enter(SessionState::AwaitReport);
                self.due = Some(now + STOP_REPEAT_INTERVAL);
                self.until = Some(now + REPORT_TIMEOUT);
            }
            Mode::PingLike if self.follow_up == FollowUpState::Accepted => {
                self.enter(SessionState::Drain);
                self.until = Some(now + LAST_ANSWER_GRACE);
            }
            Mode::PingLike => {}
        }
    }

    fn follows_up(&self) -> bool {
        self.follow_up == FollowUpState::Accepted
    }

    fn expects_replies(&self) -> bool {
        self.options.mode == Mode::PingLike
    }
}
