//! `jitlat.Error`, with the messages of the command.

use jitlat_archive::ArchiveError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use std::error::Error as StdError;

create_exception!(
    jitlat,
    Error,
    PyException,
    "Something could not be read, measured or analysed; the text is the command's message."
);

/// Makes `jitlat.Error` from an error and its causes, in one line, without causes that the text already contains.
pub fn failed(error: impl StdError) -> PyErr {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = e.source();
    }
    Error::new_err(text)
}

/// Like [`failed`], for a fault in a table that was passed to this module, not in a catalogue.
pub fn of_table(error: ArchiveError) -> PyErr {
    match error {
        ArchiveError::Impossible(problem) => {
            Error::new_err(format!("the table of packets cannot be used: {problem}"))
        }
        other => failed(other),
    }
}

/// Makes `ValueError` for an invalid argument.
pub fn invalid(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
