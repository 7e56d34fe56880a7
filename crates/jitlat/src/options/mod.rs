//! The options of the command line, in groups that commands share, and the settings they make. Nothing here depends on
//! a command.

pub mod analysis;
pub mod late;
pub mod load;
pub mod one_way;
pub mod ping;
pub mod priority;
pub mod profile;
pub mod protocol;
pub mod report;

use anyhow::{Context, Result};
use jitlat_net::client::Family;
use jitlat_proto::jitlat::Key;
use std::path::Path;

/// Reads the key in a key file.
pub fn key(path: &Path) -> Result<Key> {
    let bytes = std::fs::read(path).with_context(|| format!("reading the key file {}", path.display()))?;
    Key::from_file_contents(&bytes).with_context(|| format!("the key file {}", path.display()))
}

/// The address family requested by `-4` and `-6`; `None`: either.
pub fn family(ipv4: bool, ipv6: bool) -> Option<Family> {
    match (ipv4, ipv6) {
        (true, _) => Some(Family::V4),
        (_, true) => Some(Family::V6),
        _ => None,
    }
}
