//! The set-up of a control connection (RFC 4656 §3.1): Server-Greeting, Set-Up-Response, Server-Start.

use super::message::AcceptCode;
use super::modes::{SecurityMode, SecurityModes};
use crate::wire::{Reader, Truncated};
use jitlat_core::ntp::NtpTime;

/// Server-Greeting, the first message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Modes offered; an empty set refuses the client.
    pub modes: SecurityModes,
    /// Random challenge, which the client returns inside the token.
    pub challenge: [u8; 16],
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Rounds of the key derivation.
    pub count: u32,
}

impl Greeting {
    /// Length on the wire in bytes.
    pub(crate) const LEN: usize = 64;

    /// Returns the message that refuses a client: a greeting that offers no mode.
    pub fn go_away() -> [u8; Greeting::LEN] {
        [0; Greeting::LEN]
    }

    /// Parses `LEN` bytes.
    pub fn parse(bytes: &[u8]) -> Result<Greeting, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(12)?;
        Ok(Greeting {
            modes: SecurityModes(r.u32()?),
            challenge: r.array()?,
            salt: r.array()?,
            count: r.u32()?,
        })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([0; 12]);
        out.extend(self.modes.0.to_be_bytes());
        out.extend(self.challenge);
        out.extend(self.salt);
        out.extend(self.count.to_be_bytes());
        out.extend([0; 12]);
    }
}

/// Set-Up-Response: the mode that the client selects, with its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// Selected mode; a single bit if the client complies with the protocol.
    pub mode: u32,
    /// Name of the user in UTF-8, padded with zeros.
    pub user: [u8; 80],
    /// Challenge and session keys, encrypted with the key derived from the passphrase.
    pub token: [u8; 64],
    /// Initialisation vector of the client's stream.
    pub client_iv: [u8; 16],
}

impl SetUp {
    /// Length on the wire in bytes.
    pub(crate) const LEN: usize = 164;

    /// Returns a response that selects open mode; all other fields are zero.
    pub fn open() -> SetUp {
        SetUp { mode: SecurityMode::Open as u32, user: [0; 80], token: [0; 64], client_iv: [0; 16] }
    }

    /// Parses `LEN` bytes.
    pub fn parse(bytes: &[u8]) -> Result<SetUp, Truncated> {
        let mut r = Reader::new(bytes);
        Ok(SetUp { mode: r.u32()?, user: r.array()?, token: r.array()?, client_iv: r.array()? })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.mode.to_be_bytes());
        out.extend(self.user);
        out.extend(self.token);
        out.extend(self.client_iv);
    }
}

/// First half of Server-Start, which is never encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerStart {
    /// [`AcceptCode::Ok`] if the set-up is accepted.
    pub accept: AcceptCode,
    /// Initialisation vector of the server's stream.
    pub server_iv: [u8; 16],
}

impl ServerStart {
    /// Length of this half in bytes.
    pub(crate) const LEN: usize = 32;
    /// Length of the second half in bytes: start time of the server, then zeros. This is the first encrypted
    /// block.
    pub(crate) const TIME_LEN: usize = 16;

    /// Parses [`LEN`](Self::LEN) bytes.
    pub fn parse(bytes: &[u8]) -> Result<ServerStart, Truncated> {
        let mut r = Reader::new(bytes);
        r.take(15)?;
        Ok(ServerStart { accept: r.u8()?.into(), server_iv: r.array()? })
    }

    /// Appends the encoded message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([0; 15]);
        out.push(self.accept as u8);
        out.extend(self.server_iv);
    }

    /// Encodes the second half.
    pub fn time(started: NtpTime) -> [u8; ServerStart::TIME_LEN] {
        let mut block = [0; ServerStart::TIME_LEN];
        block[..8].copy_from_slice(&started.0.to_be_bytes());
        block
    }
}
