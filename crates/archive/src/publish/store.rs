//! [`LakeStore`]: storage of a lake. [`LakeFolder`] is a folder; other stores are implemented by their users.

use crate::modes;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Files of a lake, by names like `packets/archive=net/day=2026-11-23/0000000001-0000000090.parquet`. A file appears
/// whole or not at all.
pub trait LakeStore {
    /// Locks `name`, so that no other program publishes as `name` until this value is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another program is publishing as `name`.
    fn lock(&mut self, name: &str) -> io::Result<()>;

    /// Returns a folder on this host for files that are being written.
    ///
    /// # Errors
    /// The folder cannot be created.
    fn staging(&mut self) -> io::Result<StagingFolder>;

    /// Returns the content of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Returns the names of all files in `folder` and its folders; none if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&mut self, folder: &str) -> io::Result<Vec<String>>;

    /// Stores the file at `from` as `name`.
    ///
    /// # Errors
    /// It cannot be stored.
    fn put(&mut self, from: &Path, name: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A folder for files that are being written, which is removed when this value is dropped.
#[derive(Debug)]
pub struct StagingFolder(tempfile::TempDir);

impl StagingFolder {
    /// Creates a folder among the temporary files of this host.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn temporary() -> io::Result<StagingFolder> {
        tempfile::tempdir().map(StagingFolder)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A lake in a folder of this host.
#[derive(Debug)]
pub struct LakeFolder {
    root: PathBuf,
    /// Name that is locked, and the locked file.
    lock: Option<(String, File)>,
}

impl LakeFolder {
    /// Creates the folder `root` if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn make(root: &Path) -> io::Result<LakeFolder> {
        modes::make_folder(root)?;
        Ok(LakeFolder { root: root.to_owned(), lock: None })
    }
}

impl LakeStore for LakeFolder {
    fn lock(&mut self, name: &str) -> io::Result<()> {
        let folder = self.root.join("manifests");
        modes::make_folder(&folder)?;
        let lock = modes::new_file().truncate(false).open(folder.join(format!("{name}.lock")))?;
        lock.try_lock()?;
        self.lock = Some((name.to_owned(), lock));
        Ok(())
    }

    fn staging(&mut self) -> io::Result<StagingFolder> {
        let name = self.lock.as_ref().map_or("", |(name, _)| name.as_str());
        // No name of an archive contains '@', and readers of Hive layouts skip names that begin with a dot.
        let prefix = format!(".publishing@{name}@");
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // Left over from a program that was killed.
                fs::remove_dir_all(entry.path())?;
            }
        }
        // The folder is on the same file system as the lake, so that files can be renamed.
        tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.root).map(StagingFolder)
    }

    fn read(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.root.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
        let (mut folders, mut names) = (vec![folder.to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.root.join(&folder)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if entry.file_type()?.is_dir() { folders.push(name) } else { names.push(name) }
            }
        }
        names.sort();
        Ok(names)
    }

    fn put(&mut self, from: &Path, name: &str) -> io::Result<()> {
        let to = self.root.join(name);
        let folder = to.parent().unwrap_or(&self.root);
        modes::make_folder(folder)?;
        // Sync the file before it is renamed: after a power failure, the name must not refer to an incomplete file.
        File::open(from)?.sync_all()?;
        fs::rename(from, &to)?;
        File::open(folder)?.sync_all()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }
}
