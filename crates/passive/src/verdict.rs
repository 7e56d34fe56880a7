//! Problems of captures and of their matching, with advice.

use super::CapturePoint;
use super::pipeline::{CaptureFacts, PointStep};
use super::recording::{describe_error, describe_step};
use super::{IdentityFields, IdentityRule, MatchPlan, MatchedFigures, PassiveResult};
use crate::numbers::count;
use jitlat_core::answer::{Cause, CauseId, Severity};
use jitlat_core::prefix::Prefix;
use jitlat_core::units;

/// Names of the two points.
pub const POINTS: [&str; 2] = ["reference", "monitor"];
/// Maximum number of prefixes listed for a side.
const MAX_LISTED_PREFIXES: usize = 4;
/// Default mask of the CAIA tool. Among its fields, only the IP identification distinguishes packets of one
/// flow.
const HEADER_MASK: u32 = 63;

/// Lists the prefixes of a side, at most [`MAX_LISTED_PREFIXES`].
pub fn list_prefixes(prefixes: &[Prefix]) -> String {
    let mut text: Vec<_> = prefixes.iter().take(MAX_LISTED_PREFIXES).map(ToString::to_string).collect();
    if prefixes.len() > MAX_LISTED_PREFIXES {
        text.push(format!("and {} more", prefixes.len() - MAX_LISTED_PREFIXES));
    }
    text.join(", ")
}

