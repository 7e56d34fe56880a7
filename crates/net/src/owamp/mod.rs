//! OWAMP on sockets: the two ends of a session, used by server and client, and a client's test. The server is
//! a [reflector](crate::reflect::OwampServer).

mod client;
pub(crate) mod receiving;
pub(crate) mod sending;

pub use client::{OwampError, OwampRequest, run};
