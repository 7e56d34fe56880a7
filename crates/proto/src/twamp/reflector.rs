//! The session reflector (RFC 5357 §4.2): one granted session.

use crate::access::answerable;
use crate::amp::SecurityMode;
use crate::amp::{PacketOrigin, TestKeys};
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, is_answer};
use crate::twamp::sender::layout;
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// An answer to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwampReflection {
    /// Its bytes: as many as the request has, or those of its fields if the request is shorter.
    pub len: usize,
    /// Its number, for [`SessionReflector::not_sent`].
    pub seq: u32,
}

/// Answers the packets of one session, and only those of its client.
#[derive(Clone, Debug)]
pub struct SessionReflector {
    layout: StampLayout,
    keys: Option<TestKeys>,
    host: IpAddr,
    port: Option<u16>,
    answers: u32,
    open: Vec<u8>,
}

impl SessionReflector {
    /// For a session in `mode` with packets from `host` and `port`; without a port, from that of the first packet.
    pub fn new(
        mode: SecurityMode,
        keys: Option<TestKeys>,
        host: IpAddr,
        port: Option<u16>,
    ) -> SessionReflector {
        SessionReflector {
            layout: layout(mode),
            keys,
            host: host.to_canonical(),
            port,
            answers: 0,
            open: Vec::new(),
        }
    }

    /// Answers so far; also the number of the next one.
    pub fn answers(&self) -> u32 {
        self.answers
    }

    fn is_client(&self, from: SocketAddr) -> bool {
        from.ip().to_canonical() == self.host && self.port.is_none_or(|p| p == from.port())
    }

    /// Answer `seq` could not be sent: numbers are those of answers in the order they left (RFC 5357 §4.2.1), so the
    /// next one gets the same number, unless a later one has left meanwhile.
    pub fn not_sent(&mut self, seq: u32) {
        if self.answers == seq.wrapping_add(1) {
            self.answers = seq;
        }
    }

    /// The longest answer to requests of `request` bytes.
    pub fn answer_len(&self, request: usize) -> usize {
        self.layout.shortest_answer().max(request)
    }

    /// Writes the answer to `request` into `answer`, which must have room for it ([`answer_len`](SessionReflector::answer_len)). It may be longer than
    /// the request: the client has shown by its control connection that it receives what is sent to its address. `now` is the wall clock, `error` the state of this host's.
    pub fn reflect(
        &mut self,
        request: &[u8],
        arrival: &RequestArrival,
        now: WallTime,
        error: ErrorEstimate,
        answer: &mut [u8],
    ) -> Result<TwampReflection, Silence> {
        if !self.is_client(arrival.from) {
            return Err(Silence::NoSession);
        }
        if !answerable(arrival.from) {
            return Err(Silence::Source);
        }
        let fields = self.layout.shortest_answer();
        let len = self.answer_len(request.len());
        if request.len() < self.layout.shortest_request() || answer.len() < len {
            return Err(Silence::Short);
        }
        self.open.clear();
        self.open.extend(request);
        if let Some(keys) = &self.keys
            && !keys.open(PacketOrigin::Sender, &mut self.open)
        {
            return Err(Silence::Forged);
        }
        let asked = StampRequest::parse(self.layout, &self.open).ok_or(Silence::Foreign)?;
        if !asked.error.is_valid() {
            return Err(Silence::Foreign);
        }
        if self.keys.is_none() && is_answer(self.layout, &self.open) {
            return Err(Silence::Loop);
        }
        self.port = Some(arrival.from.port());
        let seq = self.answers;
        self.answers = self.answers.wrapping_add(1);

        let answer = &mut answer[..len];
        // The rest of the sender's padding after the longer fields is returned.
        answer[..request.len()].copy_from_slice(request);
        answer[..fields].fill(0);
        let written = StampAnswer {
            seq,
            answered: error.encode(now),
            error,
            ssid: 0,
            arrived: error.encode(arrival.at),
            sender_seq: asked.seq,
            sender_sent: asked.sent,
            sender_error: asked.error,
            sender_ttl: arrival.ttl,
        };
        written.write(self.layout, answer);
        if let Some(keys) = &self.keys {
            keys.seal(PacketOrigin::Reflector, answer);
        }
        Ok(TwampReflection { len: answer.len(), seq })
    }
}
