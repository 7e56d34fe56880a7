//! Reads files that contain keys, users or tokens. Other users of the host must not be able to read these files.

use crate::{confine, sys};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

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
    /// The file was replaced by another file, which a confined server cannot open.
    #[error(
        "the key file {name} was replaced by another file: write the key into the same file (`cat new > {name}`), or restart the server"
    )]
    Replaced {
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
    HeldKeyFile::open(path)?.read()
}

/// A key file that stays open, so that a server can read it again after it has given up the permission to open files.
#[derive(Debug)]
pub struct HeldKeyFile {
    path: PathBuf,
    file: File,
}

impl HeldKeyFile {
    /// Opens the file.
    ///
    /// # Errors
    /// [`KeyFileError::Read`].
    pub fn open(path: &Path) -> Result<HeldKeyFile, KeyFileError> {
        let file = File::open(path)
            .map_err(|source| KeyFileError::Read { name: path.display().to_string(), source })?;
        Ok(HeldKeyFile { path: path.to_owned(), file })
    }

    /// Returns the path by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file from its beginning.
    ///
    /// # Errors
    /// Those of [`read`], and [`KeyFileError::Replaced`] if another file has taken its path.
    pub fn read(&self) -> Result<Vec<u8>, KeyFileError> {
        let name = || self.path.display().to_string();
        let doing = |source| KeyFileError::Read { name: name(), source };
        let about = self.file.metadata().map_err(doing)?;
        if sys::is_removed(&about) {
            return Err(KeyFileError::Replaced { name: name() });
        }
        let mode = sys::mode_of(&about).unwrap_or(0);
        // The service manager protects its credentials, so their permissions are not checked.
        let credential =
            std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| self.path.starts_with(folder));
        if about.is_file() && !credential && mode & 0o077 != 0 {
            return Err(KeyFileError::Open { name: name(), mode });
        }
        let mut contents = Vec::new();
        // A pipe can be read only once.
        let mut file = &self.file;
        if about.is_file() {
            file.seek(SeekFrom::Start(0)).map_err(doing)?;
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

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
        // An open file is read again, unless another file has taken its path.
        read_with(b"old\n", 0o600).unwrap();
        let held = HeldKeyFile::open(&path).unwrap();
        assert_eq!(held.read().unwrap(), b"old\n");
        std::fs::write(&path, b"new\n").unwrap();
        assert_eq!(held.read().unwrap(), b"new\n");
        std::fs::rename(&path, folder.path().join("kept")).unwrap();
        assert_eq!(held.read().unwrap(), b"new\n");
        std::fs::remove_file(folder.path().join("kept")).unwrap();
        assert!(matches!(held.read(), Err(KeyFileError::Replaced { .. })));
    }
}
