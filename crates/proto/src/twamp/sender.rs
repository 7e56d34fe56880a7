//! The session sender (RFC 5357 §4.1).

use crate::amp::Mode;
use crate::amp::{Origin, TestKeys};
use crate::stamp::packet::{Answer, Layout, Request, is_answer};
use crate::twamp::least_padding;
use crate::twoway::{Protocol, Received, Reply};
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Makes the requests of a granted session and parses its answers.
#[derive(Clone, Debug)]
pub struct Sender {
    mode: Mode,
    layout: Layout,
    keys: Option<TestKeys>,
    size: usize,
    error: ErrorEstimate,
    open: Vec<u8>,
}

/// Bytes of a test packet in `mode` with this much padding.
pub const fn size(mode: Mode, padding: u32) -> usize {
    layout(mode).shortest_request() + padding as usize
}

/// Bytes of the shortest test packet whose answer is not longer.
pub const fn least_size(mode: Mode) -> usize {
    size(mode, least_padding(mode))
}

pub(super) const fn layout(mode: Mode) -> Layout {
    match mode {
        Mode::Open | Mode::Mixed => Layout::Clear,
        Mode::Authenticated | Mode::Encrypted => Layout::Keyed,
    }
}

impl Sender {
    /// A sender of requests of `size` bytes, by a clock in this state. `keys` are those of the session.
    pub fn new(mode: Mode, keys: Option<TestKeys>, size: usize, error: ErrorEstimate) -> Sender {
        let layout = layout(mode);
        Sender { mode, layout, keys, size: size.max(layout.shortest_request()), error, open: Vec::new() }
    }

    /// Bytes of the requests.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How they are protected.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

impl Protocol for Sender {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        // Padding of zeros: anything else may be interpreted as a STAMP session identifier.
        out.resize(start + self.size, 0);
        let packet = &mut out[start..];
        Request { seq, sent: self.error.encode(sent), error: self.error, ssid: 0 }.write(self.layout, packet);
        if let Some(keys) = &self.keys {
            keys.seal(Origin::Sender, packet);
        }
    }

    fn far_clock(&self) -> bool {
        true
    }

    fn counts_answers(&self) -> bool {
        true
    }

    fn receive(&mut self, datagram: &[u8], near: WallTime) -> Received {
        self.open.clear();
        self.open.extend(datagram);
        if let Some(keys) = &self.keys
            && !keys.open(Origin::Reflector, &mut self.open)
        {
            return if datagram.len() < self.layout.shortest_answer() {
                Received::Malformed
            } else {
                Received::Forged
            };
        }
        let Some(answer) = Answer::parse(self.layout, &self.open) else { return Received::Malformed };
        if answer.sender_error != self.error {
            // Not an answer to our request: our own request returned, or another sender's answer.
            return if is_answer(self.layout, &self.open) { Received::Malformed } else { Received::Foreign };
        }
        Received::Reply(Reply {
            seq: answer.sender_seq,
            seq_bits: 32,
            arrived: answer.error.decode(answer.arrived, near),
            answered: answer.error.decode(answer.answered, near),
            far_seq: Some(answer.seq),
            damaged: !answer.error.is_valid(),
            earlier: None,
        })
    }
}
