//! Driver of the client: connects, runs the client state machine and the flow engine, and delivers records to
//! an observer.

use crate::clock::{ClockSteps, host_facts, stamping_clock, steady, tick, worse_clock};
use crate::drive::{Driver, facts_after};
use crate::engine::rendezvous::Rendezvous;
use crate::engine::{Engine, EngineSettings};
use crate::interface::InterfaceCounters;
use crate::launch::ThisHost;
use crate::pace::SendSettings;
use crate::random;
use crate::resolve::{self, ResolveError};
use crate::sockets::{self, NotConnected};
use crate::stamp::StampMode;
use jitlat_core::observer::{Event, Observer, StreamProgress};
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::{Session, Span, TestSpec, WallTime};
use jitlat_proto::Machine;
use jitlat_proto::jitlat::{
    ClientConfig, ClientEvent, ClientInput, ClientMachine, ConversationFailure, ConversationProgress,
    FlowReport, Recording, SessionId, TestTerms,
};
use jitlat_proto::policy::{Gate, Policy};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Settings of a one-way test.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// Name or address of the server.
    pub host: String,
    /// Control port of the server.
    pub control_port: u16,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
    /// Local address of the control connection and the test sockets; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Streams, protocol dialect, key and timestamps. With feedback, observers receive
    /// [`Event::FarReceived`].
    pub terms: TestTerms,
    /// Settings of the sender on this host.
    pub sending: SendSettings,
    /// Time after which running streams are ended; `None`: all packets are sent. It limits tests whose duration was
    /// requested, which would take much longer if the sender could not keep up the rate.
    pub limit: Option<Span>,
    /// Start and end of the streams, if the start is to be at a certain time. Only OWAMP sessions support this.
    pub times: Option<Arc<StreamTimes>>,
}

/// Start and end of streams that other streams precede or follow.
#[derive(Debug)]
pub struct StreamTimes {
    /// Requested start of the streams. They start later if the time until then is too short to agree on them with the
    /// server.
    pub start: WallTime,
    /// Scheduled time of the last packet; set when the server has accepted the streams.
    pub end: OnceLock<WallTime>,
}

impl StreamTimes {
    /// Creates the times of streams that begin at `start`.
    pub fn starting_at(start: WallTime) -> StreamTimes {
        StreamTimes { start, end: OnceLock::new() }
    }
}

impl TestRequest {
    /// Returns a request for a test with kernel timestamps against `jitlat serve` on `host`; `specs` contains
    /// one stream, or one per direction.
    pub fn new(host: impl Into<String>, specs: Vec<TestSpec>) -> TestRequest {
        TestRequest {
            host: host.into(),
            control_port: CONTROL_PORT,
            family: None,
            bind: None,
            terms: TestTerms::new(specs),
            sending: SendSettings::default(),
            limit: None,
            times: None,
        }
    }
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl AddressFamily {
    /// True if `address` belongs to this family.
    pub fn has(self, address: &SocketAddr) -> bool {
        address.is_ipv4() == (self == AddressFamily::V4)
    }
}

/// Result of a test, apart from its records.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Session of each flow.
    pub sessions: Vec<Session>,
    /// Way in which the test ended.
    pub ending: Ending,
    /// Reason why the test did not end normally; `None` after a complete test.
    pub reason: Option<String>,
}

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The host has no usable address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The connection failed.
    #[error("cannot connect to {host} ({address}): {source}; {}", advice(.source, server))]
    Connect {
        /// Host name.
        host: String,
        /// Last address that was tried.
        address: SocketAddr,
        /// Programs that answer on this port, for example `jitlat serve`.
        server: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The user stopped the test before a connection was established.
    #[error("interrupted while connecting to {host} ({address})")]
    Interrupted {
        /// Host name.
        host: String,
        /// Address to which a connection was being made.
        address: SocketAddr,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the test: {0}")]
    Start(#[from] io::Error),
    /// The control connection failed.
    #[error("testing against {address}: {failure}")]
    Failed {
        /// Address of the server.
        address: SocketAddr,
        /// Reason for the failure.
        failure: ConversationFailure,
    },
}

fn advice(error: &io::Error, server: &str) -> String {
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => return format!("is {server} running on that host and port?"),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "is the host up, and does a firewall let the control port through?"
        }
        io::ErrorKind::AddrNotAvailable => {
            "--bind must be an address of this host, in the same family as the server's address"
        }
        _ if sockets::is_prohibition(error) => {
            "is there a route to it, and does a firewall on the path prohibit this port?"
        }
        _ => "is there a route to it?",
    };
    advice.to_owned()
}

