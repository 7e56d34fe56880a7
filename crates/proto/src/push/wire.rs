//! The messages and their encoding. Every length is checked before anything is read or allocated.

use super::{MAX_OPEN, MAX_PAUSE, MAX_PIECE, MAX_TAGS};
pub use crate::channel::WireError;
use crate::channel::{ChannelHello, put_text, text};
use crate::wire::Reader;
use jitlat_core::time::Span;

/// What a conversation begins with.
pub(crate) const MAGIC: [u8; 4] = *b"JLTP";

/// A test that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushOffer {
    /// Its number at the sender, by which it is called in this conversation.
    pub number: u64,
    /// XXH3-128 of its log.
    pub hash: u128,
    /// Bytes of its log.
    pub length: u64,
}

/// What comes with a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the log.
    pub source: String,
    /// Its tags.
    pub tags: Vec<(String, String)>,
}

/// What a sender says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolState {
    /// Tests that wait.
    pub waiting: u64,
    /// Tests that were dropped because they were too old, ever.
    pub dropped: u64,
}

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// It is on the collector's disk now.
    Stored,
    /// The collector had it already.
    Known,
    /// The collector does not take it, now and later: why.
    Refused(String),
}

/// Why a collector takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    /// It speaks another version.
    #[error("it speaks another version of the protocol")]
    Version,
    /// The key is missing or wrong.
    #[error("it does not have this host's key")]
    Key,
    /// It has too many connections, or too little memory left.
    #[error("it is busy")]
    Busy,
    /// Its disk is full.
    #[error("its disk is full")]
    Full,
    /// It is being stopped.
    #[error("it is being stopped")]
    Stopping,
    /// Something else.
    #[error("it failed")]
    Failed,
}

impl PushRefusal {
    /// All, in the order of their numbers.
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

/// A message. Numbers as in `docs/protocols/push.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushMessage {
    /// 1, both ways.
    Hello(ChannelHello),
    /// 2, both ways: a proof of the key.
    Proof([u8; 32]),
    /// 3, from the collector: tests may be offered.
    Welcome,
    /// 4, to the collector.
    State(SpoolState),
    /// 5, to the collector: tests that it may want.
    Offer(Vec<PushOffer>),
    /// 6, from the collector: send these, in this order. It has room for as many bytes as they have.
    Want(Vec<u64>),
    /// 7, to the collector: the log of this test follows.
    Test(u64, About),
    /// 8, to the collector: a piece of that log, compressed.
    Piece(Vec<u8>),
    /// 9, to the collector: the log is whole.
    Whole,
    /// 10, to the collector: this test cannot be sent; what came of it is void.
    Gone(u64),
    /// 11, from the collector: what became of tests.
    Settled(Vec<(u64, PushOutcome)>),
    /// 12, from the collector: nothing more is taken on this connection; try again after this time.
    Later(PushRefusal, String, Span),
    /// 13, both ways: keep-alive.
    Alive,
    /// 14, to the collector: nothing more will be offered.
    Bye,
    /// 15, from the collector: refusal before anything was offered.
    Refused(PushRefusal, String),
}

/// Appends a text of up to 65 535 bytes.
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

/// Reads a list of at most [`MAX_OPEN`].
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
    /// Whether it fits into a message.
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
    /// Its number.
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

    /// Appends its body.
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

    /// Parses the body of message `kind`. Bytes after the known fields belong to a later version, and are ignored.
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
