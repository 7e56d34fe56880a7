//! The set-up of a control connection (RFC 4656 §3.1): Server-Greeting, Set-Up-Response, Server-Start.

use super::message::AcceptCode;
use super::modes::{SecurityMode, SecurityModes};
use crate::wire::{Reader, Truncated};
use jitlat_core::ntp::NtpTime;

/// Server-Greeting: the server sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The modes offered; none refuses the client.
    pub modes: SecurityModes,
    /// Random; comes back inside the token.
    pub challenge: [u8; 16],
    /// Salt of the key derivation.
    pub salt: [u8; 16],
    /// Rounds of the key derivation.
    pub count: u32,
}

impl Greeting {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 64;

    /// The message that refuses a client: a greeting that offers no mode.
    pub fn go_away() -> [u8; Greeting::LEN] {
        [0; Greeting::LEN]
    }

    /// From `LEN` bytes.
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
    /// The selected mode; a single bit if the client follows the protocol.
    pub mode: u32,
    /// Name of the user in UTF-8, padded with zeros.
    pub user: [u8; 80],
    /// The challenge and the session keys, encrypted with the key of the passphrase.
    pub token: [u8; 64],
    /// Initialisation vector of the client's stream.
    pub client_iv: [u8; 16],
}

impl SetUp {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 164;

    /// The open mode; all other fields are zero.
    pub fn open() -> SetUp {
        SetUp { mode: SecurityMode::Open as u32, user: [0; 80], token: [0; 64], client_iv: [0; 16] }
    }

    /// From `LEN` bytes.
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
pub(crate) struct ServerStart {
    /// Whether the set-up is accepted.
    pub accept: AcceptCode,
    /// Initialisation vector of the server's stream.
    pub server_iv: [u8; 16],
}

impl ServerStart {
    /// Bytes of this half.
    pub(crate) const LEN: usize = 32;
    /// Bytes of the other: when the server was started, then zeros. The first encrypted block.
    pub(crate) const TIME_LEN: usize = 16;

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
