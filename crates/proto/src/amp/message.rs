//! Messages after the set-up that OWAMP and TWAMP share (RFC 4656 §3.5–3.8, RFC 5357 §3.5–3.8), in plain
//! text. They are represented without their HMAC, which [`crypto`](crate::amp::crypto) appends and checks; in
//! open mode it is sixteen zeros.
//!
//! Fields that must be zero are written as zero and ignored when read.

use crate::wire::{Reader, Truncated};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use jitlat_core::ntp::NtpTime;

/// Length in bytes of the HMAC at the end of most messages.
pub(crate) const HMAC_LEN: usize = 16;

/// Accept code in a server's answer (RFC 4656 §3.3). Undefined codes mean failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AcceptCode {
    /// Accepted.
    Ok = 0,
    /// Refused without a reason. In a set-up, this usually means a wrong user or passphrase.
    Failure = 1,
    /// Internal error of the server.
    Internal = 2,
    /// Part of the request is not supported.
    Unsupported = 3,
    /// Refused permanently: a limit is exceeded.
    Permanent = 4,
    /// Refused temporarily: the server is busy.
    Temporary = 5,
}

impl From<u8> for AcceptCode {
    fn from(code: u8) -> AcceptCode {
        match code {
            0 => AcceptCode::Ok,
            2 => AcceptCode::Internal,
            3 => AcceptCode::Unsupported,
            4 => AcceptCode::Permanent,
            5 => AcceptCode::Temporary,
            _ => AcceptCode::Failure,
        }
    }
}

impl fmt::Display for AcceptCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = match self {
            AcceptCode::Ok => "accepted",
            AcceptCode::Failure => "no reason given",
            AcceptCode::Internal => "internal error of the server",
            AcceptCode::Unsupported => "part of the request is not supported",
            AcceptCode::Permanent => "the request exceeds the server's limits",
            AcceptCode::Temporary => "the server is busy; try again later",
        };
        write!(f, "{description} (code {})", *self as u8)
    }
}

/// Session identifier. The receiving or reflecting end creates it from its address, the time and random
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid(pub [u8; 16]);

impl Sid {
    /// Identifier that stands for no session: all zeros.
    pub const NONE: Sid = Sid([0; 16]);

    /// Creates an identifier for a session on `address` at the time `now`.
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

/// Request-Session of OWAMP (RFC 4656 §3.5) or Request-TW-Session (RFC 5357 §3.5), without the schedule slots
/// that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSession {
    /// Command number: `REQUEST_SESSION` or `REQUEST_TW_SESSION`.
    pub command: u8,
    /// IP version of the addresses: 4 or 6 from a client that follows the standard.
    pub version: u8,
    /// 1 if the server should send the test packets. Zero in TWAMP.
    pub conf_sender: u8,
    /// 1 if the server should receive the test packets. Zero in TWAMP.
    pub conf_receiver: u8,
    /// Number of schedule slots that follow; zero in TWAMP.
    pub slots: u32,
    /// Number of test packets; zero in TWAMP.
    pub packets: u32,
    /// Port from which the test packets are sent.
    pub sender_port: u16,
    /// Port to which the test packets are sent.
    pub receiver_port: u16,
    /// Address from which the test packets are sent. In TWAMP, unspecified means the address of the control
    /// connection.
    pub sender: IpAddr,
    /// Address to which the test packets are sent. In TWAMP, unspecified means the address of the control
    /// connection.
    pub receiver: IpAddr,
    /// Session identifier if the client receives; otherwise zero.
    pub sid: Sid,
    /// Number of padding bytes after the fields of a test packet.
    pub padding: u32,
    /// Time at which the test should start.
    pub start: NtpTime,
    /// OWAMP: time after which a packet counts as lost. TWAMP: time for which late packets are still answered
    /// after Stop-Sessions.
    pub timeout: NtpTime,
    /// Type-P descriptor: the upper octet contains two zero bits and the DSCP.
    pub type_p: u32,
}

