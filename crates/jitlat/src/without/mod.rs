//! Stand-ins for modules that this build leaves out: their commands and options are known here, and say how to get them.
//!
//! Each has the public items of the module that it stands for, so that no caller asks which of the two it has.

// A feature that is there leaves its stand-in unused.
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
    /// Anything: the answer is the same.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// The error of a command or an option that needs a feature of the build.
pub fn missing(what: &str, feature: &'static str) -> anyhow::Error {
    jitlat_output::Error::NotInBuild { what: what.to_owned(), feature }.into()
}
