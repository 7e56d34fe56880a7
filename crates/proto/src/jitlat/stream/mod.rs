//! The test stream without I/O: schedules packets and classifies arrivals.

mod greeter;
mod receiver;
mod sender;

pub use greeter::Greeter;
pub use receiver::{Finish, ReceiverTimeouts, Reception, StreamArrival, StreamReceiver};
pub use sender::{ScheduledPacket, StreamSender};

use jitlat_core::{Schedule, Span, TestSpec};

/// Returns the longest regular gap between packets.
pub(crate) fn longest_gap(spec: &TestSpec) -> Span {
    match spec.schedule() {
        Schedule::Burst { size } => spec.period().times(size.into()),
        _ => spec.period(),
    }
}

/// Returns the time between sentinels, and between the last packet and the first sentinel: ten periods (DRDC TM
/// 2011-047, section 4.3.3), but at least 1 ms and at most 10 s, so that a stream of any period ends in bounded time
/// without a flood.
pub(crate) fn sentinel_interval(spec: &TestSpec) -> Span {
    Span(spec.period().times(10).0.clamp(1_000_000, 10_000_000_000))
}
