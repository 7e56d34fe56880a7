//! The metrics and their list, [`METRICS`]. Each metric is a type that implements [`Metric`](super::metric::Metric), in
//! its own file, with an entry in the list.

mod clock;
mod confidence;
mod counts;
mod dejitter;
mod delay;
mod duplication;
mod hosts;
mod interface;
mod loss;
mod marks;
mod objectives;
mod periods;
mod qoo;
mod reordering;
mod round_trips;
mod trend;
mod variation;

use super::ipdv::StreamingIpdv;
use super::mapdv2::Mapdv2;
use super::metric::MetricEntry;
use super::rfc3550;
use super::skew::StreamingHull;

/// All metrics, in the order in which tables list them. A metric may use the results of metrics before it.
pub(crate) const METRICS: &[MetricEntry] = &[
    MetricEntry::of::<counts::PacketCounts>(),
    MetricEntry::of::<loss::LossMetric>(),
    MetricEntry::of::<duplication::Duplication>(),
    MetricEntry::of::<reordering::ReorderMetric>(),
    MetricEntry::of::<periods::RateMetric>(),
    MetricEntry::of::<StreamingIpdv>(),
    MetricEntry::of::<rfc3550::JitterEstimator>(),
    MetricEntry::of::<Mapdv2>(),
    MetricEntry::of::<delay::Pdv>(),
    MetricEntry::of::<delay::Latency>(),
    MetricEntry::of::<clock::ClockMetric>(),
    MetricEntry::of::<StreamingHull>(),
    MetricEntry::of::<trend::Slopes>(),
    MetricEntry::of::<trend::ChangeMetric>(),
    MetricEntry::of::<confidence::ConfidenceMetric>(),
    MetricEntry::of::<confidence::NearMedian>(),
    MetricEntry::of::<dejitter::PlayOutMetric>(),
    MetricEntry::of::<objectives::Objectives>(),
    MetricEntry::of::<qoo::Outcomes>(),
    MetricEntry::of::<hosts::LatenessMetric>(),
    MetricEntry::of::<hosts::HostStalls>(),
    MetricEntry::of::<hosts::NoiseFloors>(),
    MetricEntry::of::<hosts::StampSources>(),
    MetricEntry::of::<hosts::OwnQueue>(),
    MetricEntry::of::<interface::InterfaceMetric>(),
    MetricEntry::of::<marks::Marks>(),
    MetricEntry::of::<round_trips::RoundTripExtras>(),
];

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
