//! The parameters and the outcome of a simulation.

use crate::amp::connection::AmpFailure;
use crate::amp::{AmpEndReason, SecurityMode, Users};
use crate::owamp::{OwampRules, ScheduleSlot, SessionData, Unusable};
use crate::sim::SimClock;
use jitlat_core::{Direction, Span, WallTime};
use jitlat_impair as impair;
use std::collections::BTreeMap;

/// A fault, and when it happens.
#[derive(Clone, Debug)]
pub enum OwampTrouble {
    /// The control connection breaks; both sides notice.
    Break,
    /// A host is switched off: it sends nothing more.
    Vanish(SimHost),
    /// The user interrupts the test.
    Interrupt,
    /// The wall clock of a host steps.
    Step(SimHost, Span),
    /// A host does nothing for some time, like a stopped process.
    Pause(SimHost, Span),
    /// This host receives these bytes on the control connection.
    Say(SimHost, Vec<u8>),
    /// An unrelated datagram arrives at the test port of the n-th session at this host, from the other end's address if
    /// `true`.
    Stray(SimHost, usize, bool, Vec<u8>),
    /// The n-th test packet so far is duplicated.
    Again(usize),
    /// The driver of this host considers the n-th session there complete.
    Complete(SimHost, usize),
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimHost {
    /// Where the test is started.
    Client,
    /// The other one.
    Server,
}

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct OwampWorld {
    /// Protection of the conversation.
    pub mode: SecurityMode,
    /// Direction, packets and slots of each session.
    pub sessions: Vec<(Direction, u32, Vec<ScheduleSlot>)>,
    /// After which a packet is lost.
    pub timeout: Span,
    /// Bytes behind the fields of a test packet.
    pub padding: u32,
    /// The path of test packets from client to server.
    pub up: impair::PathModel,
    /// The path of test packets from server to client.
    pub down: impair::PathModel,
    /// The client's clock and the server's.
    pub clocks: [SimClock; 2],
    /// Most bytes of the control conversation that arrive at once.
    pub piece: usize,
    /// What the server grants.
    pub rules: OwampRules,
    /// Faults, each with its time.
    pub troubles: Vec<(Span, OwampTrouble)>,
    /// A fault when something happens to a host for the n-th time.
    pub at_step: Option<(u64, OwampTrouble)>,
    /// Of everything random.
    pub seed: u64,
}

impl OwampWorld {
    /// A simulation without faults, with these sessions.
    pub fn new(mode: SecurityMode, sessions: Vec<(Direction, u32, Vec<ScheduleSlot>)>) -> OwampWorld {
        let users = if mode.is_keyed() { Users::one("user", b"secret") } else { Users::default() };
        OwampWorld {
            mode,
            sessions,
            timeout: Span::millis(500),
            padding: 0,
            up: impair::PathModel { delay: Span::millis(5), ..impair::PathModel::default() },
            down: impair::PathModel { delay: Span::millis(7), ..impair::PathModel::default() },
            clocks: [SimClock::default(); 2],
            piece: usize::MAX,
            rules: OwampRules { users, rounds: 1024, ..OwampRules::default() },
            troubles: Vec::new(),
            at_step: None,
            seed: 1,
        }
    }
}

/// What really happened to the packets of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionTruth {
    /// Up or down, once granted.
    pub direction: Option<Direction>,
    /// Number and send time of each, by the sender's clock.
    pub sent: Vec<(u32, WallTime)>,
    /// Number and arrival time of each that arrived while the session was received, by the receiver's clock, in that
    /// order.
    pub came: Vec<(u32, WallTime)>,
}

/// The result of a simulation.
#[derive(Debug)]
pub struct OwampSimOutcome {
    /// How the client ended.
    pub client: Result<(), AmpFailure>,
    /// Whether it ended; false if it vanished.
    pub client_ended: bool,
    /// The client's data of each session: fetched, or received itself.
    pub data: BTreeMap<[u8; 16], Result<SessionData, Unusable>>,
    /// Why the server's conversation ended.
    pub server: Option<AmpEndReason>,
    /// By session.
    pub truth: BTreeMap<[u8; 16], SessionTruth>,
    /// Test packets that the server sent to another host than the client, or before the start.
    pub misdirected: u64,
    /// Test packets that the server sent.
    pub server_sent: u64,
    /// Bytes that the server sent on the control connection.
    pub server_said: u64,
    /// True time until nothing was left to do.
    pub took: Span,
    /// Number of things that happened to the hosts.
    pub steps: u64,
    /// Sessions in the server's store at the end.
    pub kept: usize,
}
