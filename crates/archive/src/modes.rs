//! Permissions of the files and folders of an archive: its user may write, its group may read, others may do neither.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a folder, and the folders above it that do not exist, with mode 0750.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(path)
}

/// Returns the options that create a file with mode 0640 for writing.
pub(crate) fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o640);
    options
}
