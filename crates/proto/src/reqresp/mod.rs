//! TCP request-response: one connection, fixed sizes, no Nagle algorithm. Measures the delay of an application that
//! sends a request and waits for the response (TCPMon in SLAC's comparison of ping jitter measures).
//!
//! The client starts with a greeting of 16 bytes that contains both sizes. The server returns the greeting if
//! it accepts the sizes, and closes the connection otherwise. Then requests and responses of these sizes
//! follow: sequence number, times, padding; big-endian.

use crate::twoway::{DatagramKind, Protocol, Reply, ReplyMarks};
use crate::wire::Field;
use jitlat_core::WallTime;

/// TCP port of jitlat's responder.
pub const PORT: u16 = 2668;
/// Length of the greeting, in bytes.
pub const GREETING_LEN: usize = 16;
const MAGIC: [u8; 8] = *b"JLTreq1\n";

/// Fields of the greeting.
mod greeting {
    use crate::wire::Field;
    pub(crate) const MAGIC: Field<[u8; 8]> = Field::at(0);
    pub const REQUEST: Field<u32> = MAGIC.then();
    pub(crate) const RESPONSE: Field<u32> = REQUEST.then();
}

/// First fields of a request or response; a response has one more time.
mod field {
    use crate::wire::Field;
    pub(crate) const SEQ: Field<u32> = Field::at(0);
    /// T1: send time of the request.
    pub const SENT: Field<i64> = SEQ.then();
    /// T2: arrival time of the request. It is followed by T3, the send time of the response.
    pub(crate) const ARRIVED: Field<i64> = SEQ.then();
    pub(crate) const ANSWERED: Field<i64> = ARRIVED.then();
}

/// Minimum length of a request in bytes: sequence number, T1.
pub const MIN_REQUEST: usize = 12;
/// Minimum length of a response in bytes: sequence number, T2, T3.
pub const MIN_RESPONSE: usize = 20;
/// Maximum length of a request or response, in bytes.
pub const MAX_LEN: usize = 65_535;

/// Valid lengths of requests and responses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeSizes {
    request: u16,
    response: u16,
}

impl ExchangeSizes {
    /// Creates sizes; `None` unless both are within their limits.
    pub fn new(request: usize, response: usize) -> Option<ExchangeSizes> {
        let fits = (MIN_REQUEST..=MAX_LEN).contains(&request) && (MIN_RESPONSE..=MAX_LEN).contains(&response);
        fits.then_some(ExchangeSizes { request: request as u16, response: response as u16 })
    }

    /// Returns the length of a request, in bytes.
    pub fn request(self) -> usize {
        self.request.into()
    }

    /// Returns the length of a response, in bytes.
    pub fn response(self) -> usize {
        self.response.into()
    }

    /// Returns the greeting with these sizes.
    pub fn greeting(self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        greeting::MAGIC.write(&mut bytes, MAGIC);
        greeting::REQUEST.write(&mut bytes, self.request.into());
        greeting::RESPONSE.write(&mut bytes, self.response.into());
        bytes
    }

    /// Parses the sizes in a greeting; `None` if it is not a greeting or the sizes are invalid.
    pub fn from_greeting(bytes: &[u8; GREETING_LEN]) -> Option<ExchangeSizes> {
        if greeting::MAGIC.read(bytes)? != MAGIC {
            return None;
        }
        ExchangeSizes::new(greeting::REQUEST.read(bytes)? as usize, greeting::RESPONSE.read(bytes)? as usize)
    }
}

/// Writes the response to `request`, which arrived at `arrived` and is answered at `answered`, into
/// `response`. Returns false and writes nothing if either slice is too short.
pub fn respond(request: &[u8], arrived: WallTime, answered: WallTime, response: &mut [u8]) -> bool {
    let Some(seq) = field::SEQ.read(request) else { return false };
    if response.len() < MIN_RESPONSE {
        return false;
    }
    field::SEQ.write(response, seq);
    field::ARRIVED.write(response, arrived.0);
    field::ANSWERED.write(response, answered.0);
    true
}

/// Client that creates requests and parses complete responses.
#[derive(Clone, Debug)]
pub struct Requester {
    sizes: ExchangeSizes,
    echoed: bool,
}

impl Requester {
    /// Creates a client for these sizes.
    pub fn new(sizes: ExchangeSizes) -> Requester {
        Requester { sizes, echoed: false }
    }
}

impl Requester {
    /// True if the first `response` equals the request sent at `sent`: the server is a plain echo server,
    /// which also returned the greeting. From then on, responses have the length of requests and contain no
    /// times of the server.
    pub fn finds_echo(&mut self, response: &[u8], sent: Option<WallTime>) -> bool {
        let same = sent.is_some_and(|sent| field::ARRIVED.read(response) == Some(sent.0));
        self.echoed |= same && field::SEQ.read(response) == Some(0);
        self.echoed
    }

