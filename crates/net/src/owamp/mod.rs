//! OWAMP on sockets: the two ends of a session, which server and client share; the client's test; and fetches. The
//! server is a [reflector](crate::reflect::OwampServer).

mod client;
mod fetch;
pub(crate) mod receiving;
pub(crate) mod sending;

pub use client::{OwampError, OwampRequest, run};
pub use fetch::{FetchRequest, FetchedSession, fetch};
