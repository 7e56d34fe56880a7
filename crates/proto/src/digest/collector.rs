//! [`Collector`]: the side that requests digests.

use super::DigestError;
use super::wire::{CaptureTotals, DigestMessage, DigestRule, Entries, Listen};
use super::{ALIVE, MAX_FRAME, SALT, SILENCE, VERSION};
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKey, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::WallTime;
use std::collections::VecDeque;

/// An input of a collector.
#[derive(Clone, Debug)]
pub enum CollectorInput<'a> {
    /// Bytes were received.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// Request further digests by this rule.
    Rule(DigestRule),
    /// End the conversation.
    Stop,
}

/// An event of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorEvent {
    /// The exporter captures on this interface, and computes packet identities with this salt.
    Listening {
        /// Name of the interface.
        interface: String,
        /// Salt of the identities; see [`jitlat_passive::identity::salted`].
        salt: u64,
    },
    /// A report of packets; empty if none were captured.
    Report {
        /// Number of entries dropped since the previous report, because a queue was full or the exporter's maximum rate
        /// was reached.
        missing: u64,
        /// Time range that is completely reported; `None` if no range is complete yet.
        covered: Option<(WallTime, WallTime)>,
        /// Counts of the capture so far.
        totals: CaptureTotals,
        /// Packets in this report.
        entries: Entries,
    },
    /// The exporter ended the capture.
    End {
        /// Number of entries dropped since the last report.
        missing: u64,
        /// Counts of the whole capture.
        totals: CaptureTotals,
        /// Warnings of the exporter.
        notes: Vec<String>,
    },
    /// The conversation failed.
    Failed(DigestError),
}

#[derive(Debug)]
enum CollectorPhase {
    Greeting,
    Proving(Box<Transcript>),
    Asked,
    Listening,
    Over,
}

/// State machine of a collector. Its timers use the steady clock.
#[derive(Debug)]
pub struct Collector {
    channel: Channel,
    state: CollectorPhase,
    ask: Listen,
    outbox: VecDeque<DigestMessage>,
    events: VecDeque<CollectorEvent>,
    salt: u64,
    expected: u64,
    received_at: SteadyTime,
    sent_at: SteadyTime,
}

impl Collector {
    /// Starts a conversation. `entropy` must be fresh random bytes.
    pub fn new(ask: Listen, key: Option<PresharedKey>, entropy: [u8; 32], now: Tick) -> Collector {
        let channel = Channel::of_client(key, MAX_FRAME, entropy);
        let outbox = VecDeque::from([DigestMessage::Hello(channel.hello(VERSION))]);
        Collector {
            channel,
            state: CollectorPhase::Greeting,
            ask,
            outbox,
            events: VecDeque::new(),
            salt: 0,
            expected: 0,
            received_at: now.steady,
            sent_at: now.steady,
        }
    }

    fn fail(&mut self, why: DigestError) {
        if !matches!(self.state, CollectorPhase::Over) {
            self.state = CollectorPhase::Over;
            self.outbox.clear();
            self.events.push_back(CollectorEvent::Failed(why));
        }
    }

    fn read(&mut self, now: Tick) -> Result<(), DigestError> {
        while !matches!(self.state, CollectorPhase::Over) {
            // A proof covers all bytes before it.
            let transcript =
                matches!(self.state, CollectorPhase::Proving(_)).then(|| self.channel.transcript());
            let Some(message) = self.channel.read(DigestMessage::decode)? else { break };
            let message = message?;
            self.received_at = now.steady;
            if let (CollectorPhase::Proving(_), Some(transcript)) = (&self.state, transcript) {
                self.state = CollectorPhase::Proving(Box::new(transcript));
            }
            self.take(message)?;
        }
        Ok(())
    }

    fn take(&mut self, message: DigestMessage) -> Result<(), DigestError> {
        match (&self.state, message) {
            (_, DigestMessage::Refused(why, text)) => return Err(DigestError::Refused(why, text)),
            (CollectorPhase::Greeting, DigestMessage::Hello(hello)) => {
                let ChannelHello { version, keyed, .. } = hello;
                if version != VERSION {
                    return Err(DigestError::Refused(super::DigestRefusal::Version, String::new()));
                }
                if self.channel.keyed() && !keyed {
                    return Err(DigestError::NotAuthenticated);
                }
                self.channel.greeted(&hello);
                match self.channel.proof() {
                    Some(proof) => {
                        self.state = CollectorPhase::Proving(Box::default());
                        self.outbox.push_back(DigestMessage::Proof(proof));
                    }
                    None => self.ask(),
                }
            }
            (CollectorPhase::Proving(transcript), DigestMessage::Proof(proof)) => {
                if self.channel.proved(transcript, &proof).is_none() {
                    return Err(DigestError::Proof);
                }
                self.ask();
            }
            (CollectorPhase::Asked, DigestMessage::Listening(interface)) => {
                self.state = CollectorPhase::Listening;
                self.events.push_back(CollectorEvent::Listening { interface, salt: self.salt });
            }
            (CollectorPhase::Listening, DigestMessage::Report { first, covered, totals, entries }) => {
                let missing = first.checked_sub(self.expected);
                let missing = missing.ok_or(DigestError::OutOfTurn(6))?;
                self.expected = first.saturating_add(entries.len() as u64);
                self.events.push_back(CollectorEvent::Report { missing, covered, totals, entries });
            }
            (CollectorPhase::Listening, DigestMessage::End { made, totals, notes }) => {
                self.state = CollectorPhase::Over;
                let missing = made.saturating_sub(self.expected);
                self.events.push_back(CollectorEvent::End { missing, totals, notes });
            }
            (_, other) => return Err(DigestError::OutOfTurn(other.kind())),
        }
        Ok(())
    }

    fn ask(&mut self) {
        self.salt = self.channel.seal(SALT);
        self.state = CollectorPhase::Asked;
        self.outbox.push_back(DigestMessage::Listen(std::mem::take(&mut self.ask)));
    }
}

impl Machine for Collector {
    type Input<'a> = CollectorInput<'a>;
    type Event = CollectorEvent;

    fn handle(&mut self, now: Tick, input: CollectorInput<'_>) {
        match input {
            CollectorInput::Bytes(bytes) => {
                self.channel.receive(bytes);
                if let Err(why) = self.read(now) {
                    self.fail(why);
                }
            }
            CollectorInput::Closed => self.fail(DigestError::Closed),
            CollectorInput::Rule(rule) => self.outbox.push_back(DigestMessage::Rule(rule)),
            CollectorInput::Stop => self.outbox.push_back(DigestMessage::Stop),
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if now.steady - self.received_at >= SILENCE {
            self.fail(DigestError::Silent);
        } else if matches!(self.state, CollectorPhase::Listening)
            && now.steady - self.sent_at >= ALIVE
            && self.outbox.is_empty()
        {
            self.outbox.push_back(DigestMessage::Alive);
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let Some(message) = self.outbox.pop_front() else { return false };
        self.channel.write(message.kind(), |out| message.encode(out), out);
        self.sent_at = now.steady;
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.state {
            CollectorPhase::Over => None,
            CollectorPhase::Listening => Some((self.received_at + SILENCE).min(self.sent_at + ALIVE)),
            _ => Some(self.received_at + SILENCE),
        }
    }

    fn poll_event(&mut self) -> Option<CollectorEvent> {
        self.events.pop_front()
    }
}
