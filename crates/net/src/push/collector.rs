//! [`PushService`]: receives the tests that other hosts push, with one thread per host.

use crate::accept::{Acceptor, ConnectionService, RunningService};
use crate::clock::tick;
use crate::drive::Driver;
use crate::wake::StopSignal;
use crate::{audit, clock, pace, random, sockets};
use jitlat_core::Span;
use jitlat_proto::Machine;
use jitlat_proto::jitlat::PresharedKeys;
use jitlat_proto::policy::{self, Ask, COLLECT, Gate, Grant, Service};
use jitlat_proto::push::{
    About, PushError, PushOffer, PushOutcome, PushReceiver, PushRefusal, ReceiverEvent, ReceiverInput,
    SpoolState,
};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timeout for a new connection to prove the key of its host.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Intervals at which a thread checks whether storing is complete: while data is being stored, and otherwise.
const POLL_INTERVALS: (Span, Span) = (Span::millis(5), Span::millis(100));
/// Memory that a pushing host may use, in bytes: the tests requested from it, compressed and decompressed.
const HOST_MEMORY: u64 = 16 << 20;
/// Maximum time for which a thread processes input before it sends answers and a keep-alive.
const MAX_WORK_TIME: Duration = Duration::from_millis(100);
/// Timeout for writing the last messages.
const FINAL_WRITE_TIMEOUT: Span = Span::seconds(1);
/// Maximum time for which a host may leave answers unread.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(30);
/// Like [`MAX_UNREAD_TIME`], while the collector is being stopped.
const MAX_UNREAD_TIME_STOPPING: Duration = Duration::from_secs(1);

/// Storage for the tests of all hosts.
pub trait Shelf: Send + Sync + fmt::Debug {
    /// Opens the storage for `host`, which has proved its key.
    ///
    /// # Errors
    /// Reason why no tests are accepted now, and time that the host should wait.
    fn open(&self, host: &str) -> Result<Box<dyn PushIntake>, (PushRefusal, String, Span)>;
}

/// Receives the tests of one host during its connection. An incomplete test is discarded when this value is
/// dropped.
pub trait PushIntake: Send {
    /// Receives the state of the host's spool.
    fn state(&mut self, state: SpoolState);
    /// Receives the tests that the host offers.
    fn offered(&mut self, offers: Vec<PushOffer>);
    /// Begins the log of a requested test.
    fn begin(&mut self, number: u64, about: About);
    /// Receives a compressed piece of the current log.
    fn piece(&mut self, bytes: &[u8]);
    /// Marks the log of test `number` as complete.
    fn whole(&mut self, number: u64);
    /// Handles the host's report that it cannot send a requested test, or the rest of it.
    fn gone(&mut self, number: u64);
    /// Returns the messages to send to the host now.
    fn answers(&mut self) -> Vec<PushReply>;
}

/// Message to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushReply {
    /// Request to send these tests.
    Want(Vec<u64>),
    /// Results of tests, by test number.
    Settled(Vec<(u64, PushOutcome)>),
    /// No further tests are accepted for now: reason, details, and time to wait.
    Later(PushRefusal, String, Span),
}

/// Settings of a collector.
#[derive(Clone, Debug)]
pub struct PushService {
    /// Keys of the hosts that may push, by host name. If empty, no host may push.
    pub keys: PresharedKeys,
    /// Storage for the tests.
    pub shelf: Arc<dyn Shelf>,
}

