//! The control messages (RFC 5357 §3, RFC 4656 §3) in plain text. Those that end with an HMAC are given
//! without it: [`crypto`](crate::twamp::crypto) appends and checks it, or sixteen zeros in the open mode.
//!
//! What must be zero is written as zero and not looked at.

use crate::wire::{Reader, Truncated};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::ntp::NtpTime;

/// Bytes of the block at the end of most messages.
pub const HMAC_LEN: usize = 16;

/// How a connection and its tests are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Mode {
    /// Nothing is.
    Open = 1,
    /// Control encrypted; of test packets, the sequence number.
    Authenticated = 2,
    /// Control encrypted; test packets too, padding excepted.
    Encrypted = 4,
    /// Control encrypted, test packets in the clear (RFC 5618).
    Mixed = 8,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Open, Mode::Authenticated, Mode::Encrypted, Mode::Mixed];

    /// The mode with exactly these bits.
    pub fn from_bits(bits: u32) -> Option<Mode> {
        Mode::ALL.into_iter().find(|m| *m as u32 == bits)
    }

    /// Whether it needs a user and a passphrase.
    pub fn is_keyed(self) -> bool {
        self != Mode::Open
    }

    /// Whether test packets are encrypted, wholly or in part.
    pub fn protects_test(self) -> bool {
        matches!(self, Mode::Authenticated | Mode::Encrypted)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Open => "open",
            Mode::Authenticated => "authenticated",
            Mode::Encrypted => "encrypted",
            Mode::Mixed => "mixed",
        })
    }
}

/// A set of modes, as the greeting offers them. Bits of extensions may be among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes(pub u32);

impl Modes {
    /// Whether `mode` is among them.
    pub fn contains(self, mode: Mode) -> bool {
        self.0 & mode as u32 != 0
    }

    /// These modes.
    pub fn of(modes: &[Mode]) -> Modes {
        Modes(modes.iter().fold(0, |bits, m| bits | *m as u32))
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            Mode::ALL.iter().filter(|m| self.contains(**m)).map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

/// A server's answer (RFC 4656 §3.3). Codes nobody defined mean failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Accept {
    /// Granted.
    Ok = 0,
    /// Refused without a reason; of a set-up, the usual answer to a wrong user or passphrase.
    Failure = 1,
    /// Something went wrong in the server.
    Internal = 2,
    /// Something that was asked for is not supported.
    Unsupported = 3,
    /// Never granted: beyond a limit.
    Permanent = 4,
    /// Not granted now: the server is busy.
    Temporary = 5,
}

impl From<u8> for Accept {
    fn from(code: u8) -> Accept {
        match code {
            0 => Accept::Ok,
            2 => Accept::Internal,
            3 => Accept::Unsupported,
            4 => Accept::Permanent,
            5 => Accept::Temporary,
            _ => Accept::Failure,
        }
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Accept::Ok => "accepted",
            Accept::Failure => "refused without a reason",
            Accept::Internal => "an internal error there",
            Accept::Unsupported => "something asked for is not supported",
            Accept::Permanent => "more than its limits allow",
            Accept::Temporary => "it has no room at the moment; try later",
        };
        write!(f, "{words} (code {})", *self as u8)
    }
}

/// Name of a session: made by the reflecting side from its address, the time and chance.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid(pub [u8; 16]);

impl Sid {
    /// A name for a session on `address`, made at `now`.
    pub fn new(address: IpAddr, now: NtpTime, random: [u8; 4]) -> Sid {
        let tail = match address {
            IpAddr::V4(a) => a.octets(),
            IpAddr::V6(a) => {
                let [.., w, x, y, z] = a.octets();
                [w, x, y, z]
            }
        };
        let mut sid = [0; 16];
        sid[..4].copy_from_slice(&tail);
        sid[4..12].copy_from_slice(&now.0.to_be_bytes());
        sid[12..].copy_from_slice(&random);
        Sid(sid)
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sid({self})")
    }
}

/// Server-Greeting: the server speaks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// What it offers; none means "go away".
    pub modes: Modes,
    /// Random; comes back inside the token.
    pub challenge: [u8; 16],
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Rounds of the key derivation.
    pub count: u32,
}

