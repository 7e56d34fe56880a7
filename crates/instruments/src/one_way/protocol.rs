//! [`OneWayProtocol`]: an entry of [`ONE_WAY_PROTOCOLS`](super::ONE_WAY_PROTOCOLS). Each file of the folder
//! `protocols` exports one entry.

use super::OneWay;
use crate::arguments::{Argument, Arguments};
use crate::error::Error;
use crate::instrument::TestOutcome;
use crate::ping::protocol::ProtocolServer;
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use std::fmt;

/// Description of a one-way protocol for the rest of the program.
pub struct OneWayProtocol {
    /// Name in lowercase: `owamp`.
    pub name: &'static str,
    /// Display name: `OWAMP`.
    pub title: &'static str,
    /// Programs that answer the protocol, for the help text.
    pub answered_by: &'static str,
    /// Arguments of the client.
    pub arguments: &'static [Argument],
    /// Creates a client from [complete](Arguments::complete) arguments.
    pub client: fn(&Arguments) -> Result<Box<dyn OneWayClient>, Error>,
    /// The server; `None` for jitlat's own protocol, whose server has separate settings
    /// ([`OneWayService`](crate::serve::OneWayService)).
    pub server: Option<ProtocolServer>,
}

impl OneWayProtocol {
    /// Creates a client from `arguments`.
    ///
    /// # Errors
    /// [`Error::Settings`] if an argument is unknown or has an invalid value.
    pub fn client(&self, arguments: &Arguments) -> Result<Box<dyn OneWayClient>, Error> {
        (self.client)(&arguments.complete(self.arguments)?)
    }
}

impl fmt::Debug for OneWayProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OneWayProtocol").field(&self.name).finish()
    }
}

/// Client of a one-way protocol, with the values of its arguments.
pub trait OneWayClient: fmt::Debug + Send + Sync {
    /// Returns the protocol's entry in [`ONE_WAY_PROTOCOLS`](super::ONE_WAY_PROTOCOLS).
    fn protocol(&self) -> &'static OneWayProtocol;

    /// True if streams of this host begin at the time in their settings, and not as soon as they are set up.
    fn starts_on_time(&self) -> bool {
        false
    }

    /// Checks that the protocol can run `test`.
    ///
    /// # Errors
    /// [`Error::Settings`] if the test has a setting that the protocol does not support.
    fn check(&self, test: &OneWay) -> Result<(), Error>;

    /// Runs `test`, which must have passed [`check`](Self::check).
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn measure(&self, test: &OneWay, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error>;
}
