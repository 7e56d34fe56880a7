//! [`PushSender`]: state machine of the host that pushes tests.

use super::wire::{About, PushMessage, PushOffer, PushOutcome, PushRefusal, SpoolState};
use super::{ALIVE, LABEL, MAX_FRAME, MAX_OPEN, PushError, SILENCE, VERSION};
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKey, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::Span;
use std::collections::VecDeque;

/// Input of a [`PushSender`].
#[derive(Clone, Debug)]
pub enum SenderInput<'a> {
    /// Received bytes.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// State of this host, to be reported to the collector.
    State(SpoolState),
    /// Tests to offer: at most [`PushSender::room`], in the order in which [`SenderEvent::Settled`] will
    /// return them.
    Offer(&'a [PushOffer]),
    /// Description of the requested test, before its log.
    Test(About),
    /// Compressed piece of the log, of at most [`super::MAX_PIECE`] bytes. Allowed only while [`PushSender::needs_data`].
    Piece(&'a [u8]),
    /// The log is complete.
    Whole,
    /// The requested test, or the rest of it, cannot be read.
    Gone,
    /// No further tests will be offered: end the conversation once all are settled.
    Finish,
}

/// Event of a [`PushSender`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The collector has proved the key: tests may be offered.
    Open,
    /// The collector requests this test, to be answered with [`SenderInput::Test`] or [`SenderInput::Gone`].
    /// The next request follows after this test.
    Wanted(u64),
    /// Outcomes of tests, in the order in which the tests were offered. `None`: the collector requested a
    /// test that could not be read.
    Settled(Vec<(u64, Option<PushOutcome>)>),
    /// The conversation is over; contains the error if it failed, and the minimum time before the next attempt.
    Over(Option<PushError>, Span),
}

#[derive(Debug)]
enum PushSenderPhase {
    Greeting,
    Proving(Box<Transcript>),
    Proved,
    Open,
    Over,
}

/// A test that was offered.
#[derive(Debug)]
struct Offered {
    number: u64,
    /// True if the collector has requested the test.
    wanted: bool,
    /// Outcome of the test; `None` until it is known, `Some(None)` if the test could not be read.
    outcome: Option<Option<PushOutcome>>,
}

/// Progress of the log that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogTransfer {
    Nothing,
    /// The driver was asked for the log of the test with this number.
    Asked(u64),
    /// Pieces of the log of the test with this number are being sent.
    Pieces(u64),
}

/// State machine of the host that pushes. Its timers use the steady clock.
#[derive(Debug)]
pub struct PushSender {
    channel: Channel,
    state: PushSenderPhase,
    offered: VecDeque<Offered>,
    /// Requested tests that have not been sent yet, by number.
    wanted: VecDeque<u64>,
    sending: LogTransfer,
    finishing: bool,
    outbox: VecDeque<PushMessage>,
    events: VecDeque<SenderEvent>,
    received_at: SteadyTime,
    sent_at: SteadyTime,
}

impl PushSender {
    /// Starts a conversation; `nonce` must be fresh random bytes.
    pub fn new(key: PresharedKey, nonce: [u8; 16], now: Tick) -> PushSender {
        let channel = Channel::of_client(Some(key), MAX_FRAME);
        let outbox = VecDeque::from([PushMessage::Hello(channel.hello(VERSION, nonce))]);
        PushSender {
            channel,
            state: PushSenderPhase::Greeting,
            offered: VecDeque::new(),
            wanted: VecDeque::new(),
            sending: LogTransfer::Nothing,
            finishing: false,
            outbox,
            events: VecDeque::new(),
            received_at: now.steady,
            sent_at: now.steady,
        }
    }

    /// Returns the number of tests that may currently be offered.
    pub fn room(&self) -> usize {
        match self.state {
            PushSenderPhase::Open if !self.finishing => MAX_OPEN - self.offered.len().min(MAX_OPEN),
            _ => 0,
        }
    }

    /// Returns the number of tests that were offered but not settled.
    pub fn unsettled(&self) -> usize {
        self.offered.len()
    }