/// Timeout for a control connection to one address: several round trips over two satellite links.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(12);
/// Time without an answer after which [`Event::Unanswered`] is sent.
const NOTICE_DELAY: Duration = Duration::from_secs(2);

/// Runs a test to its end. Setting `stop` ends it early: records received by then are retained, and the
/// results still available are fetched from the server. Setting it again also aborts the fetch. On return
/// `stop` is set if it was ever set.
///
/// # Errors
/// [`ClientError`] if nothing was measured. A test cut short for any reason is not an error: see
/// [`Measured::ending`].
pub fn run(
    request: &TestRequest,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Measured, ClientError> {
    let (stream, remote) = connect(&request.server(), stop, observer)?;
    let mut test = ClientConversation::new(request, stream, remote, None)?;
    let outcome = test.run(stop, observer);
    stop.fetch_or(test.interrupted, Ordering::Relaxed);
    outcome
}

/// An earlier test, whose results the server may still have.
#[derive(Clone, Debug)]
pub struct EarlierTest {
    /// Identifier of the test on the server.
    pub session: SessionId,
    /// One entry per flow of the request: the packets received here; `None` for a flow sent by this host.
    pub recordings: Vec<Option<Recording>>,
}

/// Fetches the results of an earlier test with the same flows from the server of `request`, for a client that
/// ended or lost its connection before it could fetch them.
///
/// # Errors
/// [`ClientError`], for example if the server no longer has the results.
pub fn collect(
    request: &TestRequest,
    earlier: EarlierTest,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Measured, ClientError> {
    let (stream, remote) = connect(&request.server(), stop, observer)?;
    let mut test = ClientConversation::new(request, stream, remote, Some(earlier))?;
    let outcome = test.run(stop, observer);
    stop.fetch_or(test.interrupted, Ordering::Relaxed);
    outcome
}

/// Address of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerAddress<'a> {
    /// Name or address of the host.
    pub host: &'a str,
    /// TCP port of the host's control connections.
    pub port: u16,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
    /// Local address of the connection; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Programs that answer on this port, for messages.
    pub programs: &'static str,
}

impl TestRequest {
    fn server(&self) -> ServerAddress<'_> {
        let TestRequest { host, control_port, family, bind, .. } = self;
        ServerAddress { host, port: *control_port, family: *family, bind: *bind, programs: "`jitlat serve`" }
    }
}

/// Connects to the first address of the server that accepts the connection.
pub(crate) fn connect(
    server: &ServerAddress<'_>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(TcpStream, SocketAddr), ClientError> {
    let host = server.host;
    let bound = server.bind.map(|ip| if ip.is_ipv4() { AddressFamily::V4 } else { AddressFamily::V6 });
    let addresses = resolve::addresses(host, server.port, server.family.or(bound), None)?;
    // The address that was tried last, and when; `None` for the time once it was reported as unanswered.
    let trying = Cell::new((addresses[0], None));
    let observer = RefCell::new(observer);
    let connected = sockets::connect_first(
        server.bind,
        &addresses,
        CONNECT_TIMEOUT,
        |address| {
            trying.set((address, Some(Instant::now())));
            observer.borrow_mut().event(&Event::Connecting(address));
        },
        || {
            let (address, begun) = trying.get();
            if begun.is_some_and(|begun| begun.elapsed() > NOTICE_DELAY) {
                trying.set((address, None));
                observer.borrow_mut().event(&Event::Unanswered(address));
            }
            stop.load(Ordering::Acquire)
        },
    );
    let (stream, address) = connected.map_err(|NotConnected { address, source }| {
        let host = host.to_owned();
        match source.kind() {
            io::ErrorKind::Interrupted => ClientError::Interrupted { host, address },
            _ => ClientError::Connect { host, address, server: server.programs, source },
        }
    })?;
    observer.into_inner().event(&Event::Connected(address));
    Ok((stream, address))
}

