//! Clocks, pacing, sockets, kernel stamps and the drivers that run the protocol state machines: the only
//! crate with system calls of its own.
//!
//! * [`clock`] – wall and steady clock, the kernel's synchronisation state, clock steps
//! * [`pace`] – waiting for absolute deadlines
//! * [`privilege`] – capabilities, and how to grant them; [`confine`] – rights that a server drops
//! * [`stamp`] – timestamps of the kernel and of the hardware
//! * [`twoway`] – drivers of the two-way protocols; [`reflect`] – their reflectors
//! * [`capture`] – packets captured on an interface or read from a file
//! * [`digest`] – digests of packets captured on other hosts
//! * [`client`], [`server`] – the drivers of the two sides of a one-way test
//! * `rpm`, a feature – responsiveness under load over HTTP/2: client and server
//! * `browser`, a feature – a page from which browsers measure round trips
//! * [`resolve`] – addresses of hosts and interfaces
//! * [`names`] – names of addresses, by DNS
//! * [`discovery`] – servers on the local link, by multicast DNS
//! * [`doctor`] – delays that this host adds to every measurement, and their causes
//! * [`emulator`] – impaired paths for tests and demonstrations
//! * [`random`] – random bytes of the system; [`key_file`] – files that other users must not be able to
//!   read
//! * [`wake`] – waiting until something happens
//!
//! Private modules that other modules use: `sockets` opens sockets, `accept` accepts connections and limits
//! them per client, `drive` runs a state machine over a connection, `engine` runs a thread for each test
//! stream, `cmsg` reads and writes control messages, `departures` matches transmit stamps to packets, `lead`
//! estimates the time from reading the clock to a packet's departure, `ring` passes records from packet
//! threads to the control thread, `netlink` queries the kernel's tables, `launch` assigns launch times to
//! packets, which the interface's queue or the adapter enforces, and `sys` contains all `unsafe` code.
//!
//! Related crates: `jitlat-proto` contains the state machines, `jitlat-instruments` the tests that run them.
//!
//! Measures round trips to a reflector on this host, with kernel stamps:
//!
//! ```
//! use jitlat_core::{Direction, Schedule, Span, TestSpec, Transport};
//! use jitlat_net::pace::Pacing;
//! use jitlat_net::reflect::{Reflectors, StampReflector};
//! use jitlat_net::stamp::StampMode;
//! use jitlat_net::twoway::{self, TwoWayLink, socket::{Carrier, Marking}};
//! use jitlat_proto::{policy::Policy, stamp::StampSender, twoway::{Overdue, PingPlan}};
//! use std::sync::atomic::AtomicBool;
//!
//! let mut reflectors = Reflectors::new(Policy::default())?;
//! reflectors.start(&StampReflector { port: 0, ..Default::default() }, &["127.0.0.1".parse()?]);
//! let (_, to) = reflectors.listening()[0];
//!
//! let period = Span::millis(2);
//! let spec = TestSpec::new(Direction::Up, Transport::Udp, 10, 44, period, Schedule::Periodic)?;
//! let plan = PingPlan { spec, wait: None, timeout: Span::seconds(2), overdue: Overdue::Space };
//! let link = TwoWayLink {
//!     to,
//!     carrier: Carrier::Udp,
//!     marking: Marking::default(),
//!     stamps: StampMode::Kernel,
//!     pacing: Pacing::default(),
//!     start: None,
//!     live: None,
//! };
//! let test = twoway::run(|_| StampSender::new(Default::default()), plan, &link, &AtomicBool::new(false))?;
//! assert_eq!(test.outcome.requests.answered(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// On other systems, much of the code for functions that exist only on Linux has no caller.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod accept;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/adapter_clock.rs")]
pub mod adapter_clock;
mod android;
mod audit;
#[cfg(feature = "browser")]
pub mod browser;
pub mod capture;
pub mod client;
pub mod clock;
pub mod cmsg;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/confine.rs")]
pub mod confine;
mod departures;
pub mod digest;
pub mod discovery;
pub mod doctor;
mod drive;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/emulator.rs")]
pub mod emulator;
mod engine;
mod frame;
pub mod interface;
pub mod iperf3;
pub mod key_file;
pub mod lamp_frame;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/launch.rs")]
mod launch;
mod lead;
pub mod names;
#[cfg(target_os = "linux")]
mod netlink;
pub mod owamp;
pub mod pace;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/path.rs")]
pub mod path;
pub mod privilege;
pub mod random;
pub mod reflect;
pub mod resolve;
mod ring;
#[cfg(feature = "rpm")]
pub mod rpm;
pub mod server;
mod settings;
mod shared_keys;
mod sockets;
pub mod stamp;
mod sys;
pub mod twoway;
pub mod wake;

pub use accept::RunningService;
pub use shared_keys::SharedKeys;
