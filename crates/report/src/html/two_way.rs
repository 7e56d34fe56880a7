//! What a two-way test has in addition to its round trips: each way on its own, and how requests were sent.

use super::{Part, heading, tables};
use crate::escape::escape;
use crate::text;
use std::fmt::Write;

/// Writes the ways and the remarks; nothing for a one-way test.
pub fn write(out: &mut String, part: &Part<'_>, alone: bool) {
    let s = part.summary;
    let Some(t) = s.two_way.as_deref() else { return };
    let _ = write!(out, "<section class=\"tables\"><h2>{}</h2>", heading(part, "There and back", alone));
    let ways = [("there", t.up.as_ref()), ("back", t.down.as_ref())];
    if ways.iter().any(|(_, way)| way.is_some_and(|w| w.latency.n > 0)) {
        tables::head(out);
        let seen =
            || ways.into_iter().filter_map(|(name, way)| Some((name, way.filter(|w| w.latency.n > 0)?)));
        for (name, way) in seen() {
            let clocks = if text::is_one_host(s) { "one clock" } else { "raw, two clocks" };
            tables::row(out, &format!("{name} ({clocks})"), &tables::whole(&way.latency, 0));
        }
        for (name, way) in seen() {
            if let Some(by) = way.clock.correction_ns.filter(|_| way.latency_corrected.is_some()) {
                tables::row(out, &format!("{name}, clocks corrected"), &tables::whole(&way.latency, by));
            }
        }
        for (name, way) in seen() {
            tables::row(out, &format!("{name}, jitter (PDV)"), &tables::whole(&way.pdv, 0));
        }
        out.push_str("</tbody></table></div>");
    }
    out.push_str("<ul>");
    for line in text::two_way_remarks(s) {
        let _ = write!(out, "<li>{}</li>", escape(&super::sentence(&line)));
    }
    out.push_str("</ul></section>\n");
}
