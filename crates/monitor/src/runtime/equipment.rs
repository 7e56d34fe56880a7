//! [`Equipment`]: what a monitor measures, captures and serves with, made from options of its file.

use super::{CaptureSetup, Measuring};
use crate::agenda::Failure;
use crate::file::{Asked, Instruments, Value};
use anyhow::Result;
use jitlat_instruments::Stop;
use jitlat_instruments::passive::{CaptureEnd, PeriodEvent};
use jitlat_instruments::serve::Serve;
use jitlat_proto::jitlat::Key;
use std::fmt;
use std::path::{Path, PathBuf};

/// The logs of a test, or why there is none.
pub type Logs = Result<Vec<PathBuf>, (Failure, String)>;

/// How a capture ended, or why it could not begin.
pub type Captured = Result<CaptureEnd, (Failure, String)>;

/// What a monitor measures, captures and serves with. The command provides it with the options of its command line, so that a file and
/// the command line have the same.
pub trait Equipment: Instruments + fmt::Debug + Send + Sync {
    /// Makes a test, and leaves its logs in `folder`; no logs if nothing was answered.
    ///
    /// # Errors
    /// Why nothing was measured.
    fn measure(&self, asked: &Asked<'_>, with: &mut Measuring<'_>, folder: &Path) -> Logs;

    /// Captures until `stop`; `key` is what this host proves at others.
    ///
    /// # Errors
    /// Why it could not begin.
    fn follow(
        &self,
        setup: &CaptureSetup,
        key: Option<&Key>,
        stop: &Stop,
        each: &mut dyn FnMut(PeriodEvent<'_>),
    ) -> Captured;

    /// Settings of the server with these options, which the keys of the hosts open.
    ///
    /// # Errors
    /// What is wrong with the options.
    fn server(&self, options: &[(String, Value)], keys: ServerKeys) -> Result<Serve>;
}

/// Keys and interfaces of a server that come from elsewhere in the file.
#[derive(Debug, Default)]
pub struct ServerKeys {
    /// Interfaces that captures of other hosts look at here.
    pub interfaces: Vec<String>,
    /// Name and key of each other host; true: its captures look at this host's interfaces.
    pub hosts: Vec<(String, Key, bool)>,
    /// The key of all hosts; `None` if each has its own, or none has one.
    pub common: Option<Key>,
}
