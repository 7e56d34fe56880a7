//! Packets: little-endian fields in a fixed order; optional fields may be absent. The fields of an echo
//! depend on the parameters of its session.

use super::params::{IrttParams, ServerClocks, StampAt};
use crate::wire::{Field, FieldType, LittleEndian};
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

/// First bytes of every packet.
pub(crate) const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
/// Length of the shortest packet without HMAC, in bytes.
pub(crate) const MIN_LEN: usize = field::HMAC.start();
/// Length of an HMAC, in bytes.
pub(crate) const HMAC_LEN: usize = 16;
/// Length of a session's token, in bytes.
pub(crate) const TOKEN_LEN: usize = 8;

/// Bits of the octet after the magic bytes.
pub mod flag {
    /// Opens a session.
    pub const OPEN: u8 = 1;
    /// Sent by the server.
    pub const REPLY: u8 = 2;
    /// Ends a session. With [`OPEN`], asks whether a session could be opened.
    pub const CLOSE: u8 = 4;
    /// An HMAC follows.
    pub const HMAC: u8 = 8;
    /// All bits; a packet with any other bit is invalid.
    pub const ALL: u8 = OPEN | REPLY | CLOSE | HMAC;
}

/// Fields before the token.
mod field {
    use super::HMAC_LEN;
    use crate::wire::Field;
    pub(crate) const MAGIC: Field<[u8; 3]> = Field::at(0);
    pub const FLAGS: Field<u8> = MAGIC.then();
    /// Offset of the HMAC, or of the next field in packets without one.
    pub const HMAC: Field<[u8; HMAC_LEN]> = FLAGS.then();
}

/// HMAC key that a server shares with its clients.
#[derive(Clone, PartialEq, Eq)]
pub struct IrttKey(Vec<u8>);

impl IrttKey {
    /// Parses a key in the format of irtt's `--hmac`: text, or hexadecimal after `0x`. Returns `None` if the
    /// hexadecimal is invalid.
    pub fn new(text: &str) -> Option<IrttKey> {
        let Some(digits) = text.strip_prefix("0x") else { return Some(IrttKey(text.as_bytes().to_vec())) };
        let digit = |c: &u8| char::from(*c).to_digit(16).map(|d| d as u8);
        let pairs = digits.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?));
        bytes.collect::<Option<Vec<u8>>>().map(IrttKey)
    }

    /// True if the packet was authenticated with this key. Takes constant time.
    pub(crate) fn has_signed(&self, packet: &[u8]) -> bool {
        let tag = field::HMAC.read(packet);
        tag.is_some_and(|tag| self.mac(packet).verify_slice(&tag).is_ok())
    }

    /// Computes the HMAC of a packet whose HMAC field is zero and whose HMAC flag is set.
    fn mac(&self, packet: &[u8]) -> Hmac<Md5> {
        // HMAC accepts keys of any length, so this cannot fail.
        <Hmac<Md5> as KeyInit>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("any key length is legal"))
            .chain_update(&packet[..field::HMAC.start()])
            .chain_update([0; HMAC_LEN])
            .chain_update(&packet[field::HMAC.end()..])
    }
}

impl fmt::Debug for IrttKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Appends the first fields to `out`, with space for the HMAC if there is a `key`. [`sign`] must be called
/// once the packet is complete.
pub fn begin(flags: u8, key: Option<&IrttKey>, out: &mut Vec<u8>) {
    out.extend(MAGIC);
    match key {
        Some(_) => {
            out.push(flags | flag::HMAC);
            out.extend([0; HMAC_LEN]);
        }
        None => out.push(flags),
    }
}

/// Writes the HMAC into a packet that was created by [`begin`] with the same key; does nothing without a key.
pub fn sign(key: Option<&IrttKey>, packet: &mut [u8]) {
    if let Some(key) = key
        && packet.len() >= field::HMAC.end()
    {
        let tag = key.mac(packet).finalize().into_bytes();
        field::HMAC.write(packet, tag.into());
    }
}

/// Reason why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IrttPacketError {
    /// The datagram belongs to another protocol or is truncated.
    Foreign,
    /// The HMAC is wrong or missing, or present although no key was set.
    Forged,
}

/// A packet: its flags without the HMAC flag, and the fields after the HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrttPacket<'a> {
    /// Bits of [`flag`].
    pub flags: u8,
    /// The token and all bytes after it. An open request has no token.
    pub body: &'a [u8],
}

