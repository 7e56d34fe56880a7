//! Analyses TCP connections from the bytes of captured frames: `cargo run -p jitlat-passive --example
//! frames`.

use jitlat_core::WallTime;
use jitlat_passive::tcp::{ObservedConnection, TcpAnalyzer};
use jitlat_passive::{Frame, LinkType};

/// Returns the connections in captured IP packets, each given with its time of capture in ns.
pub fn connections(packets: &[(i64, Vec<u8>)]) -> Vec<ObservedConnection> {
    let mut analyzer = TcpAnalyzer::default();
    for (at, bytes) in packets {
        let (at, link) = (WallTime(*at), LinkType::RAW);
        let frame = Frame { at, link, wire_length: bytes.len() as u32, data: bytes };
        let Ok(packet) = frame.packet() else { continue };
        for event in analyzer.push(at, &packet) {
            println!("{event:?}");
        }
    }
    analyzer.finish()
}

/// Builds an IPv4 packet with a TCP segment from 192.0.2.1 (`up`) or 192.0.2.2.
pub fn segment(up: bool, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to, ports) = if up { (1, 2, [40_000u16, 80]) } else { (2, 1, [80, 40_000]) };
    let mut bytes = vec![0x45, 0];
    bytes.extend((40 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// A handshake, 100 bytes that are sent twice because the first copy was lost, and their acknowledgement.
pub fn exchange() -> Vec<(i64, Vec<u8>)> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    vec![
        (0, segment(true, 999, 0, SYN, b"")),
        (30_000_000, segment(false, 4_999, 1_000, SYN | ACK, b"")),
        (31_000_000, segment(true, 1_000, 5_000, ACK, b"")),
        (40_000_000, segment(true, 1_000, 5_000, ACK, &[b'x'; 100])),
        (290_000_000, segment(true, 1_000, 5_000, ACK, &[b'x'; 100])),
        (320_000_000, segment(false, 5_000, 1_100, ACK, b"")),
    ]
}

fn main() {
    for c in connections(&exchange()) {
        println!("{} to {}: {} retransmissions", c.client, c.server, c.up.retransmissions);
    }
}
