//! Recorded sessions of owping and owfetch with owampd (`testdata/owamp`). Tests decode every message and
//! packet, and replace either program by a state machine of this crate.

mod conversation;
mod machines;
mod messages;
mod printed;
mod sessions;

use crate::amp::crypto::{IncomingBytes, OutgoingBytes, SessionKeys, derive};
use crate::amp::setup::{Greeting, ServerStart, SetUp};
use crate::wire::unhex;
use conversation::Message;

const VECTORS: &str = include_str!("../../../../../testdata/owamp/vectors.tsv");
const SECRET: &[u8] = b"owamp-capture-passphrase";
const USER: &str = "tester";

/// A captured payload.
#[derive(Clone, Debug)]
struct Payload {
    /// Capture time, ns since 1970 UTC.
    at: i64,
    to_server: bool,
    source_port: u16,
    destination_port: u16,
    ttl: u8,
    tos: u8,
    bytes: Vec<u8>,
}

/// One TCP connection: the bytes of each side, in the segments in which they arrived.
#[derive(Clone, Debug, Default)]
struct Recorded {
    capture: &'static str,
    /// Port of the client.
    port: u16,
    payloads: Vec<Payload>,
}

/// Contents of a capture: connections in order, and test packets.
#[derive(Debug, Default)]
struct Capture {
    name: &'static str,
    connections: Vec<Recorded>,
    packets: Vec<Payload>,
}

impl Capture {
    fn add(&mut self, carrier: &str, payload: Payload) {
        if carrier == "udp" {
            return self.packets.push(payload);
        }
        let port = if payload.to_server { payload.source_port } else { payload.destination_port };
        if self.connections.iter().all(|c| c.port != port) {
            self.connections.push(Recorded { capture: self.name, port, payloads: Vec::new() });
        }
        self.connections.iter_mut().filter(|c| c.port == port).for_each(|c| c.payloads.push(payload.clone()));
    }
}

fn captures() -> Vec<Capture> {
    let mut captures: Vec<Capture> = Vec::new();
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
        if captures.last().is_none_or(|c| c.name != name) {
            captures.push(Capture { name, ..Capture::default() });
        }
        captures.iter_mut().filter(|c| c.name == name).for_each(|c| c.add(carrier, payload.clone()));
    }
    captures
}

impl Recorded {
    fn stream(&self, to_server: bool) -> Vec<u8> {
        let sent = self.payloads.iter().filter(|p| p.to_server == to_server);
        sent.flat_map(|p| p.bytes.iter().copied()).collect()
    }

    fn greeting(&self) -> Greeting {
        Greeting::parse(&self.stream(false)).unwrap()
    }

    fn set_up(&self) -> Option<SetUp> {
        SetUp::parse(&self.stream(true)).ok()
    }

    fn server_start(&self) -> Option<ServerStart> {
        ServerStart::parse(self.stream(false).get(Greeting::LEN..)?).ok()
    }

    /// Returns the keys of a connection in a keyed mode; `None` in open mode.
    fn keys(&self) -> Option<SessionKeys> {
        let (greeting, set_up) = (self.greeting(), self.set_up().filter(|s| s.mode != 1)?);
        let key = derive(SECRET, &greeting.salt, greeting.count);
        SessionKeys::from_token(&set_up.token, &key, &greeting.challenge)
    }

    fn mode(&self) -> Option<crate::amp::SecurityMode> {
        crate::amp::SecurityMode::from_bits(self.set_up()?.mode)
    }

    /// Returns the two streams after the set-up, which are decrypted as they are read, and two streams that
    /// encrypt the same bytes again.
    fn streams(&self) -> Streams {
        let mut streams = Streams {
            client: (IncomingBytes::default(), OutgoingBytes::default()),
            server: (IncomingBytes::default(), OutgoingBytes::default()),
        };
        if let Some(keys) = self.keys() {
            let ivs = [self.set_up().unwrap().client_iv, self.server_start().unwrap().server_iv];
            for (side, iv) in [&mut streams.client, &mut streams.server].into_iter().zip(ivs) {
                side.0.protect(&keys, &iv);
                side.1.protect(&keys, &iv);
            }
        }
        streams.client.0.feed(self.stream(true).get(SetUp::LEN..).unwrap_or_default());
        streams.server.0.feed(self.stream(false).get(Greeting::LEN + ServerStart::LEN..).unwrap_or_default());
        streams
    }

    /// Returns the messages after the set-up, in plain text.
    fn messages(&self) -> Vec<Message> {
        let mut streams = self.streams();
        streams.server.0.take(ServerStart::TIME_LEN).unwrap();
        let mut messages = Vec::new();
        while let Some(message) = Message::read(&mut streams) {
            messages.push(message);
        }
        messages
    }
}

struct Streams {
    client: (IncomingBytes, OutgoingBytes),
    server: (IncomingBytes, OutgoingBytes),
}
