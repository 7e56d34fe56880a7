//! Control messages of version 2 (RFC 6812 §3.1): a header, an authentication block, and a block that names the port.

use super::auth::{AuthMode, IpslaKey};
use super::{put, u16_at, u32_at};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::NtpTime;
use jitlat_core::{Span, WallTime};

/// Version in the first byte.
pub(super) const VERSION: u8 = 2;
const HEADER: usize = 20;
/// Lengths of the authentication block: with and without random number and digest.
const AUTH_BLOCK: usize = 60;
const SHORT_AUTH_BLOCK: usize = 12;
const MEASUREMENT_BLOCK: usize = 92;
/// Offset of the digest in a message that has one.
const DIGEST_AT: usize = HEADER + 28;
/// Length of a usual message.
pub const LEN: usize = HEADER + AUTH_BLOCK + MEASUREMENT_BLOCK;

/// Result of a request, in the header and in each block (RFC 6812 §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// The port is open.
    Success = 0,
    /// The responder refuses without further reason.
    Fail = 1,
    /// The digest is missing or wrong.
    Authentication = 2,
    /// A block or value is unknown.
    Format = 3,
    /// The port is in use. Only in the block that names the port.
    PortInUse = 4,
}

/// Contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlMessage {
    /// Status in the header, and in the block that names the port; 0 in requests.
    pub status: [u16; 2],
    /// Number of the request.
    pub seq: u32,
    /// Mode and number of the key; `None` without a key.
    pub auth: Option<(AuthMode, u16)>,
    /// Random number; reflected.
    pub random: [u8; 16],
    /// Identifier of the session; 0 = none.
    pub session: u32,
    /// Source and destination of probes as the sender knows them; with port 0, the responder chooses the port.
    pub probes: (SocketAddr, SocketAddr),
    /// Source port of control messages; 0 = that of the packet.
    pub control_port: u16,
    /// Time for which the port stays open; whole milliseconds.
    pub duration: Span,
}

impl ControlMessage {
    /// Appends the message, sent at `now`, as a request. `key` must be that of [`auth`](Self::auth).
    pub fn write(&self, now: WallTime, key: Option<&IpslaKey>, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + LEN, 0);
        let packet = &mut out[start..];
        put(packet, 0, &[VERSION]);
        put(packet, 4, &self.seq.to_be_bytes());
        put(packet, 8, &(LEN as u32).to_be_bytes());
        put(packet, 12, &NtpTime::from(now).0.to_be_bytes());
        put(packet, HEADER, &[0, 1]);
        put(packet, HEADER + 4, &(AUTH_BLOCK as u32).to_be_bytes());
        if let Some((mode, id)) = self.auth {
            put(packet, HEADER + 8, &[mode.code()]);
            put(packet, HEADER + 10, &id.to_be_bytes());
            put(packet, HEADER + 12, &self.random);
        }
        let block = &mut packet[HEADER + AUTH_BLOCK..];
        put(block, 0, &[0, 2]);
        put(block, 4, &(MEASUREMENT_BLOCK as u32).to_be_bytes());
        let (source, destination) = self.probes;
        let family = if destination.is_ipv4() { 2 } else { 3 };
        // The role of the receiver: responder, as the text of the field says. The registry says 2.
        put(block, 8, &[family, 1]);
        put(block, 12, &self.session.to_be_bytes());
        // Control messages have the same addresses as probes.
        for (at, address) in [(16, source), (32, destination), (48, source), (64, destination)] {
            match address.ip() {
                IpAddr::V4(v4) => put(block, at, &v4.octets()),
                IpAddr::V6(v6) => put(block, at, &v6.octets()),
            }
        }
        put(block, 80, &self.control_port.to_be_bytes());
        put(block, 84, &source.port().to_be_bytes());
        put(block, 86, &destination.port().to_be_bytes());
        let ms = u32::try_from(self.duration.0.max(0) / 1_000_000).unwrap_or(u32::MAX);
        put(block, 88, &ms.to_be_bytes());
        if let (Some((mode, _)), Some(key)) = (self.auth, key) {
            key.sign(mode, packet, DIGEST_AT);
        }
    }

    /// Parses a message. The digest is not checked: see [`is_signed_by`].
    ///
    /// # Errors
    /// `None` if it is not a whole message of this version; [`Status::Format`] if a block or value is unknown.
    pub fn parse(packet: &[u8]) -> Result<ControlMessage, Option<Status>> {
        let whole = packet.first() == Some(&VERSION)
            && u32_at(packet, 8).and_then(|length| usize::try_from(length).ok()) == Some(packet.len())
            && packet.len() >= HEADER + SHORT_AUTH_BLOCK + MEASUREMENT_BLOCK;
        if !whole {
            return Err(None);
        }
        let at = measurement_at(packet).ok_or(Some(Status::Format))?;
        read(packet, at).ok_or(Some(Status::Format))
    }

    /// Returns true if the digest of `packet`, which was parsed to this message, is that of `key`.
    pub fn is_signed_by(&self, key: &IpslaKey, packet: &[u8]) -> bool {
        self.auth.is_some_and(|(mode, id)| id == key.id && key.has_signed(mode, packet, DIGEST_AT))
    }
}

