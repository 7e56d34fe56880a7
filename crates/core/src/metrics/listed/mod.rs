//! The metrics, and [`METRICS`], their list: a file that implements [`Metric`](super::metric::Metric), a line.

mod clock;
mod confidence;
mod counts;
mod dejitter;
mod delay;
mod duplication;
mod hosts;
mod loss;
mod objectives;
mod periods;
mod reordering;
mod round_trips;
mod trend;
mod variation;

use super::ipdv::StreamingIpdv;
use super::mapdv2::Mapdv2;
use super::metric::Entry;
use super::rfc3550;
use super::skew::StreamingHull;

/// Every metric, in the order of tables. A metric's result may follow from those before it.
pub(crate) const METRICS: &[Entry] = &[
    Entry::of::<counts::PacketCounts>(),
    Entry::of::<loss::Losses>(),
    Entry::of::<duplication::Duplication>(),
    Entry::of::<reordering::OutOfOrder>(),
    Entry::of::<periods::Rates>(),
    Entry::of::<StreamingIpdv>(),
    Entry::of::<rfc3550::Estimator>(),
    Entry::of::<Mapdv2>(),
    Entry::of::<delay::Pdv>(),
    Entry::of::<delay::Latency>(),
    Entry::of::<clock::Clocks>(),
    Entry::of::<StreamingHull>(),
    Entry::of::<trend::Slopes>(),
    Entry::of::<trend::Changes>(),
    Entry::of::<confidence::Confidence>(),
    Entry::of::<confidence::NearMiddle>(),
    Entry::of::<dejitter::PlayOut>(),
    Entry::of::<objectives::Objectives>(),
    Entry::of::<hosts::Lateness>(),
    Entry::of::<hosts::HostStalls>(),
    Entry::of::<hosts::NoiseFloors>(),
    Entry::of::<hosts::StampSources>(),
    Entry::of::<hosts::OwnQueue>(),
    Entry::of::<round_trips::BesideRoundTrips>(),
];

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