    /// True if the server is a plain echo server.
    pub fn is_echoed(&self) -> bool {
        self.echoed
    }
}

impl Protocol for Requester {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.sizes.request(), 0);
        field::SEQ.write(&mut out[start..], seq);
        field::SENT.write(&mut out[start..], sent.0);
    }

    fn receive(&mut self, response: &[u8], _near: WallTime) -> DatagramKind {
        let least = if self.echoed { MIN_REQUEST } else { MIN_RESPONSE };
        let (Some(seq), true) = (field::SEQ.read(response), response.len() >= least) else {
            return DatagramKind::Malformed;
        };
        let time = |field: Field<i64>| field.read(response).filter(|t| *t > 0 && !self.echoed).map(WallTime);
        DatagramKind::Reply(Reply {
            seq,
            seq_bits: 32,
            arrived: time(field::ARRIVED),
            answered: time(field::ANSWERED),
            far_seq: None,
            damaged: response.len() != if self.echoed { self.sizes.request() } else { self.sizes.response() },
            earlier: None,
            marks: ReplyMarks::default(),
        })
    }

    fn far_clock(&self) -> bool {
        !self.echoed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_name_possible_sizes_only() {
        let sizes = ExchangeSizes::new(1460, 1000).unwrap();
        assert_eq!(ExchangeSizes::from_greeting(&sizes.greeting()), Some(sizes));
        assert!(ExchangeSizes::new(11, 1000).is_none() && ExchangeSizes::new(1460, 19).is_none());
        assert!(ExchangeSizes::new(65_536, 1000).is_none());
        let mut huge = sizes.greeting();
        huge[8..12].fill(0xff);
        assert_eq!(ExchangeSizes::from_greeting(&huge), None);
        assert_eq!(ExchangeSizes::from_greeting(b"GET / HTTP/1.1\r\n"), None);
    }

    #[test]
    fn a_response_carries_the_four_times() {
        let sizes = ExchangeSizes::new(100, 50).unwrap();
        let mut client = Requester::new(sizes);
        let mut request = Vec::new();
        client.request(7, false, WallTime(1), &mut request);
        assert_eq!(request.len(), 100);
        let mut response = vec![0; 50];
        assert!(respond(&request, WallTime(10), WallTime(20), &mut response));
        let DatagramKind::Reply(r) = client.receive(&response, WallTime(0)) else { panic!() };
        assert_eq!((r.seq, r.arrived, r.answered), (7, Some(WallTime(10)), Some(WallTime(20))));
        assert!(!respond(&[1, 2], WallTime(0), WallTime(0), &mut response));
        assert_eq!(client.receive(&[0; 19], WallTime(0)), DatagramKind::Malformed);
    }

    #[test]
    fn a_plain_echo_server_is_found_by_the_first_response() {
        let mut client = Requester::new(ExchangeSizes::new(100, 50).unwrap());
        let mut request = Vec::new();
        client.request(0, false, WallTime(5), &mut request);
        let mut response = vec![0; 50];
        assert!(respond(&request, WallTime(10), WallTime(20), &mut response));
        assert!(!client.finds_echo(&response, Some(WallTime(5))) && client.far_clock());
        assert!(client.finds_echo(&request, Some(WallTime(5))) && !client.far_clock());
        let DatagramKind::Reply(r) = client.receive(&request, WallTime(0)) else { panic!() };
        assert_eq!((r.seq, r.arrived, r.answered, r.damaged), (0, None, None, false));
    }

    #[test]
    fn sizes_at_their_limits() {
        let sizes = ExchangeSizes::new(MIN_REQUEST, MIN_RESPONSE).unwrap();
        assert_eq!((sizes.request(), sizes.response()), (12, 20));
        assert!(ExchangeSizes::new(MAX_LEN, MAX_LEN).is_some());
        let mut client = Requester::new(sizes);
        let (mut request, mut response) = (Vec::new(), [0; MIN_RESPONSE]);
        client.request(7, false, WallTime(1), &mut request);
        assert!(respond(&request, WallTime(10), WallTime(20), &mut response));
        assert!(!respond(&request, WallTime(10), WallTime(20), &mut [0; MIN_RESPONSE - 1]));
        let damaged = |client: &mut Requester, response: &[u8]| match client.receive(response, WallTime(0)) {
            DatagramKind::Reply(reply) => reply.damaged,
            other => panic!("{other:?}"),
        };
        assert!(!damaged(&mut client, &response));
        assert!(damaged(&mut client, &[&response[..], &[0]].concat()), "of another size than agreed on");
        assert!(client.far_clock());
    }
}
