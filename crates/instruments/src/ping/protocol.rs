//! [`PingProtocol`]: an entry of [`PROTOCOLS`](super::PROTOCOLS). Each file of the folder `protocols` exports
//! one entry.

use super::test::{PingResult, PingTest};
use crate::arguments::{Argument, ArgumentKind, Arguments};
use crate::error::Error;
use jitlat_core::Transport;
use jitlat_net::reflect::Reflector;
use jitlat_net::twoway::TwoWayLink;
use std::fmt;

/// Description of a two-way protocol for the rest of the program.
pub struct PingProtocol {
    /// Name in lowercase: `stamp`.
    pub name: &'static str,
    /// Display name: `STAMP`.
    pub title: &'static str,
    /// Programs that answer the protocol, for the help text.
    pub answered_by: &'static str,
    /// Transport that carries the protocol.
    pub transport: Transport,
    /// Meaning and default of the payload size, for the help text: `of the UDP datagram (44)`.
    pub payload: &'static str,
    /// Arguments of the client.
    pub arguments: &'static [Argument],
    /// Creates a client from [complete](Arguments::complete) arguments.
    pub client: fn(&Arguments) -> Result<Box<dyn PingClient>, Error>,
    /// Server; `None` if the kernel of every host answers this protocol.
    pub server: Option<ProtocolServer>,
}

impl PingProtocol {
    /// Returns the client's switch `name`, for example `raw`; `None` if the client has no such switch.
    pub fn switch(&self, name: &str) -> Option<&'static Argument> {
        self.arguments.iter().find(|a| a.name == name && matches!(a.kind, ArgumentKind::Nothing))
    }
}

/// Reflectors of a protocol: one, or several if its packets can be received in several forms.
pub type ReflectorList = Vec<Box<dyn Reflector>>;

/// The server of a protocol.
pub struct ProtocolServer {
    /// Arguments of the server.
    pub arguments: &'static [Argument],
    /// Switch among the arguments that starts the server; `None`: it runs unless other servers are selected.
    pub switch: Option<&'static str>,
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

    /// Creates the reflectors from `arguments`; empty if the kernel of every host answers this protocol.
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

/// Client of a two-way protocol, with the values of its arguments.
pub trait PingClient: fmt::Debug + Send + Sync {
    /// Returns the protocol's entry in [`PROTOCOLS`](super::PROTOCOLS).
    fn protocol(&self) -> &'static PingProtocol;

    /// Returns the port of the far host; 0 if the protocol has no ports.
    fn port(&self) -> u16;

    /// Returns the sizes that requests can have.
    fn sizes(&self) -> RequestSizes;

    /// True if a test without any answer counts as failed.
    fn expects_answers(&self) -> bool {
        true
    }

    /// Adapts the socket settings and packet marking to the protocol.
    fn adapt(&self, _link: &mut TwoWayLink) {}

    /// Runs a test.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn measure(&self, test: &PingTest<'_>) -> Result<PingResult, Error>;
}

/// Possible sizes of requests, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSizes {
    /// Default payload size.
    pub usual: u64,
    /// Size of the header before the payload; it is part of the request's size.
    pub header: u64,
    /// Smallest and largest request, including the header.
    pub range: (u64, u64),
    /// Total length of the headers between the IP header and the request; `None` over TCP, which forms
    /// segments itself.
    pub beneath: Option<u64>,
}
