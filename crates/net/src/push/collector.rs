//! [`PushService`]: takes the tests that other hosts push, with a thread for each of them.

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

/// How long a connection may take until its host has proved its key.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a thread looks whether something was stored, while something is on its way there, and otherwise.
const POLL_INTERVALS: (Span, Span) = (Span::millis(5), Span::millis(100));
/// Memory that a host takes while it pushes: what may be wanted of it, unpacked and as it comes.
const HOST_MEMORY: u64 = 16 << 20;
/// How long a thread works at what came before it looks for answers, and says that it is still there.
const MAX_WORK_TIME: Duration = Duration::from_millis(100);
/// Longest wait until the last words are written.
const FINAL_WRITE_TIMEOUT: Span = Span::seconds(1);
/// How long a host may not take its answers.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(30);
/// The same once the collector is being stopped.
const MAX_UNREAD_TIME_STOPPING: Duration = Duration::from_secs(1);

/// Where tests go: one for all hosts.
pub trait Shelf: Send + Sync + fmt::Debug {
    /// `host` has proved its key.
    ///
    /// # Errors
    /// Why nothing is taken now, and how long the host is to wait.
    fn open(&self, host: &str) -> Result<Box<dyn PushIntake>, (PushRefusal, String, Span)>;
}

/// What takes the tests of one host while it is connected. What is begun and not whole when this is dropped is void.
pub trait PushIntake: Send {
    /// The host says this of itself.
    fn state(&mut self, state: SpoolState);
    /// The host has these.
    fn offered(&mut self, offers: Vec<PushOffer>);
    /// The log of this wanted test begins.
    fn begin(&mut self, number: u64, about: About);
    /// A piece of it, compressed.
    fn piece(&mut self, bytes: &[u8]);
    /// It is whole.
    fn whole(&mut self, number: u64);
    /// A wanted test does not come, or no more of it.
    fn gone(&mut self, number: u64);
    /// What is to be said to the host now.
    fn answers(&mut self) -> Vec<PushReply>;
}

/// What a host is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushReply {
    /// Send these.
    Want(Vec<u64>),
    /// What became of these.
    Settled(Vec<(u64, PushOutcome)>),
    /// Nothing more for now: why, and how long to wait.
    Later(PushRefusal, String, Span),
}

/// A collector to offer.
#[derive(Clone, Debug)]
pub struct PushService {
    /// The keys of the hosts that may push, by their names. Without any nobody may.
    pub keys: PresharedKeys,
    /// Where tests go.
    pub shelf: Arc<dyn Shelf>,
}

/// Why a collector cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushServiceError {
    /// A port cannot be listened on.
    #[error("cannot await hosts that push at {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// This host has no threads or descriptors left.
    #[error("cannot start to collect: {0}")]
    Start(#[from] io::Error),
}

impl PushService {
    /// Listens for hosts at `addresses`, beside other services whose clients `gate` admits, too. A connection becomes a session once its
    /// host has proved its key.
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
    /// The number of each host's newest connection: an older one is of a host that was killed, or of a network that broke.
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
        // Tests of this host come first.
        pace::yield_to_others();
        if let Err(why) = PushConversation::begin(stream, self, peer, grant).and_then(|mut c| c.run()) {
            tracing::info!(%peer, "a host that pushed: {why}");
        }
    }

    fn turn_away(&self, mut stream: &TcpStream, _peer: SocketAddr, why: &policy::PolicyRefusal) {
        // If the host does not read it, it does not get the reason.
        let _ = stream.write(&PushReceiver::turn_away(PushRefusal::Busy, &why.to_string()));
    }
}

/// A host that has proved its key.
struct AuthenticatedHost {
    host: String,
    intake: Box<dyn PushIntake>,
    _session: Grant,
}

/// One host being served.
struct PushConversation<'a> {
    shared: &'a CollectorConnections,
    peer: SocketAddr,
    grant: &'a Grant,
    driver: Driver<PushReceiver>,
    number: u64,
    began: Instant,
    /// Since when the host has not taken its answers.
    unread: Option<Instant>,
    /// Whether there is more of what came than was done in one go.
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
                return Err(io::Error::other("idle, and made room for others"));
            }
            let longest = self.shared.gate.policy().duration(COLLECT);
            if longest.is_some_and(|longest| self.began.elapsed().as_nanos() as i64 > longest.0) {
                self.later(PushRefusal::Busy, "connections are limited in time".to_owned(), Span::seconds(1));
            }
            match &self.open {
                None if self.began.elapsed() > INTRODUCTION_TIMEOUT => {
                    return timed_out("no key was proved in time");
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
            // A host that does not take its answers is not read, and neither is more than can be done.
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
                    PushReply::Later(why, said, pause) => self.later(why, said, pause),
                }
            }
            self.driver.write_output();
            let timeout =
                if self.shared.stop.is_requested() { MAX_UNREAD_TIME_STOPPING } else { MAX_UNREAD_TIME };
            if self.driver.is_pending() && self.unread.get_or_insert_with(Instant::now).elapsed() > timeout {
                return timed_out("it does not take its answers");
            }
        }
    }

    fn later(&mut self, why: PushRefusal, said: String, pause: Span) {
        self.driver.handle(ReceiverInput::Later(why, said, pause));
    }

    /// Does what the machine asks for, as far as there is time before answers are due; the reason, once the conversation is over.
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
                // Nothing is welcome before a host has proved its key.
                (_, None) => {}
            }
        }
    }

    fn proved(&mut self, host: String) {
        self.shared.gate.right_key(self.peer.ip());
        self.grant.set_proven();
        let place = Ask::session(HOST_MEMORY).proven(true);
        let session = match self.shared.gate.admit(COLLECT, self.peer.ip(), place, clock::steady()) {
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
            Err((why, said, pause)) => {
                audit::refused(COLLECT, self.peer, &said);
                self.later(why, said, pause);
            }
        }
    }
}
