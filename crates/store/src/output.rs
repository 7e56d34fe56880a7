//! Result files, which are replaced completely or not at all.

use crate::platform;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Reason why a result file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", .path.display())]
pub struct OutputError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

/// Calls `fill` to write the file at `path`, or standard output for `-`.
///
/// A temporary file is renamed to `path` when it is complete. An existing file is only replaced at this point, and
/// stays unchanged after a failure or a crash. Devices and pipes are written to directly.
///
/// # Errors
/// [`OutputError`] with the first failure of `fill` or of the system.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
    let result = if path.as_os_str() == "-" {
        to_writer(io::stdout().lock(), fill).map(drop)
    } else if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        OpenOptions::new().write(true).open(path).and_then(|f| to_writer(f, fill)).map(drop)
    } else {
        replace(path, fill)
    };
    result.map_err(|source| OutputError { path: path.to_owned(), source })
}

/// Checks whether [`write()`] can write the file at `path`, without writing it.
///
/// # Errors
/// [`OutputError`] with the reason.
pub fn check(path: &Path) -> Result<(), OutputError> {
    let result = match fs::metadata(path) {
        Ok(m) if m.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // To check a pipe, one would have to open it, which waits for its reader.
        Ok(m) if !m.is_file() => Ok(()),
        _ => tempfile::Builder::new().prefix(".jitlat-").tempfile_in(folder_of(path)).map(drop),
    };
    result.map_err(|source| OutputError { path: path.to_owned(), source })
}

/// Checks whether files can be written to the folder at `path`; creates it if it is missing.
///
/// # Errors
/// [`OutputError`] with the reason.
pub fn check_folder(path: &Path) -> Result<(), OutputError> {
    let existing = path.ancestors().find(|a| a.exists()).unwrap_or(Path::new("."));
    let result = if existing.is_dir() {
        tempfile::Builder::new().prefix(".jitlat-").tempfile_in(existing).map(drop)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    };
    result.map_err(|source| OutputError { path: path.to_owned(), source })
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn to_writer<W: Write>(out: W, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<W> {
    let mut out = BufWriter::with_capacity(64 * 1024, out);
    fill(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // If `path` is a symbolic link, replace its target rather than the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = folder_of(&path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".jitlat-");
    let before = fs::metadata(&path).ok().map(|m| m.permissions());
    if let Some(permissions) = before.or_else(platform::of_a_new_file) {
        builder.permissions(permissions);
    }
    let file = builder.tempfile_in(directory)?;
    let file: tempfile::NamedTempFile<File> = to_writer(file, fill)?;
    file.persist(&path).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write(&path, |out| out.write_all(b"one")).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"two")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().contains("a.json"));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, |out| out.write_all(b"three")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no remains");
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        check(&file).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a check leaves nothing");
        fs::write(&file, b"x").unwrap();
        check(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"x");
        check(Path::new("/dev/full")).unwrap();
        check_folder(&dir.path().join("new/deep")).unwrap();
        for bad in [dir.path(), &file.join("b"), Path::new("/nonexistent/x")] {
            assert!(check(bad).is_err(), "{}", bad.display());
        }
        assert!(check_folder(&file).is_err() && check_folder(&file.join("b")).is_err());
    }

    #[test]
    fn devices_are_written_to_and_directories_refused() {
        write(Path::new("/dev/null"), |out| out.write_all(b"x")).unwrap();
        assert!(write(Path::new("/dev/full"), |out| out.write_all(b"x")).is_err());
        assert!(write(Path::new("/tmp"), |out| out.write_all(b"x")).is_err());
        assert!(write(Path::new("/nonexistent/x"), |out| out.write_all(b"x")).is_err());
    }
}
