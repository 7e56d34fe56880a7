#![no_main]
// Aims at: crates/proto/src/jitlat/rendezvous.rs

use jitlat_core::Transport;
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::rendezvous::{ExpectedPeer, WaitingFlows};
use std::net::{IpAddr, SocketAddr};

#[derive(arbitrary::Arbitrary, Debug)]
enum Operation {
    Wait { port: u8, tcp: bool, peer: u8, token: Option<u8> },
    Leave { flow: u8 },
    Arrive { port: u8, tcp: bool, from: u8, head: Head },
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Head {
    Greeting(u8),
    /// A greeting changed in one byte.
    Spoilt(u8, u8, u8),
    Raw(Vec<u8>),
}

/// The peer that a flow waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Flow {
    local: SocketAddr,
    transport: Transport,
    peer: IpAddr,
    expected: ExpectedPeer,
}

fn address(host: u8) -> IpAddr {
    let v4 = std::net::Ipv4Addr::new(192, 0, 2, host % 3);
    match host % 4 {
        0 => v4.into(),
        // The same host at a socket of either family.
        1 => v4.to_ipv6_mapped().into(),
        _ => std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

fn port(port: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2, 77]), 2667 + u16::from(port % 3))
}

fn transport(tcp: bool) -> Transport {
    if tcp { Transport::Tcp } else { Transport::Udp }
}

// Many flows and peers at shared ports: a flow meets only the peer that it expects, at its port, with its transport
// and its token; at most one connection, and none after it has left.
libfuzzer_sys::fuzz_target!(|operations: Vec<Operation>| {
    let mut flows = WaitingFlows::default();
    let mut waiting: Vec<(u64, usize, Flow)> = Vec::new();
    for (k, operation) in operations.iter().take(400).enumerate() {
        match operation {
            Operation::Wait { port: p, tcp, peer, token } => {
                let expected = token.map_or(ExpectedPeer::AnyConnection, |t| ExpectedPeer::Token(t.into()));
                let (local, transport) = (port(*p), transport(*tcp));
                let flow = Flow { local, transport, peer: address(*peer), expected };
                let number = flows.add(local, flow.transport, flow.peer, expected, k);
                assert!(waiting.iter().all(|(other, ..)| *other != number));
                waiting.push((number, k, flow));
            }
            Operation::Leave { flow } => {
                if !waiting.is_empty() {
                    let (number, ..) = waiting.swap_remove(usize::from(*flow) % waiting.len());
                    flows.remove(number);
                }
            }
            Operation::Arrive { port: p, tcp, from, head } => {
                let bytes = match head {
                    Head::Greeting(token) => PacketHeader::hello((*token).into()).to_bytes().to_vec(),
                    Head::Spoilt(token, at, flip) => {
                        let mut bytes = PacketHeader::hello((*token).into()).to_bytes();
                        bytes[usize::from(*at) % bytes.len()] ^= flip;
                        bytes.to_vec()
                    }
                    Head::Raw(bytes) => bytes.clone(),
                };
                let token = PacketHeader::parse(&bytes)
                    .filter(|h| h.to_bytes() == bytes[..])
                    .and_then(|h| h.hello_token());
                let from = SocketAddr::new(address(*from), 40_000);
                let met = if *tcp {
                    flows.connected(port(*p), from, &bytes)
                } else {
                    flows.greeted(port(*p), from, &bytes).copied()
                };
                let expected = match token {
                    Some(token) => Some(ExpectedPeer::Token(token)),
                    None if *tcp => Some(ExpectedPeer::AnyConnection),
                    None => None,
                };
                let fits = |flow: &Flow| {
                    Some(flow.expected) == expected
                        && (flow.local, flow.transport) == (port(*p), transport(*tcp))
                        && flow.peer.to_canonical() == from.ip().to_canonical()
                };
                match met {
                    Some(k) => {
                        let place =
                            waiting.iter().position(|(_, flow, _)| *flow == k).expect("a flow that left");
                        assert!(fits(&waiting[place].2), "{:?} met {from}", waiting[place].2);
                        if *tcp {
                            waiting.remove(place);
                        }
                    }
                    None => assert!(!waiting.iter().any(|(.., flow)| fits(flow)), "nobody met {from}"),
                }
            }
        }
        for (local, transport) in [(port(0), Transport::Tcp), (port(1), Transport::Udp)] {
            let waits = waiting.iter().any(|(.., f)| (f.local, f.transport) == (local, transport));
            assert_eq!(flows.waits_at(local, transport), waits);
        }
    }
});
