//! [`Exporter`]: the side that captures and reports.

use super::DigestError;
use super::wire::{CaptureTotals, Digest, DigestMessage, DigestRefusal, DigestRule, Entries, Listen, fits};
use super::{BEAT, MAX_ENTRIES, MAX_FRAME, SALT, SILENCE, VERSION};
use crate::channel::{Channel, ChannelHello};
use crate::jitlat::auth::{PresharedKeys, Transcript};
use crate::machine::{Machine, Tick};
use jitlat_core::SteadyTime;
use jitlat_core::time::{SECOND, Span, WallTime};
use jitlat_passive::PacketPreview;
use std::collections::VecDeque;

/// Maximum number of digests waiting to be sent. Further digests are dropped and counted.
const MAX_QUEUED_DIGESTS: usize = 1 << 16;
/// Maximum number of previews (first bytes of packets) waiting to be sent; they are only needed to decide how
/// packets are matched.
const MAX_QUEUED_PREVIEWS: usize = 1 << 12;
/// Number of entries at which a message is sent at once.
const ENTRIES_PER_MESSAGE: usize = 512;
/// Maximum time for which fewer than [`ENTRIES_PER_MESSAGE`] entries wait.
const MAX_ENTRY_DELAY: Span = Span::millis(40);

/// An input of an exporter.
#[derive(Clone, Debug)]
pub enum ExporterInput<'a> {
    /// Bytes were received.
    Bytes(&'a [u8]),
    /// The connection ended.
    Closed,
    /// The capture on this interface has started.
    Listening(String),
    /// The request is refused.
    Refuse(DigestRefusal, String),
    /// The capture has ended, with these warnings.
    End(Vec<String>),
}

/// Request of an exporter to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExporterEvent {
    /// The collector proved that it has the key of this peer.
    Proved(String),
    /// Start the capture, and compute packet identities with this salt. The driver answers with `Listening`
    /// or `Refuse`.
    Listen(Listen, u64),
    /// Report further digests by this rule.
    Rule(DigestRule),
    /// End the capture. The driver answers with `End`.
    Stop,
    /// The conversation is over; contains the error if it failed.
    Over(Option<DigestError>),
}

#[derive(Debug)]
enum ExporterPhase {
    Greeting,
    Proving,
    /// The last unsealed message is in the outbox. No input is read before it has been sent.
    Sealing,
    Sealed,
    Asked,
    Previews,
    Digests,
    /// The last message is in the outbox. Contains the error if the conversation failed.
    Ending(Option<DigestError>),
    Over,
}

/// State machine of an exporter. Its timers run on the steady clock.
#[derive(Debug)]
pub struct Exporter {
    channel: Channel,
    state: ExporterPhase,
    outbox: VecDeque<DigestMessage>,
    events: VecDeque<ExporterEvent>,
    salt: u64,
    previews: VecDeque<(u64, PacketPreview)>,
    digests: VecDeque<(u64, Digest)>,
    /// Number of entries created, including dropped ones.
    made: u64,
    /// Maximum number of digests per second.
    rate: u32,
    /// Second in which the latest digest was captured, on the wall clock.
    second: i64,
    /// Number of digests captured in `second`, including dropped ones.
    spent: u32,
    covered: Option<(WallTime, WallTime)>,
    totals: CaptureTotals,
    received_at: SteadyTime,
    sent_at: SteadyTime,
}

impl Exporter {
    /// Creates an exporter for a collector that has one of `keys`. At most `rate` digests are reported per
    /// second. `entropy` must be fresh random bytes.
    pub fn new(keys: PresharedKeys, rate: u32, entropy: [u8; 32], now: Tick) -> Exporter {
        Exporter {
            channel: Channel::of_server(keys, MAX_FRAME, entropy),
            state: ExporterPhase::Greeting,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            salt: 0,
            previews: VecDeque::new(),
            digests: VecDeque::new(),
            made: 0,
            rate,
            second: i64::MIN,
            spent: 0,
            covered: None,
            totals: CaptureTotals::default(),
            received_at: now.steady,
            sent_at: now.steady,
        }
    }

    /// Returns the bytes that refuse a collector before a conversation has started.
    pub fn turn_away(why: DigestRefusal, text: &str) -> Vec<u8> {
        let message = DigestMessage::Refused(why, text.to_owned());
        Channel::frame(message.kind(), |out| message.encode(out))
    }

    /// Adds the preview of a packet. Ignored once a rule has been received.
    pub fn preview(&mut self, g: PacketPreview) {
        if matches!(self.state, ExporterPhase::Previews) {
            if self.previews.len() < MAX_QUEUED_PREVIEWS {
                self.previews.push_back((self.made, g));
            }
            self.made += 1;
        }
    }

