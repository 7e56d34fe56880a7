//! The client's side of iperf3's control protocol, as load generator: TCP connections that send as fast as possible, or at a
//! rate, in either direction or both.
//!
//! * [`Iperf3Client`] – the conversation on the control connection
//! * [`messages`] – states, parameters, results
//!
//! There is no specification; docs/protocols/iperf3.md describes what iperf3's own programs send.

mod client;
pub mod messages;
#[cfg(test)]
mod tests;

pub use client::{Iperf3Client, Iperf3Error, Iperf3Event};
pub use messages::{Iperf3Params, ServerStream, StreamBytes};

/// TCP port of iperf3's server.
pub const PORT: u16 = 5201;
/// Length of the cookie, which identifies the connections of one test: 36 characters and a zero byte.
pub const COOKIE_LEN: usize = 37;

/// Makes a cookie from random bytes, in the alphabet of iperf3.
pub fn cookie(random: &[u8; COOKIE_LEN - 1]) -> [u8; COOKIE_LEN] {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE_LEN];
    for (to, from) in cookie.iter_mut().zip(random) {
        *to = ALPHABET[usize::from(from % 32)];
    }
    cookie
}
