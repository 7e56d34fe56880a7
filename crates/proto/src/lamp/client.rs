//! [`Client`]: opens and closes a LaMP session, and creates its requests.

use crate::lamp::packet::{HEADER_LEN, LampFollowUp, LampHeader, LampKind, push_payload};
use crate::lamp::proof;
use crate::lamp::report::LampReport;
use crate::machine::Tick;
use crate::twoway::{ConversationState, DatagramKind, Protocol, Reply, ReplyMarks};
use jitlat_core::{Span, SteadyTime, WallTime};

/// Time between repetitions of INIT and FOLLOWUP_CTRL.
const REPEAT_INTERVAL: Span = Span::millis(100);
/// Maximum number of repetitions of INIT, and of FOLLOWUP_CTRL.
const MAX_REPEATS: u32 = 30;
/// Time to wait after the last INIT, and for the answer to a follow-up request: LaTe servers may start
/// slowly.
const LAST_ANSWER_GRACE: Span = Span::seconds(2);
/// Maximum time to wait for a REPORT. A LaTe server that did not receive the STOP sends its REPORT after 4 s
/// of silence.
const REPORT_TIMEOUT: Span = Span::seconds(7);
/// Time between repetitions of STOP.
const STOP_REPEAT_INTERVAL: Span = Span::seconds(1);
/// Maximum number of repetitions of STOP.
const MAX_STOP_REPEATS: u32 = 3;
/// Time for which repeated REPORTs are acknowledged: two repetition intervals of the server.
const REPORT_LINGER: Span = Span::millis(450);

/// Beginning of the reason for a test that no server has answered.
pub const NO_ANSWER: &str = "no LaMP server answered";

/// Kind of test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LampMode {
    /// Round trips: every request is answered.
    PingLike,
    /// One-way test: requests only, and a report of the server at the end. Needs synchronised clocks.
    Unidirectional,
}

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct LampOptions {
    /// Random session identifier.
    pub id: u16,
    /// Kind of test.
    pub mode: LampMode,
    /// Payload length, in bytes.
    pub payload: usize,
    /// True to send requests without a time; only the client's own records then contain the send times. LaTe does the
    /// same with kernel transmit timestamps.
    pub timeless: bool,
    /// Requested source of the server's timestamps, from which it computes the processing times for follow-up; `None`:
    /// no follow-up.
    pub follow_up: Option<LampFollowUp>,
    /// True to send requests to a broadcast address, without a session and without expecting answers.
    pub broadcast: bool,
}

/// State of the request for follow-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUpState {
    /// Follow-up was not requested.
    NotRequested,
    /// The server has not answered yet.
    Requested,
    /// The server sends its processing times.
    Accepted,
    /// The server refused.
    Denied,
    /// The server has not answered, which counts as a refusal.
    Unanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LampClientState {
    Init,
    Negotiate,
    Ready,
    /// All requests have been sent. In follow-up mode, the last processing time is awaited.
    Drain,
    AwaitReport,
    Reported,
    Over,
    Failed,
}

/// Client of one session.
#[derive(Clone, Debug)]
pub struct Client {
    options: LampOptions,
    state: LampClientState,
    follow_up: FollowUpState,
    report: Option<LampReport>,
    /// Proof from the server's ACK, which the next INIT returns; 0: none yet.
    proof: u64,
    /// Number of repetitions in this state.
    repeats: u32,
    due: Option<SteadyTime>,
    until: Option<SteadyTime>,
    /// True if the server's REPORT must be acknowledged.
    ack_due: bool,
    last: Option<u16>,
    last_answered: bool,
}

impl Client {
    /// Creates a client that sends its INIT when it is first polled.
    pub fn new(options: LampOptions) -> Client {
        let follow_up = match options.follow_up {
            Some(_) if options.mode == LampMode::PingLike => FollowUpState::Requested,
            _ => FollowUpState::NotRequested,
        };
        Client {
            options,
            state: if options.broadcast { LampClientState::Ready } else { LampClientState::Init },
            follow_up,
            report: None,
            proof: 0,
            repeats: 0,
            due: None,
            until: None,
            ack_due: false,
            last: None,
            last_answered: false,
        }
    }

    /// Returns the state of the request for follow-up.
    pub fn follow_up(&self) -> FollowUpState {
        self.follow_up
    }

    /// Returns the server's report of a unidirectional test; `None` before it arrives.
    pub fn report(&self) -> Option<&LampReport> {
        self.report.as_ref()
    }