    /// Adds a packet that matches the rule. Packets beyond the rate or the size of the queue are dropped and
    /// counted.
    pub fn digest(&mut self, d: Digest) {
        if !matches!(self.state, ExporterPhase::Digests) {
            return;
        }
        let second = d.at.0.div_euclid(SECOND);
        if second != self.second {
            (self.second, self.spent) = (second, 0);
        }
        self.spent = self.spent.saturating_add(1);
        if self.spent <= self.rate && self.digests.len() < MAX_QUEUED_DIGESTS {
            self.digests.push_back((self.made, d));
        }
        self.made += 1;
    }

    /// Records that all packets captured between `from` and `to` have been added.
    pub fn covers(&mut self, from: WallTime, to: WallTime, totals: CaptureTotals) {
        self.covered = Some((from, to));
        self.totals = totals;
    }

    /// Returns the number of entries waiting to be reported.
    pub fn waiting(&self) -> usize {
        self.previews.len() + self.digests.len()
    }

    fn over(&mut self, why: Option<DigestError>) {
        if !matches!(self.state, ExporterPhase::Over) {
            self.state = ExporterPhase::Over;
            self.outbox.clear();
            self.events.push_back(ExporterEvent::Over(why));
        }
    }

    fn refuse(&mut self, why: DigestRefusal, text: &str, cause: Option<DigestError>) {
        self.outbox.push_back(DigestMessage::Refused(why, text.to_owned()));
        self.state = ExporterPhase::Ending(cause);
    }

    fn read(&mut self, now: Tick) -> Result<(), DigestError> {
        while !matches!(self.state, ExporterPhase::Over | ExporterPhase::Ending(_) | ExporterPhase::Sealing) {
            let transcript = self.channel.transcript();
            let Some(message) = self.channel.read(DigestMessage::decode)? else { break };
            let message = message?;
            self.received_at = now.steady;
            self.take(message, &transcript)?;
        }
        Ok(())
    }

    fn take(&mut self, message: DigestMessage, transcript: &Transcript) -> Result<(), DigestError> {
        match (&self.state, message) {
            (ExporterPhase::Greeting, DigestMessage::Hello(hello)) => {
                let ChannelHello { version, keyed, .. } = hello;
                if version != VERSION {
                    let why = DigestError::Refused(DigestRefusal::Version, format!("version {version}"));
                    self.refuse(DigestRefusal::Version, &format!("this is version {VERSION}"), Some(why));
                    return Ok(());
                }
                if self.channel.keyed() && !keyed {
                    self.refuse(DigestRefusal::Key, "give the key with --key-file", Some(DigestError::Proof));
                    return Ok(());
                }
                self.channel.greeted(&hello);
                self.outbox.push_back(DigestMessage::Hello(self.channel.hello(VERSION)));
                self.state =
                    if self.channel.keyed() { ExporterPhase::Proving } else { ExporterPhase::Sealing };
            }
            (ExporterPhase::Proving, DigestMessage::Proof(proof)) => {
                let Some(name) = self.channel.proved(transcript, &proof) else {
                    self.refuse(DigestRefusal::Key, "the keys differ", Some(DigestError::Proof));
                    return Ok(());
                };
                self.events.push_back(ExporterEvent::Proved(name));
                self.outbox.extend(self.channel.proof().map(DigestMessage::Proof));
                self.state = ExporterPhase::Sealing;
            }
            (ExporterPhase::Sealed, DigestMessage::Listen(ask)) => {
                self.state = ExporterPhase::Asked;
                self.events.push_back(ExporterEvent::Listen(ask, self.salt));
            }
            (ExporterPhase::Previews, DigestMessage::Rule(rule)) => {
                // Unsent previews are no longer needed, but still count as entries.
                self.previews.clear();
                self.state = ExporterPhase::Digests;
                self.covered = None;
                self.events.push_back(ExporterEvent::Rule(rule));
            }
            (ExporterPhase::Previews | ExporterPhase::Digests, DigestMessage::Stop) => {
                self.events.push_back(ExporterEvent::Stop);
            }
            // Keep-alives do not extend the deadline before the first report.
            (
                ExporterPhase::Asked | ExporterPhase::Previews | ExporterPhase::Digests,
                DigestMessage::Alive,
            ) => {}
            (_, other) => return Err(DigestError::OutOfTurn(other.kind())),
        }
        Ok(())
    }

