//! Control messages of version 1, as recorded between Cisco devices.

use super::{put, u16_at, u32_at};
use core::net::IpAddr;
use jitlat_core::Span;

/// Version in the first byte.
pub(super) const VERSION: u8 = 1;
/// Longest time for which one request can open a port over IPv4: 16 bits of milliseconds.
pub const MAX_DURATION: Span = Span::millis(u16::MAX as i64);
/// Length of the header.
const HEADER: usize = 8;
/// Lengths of the block that names the port, for IPv4 and IPv6.
const BLOCKS: [usize; 2] = [16, 32];
/// Length of the authentication block of a request. Its contents are not known, except that they are zero without keys.
const AUTH_BLOCK: usize = 28;

/// Kind of operation for which a port is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// UDP echo (command 2).
    Echo,
    /// UDP jitter (command 4).
    Jitter,
    /// Either, over IPv6 (command 8).
    V6,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Echo, Operation::Jitter, Operation::V6];

    fn command(self) -> u16 {
        match self {
            Operation::Echo => 2,
            Operation::Jitter => 4,
            Operation::V6 => 8,
        }
    }
}

/// A request to open a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRequest {
    /// Number of the operation's run.
    pub seq: u8,
    /// Kind of operation.
    pub operation: Operation,
    /// Address of the responder as the sender knows it.
    pub address: IpAddr,
    /// UDP port to open.
    pub port: u16,
    /// Time for which the port stays open; whole milliseconds.
    pub duration: Span,
    /// True if the sender has a key-chain. How it signs is not known; requests of this program are not signed.
    pub signed: bool,
}

impl PortRequest {
    /// Appends the request. Over IPv6 the command is always that of [`Operation::V6`].
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let ms = self.duration.0.max(0) / 1_000_000;
        let operation = if self.address.is_ipv6() { Operation::V6 } else { self.operation };
        let block = BLOCKS[usize::from(self.address.is_ipv6())];
        out.resize(start + HEADER + block + AUTH_BLOCK, 0);
        let packet = &mut out[start..];
        let total = packet.len() as u16;
        put(packet, 0, &[VERSION, self.seq]);
        put(packet, 2, &total.to_be_bytes());
        put(packet, HEADER, &operation.command().to_be_bytes());
        put(packet, HEADER + 2, &(block as u16).to_be_bytes());
        match self.address {
            IpAddr::V4(v4) => {
                put(packet, 16, &v4.octets());
                put(packet, 20, &self.port.to_be_bytes());
                put(packet, 22, &u16::try_from(ms).unwrap_or(u16::MAX).to_be_bytes());
            }
            IpAddr::V6(v6) => {
                put(packet, 16, &v6.octets());
                put(packet, 32, &self.port.to_be_bytes());
                put(packet, 36, &u32::try_from(ms).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
        put(packet, HEADER + block, &[0, 1, 0, AUTH_BLOCK as u8]);
    }

    /// Parses a request; `None` if it is not one. An answer is not a request, because it lacks the authentication
    /// block.
    pub fn parse(packet: &[u8]) -> Option<PortRequest> {
        let (seq, command) = (*packet.get(1)?, u16_at(packet, HEADER)?);
        let operation = Operation::ALL.into_iter().find(|operation| operation.command() == command)?;
        let block = BLOCKS[usize::from(operation == Operation::V6)];
        let length = HEADER + block + AUTH_BLOCK;
        let is_whole = packet.first() == Some(&VERSION)
            && packet.len() >= length
            && u16_at(packet, 2).map(usize::from) == Some(length)
            && u32_at(packet, 4) == Some(0)
            && u16_at(packet, HEADER + 2).map(usize::from) == Some(block)
            && u16_at(packet, HEADER + block) == Some(1);
        if !is_whole {
            return None;
        }
        let (address, port, ms) = if operation == Operation::V6 {
            let octets: [u8; 16] = *packet.get(16..)?.first_chunk()?;
            (octets.into(), u16_at(packet, 32)?, u32_at(packet, 36)?)
        } else {
            let octets: [u8; 4] = *packet.get(16..)?.first_chunk()?;
            (octets.into(), u16_at(packet, 20)?, u16_at(packet, 22)?.into())
        };
        let signed = packet.get(HEADER + block + 4..length)?.iter().any(|byte| *byte != 0);
        Some(PortRequest { seq, operation, address, port, duration: Span::millis(ms.into()), signed })
    }

    /// Appends the answer that accepts a parsed `request`: its header and its first block.
    pub fn accept(request: &[u8], out: &mut Vec<u8>) {
        let block = u16_at(request, HEADER + 2).map_or(BLOCKS[0], usize::from);
        let start = out.len();
        out.extend(request.iter().take(HEADER + block));
        let total = (HEADER + block) as u16;
        put(&mut out[start..], 2, &total.to_be_bytes());
    }
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAnswer {
    /// Number of the request.
    pub seq: u8,
    /// Status: 0 means that the port is open. The meaning of other values is not known.
    pub status: u32,
}

impl PortAnswer {
    /// Parses an answer; `None` if it is not one. Only the version, the number and the status are read, because an
    /// open-source responder that Cisco devices accept writes a different length and no command.
    pub fn parse(packet: &[u8]) -> Option<PortAnswer> {
        let [VERSION, seq, ..] = *packet else { return None };
        let is_request = PortRequest::parse(packet).is_some();
        u32_at(packet, 4).filter(|_| !is_request).map(|status| PortAnswer { seq, status })
    }
}
