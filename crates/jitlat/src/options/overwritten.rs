//! Outputs that would replace another file of the same command.

use super::outputs::{AS, OutputPath};
use anyhow::{Result, bail};
use clap::ArgMatches;
use jitlat_net::capture::in_folders;
use jitlat_output::{Destination, OUTPUTS, OwnOption, STDOUT, with_ending};
use jitlat_store::split_at_equals;
use std::fs;
use std::path::{Path, PathBuf};

/// Ids of options, other than those of [`OUTPUTS`], that replace an existing file. Logs are not among them, because they
/// never replace a file.
const REPLACING: [(&str, &str); 3] =
    [("sizes_csv", "--sizes-csv"), ("state", "--state"), ("write_plan", "--write-plan")];

/// A file that a command writes.
struct Written {
    /// Id of the option, and the option as it is typed.
    id: &'static str,
    option: String,
    path: PathBuf,
    /// True if each stream has a file of its own.
    each: bool,
}

/// Rejects outputs that would replace another file of the command, which is named by an argument in `given`. All arguments
/// that are paths are covered, so that a new option needs no check of its own.
pub fn check(given: &ArgMatches) -> Result<()> {
    if let Some((_, inner)) = given.subcommand() {
        return check(inner);
    }
    let outputs = outputs(given);
    for written in outputs.iter().filter(|written| written.path.as_os_str() != STDOUT) {
        let others: Vec<&PathBuf> = given
            .ids()
            .map(clap::Id::as_str)
            // The command itself compares its formats with each other.
            .filter(|id| *id != written.id && !formats().any(|(own, _)| own == *id))
            .flat_map(|id| paths(given, id))
            .collect();
        if written.replaces(&others) {
            bail!(
                "{}: {} is also another file of this command, and would be replaced: choose another name",
                written.option,
                written.path.display()
            );
        }
    }
    Ok(())
}

/// Returns the values of the argument `id`; none if it does not take paths.
fn paths<'a>(given: &'a ArgMatches, id: &str) -> impl Iterator<Item = &'a PathBuf> + use<'a> {
    given.try_get_many::<PathBuf>(id).ok().flatten().into_iter().flatten()
}

/// Returns the ids of the options of [`OUTPUTS`], each with its format's destination.
fn formats() -> impl Iterator<Item = (&'static str, Destination)> {
    OUTPUTS.iter().filter_map(|output| match output.option {
        OwnOption::Shown => Some((output.name, output.place)),
        OwnOption::Former(name) => Some((name, output.place)),
        OwnOption::None => None,
    })
}

/// Returns the files that the command writes.
fn outputs(given: &ArgMatches) -> Vec<Written> {
    let own = formats().filter(|(_, place)| *place != Destination::Folder).flat_map(|(id, place)| {
        let each = place == Destination::FileEach;
        paths(given, id).map(move |path| Written { id, option: format!("--{id}"), path: path.clone(), each })
    });
    let named = given.try_get_many::<OutputPath>(AS).ok().flatten().into_iter().flatten();
    let named =
        named.filter(|(output, _)| output.place != Destination::Folder).map(|(output, path)| Written {
            id: AS,
            option: output.spelling(),
            path: path.clone(),
            each: output.place == Destination::FileEach,
        });
    let replacing = REPLACING.into_iter().flat_map(|(id, option)| {
        // Without parts, this is the state of an analysis, which may replace a file that was read.
        let kept = id != "state" || given.ids().any(|id| id == "keep");
        let path = kept.then(|| paths(given, id)).into_iter().flatten();
        path.map(move |path| Written { id, option: option.to_owned(), path: path.clone(), each: false })
    });
    own.chain(named).chain(replacing).collect()
}

impl Written {
    /// True if one of `others`, or a capture in a folder of them, would be replaced.
    fn replaces(&self, others: &[&PathBuf]) -> bool {
        let own = match self.each && others.len() > 1 {
            true => vec![self.path.clone(), with_ending(&self.path, "up"), with_ending(&self.path, "down")],
            false => vec![self.path.clone()],
        };
        // A device or a pipe is not replaced.
        let own: Vec<PathBuf> = own
            .iter()
            .filter(|path| fs::metadata(path).map_or(true, |m| m.is_file()))
            .map(|path| resolved(path))
            .collect();
        others.iter().any(|other| {
            if other.is_dir() {
                let folder = resolved(other);
                let within = own.iter().any(|path| path.parent() == Some(&folder) && path.exists());
                // Only the captures in a folder are read.
                return within
                    && in_folders(&[folder]).is_ok_and(|read| read.iter().any(|file| own.contains(file)));
            }
            own.contains(&resolved(other))
                || labelled(other).is_some_and(|path| own.contains(&resolved(path)))
        })
    }
}

/// Returns the file of `LABEL=FILE`.
fn labelled(text: &Path) -> Option<&Path> {
    split_at_equals(text.as_os_str()).map(|(_, file)| Path::new(file))
}

/// Returns `path` without links and relative parts, also if its file does not exist.
fn resolved(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::command;

    /// Checks the command `line`, in which `@` is the folder `folder`.
    fn checked(line: &str, folder: &Path) -> Result<()> {
        let line = format!("jitlat {line}").replace('@', folder.to_str().unwrap());
        check(&command().try_get_matches_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}")))
    }

    #[test]
    fn no_output_replaces_another_file_of_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let call = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rtp/call.pcap");
        fs::copy(call, root.join("x")).unwrap();
        fs::write(root.join("y"), "y").unwrap();
        std::os::unix::fs::symlink(root.join("x"), root.join("link")).unwrap();
        for line in [
            "-f @/x --json @/x",
            "analyze @/y @/x --as json=@/x",
            "rtp @/x --csv @/x",
            "rtp @/x --json @/link",
            "rtp @ --json @/x",
            "tcp @/x --json @/./x",
            "tcp @/x --keep 1/2 --state @/x",
            "tcp --join @/x --json @/x",
            "spp -f @/x -F @/y --json @/y",
            "spp -f @/x -F @/y --sizes-csv @/x",
            "spp -f @/x -F @/y --write-plan @/x",
            "spp --one-point @/x --json @/x",
            "compare @/x @/y --json @/y",
            "compare a=@/x b=@/y --json @/x",
            "compare @/new @/y --json @/new",
            "sweep --resume @/x --json @/x",
            "10.0.0.1 --key-file @/x --json @/x",
        ] {
            let refused = checked(line, root).map_err(|e| e.to_string());
            let is_named =
                refused.as_ref().is_err_and(|e| e.contains("is also another file of this command"));
            assert!(is_named, "{line}: {refused:?}");
        }
        for line in [
            "-f @/x --json @/new",
            "-f @/x --json /dev/null",
            "-f - --json -",
            "analyze @/x --state @/x",
            "rtp @ --json @/y",
            "rtp @/x --csv @/x.csv",
            "spp -f @/x -F @/x --json @/y",
        ] {
            assert!(checked(line, root).is_ok(), "{line}");
        }
    }
}
