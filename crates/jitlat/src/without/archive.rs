//! Stand-in for `archive` in builds without it.

use super::{AnyArgs, missing};
use crate::exit::ExitStatus;
use anyhow::Result;
use std::path::Path;

const FEATURE: &str = "archive";

pub type ArchiveArgs = AnyArgs;

pub fn run(_: &ArchiveArgs) -> Result<ExitStatus> {
    Err(missing("jitlat archive", FEATURE))
}

/// Refuses an archive.
pub fn check(archive: Option<&Path>, _: bool) -> Result<()> {
    archive.map_or(Ok(()), |_| Err(missing("--archive", FEATURE)))
}

/// Returns true if no archive is requested; a requested one has already been refused by [`check`].
pub fn add_logs<'a>(archive: Option<&Path>, _: impl Iterator<Item = &'a Path>) -> bool {
    archive.is_none()
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
