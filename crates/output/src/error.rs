//! [`Error`]: reason why a report could not be created, read or written.

pub use jitlat_instruments::error::explain;

use std::error::Error as StdError;
use std::io;

/// Reason why a report could not be created, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The report lacks data that the format requires, or two requests exclude each other. The text contains the reason
    /// and advice.
    #[error("{0}")]
    Unfit(String),
    /// This build lacks a feature that the request needs.
    #[error(
        "{what} is not in this build, which lacks the feature '{feature}': use a released package, or build with \
         `cargo build --release --features {feature}`"
    )]
    NotInBuild {
        /// The option or format.
        what: String,
        /// Cargo feature that this build lacks.
        feature: &'static str,
    },
    /// An operation failed.
    #[error("{doing}")]
    During {
        /// The operation, or the option that requested it.
        doing: String,
        /// Reason why the operation failed.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] jitlat_store::output::OutputError),
    /// A log could not be read.
    #[error(transparent)]
    Log(#[from] jitlat_store::log::LogReadError),
    /// A log could not be created.
    #[error(transparent)]
    CreateLog(#[from] jitlat_store::log::CreateError),
    /// A log could not be written completely.
    #[error(transparent)]
    WriteLog(#[from] jitlat_store::log::WriteError),
    /// A sweep could not be read or joined with others.
    #[error(transparent)]
    Sweep(#[from] jitlat_store::sweep::SweepError),
    /// A value could not be converted to JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The file of `--ping` could not be read.
    #[error(transparent)]
    Pings(#[from] jitlat_store::passive::PingsError),
    /// The specification of a stream is invalid.
    #[error(transparent)]
    Spec(#[from] jitlat_core::spec::SpecError),
    /// The settings of a test are invalid.
    #[error(transparent)]
    Test(#[from] jitlat_instruments::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The archive could not be read.
    #[cfg(feature = "archive")]
    #[error(transparent)]
    Archive(#[from] jitlat_archive::ArchiveError),
}

/// Result with the [`Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the name of the failed operation to an error.
pub(crate) trait Context<T> {
    fn context(self, doing: impl Into<String>) -> Result<T>;

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, doing: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::During { doing: doing.into(), source: e.into() })
    }

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::During { doing: doing(), source: e.into() })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, doing: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| Error::Unfit(doing.into()))
    }

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| Error::Unfit(doing()))
    }
}

/// Returns [`Error::Unfit`] with a formatted text.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::error::Error::Unfit(format!($($text)*)))
    };
}
pub(crate) use bail;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let system = io::Error::other("disk full");
        let doing = |text: &str, source: Box<dyn StdError + Send + Sync>| Error::During {
            doing: text.into(),
            source,
        };
        let error = doing("--json", doing("cannot write x: disk full", system.into()).into());
        assert_eq!(explain(&error), "--json: cannot write x: disk full");
        assert_eq!(explain(&Error::Unfit("it holds one stream".into())), "it holds one stream");
    }
}