    fn enter(&mut self, state: LampClientState) {
        self.state = state;
        self.repeats = 0;
        self.due = None;
        self.until = None;
    }

    /// True if a packet must be repeated now.
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

    fn data_kind(&self, last: bool) -> LampKind {
        match (self.options.mode, self.options.timeless, last) {
            (LampMode::PingLike, false, false) => LampKind::Request,
            (LampMode::PingLike, false, true) => LampKind::EndRequest,
            (LampMode::PingLike, true, false) => LampKind::RequestTimeless,
            (LampMode::PingLike, true, true) => LampKind::EndRequestTimeless,
            (LampMode::Unidirectional, _, false) => LampKind::Continue,
            (LampMode::Unidirectional, _, true) => LampKind::Stop,
        }
    }
}

impl Protocol for Client {
    fn request(&mut self, seq: u32, last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let (kind, length) = (self.data_kind(last), self.options.payload);
        let header =
            LampHeader::new(kind, self.options.id, seq as u16, u16::try_from(length).unwrap_or(u16::MAX));
        let timeless = self.options.timeless && self.options.mode == LampMode::PingLike;
        let header = if timeless { header } else { header.at(sent) };
        out.extend(header.to_bytes());
        push_payload(out, length);
        self.last = Some(seq as u16);
    }

    fn receive(&mut self, datagram: &[u8], _near: WallTime) -> DatagramKind {
        let Some(header) = LampHeader::parse(datagram) else { return DatagramKind::Malformed };
        if header.id != self.options.id {
            return DatagramKind::Foreign;
        }
        match header.kind {
            LampKind::Ack if self.state == LampClientState::Init => {
                if let Some(proof) = proof::of(&header) {
                    if proof != self.proof {
                        self.proof = proof;
                        self.due = None;
                    }
                    return DatagramKind::Conversation;
                }
                let ask = self.follow_up == FollowUpState::Requested;
                self.enter(if ask { LampClientState::Negotiate } else { LampClientState::Ready });
                DatagramKind::Conversation
            }
            LampKind::Ack => DatagramKind::Conversation,
            LampKind::FollowUpControl => {
                let answer = match LampFollowUp::from(header.length_or_type) {
                    LampFollowUp::Accept => FollowUpState::Accepted,
                    LampFollowUp::Deny | LampFollowUp::Unknown => FollowUpState::Denied,
                    // The packet is the client's own follow-up request, which was returned.
                    _ => return DatagramKind::Malformed,
                };
                if self.state == LampClientState::Negotiate {
                    self.follow_up = answer;
                    self.enter(LampClientState::Ready);
                }
                DatagramKind::Conversation
            }
            LampKind::Reply | LampKind::EndReply | LampKind::ReplyTimeless | LampKind::EndReplyTimeless => {
                let timeless = matches!(header.kind, LampKind::ReplyTimeless | LampKind::EndReplyTimeless);
                if self.options.mode != LampMode::PingLike || timeless != self.options.timeless {
                    return DatagramKind::Malformed;
                }
                let whole = usize::from(header.length_or_type) == datagram.len() - HEADER_LEN
                    && datagram.len() - HEADER_LEN == self.options.payload.min(u16::MAX.into());
                DatagramKind::Reply(Reply {
                    seq: header.seq.into(),
                    seq_bits: 16,
                    arrived: None,
                    answered: None,
                    far_seq: None,
                    damaged: !whole,
                    earlier: None,
                    marks: ReplyMarks::default(),
                })
            }
            LampKind::FollowUpData if self.follow_up == FollowUpState::Accepted => {
                if self.last == Some(header.seq) && self.state == LampClientState::Drain {
                    self.last_answered = true;
                }
                match header.time() {
                    Some(took) => DatagramKind::Took { seq: header.seq, took: Span(took.0) },
                    None => DatagramKind::Conversation,
                }
            }
            LampKind::Report if self.options.mode == LampMode::Unidirectional => {
                let length = usize::from(header.length_or_type);
                let text =
                    datagram.get(HEADER_LEN..HEADER_LEN + length).and_then(|b| std::str::from_utf8(b).ok());
                let Some(report) = text.and_then(|t| t.parse::<LampReport>().ok()) else {
                    return DatagramKind::Malformed;
                };
                // A repeated report is acknowledged again, because the first acknowledgement may be lost.
                self.ack_due = true;
                // The last report counts: it replaces one that was sent early because of a pause in the test.
                self.report = Some(report);
                DatagramKind::Conversation
            }
            _ => DatagramKind::Malformed,
        }
    }

