//! TCP request–response: one connection, fixed sizes, no Nagle; what an application that asks and waits
//! sees of a path (seed 001's TCPMon).
//!
//! The client opens with a greeting of 16 bytes that names both sizes, the server returns it if it
//! agrees (and closes otherwise). Then requests go one way and responses the other, each of its fixed
//! size: sequence number, times, padding; big-endian.

use crate::twoway::{Heard, Protocol, Reply};
use jitlat_core::WallTime;

/// TCP port of jitlat's responder.
pub const PORT: u16 = 2668;
/// Bytes of the greeting.
pub const GREETING_LEN: usize = 16;
const MAGIC: [u8; 8] = *b"JLTreq1\n";

/// Bytes of the shortest request: sequence number, T1.
pub const SHORTEST_REQUEST: usize = 12;
/// Bytes of the shortest response: sequence number, T2, T3.
pub const SHORTEST_RESPONSE: usize = 20;
/// The largest of either.
pub const LARGEST: usize = 65_535;

/// The sizes of a test, in bytes; always possible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    request: u16,
    response: u16,
}

impl Sizes {
    /// `None` unless both are between their shortest and the largest.
    pub fn new(request: usize, response: usize) -> Option<Sizes> {
        let fits = (SHORTEST_REQUEST..=LARGEST).contains(&request)
            && (SHORTEST_RESPONSE..=LARGEST).contains(&response);
        fits.then_some(Sizes { request: request as u16, response: response as u16 })
    }

    /// Bytes of a request.
    pub fn request(self) -> usize {
        self.request.into()
    }

    /// Bytes of a response.
    pub fn response(self) -> usize {
        self.response.into()
    }

    /// The greeting that names them.
    pub fn greeting(self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&u32::from(self.request).to_be_bytes());
        bytes[12..].copy_from_slice(&u32::from(self.response).to_be_bytes());
        bytes
    }

    /// The sizes a greeting names; `None` if it is none or they are impossible.
    pub fn from_greeting(bytes: &[u8; GREETING_LEN]) -> Option<Sizes> {
        if bytes[..8] != MAGIC {
            return None;
        }
        let word = |i: usize| u32::from_be_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Sizes::new(word(8) as usize, word(12) as usize)
    }
}

/// Writes the response to `request`, which arrived at `arrived` and is answered at `answered`, into
/// `response`. False, and nothing written, if either is too short.
pub fn respond(request: &[u8], arrived: WallTime, answered: WallTime, response: &mut [u8]) -> bool {
    let Some(seq) = request.first_chunk::<4>() else { return false };
    let Some(head) = response.first_chunk_mut::<SHORTEST_RESPONSE>() else { return false };
    head[..4].copy_from_slice(seq);
    head[4..12].copy_from_slice(&arrived.0.to_be_bytes());
    head[12..].copy_from_slice(&answered.0.to_be_bytes());
    true
}

/// The client: makes requests and reads whole responses.
#[derive(Clone, Debug)]
pub struct Requester {
    sizes: Sizes,
}

impl Requester {
    /// For requests and responses of these sizes.
    pub fn new(sizes: Sizes) -> Requester {
        Requester { sizes }
    }
}

impl Protocol for Requester {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(seq.to_be_bytes());
        out.extend(sent.0.to_be_bytes());
        out.resize(start + self.sizes.request(), 0);
    }

    fn receive(&mut self, response: &[u8], _near: WallTime) -> Heard {
        let Some(h) = response.first_chunk::<SHORTEST_RESPONSE>() else { return Heard::Malformed };
        let time = |i: usize| {
            let mut b = [0; 8];
            b.copy_from_slice(&h[i..i + 8]);
            let t = i64::from_be_bytes(b);
            (t > 0).then_some(WallTime(t))
        };
        Heard::Reply(Reply {
            seq: u32::from_be_bytes([h[0], h[1], h[2], h[3]]),
            seq_bits: 32,
            arrived: time(4),
            answered: time(12),
            far_seq: None,
            damaged: response.len() != self.sizes.response(),
        })
    }

    fn far_clock(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_name_possible_sizes_only() {
        let sizes = Sizes::new(1460, 1000).unwrap();
        assert_eq!(Sizes::from_greeting(&sizes.greeting()), Some(sizes));
        assert!(Sizes::new(11, 1000).is_none() && Sizes::new(1460, 19).is_none());
        assert!(Sizes::new(65_536, 1000).is_none());
        let mut huge = sizes.greeting();
        huge[8..12].fill(0xff);
        assert_eq!(Sizes::from_greeting(&huge), None);
        assert_eq!(Sizes::from_greeting(b"GET / HTTP/1.1\r\n"), None);
    }

    #[test]
    fn a_response_carries_the_four_times() {
        let sizes = Sizes::new(100, 50).unwrap();
        let mut client = Requester::new(sizes);
        let mut request = Vec::new();
        client.request(7, false, WallTime(1), &mut request);
        assert_eq!(request.len(), 100);
        let mut response = vec![0; 50];
        assert!(respond(&request, WallTime(10), WallTime(20), &mut response));
        let Heard::Reply(r) = client.receive(&response, WallTime(0)) else { panic!() };
        assert_eq!((r.seq, r.arrived, r.answered), (7, Some(WallTime(10)), Some(WallTime(20))));
        assert!(!respond(&[1, 2], WallTime(0), WallTime(0), &mut response));
        assert_eq!(client.receive(&[0; 19], WallTime(0)), Heard::Malformed);
    }
}
