//! The test packets (RFC 5357 §4.1.2 and §4.2.1, RFC 8762 §4.2 and §4.3): one codec for STAMP, TWAMP
//! Light and TWAMP-Test.
//!
//! Times stay the 64-bit fields they are on the wire; the error estimate with each says how to interpret it.

use crate::wire::Field;
use core::ops::Range;
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Where the fields lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampLayout {
    /// Unauthenticated.
    Clear,
    /// The layout of STAMP's authenticated mode and of TWAMP's authenticated and encrypted modes.
    Keyed,
}

impl StampLayout {
    /// Bytes of a STAMP base packet, either way: longer ones carry TLVs or padding.
    pub const fn base(self) -> usize {
        match self {
            StampLayout::Clear => 44,
            StampLayout::Keyed => 112,
        }
    }

    /// Bytes of the shortest request (TWAMP without padding).
    pub(crate) const fn shortest_request(self) -> usize {
        match self {
            StampLayout::Clear => 14,
            StampLayout::Keyed => 48,
        }
    }

    /// Bytes of the shortest answer of which a sender can say which request it answers, and which a reflector recognises
    /// as an answer. (The field after them is the request's TTL, which a widely used reflector omits.)
    pub(crate) const fn least_answer(self) -> usize {
        match self {
            StampLayout::Clear => 38,
            StampLayout::Keyed => 112,
        }
    }

    /// Bytes of the shortest complete answer.
    pub(crate) const fn shortest_answer(self) -> usize {
        match self {
            StampLayout::Clear => 41,
            StampLayout::Keyed => 112,
        }
    }
}

/// The fields of both packets in one layout. Those of a request are also at the beginning of an answer.
struct StampFields {
    /// Sequence number: the sender's in a request, the reflector's in an answer.
    seq: Field<u32>,
    /// T1 of a request, T3 of an answer.
    time: Field<u64>,
    error: Field<u16>,
    ssid: Field<u16>,
    /// Of an answer: T2, then copies from the request.
    arrived: Field<u64>,
    sender_seq: Field<u32>,
    sender_time: Field<u64>,
    sender_error: Field<u16>,
    sender_ttl: Field<u8>,
    /// Bytes of a STAMP request that are zero; in a TWAMP request they are padding.
    reserved: Range<usize>,
}

static CLEAR: StampFields = StampFields {
    seq: Field::at(0),
    time: Field::at(4),
    error: Field::at(12),
    ssid: Field::at(14),
    arrived: Field::at(16),
    sender_seq: Field::at(24),
    sender_time: Field::at(28),
    sender_error: Field::at(36),
    sender_ttl: Field::at(40),
    reserved: 16..44,
};

static KEYED: StampFields = StampFields {
    seq: Field::at(0),
    time: Field::at(16),
    error: Field::at(24),
    ssid: Field::at(26),
    arrived: Field::at(32),
    sender_seq: Field::at(48),
    sender_time: Field::at(64),
    sender_error: Field::at(72),
    sender_ttl: Field::at(80),
    reserved: 28..96,
};

impl StampLayout {
    fn fields(self) -> &'static StampFields {
        match self {
            StampLayout::Clear => &CLEAR,
            StampLayout::Keyed => &KEYED,
        }
    }
}

/// What a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampRequest {
    /// Sequence number.
    pub seq: u32,
    /// T1, as [`error`](Self::error) says.
    pub sent: u64,
    /// Of the sender's clock.
    pub error: ErrorEstimate,
    /// STAMP session identifier (RFC 8972); for a TWAMP sender, the first two bytes of padding. 0 if the packet ends
    /// before it.
    pub ssid: u16,
}

impl StampRequest {
    /// The request at the front of `packet`; `None` if it is too short for one.
    pub fn parse(layout: StampLayout, packet: &[u8]) -> Option<StampRequest> {
        let f = layout.fields();
        if packet.len() < layout.shortest_request() {
            return None;
        }
        Some(StampRequest {
            seq: f.seq.read(packet)?,
            sent: f.time.read(packet)?,
            error: ErrorEstimate(f.error.read(packet)?),
            ssid: f.ssid.read(packet).unwrap_or(0),
        })
    }

