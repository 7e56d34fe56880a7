//! What differs between operating systems: kinds of files, and permissions.

use std::fs::{FileType, Permissions};

/// Whether something of this kind is written to as it is (a device of characters, a pipe, a socket), never replaced.
#[cfg(unix)]
pub fn is_stream(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_char_device() || kind.is_fifo() || kind.is_socket()
}

/// Whether something of this kind is written to as it is, never replaced.
#[cfg(not(unix))]
pub fn is_stream(kind: FileType) -> bool {
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

/// The permissions of a new result, like those of any other file that its user makes: what the umask leaves of
/// rw-rw-rw-. None where a new file has the right ones by itself.
#[cfg(unix)]
pub fn of_a_new_file() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

/// None: a new file has the right permissions by itself.
#[cfg(not(unix))]
pub fn of_a_new_file() -> Option<Permissions> {
    None
}
