//! Runs one two-way test over datagrams.

use super::exchange::Exchange;
use crate::pace::Pacing;
use crate::privilege::{Capability, how_to_grant, needs};
use crate::stamp::StampMode;
use crate::sys;
use crate::twoway::socket::{self, Carrier, Marking, PreparedSocket};
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{PacketRecord, Span, SteadyTime, WallTime};
use jitlat_proto::twoway::pinger::PingOutcome;
use jitlat_proto::twoway::{PingPlan, Pinger, Protocol};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

/// Settings for reaching the far host and for running the test on this host.
#[derive(Clone, Debug)]
pub struct TwoWayLink {
    /// Address of the far host; the port is ignored for ICMP.
    pub to: SocketAddr,
    /// Kind of packets.
    pub carrier: Carrier,
    /// Addresses and marks.
    pub marking: Marking,
    /// Preferred kind of timestamps.
    pub stamps: StampMode,
    /// Scheduling and waiting method of the thread.
    pub pacing: Pacing,
    /// Time of the first request; `None`: as soon as requests may be sent.
    pub start: Option<WallTime>,
    /// Queue for the events of the test; `None`: not needed. Events that do not fit into the queue are still
    /// part of the result. A polling receiver costs less than a blocking one, which has to be woken.
    pub live: Option<SyncSender<PingEvent>>,
}

/// An event of a running test.
#[derive(Clone, Copy, Debug)]
pub enum PingEvent {
    /// An answer, with the data available so far.
    Answer(PacketRecord),
    /// Progress of the test, a few times per second.
    Progress(TwoWayProgress),
}

/// Sends the events of a test, each of them once.
pub(crate) struct ProgressFeed<'a> {
    to: Option<&'a SyncSender<PingEvent>>,
    answers: usize,
    progress: SteadyTime,
}

