//! [`HandOver`]: passes packets that are due at the same time to the kernel.
//!
//! Test packets are passed as separate datagrams, each with its own timestamps. Packets of a load may be
//! passed in one buffer, which the kernel or the adapter cuts into datagrams (`UDP_SEGMENT`): they traverse
//! the host's network stack only once, and timestamps refer to the whole buffer. Packets with launch times
//! are passed one by one.

use crate::launch::Launch;
use crate::sys::{self, AsFd};
use jitlat_core::{Span, SteadyTime};
use std::io::{self, IoSlice};
use std::net::UdpSocket;

/// Maximum payload of a buffer, in bytes: the longest datagram minus the IPv6 headers, rounded down.
const MAX_PAYLOAD: usize = 65_000;

/// Passes the packets of one stream to the kernel.
pub(super) struct HandOver<'a> {
    socket: &'a UdpSocket,
    /// Maximum number of packets in one buffer; 1: each packet is a separate datagram.
    together: usize,
    launch: Option<Launch>,
}

impl<'a> HandOver<'a> {
    /// Creates a hand-over that sends each packet as a separate datagram.
    pub fn one_by_one(socket: &'a UdpSocket) -> HandOver<'a> {
        HandOver { socket, together: 1, launch: None }
    }

    /// Creates a hand-over that sends each packet with its launch time.
    pub fn launching(socket: &'a UdpSocket, launch: Launch) -> HandOver<'a> {
        HandOver { socket, together: 1, launch: Some(launch) }
    }

    /// Creates a hand-over that sends packets of `payload` bytes in one buffer, if the system can cut the
    /// buffer into datagrams.
    pub fn segmented(socket: &'a UdpSocket, payload: u16) -> HandOver<'a> {
        let can = sys::set_segment(socket, payload).is_ok();
        let together = if can { MAX_PAYLOAD / usize::from(payload) } else { 1 };
        HandOver { socket, together, launch: None }
    }

    /// Returns the lead time by which packets are passed to the kernel before they are due.
    pub fn advance(&self) -> Span {
        self.launch.map_or(Span::ZERO, |launch| launch.advance)
    }

    /// True if the queue of the interface, instead of this program, releases packets on time.
    pub fn is_launching(&self) -> bool {
        self.launch.is_some()
    }

    /// True if packets are sent in one buffer.
    #[cfg(test)]
    pub fn is_segmented(&self) -> bool {
        self.together > 1
    }

    /// Sends one or more of `packets` (header and padding each), beginning with the first, which is due at
    /// `due`. Returns the number of packets sent; an error concerns the first packet.
    pub fn send(&mut self, packets: &[[IoSlice<'_>; 2]], due: SteadyTime) -> io::Result<usize> {
        if let (Some(launch), Some(packet)) = (self.launch, packets.first()) {
            return launch.send(self.socket.as_fd(), packet, due).map(|_| 1);
        }
        if self.together > 1 {
            let count = packets.len().min(self.together);
            let buffer = packets[..count].as_flattened();
            match sys::send_parts(self.socket, buffer) {
                Ok(_) => return Ok(count),
                Err(e) if sys::refuses_segments(&e) => self.give_up_segments(),
                Err(e) => return Err(e),
            }
        }
        sys::send_batch(self.socket.as_fd(), packets)
    }

    fn give_up_segments(&mut self) {
        self.together = 1;
        // If this option cannot be set, all sends will fail and be counted.
        let _ = sys::set_segment(self.socket, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{Inbox, MAX_BATCH, ReceiveMode};

    /// Returns the lengths of the datagrams that arrive after `count` packets of `payload` bytes were passed
    /// to the kernel, and true if they were sent in one buffer until the end.
    fn sent(payload: u16, count: usize, segmented: bool) -> (Vec<usize>, bool) {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let rest = vec![7; usize::from(payload) - 12];
        let packets: Vec<_> = (0..count).map(|_| [IoSlice::new(&[1; 12]), IoSlice::new(&rest)]).collect();
        let mut hand_over =
            if segmented { HandOver::segmented(&from, payload) } else { HandOver::one_by_one(&from) };
        let mut left = &packets[..];
        while !left.is_empty() {
            left = &left[hand_over.send(left, SteadyTime(0)).unwrap()..];
        }
        let (mut inbox, mut lengths) = (Inbox::new(MAX_BATCH, 64), Vec::new());
        while lengths.len() < count {
            inbox.receive(to.as_fd(), ReceiveMode::Wait).unwrap();
            lengths.extend(inbox.datagrams().map(|d| d.length));
        }
        (lengths, hand_over.is_segmented())
    }

    #[test]
    fn a_buffer_arrives_as_its_datagrams() {
        for (payload, count) in [(80, 1), (80, 32), (1400, 32), (12, 3)] {
            let (lengths, together) = sent(payload, count, true);
            assert_eq!(lengths, vec![usize::from(payload); count], "{payload}");
            assert!(together, "this kernel cuts buffers of {payload} bytes");
            assert_eq!(sent(payload, count, false), (lengths, false));
        }
    }

    #[test]
    fn what_cannot_be_cut_is_sent_one_by_one() {
        // One payload exceeds the MTU of the loopback device; of the other, only one packet fits into a
        // buffer.
        for payload in [33_000, 65_507] {
            assert_eq!(sent(payload, 3, true), (vec![usize::from(payload); 3], false), "{payload}");
        }
    }
}