/// Reason why the collector cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushServiceError {
    /// Listening on a port failed.
    #[error("cannot listen for pushing hosts on {address}: {source}")]
    Bind {
        /// Address on which listening failed.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot start the collector: {0}")]
    Start(#[from] io::Error),
}

impl PushService {
    /// Listens for hosts at `addresses`, and shares `gate` with other services. A connection becomes a
    /// session once its host has proved its key.
    ///
    /// # Errors
    /// [`PushServiceError`].
    pub fn serve_sharing(
        self,
        addresses: &[SocketAddr],
        gate: Gate,
    ) -> Result<RunningService, PushServiceError> {
        let bind = |(address, source)| PushServiceError::Bind { address, source };
        let stop = StopSignal::new()?;
        let acceptor = Acceptor::bind(addresses, gate.clone(), stop.clone()).map_err(bind)?;
        let serving = CollectorConnections {
            service: self,
            stop,
            gate,
            newest: Mutex::default(),
            count: AtomicU64::new(0),
        };
        Ok(acceptor.start(Arc::new(serving))?)
    }
}

/// State shared by all connections.
struct CollectorConnections {
    service: PushService,
    stop: StopSignal,
    gate: Gate,
    /// Number of the newest connection of each host. An older connection belongs to a host that was killed,
    /// or to a network that failed.
    newest: Mutex<HashMap<String, u64>>,
    count: AtomicU64,
}

impl CollectorConnections {
    fn set_newest(&self, host: &str, number: u64) {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), number);
    }

    fn is_newest(&self, host: &str, number: u64) -> bool {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(host) == Some(&number)
    }
}

impl ConnectionService for CollectorConnections {
    fn name(&self) -> &'static str {
        "collect"
    }

    fn service(&self) -> Service {
        COLLECT
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, grant: &Grant) {
        // Tests run by this host take precedence over the collector.
        pace::yield_to_others();
        if let Err(why) = PushConversation::begin(stream, self, peer, grant).and_then(|mut c| c.run()) {
            tracing::info!(%peer, "pushing host disconnected: {why}");
        }
    }

    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &policy::PolicyRefusal) {
        // If the message cannot be sent, the host does not get the reason.
        let _ = stream.write(&PushReceiver::turn_away(PushRefusal::Busy, &why.to_string()));
    }
}

/// A host that has proved its key.
struct AuthenticatedHost {
    host: String,
    intake: Box<dyn PushIntake>,
    _session: Grant,
}

/// Conversation with one host.
struct PushConversation<'a> {
    shared: &'a CollectorConnections,
    peer: SocketAddr,
    grant: &'a Grant,
    driver: Driver<PushReceiver>,
    number: u64,
    began: Instant,
    /// Time since which the host has not read its answers; `None` if all were read.
    unread: Option<Instant>,
    /// True if more input arrived than was processed in one turn.
    behind: bool,
    open: Option<AuthenticatedHost>,
}

