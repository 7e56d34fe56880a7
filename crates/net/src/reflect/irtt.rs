//! IRTT server.

use super::lamp::secret;
use super::udp::{AnsweringSocket, MAX_DATAGRAM};
use super::{OpenReflector, Reflector, ReflectorContext, at_port, loopback};
use crate::audit::BegunTests;
use crate::clock;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use jitlat_proto::irtt::{self, IrttKey, IrttReaction, IrttRules, Server};
use jitlat_proto::policy::{self, Keys, Service, TableGrant};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Reflector for IRTT clients.
#[derive(Clone, Debug)]
pub struct IrttReflector {
    /// UDP port.
    pub port: u16,
    /// Keys of packets, by peer name. A peer that has a key only gets answers to packets with a valid HMAC.
    pub keys: Keys<IrttKey>,
    /// Shortest interval granted; requests at a shorter interval are not answered. Zero: no limit. The rate
    /// limits per client also apply.
    pub shortest_interval: Span,
    /// Networks whose source addresses cannot be forged: clients in them need not prove that they receive
    /// packets at their address.
    pub trusted: Vec<Prefix>,
}

impl Default for IrttReflector {
    fn default() -> IrttReflector {
        IrttReflector {
            port: irtt::PORT,
            keys: Keys::default(),
            shortest_interval: Span::ZERO,
            trusted: Vec::new(),
        }
    }
}

impl IrttReflector {
    /// Returns the protocol rules for a server with this policy, and the memory for its sessions.
    fn rules(&self, shared: &ReflectorContext) -> (IrttRules, TableGrant) {
        let usual = IrttRules::default();
        let size = irtt::SESSION_BYTES as usize;
        let table = shared.gate.reserve_table(policy::IRTT, usual.sessions, size, clock::steady());
        let rules = IrttRules {
            keys: self.keys.clone(),
            interval: self.shortest_interval,
            rate: shared.policy().announced(policy::IRTT),
            duration: shared.policy().duration(policy::IRTT).unwrap_or(Span::ZERO),
            sessions: table.entries,
            sessions_per_client: table.per_client,
            // Packets with loopback source addresses cannot come from a network.
            trusted: self.trusted.iter().copied().chain(loopback()).collect(),
            ..usual
        };
        (rules, table)
    }
}

impl Reflector for IrttReflector {
    fn name(&self) -> &'static str {
        "IRTT"
    }

    fn service(&self) -> Service {
        policy::IRTT
    }

    fn authenticates(&self) -> bool {
        !self.keys.is_empty()
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let socket = AnsweringSocket::bind(at, shared, MAX_DATAGRAM)?;
        let (rules, table) = self.rules(shared);
        let server = Server::new(rules, secret()?, clock::steady());
        let (address, shared) = (socket.local_addr()?, shared.clone());
        Ok(OpenReflector { address, run: Box::new(move || serve(socket, server, &table, &shared)) })
    }
}

/// Answers requests until the server stops. `_table` is the grant for the memory of the sessions.
fn serve(
    mut socket: AnsweringSocket<()>,
    mut server: Server,
    _table: &TableGrant,
    shared: &ReflectorContext,
) {
    let mut tests = BegunTests::new(policy::IRTT);
    let mut answer = Vec::with_capacity(MAX_DATAGRAM);
    let mut due = None;
    while !shared.is_stopping() {
        socket.receive(due, |out, request, arrival, local| {
            answer.clear();
            let leaving = out.leaving(arrival.from);
            match server.handle(request, arrival, leaving.at, &mut answer) {
                Ok(IrttReaction::Answer { tos }) => {
                    out.push_timed(&answer, arrival.from, local, tos >> 2, leaving);
                    if let Some(test) = server.take_begun() {
                        tests.began(arrival.from, test);
                    }
                }
                Ok(IrttReaction::Taken) => {}
                Err(why) => out.silent(why),
            }
        });
        due = tests.write(clock::steady());
        socket.take_departed(|_, _| {});
    }
}