impl<'a> IrttPacket<'a> {
    /// Parses the first fields and verifies the HMAC.
    pub fn parse(datagram: &'a [u8], key: Option<&IrttKey>) -> Result<IrttPacket<'a>, IrttPacketError> {
        let packet = IrttPacket::read(datagram, key.is_some())?;
        match key {
            Some(key) if !key.has_signed(datagram) => Err(IrttPacketError::Forged),
            _ => Ok(packet),
        }
    }

    /// Parses the first fields without verifying the HMAC. `signed` is true if the packet has one; see
    /// [`IrttKey::has_signed`].
    pub(crate) fn read(datagram: &'a [u8], signed: bool) -> Result<IrttPacket<'a>, IrttPacketError> {
        let flags = field::FLAGS.read(datagram).ok_or(IrttPacketError::Foreign)?;
        if field::MAGIC.read(datagram) != Some(MAGIC) || flags & !flag::ALL != 0 {
            return Err(IrttPacketError::Foreign);
        }
        if signed != (flags & flag::HMAC != 0) {
            return Err(IrttPacketError::Forged);
        }
        let start = if signed { field::HMAC.end() } else { field::HMAC.start() };
        let body = datagram.get(start..).ok_or(IrttPacketError::Foreign)?;
        Ok(IrttPacket { flags: flags & !flag::HMAC, body })
    }

    /// Returns the session's token and the bytes after it; `None` if the packet is too short.
    pub fn token(&self) -> Option<(u64, &'a [u8])> {
        let (token, rest) = self.body.split_first_chunk::<TOKEN_LEN>()?;
        Some((u64::from_le_bytes(*token), rest))
    }
}

/// Layout of an echo's fields after the token.
#[derive(Clone, Debug, Default)]
pub(crate) struct EchoLayout {
    count: Option<Field<LittleEndian<u32>>>,
    window: Option<Field<LittleEndian<u64>>>,
    receive: ClockFields,
    midpoint: ClockFields,
    send: ClockFields,
    /// Length of the header, which is the offset of the payload.
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct ClockFields {
    wall: Option<Field<LittleEndian<i64>>>,
    monotonic: Option<Field<LittleEndian<i64>>>,
}

impl ClockFields {
    fn read(&self, body: &[u8]) -> ServerInstant {
        let time = |at: Option<Field<_>>| at?.read(body).map(|LittleEndian(t)| t).filter(|t| *t != 0);
        ServerInstant { wall: time(self.wall), monotonic: time(self.monotonic) }
    }

    fn write(&self, instant: ServerInstant, body: &mut [u8]) {
        for (at, time) in [(self.wall, instant.wall), (self.monotonic, instant.monotonic)] {
            if let Some(at) = at {
                at.write(body, LittleEndian(time.unwrap_or(0)));
            }
        }
    }
}

/// The sequence number is always the first field.
const SEQ: Field<LittleEndian<u32>> = Field::at(0);

/// Readings of the server's clocks. On the wire, missing values are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerInstant {
    /// Wall clock, ns since 1970 UTC; `None` if missing.
    pub wall: Option<i64>,
    /// Monotonic clock, ns since the server was started; `None` if missing.
    pub monotonic: Option<i64>,
}

/// Fields of an echo, except for the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoFields {
    /// Sequence number of the request.
    pub seq: u32,
    /// Number of requests received so far, duplicates included.
    pub count: u32,
    /// Bit k is set if request seq − k was received. Without bit 0 the window is unknown.
    pub window: u64,
    /// Time at which the request was received.
    pub received: ServerInstant,
    /// Time halfway between reception and answer.
    pub midpoint: ServerInstant,
    /// Time at which the answer was sent.
    pub sent: ServerInstant,
}

impl EchoLayout {
    /// Returns the layout of echoes in a session with these parameters.
    pub fn new(params: &IrttParams) -> EchoLayout {
        EchoLayout::with_clocks(params, params.clocks)
    }

    /// Returns the layout with both clocks of a midpoint although only one was negotiated, as irtt's server
    /// sends it; `None` if no midpoint, or both of its clocks, were negotiated.
    pub(crate) fn with_both_midpoints(params: &IrttParams) -> Option<EchoLayout> {
        let odd = params.stamp_at == StampAt::Midpoint && params.clocks != ServerClocks::Both;
        odd.then(|| EchoLayout::with_clocks(params, ServerClocks::Both))
    }

    fn with_clocks(params: &IrttParams, clocks: ServerClocks) -> EchoLayout {
        fn take<T: FieldType>(len: &mut usize, wanted: bool) -> Option<Field<T>> {
            let field = Field::at(*len);
            wanted.then(|| {
                *len = field.end();
                field
            })
        }
        let mut len = SEQ.end();
        let count = take(&mut len, params.stats.has_count());
        let window = take(&mut len, params.stats.has_window());
        let at = params.stamp_at;
        let mut stamps = |wanted: bool| ClockFields {
            wall: take(&mut len, wanted && clocks.has_wall()),
            monotonic: take(&mut len, wanted && clocks.has_monotonic()),
        };
        let receive = stamps(matches!(at, StampAt::Receive | StampAt::Both));
        let midpoint = stamps(at == StampAt::Midpoint);
        let send = stamps(matches!(at, StampAt::Send | StampAt::Both));
        EchoLayout { count, window, receive, midpoint, send, len }
    }

