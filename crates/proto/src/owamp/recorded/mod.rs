//! Recorded sessions of owping and owfetch with owampd (`testdata/owamp`): every message, every packet, and both
//! machines in the place of either program.

mod conversation;
mod machines;
mod messages;
mod sessions;

use crate::amp::crypto::{Incoming, Outgoing, SessionKeys, derive};
use crate::amp::setup::{Greeting, ServerStart, SetUp};
use crate::wire::unhex;
use conversation::Message;
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("../../../../../testdata/owamp/vectors.tsv");
const SECRET: &[u8] = b"owamp-capture-passphrase";
const USER: &str = "tester";

/// A payload on its way.
#[derive(Clone, Debug)]
struct Payload {
    /// When it was captured, ns since 1970.
    at: i64,
    to_server: bool,
    source_port: u16,
    destination_port: u16,
    ttl: u8,
    tos: u8,
    bytes: Vec<u8>,
}

/// One TCP connection: what each side said, in the pieces in which it came.
#[derive(Clone, Debug, Default)]
struct Recorded {
    capture: &'static str,
    payloads: Vec<Payload>,
}

/// What one capture has: its connections in order, and its test packets.
struct Capture {
    name: &'static str,
    connections: Vec<Recorded>,
    packets: Vec<Payload>,
}

fn captures() -> Vec<Capture> {
    let mut captures: BTreeMap<&str, (BTreeMap<u16, Recorded>, Vec<u16>, Vec<Payload>)> = BTreeMap::new();
    for line in VECTORS.lines().skip(1) {
        let f: Vec<&str> = line.split('\t').collect();
        let [name, at, carrier, way, source, destination, ttl, tos, hex] = f[..] else { panic!("{line}") };
        let payload = Payload {
            at: at.parse().unwrap(),
            to_server: way == "c->s",
            source_port: source.parse().unwrap(),
            destination_port: destination.parse().unwrap(),
            ttl: ttl.parse().unwrap(),
            tos: tos.parse().unwrap(),
            bytes: unhex(hex),
        };
        let (connections, order, packets) = captures.entry(name).or_default();
        if carrier == "udp" {
            packets.push(payload);
        } else {
            let port = if payload.to_server { payload.source_port } else { payload.destination_port };
            let connection = connections.entry(port).or_default();
            if connection.payloads.is_empty() {
                order.push(port);
            }
            connection.capture = name;
            connection.payloads.push(payload);
        }
    }
    let capture = |(name, (mut connections, order, packets)): (_, (BTreeMap<u16, Recorded>, Vec<u16>, _))| {
        let connections = order.iter().filter_map(|port| connections.remove(port)).collect();
        Capture { name, connections, packets }
    };
    captures.into_iter().map(capture).collect()
}

impl Recorded {
    fn said(&self, to_server: bool) -> Vec<u8> {
        let said = self.payloads.iter().filter(|p| p.to_server == to_server);
        said.flat_map(|p| p.bytes.iter().copied()).collect()
    }

    fn greeting(&self) -> Greeting {
        Greeting::parse(&self.said(false)).unwrap()
    }

    fn set_up(&self) -> Option<SetUp> {
        SetUp::parse(&self.said(true)).ok()
    }

    fn server_start(&self) -> Option<ServerStart> {
        ServerStart::parse(self.said(false).get(Greeting::LEN..)?).ok()
    }

    /// The keys of the connection, in a keyed mode.
    fn keys(&self) -> Option<SessionKeys> {
        let (greeting, set_up) = (self.greeting(), self.set_up().filter(|s| s.mode != 1)?);
        let key = derive(SECRET, &greeting.salt, greeting.count);
        SessionKeys::from_token(&set_up.token, &key, &greeting.challenge)
    }

    fn mode(&self) -> Option<crate::amp::Mode> {
        crate::amp::Mode::from_bits(self.set_up()?.mode)
    }

    /// The two streams from behind the set-up on, decrypted as they are read, and two that say the same again.
    fn streams(&self) -> Streams {
        let mut streams = Streams {
            client: (Incoming::default(), Outgoing::default()),
            server: (Incoming::default(), Outgoing::default()),
        };
        if let Some(keys) = self.keys() {
            let ivs = [self.set_up().unwrap().client_iv, self.server_start().unwrap().server_iv];
            for (side, iv) in [&mut streams.client, &mut streams.server].into_iter().zip(ivs) {
                side.0.protect(&keys, &iv);
                side.1.protect(&keys, &iv);
            }
        }
        streams.client.0.feed(self.said(true).get(SetUp::LEN..).unwrap_or_default());
        streams.server.0.feed(self.said(false).get(Greeting::LEN + ServerStart::LEN..).unwrap_or_default());
        streams
    }

    /// What was said after the set-up, in plain text.
    fn messages(&self) -> Vec<Message> {
        let mut streams = self.streams();
        streams.server.0.take(ServerStart::TIME_LEN).unwrap();
        let mut messages = Vec::new();
        while let Some(message) = Message::read(&mut streams, messages.last()) {
            messages.push(message);
        }
        messages
    }
}

struct Streams {
    client: (Incoming, Outgoing),
    server: (Incoming, Outgoing),
}
