//! LaMP server over UDP sockets.

use super::udp::{AnswerFate, AnswerTracking, AnsweringSocket, MAX_DATAGRAM};
use super::{OpenReflector, Reflector, ReflectorContext, at_port};
use crate::audit::BegunTests;
use crate::clock;
use crate::cmsg::LocalAddress;
use crate::random;
use jitlat_core::prefix::Prefix;
use jitlat_core::{Ecn, StampSource, WallTime};
use jitlat_proto::lamp::{self, LampFollowUp, LampHeader, LampReaction, ServerRules};
use jitlat_proto::policy::{self, Service, TableGrant};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Reflector for LaMP, the protocol of LaTe.
#[derive(Clone, Debug)]
pub struct LampReflector {
    /// UDP port.
    pub port: u16,
    /// Networks whose source addresses cannot be forged: clients in them need not prove their address.
    pub trusted: Vec<Prefix>,
}

impl Default for LampReflector {
    fn default() -> LampReflector {
        LampReflector { port: lamp::PORT, trusted: Vec::new() }
    }
}

impl Reflector for LampReflector {
    fn name(&self) -> &'static str {
        "LaMP"
    }

    fn service(&self) -> Service {
        policy::LAMP
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let socket = AnsweringSocket::bind(at, shared, MAX_DATAGRAM)?;
        let (address, shared) = (socket.local_addr()?, shared.clone());
        let (secret, trusted) = (secret()?, self.trusted.clone());
        Ok(OpenReflector { address, run: Box::new(move || serve(socket, secret, trusted, &shared)) })
    }
}

/// An answer whose follow-up waits for the kernel's transmit stamp.
#[derive(Clone, Copy)]
struct AwaitingFollowUp {
    to: SocketAddr,
    from: Option<LocalAddress>,
    dscp: u8,
    id: u16,
    seq: u16,
    /// Time at which the request arrived.
    arrived: WallTime,
    /// Time at which the answer was sent; used if no transmit stamp arrives.
    answered: WallTime,
}

/// Returns the secret from which a server derives its proofs of address.
pub(super) fn secret() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    random::fill(&mut secret)?;
    Ok(secret)
}

/// Reserves memory for the sessions of a server; returns `rules` with the numbers of sessions that fit into it, and the
/// grant for the memory.
pub(super) fn table<R: Copy>(rules: ServerRules, shared: &ReflectorContext) -> (ServerRules, TableGrant) {
    let size = lamp::Server::<R>::BYTES_PER_SESSION;
    let table = shared.gate.reserve_table(policy::LAMP, rules.sessions, size, clock::steady());
    (ServerRules { sessions: table.entries, sessions_per_client: table.per_client, ..rules }, table)
}

fn serve(
    mut socket: AnsweringSocket<AwaitingFollowUp>,
    secret: [u8; 32],
    trusted: Vec<Prefix>,
    shared: &ReflectorContext,
) {
    let send_stamps = if socket.stamps_answers() { StampSource::Kernel } else { StampSource::User };
    let rules =
        ServerRules { receive_stamps: StampSource::Kernel, send_stamps, trusted, ..ServerRules::default() };
    let (rules, _table) = table::<Option<LocalAddress>>(rules, shared);
    let mut server = lamp::Server::<Option<LocalAddress>>::new(rules, secret);
    let mut answer = Vec::with_capacity(MAX_DATAGRAM);
    let mut tests = BegunTests::new(policy::LAMP);
    let mut due = None;
    while !shared.is_stopping() {
        socket.receive(due, |out, request, arrival, local| {
            answer.clear();
            let dscp = arrival.traffic_class.map_or(0, |c| c >> 2);
            let now = clock::tick();
            let reaction = server.handle(request, arrival, local, now, &mut answer);
            if let Some(begun) = server.take_begun() {
                tests.began(arrival.from, begun);
            }
            match reaction {
                Ok(LampReaction::Taken) => {}
                Ok(LampReaction::Counted { last }) => shared.keep(request, arrival, last),
                Ok(LampReaction::Answer) => out.push(&answer, arrival.from, local, dscp),
                Ok(LampReaction::AnswerAndFollow(kind)) => {
                    let Some(LampHeader { id, seq, .. }) = LampHeader::parse(&answer) else { return };
                    if kind == LampFollowUp::Kernel {
                        let (to, arrived, answered) = (arrival.from, arrival.at, clock::wall());
                        let which = AwaitingFollowUp { to, from: local, dscp, id, seq, arrived, answered };
                        let tracking = AnswerTracking {
                            mark: Ecn::NotEct,
                            which,
                            stamped: true,
                            leaving: None,
                            same_link: false,
                        };
                        return out.push_tracked(&answer, to, local, dscp, tracking);
                    }
                    let began = if kind == LampFollowUp::Application { now.wall } else { arrival.at };
                    out.push(&answer, arrival.from, local, dscp);
                    if shared.may_follow_up(arrival.from) {
                        answer.clear();
                        server.follow_up(id, seq, clock::wall() - began, &mut answer);
                        out.push(&answer, arrival.from, local, dscp);
                    }
                }
                Err(why) => out.silent(why),
            }
        });
        socket.take_departed(|out, departed| {
            let AwaitingFollowUp { to, from, dscp, id, seq, arrived, answered } = departed.which;
            let left = match departed.departure {
                AnswerFate::Stamped(at) => at,
                AnswerFate::Unstamped => answered,
                AnswerFate::NotSent => return,
            };
            if !shared.may_follow_up(to) {
                return;
            }
            answer.clear();
            server.follow_up(id, seq, left - arrived, &mut answer);
            out.push(&answer, to, from, dscp);
        });
        answer.clear();
        let now = clock::tick();
        due = tests.write(now.steady);
        while let Some((to, from)) = server.poll_transmit(now, &mut answer) {
            if shared.take(to.ip(), answer.len(), now.steady).is_ok() {
                socket.send(&answer, to, from);
            }
            answer.clear();
        }
        due = server.poll_timeout().map(|next| next - now.steady).into_iter().chain(due).min();
    }
}
