//! `jitlat.Error`: what the command would say.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use std::error::Error as StdError;

create_exception!(
    jitlat,
    Error,
    PyException,
    "What could not be read, measured or analysed, in the words of the command."
);

/// An error and its causes in one line, without causes that the text already has.
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

/// An argument that is none.
pub fn invalid(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
