//! `jitlat archive publish DIR LAKE`: the archive as Parquet tables for other programs.

use super::WhereArgs;
use crate::exit::ExitStatus;
use crate::interrupt;
use anyhow::{Context, Result, bail};
use clap::Args;
use jitlat_archive::{Archive, LakeFolder, PublishedLake};
use jitlat_output::terminal::work::Work;
use std::path::{Path, PathBuf};
use tracing::error;

#[derive(Clone, Debug, Args)]
pub(super) struct PublishArgs {
    #[command(flatten)]
    place: WhereArgs,
    /// Folder of the lake; created if missing. Several archives may share it
    #[arg(value_name = "LAKE")]
    lake: PathBuf,
    /// Name of this archive in the lake (default: that of its folder)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Remove everything published from this archive, and publish it again
    #[arg(long)]
    again: bool,
}

/// Publishes the tests that were added since the last time.
pub(super) fn run(args: &PublishArgs) -> Result<ExitStatus> {
    let stop = interrupt::stop()?;
    let archive = Archive::open(&args.place.archive)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => folder_name(&args.place.archive)?,
    };
    if is_within(&args.lake, &args.place.archive) {
        bail!(
            "{} is in the archive {}: give a folder outside of it for the lake",
            args.lake.display(),
            args.place.archive.display()
        );
    }
    let mut lake = LakeFolder::make(&args.lake)
        .with_context(|| format!("creating the folder {}", args.lake.display()))?;
    let work = Work::of("publishing tests");
    let done = archive.publish(&mut lake, &name, args.again, |done, all| {
        work.describe(&format!("publishing tests: {done} of {all}"));
        !stop.is_requested()
    })?;
    work.print(&text(&done))?;
    for (id, e) in &done.unreadable {
        work.without(|| error!("{id}: its packets are not published: {e}"));
    }
    if !done.unreadable.is_empty() {
        work.without(|| error!("once these packets are readable, `archive publish --again` publishes everything again, with them"));
    }
    drop(work);
    if stop.is_requested() {
        bail!("interrupted: the next `archive publish` continues with the remaining tests");
    }
    Ok(if done.unreadable.is_empty() { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Name of the folder of an archive, which may be given as `.`.
fn folder_name(archive: &Path) -> Result<String> {
    let whole = archive.canonicalize().with_context(|| format!("reading {}", archive.display()))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    Ok(name.context("the folder of the archive has no name: give --name")?.to_owned())
}

/// True if `folder`, which need not exist, is `other` or in it.
fn is_within(folder: &Path, other: &Path) -> bool {
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    let existing = folder.ancestors().find_map(|path| here(path).canonicalize().ok());
    existing.zip(other.canonicalize().ok()).is_some_and(|(folder, other)| folder.starts_with(other))
}

fn text(done: &PublishedLake) -> String {
    let counted = |n: u64, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let mut text = match done.tests {
        0 => "nothing new to publish\n".to_owned(),
        tests => format!(
            "{} published ({} with packets): {}, {:.1} MB\n",
            counted(tests, "test"),
            done.packets_of,
            counted(done.files, "file"),
            done.bytes as f64 / 1e6
        ),
    };
    if done.removed > 0 {
        text += &format!("{} of an interrupted publication removed\n", counted(done.removed, "file"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lake_is_not_in_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("net");
        std::fs::create_dir(&archive).unwrap();
        for inside in
            [archive.clone(), archive.join("lake"), archive.join("a/b"), folder.path().join("net/../net/c")]
        {
            assert!(is_within(&inside, &archive), "{}", inside.display());
        }
        for outside in [folder.path().to_owned(), folder.path().join("net2"), folder.path().join("lake/x")] {
            assert!(!is_within(&outside, &archive), "{}", outside.display());
        }
    }
}
