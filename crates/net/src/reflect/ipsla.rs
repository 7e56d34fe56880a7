//! Cisco IP SLA responder: one thread per address, which answers control messages and the probes to the ports that it
//! opened for them.

use super::udp::{AnsweringSocket, Answers};
use super::{OpenReflector, Reflector, ReflectorContext, at_port};
use crate::audit::{self, BegunTests, OddClients};
use crate::clock;
use crate::cmsg::LocalAddress;
use crate::sys;
use crate::sys::AsFd;
use crate::wake;
use jitlat_core::SteadyTime;
use jitlat_core::ntp::TimeFormat;
use jitlat_proto::ipsla::responder::IpslaTestStart;
use jitlat_proto::ipsla::v2::Status;
use jitlat_proto::ipsla::{self, IpslaKeys, Responder, ResponderRules};
use jitlat_proto::policy::{self, Ask, Grant, Service, TableGrant};
use jitlat_proto::twoway::reflect::{RequestArrival, Silence};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Responder for senders of Cisco IP SLA UDP jitter and UDP echo.
#[derive(Clone, Debug)]
pub struct IpslaReflector {
    /// UDP port of control messages.
    pub port: u16,
    /// Keys; if there are any, only signed control messages (version 2) are accepted.
    pub keys: IpslaKeys,
    /// UDP ports that senders may ask to open.
    pub test_ports: RangeInclusive<u16>,
    /// Format of times in probes of version 2.
    pub format: TimeFormat,
}

impl Default for IpslaReflector {
    fn default() -> IpslaReflector {
        IpslaReflector {
            port: ipsla::PORT,
            keys: IpslaKeys::default(),
            test_ports: ResponderRules::default().ports,
            format: TimeFormat::Ntp,
        }
    }
}

/// Maximum length of a control message that is read; the longest has 172 bytes.
const MAX_CONTROL: usize = 512;
/// Maximum length of a probe that is read. Cisco devices send at most 16 kB of data.
const MAX_PROBE: usize = 17 << 10;
/// Size of the kernel's buffer for the packets to one port, in bytes.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Memory of an open port, in bytes: the kernel counts twice the requested buffer size, and batches are read into 4 MB.
const PORT_MEMORY: u64 = 2 * RECEIVE_BUFFER as u64 + (4 << 20);
/// Maximum number of ports that are tried if the sender leaves the choice to the responder.
const MAX_TRIES: usize = 64;

impl Reflector for IpslaReflector {
    fn name(&self) -> &'static str {
        "IP SLA"
    }

    fn service(&self) -> Service {
        policy::IPSLA
    }

    fn authenticates(&self) -> bool {
        !self.keys.is_empty()
    }

    fn addresses(&self, ips: &[IpAddr]) -> Vec<SocketAddr> {
        at_port(ips, self.port)
    }

    fn open(&self, at: SocketAddr, shared: &ReflectorContext) -> io::Result<OpenReflector> {
        let control = AnsweringSocket::bind_polled(at, shared, MAX_CONTROL)?;
        let usual = ResponderRules::default();
        let size = ipsla::SESSION_BYTES as usize;
        let table = shared.gate.reserve_table(policy::IPSLA, usual.sessions, size, clock::steady());
        let rules = ResponderRules {
            keys: self.keys.clone(),
            ports: self.test_ports.clone(),
            duration: shared.policy().duration(policy::IPSLA).unwrap_or(usual.duration),
            format: self.format,
            sessions: table.entries,
            sessions_per_client: table.per_client,
            ..usual
        };
        let address = control.local_addr()?;
        let candidates = rules.ports.clone().filter(|port| rules.may_open(*port)).collect();
        let service = IpslaService {
            control,
            responder: Responder::new(rules),
            ports: ProbePorts { at: address, candidates, open: Vec::new(), lacks_memory: false },
            tests: BegunTests::new(policy::IPSLA),
            refused: OddClients::new(),
            shared: shared.clone(),
            _table: table,
        };
        Ok(OpenReflector { address, run: Box::new(move || service.run()) })
    }
}

struct IpslaService {
    control: AnsweringSocket<()>,
    responder: Responder,
    ports: ProbePorts,
    tests: BegunTests<IpslaTestStart>,
    refused: OddClients,
    shared: ReflectorContext,
    _table: TableGrant,
}

/// Sockets of the ports that are open.
struct ProbePorts {
    /// Address of the control messages.
    at: SocketAddr,
    /// Ports that may be opened.
    candidates: Vec<u16>,
    open: Vec<ProbePort>,
    /// True if the last port was not opened because of the limits of memory.
    lacks_memory: bool,
}

struct ProbePort {
    number: u16,
    socket: AnsweringSocket<()>,
    _memory: Grant,
}

impl IpslaService {
    fn run(mut self) {
        let mut answer = Vec::with_capacity(MAX_PROBE);
        while !self.shared.is_stopping() {
            let now = clock::steady();
            let closed = self.responder.close_ports(now);
            self.ports.open.retain(|port| !closed.contains(&port.number));
            let log = self.tests.write(now).map(|due| now + due);
            self.wait(log.into_iter().chain(self.responder.poll_timeout()).min());
            self.answer_control(&mut answer);
            self.answer_probes(&mut answer);
        }
    }

