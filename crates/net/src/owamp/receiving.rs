//! [`Receiving`]: receiving end of a session, with its socket.

use crate::clock::ClockError;
use crate::clock::wall;
use crate::sys::{AsFd, Inbox, MAX_BATCH, ReceiveMode};
use jitlat_core::{Stamp, StampSource, SteadyTime, WallTime};
use jitlat_proto::owamp::{DataRecord, SessionReceiver};
use jitlat_proto::twoway::RequestArrival;
use std::io;
use std::net::UdpSocket;

/// Memory for received packets, in bytes. More is used if a single packet needs more.
const INBOX_BYTES: usize = 1 << 18;

/// Receiving end of one session.
pub(crate) struct Receiving {
    /// Socket that receives the session's packets.
    pub socket: UdpSocket,
    inbox: Inbox,
    /// State machine that records the packets.
    pub receiver: SessionReceiver,
    error: ClockError,
    /// Number of packets dropped because the socket's buffer was full; `None` if unknown.
    pub drops: Option<u32>,
}

/// A packet that was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPacket {
    /// Record of the packet.
    pub record: DataRecord,
    /// Time of arrival, from the most precise source.
    pub stamp: Stamp,
    /// Time at which the packet was read; `None` if `stamp` is this time.
    pub read: Option<WallTime>,
    /// Length of the whole datagram, in bytes.
    pub length: usize,
    /// TTL and traffic class on arrival; `None` if unknown.
    pub ttl: Option<u8>,
    pub traffic_class: Option<u8>,
}

impl Receiving {
    /// Returns the memory needed to receive packets of `size` bytes, in bytes.
    pub fn memory(size: usize) -> usize {
        size.max(INBOX_BYTES.min(size * MAX_BATCH))
    }

    /// Creates the receiving end; arrival stamps must be enabled on `socket`.
    pub fn new(socket: UdpSocket, receiver: SessionReceiver) -> Receiving {
        let size = receiver.size();
        Receiving {
            socket,
            inbox: Inbox::new((INBOX_BYTES / size).clamp(1, MAX_BATCH), size),
            receiver,
            error: ClockError::read(),
            drops: None,
        }
    }

    /// Receives a batch of packets. `admit` is called with each packet's length
    /// and returns whether to process the packet; `each` is called with every packet that was recorded.
    /// Returns the number of packets received.
    ///
    /// # Errors
    /// Error of the operating system, also if no packet is queued.
    pub fn receive(
        &mut self,
        mode: ReceiveMode,
        now: SteadyTime,
        mut admit: impl FnMut(usize) -> bool,
        mut each: impl FnMut(RecordedPacket),
    ) -> io::Result<usize> {
        let count = self.inbox.receive(self.socket.as_fd(), mode)?;
        let read = wall();
        let error = self.error.at(now);
        for datagram in self.inbox.datagrams() {
            let info = datagram.info();
            self.drops = info.drops.or(self.drops);
            let Some(from) = datagram.sender() else { continue };
            if !admit(datagram.length) {
                continue;
            }
            let stamp = info.stamp.unwrap_or(Stamp { at: read, source: StampSource::User });
            let arrival =
                RequestArrival { from, at: stamp.at, ttl: info.ttl, traffic_class: info.traffic_class };
            if let Ok(record) = self.receiver.receive(datagram.data, &arrival, error) {
                each(RecordedPacket {
                    record,
                    stamp,
                    read: info.stamp.is_some().then_some(read),
                    length: datagram.length,
                    ttl: info.ttl,
                    traffic_class: info.traffic_class,
                });
            }
        }
        Ok(count)
    }

    /// Counts overdue packets as lost. Returns true if the session is complete.
    pub fn look(&mut self, now: SteadyTime) -> bool {
        let wall = wall();
        self.receiver.handle_timeout(wall, self.error.at(now));
        self.receiver.is_complete(wall)
    }

    /// Returns the error estimate of this host's clock.
    pub fn error(&mut self, now: SteadyTime) -> jitlat_core::ntp::ErrorEstimate {
        self.error.at(now)
    }
}
