//! [`PassiveRun`]: one passive measurement, as the builders need it.

use super::range::Period;
use super::trace::PassiveTrace;
use jitlat_core::passive::pipeline::LengthCounts;
use jitlat_core::passive::{Level, Link, LinkQuestion, PassiveResult, SizeFigures};

/// One passive measurement, as the builders need it.
#[derive(Clone, Copy, Debug)]
pub struct PassiveRun<'a> {
    /// Its pairs and packets.
    pub trace: &'a PassiveTrace,
    /// The bands found in its round trips.
    pub levels: &'a [Level],
    /// Its round trips by packet size.
    pub sizes: &'a [SizeFigures],
    /// The link that its round trips are compared with.
    pub link: Option<&'a Link>,
    /// Packets by length at the reference and at the monitor point.
    pub captured: Option<[&'a LengthCounts; 2]>,
    /// Periods that are marked.
    pub periods: &'a [Period],
}

impl<'a> PassiveRun<'a> {
    /// Nothing beside the trace.
    pub fn new(trace: &'a PassiveTrace) -> PassiveRun<'a> {
        PassiveRun { trace, levels: &[], sizes: &[], link: None, captured: None, periods: &[] }
    }

    /// With what was found.
    pub fn of(
        trace: &'a PassiveTrace,
        r: &'a PassiveResult,
        link: Option<&'a LinkQuestion>,
    ) -> PassiveRun<'a> {
        let [reference, monitor] = &r.captures;
        PassiveRun {
            levels: &r.summary.levels,
            sizes: &r.sizes,
            link: link.and_then(LinkQuestion::link),
            captured: Some([&reference.lengths, &monitor.lengths]),
            ..PassiveRun::new(trace)
        }
    }
}