    /// Returns the number of the test whose log is being sent; `None` if there is none.
    pub fn sending(&self) -> Option<u64> {
        match self.sending {
            LogTransfer::Nothing => None,
            LogTransfer::Asked(number) | LogTransfer::Pieces(number) => Some(number),
        }
    }

    /// True if the next piece of the log that is being sent is needed.
    pub fn needs_data(&self) -> bool {
        matches!((&self.state, self.sending), (PushSenderPhase::Open, LogTransfer::Pieces(_)))
            && self.outbox.is_empty()
    }

    fn over(&mut self, why: Option<PushError>, pause: Span) {
        if !matches!(self.state, PushSenderPhase::Over) {
            self.state = PushSenderPhase::Over;
            self.outbox.clear();
            self.events.push_back(SenderEvent::Over(why, pause));
        }
    }

    fn read(&mut self, now: Tick) -> Result<(), PushError> {
        while !matches!(self.state, PushSenderPhase::Over) {
            // A proof covers all messages before it.
            if matches!(self.state, PushSenderPhase::Proving(_)) {
                self.state = PushSenderPhase::Proving(Box::new(self.channel.transcript()));
            }
            let Some(message) = self.channel.read(PushMessage::decode)? else { break };
            self.received_at = now.steady;
            self.take(message?)?;
        }
        Ok(())
    }

    fn take(&mut self, message: PushMessage) -> Result<(), PushError> {
        match (&self.state, message) {
            (PushSenderPhase::Open, PushMessage::Later(why, text, pause)) => {
                self.over(Some(PushError::Refused(why, text)), pause);
            }
            (_, PushMessage::Refused(why, text)) => return Err(PushError::Refused(why, text)),
            (PushSenderPhase::Greeting, PushMessage::Hello(ChannelHello { version, keyed, .. })) => {
                if version != VERSION {
                    return Err(PushError::Refused(PushRefusal::Version, format!("version {version}")));
                }
                let Some(proof) = self.channel.proof().filter(|_| keyed) else {
                    return Err(PushError::Proof);
                };
                self.state = PushSenderPhase::Proving(Box::default());
                self.outbox.push_back(PushMessage::Proof(proof));
            }
            (PushSenderPhase::Proving(said), PushMessage::Proof(proof)) => {
                if self.channel.proved(said, &proof).is_none() {
                    return Err(PushError::Proof);
                }
                self.channel.seal(LABEL);
                self.state = PushSenderPhase::Proved;
            }
            (PushSenderPhase::Proved, PushMessage::Welcome) => {
                self.state = PushSenderPhase::Open;
                self.events.push_back(SenderEvent::Open);
            }
            (PushSenderPhase::Proved | PushSenderPhase::Open, PushMessage::Alive) => {}
            (PushSenderPhase::Open, PushMessage::Want(numbers)) => {
                for number in numbers {
                    let offered = self.offered.iter_mut().find(|o| o.number == number && !o.wanted);
                    let offered = offered.filter(|o| o.outcome.is_none()).ok_or(PushError::OutOfTurn(6))?;
                    offered.wanted = true;
                    self.wanted.push_back(number);
                }
                self.ask();
            }
            (PushSenderPhase::Open, PushMessage::Settled(list)) => {
                for (number, outcome) in list {
                    let offered = self.offered.iter_mut().find(|o| o.number == number);
                    let offered = offered.filter(|o| o.outcome.is_none()).ok_or(PushError::OutOfTurn(11))?;
                    offered.outcome = Some(Some(outcome));
                    // A test may be refused before it was sent completely.
                    self.wanted.retain(|wanted| *wanted != number);
                }
                self.settle();
            }
            (_, other) => return Err(PushError::OutOfTurn(other.kind())),
        }
        Ok(())
    }

    /// Asks the driver for the next log.
    fn ask(&mut self) {
        if self.sending == LogTransfer::Nothing
            && let Some(number) = self.wanted.pop_front()
        {
            self.sending = LogTransfer::Asked(number);
            self.events.push_back(SenderEvent::Wanted(number));
        }
    }

