//! Impaired paths on one machine, driven by the model of [`jitlat_impair`].
//!
//! * [`relay`] – a user-space relay between loopback sockets; needs no privilege, used by `jitlat demo`
//! * [`tun`] – a TUN device in each of two network namespaces, for whole IP packets; needs root
//! * [`lab`] – the two namespaces, created and removed
//!
//! In both the relay and the TUN path, one thread sleeps until absolute deadlines and delivers every packet at the time
//! that the model computes. On an idle machine, packets are delivered tens of microseconds late. The lateness is
//! measured and reported ([`DeliveryLateness`]).

mod ip;
pub mod lab;
mod line;
pub mod relay;
pub mod tun;

pub use crate::settings::{Forward, Numbering, RelayConfig};
pub use lab::{Lab, LabError};
pub use line::DeliveryLateness;
pub use relay::{Relay, RelayError};
pub use tun::{Tun, TunConfig, TunEnd, TunError};

use jitlat_core::time::SteadyTime;
use jitlat_impair::{Deliveries, Impairment, PathPacket, PathTally};

impl Numbering {
    /// Returns the deliveries of a datagram with this payload; `packet` is the IP packet.
    fn pass(self, path: &mut Impairment, now: SteadyTime, packet: PathPacket, payload: &[u8]) -> Deliveries {
        match (self, sequence(payload)) {
            (Numbering::Arrival, _) => path.pass(now, packet),
            (Numbering::Sequence, Some(n)) => path.pass_test(now, packet, n),
            (Numbering::Sequence, None) => path.pass_other(now, packet),
        }
    }
}

/// Returns the sequence number of a one-way test packet: the four bytes that follow the eight bytes of the timestamp.
/// `None` if the payload is too short.
fn sequence(payload: &[u8]) -> Option<u64> {
    let field = payload.get(8..12)?.try_into().ok()?;
    u64::try_from(i32::from_be_bytes(field)).ok()
}

/// Record of an emulator's actions, available when the emulator stops: the true values that a measurement of
/// the path should find.
#[derive(Clone, Debug, Default)]
pub struct EmulatorReport {
    /// Packets from client to server.
    pub up: PathTally,
    /// Packets from server to client.
    pub down: PathTally,
    /// Lateness of deliveries.
    pub lateness: DeliveryLateness,
    /// Number of packets that the emulator dropped because it could not store or send them.
    pub overflow: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_packets_have_a_number() {
        let packet = |seq: i32| [&[0u8; 8][..], &seq.to_be_bytes(), &[9; 20]].concat();
        assert_eq!(sequence(&packet(7)), Some(7));
        assert_eq!(sequence(&packet(i32::MAX)), Some(i32::MAX as u64));
        assert_eq!([sequence(&packet(-1)), sequence(&packet(-2)), sequence(&[0; 11])], [None; 3]);
    }
}
