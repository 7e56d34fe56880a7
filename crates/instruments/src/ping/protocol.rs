//! [`Protocol`]: what a file of this folder exports, one line of the list [`PROTOCOLS`](super::PROTOCOLS).

use super::test::{Found, Test};
use crate::arguments::{Argument, Arguments, Takes};
use crate::error::Error;
use jitlat_core::Transport;
use jitlat_net::reflect::Reflector;
use jitlat_net::twoway::Link;
use std::fmt;

/// A two-way protocol: everything the rest of the program knows of it.
pub struct Protocol {
    /// Its name in small letters: `stamp`.
    pub name: &'static str,
    /// As people write it: `STAMP`.
    pub title: &'static str,
    /// Who answers it.
    pub answered_by: &'static str,
    /// What carries it.
    pub transport: Transport,
    /// What the payload is, and of how many bytes unless chosen: `of the UDP datagram (44)`.
    pub payload: &'static str,
    /// What its client can be told.
    pub arguments: &'static [Argument],
    /// The client of given arguments, which are [complete](Arguments::complete).
    pub client: fn(&Arguments) -> Result<Box<dyn Client>, Error>,
    /// How it is answered; `None` where hosts do so by themselves.
    pub server: Option<ProtocolServer>,
}

impl Protocol {
    /// What its client is told by one word alone, and is called so: `raw`.
    pub fn switch(&self, name: &str) -> Option<&'static Argument> {
        self.arguments.iter().find(|a| a.name == name && matches!(a.takes, Takes::Nothing))
    }
}

/// What answers a protocol: one, or one for each way its packets come in.
pub type ReflectorList = Vec<Box<dyn Reflector>>;

/// The server of a two-way protocol.
pub struct ProtocolServer {
    /// What it can be told.
    pub arguments: &'static [Argument],
    /// What answers, told arguments that are [complete](Arguments::complete).
    pub reflectors: fn(&Arguments) -> Result<ReflectorList, Error>,
}

impl Protocol {
    /// Its client, told `arguments`.
    ///
    /// # Errors
    /// [`Error::Settings`] of an argument that it does not know, or that has an impossible value.
    pub fn client(&self, arguments: &Arguments) -> Result<Box<dyn Client>, Error> {
        (self.client)(&arguments.complete(self.arguments)?)
    }

    /// What answers it on a host that is told `arguments`; nothing where hosts do so by themselves.
    ///
    /// # Errors
    /// [`Error::Settings`] of an argument that it does not know, or that has an impossible value.
    pub fn reflectors(&self, arguments: &Arguments) -> Result<ReflectorList, Error> {
        let Some(server) = &self.server else { return Ok(Vec::new()) };
        (server.reflectors)(&arguments.complete(server.arguments)?)
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protocol").field(&self.name).finish()
    }
}

/// The client of a two-way protocol: what it was told, and how it measures.
pub trait Client: fmt::Debug + Send + Sync {
    /// Its protocol.
    fn protocol(&self) -> &'static Protocol;

    /// The far host's port; 0 where the protocol has none.
    fn port(&self) -> u16;

    /// How long requests can be.
    fn sizes(&self) -> Sizes;

    /// Priority within this host, unless the test has one.
    fn priority(&self) -> Option<u32> {
        None
    }

    /// Changes to how packets are carried and marked.
    fn adapt(&self, _link: &mut Link) {}

    /// Measures.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn measure(&self, test: &Test<'_>) -> Result<Found, Error>;
}

/// Bytes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Payload unless chosen.
    pub usual: u64,
    /// Bytes before the payload that count towards the request.
    pub header: u64,
    /// Shortest and longest request, header included.
    pub range: (u64, u64),
    /// Bytes of the headers between the IP packet's and the request; `None` where TCP cuts as it likes.
    pub beneath: Option<u64>,
}
