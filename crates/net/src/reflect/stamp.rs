//! The STAMP and TWAMP Light reflector.

use super::udp::{AnsweringSocket, Departure, LARGEST};
use super::{ClockError, Opened, Reflector, Shared, at_port};
use crate::clock;
use jitlat_core::Source;
use jitlat_proto::policy::{self, Service};
use jitlat_proto::stamp::{self, Rules};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Answers STAMP and TWAMP Light requests.
#[derive(Clone, Debug)]
pub struct StampReflector {
    /// Its UDP port.
    pub port: u16,
    /// The key of the authenticated mode; with a key, unsigned requests are not answered.
    pub key: Option<stamp::auth::Key>,
    /// Number of sessions whose answers are counted; 0 = stateless.
    pub sessions: usize,
}

impl Default for StampReflector {
    fn default() -> StampReflector {
        StampReflector { port: stamp::PORT, key: None, sessions: Rules::default().sessions }
    }
}

/// An answer that was sent.
#[derive(Clone, Copy)]
struct Answered {
    to: SocketAddr,
    ssid: u16,
    seq: u32,
}

impl Reflector for StampReflector {
    fn name(&self) -> &'static str {
        "STAMP"
    }

    fn service(&self) -> Service {
        policy::STAMP
    }

    fn authenticates(&self) -> bool {
        self.key.is_some()
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &Shared) -> io::Result<Opened> {
        let socket = AnsweringSocket::bind(at, shared, LARGEST)?;
        let rules = Rules {
            key: self.key.clone(),
            sessions: self.sessions,
            stamps: Source::Kernel,
            ..Rules::default()
        };
        let (address, shared) = (socket.local_addr()?, shared.clone());
        Ok(Opened { address, run: Box::new(move || reflect(socket, rules, &shared)) })
    }
}

fn reflect(mut socket: AnsweringSocket<Answered>, rules: Rules, shared: &Shared) {
    let mut reflector = stamp::Reflector::new(rules);
    let mut answer = vec![0; LARGEST];
    let mut error = ClockError::read();
    while !shared.is_stopping() {
        let stamps = socket.stamps_answers();
        let error = error.at(clock::steady());
        socket.receive(|out, request, arrival, local| {
            match reflector.reflect(request, arrival, clock::tick(), error, &mut answer) {
                Ok(r) => {
                    let which = Answered { to: arrival.from, ssid: r.ssid, seq: r.seq };
                    // Only sessions that ask when answers left get stamped answers.
                    let stamped = r.follow_up && stamps;
                    out.push_tracked(&answer[..r.len], arrival.from, local, r.dscp, which, stamped);
                }
                Err(why) => out.silent(why),
            }
        });
        socket.take_departed(|_, departed| {
            let Answered { to, ssid, seq } = departed.which;
            match departed.departure {
                Departure::Stamped(at) => reflector.left(to, ssid, seq, at),
                Departure::Unstamped => {}
                Departure::NotSent => reflector.not_sent(to, ssid, seq),
            }
        });
    }
}
