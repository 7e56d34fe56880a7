//! [`OneWayProtocol`]: an entry of [`ONE_WAY_PROTOCOLS`](super::ONE_WAY_PROTOCOLS). Each file of the folder `protocols`
//! exports one.

use super::OneWay;
use crate::arguments::{Argument, Arguments};
use crate::error::Error;
use crate::instrument::TestOutcome;
use crate::ping::protocol::ProtocolServer;
use crate::stop::Stop;
use jitlat_core::observer::Observer;
use std::fmt;

/// A protocol of one-way tests: everything the rest of the program needs to know about it.
pub struct OneWayProtocol {
    /// Its name in small letters: `owamp`.
    pub name: &'static str,
    /// As people write it: `OWAMP`.
    pub title: &'static str,
    /// What answers it: for help.
    pub answered_by: &'static str,
    /// Arguments of its client.
    pub arguments: &'static [Argument],
    /// Makes a client from [complete](Arguments::complete) arguments.
    pub client: fn(&Arguments) -> Result<Box<dyn OneWayClient>, Error>,
    /// The server; `None` for jitlat's own protocol, which has settings of its own
    /// ([`OneWayService`](crate::serve::OneWayService)).
    pub server: Option<ProtocolServer>,
}

impl OneWayProtocol {
    /// Makes its client from `arguments`.
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

/// The client of a one-way protocol, with its arguments.
pub trait OneWayClient: fmt::Debug + Send + Sync {
    /// The protocol's entry.
    fn protocol(&self) -> &'static OneWayProtocol;

    /// Checks that the protocol can do what `test` asks for.
    ///
    /// # Errors
    /// [`Error::Settings`] with what it cannot.
    fn check(&self, test: &OneWay) -> Result<(), Error>;

    /// Runs `test`, which was checked.
    ///
    /// # Errors
    /// [`Error`] if nothing was measured.
    fn measure(&self, test: &OneWay, stop: &Stop, observer: &mut dyn Observer) -> Result<TestOutcome, Error>;
}