    /// Writes the fields into `packet`, whose other bytes (reserved ones, padding, TLVs) stay as they
    /// are. Fields beyond its end are left out.
    pub fn write(&self, layout: StampLayout, packet: &mut [u8]) {
        let f = layout.fields();
        f.seq.write(packet, self.seq);
        f.time.write(packet, self.sent);
        f.error.write(packet, self.error.0);
        f.ssid.write(packet, self.ssid);
    }

    /// When it was sent; `None` if its time field is not a time.
    pub fn sent_at(&self, near: WallTime) -> Option<WallTime> {
        self.error.decode(self.sent, near)
    }
}

/// A reflector's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampAnswer {
    /// The reflector's own count of answers, or a copy of the sender's number if it keeps none.
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
    /// TTL of the request on arrival; `None` if the reflector could not read it (255 on the wire may mean either) or if
    /// its answer ends before this field, as some do.
    pub sender_ttl: Option<u8>,
}

impl StampAnswer {
    /// The answer at the front of `packet`; `None` if it ends before the copy of the sender's error estimate. (38
    /// bytes: a widely used reflector omits what follows.)
    pub fn parse(layout: StampLayout, packet: &[u8]) -> Option<StampAnswer> {
        let f = layout.fields();
        Some(StampAnswer {
            seq: f.seq.read(packet)?,
            answered: f.time.read(packet)?,
            error: ErrorEstimate(f.error.read(packet)?),
            ssid: f.ssid.read(packet)?,
            arrived: f.arrived.read(packet)?,
            sender_seq: f.sender_seq.read(packet)?,
            sender_sent: f.sender_time.read(packet)?,
            sender_error: ErrorEstimate(f.sender_error.read(packet)?),
            sender_ttl: f.sender_ttl.read(packet),
        })
    }

    /// Writes the fields into `packet`, whose other bytes stay as they are. Fields beyond its end are
    /// left out.
    pub fn write(&self, layout: StampLayout, packet: &mut [u8]) {
        let f = layout.fields();
        f.seq.write(packet, self.seq);
        f.time.write(packet, self.answered);
        f.error.write(packet, self.error.0);
        f.ssid.write(packet, self.ssid);
        f.arrived.write(packet, self.arrived);
        f.sender_seq.write(packet, self.sender_seq);
        f.sender_time.write(packet, self.sender_sent);
        f.sender_error.write(packet, self.sender_error.0);
        f.sender_ttl.write(packet, self.sender_ttl.unwrap_or(255));
    }
}

/// Whether the reserved bytes of a request are there and zero: then it is STAMP, and the bytes at the position of a session
/// identifier are one. A TWAMP sender has padding there.
pub(crate) fn is_stamp(layout: StampLayout, request: &[u8]) -> bool {
    let reserved = request.get(layout.fields().reserved.clone());
    request.len() >= layout.base() && reserved.is_some_and(|reserved| reserved.iter().all(|b| *b == 0))
}

/// The error estimate of answers below [`StampLayout::least_answer`], in either time format: nothing is known of the clock. Such
/// an answer has no other mark by which a reflector recognises it: these two estimates in a request so short mean an answer.
pub(crate) const TRUNCATED: ErrorEstimate = ErrorEstimate(0x3ffe);

/// Whether `packet`, sent to a reflector, is itself an answer: two reflectors must not answer each other for ever.
/// Where an answer has T2, at most a second before its T3, a request has zeros or padding; random padding looks like
/// that once in two thousand million packets.
pub(crate) fn is_answer(layout: StampLayout, packet: &[u8]) -> bool {
    let f = layout.fields();
    if packet.len() < layout.least_answer() {
        let error = f.error.read(packet).map(ErrorEstimate);
        return error.is_some_and(|error| error == TRUNCATED.with_format(error.format()));
    }
    // The seconds of both times.
    let seconds = |time: Field<u64>| time.read(packet).map(|t| (t >> 32) as u32);
    match (seconds(f.time), seconds(f.arrived)) {
        (Some(t3), Some(t2)) => t2 != 0 && t3.wrapping_sub(t2) <= 1,
        _ => false,
    }
}
