//! [`TestBed`]: a server and an impaired path on this machine. It needs no privileges.
//!
//! The server listens on 127.0.0.2. A relay on 127.0.0.1 forwards everything on the same ports between the server and a
//! client, through the impairment model.

use crate::error::Error;
use crate::one_way::OneWay;
use jitlat_core::Direction;
use jitlat_impair::Scenario;
use jitlat_net::RunningService;
use jitlat_net::emulator::{Forward, Numbering, Relay, RelayConfig};
use jitlat_net::pace::Pacing;
use jitlat_net::server::{JitlatServer, ServerSettings};
use jitlat_proto::jitlat::ServerLimits;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// Address of the relay. With a separate loopback address for each, relay and server can use the same ports.
const CLIENT_SIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// Address of the server.
const SERVER_SIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A server behind an impaired path. Both end when this value is dropped.
pub struct TestBed {
    server: Option<RunningService>,
    relay: Option<Relay>,
    /// Ports: control connection, upstream packets, downstream packets, and the port on which a client
    /// receives.
    ports: [u16; 4],
}

impl TestBed {
    /// Starts the server and the relay; `scenario` describes the path.
    ///
    /// # Errors
    /// [`Error`] if this host has no free ports.
    pub fn start(scenario: Scenario) -> Result<TestBed, Error> {
        let ports = free_ports()?;
        let [control, up, down, _] = ports;
        let service = ServerSettings {
            bind: vec![SocketAddr::from((SERVER_SIDE, control))],
            test_port: up,
            limits: ServerLimits::default(),
            keys: Default::default(),
            pacing: Pacing::default(),
            priority: None,
        };
        let server = JitlatServer::bind(service)?.start()?;
        let through =
            |port: u16| Forward { listen: (CLIENT_SIDE, port).into(), to: (SERVER_SIDE, port).into() };
        let relay = Relay::start(RelayConfig {
            tcp: [control, up, down].map(through).to_vec(),
            udp: [up, down].map(through).to_vec(),
            numbering: Numbering::Sequence,
            scenario,
        });
        let relay = relay.map_err(Error::Relay)?;
        Ok(TestBed { server: Some(server), relay: Some(relay), ports })
    }

    /// Changes `test` so that it runs against the server through the path.
    pub fn direct(&self, test: &mut OneWay) {
        let [control, up, down, here] = self.ports;
        test.settings.host = CLIENT_SIDE.to_string();
        test.settings.control_port = control;
        for spec in &mut test.settings.terms.specs {
            // The relay must know the server's ports in advance, because it forwards fixed ports only.
            (spec.src_port, spec.dst_port) = match spec.direction() {
                Direction::Up => (0, up),
                Direction::Down => (down, here),
            };
        }
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        // The server is dropped before the relay, so that it does not wait for clients that can no longer
        // reach it.
        self.server = None;
        if let Some(relay) = self.relay.take() {
            relay.stop();
        }
    }
}

/// Finds ports that are free on both addresses, for TCP and UDP.
fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let free = (0..50).find_map(|_| {
            let tcp = TcpListener::bind((SERVER_SIDE, 0)).ok()?;
            let port = tcp.local_addr().ok()?.port();
            let others = (
                TcpListener::bind((CLIENT_SIDE, port)).ok()?,
                UdpSocket::bind((CLIENT_SIDE, port)).ok()?,
                UdpSocket::bind((SERVER_SIDE, port)).ok()?,
            );
            Some((port, tcp, others))
        });
        let none = || Error::System {
            doing: "finding free ports on the loopback interface",
            source: io::ErrorKind::AddrInUse.into(),
        };
        let (number, tcp, others) = free.ok_or_else(none)?;
        *port = number;
        held.push((tcp, others));
    }
    Ok(ports)
}
