//! Messages and their encoding. Every length is checked before data is read or memory allocated.

use super::{MAX_OPEN, MAX_PAUSE, MAX_PIECE, MAX_TAGS};
pub use crate::channel::WireError;
use crate::channel::{ChannelHello, put_text, text};
use crate::wire::Reader;
use jitlat_core::time::Span;

/// Magic number in the first message.
pub(crate) const MAGIC: [u8; 4] = *b"JLTP";

/// Test that a host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushOffer {
    /// Number of the test at the sender; identifies it in this conversation.
    pub number: u64,
    /// XXH3-128 checksum of the test's log.
    pub hash: u128,
    /// Length of the test's log in bytes; 0 for a test that the sender no longer has.
    pub length: u64,
}

/// Description of a test, sent before its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the log.
    pub source: String,
    /// Tags of the test: keys and values.
    pub tags: Vec<(String, String)>,
}

/// State of the spool, as reported by the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolState {
    /// Number of tests waiting to be pushed.
    pub waiting: u64,
    /// Number of tests that were removed before they were pushed, since pushing to this collector began.
    pub dropped: u64,
}

/// Outcome of a test that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The collector has stored the test.
    Stored,
    /// The collector already had the test.
    Known,
    /// The collector will never accept the test, for this reason.
    Refused(String),
}

/// Reason why a collector accepts no tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    /// The collector uses another version of the protocol.
    #[error("it uses another version of the protocol")]
    Version,
    /// The key is missing or wrong.
    #[error("it does not have this host's key")]
    Key,
    /// The collector has too many connections or too little free memory.
    #[error("it is busy")]
    Busy,
    /// The collector's disk is full.
    #[error("its disk is full")]
    Full,
    /// The collector is being stopped.
    #[error("it is being stopped")]
    Stopping,
    /// The collector failed for another reason.
    #[error("it failed")]
    Failed,
}

impl PushRefusal {
    /// All reasons, in the order of their numbers on the wire.
    pub(crate) const ALL: [PushRefusal; 6] = [
        PushRefusal::Version,
        PushRefusal::Key,
        PushRefusal::Busy,
        PushRefusal::Full,
        PushRefusal::Stopping,
        PushRefusal::Failed,
    ];

    fn number(self) -> u8 {
        PushRefusal::ALL.iter().position(|r| *r == self).unwrap_or(0) as u8
    }

    fn of(number: u8) -> PushRefusal {
        PushRefusal::ALL.get(usize::from(number)).copied().unwrap_or(PushRefusal::Failed)
    }
}

/// Message of the protocol; `docs/protocols/push.md` describes each type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushMessage {
    /// Type 1, both directions: version, and true if the sender has a key.
    Hello(ChannelHello),
    /// Type 2, both directions: proof of the key.
    Proof([u8; 32]),
    /// Type 3, from the collector: the host may offer tests.
    Welcome,
    /// Type 4, to the collector: state of the host.
    State(SpoolState),
    /// Type 5, to the collector: offered tests.
    Offer(Vec<PushOffer>),
    /// Type 6, from the collector: numbers of the tests to send, in this order. The collector has room for all of them.
    Want(Vec<u64>),
    /// Type 7, to the collector: number and description of the test whose log follows.
    Test(u64, About),
    /// Type 8, to the collector: compressed piece of the log.
    Piece(Vec<u8>),
    /// Type 9, to the collector: the log is complete.
    Whole,
    /// Type 10, to the collector: number of a test that cannot be sent. Pieces already received are void.
    Gone(u64),
    /// Type 11, from the collector: outcomes of tests, by number.
    Settled(Vec<(u64, PushOutcome)>),
    /// Type 12, from the collector: no more tests are accepted on this connection; reason, details, and pause
    /// before the next attempt.
    Later(PushRefusal, String, Span),
    /// Type 13, both directions: keep-alive.
    Alive,
    /// Type 14, to the collector: no further tests will be offered.
    Bye,
    /// Type 15, from the collector: refusal before a test was offered; reason and details.
    Refused(PushRefusal, String),
}

