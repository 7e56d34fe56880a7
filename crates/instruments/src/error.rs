//! [`Error`]: reason why nothing could be measured.

use crate::passive::PassiveError;
use jitlat_core::spec::SpecError;
use jitlat_net::client::ClientError;
use jitlat_net::digest::ExporterError;
use jitlat_net::emulator::RelayError;
use jitlat_net::resolve::ResolveError;
use jitlat_net::server::ServerError;
use jitlat_net::twoway;
use std::io;

/// Reason why nothing could be measured. A test that was cut short is not an error:
/// [`TestOutcome`](crate::TestOutcome) describes its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings contradict each other or are impossible.
    #[error("{0}")]
    Settings(String),
    /// The specification of a stream is impossible.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The far host has no usable address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The operating system refused an operation.
    #[error("{doing}: {source}")]
    System {
        /// Description of the failed operation.
        doing: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A one-way test failed.
    #[error(transparent)]
    OneWay(#[from] ClientError),
    /// The control connection of a one-way test with another protocol failed.
    #[error(transparent)]
    Conversation(Box<dyn std::error::Error + Send + Sync>),
    /// Captured traffic could not be analysed.
    #[error(transparent)]
    Passive(#[from] PassiveError),
    /// A two-way test failed.
    #[error(transparent)]
    Ping(#[from] twoway::PingError),
    /// The control connection of a TWAMP test failed.
    #[error(transparent)]
    TwampControl(#[from] twoway::twamp::TwampError),
    /// The routers on the path could not be probed.
    #[error(transparent)]
    Path(#[from] jitlat_net::path::PathError),
    /// The service for one-way tests failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The service for packet digests failed.
    #[error(transparent)]
    Digests(#[from] ExporterError),
    /// The impaired path could not be set up.
    #[error(transparent)]
    Relay(RelayError),
    /// The background load of a test failed.
    #[error("{0}")]
    Load(String),
    /// An observer ended the measurement with an error.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A measuring thread panicked.
    #[error("the measuring thread panicked: this is a bug in jitlat; please report it")]
    Panicked,
    /// An error in a larger operation.
    #[error("{what}: {source}")]
    While {
        /// Description of the operation that failed.
        what: String,
        /// Error that caused the failure.
        source: Box<Error>,
    },
}

impl Error {
    /// Wraps the error with a description of the failed operation.
    #[must_use]
    pub fn while_doing(self, what: String) -> Error {
        Error::While { what, source: Box::new(self) }
    }
}

/// Formats an error and its causes as one line. A cause whose text is already included is left out.
pub fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    text
}
