//! Sentences about single figures.

use super::numbers::{count, moment, percent};
use jitlat_core::answer::JitterWithoutStep;
use jitlat_core::metrics::regression::TrendVerdict;
use jitlat_core::units::eng3 as time;

/// Finding if no usable packet arrived.
pub const NOTHING: &str = "Nothing usable arrived.";

/// Describes a test without loss in `sent` packets, with the 95 % upper bound of the loss ratio.
pub fn no_loss(sent: u64, bound: f64) -> String {
    format!("No loss in {}: below {} with 95 % confidence.", count(sent, "packet"), percent(bound))
}

/// Describes a test without loss in too few packets for a conclusion.
pub fn no_loss_in_few(sent: u64, bound: f64) -> String {
    format!("No loss, but only {}: loss of up to {} is possible.", count(sent, "packet"), percent(bound))
}

/// Distribution of losses over the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossDistribution {
    /// Losses occur mostly within this number of outages.
    Outages(u64),
    /// Losses occur in bursts.
    Bursts {
        /// Mean number of packets of a burst.
        mean: f64,
        /// Number of packets of the longest burst.
        longest: u64,
    },
    /// Losses are consistent with independent losses.
    Random,
    /// Losses are more evenly spread than independent losses.
    Even,
    /// There are too few losses to decide; contains the length of the longest burst, in packets.
    TooFew(u64),
    /// The distribution is unknown, because only the number of losses is known.
    Unknown,
}

/// Describes the share of packets lost and their distribution.
pub fn loss(share: f64, distribution: LossDistribution) -> String {
    let pattern = match distribution {
        LossDistribution::Outages(1) => ", most of them in one outage".to_owned(),
        LossDistribution::Outages(n) => format!(", most of them in {n} outages"),
        LossDistribution::Bursts { mean, longest } => format!(
            ", in bursts of {mean:.1} packets on average and {longest} at most: concealment and single-packet repair do \
             not cover that"
        ),
        LossDistribution::Random => ", in isolated losses".to_owned(),
        LossDistribution::Even => ", more evenly spread than random loss".to_owned(),
        LossDistribution::TooFew(longest) => {
            format!(", at most {longest} in a row: too few to tell bursts from isolated losses")
        }
        LossDistribution::Unknown => String::new(),
    };
    format!("{} of packets were lost{pattern}.", percent(share))
}

/// Describes the jitter that half of the packets and that 99.9 % of the packets do not exceed, in ns.
pub fn jitter(p50: Option<f64>, p999: f64) -> String {
    match p50 {
        Some(p50) => format!(
            "Jitter: half of the packets arrive within {} of the fastest, 99.9 % within {}.",
            time(p50),
            time(p999)
        ),
        None => format!("Jitter: 99.9 % of the packets arrive within {} of the fastest.", time(p999)),
    }
}

/// Describes the jitter that 99.9 % of the packets do not exceed, in ns: `within` is the jitter between changes of the
/// smallest delay, `whole` the jitter of the whole test.
pub fn jitter_between_steps(within: f64, whole: f64) -> String {
    format!(
        "Jitter: 99.9 % of the packets arrive within {} of the fastest between two changes of the smallest delay, {} over \
         the whole test.",
        time(within),
        time(whole)
    )
}

/// Describes the jitter of a stream during which a clock was set.
pub fn jitter_without_clock_step(without: &JitterWithoutStep) -> String {
    format!(
        "Jitter without {}: half of the packets arrive within {} of the fastest, 99.9 % within {}.",
        the_steps(without),
        time(without.p50_ns as f64),
        time(without.p999_ns as f64)
    )
}

/// Note on a table whose jitter excludes steps of a clock: `jitter and buffer are without the clock step at 3.2 s`.
pub fn without_clock_step(without: &JitterWithoutStep) -> String {
    format!("jitter and buffer are without {}", the_steps(without))
}

/// Note on a drawing whose delays exclude steps of a clock.
pub fn drawn_without_clock_step(without: &JitterWithoutStep) -> String {
    format!("Delays are without {}", the_steps(without))
}

/// Note on a drawing or a table whose delays contain steps of a clock.
pub fn with_clock_step(without: &JitterWithoutStep) -> String {
    format!("Raw delays contain {}", the_steps(without))
}

/// Returns `the clock step at 3.2 s`, or `the 3 clock steps from 3.2 s on`.
fn the_steps(without: &JitterWithoutStep) -> String {
    let at = moment(without.at_ns as f64 / 1e9);
    match without.steps {
        0..=1 => format!("the clock step at {at}"),
        n => format!("the {n} clock steps from {at} on"),
    }
}

/// Describes the share of packets that were reordered.
pub fn reordering(share: f64) -> String {
    format!("{} of packets were reordered.", percent(share))
}

/// Describes a trend of the delay, and the evidence for it.
pub fn trend(verdict: TrendVerdict, because: &str) -> String {
    let what = match verdict {
        TrendVerdict::Overload => "Delay keeps rising: the path carries less than is sent",
        TrendVerdict::Draining => "Delay falls throughout: a queue was emptying",
        TrendVerdict::Skew => "The two clocks run at different rates",
        _ => "Delay changes over the test without a single reason",
    };
    format!("{what} ({because}).")
}

/// Describes the speech quality with a play-out buffer of `ns`.
pub fn buffer(ns: f64, mos: f64, codec: &str, without_outages: bool) -> String {
    let outages = if without_outages { ", not counting outages" } else { "" };
    format!("With a play-out buffer of {} speech is rated MOS {mos:.2} ({codec}){outages}.", time(ns))
}

/// Describes the mean one-way delay after correction of the clocks. `noticed` is true if the delay is long enough to
/// disturb a conversation.
pub fn corrected_delay(mean: f64, bound: Option<f64>, noticed: bool) -> String {
    let bound = bound.map_or_else(String::new, |bound| format!(", +/- {} at most", time(bound)));
    let noticed = if noticed { " Conversation suffers above 150 ms from mouth to ear." } else { "" };
    format!("One-way delay averages {} after correction of the clocks{bound}.{noticed}", time(mean))
}

/// Describes the mean one-way delay between clocks that are synchronised according to both kernels.
pub fn delay(mean: f64, error: f64) -> String {
    format!("One-way delay averages {}, +/- {} according to both kernels' clocks.", time(mean), time(error))
}

/// Kind of the ITU-T Y.1541 class that a path meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// A class for interactive real-time traffic.
    Interactive,
    /// A class for data.
    Data,
    /// The class without bounds.
    Unspecified,
}

/// Describes the best ITU-T Y.1541 class that a path meets.
pub fn class(kind: ClassKind, class: u8, enough_packets: bool, clocks_verified: bool) -> String {
    let sample = if enough_packets { "" } else { "; too few packets to prove its loss bound" };
    let clocks = if clocks_verified { "" } else { "; its delay bound rests on unverified clocks" };
    match kind {
        ClassKind::Interactive => {
            format!("Meets ITU-T Y.1541 class {class} (interactive real-time){sample}{clocks}.")
        }
        ClassKind::Data => format!(
            "Meets ITU-T Y.1541 class {class} only: data, not interactive voice or video{sample}{clocks}."
        ),
        ClassKind::Unspecified => {
            format!("Meets no ITU-T Y.1541 class with bounds, only the unspecified class {class}{clocks}.")
        }
    }
}
