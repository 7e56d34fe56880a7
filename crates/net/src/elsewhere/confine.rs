//! Confinement of a process, which exists only on Linux.

pub use crate::settings::{CallSet, Confinement};

use crate::elsewhere::refusal;
use std::convert::Infallible;
use std::fmt;
use std::io;

/// Files and folders of the system that a confined process may read.
pub const READABLE: &[&str] = &[];

/// Returns false: no process is confined on this system.
pub fn is_confined() -> bool {
    false
}

/// Returns false: this program does not turn off core dumps on this system.
pub fn forbid_core_dumps() -> bool {
    false
}

/// Reason why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// This system cannot do it.
    #[error("{0}; --no-sandbox starts without it")]
    System(io::Error),
}

/// A process that is about to be confined, of which there is none on this system.
#[derive(Debug)]
pub struct Confining(Infallible);

/// A confined process, of which there is none on this system.
#[derive(Debug)]
pub struct Confined(Infallible);

impl Confinement {
    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn begin(&self) -> Result<Confining, ConfineError> {
        Err(ConfineError::System(refusal("confining the process")))
    }
}

impl Confining {
    /// Completes the confinement.
    pub fn complete(self) -> Result<Confined, ConfineError> {
        match self.0 {}
    }
}

impl Confined {
    /// Returns the protections that the system lacks.
    pub fn missing(&self) -> Vec<&'static str> {
        match self.0 {}
    }

    /// Returns the lines that report the confinement.
    pub fn lines(&self, _name: &str) -> String {
        match self.0 {}
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
