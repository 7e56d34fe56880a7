//! [`MonitorError`]: reason why a monitor cannot start, or cannot apply its file.

pub(super) use jitlat_instruments::error::explain;

use std::error::Error as StdError;
use std::io;

/// Error of an [`Equipment`](super::Equipment) or of another library.
pub type AnyError = Box<dyn StdError + Send + Sync>;

/// Reason why a monitor cannot start, or cannot apply its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// This host cannot carry out the file or the settings. The text contains the reason and a correction.
    #[error("{0}")]
    Settings(String),
    /// An operation failed, or a section of the file could not be applied.
    #[error("{doing}")]
    During {
        /// The operation, or the section.
        doing: String,
        /// The reason.
        source: AnyError,
    },
    /// The server that the file configures cannot be created.
    #[error(transparent)]
    Server(AnyError),
    /// The archive cannot be read or written.
    #[error(transparent)]
    Archive(#[from] jitlat_archive::ArchiveError),
    /// A file with a key cannot be used.
    #[error(transparent)]
    KeyFile(#[from] jitlat_net::key_file::KeyFileError),
    /// A file does not contain a suitable token.
    #[error(transparent)]
    Token(#[from] jitlat_web::UnfitToken),
    /// The log of a capture's period cannot be read.
    #[error(transparent)]
    ReadLog(#[from] jitlat_store::log::LogReadError),
    /// The log of a capture's period cannot be created.
    #[error(transparent)]
    CreateLog(#[from] jitlat_store::log::CreateError),
    /// The log of a capture's period cannot be written.
    #[error(transparent)]
    WriteLog(#[from] jitlat_store::log::WriteError),
    /// The system refused an operation.
    #[error(transparent)]
    System(#[from] io::Error),
}

pub(super) type Result<T, E = MonitorError> = std::result::Result<T, E>;

/// Adds the name of the failed operation to an error.
pub(super) trait Context<T> {
    fn context(self, doing: &str) -> Result<T>;

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<AnyError>> Context<T> for Result<T, E> {
    fn context(self, doing: &str) -> Result<T> {
        self.with_context(|| doing.to_owned())
    }

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| MonitorError::During { doing: doing(), source: e.into() })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, doing: &str) -> Result<T> {
        self.with_context(|| doing.to_owned())
    }

    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| MonitorError::Settings(doing()))
    }
}

/// Returns [`MonitorError::Settings`] with a formatted text.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::runtime::error::MonitorError::Settings(format!($($text)*)))
    };
}
pub(super) use bail;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_all_causes() {
        let error = Err::<(), _>(io::Error::other("no room")).context("starting the page").context("[web]");
        assert_eq!(explain(&error.unwrap_err()), "[web]: starting the page: no room");
    }
}
