//! Sources of values about an interface, which exist only on Linux.

use super::SampleSource;
use crate::elsewhere::refusal;
use jitlat_core::interface::InterfaceSample;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;

/// A source that this system does not have.
pub(crate) struct NoSource(Infallible);

impl SampleSource for NoSource {
    fn read(&mut self, _: &mut InterfaceSample) {
        match self.0 {}
    }
}

/// Retries according to the driver.
pub(crate) struct DriverRetries;

impl DriverRetries {
    /// Returns `None`: there is no such source.
    pub fn of(_: &str) -> Option<NoSource> {
        None
    }
}

/// Errors of the link.
pub(crate) struct LinkErrors;

impl LinkErrors {
    /// Returns an error: there is no such source.
    pub fn of(_: u32) -> io::Result<NoSource> {
        Err(refusal("reading counters of an interface"))
    }
}

/// A radio link.
pub(crate) struct Radio;

impl Radio {
    /// Returns `None`: there is no such source.
    pub fn of(_: u32) -> io::Result<Option<NoSource>> {
        Ok(None)
    }
}

/// A modem.
pub(crate) struct Modem;

impl Modem {
    /// Returns `None`: there is no such source.
    pub fn of(_: &str) -> Option<NoSource> {
        None
    }
}

/// Counters of one interface, which this system does not show.
pub(crate) struct InterfaceCounters;

impl InterfaceCounters {
    /// Reads nothing.
    pub fn start(_: IpAddr) -> InterfaceCounters {
        InterfaceCounters
    }

    /// Returns `None`: nothing was counted.
    pub fn note(&self) -> Option<String> {
        None
    }
}
