//! The test packets (RFC 5357 §4.1.2 and §4.2.1, RFC 8762 §4.2 and §4.3): one codec for STAMP, TWAMP
//! Light and TWAMP-Test.
//!
//! Times stay the 64-bit fields they are on the wire; the error estimate beside each says how to read it.

use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Where the fields lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Unauthenticated.
    Clear,
    /// The layout of STAMP's authenticated mode and of TWAMP's authenticated and encrypted modes.
    Keyed,
}

impl Layout {
    /// Bytes of a STAMP base packet, either way: longer ones carry TLVs or padding.
    pub const fn base(self) -> usize {
        match self {
            Layout::Clear => 44,
            Layout::Keyed => 112,
        }
    }

    /// Bytes of the shortest request (TWAMP without padding).
    pub const fn shortest_request(self) -> usize {
        match self {
            Layout::Clear => 14,
            Layout::Keyed => 48,
        }
    }

    /// Bytes of the shortest complete answer.
    pub const fn shortest_answer(self) -> usize {
        match self {
            Layout::Clear => 41,
            Layout::Keyed => 112,
        }
    }
}

fn u16_at(p: &[u8], at: usize) -> Option<u16> {
    p.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

fn u32_at(p: &[u8], at: usize) -> Option<u32> {
    p.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

fn u64_at(p: &[u8], at: usize) -> Option<u64> {
    p.get(at..)?.first_chunk().map(|b| u64::from_be_bytes(*b))
}

/// Writes `bytes` at `at` if the packet reaches that far.
fn put(p: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = p.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// What a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Sequence number.
    pub seq: u32,
    /// T1, as [`error`](Self::error) says.
    pub sent: u64,
    /// Of the sender's clock.
    pub error: ErrorEstimate,
    /// STAMP session identifier (RFC 8972); of a TWAMP sender, the first two bytes of padding. 0 where
    /// the packet ends before it.
    pub ssid: u16,
}

impl Request {
    /// The request at the front of `packet`; `None` if it is too short for one.
    pub fn parse(layout: Layout, packet: &[u8]) -> Option<Request> {
        let (sent, error, ssid) = request_fields(layout);
        if packet.len() < layout.shortest_request() {
            return None;
        }
        Some(Request {
            seq: u32_at(packet, 0)?,
            sent: u64_at(packet, sent)?,
            error: ErrorEstimate(u16_at(packet, error)?),
            ssid: u16_at(packet, ssid).unwrap_or(0),
        })
    }

    /// Writes the fields into `packet`, whose other bytes (reserved ones, padding, TLVs) stay as they
    /// are. Fields beyond its end are left out.
    pub fn write(&self, layout: Layout, packet: &mut [u8]) {
        let (sent, error, ssid) = request_fields(layout);
        put(packet, 0, &self.seq.to_be_bytes());
        put(packet, sent, &self.sent.to_be_bytes());
        put(packet, error, &self.error.0.to_be_bytes());
        put(packet, ssid, &self.ssid.to_be_bytes());
    }

    /// When it was sent, if its time field is a time.
    pub fn sent_at(&self, near: WallTime) -> Option<WallTime> {
        self.error.decode(self.sent, near)
    }
}

/// Offsets of T1, error estimate and SSID in a request.
const fn request_fields(layout: Layout) -> (usize, usize, usize) {
    match layout {
        Layout::Clear => (4, 12, 14),
        Layout::Keyed => (16, 24, 26),
    }
}

/// What a reflector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The reflector's own count of answers, or a copy of the sender's number where it keeps none.
    pub seq: u32,
    /// T3, as [`error`](Self::error) says.
    pub answered: u64,
    /// Of the reflector's clock, for both its times.
    pub error: ErrorEstimate,
    /// Copy of the request's.
    pub ssid: u16,
    /// T2, as [`error`](Self::error) says.
    pub arrived: u64,
    /// Copy of the request's sequence number.
    pub sender_seq: u32,
    /// Copy of T1, as [`sender_error`](Self::sender_error) says.
    pub sender_sent: u64,
    /// Copy of the request's error estimate.
    pub sender_error: ErrorEstimate,
    /// Time to live the request arrived with; `None` where the reflector could not tell (255 on the wire
    /// means either) or its answer ends before this field, as some do.
    pub sender_ttl: Option<u8>,
}

/// Offsets of the fields of an answer.
struct AnswerFields {
    answered: usize,
    error: usize,
    ssid: usize,
    arrived: usize,
    sender_seq: usize,
    sender_sent: usize,
    sender_error: usize,
    sender_ttl: usize,
}

const fn answer_fields(layout: Layout) -> AnswerFields {
    match layout {
        Layout::Clear => AnswerFields {
            answered: 4,
            error: 12,
            ssid: 14,
            arrived: 16,
            sender_seq: 24,
            sender_sent: 28,
            sender_error: 36,
            sender_ttl: 40,
        },
        Layout::Keyed => AnswerFields {
            answered: 16,
            error: 24,
            ssid: 26,
            arrived: 32,
            sender_seq: 48,
            sender_sent: 64,
            sender_error: 72,
            sender_ttl: 80,
        },
    }
}

impl Answer {
    /// The answer at the front of `packet`; `None` if it ends before the copy of the sender's error
    /// estimate. (38 bytes: a widely used reflector leaves out what follows.)
    pub fn parse(layout: Layout, packet: &[u8]) -> Option<Answer> {
        let f = answer_fields(layout);
        Some(Answer {
            seq: u32_at(packet, 0)?,
            answered: u64_at(packet, f.answered)?,
            error: ErrorEstimate(u16_at(packet, f.error)?),
            ssid: u16_at(packet, f.ssid)?,
            arrived: u64_at(packet, f.arrived)?,
            sender_seq: u32_at(packet, f.sender_seq)?,
            sender_sent: u64_at(packet, f.sender_sent)?,
            sender_error: ErrorEstimate(u16_at(packet, f.sender_error)?),
            sender_ttl: packet.get(f.sender_ttl).copied(),
        })
    }

    /// Writes the fields into `packet`, whose other bytes stay as they are. Fields beyond its end are
    /// left out.
    pub fn write(&self, layout: Layout, packet: &mut [u8]) {
        let f = answer_fields(layout);
        put(packet, 0, &self.seq.to_be_bytes());
        put(packet, f.answered, &self.answered.to_be_bytes());
        put(packet, f.error, &self.error.0.to_be_bytes());
        put(packet, f.ssid, &self.ssid.to_be_bytes());
        put(packet, f.arrived, &self.arrived.to_be_bytes());
        put(packet, f.sender_seq, &self.sender_seq.to_be_bytes());
        put(packet, f.sender_sent, &self.sender_sent.to_be_bytes());
        put(packet, f.sender_error, &self.sender_error.0.to_be_bytes());
        put(packet, f.sender_ttl, &[self.sender_ttl.unwrap_or(255)]);
    }
}

/// Whether `packet`, sent to a reflector, is itself an answer: two reflectors must not answer each
/// other for ever. Where an answer has T2, at most a second before its T3, a request has zeros or
/// padding; random padding looks like that once in two thousand million packets.
pub fn is_answer(layout: Layout, packet: &[u8]) -> bool {
    let f = answer_fields(layout);
    if packet.len() < f.sender_error {
        return false;
    }
    match (u32_at(packet, f.answered), u32_at(packet, f.arrived)) {
        (Some(t3), Some(t2)) => t2 != 0 && t3.wrapping_sub(t2) <= 1,
        _ => false,
    }
}
