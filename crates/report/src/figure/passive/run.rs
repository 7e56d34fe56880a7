//! [`PassiveRun`]: one passive measurement, as input for figures.

use super::range::MarkedPeriod;
use super::trace::PassiveTrace;
use jitlat_core::link::AccessLink;
use jitlat_core::units::utc_date;
use jitlat_passive::pipeline::LengthCounts;
use jitlat_passive::verdict::list_prefixes;
use jitlat_passive::{BandSpacing, LinkQuestion, PassiveResult, SizeFigures};

/// One passive measurement, as input for figures.
#[derive(Clone, Copy, Debug)]
pub struct PassiveRun<'a> {
    /// Pairs and packets.
    pub trace: &'a PassiveTrace,
    /// Bands found in the round trips.
    pub levels: &'a [BandSpacing],
    /// Round trips by packet size.
    pub sizes: &'a [SizeFigures],
    /// Access link that the round trips are compared with; `None` for no comparison.
    pub link: Option<&'a AccessLink>,
    /// Number of packets by length at the reference point and at the monitor point; `None` if unknown.
    pub captured: Option<[&'a LengthCounts; 2]>,
    /// Periods to be marked.
    pub periods: &'a [MarkedPeriod],
    /// Result of the analysis, which contains place and time of the measurement; `None` if unknown.
    pub result: Option<&'a PassiveResult>,
}

impl<'a> PassiveRun<'a> {
    /// Creates a run that consists only of a trace.
    pub fn new(trace: &'a PassiveTrace) -> PassiveRun<'a> {
        PassiveRun { trace, levels: &[], sizes: &[], link: None, captured: None, periods: &[], result: None }
    }

    /// Creates a run with the result of the analysis.
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
            result: Some(r),
            ..PassiveRun::new(trace)
        }
    }

    /// Points and time of the capture; `None` if unknown.
    pub(super) fn measured(&self) -> Option<String> {
        let result = self.result?;
        let ends = [&result.plan.sides[0].reference, &result.plan.sides[1].monitor].map(|e| list_prefixes(e));
        let date = result.captures[0].span.map_or(String::new(), |span| format!(", {}", utc_date(span.0)));
        Some(format!("between {} and {}{date}", ends[0], ends[1]))
    }
}
