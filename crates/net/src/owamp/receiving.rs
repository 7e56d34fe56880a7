//! [`Receiving`]: the receiving end of a session and its socket.

use crate::clock::ClockError;
use crate::clock::wall;
use crate::cmsg::ReceivedInfo;
use crate::sys::{Inbox, MAX_BATCH};
use jitlat_core::{Stamp, StampSource, SteadyTime, WallTime};
use jitlat_proto::owamp::{DataRecord, SessionReceiver};
use jitlat_proto::twoway::RequestArrival;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// Bytes for received packets, unless one alone needs more.
const INBOX_BYTES: usize = 1 << 18;

/// The receiving end of one session.
pub(crate) struct Receiving {
    /// Where its packets arrive.
    pub socket: UdpSocket,
    inbox: Inbox,
    /// What it has recorded.
    pub receiver: SessionReceiver,
    error: ClockError,
    /// Packets dropped at the socket because its buffer was full; `None` if unknown.
    pub drops: Option<u32>,
}

/// A packet that was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPacket {
    /// Its record.
    pub record: DataRecord,
    /// When it arrived, by the best clock.
    pub stamp: Stamp,
    /// When it was read; `None` if there is no better stamp.
    pub read: Option<WallTime>,
    /// Its whole length.
    pub length: usize,
    /// TTL and traffic class on arrival, if known.
    pub ttl: Option<u8>,
    pub traffic_class: Option<u8>,
}

impl Receiving {
    /// Bytes of memory for received packets of `size` bytes.
    pub fn memory(size: usize) -> usize {
        size.max(INBOX_BYTES.min(size * MAX_BATCH))
    }

    /// At `socket`, which stamps what arrives.
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

    /// Takes a batch of what has arrived, with the flags of `recvmmsg`. `admit`, which is given the length, says which
    /// packets are taken at all; `each` gets those that were recorded. Returns how many packets came.
    ///
    /// # Errors
    /// That of the system, also where nothing has arrived.
    pub fn receive(
        &mut self,
        flags: libc::c_int,
        now: SteadyTime,
        mut admit: impl FnMut(usize) -> bool,
        mut each: impl FnMut(RecordedPacket),
    ) -> io::Result<usize> {
        let came = self.inbox.receive(self.socket.as_fd(), flags)?;
        let read = wall();
        let error = self.error.at(now);
        for datagram in self.inbox.datagrams() {
            let info = ReceivedInfo::parse(datagram.control);
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
        Ok(came)
    }

    /// Gives up what should have arrived by now. Whether the session is complete.
    pub fn look(&mut self, now: SteadyTime) -> bool {
        let wall = wall();
        self.receiver.handle_timeout(wall, self.error.at(now));
        self.receiver.is_complete(wall)
    }

    /// The state of this host's clock.
    pub fn error(&mut self, now: SteadyTime) -> jitlat_core::ntp::ErrorEstimate {
        self.error.at(now)
    }
}