/// Describes how packets are identified.
pub fn describe_identity(rule: &IdentityRule) -> String {
    match rule.fields {
        IdentityFields::Mask(mask) => format!("the fields of mask {mask}"),
        IdentityFields::Full { addresses, ports, ident } => {
            let mut parts = vec!["length", "protocol fields and payload"];
            for (on, name) in [(ident, "identification"), (ports, "ports"), (addresses, "addresses")] {
                if on {
                    parts.insert(0, name);
                }
            }
            let mut text = parts.join(", ");
            if !addresses {
                text.push_str(if ports {
                    " (addresses are translated)"
                } else {
                    " (addresses and ports are translated)"
                });
            }
            if !ident {
                text.push_str(" (the identification is rewritten on the path)");
            }
            text
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

impl PassiveResult {
    /// True if any packet was recognised at both points.
    pub fn is_measured(&self) -> bool {
        self.total(|w| w.counts.matched) > 0
    }

    fn total(&self, count: fn(&MatchedFigures) -> u64) -> u64 {
        count(&self.summary.out) + count(&self.summary.back)
    }

    /// Returns notes about the reliability of the captures and of the matching.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (facts, point) in self.captures.iter().zip(POINTS) {
            note_capture(&mut notes, facts, point);
        }
        for (facts, point) in self.captures.iter().zip(POINTS) {
            if !self.addresses_given && percent(facts.elsewhere, facts.packets) > 20.0 {
                notes.push(format!(
                    "{point}: {:.0} % of the packets are between other addresses and were ignored; to include more of \
                     them, give their prefixes with -a and -A",
                    percent(facts.elsewhere, facts.packets)
                ));
            }
        }
        self.note_matching(&mut notes);
        self.note_times(&mut notes);
        notes
    }

    /// Index of the point that recorded packets before its adapter divided them, or after its adapter joined them. Such
    /// packets match nothing, so losses are unknown. `None` if there is no such point.
    pub fn offload(&self) -> Option<usize> {
        let seen = self.total(|w| w.counts.seen_at_reference + w.counts.seen_at_monitor);
        let unmatched = seen.saturating_sub(2 * self.total(|w| w.counts.matched));
        let long = self.captures.each_ref().map(|f| f.long);
        (long[0] != long[1] && percent(unmatched, seen) > 1.0).then(|| usize::from(long[0] < long[1]))
    }

    /// Describes, in one sentence, a capture with segmentation offload and what can be measured nevertheless; `None`
    /// without offload.
    pub fn explain_offload(&self) -> Option<String> {
        let at = self.offload()?;
        let facts = &self.captures[at];
        let measured = self.summary.rtt_ns.map_or("no round trips".to_owned(), |rtt| {
            let pairs = count(self.summary.pairs, "round trip");
            format!("half of {pairs} within {}", units::eng3(rtt.median as f64))
        });
        Some(format!(
            "Segmentation offload at the {} point ({} of up to {} bytes): losses are unknown; {measured}.",
            POINTS[at],
            count(facts.long, "packet"),
            facts.longest
        ))
    }

    fn note_matching(&self, notes: &mut Vec<String>) {
        let seen = self.total(|w| w.counts.seen_at_reference + w.counts.seen_at_monitor);
        let matched = self.total(|w| w.counts.matched);
        let ambiguous = self.total(|w| w.counts.ambiguous);
        let given_up = self.total(|w| w.counts.given_up);
        if percent(ambiguous, seen) > 1.0 {
            notes.push(format!(
                "{:.1} % of the sightings were dropped as ambiguous: packets repeat the fields that identify them (no IP \
                 identification, the same payload), so it is unknown which of them were lost. Capture more bytes of each packet (tcpdump -s 0){}",
                percent(ambiguous, seen),
                if matches!(self.identity.fields, IdentityFields::Mask(_)) { ", or leave out the mask" } else { "" }
            ));
        }
        if given_up > 0 {
            notes.push(format!(
                "{given_up} packets were given up for lack of memory before it was known whether they arrived: a shorter -d needs less \
                 memory"
            ));
        }
        let unmatched = seen.saturating_sub(2 * matched);
        if matched > 0 && percent(unmatched, seen) > 30.0 && percent(ambiguous, seen) <= 1.0 {
            notes.push(format!(
                "{:.0} % of the sightings have no partner: if the captures overlap, look for segmentation offload, a \
                 NAT that changes part of the traffic, or filters that differ",
                percent(unmatched, seen)
            ));
        }
        if let Some(at) = self.offload() {
            notes.push(describe_offload(&self.captures[at], POINTS[at]));
        }
        let unidentified: u64 = self.captures.iter().map(|f| f.unidentified).sum();
        let ours: u64 = self.captures.iter().map(|f| f.ours).sum();
        if let IdentityFields::Mask(mask) = self.identity.fields
            && mask & !HEADER_MASK == 0
            && percent(unidentified, ours) > 10.0
        {
            notes.push(format!(
                "{:.0} % of the packets have no IP identification, which mask {mask} needs: after each loss, packets are \
                 matched wrongly. Use mask 3135 (UDP) or 16639 (TCP), or leave out the mask",
                percent(unidentified, ours)
            ));
        }
        if matched == 0 {
            notes.push(format!(
                "no packet was matched within {}; {}",
                units::duration(self.window),
                if self.plan.common == 0 {
                    "the captures have no packet in common under this rule"
                } else {
                    "try a larger -d or another -o"
                }
            ));
        } else if self.summary.pairs == 0 {
            notes
                .push("no pairs: a pair is an OUT packet followed by an IN packet at the monitor".to_owned());
        }
    }

    /// Returns the steps of the clocks of both points, in time order: those that one recording alone shows, and those
    /// that only both together show.
    pub fn clock_steps(&self) -> Vec<PointStep> {
        const SAME: i64 = 1_000_000_000;
        let points = [CapturePoint::Reference, CapturePoint::Monitor];
        let mut steps: Vec<PointStep> = Vec::new();
        for (facts, point) in self.captures.iter().zip(points) {
            let proven = facts.recording.steps.iter().filter(|step| step.proven);
            steps.extend(proven.map(|step| PointStep {
                point,
                at: step.at,
                by_ns: step.by_ns,
                error_ns: step.error_ns,
            }));
        }
        for step in &self.clock_steps {
            // The rest of a step that was corrected already does not count as another one.
            let size = step.by_ns.0.saturating_abs();
            let rest = |known: &PointStep| {
                (known.at - step.at).0.saturating_abs() < SAME && size < known.by_ns.0.saturating_abs() / 2
            };
            if !steps.iter().any(rest) {
                steps.push(*step);
            }
        }
        steps.sort_by_key(|step| step.at);
        steps
    }

    /// Returns a cause for each step of a capture's clock, for the verdicts of both directions.
    pub fn clock_causes(&self) -> Vec<Cause> {
        let begin = self.captures.iter().filter_map(|f| f.span).map(|span| span.0).min();
        let cause = |step: &PointStep| {
            let at = begin.map_or(0.0, |begin| (step.at - begin).0 as f64 / 1e9);
            Cause {
                from_s: at,
                to_s: at,
                magnitude_ns: Some(step.by_ns.0),
                because: format!("{} at {at:.1} s: delays after it are corrected", describe_point_step(step)),
                ..Cause::new(CauseId::CaptureClock, Severity::Good, 0.95)
            }
        };
        self.clock_steps().iter().map(cause).collect()
    }

    fn note_times(&self, notes: &mut Vec<String>) {
        let directions = [&self.summary.out, &self.summary.back];
        let same_times = directions.iter().all(|w| w.delay_raw_ns.is_none_or(|d| d.min == 0 && d.max == 0));
        if self.total(|w| w.counts.matched) > 10 && same_times {
            notes.push(
                "every packet has the same timestamp at both points: is this the same capture twice?"
                    .to_owned(),
            );
        }
        notes.extend(self.clock_steps.iter().map(|step| {
            format!(
                "{} at {}: delays after it are corrected",
                describe_point_step(step),
                units::utc_date(step.at)
            )
        }));
        if self.summary.rtt_ns.is_some_and(|rtt| rtt.min < 0) {
            notes.push("some round trips are negative: a clock was set during the capture".to_owned());
        }
    }
}

fn describe_point_step(step: &PointStep) -> String {
    let how = if step.by_ns.0 < 0 { "back" } else { "forward" };
    let size = units::eng3(step.by_ns.0.saturating_abs() as f64) + &describe_error(step.error_ns);
    format!("the clock of the {} capture was set {how} by {size}", POINTS[step.point as usize])
}

fn note_capture(notes: &mut Vec<String>, f: &CaptureFacts, point: &str) {
    notes.extend(f.notes.iter().cloned());
    if let Some((link, n)) = f.unknown_link {
        notes.push(format!("{point}: {} of link type {}, which is not supported", count(n, "frame"), link.0));
    }
    if f.too_short > 0 {
        notes.push(format!(
            "{point}: {} captured too short to be identified: capture with -s 0, or at least -s 128",
            count(f.too_short, "packet")
        ));
    }
    if percent(f.truncated, f.frames) > 1.0 {
        notes.push(format!("{point}: {} cut before the end of the headers", count(f.truncated, "frame")));
    }
    if f.malformed > 0 {
        notes.push(format!("{point}: {} skipped", count(f.malformed, "malformed packet")));
    }
    if f.drops > 0 {
        notes.push(format!(
            "{point}: the capture dropped {}, which may explain losses below",
            count(f.drops, "packet")
        ));
    }
    if f.disordered > 0 {
        notes
            .push(format!("{point}: {} out of order in the file, now sorted", count(f.disordered, "packet")));
    }
    notes.extend(
        f.recording
            .steps
            .iter()
            .filter(|step| step.proven)
            .map(|step| format!("{point}: {} at {}", describe_step(step), units::utc_date(step.at))),
    );
    if f.truncated + f.malformed == 0 && f.unknown_link.is_none() {
        notes.extend(f.recording.describe_foreign(f.packets).map(|what| format!("{point}: {what}")));
    }
    notes.extend(f.recording.notes(f.recording.copies).into_iter().map(|note| format!("{point}: {note}")));
}

fn describe_offload(f: &CaptureFacts, point: &str) -> String {
    format!(
        "{point}: {} of up to {} bytes, captured before the adapter segmented them. Capture with \
         `ethtool -K IFACE tso off gso off gro off lro off`",
        count(f.long, "packet"),
        f.longest
    )
}

/// Describes possible reasons why two captures could not be matched. If common packets were found only between
/// addresses other than the requested ones, `elsewhere` is the plan for these addresses.
pub fn explain_no_match(captures: &[CaptureFacts; 2], elsewhere: Option<&MatchPlan>) -> Vec<String> {
    let mut notes = Vec::new();
    for (f, point) in captures.iter().zip(POINTS) {
        let what = f.span.map_or("no packets".to_owned(), |(a, b)| {
            format!(
                "{}, {}, {} to {}",
                count(f.frames, "frame"),
                count(f.packets, "IP packet"),
                units::utc_date(a),
                units::utc_date(b)
            )
        });
        notes.push(format!("{point}: {what}"));
        note_capture(&mut notes, f, point);
    }
    if let (Some(r), Some(m)) = (captures[0].span, captures[1].span)
        && (r.1 < m.0 || m.1 < r.0)
    {
        let gap = if r.1 < m.0 { m.0 - r.1 } else { r.0 - m.1 };
        notes.push(format!(
            "the captures do not overlap in time: they are {} apart, unless a clock is wrong by that much",
            units::eng3(gap.0 as f64)
        ));
    }
    for (f, point) in captures.iter().zip(POINTS) {
        if f.long > 0 && captures.iter().any(|g| g.long == 0) {
            notes.push(describe_offload(f, point));
        }
    }
    if let Some(plan) = elsewhere {
        notes.push(format!(
            "the common packets are between {} and {}; leave out -a and -A to have the addresses found",
            list_prefixes(&plan.sides[0].reference),
            list_prefixes(&plan.sides[1].monitor)
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
