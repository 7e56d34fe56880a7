//! A page from which browsers measure round trips to this host, without a program on theirs. [`BrowserServer`] is a
//! [`Reflector`](crate::serve::Reflector); [`BrowserResults`] receives the results.

pub use jitlat_net::browser::{BrowserResults, BrowserServer};
pub use jitlat_proto::browser::BrowserResult;