/// Returns the offset of the block that names the port; `None` if the blocks are not the two that are required.
fn measurement_at(packet: &[u8]) -> Option<usize> {
    let auth = usize::try_from(u32_at(packet, HEADER + 4)?).ok()?;
    let block = packet.get(HEADER..)?;
    let is_known = u16_at(block, 0)? == 1
        && match block.get(8)? {
            0 => matches!(auth, SHORT_AUTH_BLOCK | AUTH_BLOCK),
            _ => auth == AUTH_BLOCK,
        };
    let at = HEADER + auth;
    let is_measurement = u16_at(packet, at)? == 2
        && u32_at(packet, at + 4)? == MEASUREMENT_BLOCK as u32
        && packet.len() == at + MEASUREMENT_BLOCK;
    (is_known && is_measurement).then_some(at)
}

fn read(packet: &[u8], at: usize) -> Option<ControlMessage> {
    let mode = *packet.get(HEADER + 8)?;
    let auth = match mode {
        0 => None,
        mode => Some((AuthMode::of(mode)?, u16_at(packet, HEADER + 10)?)),
    };
    let random = auth.and_then(|_| packet.get(HEADER + 12..)?.first_chunk().copied()).unwrap_or_default();
    let block = packet.get(at..)?;
    // The text of the role's field and the registry of the RFC differ.
    if !matches!(block.get(9)?, 1 | 2) {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        match block.get(8)? {
            2 => block.get(at..)?.first_chunk::<4>().map(|octets| (*octets).into()),
            3 => block.get(at..)?.first_chunk::<16>().map(|octets| (*octets).into()),
            _ => None,
        }
    };
    let end = |ip: usize, port: usize| Some(SocketAddr::new(address(ip)?, u16_at(block, port)?));
    Some(ControlMessage {
        status: [u16_at(packet, 2)?, u16_at(block, 2)?],
        seq: u32_at(packet, 4)?,
        auth,
        random,
        session: u32_at(block, 12)?,
        probes: (end(48, 84)?, end(64, 86)?),
        control_port: u16_at(block, 80)?,
        duration: Span::millis(u32_at(block, 88)?.into()),
    })
}

/// Fields of an answer that differ from those of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Result.
    pub status: Status,
    /// Identifier of the session; 0 without one.
    pub session: u32,
    /// Port that is open.
    pub port: u16,
}

impl Answer {
    /// Appends the answer to `request`, a whole message, sent at `now`. It has the length of the request, and is signed
    /// with `key` in the request's mode.
    pub fn write(
        &self,
        request: &[u8],
        now: WallTime,
        key: Option<(AuthMode, &IpslaKey)>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend(request);
        let packet = &mut out[start..];
        let status = self.status as u16;
        // The header has no code for a busy port.
        let overall = if self.status == Status::PortInUse { Status::Fail as u16 } else { status };
        put(packet, 2, &overall.to_be_bytes());
        put(packet, 12, &NtpTime::from(now).0.to_be_bytes());
        let auth = if self.status == Status::Authentication { status } else { 0 };
        put(packet, HEADER + 2, &auth.to_be_bytes());
        if let Some(at) = measurement_at(packet) {
            let block = &mut packet[at..];
            let own = if self.status == Status::Authentication { 0 } else { status };
            put(block, 2, &own.to_be_bytes());
            if self.status == Status::Success {
                put(block, 12, &self.session.to_be_bytes());
                put(block, 86, &self.port.to_be_bytes());
            }
            match key {
                Some((mode, key)) => key.sign(mode, packet, DIGEST_AT),
                None if at == HEADER + AUTH_BLOCK => put(packet, DIGEST_AT, &[0; super::auth::DIGEST_LEN]),
                None => {}
            }
        }
    }
}