    fn poll_conversation(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let id = self.options.id;
        let now = now.steady;
        if self.ack_due {
            self.ack_due = false;
            out.extend(LampHeader::new(LampKind::Ack, id, 0, 0).to_bytes());
            return true;
        }
        let seq = self.repeats as u16;
        let again = matches!(self.state, LampClientState::Init | LampClientState::Negotiate)
            && self.repeat(now, MAX_REPEATS, REPEAT_INTERVAL, LAST_ANSWER_GRACE);
        match self.state {
            LampClientState::Init if again => {
                let mode = if self.options.mode == LampMode::PingLike { 1 } else { 2 };
                out.extend(proof::init(id, seq, mode, self.proof).to_bytes());
                true
            }
            LampClientState::Negotiate if again => {
                let code = self.options.follow_up.unwrap_or(LampFollowUp::Application).code();
                out.extend(LampHeader::new(LampKind::FollowUpControl, id, seq, code).to_bytes());
                true
            }
            LampClientState::AwaitReport
                if self.repeats < MAX_STOP_REPEATS
                    && self.report.is_none()
                    && self.due.is_some_and(|d| now >= d) =>
            {
                self.repeats += 1;
                self.due = (self.repeats < MAX_STOP_REPEATS).then_some(now + STOP_REPEAT_INTERVAL);
                let seq = self.last.unwrap_or(0);
                let length = u16::try_from(self.options.payload).unwrap_or(u16::MAX);
                // If a server lost the first STOP, a repeated STOP with a time would produce a wrong latency.
                // Without a time, such a server counts an error instead.
                out.extend(LampHeader::new(LampKind::Stop, id, seq, length).to_bytes());
                push_payload(out, self.options.payload);
                true
            }
            _ => false,
        }
    }

    fn conversation_timeout(&self) -> Option<SteadyTime> {
        if self.ack_due {
            return Some(SteadyTime(i64::MIN));
        }
        match self.state {
            LampClientState::Init | LampClientState::Negotiate
                if self.due.is_none() && self.until.is_none() =>
            {
                Some(SteadyTime(i64::MIN))
            }
            _ => [self.due, self.until].into_iter().flatten().min(),
        }
    }

    fn conversation_state(&mut self, now: SteadyTime) -> ConversationState {
        let expired = self.until.is_some_and(|u| now >= u);
        match self.state {
            LampClientState::Init if expired => self.enter(LampClientState::Failed),
            LampClientState::Negotiate if expired => {
                self.follow_up = FollowUpState::Unanswered;
                self.enter(LampClientState::Ready);
            }
            LampClientState::Drain if expired || self.last_answered => self.enter(LampClientState::Over),
            LampClientState::AwaitReport if self.report.is_some() => {
                self.enter(LampClientState::Reported);
                self.until = Some(now + REPORT_LINGER);
            }
            LampClientState::AwaitReport | LampClientState::Reported if expired => {
                self.enter(LampClientState::Over);
            }
            _ => {}
        }
        match self.state {
            LampClientState::Init | LampClientState::Negotiate => ConversationState::Opening,
            LampClientState::Ready => ConversationState::Ready,
            LampClientState::Drain | LampClientState::AwaitReport | LampClientState::Reported => {
                ConversationState::Closing
            }
            LampClientState::Over => ConversationState::Over,
            LampClientState::Failed => ConversationState::Failed(format!(
                "{NO_ANSWER} {MAX_REPEATS} INIT packets: is one running there (`jitlat serve`, `LaTe -s`), and does the \
                 firewall let UDP through?"
            )),
        }
    }

    fn all_sent(&mut self, now: SteadyTime) {
        match self.options.mode {
            LampMode::Unidirectional => {
                self.enter(LampClientState::AwaitReport);
                self.due = Some(now + STOP_REPEAT_INTERVAL);
                self.until = Some(now + REPORT_TIMEOUT);
            }
            LampMode::PingLike if self.follow_up == FollowUpState::Accepted => {
                self.enter(LampClientState::Drain);
                self.until = Some(now + LAST_ANSWER_GRACE);
            }
            LampMode::PingLike => {}
        }
    }

    fn follows_up(&self) -> bool {
        self.follow_up == FollowUpState::Accepted
    }

    fn expects_replies(&self) -> bool {
        self.options.mode == LampMode::PingLike
    }
}
