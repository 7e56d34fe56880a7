//! The options of the command line, in groups that commands share, and the settings they make. Nothing here depends on
//! a command.

pub mod analysis;
pub mod late;
pub mod live;
pub mod load;
pub mod one_way;
pub mod one_way_protocol;
pub mod pace;
pub mod ping;
pub mod priority;
pub mod profile;
pub mod protocol;
pub mod report;
pub mod shape;

use anyhow::{Context, Result, bail};
use jitlat_instruments::arguments::NamedFile;
use jitlat_net::client::Family;
use jitlat_proto::jitlat::Key;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Reads the key in a key file.
pub fn key(path: &Path) -> Result<Key> {
    let file = read_key_file(path)?;
    Key::from_file_contents(&file.contents).with_context(|| format!("the key file {}", file.name))
}

/// Longest key file, in bytes: more than all users of a server.
const LONGEST_KEY_FILE: u64 = 1 << 20;

/// Reads a file with a key or with users, which nobody else may be able to read.
pub fn read_key_file(path: &Path) -> Result<NamedFile> {
    let name = path.display().to_string();
    let doing = || format!("reading the key file {name}");
    let file = File::open(path).with_context(doing)?;
    let about = file.metadata().with_context(doing)?;
    let mode = about.permissions().mode() & 0o777;
    // The service manager hands over credentials that it protects by other means.
    let credential = std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| path.starts_with(folder));
    if about.is_file() && !credential && mode & 0o077 != 0 {
        bail!("others can read or change the key file {name} (mode {mode:03o}): run `chmod 600 {name}`");
    }
    let mut contents = Vec::new();
    file.take(LONGEST_KEY_FILE + 1).read_to_end(&mut contents).with_context(doing)?;
    if contents.len() as u64 > LONGEST_KEY_FILE {
        bail!("the key file {name} has more than {LONGEST_KEY_FILE} bytes: is it the right file?");
    }
    if contents.trim_ascii().is_empty() {
        bail!("the key file {name} is empty: make a key with `head -c 32 /dev/urandom | base64 > {name}`");
    }
    Ok(NamedFile { name, contents })
}

/// The address family requested by `-4` and `-6`; `None`: either.
pub fn family(ipv4: bool, ipv6: bool) -> Option<Family> {
    match (ipv4, ipv6) {
        (true, _) => Some(Family::V4),
        (_, true) => Some(Family::V6),
        _ => None,
    }
}
