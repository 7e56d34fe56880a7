//! Stand-ins for modules that this build leaves out: their commands and options exist here, and explain how to get
//! them.
//!
//! Each has the public items of its module, so that callers need not distinguish them.

// A feature that is enabled leaves its stand-in unused.
#![allow(dead_code)]

pub mod archive;
pub mod live;
pub mod monitor;
pub mod web;

use clap::Args;
use std::ffi::OsString;

/// Not in this build
#[derive(Clone, Debug, Args)]
#[command(hide = true, disable_help_flag = true)]
pub struct AnyArgs {
    /// Any arguments: the answer is the same.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Returns the error of a command or an option that needs a feature of the build.
pub fn missing(what: &str, feature: &'static str) -> anyhow::Error {
    jitlat_output::Error::NotInBuild { what: what.to_owned(), feature }.into()
}
