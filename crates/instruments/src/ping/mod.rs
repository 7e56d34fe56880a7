//! [`Ping`]: two-way tests, with any of the protocols in [`PROTOCOLS`].
//!
//! * [`protocols`] – [`PROTOCOLS`], one file for each
//! * [`protocol`] – [`PingProtocol`], the type of an entry, and [`PingClient`]
//! * [`mod@test`] – [`PingTest`] and [`PingResult`]: input and result of a protocol's client

pub mod protocol;
pub mod protocols;
pub mod test;

pub use protocol::{PingClient, PingProtocol, RequestSizes};
pub use protocols::PROTOCOLS;
pub use test::{PingResult, PingTest};

use crate::error::Error;
use crate::instrument::{Annotations, Instrument, TestOutcome, ip_header};
use crate::size_limit::{self, ShortTest};
use crate::start::StartGate;
use crate::stop::Stop;
use jitlat_core::observer::{Event, Observer, StreamProgress};
use jitlat_core::session::{Ending, Session, SizeLimit};
use jitlat_core::spec::{Dscp, HEADER_LEN, MAX_PAYLOAD};
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, EcnMarking, Schedule, Span, TestSpec, Transport, WallTime};
use jitlat_net::client::AddressFamily;
use jitlat_net::interface::{InterfaceWatch, WatchSettings};
use jitlat_net::pace::{PaceMode, Pacing};
use jitlat_net::resolve;
use jitlat_net::stamp::StampMode;
use jitlat_net::twoway::client::{PingEvent, TwoWayLink, TwoWayProgress};
use jitlat_net::twoway::socket::{Carrier, Marking};
use jitlat_net::{clock, random};
use jitlat_proto::twoway::{Overdue, PingPlan};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// Settings of a two-way test.
#[derive(Clone, Debug)]
pub struct Ping {
    /// Name or address of the far host.
    pub host: String,
    /// Client of the protocol.
    pub client: Arc<dyn PingClient>,
    /// Number of requests to send.
    pub packets: u64,
    /// Number of payload bytes; `None`: the protocol's default.
    pub payload: Option<u64>,
    /// Time between requests.
    pub period: Span,
    /// Send schedule of the requests.
    pub schedule: Schedule,
    /// Time from an answer to the next request in a stop-and-wait test; `None`: requests follow `schedule`.
    pub wait: Option<Span>,
    /// Time after which a missing answer counts as lost.
    pub timeout: Span,
    /// Handling of requests that became overdue while this host was stalled.
    pub overdue: Overdue,
    /// DSCP of the requests.
    pub dscp: Dscp,
    /// Marks (ECN fields) of the requests.
    pub marking: EcnMarking,
    /// Priority of the packets on this host (`SO_PRIORITY`); `None`: the system's default.
    pub priority: Option<u32>,
    /// Source port of UDP requests; 0 = the system chooses.
    pub src_port: u16,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
    /// Local address; `None`: chosen by the system.
    pub bind: Option<IpAddr>,
    /// Name of the interface to send through; `None`: chosen by the routing table.
    pub interface: Option<String>,
    /// Method by which the sender waits for due times; `None`: depends on the rate, see [`Pacing::mode`].
    pub pace: Option<PaceMode>,
    /// Preferred source of timestamps; less precise ones are used if it is not available.
    pub stamps: StampMode,
    /// Annotations that are stored with the test.
    pub annotations: Annotations,
    /// True to search, after a test without any answer, for the largest packet that passes. The search takes up to 20
    /// s.
    pub finds_size_limit: bool,
    /// Samples of the interface that are taken while the test runs.
    pub watch: WatchSettings,
    /// Time of the first request, and the condition on this host's clock.
    pub start: StartGate,
}

