//! [`PushReceiver`]: state machine of the collector for one conversation.

use super::wire::{About, PushMessage, PushOffer, PushOutcome, PushRefusal, SpoolState};
use super::{ALIVE, LABEL, MAX_FRAME, MAX_OPEN, PushError, SILENCE, VERSION, most_packed};
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKeys, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::Span;
use std::collections::{BTreeMap, VecDeque};

/// Input of a [`PushReceiver`].
#[derive(Clone, Debug)]
pub enum ReceiverInput<'a> {
    /// Received bytes.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// The host that proved its key may offer tests.
    Welcome,
    /// Offered tests to request, by number. There must be room for all of them.
    Want(&'a [u64]),
    /// Outcomes of offered tests, by number.
    Settled(Vec<(u64, PushOutcome)>),
    /// No more tests are accepted on this connection: reason, details, and pause before the host's next attempt.
    Later(PushRefusal, String, Span),
}

/// Event of a [`PushReceiver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The sender has proved the key of the host with this name. Answer with `Welcome` or `Later`.
    Proved(String),
    /// State reported by the host.
    State(SpoolState),
    /// Offered tests. Answer each with `Want` or `Settled`, in any order, now or later.
    Offered(Vec<PushOffer>),
    /// A requested test follows: its number and description.
    Test(u64, About),
    /// Compressed piece of the log.
    Piece(Vec<u8>),
    /// The log of this test is complete. Answer with `Settled`.
    Whole(u64),
    /// The requested test, or the rest of it, cannot be sent. Requires no answer.
    Gone(u64),
    /// The conversation is over; contains the error if it failed.
    Over(Option<PushError>),
}

#[derive(Debug)]
enum PushReceiverPhase {
    Greeting,
    Proving,
    /// The last message without a seal is in the outbox. Input is not read until this message has been sent.
    Sealing,
    Sealed,
    Open,
    /// The last message is in the outbox; contains the error if the conversation failed.
    Ending(Option<PushError>),
    Over,
}

/// Progress of a test that was offered but not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Offered,
    Wanted,
    /// Number of compressed bytes received.
    Coming(u64),
    Whole,
}

/// State machine of the collector. Its timers use the steady clock.
#[derive(Debug)]
pub struct PushReceiver {
    channel: Channel,
    nonce: [u8; 16],
    state: PushReceiverPhase,
    /// Unsettled tests by number: length of the log in bytes, and progress.
    open: BTreeMap<u64, (u64, Stage)>,
    /// Number of the test whose pieces are being received; `None` if there is none.
    coming: Option<u64>,
    outbox: VecDeque<PushMessage>,
    events: VecDeque<ReceiverEvent>,
    received_at: SteadyTime,
    sent_at: SteadyTime,
}

impl PushReceiver {
    /// Creates a receiver for a host that has one of `keys`; without keys, all hosts are refused. `nonce` must be fresh
    /// random bytes.
    pub fn new(keys: PresharedKeys, nonce: [u8; 16], now: Tick) -> PushReceiver {
        PushReceiver {
            channel: Channel::of_server(keys, MAX_FRAME),
            nonce,
            state: PushReceiverPhase::Greeting,
            open: BTreeMap::new(),
            coming: None,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            received_at: now.steady,
            sent_at: now.steady,
        }
    }

    /// Returns the bytes to send to a host that is refused before the conversation begins.
    pub fn turn_away(why: PushRefusal, text: &str) -> Vec<u8> {
        let message = PushMessage::Refused(why, text.to_owned());
        Channel::frame(message.kind(), |out| message.encode(out))
    }

    /// Returns the number of tests that were offered but not settled.
    pub fn unsettled(&self) -> usize {
        self.open.len()
    }

    fn over(&mut self, why: Option<PushError>) {
        if !matches!(self.state, PushReceiverPhase::Over) {
            self.state = PushReceiverPhase::Over;
            self.outbox.clear();
            self.events.push_back(ReceiverEvent::Over(why));
        }
    }

    fn refuse(&mut self, why: PushRefusal, text: &str, cause: PushError) {
        self.outbox.push_back(PushMessage::Refused(why, text.to_owned()));
        self.state = PushReceiverPhase::Ending(Some(cause));
    }

