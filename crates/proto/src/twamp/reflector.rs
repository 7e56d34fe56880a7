//! The session reflector (RFC 5357 §4.2): one accepted session.

use crate::access::answerable;
use crate::amp::SecurityMode;
use crate::amp::{PacketOrigin, TestKeys};
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, is_answer};
use crate::twamp::sender::layout;
use crate::twoway::reflect::{RequestArrival, Silence};
use core::net::{IpAddr, SocketAddr};
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// An answer that must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwampReflection {
    /// Length in bytes: that of the request, or that of the fields if the request is shorter.
    pub len: usize,
    /// Number of the answer, for [`SessionReflector::not_sent`].
    pub seq: u32,
}

/// Answers the packets of one session, and only those from its client.
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
    /// Creates a reflector for a session in `mode` with packets from `host` and `port`. If `port` is `None`,
    /// that of the first packet is used.
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

    /// Returns the number of answers so far, which is also the number of the next answer.
    pub fn answers(&self) -> u32 {
        self.answers
    }

    fn is_client(&self, from: SocketAddr) -> bool {
        from.ip().to_canonical() == self.host && self.port.is_none_or(|p| p == from.port())
    }

    /// Records that answer `seq` could not be sent. Answers are numbered in the order in which they left (RFC
    /// 5357 §4.2.1), so the next one gets the same number unless a later one has left.
    pub fn not_sent(&mut self, seq: u32) {
        if self.answers == seq.wrapping_add(1) {
            self.answers = seq;
        }
    }

    /// Returns the maximum length of answers to requests of `request` bytes.
    pub fn answer_len(&self, request: usize) -> usize {
        self.layout.shortest_answer().max(request)
    }

    /// Writes the answer to `request` into `answer`, which must be long enough
    /// ([`answer_len`](SessionReflector::answer_len)). The answer may be longer than the request, because the
    /// control connection has proved that the client receives packets at its address. `now` is the time, and
    /// `error` the error estimate of this host's wall clock.
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
        // The sender's padding is returned, shortened by the longer fields of an answer.
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
