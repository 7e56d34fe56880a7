//! TCP request-response responder.

use super::control::listen;
use super::{MAX_WAIT, OpenReflector, Reflector, ReflectorContext, at_port};
use crate::accept::ConnectionService;
use crate::sockets::TimeoutStream;
use crate::{audit, clock};
use jitlat_core::{Span, SteadyTime};
use jitlat_proto::accounts::Allowance;
use jitlat_proto::policy::{self, Grant, PolicyRefusal, Service};
use jitlat_proto::reqresp::{self, ExchangeSizes, GREETING_LEN, respond};
use jitlat_proto::twoway::reflect::Silence;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// Answers requests of fixed size over TCP connections.
#[derive(Clone, Debug)]
pub struct TcpResponder {
    /// TCP port.
    pub port: u16,
    /// Timeout for a client to send a whole request and to read the whole response, so that a client cannot
    /// hold a connection by transferring single bytes. The greeting has its own timeout of 5 s.
    pub timeout: Duration,
}

impl Default for TcpResponder {
    fn default() -> TcpResponder {
        TcpResponder { port: reqresp::PORT, timeout: Duration::from_secs(60) }
    }
}

/// Timeout of the greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

impl Reflector for TcpResponder {
    fn name(&self) -> &'static str {
        "TCP request-response"
    }

    fn service(&self) -> Service {
        policy::TCP
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        listen(at, shared, |_| Responding { shared: shared.clone(), timeout: self.timeout })
    }
}

struct Responding {
    shared: ReflectorContext,
    timeout: Duration,
}

impl ConnectionService for Responding {
    fn name(&self) -> &'static str {
        "responder"
    }

    fn service(&self) -> Service {
        policy::TCP
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        // The connection is closed in any case.
        let _ = self.respond(&stream, peer, grant);
    }

    fn turn_away(&self, _stream: &TcpStream, _peer: SocketAddr, why: &PolicyRefusal) {
        self.shared.counters.silent(Silence::of(why));
    }
}

impl Responding {
    /// Answers the requests of one connection until the connection ends or times out, or the server stops.
    fn respond(&self, stream: &TcpStream, client: SocketAddr, grant: &Grant) -> io::Result<()> {
        stream.set_nodelay(true)?;
        self.shared.prefer(stream);
        let longest = self.shared.policy().duration(policy::TCP);
        let ends = longest.map_or(SteadyTime(i64::MAX), |longest| clock::steady() + longest);
        let over = || self.shared.is_stopping() || grant.is_evicted() || clock::steady() >= ends;
        let peer = TimeoutStream::new(stream, &over)?;
        let mut greeting = [0; GREETING_LEN];
        let greeted_within = GREETING_TIMEOUT.min(self.timeout);
        peer.read_exact(&mut greeting, greeted_within)?;
        let Some(sizes) = ExchangeSizes::from_greeting(&greeting) else { return Ok(()) };
        peer.write_all(&greeting, greeted_within)?;
        let what = format_args!("requests of {} bytes, responses of {}", sizes.request(), sizes.response());
        audit::accepted(policy::TCP, client, what);
        let own = Allowance::new(self.shared.policy().connection(policy::TCP));
        let (mut request, mut response) = (vec![0; sizes.request()], vec![0; sizes.response()]);
        while !over() {
            peer.read_exact(&mut request, self.timeout)?;
            let arrived = clock::wall();
            grant.touch(clock::steady());
            // Limits count the larger direction.
            let bytes = sizes.request().max(sizes.response());
            self.await_turn(|now| own.take(bytes, now))?;
            self.await_turn(|now| self.shared.take(client.ip(), bytes, now))?;
            respond(&request, arrived, clock::wall(), &mut response);
            peer.write_all(&response, self.timeout)?;
            self.shared.counters.answered(1);
        }
        Ok(())
    }

    /// Waits until `take` permits one more answer. A request over TCP cannot be dropped; meanwhile, TCP's
    /// flow control slows the client down.
    fn await_turn(&self, take: impl Fn(SteadyTime) -> Result<(), Span>) -> io::Result<()> {
        while let Err(wait) = take(clock::steady()) {
            if self.shared.is_stopping() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            std::thread::sleep(Duration::from_nanos(wait.min(MAX_WAIT).0.unsigned_abs()));
        }
        Ok(())
    }
}