    /// True if the next message with entries is due.
    fn is_due(&self, now: Tick) -> bool {
        let (quiet, waiting) = (now.steady - self.sent_at, self.waiting());
        quiet >= BEAT || waiting >= ENTRIES_PER_MESSAGE || waiting > 0 && quiet >= MAX_ENTRY_DELAY
    }

    /// Returns the next message with entries.
    fn report(&mut self, now: Tick) -> DigestMessage {
        self.sent_at = now.steady;
        let (first, entries) = match self.state {
            ExporterPhase::Digests => {
                let (first, list) = run(&mut self.digests, |d| d.at);
                (first, Entries::Digests(list))
            }
            _ => {
                let (first, list) = run(&mut self.previews, |g| g.at);
                (first, Entries::Previews(list))
            }
        };
        // The covered time range is not reported while some of its entries may still be waiting.
        let covered = self.covered.filter(|_| self.waiting() == 0);
        let first = first.unwrap_or(self.made);
        DigestMessage::Report { first, covered, totals: self.totals, entries }
    }
}

/// Removes consecutively numbered entries from the front of `queue`, as many as fit into one message. Returns the
/// number of the first entry, if any, and the entries.
fn run<T: Copy>(queue: &mut VecDeque<(u64, T)>, at: impl Fn(&T) -> WallTime) -> (Option<u64>, Vec<T>) {
    let Some(&(first, head)) = queue.front() else { return (None, Vec::new()) };
    let base = at(&head);
    // An entry on the wire is never longer than in memory.
    let most = MAX_ENTRIES.min(MAX_FRAME / (size_of::<(u64, T)>()));
    let fitting = queue.iter().zip(first..).take(most);
    let count = fitting.take_while(|((n, e), k)| n == k && fits(base, at(e))).count();
    (Some(first), queue.drain(..count).map(|(_, e)| e).collect())
}

impl Machine for Exporter {
    type Input<'a> = ExporterInput<'a>;
    type Event = ExporterEvent;

    fn handle(&mut self, now: Tick, input: ExporterInput<'_>) {
        match input {
            ExporterInput::Bytes(bytes) => {
                self.channel.receive(bytes);
                if let Err(why) = self.read(now) {
                    self.over(Some(why));
                }
            }
            ExporterInput::Closed => self.over(Some(DigestError::Closed)),
            ExporterInput::Listening(interface) => {
                if matches!(self.state, ExporterPhase::Asked) {
                    self.state = ExporterPhase::Previews;
                    self.outbox.push_back(DigestMessage::Listening(interface));
                }
            }
            ExporterInput::Refuse(why, text) => self.refuse(why, &text, None),
            ExporterInput::End(notes) => {
                if matches!(self.state, ExporterPhase::Previews | ExporterPhase::Digests) {
                    loop {
                        let report = self.report(now);
                        self.outbox.push_back(report);
                        if self.waiting() == 0 {
                            break;
                        }
                    }
                    let (made, totals) = (self.made, self.totals);
                    self.outbox.push_back(DigestMessage::End { made, totals, notes });
                    self.state = ExporterPhase::Ending(None);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Tick) {
        if now.steady - self.received_at >= SILENCE {
            self.over(Some(DigestError::Silent));
        }
    }

    fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> bool {
        let reporting = matches!(self.state, ExporterPhase::Previews | ExporterPhase::Digests);
        if reporting && self.outbox.is_empty() && self.is_due(now) {
            let report = self.report(now);
            self.outbox.push_back(report);
        }
        let Some(message) = self.outbox.pop_front() else {
            if let ExporterPhase::Ending(why) = &mut self.state {
                let why = why.take();
                self.over(why);
            }
            return false;
        };
        self.channel.write(message.kind(), |out| message.encode(out), out);
        if matches!(self.state, ExporterPhase::Sealing) && self.outbox.is_empty() {
            self.salt = self.channel.seal(SALT);
            self.state = ExporterPhase::Sealed;
        }
        true
    }

    fn poll_timeout(&self) -> Option<SteadyTime> {
        match self.state {
            ExporterPhase::Over => None,
            ExporterPhase::Ending(_) => Some(self.received_at),
            ExporterPhase::Previews | ExporterPhase::Digests => {
                let beat = if self.waiting() > 0 { MAX_ENTRY_DELAY } else { BEAT };
                Some((self.received_at + SILENCE).min(self.sent_at + beat))
            }
            _ => Some(self.received_at + SILENCE),
        }
    }

    fn poll_event(&mut self) -> Option<ExporterEvent> {
        self.events.pop_front()
    }
}