/// Capacity of the queue of events from the measuring thread.
const EVENT_QUEUE: usize = 1 << 16;
/// Interval at which the observer polls for events. Waking a waiting observer for each event would cost the
/// sending thread time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum timeout of an answer in a short test with packets of another length.
const SHORT_TEST_TIMEOUT: Span = Span::seconds(2);
/// Number of requests in the short test that shows whether an address answers.
const FAMILY_PACKETS: u64 = 4;
/// Period of the requests in the short test that shows whether an address answers.
const FAMILY_PERIOD: Span = Span::millis(100);
/// Maximum timeout in the short test that shows whether an address answers.
const FAMILY_TIMEOUT: Span = Span::seconds(1);
/// Assumed round-trip time, for estimating the duration of a stop-and-wait test.
const USUAL_ANSWER: Span = Span::millis(200);

impl Ping {
    /// Creates a test of a thousand requests to `host`, one every 20 ms, with kernel timestamps.
    pub fn new(host: impl Into<String>, client: impl PingClient + 'static) -> Ping {
        Ping::boxed(host, Box::new(client))
    }

    /// Like [`new`](Self::new), for a client behind a pointer, such as one created by a [`PingProtocol`] that
    /// was chosen by name.
    pub fn boxed(host: impl Into<String>, client: Box<dyn PingClient>) -> Ping {
        Ping {
            host: host.into(),
            client: client.into(),
            packets: 1000,
            payload: None,
            period: Span::millis(20),
            schedule: Schedule::Periodic,
            wait: None,
            timeout: Span::seconds(2),
            overdue: Overdue::Space,
            dscp: Dscp::default(),
            marking: EcnMarking::Off,
            priority: None,
            src_port: 0,
            family: None,
            bind: None,
            interface: None,
            pace: None,
            stamps: StampMode::Kernel,
            annotations: Annotations::default(),
            finds_size_limit: false,
            watch: WatchSettings::default(),
            start: StartGate::default(),
        }
    }

    /// Returns the size of a request in bytes: the UDP payload, the ICMP message or the TCP record.
    ///
    /// # Errors
    /// [`Error::Settings`] if the protocol does not allow this payload size.
    pub fn size(&self) -> Result<u64, Error> {
        let RequestSizes { usual, header, range: (low, high), .. } = self.client.sizes();
        let size = self.payload.unwrap_or(usual) + header;
        if (low..=high).contains(&size) {
            return Ok(size);
        }
        let name = self.client.protocol().name;
        let (payload, low, high) = (size - header, low - header, high - header);
        Err(Error::Settings(format!("-l {payload}: {name} takes {low} to {high} bytes")))
    }

    /// Returns the requests and their due times.
    ///
    /// # Errors
    /// [`Error::Settings`] if the settings are not valid.
    pub fn plan(&self) -> Result<PingPlan, Error> {
        let size = self.size()?.max(HEADER_LEN.into()).min(MAX_PAYLOAD.into());
        // Stop-and-wait tests have no period.
        let period = if self.wait.is_some() { Span(1) } else { self.period };
        let transport = self.client.protocol().transport;
        let mut spec = TestSpec::new(Direction::Up, transport, self.packets, size, period, self.schedule)?;
        (spec.dscp, spec.marking) = (self.dscp, self.marking);
        if self.marking.is_on() && transport == Transport::Tcp {
            let name = self.client.protocol().name;
            return Err(Error::Settings(format!(
                "--ecn marks datagrams, but {name} uses TCP, which negotiates ECN itself: choose another --proto, such as stamp"
            )));
        }
        Ok(PingPlan { spec, wait: self.wait, timeout: self.timeout, overdue: self.overdue })
    }

