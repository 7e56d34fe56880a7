//! Responsiveness under working conditions (draft-ietf-ippm-responsiveness-09, July 2026): round trips per minute
//! (RPM) over HTTP/2 while load-generating connections fill the path.
//!
//! * [`resources`] – the configuration document, which names the resources of a server
//! * [`score`] – trimmed means, stability, and the formula of RPM
//! * [`stage`] – [`LoadStage`](stage::LoadStage): adds load and probes until goodput and responsiveness are stable
//! * [`measured`] – the result of all stages
//!
//! A stage is a machine without connections: it says when to add a load-generating connection and when to send a
//! probe, and receives the bytes that were transferred and the times of the probes.
//!
//! ```
//! use jitlat_core::{Span, SteadyTime};
//! use jitlat_proto::rpm::{LoadDirections, RpmParameters};
//! use jitlat_proto::rpm::stage::{LoadStage, StageCommand};
//!
//! let now = SteadyTime(0);
//! let mut stage = LoadStage::new(RpmParameters::default(), LoadDirections::Down, now);
//! assert!(matches!(stage.poll_command(), Some(StageCommand::Connect(_))));
//! stage.handle_timeout(now + Span::seconds(1), [0, 12_500_000]);
//! ```

pub mod measured;
pub mod resources;
pub mod score;
pub mod stage;

use jitlat_core::{Direction, Span};

/// Document that defines the method; constants have changed between its versions.
pub const DRAFT: &str = "draft-ietf-ippm-responsiveness-09";
/// TCP port of a server, unless another one is requested: the port of the reference server.
pub const PORT: u16 = 4043;
/// Path of the configuration document on every server.
pub const CONFIG_PATH: &str = "/.well-known/nq";
/// Length of the large object, in bytes: a client resets the stream long before its end.
pub const LARGE_BYTES: u64 = 8 << 30;
/// Length of the small object, in bytes.
pub const SMALL_BYTES: usize = 1;

/// Bytes that one foreign probe and one self probe transfer, as estimated by the draft: a connection with its
/// handshakes and a request, and a request.
const PAIR_BYTES: f64 = 6000.0;

/// Directions of the load of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadDirections {
    /// Downloads of the large object.
    Down,
    /// Uploads without an end.
    Up,
    /// Both at once, with one score.
    Both,
}

impl LoadDirections {
    /// Returns the directions.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            LoadDirections::Down => &[Direction::Down],
            LoadDirections::Up => &[Direction::Up],
            LoadDirections::Both => &[Direction::Down, Direction::Up],
        }
    }

    /// Returns the name: `down`, `up` or `both`.
    pub fn name(self) -> &'static str {
        match self {
            LoadDirections::Down => "down",
            LoadDirections::Up => "up",
            LoadDirections::Both => "both",
        }
    }
}

/// Parameters of the method. The defaults are those of the draft, except for the interval: with 5 s, no result could
/// be stable within 40 s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RpmParameters {
    /// Length of an interval (ID), 100 ms or more; 1 s, and 5 s in the draft.
    pub interval: Span,
    /// Number of intervals in a moving average, and of values in the test for stability (MAD), 1 or more; 4.
    pub averaged: usize,
    /// Standard deviation of stable values, as a share of the newest value (SDT); 0.05.
    pub tolerance: f64,
    /// Number of load-generating connections per direction at the start (INP), 1 or more; 1.
    pub initial_connections: usize,
    /// Number of connections added per interval and direction (INC); 1.
    pub added_connections: usize,
    /// Maximum number of load-generating connections per direction (MNP); 16.
    pub max_connections: usize,
    /// Maximum number of probes per second, foreign and self together (MPS), 1 or more; 100.
    pub probes_per_second: u32,
    /// Maximum share of the measured goodput that probes may use (PTC); 0.05.
    pub probe_share: f64,
    /// Maximum duration of a stage; 20 s.
    pub time_limit: Span,
}

impl Default for RpmParameters {
    fn default() -> RpmParameters {
        RpmParameters {
            interval: Span::seconds(1),
            averaged: 4,
            tolerance: 0.05,
            initial_connections: 1,
            added_connections: 1,
            max_connections: 16,
            probes_per_second: 100,
            probe_share: 0.05,
            time_limit: Span::seconds(20),
        }
    }
}
