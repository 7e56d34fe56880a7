//! A test with an OWAMP server: requests sessions, sends and receives their packets, and fetches the server's
//! results.

use super::receiving::{Receiving, RecordedPacket};
use super::sending::{Departing, SendingSession};
use crate::client::{ClientError, Measured, ServerAddress, TestRequest, connect};
use crate::clock::{ClockSteps, host_facts, steady, tick};
use crate::drive::{Driver, facts_after};
use crate::engine::stream_socket::{self, Marks};
use crate::interface::InterfaceCounters;
use crate::ring::{self, Outlet, RingIntake};
use crate::sockets::PacketMarker;
use crate::stamp::{StampMode, StampedPackets};
use crate::sys::{AsFd, ReceiveMode};
use crate::wake::Waker;
use crate::{random, sockets, sys};
use jitlat_core::ntp::NtpTime;
use jitlat_core::observer::{Event, Observer, StreamProgress, Unobserved};
use jitlat_core::record::Moment;
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, SteadyTime, TestSpec, WallTime,
};
use jitlat_proto::Machine;
use jitlat_proto::amp::{SecurityMode, Sid};
use jitlat_proto::jitlat::SentStamps;
use jitlat_proto::owamp::client::{Client, OwampClientEvent, OwampClientInput, OwampGrant, OwampOptions};
use jitlat_proto::owamp::{
    CountedPackets, DataRecord, OwampSessionSpec, PeerSummary, SERVER_NOTE, ScheduleSlot, SessionData,
    SessionEnd, SessionReceiver, SessionSender, packet,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Time from the requests to the start of the sessions.
const START_DELAY: Span = Span::millis(300);
/// Maximum number of records of a stream in one event.
const MAX_RECORDS: usize = 8192;

/// Settings of a test with an OWAMP server.
#[derive(Clone, Debug)]
pub struct OwampRequest {
    /// Server, control port, sessions to request (UDP only), pacing and timestamps. The payload of a session
    /// includes the fields of a test packet. Ports apply only to this host; the server chooses its own.
    pub settings: TestRequest,
    /// Security mode to use; `None`: the strongest that both sides support.
    pub mode: Option<SecurityMode>,
    /// User name and passphrase for the keyed modes; `None`: open mode.
    pub user: Option<(String, Vec<u8>)>,
    /// Time after which a packet counts as lost; `None`: two seconds more than the set-up took.
    pub timeout: Option<Span>,
    /// Timeout for the server to complete each step of the conversation.
    pub step_timeout: Span,
}

impl OwampRequest {
    /// Returns the length of a test packet without padding, in bytes, which is the shortest payload.
    pub fn header(&self) -> usize {
        packet::len(if self.user.is_some() { SecurityMode::Encrypted } else { SecurityMode::Open })
    }
}

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum OwampError {
    /// The connection failed, or the system has no more threads or descriptors.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The control connection failed.
    #[error("OWAMP server {address}: {failure}")]
    Failed {
        /// Address of the server.
        address: SocketAddr,
        /// Reason for the failure, and a suggested action.
        failure: jitlat_proto::amp::AmpFailure,
    },
}

impl From<io::Error> for OwampError {
    fn from(error: io::Error) -> OwampError {
        OwampError::Client(error.into())
    }
}

/// Returns the schedule slots that produce the gaps between the packets of `spec`.
fn slots(spec: &TestSpec) -> Vec<ScheduleSlot> {
    let units = |span: Span| NtpTime::from_span(span).0;
    match spec.schedule() {
        Schedule::Poisson { .. } | Schedule::Random { .. } => {
            vec![ScheduleSlot::Exponential(units(spec.period()))]
        }
        Schedule::Burst { size } => {
            let first = ScheduleSlot::Fixed(units(spec.period().times(size.into())));
            let rest = std::iter::repeat_n(ScheduleSlot::Fixed(0), size as usize - 1);
            std::iter::once(first).chain(rest).collect()
        }
        Schedule::Periodic => vec![ScheduleSlot::Fixed(units(spec.period()))],
    }
}

/// Runs a test to its end; also returns the available results of the sessions' receivers. Setting `stop` ends
/// the test early: results received by then are retained, and the server's results are fetched. Setting it
/// again also aborts the fetch. On return `stop` is set if it was ever set.
///
/// # Errors
/// [`OwampError`] if nothing was measured. A test cut short is not an error: see [`Measured::ending`].
pub fn run(
    request: &OwampRequest,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Measured, Vec<SessionData>), OwampError> {
    match attempt(request, RequestedAddresses::Own, stop, observer) {
        Err(OwampError::Failed { address, failure })
            if failure.may_be_due_to_addresses() && !stop.load(Ordering::Relaxed) =>
        {
            let again = attempt(request, RequestedAddresses::OfConnection, stop, observer);
            // If the server refuses this, too, the addresses are not the reason.
            again.map_err(|e| match e {
                OwampError::Failed { .. } => OwampError::Failed { address, failure },
                other => other,
            })
        }
        outcome => outcome,
    }
}

/// Addresses in the requests for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedAddresses {
    /// Addresses that this host sees.
    Own,
    /// Unspecified addresses: the server uses those that it sees on the control connection. Needed behind address
    /// translation.
    OfConnection,
}

