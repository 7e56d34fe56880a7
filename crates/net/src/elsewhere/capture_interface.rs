//! Captures at an interface, which are possible only on Linux.

pub use crate::settings::InterfaceSettings;

use super::Frame;
use crate::elsewhere::refusal;
use jitlat_core::Span;
use jitlat_core::prefix::Prefix;
use jitlat_passive::LinkType;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Reason why packets cannot be captured on an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// The interface was removed during the capture.
    #[error("the interface {0} was removed")]
    Gone(String),
    /// This system does not permit it.
    #[error("cannot capture on {interface}: {source}")]
    Io {
        /// Name of the interface.
        interface: String,
        /// Reason.
        source: io::Error,
    },
}

/// A running capture on an interface, of which there is none on this system.
pub struct InterfaceCapture(Infallible);

impl InterfaceCapture {
    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn open(interface: &str, _: InterfaceSettings) -> Result<InterfaceCapture, InterfaceError> {
        let source = refusal("capturing at an interface");
        Err(InterfaceError::Io { interface: interface.to_owned(), source })
    }

    /// Limits the capture to packets from or to `hosts`.
    pub fn limit_to(&self, _hosts: &[Prefix]) -> Result<(), InterfaceError> {
        match self.0 {}
    }

    /// Passes captured packets to `each`.
    pub fn poll(&mut self, _: Duration, _each: impl FnMut(Frame<'_>)) -> Result<usize, InterfaceError> {
        match self.0 {}
    }

    /// Returns the maximum time until a packet is passed on.
    pub fn delay(&self) -> Span {
        match self.0 {}
    }

    /// Sleeps until every packet can be passed on.
    pub fn settle(&self) {
        match self.0 {}
    }

    /// Returns the number of packets dropped so far.
    pub fn drops(&mut self) -> u64 {
        match self.0 {}
    }

    /// Returns the number of frames delivered so far.
    pub fn frames(&self) -> u64 {
        match self.0 {}
    }

    /// Returns how often the interface went down during the capture.
    pub fn downs(&self) -> u64 {
        match self.0 {}
    }

    /// Returns the link type of the frames.
    pub fn link(&self) -> LinkType {
        match self.0 {}
    }

    /// Returns the snap length.
    pub fn snap(&self) -> u32 {
        match self.0 {}
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        match self.0 {}
    }
}

/// Returns the names of this host's interfaces, as far as the system lists them.
pub fn interfaces() -> Vec<String> {
    let mut names: Vec<String> =
        crate::sys::interfaces().unwrap_or_default().into_iter().map(|interface| interface.name).collect();
    names.dedup();
    names
}

/// Returns the name of the interface that has `address`; `None` if there is none.
pub fn find_interface(address: IpAddr) -> Option<String> {
    let interfaces = crate::sys::interfaces().ok()?;
    interfaces
        .into_iter()
        .find(|interface| interface.address == Some(address))
        .map(|interface| interface.name)
}