    /// Returns settled tests to the driver, in the order in which they were offered.
    fn settle(&mut self) {
        let mut settled = Vec::new();
        while let Some(outcome) = self.offered.front_mut().and_then(|o| o.outcome.take()) {
            settled.extend(self.offered.pop_front().map(|o| (o.number, outcome)));
        }
        if !settled.is_empty() {
            self.events.push_back(SenderEvent::Settled(settled));
        }
        self.end_if_done();
    }

    fn end_if_done(&mut self) {
        if self.finishing && self.offered.is_empty() && matches!(self.state, PushSenderPhase::Open) {
            self.outbox.push_back(PushMessage::Bye);
        }
    }
}

impl Machine for PushSender {
    type Input<'a> = SenderInput<'a>;
    type Event = SenderEvent;

    fn handle(&mut self, now: Tick, input: SenderInput<'_>) {
        match input {
            SenderInput::Bytes(bytes) => {
                self.channel.receive(bytes);
                if let Err(why) = self.read(now) {
                    self.over(Some(why), Span::ZERO);
                }
            }
            SenderInput::Closed => self.over(Some(PushError::Closed), Span::ZERO),
            SenderInput::State(state) if matches!(self.state, PushSenderPhase::Open) => {
                self.outbox.push_back(PushMessage::State(state));
            }
            SenderInput::Offer(offers) => {
                let offers = &offers[..offers.len().min(self.room())];
                if !offers.is_empty() {
                    let open = |o: &PushOffer| Offered { number: o.number, wanted: false, outcome: None };
                    self.offered.extend(offers.iter().map(open));
                    self.outbox.push_back(PushMessage::Offer(offers.to_vec()));
                }
            }
            SenderInput::Test(about) => {
                if let LogTransfer::Asked(number) = self.sending {
                    self.sending = LogTransfer::Pieces(number);
                    self.outbox.push_back(PushMessage::Test(number, about));
                }
            }
            SenderInput::Piece(bytes) => {
                if matches!(self.sending, LogTransfer::Pieces(_)) && !bytes.is_empty() {
                    self.outbox.push_back(PushMessage::Piece(bytes.to_vec()));
                }
            }
            SenderInput::Whole => {
                if matches!(self.sending, LogTransfer::Pieces(_)) {
                    self.outbox.push_back(PushMessage::Whole);
                    self.sending = LogTransfer::Nothing;
                    self.ask();
                }
            }
            SenderInput::Gone => {
                if let LogTransfer::Asked(number) | LogTransfer::Pieces(number) = self.sending {
                    self.outbox.push_back(PushMessage::Gone(number));
                    self.sending = LogTransfer::Nothing;
                    let offered = self.offered.iter_mut().find(|o| o.number == number);
                    if let Some(offered) = offered.filter(|o| o.outcome.is_none()) {
                        offered.outcome = Some(None);
                    }
                    self.ask();
                    self.settle();
                }
            }
            SenderInput::Finish => {
                if !core::mem::replace(&mut self.finishing, true) {
                    self.end_if_done();
                }
            }
            SenderInput::State(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if now.steady - self.received_at >= SILENCE {
            self.over(Some(PushError::Silent), Span::ZERO);
        } else if matches!(self.state, PushSenderPhase::Open)
            && now.steady - self.sent_at >= ALIVE
            && self.outbox.is_empty()
        {
            self.outbox.push_back(PushMessage::Alive);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.outbox.pop_front() else { return false };
        self.channel.write(message.kind(), |out| message.encode(out), out);
        self.sent_at = now.steady;
        if matches!(message, PushMessage::Bye) {
            self.over(None, Span::ZERO);
        }
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.state {
            PushSenderPhase::Over => None,
            PushSenderPhase::Open => Some((self.received_at + SILENCE).min(self.sent_at + ALIVE)),
            _ => Some(self.received_at + SILENCE),
        }
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }
}

#[cfg(test)]
impl PushSender {
    /// Sends a message that is not allowed in the current state.
    pub(super) fn forge(&mut self, message: PushMessage) {
        self.outbox.push_back(message);
    }
}