impl Greeting {
    /// Bytes on the wire.
    pub const LEN: usize = 64;

    /// From [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<Greeting, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(12)?;
        Ok(Greeting { modes: Modes(r.u32()?), challenge: r.array()?, salt: r.array()?, count: r.u32()? })
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([0; 12]);
        out.extend(self.modes.0.to_be_bytes());
        out.extend(self.challenge);
        out.extend(self.salt);
        out.extend(self.count.to_be_bytes());
        out.extend([0; 12]);
    }
}

/// Set-Up-Response: what the client chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// One mode, if the client keeps to the rules.
    pub mode: u32,
    /// Name of the user, in UTF-8, filled up with zeros.
    pub user: [u8; 80],
    /// The challenge and the session keys, encrypted with the key of the passphrase.
    pub token: [u8; 64],
    /// Initialisation vector of the client's stream.
    pub client_iv: [u8; 16],
}

impl SetUp {
    /// Bytes on the wire.
    pub const LEN: usize = 164;

    /// The open mode, which leaves all else empty.
    pub fn open() -> SetUp {
        SetUp { mode: Mode::Open as u32, user: [0; 80], token: [0; 64], client_iv: [0; 16] }
    }

    /// From [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<SetUp, Truncated> {
        let mut r = Reader::new(bytes);
        Ok(SetUp { mode: r.u32()?, user: r.array()?, token: r.array()?, client_iv: r.array()? })
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.mode.to_be_bytes());
        out.extend(self.user);
        out.extend(self.token);
        out.extend(self.client_iv);
    }
}

/// The first half of Server-Start, always in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStart {
    /// Whether the set-up is accepted.
    pub accept: Accept,
    /// Initialisation vector of the server's stream.
    pub server_iv: [u8; 16],
}

impl ServerStart {
    /// Bytes of this half.
    pub const LEN: usize = 32;
    /// Bytes of the other: when the server was started, then zeros. The first encrypted block.
    pub const TIME_LEN: usize = 16;

    /// From [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<ServerStart, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(15)?;
        Ok(ServerStart { accept: r.u8()?.into(), server_iv: r.array()? })
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([0; 15]);
        out.push(self.accept as u8);
        out.extend(self.server_iv);
    }

    /// The other half.
    pub fn time(started: NtpTime) -> [u8; ServerStart::TIME_LEN] {
        let mut block = [0; ServerStart::TIME_LEN];
        block[..8].copy_from_slice(&started.0.to_be_bytes());
        block
    }
}

/// Request-TW-Session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// IP version of the addresses, 4 or 6 if the client keeps to the rules.
    pub version: u8,
    /// Conf-Sender and Conf-Receiver, which have no meaning in TWAMP and are zero.
    pub conf: [u8; 2],
    /// Schedule slots, of which TWAMP has none.
    pub slots: u32,
    /// Packets; the server is not told, so zero.
    pub packets: u32,
    /// Port the test packets come from.
    pub sender_port: u16,
    /// Port wished for at the reflector.
    pub receiver_port: u16,
    /// Address the test packets come from; unspecified = that of the control connection.
    pub sender: IpAddr,
    /// Address of the reflector; unspecified = that of the control connection.
    pub receiver: IpAddr,
    /// Bytes behind the fields of a request.
    pub padding: u32,
    /// When the test is to begin.
    pub start: NtpTime,
    /// How long after Stop-Sessions late packets are still to be answered.
    pub timeout: NtpTime,
    /// Type-P: in the upper octet two zero bits and the DSCP.
    pub type_p: u32,
}

/// Command numbers.
pub mod command {
    /// Start-Sessions.
    pub const START: u8 = 2;
    /// Stop-Sessions.
    pub const STOP: u8 = 3;
    /// Request-TW-Session.
    pub const REQUEST: u8 = 5;
}

fn address(version: u8, field: [u8; 16]) -> IpAddr {
    match version {
        6 => IpAddr::V6(Ipv6Addr::from(field)),
        _ => IpAddr::V4(Ipv4Addr::new(field[0], field[1], field[2], field[3])),
    }
}