/// Command numbers.
pub mod command {
    /// Request-Session (OWAMP).
    pub(crate) const REQUEST_SESSION: u8 = 1;
    /// Start-Sessions.
    pub const START: u8 = 2;
    /// Stop-Sessions.
    pub const STOP: u8 = 3;
    /// Fetch-Session (OWAMP).
    pub(crate) const FETCH_SESSION: u8 = 4;
    /// Request-TW-Session (TWAMP).
    pub(crate) const REQUEST_TW_SESSION: u8 = 5;
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

impl RequestSession {
    /// Length on the wire in bytes, HMAC included.
    pub(crate) const LEN: usize = 112;

    /// Parses a message that begins with one of the two commands.
    pub fn parse(bytes: &[u8]) -> Result<RequestSession, Truncated> {
        let mut r = Reader::new(bytes);
        let command = r.u8()?;
        let version = r.u8()? & 0x0f;
        Ok(RequestSession {
            command,
            version,
            conf_sender: r.u8()?,
            conf_receiver: r.u8()?,
            slots: r.u32()?,
            packets: r.u32()?,
            sender_port: r.u16()?,
            receiver_port: r.u16()?,
            sender: address(version, r.array()?),
            receiver: address(version, r.array()?),
            sid: Sid(r.array()?),
            padding: r.u32()?,
            start: NtpTime(r.u64()?),
            timeout: NtpTime(r.u64()?),
            type_p: r.u32()?,
        })
    }

    /// Appends the encoded message to `out`, without the HMAC.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.command, self.version, self.conf_sender, self.conf_receiver]);
        out.extend(self.slots.to_be_bytes());
        out.extend(self.packets.to_be_bytes());
        out.extend(self.sender_port.to_be_bytes());
        out.extend(self.receiver_port.to_be_bytes());
        out.extend(address_field(self.sender));
        out.extend(address_field(self.receiver));
        out.extend(self.sid.0);
        out.extend(self.padding.to_be_bytes());
        out.extend(self.start.0.to_be_bytes());
        out.extend(self.timeout.0.to_be_bytes());
        out.extend(self.type_p.to_be_bytes());
        out.extend([0; 8]);
    }

    /// Returns the DSCP in Type-P; `None` if the descriptor is of another kind.
    pub fn dscp(&self) -> Option<u8> {
        (self.type_p >> 30 == 0).then_some((self.type_p >> 24) as u8)
    }
}

/// Accept-Session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptSession {
    /// [`AcceptCode::Ok`] if the session is accepted.
    pub accept: AcceptCode,
    /// Port to which the test packets should be sent. It may differ from the requested port.
    pub port: u16,
    /// Identifier of the session.
    pub sid: Sid,
}

impl AcceptSession {
    /// Length on the wire in bytes, HMAC included.
    pub(crate) const LEN: usize = 48;

    /// Parses [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<AcceptSession, Truncated> {
        let mut r = Reader::new(bytes);
        let accept = r.u8()?.into();
        r.u8()?;
        Ok(AcceptSession { accept, port: r.u16()?, sid: Sid(r.array()?) })
    }

    /// Appends the encoded message to `out`, without the HMAC.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.accept as u8, 0]);
        out.extend(self.port.to_be_bytes());
        out.extend(self.sid.0);
        out.extend([0; 12]);
    }
}

/// Length in bytes of Start-Sessions, Start-Ack and Stop-Sessions, HMAC included.
pub(crate) const SHORT_LEN: usize = 32;

/// Appends Start-Sessions to `out`, without the HMAC.
pub(crate) fn write_start(out: &mut Vec<u8>) {
    out.push(command::START);
    out.extend([0; 15]);
}

/// Appends Start-Ack to `out`, without the HMAC.
pub(crate) fn write_start_ack(accept: AcceptCode, out: &mut Vec<u8>) {
    out.push(accept as u8);
    out.extend([0; 15]);
}

/// Appends Stop-Sessions for `sessions` sessions to `out`, without the HMAC. In OWAMP a record of each session
/// follows.
pub(crate) fn write_stop(accept: AcceptCode, sessions: u32, out: &mut Vec<u8>) {
    out.extend([command::STOP, accept as u8, 0, 0]);
    out.extend(sessions.to_be_bytes());
    out.extend([0; 8]);
}

/// Returns the number of sessions that a Stop-Sessions message ends.
pub(crate) fn parse_stop(bytes: &[u8]) -> Result<u32, Truncated> {
    let mut r = Reader::new(bytes);
    r.take(4)?;
    r.u32()
}
