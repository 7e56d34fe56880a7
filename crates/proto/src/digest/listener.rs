//! [`Listener`]: the side that asks for digests.

use super::channel::{Channel, DigestError};
use super::wire::{Entries, Listen, Message, Rule, Totals};
use super::{ALIVE, SILENCE, VERSION};
use crate::jitlat::auth::{Key, Side, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::WallTime;
use std::collections::VecDeque;

/// What a driver tells a listener.
#[derive(Clone, Debug)]
pub enum ListenerInput<'a> {
    /// Bytes that came.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// There is a plan: from now on digests by this rule.
    Rule(Rule),
    /// Enough has been heard.
    Stop,
}

/// What a listener has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The reporter listens to this interface; names are under this salt.
    Listening {
        /// The interface.
        interface: String,
        /// See [`jitlat_core::passive::identity::salted`].
        salt: u64,
    },
    /// Packets, or that there were none.
    Report {
        /// Entries given up before these, for want of room.
        missing: u64,
        /// From and up to which time everything has been told.
        covered: Option<(WallTime, WallTime)>,
        /// The capture so far.
        totals: Totals,
        /// The packets.
        entries: Entries,
    },
    /// The reporter is at its end.
    End {
        /// Entries given up since the last report.
        missing: u64,
        /// The capture as a whole.
        totals: Totals,
        /// What went wrong, in words.
        notes: Vec<String>,
    },
    /// The conversation failed.
    Failed(DigestError),
}

#[derive(Debug)]
enum State {
    Greeting,
    Proving(Box<Transcript>),
    Asked,
    Listening,
    Over,
}

/// The machine. Its timers run on the steady clock.
#[derive(Debug)]
pub struct Listener {
    channel: Channel,
    state: State,
    ask: Listen,
    outbox: VecDeque<Message>,
    events: VecDeque<Heard>,
    salt: u64,
    expected: u64,
    heard_at: SteadyTime,
    spoke_at: SteadyTime,
}

impl Listener {
    /// Begins a conversation; `nonce` is fresh randomness.
    pub fn new(ask: Listen, key: Option<Key>, nonce: [u8; 16], now: Tick) -> Listener {
        let channel = Channel::new(Side::Client, key);
        let outbox = VecDeque::from([channel.hello(nonce)]);
        Listener {
            channel,
            state: State::Greeting,
            ask,
            outbox,
            events: VecDeque::new(),
            salt: 0,
            expected: 0,
            heard_at: now.steady,
            spoke_at: now.steady,
        }
    }

    fn fail(&mut self, why: DigestError) {
        if !matches!(self.state, State::Over) {
            self.state = State::Over;
            self.outbox.clear();
            self.events.push_back(Heard::Failed(why));
        }
    }

    fn read(&mut self, now: Tick) -> Result<(), DigestError> {
        while !matches!(self.state, State::Over) {
            // A proof is over everything before it.
            let said = matches!(self.state, State::Proving(_)).then(|| self.channel.said());
            let Some(message) = self.channel.read()? else { break };
            self.heard_at = now.steady;
            if let (State::Proving(_), Some(said)) = (&self.state, said) {
                self.state = State::Proving(Box::new(said));
            }
            self.take(message)?;
        }
        Ok(())
    }

    fn take(&mut self, message: Message) -> Result<(), DigestError> {
        match (&self.state, message) {
            (_, Message::Refused(why, words)) => return Err(DigestError::Refused(why, words)),
            (State::Greeting, Message::Hello { version, keyed, .. }) => {
                if version != VERSION {
                    return Err(DigestError::Refused(super::Refusal::Version, String::new()));
                }
                if self.channel.keyed() && !keyed {
                    return Err(DigestError::NotAuthenticated);
                }
                match self.channel.proof() {
                    Some(proof) => {
                        self.state = State::Proving(Box::default());
                        self.outbox.push_back(proof);
                    }
                    None => self.ask(),
                }
            }
            (State::Proving(said), Message::Proof(proof)) => {
                if !self.channel.proves(said, &proof) {
                    return Err(DigestError::Proof);
                }
                self.ask();
            }
            (State::Asked, Message::Listening(interface)) => {
                self.state = State::Listening;
                self.events.push_back(Heard::Listening { interface, salt: self.salt });
            }
            (State::Listening, Message::Report { first, covered, totals, entries }) => {
                let missing = first.checked_sub(self.expected);
                let missing = missing.ok_or(DigestError::OutOfTurn(6))?;
                self.expected = first.saturating_add(entries.len() as u64);
                self.events.push_back(Heard::Report { missing, covered, totals, entries });
            }
            (State::Listening, Message::End { made, totals, notes }) => {
                self.state = State::Over;
                let missing = made.saturating_sub(self.expected);
                self.events.push_back(Heard::End { missing, totals, notes });
            }
            (_, other) => return Err(DigestError::OutOfTurn(other.kind())),
        }
        Ok(())
    }

    fn ask(&mut self) {
        self.salt = self.channel.seal();
        self.state = State::Asked;
        self.outbox.push_back(Message::Listen(std::mem::take(&mut self.ask)));
    }
}

impl Machine for Listener {
    type Input<'a> = ListenerInput<'a>;
    type Event = Heard;

    fn handle(&mut self, now: Tick, input: ListenerInput<'_>) {
        match input {
            ListenerInput::Bytes(bytes) => {
                self.channel.receive(bytes);
                if let Err(why) = self.read(now) {
                    self.fail(why);
                }
            }
            ListenerInput::Closed => self.fail(DigestError::Closed),
            ListenerInput::Rule(rule) => self.outbox.push_back(Message::Rule(rule)),
            ListenerInput::Stop => self.outbox.push_back(Message::Stop),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if now.steady - self.heard_at >= SILENCE {
            self.fail(DigestError::Silent);
        } else if matches!(self.state, State::Listening)
            && now.steady - self.spoke_at >= ALIVE
            && self.outbox.is_empty()
        {
            self.outbox.push_back(Message::Alive);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.outbox.pop_front() else { return false };
        self.channel.write(&message, out);
        self.spoke_at = now.steady;
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.state {
            State::Over => None,
            State::Listening => Some((self.heard_at + SILENCE).min(self.spoke_at + ALIVE)),
            _ => Some(self.heard_at + SILENCE),
        }
    }

    fn poll_event(&mut self) -> Option<Heard> {
        self.events.pop_front()
    }
}