fn address_field(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(a) => a.octets(),
        IpAddr::V4(a) => {
            let mut field = [0; 16];
            field[..4].copy_from_slice(&a.octets());
            field
        }
    }
}

impl Request {
    /// Bytes on the wire, HMAC included.
    pub const LEN: usize = 112;

    /// From a message that begins with [`command::REQUEST`].
    pub fn parse(bytes: &[u8]) -> Result<Request, Truncated> {
        let mut r = Reader::new(bytes);
        r.u8()?;
        let version = r.u8()? & 0x0f;
        let conf = r.array()?;
        let (slots, packets) = (r.u32()?, r.u32()?);
        let (sender_port, receiver_port) = (r.u16()?, r.u16()?);
        let (sender, receiver) = (address(version, r.array()?), address(version, r.array()?));
        r.take(16)?;
        let padding = r.u32()?;
        let (start, timeout) = (NtpTime(r.u64()?), NtpTime(r.u64()?));
        let type_p = r.u32()?;
        Ok(Request {
            version,
            conf,
            slots,
            packets,
            sender_port,
            receiver_port,
            sender,
            receiver,
            padding,
            start,
            timeout,
            type_p,
        })
    }

    /// Appends it to `out`, without the HMAC.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([command::REQUEST, self.version, self.conf[0], self.conf[1]]);
        out.extend(self.slots.to_be_bytes());
        out.extend(self.packets.to_be_bytes());
        out.extend(self.sender_port.to_be_bytes());
        out.extend(self.receiver_port.to_be_bytes());
        out.extend(address_field(self.sender));
        out.extend(address_field(self.receiver));
        out.extend([0; 16]);
        out.extend(self.padding.to_be_bytes());
        out.extend(self.start.0.to_be_bytes());
        out.extend(self.timeout.0.to_be_bytes());
        out.extend(self.type_p.to_be_bytes());
        out.extend([0; 8]);
    }

    /// The code point of Type-P; `None` if it names something else.
    pub fn dscp(&self) -> Option<u8> {
        (self.type_p >> 30 == 0).then_some((self.type_p >> 24) as u8)
    }
}

/// Accept-Session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptSession {
    /// Whether the session is granted.
    pub accept: Accept,
    /// Where the test packets are to go, which may not be where the client wished.
    pub port: u16,
    /// Name of the session.
    pub sid: Sid,
}

impl AcceptSession {
    /// Bytes on the wire, HMAC included.
    pub const LEN: usize = 48;

    /// From [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<AcceptSession, Truncated> {
        let mut r = Reader::new(bytes);
        let accept = r.u8()?.into();
        r.u8()?;
        Ok(AcceptSession { accept, port: r.u16()?, sid: Sid(r.array()?) })
    }

    /// Appends it to `out`, without the HMAC.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.accept as u8, 0]);
        out.extend(self.port.to_be_bytes());
        out.extend(self.sid.0);
        out.extend([0; 12]);
    }
}

/// Bytes of the short messages, HMAC included: Start-Sessions, Start-Ack, Stop-Sessions.
pub const SHORT_LEN: usize = 32;

/// Appends Start-Sessions to `out`, without the HMAC.
pub fn write_start(out: &mut Vec<u8>) {
    out.push(command::START);
    out.extend([0; 15]);
}

/// Appends Start-Ack to `out`, without the HMAC.
pub fn write_start_ack(accept: Accept, out: &mut Vec<u8>) {
    out.push(accept as u8);
    out.extend([0; 15]);
}

/// Appends Stop-Sessions of this many sessions to `out`, without the HMAC.
pub fn write_stop(accept: Accept, sessions: u32, out: &mut Vec<u8>) {
    out.extend([command::STOP, accept as u8, 0, 0]);
    out.extend(sessions.to_be_bytes());
    out.extend([0; 8]);
}

/// How many sessions a Stop-Sessions message ends.
pub fn parse_stop(bytes: &[u8]) -> Result<u32, Truncated> {
    let mut r = Reader::new(bytes);
    r.take(4)?;
    r.u32()
}
