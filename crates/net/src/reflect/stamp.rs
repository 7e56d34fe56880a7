//! The STAMP and TWAMP Light reflector.

use super::udp::{AnsweringSocket, LARGEST};
use super::{ClockError, Opened, Reflector, Shared, at_port};
use crate::clock;
use jitlat_core::Source;
use jitlat_proto::stamp::{self, Rules};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Answers STAMP and TWAMP Light requests.
#[derive(Clone, Debug)]
pub struct StampReflector {
    /// Its UDP port.
    pub port: u16,
    /// The key of the authenticated mode; with one, unsigned requests are not answered.
    pub key: Option<stamp::auth::Key>,
    /// Sessions whose answers are counted; 0 = stateless.
    pub sessions: usize,
}

impl Default for StampReflector {
    fn default() -> StampReflector {
        StampReflector { port: stamp::PORT, key: None, sessions: Rules::default().sessions }
    }
}

/// The answer that a transmit stamp is of.
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
    let mut error = ClockError::look();
    while !shared.is_stopping() {
        let stamps = socket.stamps_answers();
        let error = error.at(clock::steady());
        socket.receive(|out, request, arrival, local| {
            match reflector.reflect(request, arrival, clock::tick(), error, &mut answer) {
                // Only sessions that ask when answers left have them stamped.
                Ok(r) if r.follow_up && stamps => {
                    let which = Answered { to: arrival.from, ssid: r.ssid, seq: r.seq };
                    out.push_stamped(&answer[..r.len], arrival.from, local, r.dscp, which);
                }
                Ok(r) => out.push(&answer[..r.len], arrival.from, local, r.dscp),
                Err(why) => out.silent(why),
            }
        });
        socket.take_stamps(|_, left| {
            if let Some(at) = left.at {
                reflector.left(left.which.to, left.which.ssid, left.which.seq, at);
            }
        });
    }
}
