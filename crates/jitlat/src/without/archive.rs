//! In place of `archive`.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use jitlat_store::log::LogReader;
use std::io::Read;
use std::path::Path;

const FEATURE: &str = "archive";

pub type ArchiveArgs = AnyArgs;

impl AnyArgs {
    /// Nothing to complete.
    pub fn complete(&mut self) -> Result<()> {
        Ok(())
    }
}

pub fn run(_: &ArchiveArgs) -> Result<ExitStatus> {
    Err(missing("jitlat archive", FEATURE))
}

/// Refuses an archive.
pub fn check(archive: Option<&Path>, _: bool) -> Result<()> {
    archive.map_or(Ok(()), |_| Err(missing("--archive", FEATURE)))
}

/// Whether there is nothing to add: [`check`] has refused everything else.
pub fn add_logs<'a>(archive: Option<&Path>, _: impl Iterator<Item = &'a Path>) -> bool {
    archive.is_none()
}

/// Refuses a test of an archive; `None` if `path` is not one.
pub fn log_reader(path: &Path) -> Result<Option<LogReader>> {
    refuse_archived(path).map(|()| None)
}

/// Refuses a test of an archive; `None` if `path` is not one.
pub fn log_text(path: &Path) -> Result<Option<Box<dyn Read + Send>>> {
    refuse_archived(path).map(|()| None)
}

fn refuse_archived(path: &Path) -> Result<()> {
    let is_archived =
        !path.exists() && path.parent().is_some_and(|dir| dir.join("catalogue.sqlite").exists());
    if is_archived { Err(missing("a test of an archive, as DIR/ID,", FEATURE)) } else { Ok(()) }
}

pub mod dataset {
    use super::{ExitStatus, FEATURE, Path, Result, missing};
    use crate::options::live::LiveArgs;
    use crate::options::report::ReportArgs;
    use clap::Args;
    use std::path::PathBuf;

    #[derive(Clone, Debug, Args)]
    pub struct DatasetArgs {
        #[arg(long, hide = true, value_name = "DIR")]
        pub dataset: Option<PathBuf>,
    }

    pub fn run(_: &Path, _: &DatasetArgs, _: &ReportArgs, _: LiveArgs) -> Result<ExitStatus> {
        Err(missing("--dataset", FEATURE))
    }
}