impl<'a> ProgressFeed<'a> {
    pub(crate) fn new(link: &'a TwoWayLink) -> ProgressFeed<'a> {
        ProgressFeed { to: link.live.as_ref(), answers: 0, progress: SteadyTime(i64::MIN) }
    }

    /// Sends new events without blocking. If the queue is full, a later call sends them.
    pub(crate) fn send_events<P: Protocol>(&mut self, pinger: &Pinger<P>, now: SteadyTime) {
        let Some(to) = self.to else { return };
        let answers = pinger.answers_since(self.answers).take(MAX_ANSWERS);
        self.answers += answers.take_while(|r| to.try_send(PingEvent::Answer(*r)).is_ok()).count();
        if now - self.progress >= PROGRESS_INTERVAL {
            self.progress = now;
            let requests = pinger.requests();
            let progress = TwoWayProgress { sent: requests.sent(), answered: requests.answered() };
            // If the queue is full, a later progress event is sent instead.
            let _ = to.try_send(PingEvent::Progress(progress));
        }
    }
}

/// Reason why a test could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// The socket could not be set up.
    #[error("cannot open a socket to {}: {hint}", host(to))]
    Socket {
        /// Address of the far host.
        to: SocketAddr,
        /// Reason for the failure, and a suggested action.
        hint: String,
    },
    /// No request could be sent.
    #[error(
        "cannot send to {}: {source}{}",
        host(to),
        match source.kind() {
            io::ErrorKind::AddrNotAvailable => ": --bind must be an address of this host",
            io::ErrorKind::PermissionDenied => ": does a firewall on this host block it?",
            _ => "",
        }
    )]
    Send {
        /// Address of the far host.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The exchange with the far host failed.
    #[error("{}: {why}", host(to))]
    Conversation {
        /// Address of the far host.
        to: SocketAddr,
        /// Reason for the failure, and a suggested action.
        why: String,
    },
    /// The far host reports that nothing listens on the port.
    #[error(
        "{0} refused the packets: nothing listens on this port; is the reflector running, and is the port right?"
    )]
    Refused(SocketAddr),
    /// No request was answered, and a host on the path reported that these packets are prohibited.
    #[error(
        "{}: a router or firewall on the path reports that this traffic is prohibited (ICMP); does it let {} through?",
        host(.0), if .0.port() == 0 { "echo requests" } else { "this protocol and port" }
    )]
    Prohibited(SocketAddr),
    /// No connection can be established: this host has no route, or a host on the path reported that it has
    /// no route or prohibits these packets.
    #[error(
        "{}: {source}; is there a route to it, and does a firewall on the path prohibit {}?",
        host(to), if to.port() == 0 { "echo requests" } else { "this port" }
    )]
    Unreachable {
        /// Address of the far host.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Formats a far host and its port. Echo requests have no port.
fn host(to: &SocketAddr) -> String {
    if to.port() == 0 { to.ip().to_string() } else { to.to_string() }
}

/// Result of a test.
pub struct TwoWayMeasured<P> {
    /// Records and counts.
    pub outcome: PingOutcome<P>,
    /// Local address and port.
    pub local: SocketAddr,
    /// Kind of timestamps in use.
    pub stamps: StampMode,
    /// Facts about this host.
    pub host: HostFacts,
    /// Way in which the test ended.
    pub ending: Ending,
    /// Path MTU that the kernel knew after the test, in bytes; `None` if no request exceeds it, or if it is unknown.
    pub path_mtu: Option<u32>,
    /// Number of requests that could not be sent.
    pub unsent: u64,
    /// Number of requests whose transmit stamp was requested but did not arrive; `None` if no stamps were
    /// requested.
    pub stamps_lost: Option<u64>,
    /// Number of "port unreachable" messages received.
    pub refused: u64,
    /// Number of received messages that report that a filter or policy prohibits these packets.
    pub prohibited: u64,
}

/// Progress of a test.
#[derive(Clone, Copy, Debug)]
pub struct TwoWayProgress {
    /// Number of requests sent.
    pub sent: u64,
    /// Number of requests answered.
    pub answered: u64,
}

/// Maximum number of answers passed on in one call.
const MAX_ANSWERS: usize = 32;
/// Time between two progress events.
const PROGRESS_INTERVAL: Span = Span::millis(250);

/// Runs `protocol` against `link` according to `plan`, until the test is complete or `stop` is set. After a
/// stop, answers in transit are still received. The argument of `make` is true if the kernel chooses the ICMP
/// identifier.
pub fn run<P: Protocol>(
    make: impl FnOnce(bool) -> P,
    plan: PingPlan,
    link: &TwoWayLink,
    stop: &AtomicBool,
) -> Result<TwoWayMeasured<P>, PingError> {
    run_on(prepare(link, plan.spec.payload().into())?, make, plan, link, stop)
}

/// Opens the socket of a test with requests of `payload` bytes, so that its port can be sent to the far host
/// before [`run_on`].
pub fn prepare(link: &TwoWayLink, payload: usize) -> Result<PreparedSocket, PingError> {
    socket::open(link.carrier, link.to, &link.marking, link.stamps, payload).map_err(|e| match e.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            PingError::Unreachable { to: link.to, source: e }
        }
        _ => PingError::Socket { to: link.to, hint: hint(link.carrier, &e) },
    })
}

/// Like [`run`], on a socket that is already open.
pub fn run_on<P: Protocol>(
    prepared: PreparedSocket,
    make: impl FnOnce(bool) -> P,
    plan: PingPlan,
    link: &TwoWayLink,
    stop: &AtomicBool,
) -> Result<TwoWayMeasured<P>, PingError> {
    let mut exchange = Exchange::new(prepared, make, plan, link);
    while let Some(due) = exchange.turn(stop) {
        exchange.wait_until(due);
    }
    exchange.finish()
}

fn hint(carrier: Carrier, e: &io::Error) -> String {
    match (carrier, e.kind()) {
        (Carrier::Icmp, io::ErrorKind::PermissionDenied) => format!(
            "{e}: let your group use ping sockets (sudo sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"), or \
             this program {}",
            needs(Capability::NetRaw)
        ),
        (_, io::ErrorKind::PermissionDenied) => {
            let wanted = [Capability::NetRaw, Capability::NetBindService];
            format!(
                "{e}: --interface needs {}, a port below 1024 needs {}; to grant both: {}",
                wanted[0],
                wanted[1],
                how_to_grant(&wanted)
            )
        }
        (_, io::ErrorKind::AddrNotAvailable) => format!("{e}: --bind must be an address of this host"),
        _ if sys::is_no_device(e) => {
            format!("{e}: --interface must be an interface of this host; `ip link` lists them")
        }
        _ if sys::is_invalid(e) => {
            format!("{e}: is there a route from the address or interface of --bind to that host?")
        }
        _ => e.to_string(),
    }
}
