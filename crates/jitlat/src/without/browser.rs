//! Stand-in for `browser` in builds without it.

use super::missing;
use anyhow::Result;
use clap::Args;
use jitlat_instruments::serve::Reflector;
use std::path::Path;

#[derive(Clone, Debug, Args)]
pub struct BrowserArgs {
    #[arg(long, hide = true)]
    pub web: bool,
}

impl BrowserArgs {
    pub fn is_wanted(&self) -> bool {
        self.web
    }

    pub fn is_secure(&self) -> bool {
        false
    }

    pub fn archive(&self) -> Option<&Path> {
        None
    }

    pub fn check_archive(&self) -> Result<()> {
        Ok(())
    }

    /// Refuses the page.
    pub fn reflector(&self) -> Result<Option<Box<dyn Reflector>>> {
        if self.web { Err(missing("--web", "browser")) } else { Ok(None) }
    }
}
