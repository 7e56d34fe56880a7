//! Differences between operating systems: kinds of files, and permissions.

use std::ffi::OsStr;
use std::fs::{File, FileType, Permissions};
use std::path::Path;

/// True if a file of this type (character device, pipe, socket) is written to directly instead of being replaced.
#[cfg(unix)]
pub fn is_stream(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_char_device() || kind.is_fifo() || kind.is_socket()
}

/// True if a file of this type (character device, pipe, socket) is written to directly instead of being replaced.
#[cfg(not(unix))]
pub fn is_stream(kind: FileType) -> bool {
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

/// Returns standard output as a file.
#[cfg(unix)]
pub fn stdout() -> std::io::Result<File> {
    use std::os::fd::AsFd;
    Ok(std::io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Returns standard output as a file.
#[cfg(windows)]
pub fn stdout() -> std::io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(std::io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Returns an error: this system cannot open standard output as a file.
#[cfg(not(any(unix, windows)))]
pub fn stdout() -> std::io::Result<File> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns the permissions of a new file: rw-rw-rw- minus the umask. `None` if a new file already has them.
#[cfg(unix)]
pub fn of_a_new_file() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

/// Returns `None`, because a new file already has the right permissions.
#[cfg(not(unix))]
pub fn of_a_new_file() -> Option<Permissions> {
    None
}

/// True if `path` still refers to the open `file`; false if it was removed, moved, or replaced by another file. Also
/// true if the system cannot tell.
#[cfg(unix)]
pub fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        (Err(_), _) => true,
        (_, Err(_)) => false,
    }
}

/// True if there is a file at `path`. This system cannot tell whether it is the open `file`.
#[cfg(not(unix))]
pub fn is_named(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Splits `text` at its first `=`; `None` if it has none, or if the part before it is not text.
#[cfg(unix)]
pub fn split_at_equals(text: &OsStr) -> Option<(&str, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, OsStr::from_bytes(&bytes[at + 1..])))
}

/// Splits `text` at its first `=`; `None` if it has none, or if it is not text.
#[cfg(not(unix))]
pub fn split_at_equals(text: &OsStr) -> Option<(&str, &OsStr)> {
    let (name, rest) = text.to_str()?.split_once('=')?;
    Some((name, OsStr::new(rest)))
}
