//! Parameters and outcome of a simulation.

use crate::amp::connection::AmpFailure;
use crate::amp::{AmpEndReason, SecurityMode, Users};
use crate::owamp::{OwampRules, ScheduleSlot, SessionData, Unusable};
use crate::sim::SimClock;
use jitlat_core::{Direction, Span, WallTime};
use jitlat_impair as impair;
use std::collections::BTreeMap;

/// A fault.
#[derive(Clone, Debug)]
pub enum OwampTrouble {
    /// The control connection is lost, and both sides notice.
    Break,
    /// A host is switched off and sends nothing more.
    Vanish(SimHost),
    /// The user interrupts the test.
    Interrupt,
    /// The wall clock of a host steps.
    Step(SimHost, Span),
    /// A host does nothing for this time, like a stopped process.
    Pause(SimHost, Span),
    /// This host receives these bytes on the control connection.
    Say(SimHost, Vec<u8>),
    /// An unrelated datagram arrives on the test port of the n-th session of this host. If `true`, its source
    /// is the other end's address.
    Stray(SimHost, usize, bool, Vec<u8>),
    /// The n-th test packet is duplicated.
    Again(usize),
    /// The driver of this host considers its n-th session complete.
    Complete(SimHost, usize),
}

/// A host of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimHost {
    /// The host that starts the test.
    Client,
    /// The other host.
    Server,
}

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct OwampWorld {
    /// Security mode of the conversation.
    pub mode: SecurityMode,
    /// Direction, number of packets and schedule slots of each session.
    pub sessions: Vec<(Direction, u32, Vec<ScheduleSlot>)>,
    /// Time after which a packet counts as lost.
    pub timeout: Span,
    /// Number of padding bytes after the fields of a test packet.
    pub padding: u32,
    /// Path of test packets from client to server.
    pub up: impair::PathModel,
    /// Path of test packets from server to client.
    pub down: impair::PathModel,
    /// Clocks of client and server.
    pub clocks: [SimClock; 2],
    /// Maximum number of bytes of the control conversation that arrive at once.
    pub piece: usize,
    /// Limits of the server.
    pub rules: OwampRules,
    /// Faults, each with its time.
    pub troubles: Vec<(Span, OwampTrouble)>,
    /// Number n and fault: the fault occurs at the n-th event. `None`: no such fault.
    pub at_step: Option<(u64, OwampTrouble)>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl OwampWorld {
    /// Creates a simulation of these sessions without faults.
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

/// Packets of one session, recorded by the simulation.
#[derive(Clone, Debug, Default)]
pub struct SessionTruth {
    /// Direction of the packets; `None` until the session is accepted.
    pub direction: Option<Direction>,
    /// Sequence number and send time of each packet, on the sender's clock.
    pub sent: Vec<(u32, WallTime)>,
    /// Sequence number and arrival time of each packet that arrived while the session was received, on the
    /// receiver's clock, in order of arrival.
    pub came: Vec<(u32, WallTime)>,
}

/// Result of a simulation.
#[derive(Debug)]
pub struct OwampSimOutcome {
    /// End of the client's conversation.
    pub client: Result<(), AmpFailure>,
    /// True if the client ended; false if it vanished.
    pub client_ended: bool,
    /// Client's data of each session, fetched from the server or received by the client itself.
    pub data: BTreeMap<[u8; 16], Result<SessionData, Unusable>>,
    /// Reason why the server's conversation ended; `None` if it did not.
    pub server: Option<AmpEndReason>,
    /// Packets of each session, recorded by the simulation.
    pub truth: BTreeMap<[u8; 16], SessionTruth>,
    /// Number of test packets that the server sent to a host other than the client, or before the start.
    pub misdirected: u64,
    /// Number of test packets that the server sent.
    pub server_sent: u64,
    /// Number of bytes that the server sent on the control connection.
    pub server_control_bytes: u64,
    /// Simulated time at which both sides had finished.
    pub took: Span,
    /// Total number of events on both hosts.
    pub steps: u64,
    /// Number of sessions in the server's store at the end.
    pub kept: usize,
}