    /// Returns the address and port of the far host, and the addresses that were rejected. The first address is chosen
    /// unless it does not answer a short test, but the first one of the other family does; the first address is then
    /// rejected. There is no short test if the host has addresses of one family only, or the client expects no answers.
    ///
    /// # Errors
    /// [`Error::Resolve`] if the host has no address of the requested family.
    fn far_address(&self, stop: &Stop) -> Result<(SocketAddr, Vec<SocketAddr>), Error> {
        let bound = self.bind.map(|ip| if ip.is_ipv4() { AddressFamily::V4 } else { AddressFamily::V6 });
        let family = self.family.or(bound);
        let addresses =
            resolve::addresses(&self.host, self.client.port(), family, self.interface.as_deref())?;
        let first = addresses[0];
        let other = addresses.iter().copied().find(|address| address.is_ipv4() != first.is_ipv4());
        let Some(other) = other.filter(|_| self.client.expects_answers()) else {
            return Ok((first, Vec::new()));
        };
        let answers = |to| {
            let test = self.short(FAMILY_PACKETS, FAMILY_PERIOD, FAMILY_TIMEOUT);
            let own = Stop::new();
            let mut observer = FirstAnswer { stop: &own, user: stop, answered: false };
            let done = test.measure(to, (&[], None), &own, &mut observer);
            done.is_ok() && observer.answered
        };
        match [first, other].into_iter().find(|to| answers(*to)) {
            Some(to) if to == other => Ok((other, vec![first])),
            _ => Ok((first, Vec::new())),
        }
    }

    /// Returns a short, periodic test with otherwise the same settings, but without tags and interface samples.
    fn short(&self, packets: u64, period: Span, timeout: Span) -> Ping {
        Ping {
            packets,
            period,
            schedule: Schedule::Periodic,
            wait: None,
            timeout: self.timeout.min(timeout),
            src_port: 0,
            annotations: Annotations::default(),
            finds_size_limit: false,
            watch: WatchSettings::off(),
            ..self.clone()
        }
    }

    /// Returns the size limit of the path in both directions; `None` unless packets were lost because of their length.
    fn size_limit(&self, session: &Session, to: SocketAddr, stop: &Stop) -> Option<SizeLimit> {
        let is_complete = session.ending == Ending::Complete && session.sent.is_some_and(|sent| sent > 0);
        let is_possible = self.client.expects_answers()
            && session.two_way.as_ref().is_some_and(|facts| facts.expects_answers());
        if !(self.finds_size_limit && is_complete && is_possible) {
            return None;
        }
        let payload = self.size().ok()?.checked_sub(self.client.sizes().header)?;
        let overhead = session.ip_length()?.checked_sub(u32::try_from(payload).ok()?)?;
        let passes = |payload: u32| {
            let short = self.short(size_limit::PACKETS, size_limit::PERIOD, SHORT_TEST_TIMEOUT);
            let test = Ping { payload: Some(payload.into()), ..short };
            let own = Stop::new();
            let mut observer = ShortTest::new(own.clone(), stop, None);
            test.measure(to, (&[], None), &own, &mut observer).ok().map(|_| observer.arrived > 0)
        };
        size_limit::search(session, overhead, stop, &passes)
    }