impl RequestedAddresses {
    /// Returns the address to send in requests; `own` is the one that this host sees.
    fn requested(self, own: IpAddr) -> IpAddr {
        match (self, own) {
            (RequestedAddresses::Own, own) => own,
            (RequestedAddresses::OfConnection, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (RequestedAddresses::OfConnection, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// Runs a test on a new connection, with these addresses in its requests.
fn attempt(
    request: &OwampRequest,
    addresses: RequestedAddresses,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Measured, Vec<SessionData>), OwampError> {
    let TestRequest { host, control_port, family, bind, .. } = &request.settings;
    let server = ServerAddress {
        host,
        port: *control_port,
        family: *family,
        bind: *bind,
        programs: "owampd or `jitlat serve`",
    };
    let (stream, remote) = match addresses {
        RequestedAddresses::Own => connect(&server, stop, observer)?,
        // The observer already knows about the first connection.
        RequestedAddresses::OfConnection => connect(&server, stop, &mut Unobserved)?,
    };
    let mut test = OwampTest::new(request, addresses, stream, remote)?;
    let outcome = test.run(stop, observer);
    stop.fetch_or(test.interrupted, Ordering::Relaxed);
    outcome
}

/// This host's end of a session.
enum ClientEndpoint {
    /// The socket is open, but the server has not accepted the session yet.
    Open(UdpSocket, StampMode),
    /// The session was accepted; packets are sent once it starts.
    Sender(Box<Departing>),
    Receiver(Box<Receiving>),
    Sending(SendingSession),
    Listening(Listening),
    Over,
}

struct OwampStream {
    spec: TestSpec,
    granted: Option<OwampGrant>,
    end: ClientEndpoint,
    complete: bool,
    sent: u32,
    /// Numbers of the packets that this host's system refused, ascending.
    refused: Vec<u32>,
    stamps: Option<SentStamps>,
    stamps_lost: Option<u32>,
    /// Packets that arrived on this host.
    arrived: Vec<PacketRecord>,
    drops: Option<u32>,
    /// Results of the receiver, or the reason why they are not available.
    data: Result<SessionData, String>,
}

struct OwampTest<'a> {
    request: &'a OwampRequest,
    addresses: RequestedAddresses,
    remote: SocketAddr,
    local: SocketAddr,
    driver: Driver<Client>,
    waker: Waker,
    streams: Vec<OwampStream>,
    mode: SecurityMode,
    facts: HostFacts,
    notes: Vec<String>,
    clock_steps: ClockSteps,
    counters: InterfaceCounters,
    started: bool,
    interrupted: bool,
    /// Round trip of the control connection when it was established; zero if the kernel does not know it.
    round_trip: Span,
}

impl<'a> OwampTest<'a> {
    fn new(
        request: &'a OwampRequest,
        addresses: RequestedAddresses,
        stream: std::net::TcpStream,
        remote: SocketAddr,
    ) -> Result<OwampTest<'a>, OwampError> {
        let local = stream.local_addr()?;
        let round_trip =
            sys::tcp_info(stream.as_fd()).map_or(Span::ZERO, |info| Span::micros(info.srtt_us.into()));
        let mut notes = Vec::new();
        if addresses == RequestedAddresses::OfConnection {
            notes.push(
                "the server refused this host's address, so sessions use the addresses that it sees: there is \
                 address translation on the path"
                    .to_owned(),
            );
        }
        let mut streams = Vec::new();
        let mut specs = Vec::new();
        for spec in &request.settings.terms.specs {
            let sends = spec.direction() == Direction::Up;
            let mut at = local;
            at.set_port(if sends { spec.src_port } else { spec.dst_port });
            let socket = sockets::bind_udp_alone(at)?;
            let stamped = if sends { StampedPackets::SENT } else { StampedPackets::RECEIVED };
            let marks = Marks {
                marker: PacketMarker::new(spec.dscp, spec.marking),
                priority: request.settings.sending.priority,
            };
            let (stamps, socket_notes) = stream_socket::prepare_udp(
                &socket,
                stamped,
                marks,
                StampMode::from(request.settings.terms.stamps),
            )?;
            notes.extend(socket_notes);
            if sends {
                set_hop_limit(&socket, &local)?;
            }
            let near = socket.local_addr()?;
            specs.push(OwampSessionSpec {
                direction: spec.direction(),
                near: SocketAddr::new(addresses.requested(local.ip()), near.port()),
                far: remote.ip(),
                packets: spec.packets(),
                slots: slots(spec),
                padding: (usize::from(spec.payload()).saturating_sub(request.header())) as u32,
                timeout: request.timeout,
                dscp: spec.dscp,
            });
            streams.push(OwampStream {
                spec: spec.clone(),
                granted: None,
                end: ClientEndpoint::Open(socket, stamps),
                complete: false,
                sent: 0,
                refused: Vec::new(),
                stamps: None,
                stamps_lost: None,
                arrived: Vec::new(),
                drops: None,
                data: Err("the test did not get that far".to_owned()),
            });
        }
        let (mut random, mut sid) = ([0; 64], [0; 4]);
        random::fill(&mut random)?;
        random::fill(&mut sid)?;
        let config = OwampOptions {
            mode: request.mode,
            user: request.user.clone(),
            sessions: specs,
            lead: START_DELAY,
            start: request.settings.times.as_ref().map(|times| times.start),
            fetches: Vec::new(),
            most_records: 0,
            step_timeout: request.step_timeout,
            random,
            sid,
        };
        Ok(OwampTest {
            request,
            addresses,
            remote,
            local,
            driver: Driver::new(Client::new(config, tick()), stream)?,
            waker: Waker::new()?,
            streams,
            mode: SecurityMode::Open,
            facts: host_facts(),
            notes,
            clock_steps: ClockSteps::start(),
            counters: InterfaceCounters::start(local.ip()),
            started: false,
            interrupted: false,
            round_trip,
        })
    }

    fn run(
        &mut self,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<(Measured, Vec<SessionData>), OwampError> {
        let mut shown = steady();
        let failure = loop {
            if let Some(failure) = self.execute(observer)? {
                break failure;
            }
            self.driver.write_output();
            self.driver.wait(Some(&self.waker));
            if stop.swap(false, Ordering::Relaxed) {
                if self.interrupted {
                    // Stopped a second time, so no longer wait for results.
                    break Some("interrupted again".to_owned());
                }
                self.interrupted = true;
                self.driver.handle(OwampClientInput::Stop);
            }
            self.driver.read_input();
            self.driver.check_timer();
            self.look();
            for (stream, end) in self.streams.iter_mut().enumerate() {
                if let ClientEndpoint::Listening(listening) = &mut end.end {
                    listening.live(|arrived| match arrived {
                        Ok(records) => observer.event(&Event::Arrived { stream, records }),
                        Err(packets) => observer.event(&Event::Missed { stream, packets }),
                    });
                }
            }
            let now = steady();
            if self.started && now - shown >= Span::millis(100) {
                shown = now;
                self.clock_steps.check();
                let progress: Vec<StreamProgress> = self.streams.iter().map(OwampStream::progress).collect();
                observer.event(&Event::Progress(&progress));
            }
        };
        if !self.started {
            let (host, address) = (self.request.settings.host.clone(), self.remote);
            return Err(ClientError::Interrupted { host, address }.into());
        }
        self.driver.finish(Span::millis(100));
        Ok(self.conclude(failure.as_deref(), observer))
    }

    /// Executes the requests of the state machine. Returns `Some` once the conversation is over, with the
    /// reason if it failed after the sessions had started.
    ///
    /// # Errors
    /// The conversation failed before the sessions started.
    fn execute(&mut self, observer: &mut dyn Observer) -> Result<Option<Option<String>>, OwampError> {
        while let Some(event) = self.driver.machine.poll_event() {
            match event {
                OwampClientEvent::Mode(mode) => self.mode = mode,
                OwampClientEvent::Granted(granted) => self.granted(*granted)?,
                OwampClientEvent::Ready => self.driver.handle(OwampClientInput::Start),
                OwampClientEvent::Started => {
                    self.report_end();
                    self.start()?;
                    self.started = true;
                    observer.event(&Event::Started(&self.sessions()));
                }
                OwampClientEvent::StopSending => {
                    for stream in &mut self.streams {
                        let summary = match std::mem::replace(&mut stream.end, ClientEndpoint::Over) {
                            ClientEndpoint::Sending(sending) => {
                                let sent = sending.stop();
                                (stream.stamps, stream.stamps_lost) = (sent.stamps, sent.stamps_lost);
                                stream.refused = sent.refused;
                                self.notes.extend(sent.notes);
                                sent.summary
                            }
                            ClientEndpoint::Sender(mut departing) => departing.sender.stop(),
                            other => {
                                stream.end = other;
                                continue;
                            }
                        };
                        stream.sent = summary.next_seq;
                        self.driver.handle(OwampClientInput::Sent(summary));
                    }
                }
                OwampClientEvent::Received(received) => self.received(&received),
                OwampClientEvent::Fetched(sid, data) => {
                    if let Some(stream) = self.streams.iter_mut().find(|s| s.sid() == Some(sid)) {
                        stream.data = data.map_err(|why| format!("cannot fetch the server's records: {why}"));
                    }
                }
                OwampClientEvent::Over => return Ok(Some(None)),
                OwampClientEvent::Failed(failure) if self.started => {
                    return Ok(Some(Some(failure.to_string())));
                }
                OwampClientEvent::Failed(failure) => {
                    return Err(OwampError::Failed { address: self.remote, failure });
                }
            }
        }
        Ok(None)
    }

    fn granted(&mut self, granted: OwampGrant) -> Result<(), OwampError> {
        let Some(stream) = self.streams.get_mut(granted.index) else { return Ok(()) };
        let ClientEndpoint::Open(socket, stamps) = std::mem::replace(&mut stream.end, ClientEndpoint::Over)
        else {
            return Ok(());
        };
        let mut far = self.remote;
        far.set_port(granted.far.port());
        let (session, keys) = (&granted.session, granted.keys.clone());
        if stream.spec.direction() == Direction::Up {
            socket.connect(far)?;
            stream.end = ClientEndpoint::Sender(Box::new(Departing {
                socket,
                sender: SessionSender::new(session, keys, tick()).arriving_after(self.round_trip),
                packets: session.request.packets,
                padding: session.request.padding,
                stamps,
                keeps_stamps: true,
                pacing: self.request.settings.sending.pacing.clone(),
                admit: Box::new(|_| true),
            }));
            stream.spec.src_port = session.request.sender_port;
            stream.spec.dst_port = far.port();
        } else {
            if self.addresses == RequestedAddresses::OfConnection {
                // Opens the port of this session in the address translator. The server's sender ignores the packet.
                let _ = socket.send_to(&[0], far);
            }
            let len = packet::len(self.mode);
            let receiver = SessionReceiver::new(session, keys, len, far.ip(), Some(far.port()));
            stream.end = ClientEndpoint::Receiver(Box::new(Receiving::new(socket, receiver)));
            stream.spec.src_port = far.port();
            stream.spec.dst_port = session.request.receiver_port;
        }
        stream.granted = Some(granted);
        Ok(())
    }

    /// Stores the end of the streams' schedules for a caller that requested it.
    fn report_end(&self) {
        let Some(times) = &self.request.settings.times else { return };
        let last = |stream: &OwampStream| stream.granted.as_ref()?.session.schedule().last();
        let ends = self.streams.iter().filter_map(last).map(|at| at.to_nanos(times.start));
        if let Some(end) = ends.max() {
            // Set once: a second attempt starts only if the first one has not come this far.
            let _ = times.end.set(end);
        }
    }

    fn start(&mut self) -> io::Result<()> {
        for stream in &mut self.streams {
            let Some(sid) = stream.sid() else { continue };
            stream.end = match std::mem::replace(&mut stream.end, ClientEndpoint::Over) {
                ClientEndpoint::Sender(departing) => {
                    ClientEndpoint::Sending(SendingSession::start(sid, *departing, self.waker.clone())?)
                }
                ClientEndpoint::Receiver(receiving) => {
                    ClientEndpoint::Listening(Listening::start(*receiving, &stream.spec, self.waker.clone())?)
                }
                other => other,
            };
        }
        Ok(())
    }

    /// Informs the state machine about sessions that have become complete.
    fn look(&mut self) {
        let mut complete = Vec::new();
        for stream in &mut self.streams {
            let is_complete = match &stream.end {
                ClientEndpoint::Sending(sending) => sending.is_complete(),
                ClientEndpoint::Listening(listening) => listening.flags.complete.load(Ordering::Acquire),
                _ => false,
            };
            if is_complete && !std::mem::replace(&mut stream.complete, true) {
                complete.extend(stream.sid());
            }
        }
        complete.into_iter().for_each(|sid| self.driver.handle(OwampClientInput::Complete(sid)));
    }

    /// Completes the results of a session for which the server has finished sending.
    fn received(&mut self, received: &PeerSummary) {
        let Some(stream) = self.streams.iter_mut().find(|s| s.sid() == Some(received.summary.sid)) else {
            return;
        };
        let Some((mut receiving, arrived)) = stream.stop_listening() else { return };
        let error = receiving.error(steady());
        (stream.drops, stream.arrived) = (receiving.drops, arrived);
        let finished = receiving.receiver.finish(&received.summary, received.at, error);
        stream.data = finished.map_err(|why| why.to_string());
    }

    /// Assembles the results of each stream.
    fn conclude(
        &mut self,
        failure: Option<&str>,
        observer: &mut dyn Observer,
    ) -> (Measured, Vec<SessionData>) {
        let now = steady();
        for stream in &mut self.streams {
            match std::mem::replace(&mut stream.end, ClientEndpoint::Over) {
                ClientEndpoint::Sending(sending) => stream.sent = sending.stop().summary.next_seq,
                // The conversation ended first. The packets that have arrived so far are used.
                ClientEndpoint::Listening(listening) => {
                    stream.end = ClientEndpoint::Listening(listening);
                    if let Some((mut receiving, arrived)) = stream.stop_listening() {
                        let error = receiving.error(now);
                        (stream.drops, stream.arrived) = (receiving.drops, arrived);
                        stream.data = Ok(receiving.receiver.abandon(crate::clock::wall(), error));
                    }
                }
                _ => {}
            }
        }
        self.notes.extend(self.counters.note());
        let notes = std::mem::take(&mut self.notes);
        self.facts = facts_after(&self.facts, &mut self.clock_steps, notes);
        let (ending, reason) = match (failure, self.interrupted) {
            (_, true) => (Ending::Interrupted, Some("interrupted by the user".to_owned())),
            (Some(why), false) => (Ending::PeerLost, Some(why.to_owned())),
            (None, false) => match self.streams.iter().find_map(|s| s.data.as_ref().err()) {
                Some(why) => (Ending::PeerLost, Some(why.clone())),
                None => (Ending::Complete, None),
            },
        };
        let mut sessions = self.sessions();
        for (session, stream) in sessions.iter_mut().zip(&self.streams) {
            (session.ending, session.reason) = (ending, reason.clone());
            stream.describe(session);
        }
        observer.event(&Event::Concluding(&sessions));
        for (stream, known) in self.streams.iter().enumerate() {
            for records in known.records().chunks(MAX_RECORDS) {
                observer.event(&Event::Records { stream, records, tcp: &[] });
            }
        }
        observer.event(&Event::Finished(&sessions));
        let taken = || Err("it has been handed out".to_owned());
        let known = self.streams.iter_mut().filter_map(|s| std::mem::replace(&mut s.data, taken()).ok());
        (Measured { sessions, ending, reason }, known.collect())
    }

    fn sessions(&self) -> Vec<Session> {
        let session = |stream: &OwampStream| {
            let (src, dst) = match stream.spec.direction() {
                Direction::Up => (self.local.ip(), self.remote.ip()),
                Direction::Down => (self.remote.ip(), self.local.ip()),
            };
            let mut session = Session::new(stream.spec.clone());
            (session.src, session.dst) = (Some(src.to_canonical()), Some(dst.to_canonical()));
            session.client = self.facts.clone();
            session.server.notes =
                vec![format!("{SERVER_NOTE}server on TCP {}, mode {}", self.remote, self.mode)];
            session
        };
        self.streams.iter().map(session).collect()
    }
}

fn set_hop_limit(socket: &UdpSocket, local: &SocketAddr) -> io::Result<()> {
    if local.is_ipv6() {
        // The receiver computes the number of hops as 255 minus the TTL that arrived (RFC 4656).
        socket2::SockRef::from(socket).set_unicast_hops_v6(255)
    } else {
        socket.set_ttl(255)
    }
}

impl OwampStream {
    fn sid(&self) -> Option<Sid> {
        self.granted.as_ref().map(|granted| granted.session.sid())
    }

    fn progress(&self) -> StreamProgress {
        let packets = self.spec.packets();
        match &self.end {
            ClientEndpoint::Sending(sending) => {
                StreamProgress { packets, sent: sending.sent(), ..Default::default() }
            }
            ClientEndpoint::Listening(Listening { flags, .. }) => {
                let received = flags.received.load(Ordering::Relaxed);
                let missing = flags.highest.load(Ordering::Relaxed).saturating_sub(received);
                StreamProgress { packets, received, missing, ..Default::default() }
            }
            _ => StreamProgress {
                packets,
                sent: self.sent,
                received: self.arrived.len() as u32,
                ..Default::default()
            },
        }
    }

    fn stop_listening(&mut self) -> Option<(Receiving, Vec<PacketRecord>)> {
        match std::mem::replace(&mut self.end, ClientEndpoint::Over) {
            ClientEndpoint::Listening(listening) => listening.stop(),
            other => {
                self.end = other;
                None
            }
        }
    }

    /// Adds the stream's results to the session.
    fn describe(&self, session: &mut Session) {
        session.receiver_drops = self.drops.map(u64::from);
        session.stamps_lost = self.stamps_lost.map(u64::from);
        match &self.data {
            Ok(data) => {
                // After an interrupt the last packets are neither sent nor part of the results.
                let is_complete = session.ending == Ending::Complete;
                let planned = is_complete.then(|| self.spec.packets());
                let counted = CountedPackets::of(data, &self.refused, planned);
                session.sent = Some(counted.end);
                session.unsent = counted.unsent;
                session.skipped = counted.skipped;
                session.unreported = if is_complete { counted.unreported } else { 0 };
                let far = if self.spec.direction() == Direction::Up {
                    SessionEnd::Receiver
                } else {
                    SessionEnd::Sender
                };
                session.server.sync_before = data.clock(far);
                session.server.sync_after = session.server.sync_before;
            }
            Err(why) => {
                session.sent = Some(0);
                session.reason.get_or_insert_with(|| why.clone());
                if session.ending == Ending::Complete {
                    session.ending = Ending::PeerLost;
                }
            }
        }
    }

    /// Returns the records of the packets that the results cover and that arrived, in order of arrival.
    fn records(&self) -> Vec<PacketRecord> {
        let Ok(data) = &self.data else { return Vec::new() };
        let counted = data.records.iter().filter_map(|record| Some((record, record.received?)));
        if self.spec.direction() == Direction::Up {
            let near = crate::clock::wall();
            let record = |(record, received): (&DataRecord, NtpTime)| {
                let mut packet = PacketRecord::new(record.seq.into());
                let stamp = |at: WallTime| Stamp { at, source: StampSource::User };
                packet.set(Moment::Sent, stamp(record.sent.to_nanos(near)));
                packet.set(Moment::Arrived, stamp(received.to_nanos(near)));
                packet.set_ttl(Some(record.ttl));
                if let Some(stamps) = &self.stamps {
                    stamps.join(&mut packet);
                }
                packet
            };
            return counted.map(record).collect();
        }
        // The session's records include lost packets and omit the last ones. Their order is taken from the
        // records of this host.
        let mut counted = counted.peekable();
        let is_counted = |packet: &&PacketRecord| {
            let same = counted.next_if(|(record, _)| i64::from(record.seq) == packet.seq);
            same.is_some()
        };
        self.arrived.iter().filter(is_counted).copied().collect()
    }
}

#[derive(Debug, Default)]
struct ReceiverFlags {
    stop: AtomicBool,
    complete: AtomicBool,
    received: AtomicU32,
    highest: AtomicU32,
}

/// A receiver that runs on a separate thread.
struct Listening {
    flags: Arc<ReceiverFlags>,
    live: Outlet<PacketRecord>,
    thread: Option<JoinHandle<(Receiving, Vec<PacketRecord>)>>,
}

/// Number of records for which memory is allocated before the stream starts. Longer streams allocate more.
const RESERVED_RECORDS: usize = 1 << 20;

impl Listening {
    fn start(receiving: Receiving, spec: &TestSpec, waker: Waker) -> io::Result<Listening> {
        let (intake, live) = ring::ring(spec);
        let flags = Arc::new(ReceiverFlags::default());
        let records = Vec::with_capacity((spec.packets() as usize + 1024).min(RESERVED_RECORDS));
        let shared = flags.clone();
        let run = move || listen(receiving, records, intake, &shared, &waker);
        let thread = std::thread::Builder::new().name("owamp-receiver".to_owned()).spawn(run)?;
        Ok(Listening { flags, live, thread: Some(thread) })
    }

    /// Passes to `each` the data that has arrived since the last call: records, or the number of records lost because
    /// the ring was full.
    fn live(&mut self, mut each: impl FnMut(Result<&[PacketRecord], u64>)) {
        self.live.drain(|records| each(Ok(records)));
        let missed = self.live.take_overflow();
        if missed > 0 {
            each(Err(missed));
        }
    }

    /// Stops the receiver; `None` if its thread failed.
    fn stop(mut self) -> Option<(Receiving, Vec<PacketRecord>)> {
        self.flags.stop.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(
    mut receiving: Receiving,
    mut records: Vec<PacketRecord>,
    mut live: RingIntake<PacketRecord>,
    flags: &ReceiverFlags,
    waker: &Waker,
) -> (Receiving, Vec<PacketRecord>) {
    let mut highest = 0;
    loop {
        // Read the flag before receiving, so that packets that arrived before the stop are not missed.
        let stopped = flags.stop.load(Ordering::Acquire);
        let wait = if stopped { ReceiveMode::Queued } else { ReceiveMode::Wait };
        let now: SteadyTime = steady();
        let taken = receiving.receive(
            wait,
            now,
            |_| true,
            |recorded| {
                let packet = packet_record(&recorded);
                highest = highest.max(recorded.record.seq + 1);
                live.push(packet);
                records.push(packet);
            },
        );
        flags.received.store(records.len() as u32, Ordering::Relaxed);
        flags.highest.store(highest, Ordering::Relaxed);
        if stopped && taken.is_err() {
            return (receiving, records);
        }
        if receiving.look(steady()) && !flags.complete.swap(true, Ordering::AcqRel) {
            waker.wake();
        }
    }
}

fn packet_record(recorded: &RecordedPacket) -> PacketRecord {
    let RecordedPacket { record, stamp, read, length, ttl, traffic_class } = *recorded;
    let mut packet = PacketRecord::new(record.seq.into());
    packet.set(Moment::Sent, Stamp { at: record.sent.to_nanos(stamp.at), source: StampSource::User });
    packet.set(Moment::Arrived, stamp);
    packet.set_receive_lag(read.and_then(|read| read.checked_since(stamp.at)));
    packet.set_size(u16::try_from(length).ok());
    packet.set_ttl(ttl);
    packet.set_traffic_class(traffic_class);
    packet
}