    /// Returns the length of a packet without payload, in bytes.
    pub(crate) fn packet_len(&self, key: Option<&IrttKey>) -> usize {
        let hmac = if key.is_some() { HMAC_LEN } else { 0 };
        field::HMAC.start() + hmac + TOKEN_LEN + self.len
    }

    /// Returns the length of the fields, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reads the fields at the front of `body`, which follows the token; `None` if `body` is too short.
    pub fn read(&self, body: &[u8]) -> Option<EchoFields> {
        let body = body.get(..self.len)?;
        let LittleEndian(seq) = SEQ.read(body)?;
        Some(EchoFields {
            seq,
            count: self.count.and_then(|at| at.read(body)).map_or(0, |LittleEndian(count)| count),
            window: self.window.and_then(|at| at.read(body)).map_or(0, |LittleEndian(window)| window),
            received: self.receive.read(body),
            midpoint: self.midpoint.read(body),
            sent: self.send.read(body),
        })
    }

    /// Appends the fields to `out`. In a request, all fields except the sequence number are zero.
    pub fn write(&self, echo: &EchoFields, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.len, 0);
        let body = &mut out[start..];
        SEQ.write(body, LittleEndian(echo.seq));
        if let Some(at) = self.count {
            at.write(body, LittleEndian(echo.count));
        }
        if let Some(at) = self.window {
            at.write(body, LittleEndian(echo.window));
        }
        self.receive.write(echo.received, body);
        self.midpoint.write(echo.midpoint, body);
        self.send.write(echo.sent, body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::irtt::params::ReceiveStats;

    /// The expected lengths are those of recorded packets.
    #[test]
    fn lengths_follow_from_the_parameters() {
        let len = |stats, stamp_at, clocks| {
            let params = IrttParams { stats, stamp_at, clocks, ..IrttParams::default() };
            EchoLayout::new(&params).packet_len(None)
        };
        use {ReceiveStats, ServerClocks, StampAt as A};
        let cases = [
            (60, ReceiveStats::Both, A::Both, ServerClocks::Both),
            (48, ReceiveStats::None, A::Both, ServerClocks::Both),
            (52, ReceiveStats::Count, A::Both, ServerClocks::Both),
            (56, ReceiveStats::Window, A::Both, ServerClocks::Both),
            (28, ReceiveStats::Both, A::None, ServerClocks::Both),
            (44, ReceiveStats::Both, A::Send, ServerClocks::Both),
            (44, ReceiveStats::Both, A::Midpoint, ServerClocks::Both),
            (44, ReceiveStats::Both, A::Both, ServerClocks::Monotonic),
            (36, ReceiveStats::Both, A::Midpoint, ServerClocks::Wall),
            (16, ReceiveStats::None, A::None, ServerClocks::None),
        ];
        for (wanted, stats, at, clocks) in cases {
            assert_eq!(len(stats, at, clocks), wanted, "{stats:?} {at:?} {clocks:?}");
        }
        let keyed = EchoLayout::new(&IrttParams::default()).packet_len(IrttKey::new("k").as_ref());
        assert_eq!(keyed, 32);
    }

    #[test]
    fn keys_are_text_or_hexadecimal() {
        assert_eq!(IrttKey::new("0x00ff"), Some(IrttKey(vec![0, 255])));
        assert_eq!(IrttKey::new("ff"), Some(IrttKey(b"ff".to_vec())));
        assert_eq!((IrttKey::new("0x0"), IrttKey::new("0xzz")), (None, None));
        assert_eq!(format!("{:?}", IrttKey::new("secret")), "Some(Key(…))");
    }

    #[test]
    fn an_hmac_is_there_exactly_where_there_is_a_key() {
        let (key, other) = (IrttKey::new("one"), IrttKey::new("two"));
        let mut packet = Vec::new();
        begin(flag::CLOSE, key.as_ref(), &mut packet);
        packet.extend([7; 8]);
        sign(key.as_ref(), &mut packet);
        let read = IrttPacket::parse(&packet, key.as_ref()).unwrap();
        assert_eq!((read.flags, read.token()), (flag::CLOSE, Some((0x0707_0707_0707_0707, &[][..]))));
        assert_eq!(IrttPacket::parse(&packet, other.as_ref()), Err(IrttPacketError::Forged));
        assert_eq!(IrttPacket::parse(&packet, None), Err(IrttPacketError::Forged));
        packet[22] ^= 1;
        assert_eq!(IrttPacket::parse(&packet, key.as_ref()), Err(IrttPacketError::Forged));
        let mut open = Vec::new();
        begin(flag::OPEN, None, &mut open);
        assert_eq!(IrttPacket::parse(&open, key.as_ref()), Err(IrttPacketError::Forged));
        assert!(IrttPacket::parse(&open, None).is_ok());
        for bad in [&open[..3], &[0x14, 0xa7, 0x5b, 16], &[0x14, 0xa7, 0x5c, 1], &packet[..19]] {
            assert!(IrttPacket::parse(bad, key.as_ref()).is_err() && IrttPacket::parse(bad, None).is_err());
        }
    }
}