fn entropy() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    random::fill(&mut bytes)?;
    Ok(bytes)
}

struct ClientConversation<'a> {
    request: &'a TestRequest,
    remote: SocketAddr,
    /// Address of this host on the path.
    local: IpAddr,
    driver: Driver<ClientMachine>,
    engine: Engine,
    facts: HostFacts,
    clock_steps: ClockSteps,
    /// Interface counters before the stream started.
    counters: InterfaceCounters,
    interrupted: bool,
    /// True once the streams have started.
    started: bool,
    /// True once the delivery of final records has begun.
    concluding: bool,
    /// True once a new connection was requested.
    is_reconnecting: bool,
}

impl<'a> ClientConversation<'a> {
    fn new(
        request: &'a TestRequest,
        stream: TcpStream,
        remote: SocketAddr,
        earlier: Option<EarlierTest>,
    ) -> Result<ClientConversation<'a>, ClientError> {
        let local = stream.local_addr()?;
        let stamps = StampMode::from(request.terms.stamps);
        let facts = HostFacts { adapter_clock: stamping_clock(local.ip(), stamps), ..host_facts() };
        let config = ClientConfig {
            host: facts.clone(),
            ..ClientConfig::new(request.terms.clone(), local, remote, entropy()?)
        };
        let settings = EngineSettings {
            local,
            sending: request.sending.clone(),
            rendezvous: Rendezvous::new(Gate::new(Policy::default()))?,
            launch_host: &ThisHost,
            live: true,
        };
        let machine = match earlier {
            None => ClientMachine::new(config, tick()),
            Some(e) => ClientMachine::collecting(config, e.session, e.recordings, tick()),
        };
        Ok(ClientConversation {
            request,
            remote,
            local: local.ip(),
            driver: Driver::new(machine, stream)?,
            engine: Engine::new(settings)?,
            facts,
            clock_steps: ClockSteps::start(),
            counters: InterfaceCounters::start(local.ip()),
            interrupted: false,
            started: false,
            concluding: false,
            is_reconnecting: false,
        })
    }

    fn run(&mut self, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Measured, ClientError> {
        let mut shown = steady();
        let mut began = None;
        loop {
            if let Some(end) = self.execute(stop, observer) {
                self.driver.finish(Span::ZERO);
                return end.map_err(|failure| ClientError::Failed { address: self.remote, failure });
            }
            self.driver.write_output();
            self.driver.wait(Some(self.engine.waker()));
            if stop.swap(false, Ordering::Relaxed) {
                self.interrupted = true;
                self.driver.handle(ClientInput::Interrupt);
            }
            self.driver.read_input();
            self.take_reports();
            self.driver.check_timer();
            if self.started {
                let began = *began.get_or_insert_with(steady);
                if self.request.limit.is_some_and(|limit| steady() - began > limit) {
                    self.driver.handle(ClientInput::Expire);
                }
            }
            // Classic streams may begin before the server's answer. Live records are delivered only after
            // observers have received the test's start.
            if self.started {
                self.engine.live(|flow, arrived| {
                    let stream = flow.0.into();
                    match arrived {
                        Ok(records) => observer.event(&Event::Arrived { stream, records }),
                        Err(packets) => observer.event(&Event::Missed { stream, packets }),
                    }
                });
            }
            let now = steady();
            if now - shown >= Span::millis(100) {
                shown = now;
                self.clock_steps.check();
                let mut progress = vec![StreamProgress::default(); self.request.terms.specs.len()];
                for (flow, so_far) in self.engine.progress() {
                    progress[usize::from(flow.0)] = so_far;
                }
                observer.event(&Event::Progress(&progress));
            }
        }
    }

    /// Executes the requests of the state machine. Returns the result of the test once it has ended.
    fn execute(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Option<Result<Measured, ConversationFailure>> {
        while let Some(event) = self.driver.machine.poll_event() {
            match event {
                ClientEvent::Flow(command) => self.engine.command(command),
                ClientEvent::Progress(progress) => {
                    self.started |= matches!(progress, ConversationProgress::Running);
                    self.report_progress(&progress, observer);
                }
                ClientEvent::Records(flow, records) => {
                    if !std::mem::replace(&mut self.concluding, true) {
                        observer.event(&Event::Concluding(&self.driver.machine.sessions()));
                    }
                    observer.event(&Event::Records { stream: flow.0.into(), records: &records, tcp: &[] });
                }
                ClientEvent::Feedback(flow, so_far) => {
                    observer.event(&Event::FarReceived { stream: flow.0.into(), so_far: &so_far });
                }
                ClientEvent::Reconnect => self.reconnect(stop),
                ClientEvent::Done { ending, reason } => {
                    let sessions = self.driver.machine.sessions();
                    observer.event(&Event::Finished(&sessions));
                    return Some(Ok(Measured { sessions, ending, reason }));
                }
                ClientEvent::Failed(failure) => return Some(Err(failure)),
            }
        }
        None
    }

    fn report_progress(&self, progress: &ConversationProgress, observer: &mut dyn Observer) {
        match *progress {
            ConversationProgress::Probing(done, of) => observer.event(&Event::Probing { done, of }),
            ConversationProgress::Running => observer.event(&Event::Started(&self.driver.machine.sessions())),
            ConversationProgress::Collecting(flow, done, of) => {
                observer.event(&Event::Collecting { stream: flow.0.into(), done, of });
            }
            ConversationProgress::Connected(_) | ConversationProgress::Accepted(_) => {}
        }
    }

    fn take_reports(&mut self) {
        while let Some(report) = self.engine.report() {
            if matches!(report, FlowReport::Sent(..) | FlowReport::Received(..)) {
                let mut notes = self.engine.notes();
                notes.extend(self.counters.note());
                let mut facts = facts_after(&self.facts, &mut self.clock_steps, notes);
                let stamps = StampMode::from(self.request.terms.stamps);
                facts.adapter_clock = worse_clock(facts.adapter_clock, stamping_clock(self.local, stamps));
                self.driver.handle(ClientInput::Host(facts));
            }
            self.driver.handle(ClientInput::Flow(report));
        }
    }

    /// Makes one connection attempt. The state machine determines the number of attempts and the intervals
    /// between them.
    fn reconnect(&mut self, stop: &AtomicBool) {
        if !std::mem::replace(&mut self.is_reconnecting, true)
            && let Some(reason) = self.driver.machine.reason()
        {
            tracing::warn!("{reason}; the results are fetched over a new connection");
        }
        let stopped = || stop.load(Ordering::Acquire);
        let again = sockets::connect_tcp(self.request.bind, self.remote, CONNECT_TIMEOUT, stopped)
            .and_then(|stream| self.driver.reconnect(stream))
            .and_then(|()| entropy());
        match again {
            Ok(entropy) => self.driver.handle(ClientInput::Reconnected(entropy)),
            Err(e) => self.driver.handle(ClientInput::Closed(Some(&e.to_string()))),
        }
    }
}
