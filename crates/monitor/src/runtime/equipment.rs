//! [`Equipment`]: what a monitor measures, captures and serves with, made from options of its file.

use super::CaptureSetup;
use super::error::AnyError;
use crate::agenda::SlotFailure;
use crate::file::{DeclaredTest, EntryError, Instruments, OptionValue};
use jitlat_instruments::passive::{CaptureEnd, PeriodEvent};
use jitlat_instruments::serve::Serve;
use jitlat_instruments::{Annotations, Instrument, Stop};
use jitlat_proto::jitlat::PresharedKey;
use std::fmt;

/// How a capture ended, or why it could not begin.
pub type CaptureResult = Result<CaptureEnd, (SlotFailure, String)>;

/// What a monitor measures, captures and serves with. The command provides it with the options of its command line, so that a file and
/// the command line have the same.
pub trait Equipment: Instruments + fmt::Debug + Send + Sync {
    /// A test that is ready to run.
    ///
    /// # Errors
    /// [`EntryError`], with the option it is about.
    fn test(&self, asked: &DeclaredTest<'_>, site: &TestSite<'_>) -> Result<Box<dyn Instrument>, EntryError>;

    /// Captures until `stop`; `key` is what this host proves at others.
    ///
    /// # Errors
    /// Why it could not begin.
    fn follow(
        &self,
        setup: &CaptureSetup,
        key: Option<&PresharedKey>,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> CaptureResult;

    /// Settings of the server with these options, which the keys of the hosts open.
    ///
    /// # Errors
    /// What is wrong with the options.
    fn server(&self, options: &[(String, OptionValue)], keys: ServerKeys) -> Result<Serve, AnyError>;
}

/// Where a test is made, and what is stored with it.
pub struct TestSite<'a> {
    /// Address of the far end.
    pub address: &'a str,
    /// What this host proves there; `None`: nothing.
    pub key: Option<&'a PresharedKey>,
    /// Options of the far host's server that its clients need.
    pub of_server: Vec<(String, OptionValue)>,
    /// True if this host is the first of the pair, so that `forward` is what it sends.
    pub is_first: bool,
    /// True if somebody watches while it runs.
    pub is_watched: bool,
    /// Name of the result; `None`: that of the options.
    pub name: Option<String>,
    /// Tags of the result.
    pub tags: Vec<(String, String)>,
}

impl TestSite<'_> {
    /// Adds name and tags to those of the options.
    pub fn annotate(&self, annotations: &mut Annotations) {
        annotations.name = self.name.clone().or_else(|| annotations.name.take());
        annotations.tags.extend(self.tags.iter().cloned());
    }
}

/// Keys and interfaces of a server that come from elsewhere in the file.
#[derive(Debug, Default)]
pub struct ServerKeys {
    /// Interfaces that captures of other hosts look at here.
    pub interfaces: Vec<String>,
    /// Name and key of each other host; true: its captures look at this host's interfaces.
    pub hosts: Vec<(String, PresharedKey, bool)>,
    /// The key of all hosts; `None` if each has its own, or none has one.
    pub common: Option<PresharedKey>,
}
