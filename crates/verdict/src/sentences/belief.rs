//! Sentences about the reliability of the figures: clocks, sender, stamps and sample.

use super::numbers::count;
use jitlat_core::units::eng3 as time;

/// Sentence for a path about which nothing is known.
pub const NOTHING_KNOWN: &str = "Nothing is known about this path.";

/// Knowledge about the two clocks of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockKnowledge {
    /// Round trips: one clock stamps both ends.
    OneClock,
    /// Clock offset and the bound of its error, both in ns.
    Bounded(f64, f64),
    /// Clock offset, in ns; its error has no known bound.
    Unbounded(f64),
    /// Both kernels report synchronised clocks.
    Synchronised,
    /// The offset is unknown.
    Unknown,
    /// A clock was set during the test.
    Set,
}

/// Describes how the clocks affect the figures.
pub fn clocks(knowledge: ClockKnowledge) -> String {
    match knowledge {
        ClockKnowledge::OneClock => {
            "Round trips: one clock stamps both ends, so absolute round-trip times are known.".to_owned()
        }
        ClockKnowledge::Bounded(offset, bound) => format!(
            "Delay: the clock offset was {} (server - client), known to +/- {}. Corrected delays have this uncertainty; \
             jitter and loss are not affected.",
            time(offset),
            time(bound)
        ),
        ClockKnowledge::Unbounded(offset) => format!(
            "Delay: the clock offset was about {} (server - client); the log does not bound its error. Jitter and loss are \
             not affected.",
            time(offset)
        ),
        ClockKnowledge::Synchronised => {
            "Delay: both kernels report synchronised clocks; the offset between them was not measured. Jitter and \
             loss are not affected."
                .to_owned()
        }
        ClockKnowledge::Unknown => {
            "Delay: the clock offset is unknown, so absolute delays mean nothing; their differences, jitter and loss are \
             not affected."
                .to_owned()
        }
        ClockKnowledge::Set => {
            "Delay: a clock was set during the test, so absolute delays mean nothing; loss is not affected, and jitter is \
             given without the step."
                .to_owned()
        }
    }
}

/// Compares the sender's own timing error at the 99th percentile with the jitter at the same percentile, in ns.
pub fn sender(error: f64, jitter: f64) -> String {
    let compared = match error {
        e if e * 10.0 <= jitter => "which is small compared with",
        e if e * 2.0 <= jitter => "which is not negligible compared with",
        e if e <= jitter * 2.0 => "about as large as",
        _ => "larger than",
    };
    format!(
        "Sender: 99 % of packets left within {} of their scheduled time, {compared} the jitter of {} at the same percentile. \
         Delays count from the actual send times, so they do not include this error.",
        time(error),
        time(jitter)
    )
}

/// Describes the sources of the stamps at both ends. `by_programs` is true if programs read some of them, which makes
/// them subject to scheduling.
pub fn stamps(sent: &[&str], arrived: &[&str], by_programs: bool) -> String {
    let sources = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
    let noise = if by_programs {
        "the hosts' own scheduling is part of the figures, usually about 10 us"
    } else {
        "the hosts' own scheduling is not part of the figures"
    };
    format!("Stamps: {} on sending, {} on arrival; {noise}.", sources(sent), sources(arrived))
}

/// Describes the finest percentile that `packets` packets resolve. `dependent` is true if the delays of neighbouring
/// packets are correlated; `effective` is the number of independent packets that are equally precise, if known.
pub fn sample(packets: u64, dependent: bool, effective: Option<f64>, tcp: bool) -> String {
    let effective = effective.map(|n| n as u64).filter(|n| dependent && *n < packets);
    let finest = match effective.unwrap_or(packets) {
        0..100 => ", too few for the 99th percentile",
        100..1000 => " resolve the 99th percentile, but no higher one",
        1000..3700 => " resolve the 99.9th percentile, but do not bound it from above",
        _ => " resolve the 99.9th percentile and bound it from both sides",
    };
    let worth = effective.map_or(String::new(), |n| {
        format!(", as precise as {n} independent ones because neighbours are correlated")
    });
    let dependent = if dependent && effective.is_none() {
        " Delays of neighbouring packets are correlated, so the sample is worth fewer independent packets."
    } else {
        ""
    };
    let tcp = if tcp { " TCP hides loss and reordering; both appear as delay." } else { "" };
    let packets = count(packets, "packet");
    let then = if worth.is_empty() { "" } else { "," };
    format!(
        "Sample: {packets}{worth}{}{finest}.{dependent}{tcp}",
        if finest.starts_with(',') { "" } else { then }
    )
}
/// Describes causes that the jitter of a test includes and its buffer does not, given the number of each; `None` without
/// any.
pub fn jitter(receiver_stalls: u64, route_changes: u64, drifts: u64) -> Option<String> {
    let name = |n: u64, one: &'static str, several: &'static str| match n {
        0 => None,
        1 => Some(one),
        _ => Some(several),
    };
    let drift = name(drifts, "the drift of the clocks", "the drift of the clocks");
    let parts = [
        name(receiver_stalls, "the receiver's stall", "the receiver's stalls"),
        name(route_changes, "the change of the delay", "the changes of the delay"),
        drift,
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("the jitter includes {}; the buffer does not", parts.join(" and ")))
}
