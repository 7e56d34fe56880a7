//! Stand-ins for modules that this build leaves out. Their commands and options exist, but return an error that explains how to get
//! them.
//!
//! Each stand-in has the public items of its module, so that callers do not depend on the build.

// The stand-in of an enabled feature is unused.
#![allow(dead_code)]

pub mod archive;
pub mod browser;
pub mod live;
pub mod manual;
pub mod monitor;
pub mod programs;
pub mod rpm;
pub mod spp;
pub mod states;

use crate::exit::ExitStatus;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

/// Stand-ins for modules that contain one command: name of the module, its arguments, command, feature.
macro_rules! commands {
    ($($module:ident, $args:ident, $command:literal, $feature:literal;)*) => {$(
        pub mod $module {
            use super::*;

            pub type $args = AnyArgs;

            pub fn run(_: &$args) -> Result<ExitStatus> {
                Err(missing($command, $feature))
            }
        }
    )*};
}

commands! {
    rtp, RtpArgs, "jitlat rtp", "captures";
    sweep, SweepArgs, "jitlat sweep", "sweep";
    tcp, TcpArgs, "jitlat tcp", "captures";
    watch, WatchArgs, "jitlat watch", "monitor";
    web, WebArgs, "jitlat web", "web";
}

/// Not in this build
#[derive(Clone, Debug, Args)]
#[command(hide = true, disable_help_flag = true)]
pub struct AnyArgs {
    /// Ignored arguments: the error is the same for all.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

impl AnyArgs {
    /// Does nothing, because there are no options to resolve.
    pub fn complete(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the error of a command or an option that needs a feature of the build.
pub fn missing(what: &str, feature: &'static str) -> anyhow::Error {
    jitlat_output::Error::NotInBuild { what: what.to_owned(), feature }.into()
}
