//! The options of the command line, in groups that commands share, and the settings they make. Nothing here depends on
//! a command.

pub mod analysis;
pub mod late;
pub mod live;
pub mod load;
pub mod log;
pub mod one_way;
pub mod one_way_protocol;
pub mod outputs;
pub mod pace;
pub mod ping;
pub mod priority;
pub mod profile;
pub mod protocol;
pub mod report;
pub mod shape;
pub mod unread;

use anyhow::{Context, Result};
use jitlat_instruments::arguments::NamedFile;
use jitlat_net::client::AddressFamily;
use jitlat_net::key_file;
use jitlat_proto::jitlat::PresharedKey;
use std::path::Path;

/// Reads the key in a key file.
pub fn key(path: &Path) -> Result<PresharedKey> {
    let file = read_key_file(path)?;
    PresharedKey::from_file_contents(&file.contents).with_context(|| format!("the key file {}", file.name))
}

/// Reads a file with a key or with users, which nobody else may be able to read.
pub fn read_key_file(path: &Path) -> Result<NamedFile> {
    Ok(NamedFile { name: path.display().to_string(), contents: key_file::read(path)? })
}

/// The address family requested by `-4` and `-6`; `None`: either.
pub fn family(ipv4: bool, ipv6: bool) -> Option<AddressFamily> {
    match (ipv4, ipv6) {
        (true, _) => Some(AddressFamily::V4),
        (_, true) => Some(AddressFamily::V6),
        _ => None,
    }
}
