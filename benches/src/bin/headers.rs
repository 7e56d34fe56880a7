//! Measures how long the headers of a captured frame take: `jitlat_passive::decode`, and the crate etherparse, on the same
//! frames. Both return length, identification, TTL, addresses and ports of the packet.
//!
//! `cargo run --release -p jitlat-benches --bin headers [PACKETS]`

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use jitlat_passive::{LinkType, decode};
use std::hint::black_box;
use std::time::Instant;

/// Bytes of a frame that are captured, as with `tcpdump -s 96`.
const CAPTURED: usize = 96;
const ROUNDS: usize = 9;

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    println!("{packets} frames, ns per frame, the median of {ROUNDS} rounds");
    for (name, kinds) in [
        ("TCP over IPv4", &[Kind::Tcp4][..]),
        ("UDP over IPv4", &[Kind::Udp4]),
        ("TCP over IPv6", &[Kind::Tcp6]),
        ("TCP over IPv4, with a VLAN tag", &[Kind::Tagged]),
        ("all of these in turn", &[Kind::Tcp4, Kind::Udp4, Kind::Tcp6, Kind::Tagged]),
    ] {
        let frames: Vec<Vec<u8>> = (0..4096).map(|k| frame(kinds[k % kinds.len()], k as u16)).collect();
        let frames: Vec<&[u8]> = (0..packets).map(|k| &*frames[k % frames.len()]).collect();
        assert_eq!(by_jitlat(frames[1]), by_etherparse(frames[1]), "{name}");
        let [mut own, mut their] = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            own.push(time(&frames, by_jitlat));
            their.push(time(&frames, by_etherparse));
        }
        let (own, their) = (median(own), median(their));
        println!("{name:32} jitlat {own:5.1}  etherparse {their:5.1}  {:.1} ×", their / own);
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Tcp4,
    Udp4,
    Tcp6,
    Tagged,
}

fn frame(kind: Kind, number: u16) -> Vec<u8> {
    let mut v = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if matches!(kind, Kind::Tagged) {
        v.extend([0x81, 0, 0, 5]);
    }
    let is_v6 = matches!(kind, Kind::Tcp6);
    v.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
    let protocol = if matches!(kind, Kind::Udp4) { 17 } else { 6 };
    let payload: u16 = 1460;
    if is_v6 {
        v.extend([0x60, 0, 0, 0]);
        v.extend(payload.to_be_bytes());
        v.extend([protocol, 64]);
        v.extend([0xfd; 32]);
    } else {
        v.extend([0x45, 0]);
        v.extend((20 + payload).to_be_bytes());
        v.extend(number.to_be_bytes());
        v.extend([0x40, 0, 64, protocol, 0, 0, 10, 0, (number >> 8) as u8, 1, 10, 0, 0, 2]);
    }
    v.extend((number | 1024).to_be_bytes());
    v.extend([1, 187]);
    match kind {
        Kind::Udp4 => v.extend([payload.to_be_bytes(), [0, 0]].concat()),
        _ => v.extend([
            0, 0, 0, 1, 0, 0, 0, 1, 0x80, 24, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1,
        ]),
    }
    v.resize(CAPTURED, 7);
    v
}

type Fields = (u32, u32, u8, u128, (u16, u16));

fn by_jitlat(frame: &[u8]) -> Option<Fields> {
    let p = decode(LinkType::ETHERNET, frame, 1514).ok()?;
    let address = |a: std::net::IpAddr| match a {
        std::net::IpAddr::V4(a) => u128::from(a.to_bits()),
        std::net::IpAddr::V6(a) => a.to_bits(),
    };
    Some((p.length, p.ident, p.ttl(), address(p.src()) ^ address(p.dst()), p.ports()?))
}

fn by_etherparse(frame: &[u8]) -> Option<Fields> {
    let p = LaxSlicedPacket::from_ethernet(frame).ok()?;
    let (length, ident, ttl, ends) = match p.net? {
        LaxNetSlice::Ipv4(ip) => {
            let h = ip.header();
            let ends = u32::from_be_bytes(h.source()) ^ u32::from_be_bytes(h.destination());
            (u32::from(h.total_len()), u32::from(h.identification()), h.ttl(), ends.into())
        }
        LaxNetSlice::Ipv6(ip) => {
            let h = ip.header();
            let ends = u128::from_be_bytes(h.source()) ^ u128::from_be_bytes(h.destination());
            (u32::from(h.payload_length()) + 40, 0, h.hop_limit(), ends)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let ports = match p.transport? {
        TransportSlice::Tcp(t) => (t.source_port(), t.destination_port()),
        TransportSlice::Udp(u) => (u.source_port(), u.destination_port()),
        _ => return None,
    };
    Some((length, ident, ttl, ends, ports))
}

fn time(frames: &[&[u8]], fields: impl Fn(&[u8]) -> Option<Fields>) -> f64 {
    let began = Instant::now();
    for frame in frames {
        black_box(fields(black_box(frame)));
    }
    began.elapsed().as_secs_f64() * 1e9 / frames.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
