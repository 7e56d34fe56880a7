//! [`PingProtocol`]: an entry of [`PROTOCOLS`](super::PROTOCOLS). Each file of the folder `protocols` exports one.

use super::test::{PingResult, PingTest};
use crate::arguments::{Argument, ArgumentKind, Arguments};
use crate::error::Error;
use jitlat_core::Transport;
use jitlat_net::reflect::Reflector;
use jitlat_net::twoway::TwoWayLink;
use std::fmt;

/// Two-way protocol, as described to the rest of the program.
pub struct PingProtocol {
    /// Name in small letters: `stamp`.
    pub name: &'static str,
    /// Name for people: `STAMP`.
    pub title: &'static str,
    /// Programs that answer the protocol, for help.
    pub answered_by: &'static str,
    /// Transport that carries the protocol.
    pub transport: Transport,
    /// Description and default size of the payload: `of the UDP datagram (44)`.
    pub payload: &'static str,
    /// Arguments of the client.
    pub arguments: &'static [Argument],
    /// Creates a client from [complete](Arguments::complete) arguments.
    pub client: fn(&Arguments) -> Result<Box<dyn PingClient>, Error>,
    /// The server; `None` if every host's kernel answers this protocol.
    pub server: Option<ProtocolServer>,
}

impl PingProtocol {
    /// Returns the client's argument `name`, e.g. `raw`; `None` if it does not exist or takes a value.
    pub fn switch(&self, name: &str) -> Option<&'static Argument> {
        self.arguments.iter().find(|a| a.name == name && matches!(a.kind, ArgumentKind::Nothing))
    }
}

/// The reflectors of a protocol: one, or several that receive its packets differently.
pub type ReflectorList = Vec<Box<dyn Reflector>>;

/// The server of a protocol.
pub struct ProtocolServer {
    /// Arguments of the server.
    pub arguments: &'static [Argument],
    /// Creates the reflectors from [complete](Arguments::complete) arguments.
    pub reflectors: fn(&Arguments) -> Result<ReflectorList, Error>,
}

impl PingProtocol {
    /// Creates a client from `arguments`.
    ///
    /// # Errors
    /// [`Error::Settings`] if an argument is unknown or has an invalid value.
    pub fn client(&self, arguments: &Arguments) -> Result<Box<dyn PingClient>, Error> {
        (self.client)(&arguments.complete(self.arguments)?)
    }

    /// Creates the reflectors from `arguments`; empty if every host's kernel answers this protocol.
    ///
    /// # Errors
    /// [`Error::Settings`] if an argument is unknown or has an invalid value.
    pub fn reflectors(&self, arguments: &Arguments) -> Result<ReflectorList, Error> {
        let Some(server) = &self.server else { return Ok(Vec::new()) };
        (server.reflectors)(&arguments.complete(server.arguments)?)
    }
}

impl fmt::Debug for PingProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protocol").field(&self.name).finish()
    }
}

/// The client of a two-way protocol, with its arguments.
pub trait PingClient: fmt::Debug + Send + Sync {
    /// Returns the entry of the protocol in the list.
    fn protocol(&self) -> &'static PingProtocol;

    /// Returns the far host's port; 0 if the protocol has no ports.
    fn port(&self) -> u16;

    /// Returns the sizes that requests can have.
    fn sizes(&self) -> RequestSizes;

    /// True if a test without any answer has failed.
    fn expects_answers(&self) -> bool {
        true
    }

    /// Changes how packets are sent and marked.
    fn adapt(&self, _link: &mut TwoWayLink) {}

    /// Runs a test.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error>;
}

/// Sizes of requests, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSizes {
    /// Default payload.
    pub usual: u64,
    /// Header before the payload that counts towards the request.
    pub header: u64,
    /// Shortest and longest request, header included.
    pub range: (u64, u64),
    /// Length of the headers between the IP header and the request, in bytes; `None` over TCP, which forms segments itself.
    pub beneath: Option<u64>,
}
