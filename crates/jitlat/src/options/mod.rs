//! Options of the command line in groups that commands share, and the settings created from them. This module does not depend on
//! any command.

pub mod analysis;
pub mod condition;
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

pub use jitlat_instruments::access::{key, read_key_file};
use jitlat_net::client::AddressFamily;

/// Returns the address family requested by `-4` and `-6`; `None`: either.
pub fn family(ipv4: bool, ipv6: bool) -> Option<AddressFamily> {
    match (ipv4, ipv6) {
        (true, _) => Some(AddressFamily::V4),
        (_, true) => Some(AddressFamily::V6),
        _ => None,
    }
}
