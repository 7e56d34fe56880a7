//! The parameters and the outcome of a simulation.

use crate::amp::connection::Failure;
use crate::amp::{Mode, Reason, Users};
use crate::owamp::{Rules, SessionData, Slot, Unusable};
use crate::sim::HostClock;
use jitlat_core::{Direction, Span, WallTime};
use jitlat_impair as impair;
use std::collections::BTreeMap;

/// A fault, and when it happens.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The control connection breaks; both sides notice.
    Break,
    /// A host is switched off: it sends nothing more.
    Vanish(Host),
    /// The user interrupts the test.
    Interrupt,
    /// The wall clock of a host steps.
    Step(Host, Span),
    /// A host does nothing for some time, like a stopped process.
    Pause(Host, Span),
    /// This host receives these bytes on the control connection.
    Say(Host, Vec<u8>),
    /// An unrelated datagram arrives at the test port of the n-th session at this host, from the other end's address if
    /// `true`.
    Stray(Host, usize, bool, Vec<u8>),
    /// The n-th test packet so far is duplicated.
    Again(usize),
    /// The driver of this host considers the n-th session there complete.
    Complete(Host, usize),
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Where the test is started.
    Client,
    /// The other one.
    Server,
}

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct World {
    /// Protection of the conversation.
    pub mode: Mode,
    /// Direction, packets and slots of each session.
    pub sessions: Vec<(Direction, u32, Vec<Slot>)>,
    /// After which a packet is lost.
    pub timeout: Span,
    /// Bytes behind the fields of a test packet.
    pub padding: u32,
    /// The path of test packets from client to server.
    pub up: impair::Config,
    /// The path of test packets from server to client.
    pub down: impair::Config,
    /// The client's clock and the server's.
    pub clocks: [HostClock; 2],
    /// Most bytes of the control conversation that arrive at once.
    pub piece: usize,
    /// What the server grants.
    pub rules: Rules,
    /// Faults, each with its time.
    pub troubles: Vec<(Span, Trouble)>,
    /// A fault when something happens to a host for the n-th time.
    pub at_step: Option<(u64, Trouble)>,
    /// Of everything random.
    pub seed: u64,
}

impl World {
    /// A simulation without faults, with these sessions.
    pub fn new(mode: Mode, sessions: Vec<(Direction, u32, Vec<Slot>)>) -> World {
        let users = if mode.is_keyed() { Users::one("user", b"secret") } else { Users::default() };
        World {
            mode,
            sessions,
            timeout: Span::millis(500),
            padding: 0,
            up: impair::Config { delay: Span::millis(5), ..impair::Config::default() },
            down: impair::Config { delay: Span::millis(7), ..impair::Config::default() },
            clocks: [HostClock::default(); 2],
            piece: usize::MAX,
            rules: Rules { users, rounds: 1024, ..Rules::default() },
            troubles: Vec::new(),
            at_step: None,
            seed: 1,
        }
    }
}

/// What really happened to the packets of one session.
#[derive(Clone, Debug, Default)]
pub struct Truth {
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
pub struct Outcome {
    /// How the client ended.
    pub client: Result<(), Failure>,
    /// Whether it ended; false if it vanished.
    pub client_ended: bool,
    /// The client's data of each session: fetched, or received itself.
    pub data: BTreeMap<[u8; 16], Result<SessionData, Unusable>>,
    /// Why the server's conversation ended.
    pub server: Option<Reason>,
    /// By session.
    pub truth: BTreeMap<[u8; 16], Truth>,
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