impl PushConversation<'_> {
    fn begin<'a>(
        stream: TcpStream,
        shared: &'a CollectorConnections,
        peer: SocketAddr,
        grant: &'a Grant,
    ) -> io::Result<PushConversation<'a>> {
        sockets::notice_absence(&stream);
        let mut nonce = [0; 16];
        random::fill(&mut nonce)?;
        let receiver = PushReceiver::new(shared.service.keys.clone(), nonce, tick());
        Ok(PushConversation {
            shared,
            peer,
            grant,
            driver: Driver::new(receiver, stream)?,
            number: shared.count.fetch_add(1, Ordering::Relaxed),
            began: Instant::now(),
            unread: None,
            behind: false,
            open: None,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let timed_out = |why| Err(io::Error::new(ErrorKind::TimedOut, why));
        loop {
            if self.shared.stop.is_requested() {
                self.later(PushRefusal::Stopping, String::new(), Span::seconds(1));
            }
            if self.grant.is_evicted() {
                return Err(io::Error::other("closed while idle, to make room for others"));
            }
            let longest = self.shared.gate.policy().duration(COLLECT);
            if longest.is_some_and(|longest| self.began.elapsed().as_nanos() as i64 > longest.0) {
                self.later(
                    PushRefusal::Busy,
                    "the time limit for connections was reached".to_owned(),
                    Span::seconds(1),
                );
            }
            match &self.open {
                None if self.began.elapsed() > INTRODUCTION_TIMEOUT => {
                    return timed_out("the host did not prove its key in time");
                }
                Some(open) if !self.shared.is_newest(&open.host, self.number) => {
                    return Err(io::Error::other("the host has connected again"));
                }
                _ => {}
            }
            let timeout = match self.driver.machine.unsettled() {
                _ if self.behind => Span::ZERO,
                0 => POLL_INTERVALS.1,
                _ => POLL_INTERVALS.0,
            };
            self.driver.wait_for(timeout);
            // Stop reading from a host that does not read its answers, or while earlier input is waiting to
            // be processed.
            if !self.driver.is_pending() {
                self.unread = None;
                if !self.behind {
                    self.driver.read_input();
                }
            }
            self.driver.check_timer();
            if let Some(over) = self.events() {
                self.driver.finish_and_drain(FINAL_WRITE_TIMEOUT);
                return over.map_or(Ok(()), |why| Err(io::Error::other(why)));
            }
            let answers = self.open.as_mut().map(|open| open.intake.answers()).unwrap_or_default();
            for answer in answers {
                match answer {
                    PushReply::Want(numbers) => self.driver.handle(ReceiverInput::Want(&numbers)),
                    PushReply::Settled(settled) => self.driver.handle(ReceiverInput::Settled(settled)),
                    PushReply::Later(why, text, pause) => self.later(why, text, pause),
                }
            }
            self.driver.write_output();
            let timeout =
                if self.shared.stop.is_requested() { MAX_UNREAD_TIME_STOPPING } else { MAX_UNREAD_TIME };
            if self.driver.is_pending() && self.unread.get_or_insert_with(Instant::now).elapsed() > timeout {
                return timed_out("the host does not read its answers");
            }
        }
    }

    fn later(&mut self, why: PushRefusal, text: String, pause: Span) {
        self.driver.handle(ReceiverInput::Later(why, text, pause));
    }

    /// Executes the requests of the state machine until answers are due. Returns `Some` once the conversation
    /// is over, with the error if it failed.
    fn events(&mut self) -> Option<Option<PushError>> {
        let begun = Instant::now();
        loop {
            self.behind = begun.elapsed() > MAX_WORK_TIME;
            if self.behind {
                return None;
            }
            let event = self.driver.machine.poll_event()?;
            let intake = self.open.as_mut().map(|open| &mut open.intake);
            match (event, intake) {
                (ReceiverEvent::Proved(host), _) => self.proved(host),
                (ReceiverEvent::Over(why), _) => {
                    if why == Some(PushError::Proof) {
                        audit::wrong_key(&self.shared.gate, COLLECT, self.peer);
                    }
                    return Some(why);
                }
                (ReceiverEvent::State(state), Some(intake)) => intake.state(state),
                (ReceiverEvent::Offered(offers), Some(intake)) => intake.offered(offers),
                (ReceiverEvent::Test(number, about), Some(intake)) => intake.begin(number, about),
                (ReceiverEvent::Piece(bytes), Some(intake)) => intake.piece(&bytes),
                (ReceiverEvent::Whole(number), Some(intake)) => intake.whole(number),
                (ReceiverEvent::Gone(number), Some(intake)) => intake.gone(number),
                // Other events are ignored before a host has proved its key.
                (_, None) => {}
            }
        }
    }

    fn proved(&mut self, host: String) {
        self.shared.gate.right_key(self.peer.ip());
        self.grant.set_proven();
        let resources = Ask::session(HOST_MEMORY).proven(true);
        let session = match self.shared.gate.admit(COLLECT, self.peer.ip(), resources, clock::steady()) {
            Ok(session) => session,
            Err(why) => {
                audit::refused(COLLECT, self.peer, &why);
                return self.later(PushRefusal::Busy, why.to_string(), Span::seconds(10));
            }
        };
        match self.shared.service.shelf.open(&host) {
            Ok(intake) => {
                audit::accepted(COLLECT, self.peer, format_args!("the key of {host}"));
                session.set_busy();
                self.grant.set_busy();
                self.shared.set_newest(&host, self.number);
                self.open = Some(AuthenticatedHost { host, intake, _session: session });
                self.driver.handle(ReceiverInput::Welcome);
            }
            Err((why, text, pause)) => {
                audit::refused(COLLECT, self.peer, &text);
                self.later(why, text, pause);
            }
        }
    }
}
