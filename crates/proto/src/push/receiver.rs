//! [`PushReceiver`]: the collector's side of one conversation.

use super::wire::{About, PushMessage, PushOffer, PushOutcome, PushRefusal, SpoolState};
use super::{ALIVE, LABEL, MAX_FRAME, MAX_OPEN, PushError, SILENCE, VERSION, most_packed};
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKeys, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::Span;
use std::collections::{BTreeMap, VecDeque};

/// An input of a receiver.
#[derive(Clone, Debug)]
pub enum ReceiverInput<'a> {
    /// Bytes were received.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// The host that proved its key may offer tests.
    Welcome,
    /// There is room for these of the tests that were offered.
    Want(&'a [u64]),
    /// What became of tests that were offered.
    Settled(Vec<(u64, PushOutcome)>),
    /// Nothing more is taken on this connection: why, and how long it is to wait.
    Later(PushRefusal, String, Span),
}

/// A request of a receiver to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The sender proved the key of the host of this name. Answer with `Welcome` or `Later`.
    Proved(String),
    /// What the host says of itself.
    State(SpoolState),
    /// Tests that may be wanted. Of each say that it is, or what became of it; in any order, now or later.
    Offered(Vec<PushOffer>),
    /// The log of this wanted test begins.
    Test(u64, About),
    /// A piece of it, compressed.
    Piece(Vec<u8>),
    /// It is whole: say what became of it.
    Whole(u64),
    /// A wanted test will not come, or no more of it; nothing is to be said of it.
    Gone(u64),
    /// The conversation is over; with the error if it failed.
    Over(Option<PushError>),
}

#[derive(Debug)]
enum PushReceiverPhase {
    Greeting,
    Proving,
    /// The last message without a seal is in the outbox; nothing is read before it is sent.
    Sealing,
    Sealed,
    Open,
    /// The last message is in the outbox, with the reason.
    Ending(Option<PushError>),
    Over,
}

/// A test that was offered and is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Offered,
    Wanted,
    /// So many bytes of it came.
    Coming(u64),
    Whole,
}

/// The machine. Its timers run on the steady clock.
#[derive(Debug)]
pub struct PushReceiver {
    channel: Channel,
    nonce: [u8; 16],
    state: PushReceiverPhase,
    /// By number: how long its log is, and how far it is.
    open: BTreeMap<u64, (u64, Stage)>,
    coming: Option<u64>,
    outbox: VecDeque<PushMessage>,
    events: VecDeque<ReceiverEvent>,
    received_at: SteadyTime,
    sent_at: SteadyTime,
}

impl PushReceiver {
    /// Waits for a host that has one of `keys`; without any it refuses all. `nonce` must be fresh random bytes.
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

    /// The bytes for a host that is refused before a conversation begins.
    pub fn turn_away(why: PushRefusal, text: &str) -> Vec<u8> {
        let message = PushMessage::Refused(why, text.to_owned());
        Channel::frame(message.kind(), |out| message.encode(out))
    }

    /// Tests that were offered and are not settled.
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
            // A proof covers everything before it.
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
                    // Pieces of one that was refused meanwhile would be taken for those of the new one.
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
                    // It was refused meanwhile.
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
                    // It was refused meanwhile.
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
                    // A proof that was made must be sent first, and what is settled is said all the same.
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
        // While the driver is not done with what came nobody reads what comes.
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