    fn read(&mut self, now: Tick) -> Result<(), PushError> {
        while !matches!(
            self.state,
            PushReceiverPhase::Over | PushReceiverPhase::Ending(_) | PushReceiverPhase::Sealing
        ) {
            // A proof covers all messages before it.
            let said = matches!(self.state, PushReceiverPhase::Proving).then(|| self.channel.transcript());
            let Some(message) = self.channel.read(PushMessage::decode)? else { break };
            self.received_at = now.steady;
            match said {
                Some(said) => self.prove(&message?, &said)?,
                None => self.take(message?)?,
            }
        }
        Ok(())
    }

    fn prove(&mut self, message: &PushMessage, said: &Transcript) -> Result<(), PushError> {
        let PushMessage::Proof(proof) = message else { return Err(PushError::OutOfTurn(message.kind())) };
        let Some(name) = self.channel.proved(said, proof) else {
            self.refuse(PushRefusal::Key, "", PushError::Proof);
            return Ok(());
        };
        self.events.push_back(ReceiverEvent::Proved(name));
        self.outbox.extend(self.channel.proof().map(PushMessage::Proof));
        self.state = PushReceiverPhase::Sealing;
        Ok(())
    }

    fn take(&mut self, message: PushMessage) -> Result<(), PushError> {
        let kind = message.kind();
        match (&self.state, message) {
            (PushReceiverPhase::Greeting, PushMessage::Hello(ChannelHello { version, keyed, .. })) => {
                if version != VERSION {
                    let why = PushError::Refused(PushRefusal::Version, format!("version {version}"));
                    self.refuse(PushRefusal::Version, &format!("this is version {VERSION}"), why);
                } else if !keyed || !self.channel.keyed() {
                    self.refuse(PushRefusal::Key, "", PushError::Proof);
                } else {
                    self.outbox.push_back(PushMessage::Hello(self.channel.hello(VERSION, self.nonce)));
                    self.state = PushReceiverPhase::Proving;
                }
            }
            (PushReceiverPhase::Sealed | PushReceiverPhase::Open, PushMessage::Alive) => {}
            (PushReceiverPhase::Open, PushMessage::State(state)) => {
                self.events.push_back(ReceiverEvent::State(state));
            }
            (PushReceiverPhase::Open, PushMessage::Offer(offers)) => {
                for offer in &offers {
                    if self.open.len() >= MAX_OPEN {
                        return Err(PushError::TooMuch("tests offered at a time"));
                    }
                    // Without this check, pieces of a refused test would be added to a new test with the same
                    // number.
                    let again = self.coming == Some(offer.number);
                    let new = (offer.length, Stage::Offered);
                    if again || self.open.insert(offer.number, new).is_some() {
                        return Err(PushError::OutOfTurn(kind));
                    }
                }
                self.events.push_back(ReceiverEvent::Offered(offers));
            }
            (PushReceiverPhase::Open, PushMessage::Test(number, about)) => {
                match self.open.get_mut(&number) {
                    Some((_, stage)) if *stage == Stage::Wanted && self.coming.is_none() => {
                        *stage = Stage::Coming(0);
                    }
                    _ => return Err(PushError::OutOfTurn(kind)),
                }
                self.coming = Some(number);
                self.events.push_back(ReceiverEvent::Test(number, about));
            }
            (PushReceiverPhase::Open, PushMessage::Piece(bytes)) => {
                match self.coming.and_then(|number| self.open.get_mut(&number)) {
                    Some((length, Stage::Coming(sum))) => {
                        *sum += bytes.len() as u64;
                        if *sum > most_packed(*length) {
                            return Err(PushError::TooMuch("bytes of a test"));
                        }
                    }
                    // The test was refused in the meantime.
                    None if self.coming.is_some() => return Ok(()),
                    _ => return Err(PushError::OutOfTurn(kind)),
                }
                if !bytes.is_empty() {
                    self.events.push_back(ReceiverEvent::Piece(bytes));
                }
            }
            (PushReceiverPhase::Open, PushMessage::Whole) => {
                let number = self.coming.take().ok_or(PushError::OutOfTurn(kind))?;
                if let Some((_, stage)) = self.open.get_mut(&number) {
                    *stage = Stage::Whole;
                    self.events.push_back(ReceiverEvent::Whole(number));
                }
            }
            (PushReceiverPhase::Open, PushMessage::Gone(number)) => {
                match self.open.get(&number) {
                    Some((_, Stage::Wanted | Stage::Coming(_))) => drop(self.open.remove(&number)),
                    // The test was refused in the meantime.
                    None => {}
                    _ => return Err(PushError::OutOfTurn(kind)),
                }
                self.coming = self.coming.filter(|coming| *coming != number);
                self.events.push_back(ReceiverEvent::Gone(number));
            }
            (PushReceiverPhase::Open, PushMessage::Bye) => self.over(None),
            (_, other) => return Err(PushError::OutOfTurn(other.kind())),
        }
        Ok(())
    }
}

