//! Test packets (RFC 5357 §4.1.2 and §4.2.1, RFC 8762 §4.2 and §4.3): one codec for STAMP, TWAMP Light and
//! TWAMP-Test.
//!
//! Times are the 64-bit fields on the wire; their format is determined by the error estimates.

use crate::wire::Field;
use core::ops::Range;
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Layout of the fields in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampLayout {
    /// Unauthenticated mode.
    Clear,
    /// STAMP's authenticated mode, and TWAMP's authenticated and encrypted modes.
    Keyed,
}

impl StampLayout {
    /// Returns the length of a STAMP base packet in bytes, which is the same in both directions. Longer
    /// packets carry TLVs or padding.
    pub const fn base(self) -> usize {
        match self {
            StampLayout::Clear => 44,
            StampLayout::Keyed => 112,
        }
    }

    /// Returns the length of the shortest request (TWAMP without padding), in bytes.
    pub(crate) const fn shortest_request(self) -> usize {
        match self {
            StampLayout::Clear => 14,
            StampLayout::Keyed => 48,
        }
    }

    /// Returns the length in bytes of the shortest answer that a sender can assign to a request, and that a
    /// reflector can recognise as an answer. The next field is the TTL of the request, which a widely used
    /// reflector omits.
    pub(crate) const fn least_answer(self) -> usize {
        match self {
            StampLayout::Clear => 38,
            StampLayout::Keyed => 112,
        }
    }

    /// Returns the length of the shortest complete answer, in bytes.
    pub(crate) const fn shortest_answer(self) -> usize {
        match self {
            StampLayout::Clear => 41,
            StampLayout::Keyed => 112,
        }
    }
}

/// Fields of requests and answers in one layout. An answer begins with the same fields as a request.
struct StampFields {
    /// Sequence number: the sender's in a request, the reflector's in an answer.
    seq: Field<u32>,
    /// T1 in a request, T3 in an answer.
    time: Field<u64>,
    error: Field<u16>,
    ssid: Field<u16>,
    /// T2 in an answer; copies of the request's fields follow.
    arrived: Field<u64>,
    sender_seq: Field<u32>,
    sender_time: Field<u64>,
    sender_error: Field<u16>,
    sender_ttl: Field<u8>,
    /// Bytes that are zero in a STAMP request, and padding in a TWAMP request.
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

/// Fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampRequest {
    /// Sequence number.
    pub seq: u32,
    /// T1, in the format that [`error`](Self::error) determines.
    pub sent: u64,
    /// Error estimate of the sender's clock.
    pub error: ErrorEstimate,
    /// STAMP session identifier (RFC 8972). In TWAMP, these are the first two bytes of padding. 0 if the
    /// packet is too short.
    pub ssid: u16,
}

impl StampRequest {
    /// Parses the request at the front of `packet`; `None` if the packet is too short.
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

    /// Writes the fields into `packet`, and leaves other bytes (reserved, padding, TLVs) unchanged. Fields
    /// beyond the end of `packet` are omitted.
    pub fn write(&self, layout: StampLayout, packet: &mut [u8]) {
        let f = layout.fields();
        f.seq.write(packet, self.seq);
        f.time.write(packet, self.sent);
        f.error.write(packet, self.error.0);
        f.ssid.write(packet, self.ssid);
    }

    /// Returns the send time; `None` if the time field is not valid.
    pub fn sent_at(&self, near: WallTime) -> Option<WallTime> {
        self.error.decode(self.sent, near)
    }
}

/// Fields of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampAnswer {
    /// Number of the answer, as counted by the reflector. A reflector without a count copies the request's
    /// number.
    pub seq: u32,
    /// T3, in the format that [`error`](Self::error) determines.
    pub answered: u64,
    /// Error estimate of the reflector's clock, for T2 and T3.
    pub error: ErrorEstimate,
    /// Copy of the request's session identifier.
    pub ssid: u16,
    /// T2, in the format that [`error`](Self::error) determines.
    pub arrived: u64,
    /// Copy of the request's sequence number.
    pub sender_seq: u32,
    /// Copy of T1, in the format that [`sender_error`](Self::sender_error) determines.
    pub sender_sent: u64,
    /// Copy of the request's error estimate.
    pub sender_error: ErrorEstimate,
    /// TTL of the request on arrival; `None` if the reflector could not read the TTL (255 on the wire may
    /// also mean this), or if the answer ends before this field, as some do.
    pub sender_ttl: Option<u8>,
}

impl StampAnswer {
    /// Parses the answer at the front of `packet`; `None` if it ends before the copy of the sender's error
    /// estimate, which takes 38 bytes. A widely used reflector omits the rest.
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

    /// Writes the fields into `packet`, and leaves other bytes unchanged. Fields beyond the end of `packet`
    /// are omitted.
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

/// True if the reserved bytes of a request are present and zero: the request is then STAMP and contains a
/// session identifier. TWAMP senders have padding there.
pub(crate) fn is_stamp(layout: StampLayout, request: &[u8]) -> bool {
    let reserved = request.get(layout.fields().reserved.clone());
    request.len() >= layout.base() && reserved.is_some_and(|reserved| reserved.iter().all(|b| *b == 0))
}

/// Error estimate that marks answers shorter than [`StampLayout::least_answer`], in either time format: nothing is
/// known about the clock. A reflector recognises an answer this short only by this error estimate.
pub(crate) const TRUNCATED: ErrorEstimate = ErrorEstimate(0x3ffe);

/// True if `packet`, which was sent to a reflector, is itself an answer: two reflectors must not answer each other
/// forever. An answer has T2, at most a second before its T3, where a request has zeros or padding. Random padding
/// looks like this in one of two billion packets.
pub(crate) fn is_answer(layout: StampLayout, packet: &[u8]) -> bool {
    let f = layout.fields();
    if packet.len() < layout.least_answer() {
        let error = f.error.read(packet).map(ErrorEstimate);
        return error.is_some_and(|error| error == TRUNCATED.with_format(error.format()));
    }
    // Whole seconds of T2 and T3.
    let seconds = |time: Field<u64>| time.read(packet).map(|t| (t >> 32) as u32);
    match (seconds(f.time), seconds(f.arrived)) {
        (Some(t3), Some(t2)) => t2 != 0 && t3.wrapping_sub(t2) <= 1,
        _ => false,
    }
}
