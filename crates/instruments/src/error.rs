//! [`Error`]: why nothing could be measured.

use crate::passive::PassiveError;
use jitlat_core::spec::SpecError;
use jitlat_net::client::{AddressFamily, ClientError};
use jitlat_net::digest::ExporterError;
use jitlat_net::emulator::RelayError;
use jitlat_net::push::PushServiceError;
use jitlat_net::server::ServerError;
use jitlat_net::twoway;
use std::io;

/// Why nothing could be measured. A test that was cut short is not an error: [`Outcome`](crate::TestOutcome) says how it
/// ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings contradict each other, or ask for what cannot be done.
    #[error("{0}")]
    Settings(String),
    /// A stream cannot have this specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The far host's name could not be looked up.
    #[error("looking up {host}: {source}")]
    Lookup {
        /// The name of the host.
        host: String,
        /// The reason.
        source: io::Error,
    },
    /// The far host has no address of the requested family.
    #[error("{host} has no {}address", match .family {
        Some(AddressFamily::V4) => "IPv4 ",
        Some(AddressFamily::V6) => "IPv6 ",
        None => "",
    })]
    Address {
        /// The name of the host.
        host: String,
        /// The requested family; `None`: either.
        family: Option<AddressFamily>,
    },
    /// The operating system refused an operation.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A one-way test failed.
    #[error(transparent)]
    OneWay(#[from] ClientError),
    /// The conversation of a one-way test with another protocol failed.
    #[error(transparent)]
    Conversation(Box<dyn std::error::Error + Send + Sync>),
    /// Captured traffic could not be analysed.
    #[error(transparent)]
    Passive(#[from] PassiveError),
    /// A two-way test failed.
    #[error(transparent)]
    Ping(#[from] twoway::PingError),
    /// The control conversation of a TWAMP test failed.
    #[error(transparent)]
    TwampControl(#[from] twoway::twamp::TwampError),
    /// The routers on the path could not be examined.
    #[error(transparent)]
    Path(#[from] jitlat_net::path::PathError),
    /// One-way tests cannot be answered.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Packet digests cannot be served.
    #[error(transparent)]
    Digests(#[from] ExporterError),
    /// Tests of other hosts cannot be collected.
    #[error(transparent)]
    Collect(#[from] PushServiceError),
    /// An impaired path cannot be set up.
    #[error(transparent)]
    Relay(RelayError),
    /// The background load of a test failed.
    #[error("{0}")]
    Load(String),
    /// An observer ended the measurement with an error.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A measuring thread failed.
    #[error("the measuring thread panicked: a fault of this program")]
    Panicked,
    /// Another error, with what was being done.
    #[error("{what}: {source}")]
    While {
        /// What was being done.
        what: String,
        /// The error.
        source: Box<Error>,
    },
}

impl Error {
    /// Adds what was being done.
    #[must_use]
    pub fn while_doing(self, what: String) -> Error {
        Error::While { what, source: Box::new(self) }
    }
}
