//! Sections that only two-way tests have: each direction separately, and the sending of requests.

use super::{ReportPart, heading, tables};
use crate::text;
use jitlat_verdict::with_clock_step;
use maud::{Markup, html};

/// Renders both directions and the remarks; returns nothing for a one-way test.
pub fn section(part: &ReportPart<'_>, alone: bool) -> Markup {
    let s = part.summary;
    let Some(t) = s.two_way.as_deref() else { return Markup::default() };
    let both = [("up", t.up.as_ref()), ("down", t.down.as_ref())];
    let known: Vec<_> =
        both.into_iter().filter_map(|(name, way)| Some((name, way.filter(|w| w.latency.n > 0)?))).collect();
    let clocks = if text::is_one_host(s) { "one clock" } else { "raw, two clocks" };
    html! {
        section.tables {
            h2 { (heading(part, "Directions", alone)) }
            @if !known.is_empty() {
                (tables::distributions_table(&html! {
                    // A negative time is not a delay; the list below the table states it.
                    @for (name, way) in known.iter().filter(|(_, way)| way.latency.min.is_none_or(|t| t >= 0)) {
                        (tables::row(&format!("{name} ({clocks})"), &tables::whole(&way.latency, 0)))
                    }
                    @for (name, way) in &known {
                        @let is_corrected = way.latency_corrected.is_some() && way.without_clock_step.is_none();
                        @if let Some(by) = way.clock.correction_ns.filter(|_| is_corrected) {
                            (tables::row(&format!("{name}, clocks corrected"), &tables::whole(&way.latency, by)))
                        }
                    }
                    @for (name, way) in &known {
                        @match &way.without_clock_step {
                            Some(without) => (tables::row(
                                &format!("{name}, {}", tables::WITHOUT_STEP),
                                &tables::jitter_without_step(without),
                            )),
                            None => (tables::row(&format!("{name}, jitter (PDV)"), &tables::whole(&way.pdv, 0))),
                        }
                    }
                }))
                @if let Some(without) = known.iter().find_map(|(_, way)| way.without_clock_step.as_ref()) {
                    p.what { (with_clock_step(without)) "." }
                }
            }
            ul { @for line in text::two_way_remarks(s) { li { (super::sentence(&line)) } } }
        }
    }
}
