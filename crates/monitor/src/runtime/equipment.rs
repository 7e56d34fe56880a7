//! [`Equipment`]: creates the instruments, captures and server of a monitor from the options in its file.

use super::CaptureSetup;
use super::error::AnyError;
use crate::agenda::SlotFailure;
use crate::file::{DeclaredTest, EntryError, Instruments, OptionValue};
use jitlat_instruments::load::Load;
use jitlat_instruments::passive::{CaptureEnd, PeriodEvent};
use jitlat_instruments::serve::Serve;
use jitlat_instruments::{Annotations, Instrument, Stop};
use jitlat_proto::jitlat::PresharedKey;
use std::fmt;

/// Reason for the end of a capture, or the reason why it could not begin.
pub type CaptureResult = Result<CaptureEnd, (SlotFailure, String)>;

/// Creates the instruments, captures and server of a monitor. The command line implements it, so that the file
/// accepts the options of the commands.
pub trait Equipment: Instruments + fmt::Debug + Send + Sync {
    /// Creates a test that is ready to run.
    ///
    /// # Errors
    /// [`EntryError`] with the wrong option.
    fn test(&self, asked: &DeclaredTest<'_>, site: &TestSite<'_>) -> Result<Box<dyn Instrument>, EntryError>;

    /// Creates the load `text` of a test with that site. Without an own version there are no tests under load.
    ///
    /// # Errors
    /// [`EntryError`] if the load is not possible.
    fn load(&self, text: &str, site: &TestSite<'_>) -> Result<Load, EntryError> {
        let message = format!("this program cannot send the load {text} to {}", site.address);
        Err(EntryError { key: None, message })
    }

    /// Captures until `stop` is requested; `key` is the key with which this host authenticates to other hosts.
    ///
    /// # Errors
    /// The reason why the capture could not begin.
    fn follow(
        &self,
        setup: &CaptureSetup,
        key: Option<&PresharedKey>,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> CaptureResult;

    /// Returns the settings of the server with these options and the keys of the hosts.
    ///
    /// # Errors
    /// Description of the wrong option.
    fn server(&self, options: &[(String, OptionValue)], keys: ServerKeys) -> Result<Serve, AnyError>;
}

/// Hosts of a test, and annotations of its result.
pub struct TestSite<'a> {
    /// Address of the far end.
    pub address: &'a str,
    /// Key with which this host authenticates to the far end; `None`: no key.
    pub key: Option<&'a PresharedKey>,
    /// Options of the far host's server that its clients need.
    pub of_server: Vec<(String, OptionValue)>,
    /// True if this host is the first of the pair, so that `forward` is the direction in which it sends.
    pub is_first: bool,
    /// True if a viewer shows progress while the test runs.
    pub is_watched: bool,
    /// Name of the result; `None`: the name in the options.
    pub name: Option<String>,
    /// Tags of the result.
    pub tags: Vec<(String, String)>,
}

impl TestSite<'_> {
    /// Adds name and tags to those in the options.
    pub fn annotate(&self, annotations: &mut Annotations) {
        annotations.name = self.name.clone().or_else(|| annotations.name.take());
        annotations.tags.extend(self.tags.iter().cloned());
    }
}

/// Keys and interfaces of a server that come from other sections of the file.
#[derive(Debug, Default)]
pub struct ServerKeys {
    /// Interfaces of this host that captures of other hosts use.
    pub interfaces: Vec<String>,
    /// Name and key of each other host; true if its captures use this host's interfaces.
    pub hosts: Vec<(String, PresharedKey, bool)>,
    /// Common key of all hosts; `None` if each host has its own key, or no host has a key.
    pub common: Option<PresharedKey>,
}