/// Appends `text`, truncated to 65 535 bytes at a character boundary.
fn put_long(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_be_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn long(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = usize::from(r.u16()?);
    let text = str::from_utf8(r.take(length)?).map_err(|_| WireError::Value("text"))?;
    Ok(text.to_owned())
}

fn hash(r: &mut Reader<'_>) -> Result<u128, WireError> {
    Ok(u128::from_be_bytes(r.array()?))
}

/// Reads a list of at most [`MAX_OPEN`] elements.
fn list<T>(
    r: &mut Reader<'_>,
    one: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = usize::from(r.u16()?);
    if count > MAX_OPEN {
        return Err(WireError::Value("number of tests"));
    }
    (0..count).map(|_| one(r)).collect()
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

impl About {
    /// True if the description fits into a message.
    pub fn fits(&self) -> bool {
        let bytes: usize = self.tags.iter().map(|(key, value)| key.len() + value.len() + 4).sum();
        self.tags.len() <= MAX_TAGS && self.source.len() + bytes <= MAX_PIECE
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_long(out, &self.source);
        put_count(out, self.tags.len());
        for (key, value) in &self.tags {
            put_long(out, key);
            put_long(out, value);
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<About, WireError> {
        let source = long(r)?;
        let count = usize::from(r.u16()?);
        if count > MAX_TAGS {
            return Err(WireError::Value("number of tags"));
        }
        let tags = (0..count).map(|_| Ok((long(r)?, long(r)?))).collect::<Result<_, WireError>>()?;
        Ok(About { source, tags })
    }
}

impl PushMessage {
    /// Returns the number of the message's type.
    pub fn kind(&self) -> u8 {
        match self {
            PushMessage::Hello(_) => ChannelHello::KIND,
            PushMessage::Proof(_) => 2,
            PushMessage::Welcome => 3,
            PushMessage::State(_) => 4,
            PushMessage::Offer(_) => 5,
            PushMessage::Want(_) => 6,
            PushMessage::Test(..) => 7,
            PushMessage::Piece(_) => 8,
            PushMessage::Whole => 9,
            PushMessage::Gone(_) => 10,
            PushMessage::Settled(_) => 11,
            PushMessage::Later(..) => 12,
            PushMessage::Alive => 13,
            PushMessage::Bye => 14,
            PushMessage::Refused(..) => 15,
        }
    }

    /// Appends the body of the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            PushMessage::Hello(hello) => hello.encode(MAGIC, out),
            PushMessage::Proof(proof) => out.extend_from_slice(proof),
            PushMessage::Welcome | PushMessage::Whole | PushMessage::Alive | PushMessage::Bye => {}
            PushMessage::State(state) => {
                out.extend_from_slice(&state.waiting.to_be_bytes());
                out.extend_from_slice(&state.dropped.to_be_bytes());
            }
            PushMessage::Offer(offers) => {
                put_count(out, offers.len());
                for offer in offers {
                    out.extend_from_slice(&offer.number.to_be_bytes());
                    out.extend_from_slice(&offer.hash.to_be_bytes());
                    out.extend_from_slice(&offer.length.to_be_bytes());
                }
            }
            PushMessage::Want(numbers) => {
                put_count(out, numbers.len());
                numbers.iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
            }
            PushMessage::Test(number, about) => {
                out.extend_from_slice(&number.to_be_bytes());
                about.encode(out);
            }
            PushMessage::Piece(bytes) => out.extend_from_slice(bytes),
            PushMessage::Gone(number) => out.extend_from_slice(&number.to_be_bytes()),
            PushMessage::Settled(settled) => {
                put_count(out, settled.len());
                for (number, outcome) in settled {
                    out.extend_from_slice(&number.to_be_bytes());
                    match outcome {
                        PushOutcome::Stored => out.push(0),
                        PushOutcome::Known => out.push(1),
                        PushOutcome::Refused(why) => {
                            out.push(2);
                            put_text(out, why);
                        }
                    }
                }
            }
            PushMessage::Later(why, said, pause) => {
                out.push(why.number());
                put_text(out, said);
                let ms = pause.0.clamp(0, MAX_PAUSE.0) / 1_000_000;
                out.extend_from_slice(&(ms as u32).to_be_bytes());
            }
            PushMessage::Refused(why, said) => {
                out.push(why.number());
                put_text(out, said);
            }
        }
    }

    /// Parses the body of a message of type `kind`. Bytes after the known fields belong to a later version
    /// and are ignored.
    pub fn decode(kind: u8, body: &[u8]) -> Result<PushMessage, WireError> {
        let r = &mut Reader::new(body);
        Ok(match kind {
            ChannelHello::KIND => PushMessage::Hello(ChannelHello::decode(MAGIC, r)?),
            2 => PushMessage::Proof(r.array()?),
            3 => PushMessage::Welcome,
            4 => PushMessage::State(SpoolState { waiting: r.u64()?, dropped: r.u64()? }),
            5 => {
                let one =
                    |r: &mut Reader<'_>| Ok(PushOffer { number: r.u64()?, hash: hash(r)?, length: r.u64()? });
                PushMessage::Offer(list(r, one)?)
            }
            6 => PushMessage::Want(list(r, |r| Ok(r.u64()?))?),
            7 => PushMessage::Test(r.u64()?, About::decode(r)?),
            8 => PushMessage::Piece(r.rest().to_vec()),
            9 => PushMessage::Whole,
            10 => PushMessage::Gone(r.u64()?),
            11 => PushMessage::Settled(list(r, |r| Ok((r.u64()?, outcome(r)?)))?),
            12 => {
                let (why, said) = (PushRefusal::of(r.u8()?), text(r)?);
                PushMessage::Later(why, said, Span::millis(r.u32()?.into()).min(MAX_PAUSE))
            }
            13 => PushMessage::Alive,
            14 => PushMessage::Bye,
            15 => PushMessage::Refused(PushRefusal::of(r.u8()?), text(r)?),
            other => return Err(WireError::Unknown(other)),
        })
    }
}

fn outcome(r: &mut Reader<'_>) -> Result<PushOutcome, WireError> {
    match r.u8()? {
        0 => Ok(PushOutcome::Stored),
        1 => Ok(PushOutcome::Known),
        2 => Ok(PushOutcome::Refused(text(r)?)),
        _ => Err(WireError::Value("outcome")),
    }
}
