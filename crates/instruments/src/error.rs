//! [`Error`]: why nothing could be measured.

use jitlat_net::client::ClientError;
use jitlat_net::twoway;
use std::io;

/// Why nothing could be measured. A test that was cut short is no error: its [`Outcome`](crate::Outcome) says
/// how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings contradict each other, or ask for what cannot be done.
    #[error("{0}")]
    Settings(String),
    /// This host refuses something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A one-way test.
    #[error(transparent)]
    OneWay(#[from] ClientError),
    /// A round-trip test.
    #[error(transparent)]
    Ping(#[from] twoway::Error),
}
