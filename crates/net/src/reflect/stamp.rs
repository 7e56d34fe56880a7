//! STAMP and TWAMP Light reflector.

use super::udp::{AnswerFate, AnswerTracking, AnsweringSocket, MAX_DATAGRAM};
use super::{ClockError, OpenReflector, Reflector, ReflectorContext, at_port, loopback};
use crate::audit::{BegunTests, OddClients};
use crate::clock;
use jitlat_core::StampSource;
use jitlat_core::prefix::Prefix;
use jitlat_proto::policy::{self, Service, TableGrant};
use jitlat_proto::stamp::{self, ReflectorRules};
use jitlat_proto::twoway::reflect::Silence;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Reflector for STAMP and TWAMP Light.
#[derive(Clone, Debug)]
pub struct StampReflector {
    /// UDP port.
    pub port: u16,
    /// Key of the authenticated mode. With a key, unauthenticated requests are not answered. `None`:
    /// unauthenticated mode.
    pub key: Option<stamp::auth::StampKey>,
    /// Keys by network, which override `key`.
    pub keys: Vec<(Prefix, stamp::auth::StampKey)>,
    /// Maximum number of sessions whose answers are counted; 0: stateless.
    pub sessions: usize,
    /// Networks whose source addresses cannot be forged, in addition to the loopback networks. Requests from
    /// these networks get a full-length answer even if they are shorter than the answer.
    pub trusted: Vec<Prefix>,
    /// Identifier of this host's link in micro-sessions (RFC 9534); `None`: unknown.
    pub link_id: Option<u16>,
}

impl Default for StampReflector {
    fn default() -> StampReflector {
        StampReflector {
            port: stamp::PORT,
            key: None,
            keys: Vec::new(),
            sessions: ReflectorRules::default().sessions,
            trusted: Vec::new(),
            link_id: None,
        }
    }
}

/// Warns that answers to `peer` are cut to `len` bytes.
fn warn_of_cut(peer: SocketAddr, len: usize) {
    let ip = peer.ip().to_canonical();
    tracing::warn!(
        service = policy::STAMP, %peer,
        "requests of {len} bytes are shorter than a whole answer, so answers are cut, and some programs count them as \
         lost: --stamp-trust {ip} answers this client in full, --stamp-trust link all directly connected ones"
    );
}

/// Warns that requests of `len` bytes from `peer` are not answered.
fn warn_of_silence(peer: SocketAddr, len: usize, shortest: usize) {
    tracing::warn!(
        service = policy::STAMP, %peer,
        "requests of {len} bytes are not answered: send at least {shortest} bytes"
    );
}

/// An answer that was sent.
#[derive(Clone, Copy)]
struct SentAnswer {
    to: SocketAddr,
    ssid: u16,
    seq: u32,
}

/// Session identifier; 0 for a client that does not send one.
struct StampSessionId(u16);

impl fmt::Display for StampSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.0)
    }
}

impl Reflector for StampReflector {
    fn name(&self) -> &'static str {
        "STAMP"
    }

    fn service(&self) -> Service {
        policy::STAMP
    }

    fn authenticates(&self) -> bool {
        self.key.is_some() || !self.keys.is_empty()
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let socket = AnsweringSocket::bind(at, shared, MAX_DATAGRAM)?;
        let size = stamp::StampSessionReflector::BYTES_PER_SESSION;
        let table = shared.gate.reserve_table(policy::STAMP, self.sessions, size, clock::steady());
        let rules = ReflectorRules {
            key: self.key.clone(),
            keys: self.keys.clone(),
            sessions: table.entries,
            sessions_per_client: table.per_client,
            stamps: StampSource::Kernel,
            trusted: self.trusted.iter().copied().chain(loopback()).collect(),
            link_id: self.link_id,
            ..ReflectorRules::default()
        };
        let (address, shared) = (socket.local_addr()?, shared.clone());
        Ok(OpenReflector { address, run: Box::new(move || reflect(socket, rules, &table, &shared)) })
    }
}

/// Answers requests until the server stops. `_table` is the grant for the memory of the sessions.
fn reflect(
    mut socket: AnsweringSocket<SentAnswer>,
    rules: ReflectorRules,
    _table: &TableGrant,
    shared: &ReflectorContext,
) {
    let shortest = rules.shortest_request();
    let mut reflector = stamp::StampSessionReflector::new(rules);
    let mut answer = vec![0; MAX_DATAGRAM];
    let mut error = ClockError::read();
    let mut tests = BegunTests::new(policy::STAMP);
    let mut short = OddClients::new();
    let mut due = None;
    while !shared.is_stopping() {
        let stamps = socket.stamps_answers();
        socket.receive(due, |out, request, arrival, local| {
            let leaving = out.leaving(arrival.from);
            match reflector.reflect(request, arrival, leaving.at, error.at(leaving.at.steady), &mut answer) {
                Ok(r) => {
                    let which = SentAnswer { to: arrival.from, ssid: r.ssid, seq: r.seq };
                    // In sessions that request departure times, every answer is stamped.
                    let stamped = r.follow_up && stamps;
                    let tracking = AnswerTracking {
                        mark: r.mark,
                        which,
                        stamped,
                        leaving: Some(leaving),
                        same_link: r.same_link,
                    };
                    out.push_tracked(&answer[..r.len], arrival.from, local, r.dscp, tracking);
                    if r.cut && short.is_news(arrival.from.ip(), leaving.at.steady) {
                        warn_of_cut(arrival.from, r.len);
                    }
                    if r.first {
                        tests.began(arrival.from, StampSessionId(r.ssid));
                    }
                }
                Err(why) => {
                    if why == Silence::Short && short.is_news(arrival.from.ip(), leaving.at.steady) {
                        warn_of_silence(arrival.from, request.len(), shortest);
                    }
                    out.silent(why);
                }
            }
        });
        due = tests.write(clock::steady());
        socket.take_departed(|_, departed| {
            let SentAnswer { to, ssid, seq } = departed.which;
            match departed.departure {
                AnswerFate::Stamped(at) => reflector.left(to, ssid, seq, at),
                AnswerFate::Unstamped => {}
                AnswerFate::NotSent => reflector.not_sent(to, ssid, seq),
            }
        });
    }
}