    fn wait(&self, deadline: Option<SteadyTime>) {
        let fixed = [self.shared.stop.as_fd(), self.control.socket().as_fd()];
        let probes = self.ports.open.iter().map(|port| port.socket.socket().as_fd());
        let readable: Vec<_> = fixed.into_iter().chain(probes).collect();
        wake::wait(&readable, deadline);
    }

    fn answer_control(&mut self, answer: &mut Vec<u8>) {
        let IpslaService { control, responder, ports, refused, shared, .. } = self;
        control.receive(None, |out, message, arrival, local| {
            answer.clear();
            let now = clock::tick();
            ports.lacks_memory = false;
            let mut open = |port| ports.open(port, arrival.from.ip(), shared);
            match responder.control(message, arrival, now, &mut open, answer) {
                Ok(()) => {
                    if let Some(status) = responder.take_refused()
                        && refused.is_news(arrival.from.ip(), now.steady)
                    {
                        audit::refused(policy::IPSLA, arrival.from, refusal(status, ports.lacks_memory));
                    }
                    out.push(answer, arrival.from, local, 0);
                }
                Err(why) => {
                    if refused.is_news(arrival.from.ip(), now.steady) {
                        audit::refused(policy::IPSLA, arrival.from, reason(why, ports.lacks_memory));
                    }
                    out.silent(why);
                }
            }
        });
        control.take_departed(|_, _| {});
    }

    fn answer_probes(&mut self, answer: &mut Vec<u8>) {
        let IpslaService { responder, ports, tests, .. } = self;
        for ProbePort { number, socket, .. } in &mut ports.open {
            socket.receive(None, |out, request, arrival, local| {
                match answer_probe(responder, *number, request, arrival, out, local, answer) {
                    Ok(Some(test)) => tests.began(arrival.from, test),
                    Ok(None) => {}
                    Err(why) => out.silent(why),
                }
            });
            socket.take_departed(|_, _| {});
        }
    }
}

/// Answers one packet to the open port `number`; returns the test that it begins, if any.
fn answer_probe(
    responder: &mut Responder,
    number: u16,
    request: &[u8],
    arrival: &RequestArrival,
    out: &mut Answers<()>,
    local: Option<LocalAddress>,
    answer: &mut Vec<u8>,
) -> Result<Option<IpslaTestStart>, Silence> {
    // A longer request has been truncated, and its answer would be shorter than the request.
    if request.len() >= MAX_PROBE {
        return Err(Silence::Foreign);
    }
    answer.clear();
    let leaving = out.leaving(arrival.from);
    responder.probe(number, request, arrival, leaving.at, answer)?;
    // Answers have the DSCP of their requests, so that both directions get the same treatment.
    let dscp = arrival.traffic_class.unwrap_or(0) >> 2;
    out.push_timed(answer, arrival.from, local, dscp, leaving);
    Ok(responder.take_begun())
}

/// Reason if a port's buffers do not fit in the limits of the policy.
const NO_MEMORY: &str = "the limits of the policy leave no memory for another open port";

/// Describes why a request of version 2 was refused.
fn refusal(status: Status, lacks_memory: bool) -> &'static str {
    match status {
        Status::Authentication => "a control message without a valid signature",
        Status::Format => "a control message with an unknown block or value",
        Status::PortInUse if lacks_memory => NO_MEMORY,
        Status::PortInUse => "the port is in use on this host",
        Status::Success | Status::Fail => "a port or a time that is not allowed, or too many sessions",
    }
}

/// Describes why a control message was not answered.
fn reason(why: Silence, lacks_memory: bool) -> &'static str {
    match why {
        Silence::Forged => {
            "a control message without a valid signature, or one of version 1 with a key-chain, whose use is not known"
        }
        Silence::Unwanted => "a port or a time that is not allowed, or too many sessions",
        Silence::Limited if lacks_memory => NO_MEMORY,
        Silence::Limited => "the port is in use on this host",
        _ => "not a control message of IP SLA that can be answered",
    }
}

impl ProbePorts {
    /// Opens a port for probes from `client`: this one or, if it is 0, any that is allowed. Returns its number; `None` if
    /// it is not available.
    fn open(&mut self, port: u16, client: IpAddr, shared: &ReflectorContext) -> Option<u16> {
        let ask = Ask { memory: PORT_MEMORY, ..Ask::default() };
        let memory = shared.gate.admit(policy::IPSLA, client, ask, clock::steady()).ok();
        self.lacks_memory = memory.is_none();
        let memory = memory?;
        // The port is closed when its sessions end, and not before.
        memory.set_busy();
        let bind = |port| {
            let mut at = self.at;
            at.set_port(port);
            AnsweringSocket::bind_polled(at, shared, MAX_PROBE).ok()
        };
        let socket = match port {
            0 => {
                let is_open = |port: &u16| self.open.iter().any(|open| open.number == *port);
                let free = self.candidates.iter().copied().filter(|port| !is_open(port));
                free.take(MAX_TRIES).find_map(bind)
            }
            port => bind(port),
        }?;
        sys::set_receive_buffer(socket.socket(), RECEIVE_BUFFER);
        let number = socket.local_addr().ok()?.port();
        self.open.push(ProbePort { number, socket, _memory: memory });
        Some(number)
    }
}
