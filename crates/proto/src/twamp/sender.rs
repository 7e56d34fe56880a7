//! The session sender (RFC 5357 §4.1).

use crate::amp::SecurityMode;
use crate::amp::{PacketOrigin, TestKeys};
use crate::stamp::packet::{StampAnswer, StampLayout, StampRequest, is_answer};
use crate::twamp::least_padding;
use crate::twoway::{DatagramKind, Protocol, Reply, ReplyMarks};
use jitlat_core::WallTime;
use jitlat_core::ntp::ErrorEstimate;

/// Creates the requests of a session, and parses the answers.
#[derive(Clone, Debug)]
pub struct TwampSender {
    mode: SecurityMode,
    layout: StampLayout,
    keys: Option<TestKeys>,
    size: usize,
    error: ErrorEstimate,
    open: Vec<u8>,
}

/// Returns the length of a test packet in `mode` with `padding` bytes of padding, in bytes.
pub const fn size(mode: SecurityMode, padding: u32) -> usize {
    layout(mode).shortest_request() + padding as usize
}

/// Returns the length of the shortest test packet whose answer is not longer, in bytes.
pub const fn least_size(mode: SecurityMode) -> usize {
    size(mode, least_padding(mode))
}

pub(super) const fn layout(mode: SecurityMode) -> StampLayout {
    match mode {
        SecurityMode::Open | SecurityMode::Mixed => StampLayout::Clear,
        SecurityMode::Authenticated | SecurityMode::Encrypted => StampLayout::Keyed,
    }
}

impl TwampSender {
    /// Creates a sender of requests of `size` bytes. `keys` are those of the session, and `error` is the
    /// error estimate of this host's clock.
    pub fn new(mode: SecurityMode, keys: Option<TestKeys>, size: usize, error: ErrorEstimate) -> TwampSender {
        let layout = layout(mode);
        TwampSender { mode, layout, keys, size: size.max(layout.shortest_request()), error, open: Vec::new() }
    }

    /// Returns the length of a request, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the security mode.
    pub fn mode(&self) -> SecurityMode {
        self.mode
    }
}

impl Protocol for TwampSender {
    fn request(&mut self, seq: u32, _last: bool, sent: WallTime, out: &mut Vec<u8>) {
        let start = out.len();
        // Padding consists of zeros, because other values may be interpreted as a STAMP session identifier.
        out.resize(start + self.size, 0);
        let packet = &mut out[start..];
        StampRequest { seq, sent: self.error.encode(sent), error: self.error, ssid: 0 }
            .write(self.layout, packet);
        if let Some(keys) = &self.keys {
            keys.seal(PacketOrigin::Sender, packet);
        }
    }

    fn far_clock(&self) -> bool {
        true
    }

    fn counts_answers(&self) -> bool {
        true
    }

    fn receive(&mut self, datagram: &[u8], near: WallTime) -> DatagramKind {
        self.open.clear();
        self.open.extend(datagram);
        if let Some(keys) = &self.keys
            && !keys.open(PacketOrigin::Reflector, &mut self.open)
        {
            return if datagram.len() < self.layout.shortest_answer() {
                DatagramKind::Malformed
            } else {
                DatagramKind::Forged
            };
        }
        let Some(answer) = StampAnswer::parse(self.layout, &self.open) else {
            return DatagramKind::Malformed;
        };
        if answer.sender_error != self.error {
            // This is not an answer to a request of this sender: it is the sender's own request, returned, or
            // an answer to another sender.
            return if is_answer(self.layout, &self.open) {
                DatagramKind::Malformed
            } else {
                DatagramKind::Foreign
            };
        }
        DatagramKind::Reply(Reply {
            seq: answer.sender_seq,
            seq_bits: 32,
            arrived: answer.error.decode(answer.arrived, near),
            answered: answer.error.decode(answer.answered, near),
            far_seq: Some(answer.seq),
            damaged: !answer.error.is_valid(),
            earlier: None,
            marks: ReplyMarks::default(),
        })
    }
}
