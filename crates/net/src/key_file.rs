//! Reads files that contain keys, users or tokens. Other users of the host must not be able to read these files.

use crate::confine;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Maximum length of a key file, in bytes; far more than all users of a server need.
const MAX_BYTES: u64 = 1 << 20;

/// Reason why a key file cannot be used. Each message contains the file's name.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read the key file {name}")]
    Read {
        /// Name of the file.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The permissions of the file allow other users to read or change it.
    #[error("other users can read or change the key file {name} (mode {mode:03o}): run `chmod 600 {name}`")]
    Open {
        /// Name of the file.
        name: String,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file is longer than [`MAX_BYTES`].
    #[error("the key file {name} has more than {MAX_BYTES} bytes: is it the right file?")]
    TooLong {
        /// Name of the file.
        name: String,
    },
    /// The file contains only white space.
    #[error("the key file {name} is empty: create a key with `head -c 32 /dev/urandom | base64 > {name}`")]
    Empty {
        /// Name of the file.
        name: String,
    },
}

/// Reads a file with a key, users or a token, and turns core dumps of this process off.
///
/// # Errors
/// [`KeyFileError`], also if other users can read or change the file. Files from the service manager
/// (`CREDENTIALS_DIRECTORY`) are exempt.
pub fn read(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let name = || path.display().to_string();
    let doing = |source| KeyFileError::Read { name: name(), source };
    let file = File::open(path).map_err(doing)?;
    let about = file.metadata().map_err(doing)?;
    let mode = about.permissions().mode() & 0o777;
    // The service manager protects its credentials, so their permissions are not checked.
    let credential = std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| path.starts_with(folder));
    if about.is_file() && !credential && mode & 0o077 != 0 {
        return Err(KeyFileError::Open { name: name(), mode });
    }
    let mut contents = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut contents).map_err(doing)?;
    if contents.len() as u64 > MAX_BYTES {
        return Err(KeyFileError::TooLong { name: name() });
    }
    if contents.trim_ascii().is_empty() {
        return Err(KeyFileError::Empty { name: name() });
    }
    // From now on this process has a key.
    confine::forbid_core_dumps();
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_key_file_is_read_unless_others_can_read_it_or_it_has_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let read_with = |contents: &[u8], mode| {
            std::fs::write(&path, contents).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        assert_eq!(read_with(b"secret\n", 0o600).unwrap(), b"secret\n");
        assert!(matches!(read_with(b"secret\n", 0o640), Err(KeyFileError::Open { mode: 0o640, .. })));
        assert!(matches!(read_with(b" \n", 0o400), Err(KeyFileError::Empty { .. })));
        let long = vec![b'x'; MAX_BYTES as usize + 1];
        assert!(matches!(read_with(&long, 0o600), Err(KeyFileError::TooLong { .. })));
        assert!(matches!(read(&folder.path().join("none")), Err(KeyFileError::Read { .. })));
    }
}
