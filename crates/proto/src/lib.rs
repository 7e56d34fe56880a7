//! Wire formats and protocol state machines, and the simulated network for testing them.
//!
//! This crate does no I/O: it has no sockets, clocks, threads or random source of its own. The input is
//! bytes, timestamps and the current time; the output is bytes, deadlines and events. `jitlat-net` runs the
//! state machines over sockets.
//!
//! * [`machine`] – the five calls with which a driver runs any state machine
//! * [`access`] – sources that are answered, and the client to which an address belongs; [`accounts`] –
//!   packets and bytes of each client
//! * [`twoway`] – code shared by all two-way protocols
//! * [`stamp`], [`twamp`], [`irtt`], [`ipsla`], [`lamp`], [`echo`], [`reqresp`] – the two-way protocols;
//!   [`wsmp`] – messages that may carry LaMP
//! * [`rpm`] – responsiveness under working conditions, over HTTP/2; [`browser`] – round trips that a browser measures over a WebSocket
//! * [`discovery`] – servers on the local link, by multicast DNS; [`names`] – names of addresses, by DNS
//! * [`owamp`] – the standard one-way protocol; [`amp`] – code that it shares with TWAMP
//! * [`jitlat`] – the one-way protocol: control conversation (two dialects) and test stream
//! * [`digest`] – reports of a capture point on another host; [`push`] – tests sent to a collector;
//!   [`channel`] – the connection layer of both
//!
//! With the feature `sim`: `sim` – both sides of the one-way protocol on an impaired network in virtual time
//!
//! Related crates: `jitlat-core` defines records and times, `jitlat-net` transmits the bytes. The compatibility
//! promise in the README covers the public items.
//!
//! A STAMP test without a network:
//!
//! ```
//! use jitlat_core::ntp::ErrorEstimate;
//! use jitlat_core::{Span, SteadyTime, WallTime};
//! use jitlat_proto::stamp::{StampSessionReflector, ReflectorRules, StampSender};
//! use jitlat_proto::twoway::{RequestArrival, Protocol, DatagramKind};
//! use jitlat_proto::Tick;
//!
//! let sent = WallTime(1_795_000_000_000_000_000);
//! let mut sender = StampSender::new(Default::default());
//! let mut request = Vec::new();
//! sender.request(0, true, sent, &mut request);
//!
//! // At the far host 20 ms later, whose answer is as long as the request.
//! let arrived = sent + Span::millis(20);
//! let from = "192.0.2.1:40000".parse()?;
//! let arrival = RequestArrival { from, at: arrived, ttl: Some(64), traffic_class: Some(0) };
//! let now = Tick { wall: arrived + Span::micros(10), steady: SteadyTime(0) };
//! let mut answer = vec![0; request.len()];
//! let mut reflector = StampSessionReflector::new(ReflectorRules::default());
//! reflector.reflect(&request, &arrival, now, ErrorEstimate::UNKNOWN, &mut answer)?;
//!
//! let DatagramKind::Reply(reply) = sender.receive(&answer, sent + Span::millis(50)) else { unreachable!() };
//! assert_eq!((reply.seq, reply.arrived), (0, Some(arrived)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod access;
pub mod accounts;
pub mod amp;
pub mod browser;
pub mod channel;
pub mod digest;
pub mod discovery;
pub mod echo;
pub mod iperf3;
pub mod ipsla;
pub mod irtt;
pub mod jitlat;
pub mod lamp;
pub mod machine;
pub mod names;
pub mod owamp;
pub mod path;
pub mod policy;
pub mod push;
pub mod reqresp;
pub mod rpm;
mod shares;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod stamp;
pub mod twamp;
pub mod twoway;
pub mod wire;
pub mod wsmp;

pub use machine::{Machine, Tick};