impl Machine for PushReceiver {
    type Input<'a> = ReceiverInput<'a>;
    type Event = ReceiverEvent;

    fn handle(&mut self, now: Tick, input: ReceiverInput<'_>) {
        match input {
            ReceiverInput::Bytes(bytes) => {
                self.channel.receive(bytes);
                if let Err(why) = self.read(now) {
                    self.over(Some(why));
                }
            }
            ReceiverInput::Closed => self.over(Some(PushError::Closed)),
            ReceiverInput::Welcome => {
                if matches!(self.state, PushReceiverPhase::Sealing | PushReceiverPhase::Sealed) {
                    self.outbox.push_back(PushMessage::Welcome);
                }
            }
            ReceiverInput::Want(numbers) => {
                let mut wanted = Vec::new();
                for number in numbers {
                    if let Some((_, stage)) = self.open.get_mut(number).filter(|(_, s)| *s == Stage::Offered)
                    {
                        *stage = Stage::Wanted;
                        wanted.push(*number);
                    }
                }
                if !wanted.is_empty() {
                    self.outbox.push_back(PushMessage::Want(wanted));
                }
            }
            ReceiverInput::Settled(mut list) => {
                list.retain(|(number, _)| self.open.remove(number).is_some());
                if !list.is_empty() {
                    self.outbox.push_back(PushMessage::Settled(list));
                }
            }
            ReceiverInput::Later(why, text, pause) => {
                if !matches!(self.state, PushReceiverPhase::Over | PushReceiverPhase::Ending(_)) {
                    let message = match self.state {
                        PushReceiverPhase::Open => PushMessage::Later(why, text, pause),
                        _ => PushMessage::Refused(why, text),
                    };
                    // Reports of settled tests are still sent, so the outbox is retained, except for a proof
                    // that has not been sent yet.
                    if matches!(self.state, PushReceiverPhase::Sealing) {
                        self.outbox.clear();
                    }
                    self.outbox.push_back(message);
                    self.state = PushReceiverPhase::Ending(None);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        // A driver that still has to process events reads no input, so the host only seems silent.
        if now.steady - self.received_at >= SILENCE && self.events.is_empty() {
            self.over(Some(PushError::Silent));
        } else if matches!(self.state, PushReceiverPhase::Open)
            && now.steady - self.sent_at >= ALIVE
            && self.outbox.is_empty()
        {
            self.outbox.push_back(PushMessage::Alive);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.outbox.pop_front() else {
            if let PushReceiverPhase::Ending(why) = &mut self.state {
                let why = why.take();
                self.over(why);
            }
            return false;
        };
        self.channel.write(message.kind(), |out| message.encode(out), out);
        self.sent_at = now.steady;
        match (&self.state, message) {
            (PushReceiverPhase::Sealing, PushMessage::Proof(_)) => {
                self.channel.seal(LABEL);
                self.state = PushReceiverPhase::Sealed;
            }
            (PushReceiverPhase::Sealed, PushMessage::Welcome) => self.state = PushReceiverPhase::Open,
            _ => {}
        }
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.state {
            PushReceiverPhase::Over => None,
            PushReceiverPhase::Ending(_) => Some(self.received_at),
            PushReceiverPhase::Open => Some((self.received_at + SILENCE).min(self.sent_at + ALIVE)),
            _ => Some(self.received_at + SILENCE),
        }
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }
}