    /// Runs the test against the address `to`, from the time `start` if it is given. `silent` are addresses of the far host
    /// that did not answer.
    fn measure(
        &self,
        to: SocketAddr,
        (silent, start): (&[SocketAddr], Option<WallTime>),
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<TestOutcome, Error> {
        let plan = self.plan()?;
        let mut random_bytes = [0; 10];
        random::fill(&mut random_bytes).map_err(|source| Error::System {
            doing: "drawing an identifier from the system's random numbers",
            source,
        })?;
        let [m @ .., i0, i1] = random_bytes;
        let mut session = self.session(&plan, to);
        self.annotations.add_to(&mut session);
        let (events, from) = sync_channel(EVENT_QUEUE);
        let test = PingTest {
            settings: self,
            size: self.size()? as usize,
            link: TwoWayLink { live: Some(events), start, ..self.link(to) },
            plan,
            id: u16::from_be_bytes([i0, i1]),
            mark: u64::from_be_bytes(m),
            stop,
            created: clock::wall(),
        };
        observer.event(&Event::Started(std::slice::from_ref(&session)));
        let mut watch = InterfaceWatch::start(&self.watch, to, self.bind, self.interface.as_deref());
        let found = thread::scope(|scope| {
            let measuring = thread::Builder::new().name("ping".to_owned());
            let measuring = measuring.spawn_scoped(scope, || {
                // Moves the test into this thread: dropping it closes the channel of events.
                let test = test;
                self.client.measure(&test)
            });
            let measuring = measuring
                .map_err(|source| Error::System { doing: "starting a thread for the test", source })?;
            follow(&from, session.spec.packets(), observer);
            measuring.join().map_err(|_| Error::Panicked)?
        })?;
        let PingResult { records, mut session, tcp, .. } = found;
        self.annotations.add_to(&mut session);
        session.client.notes.extend(
            silent
                .iter()
                .map(|address| format!("{} did not answer: the test uses {}", address.ip(), to.ip())),
        );
        watch.end();
        watch.add_to(&mut session.client);
        if records.is_empty() {
            session.size_limit = self.size_limit(&session, to, stop);
        }
        let sessions = vec![session];
        observer.event(&Event::Concluding(&sessions));
        observer.event(&Event::Records { stream: 0, records: &records, tcp: &tcp });
        observer.event(&Event::Finished(&sessions));
        let session = &sessions[0];
        Ok(TestOutcome {
            ending: session.ending,
            reason: session.reason.clone(),
            sessions,
            owamp: Vec::new(),
        })
    }

    fn link(&self, to: SocketAddr) -> TwoWayLink {
        let mut link = TwoWayLink {
            to,
            carrier: Carrier::Udp,
            marking: Marking {
                bind: self.bind,
                port: self.src_port,
                interface: self.interface.clone(),
                dscp: self.dscp,
                ecn: self.marking,
                priority: self.priority,
                ttl: Some(255),
                broadcast: false,
                any_port: false,
            },
            stamps: self.stamps,
            pacing: Pacing { mode: self.pace, ..Pacing::default() },
            start: None,
            live: None,
        };
        self.client.adapt(&mut link);
        link
    }
}

impl Instrument for Ping {
    fn run(&self, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error> {
        let (to, silent) = self.far_address(stop)?;
        let start = self.start.wait(stop, true)?;
        self.measure(to, (&silent, start), stop, observer)
    }

    fn duration(&self) -> Result<Span, Error> {
        let plan = self.plan()?;
        let answer = plan.timeout.min(USUAL_ANSWER);
        let waiting = plan.wait.map(|w| (w + answer).times(plan.spec.packets().into()));
        Ok(waiting.unwrap_or_else(|| plan.spec.duration() + plan.timeout))
    }

    fn quantity(&self) -> &'static str {
        "round trip"
    }

    fn ip_length(&self, summary: &Summary) -> Option<u64> {
        let beneath = self.client.sizes().beneath?;
        Some(summary.header.pktlen + beneath + ip_header(summary))
    }
}

/// Observer that ends a short test at the first answer.
struct FirstAnswer<'a> {
    stop: &'a Stop,
    user: &'a Stop,
    answered: bool,
}

impl Observer for FirstAnswer<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Arrived { records, .. } | Event::Records { records, .. } => {
                self.answered |= !records.is_empty();
            }
            _ => {}
        }
        if self.answered || self.user.is_requested() {
            self.stop.request();
        }
    }
}

/// Forwards events to `observer` until the measuring thread ends.
fn follow(from: &Receiver<PingEvent>, packets: u32, observer: &mut dyn Observer) {
    let mut answers = Vec::new();
    loop {
        let mut progress = None;
        let end = loop {
            match from.try_recv() {
                Ok(PingEvent::Answer(record)) => answers.push(record),
                Ok(PingEvent::Progress(so_far)) => progress = Some(so_far),
                Err(end) => break end,
            }
        };
        if !answers.is_empty() {
            observer.event(&Event::Arrived { stream: 0, records: &answers });
            answers.clear();
        }
        if let Some(TwoWayProgress { sent, answered }) = progress {
            let [sent, received] = [sent, answered].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let so_far = StreamProgress { packets, sent, received, missing: sent.saturating_sub(received) };
            observer.event(&Event::Progress(&[so_far]));
        }
        if end == TryRecvError::Disconnected {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}
