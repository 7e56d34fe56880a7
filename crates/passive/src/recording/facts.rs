//! [`RecordingFacts`]: effects of a recording itself on its packets (times, copies, fragments, tunnels), and counts of
//! the frames that are not analysed.

use crate::foreign::Foreign;
use crate::numbers::count;
use jitlat_core::time::{Span, WallTime};
use jitlat_core::units;
use serde::{Deserialize, Serialize};

/// Maximum number of steps that are listed.
pub(crate) const MAX_STEPS: usize = 64;

/// Step of the recording's clock, which was set during the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedStep {
    /// Last time before the step, in ns since 1970.
    pub at: WallTime,
    /// Change of the clock, in ns; positive if it was set forward.
    pub by_ns: Span,
    /// Largest error of `by_ns`, in ns: from the senders' clocks or intervals, and their differences; null if no sender
    /// shows the size of the step.
    #[serde(default)]
    pub error_ns: Option<Span>,
    /// True if senders show that the clock was set; false if only the times show it, so that recordings may have been
    /// appended to one another instead.
    pub proven: bool,
}

/// Effects of a recording itself on its packets, and counts of the frames that are not analysed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingFacts {
    /// First 64 steps of the recording's clock. Times after a step are corrected by the size of the step.
    pub steps: Vec<RecordedStep>,
    /// Smallest difference between two times that the recording can show; `None` if it is below 0.1 ms or unknown.
    pub resolution: Option<Span>,
    /// Number of frames recorded after a frame with a later time.
    pub disordered: u64,
    /// Number of packets recorded again at another place. These copies are left out.
    pub copies: u64,
    /// Number of fragments, number of packets put together from fragments, and number of packets that could not be put
    /// together.
    pub fragments: [u64; 3],
    /// Number of packets taken out of tunnels.
    pub tunnelled: u64,
    /// Number of TCP connections recorded on both sides of an address translation, and number of segments of the second
    /// side. These segments are left out.
    #[serde(default)]
    pub translated: [u64; 2],
    /// Frames and packets that were not analysed, by type.
    pub foreign: Foreign,
}

impl RecordingFacts {
    /// Adds the facts of the following part of the recording.
    pub fn append(&mut self, next: RecordingFacts) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        let room = MAX_STEPS.saturating_sub(self.steps.len());
        self.steps.extend(next.steps.into_iter().take(room));
        self.resolution = self.resolution.and_then(|mine| Some(mine.min(next.resolution?)));
        add(&mut self.disordered, next.disordered);
        add(&mut self.copies, next.copies);
        self.fragments.iter_mut().zip(next.fragments).for_each(|(a, b)| add(a, b));
        add(&mut self.tunnelled, next.tunnelled);
        self.translated.iter_mut().zip(next.translated).for_each(|(a, b)| add(a, b));
        self.foreign.add(&next.foreign);
    }

    /// Returns notes about the recording for readers of its results. `copies` is the number of copies that were left
    /// out.
    pub fn notes(&self, copies: u64) -> Vec<String> {
        let mut notes: Vec<String> =
            self.steps.iter().filter(|step| !step.proven).map(describe_step).collect();
        if copies > 0 {
            notes.push(format!(
                "the recording contains {} more than once (several interfaces, or both ports of a mirror): the copies are left out",
                count(copies, "packet")
            ));
        }
        let [connections, segments] = self.translated;
        if connections > 0 {
            notes.push(format!(
                "the recording contains {} on both sides of an address translation (NAT): {} of the second side are left out",
                count(connections, "connection"),
                count(segments, "segment")
            ));
        }
        let [_, whole, incomplete] = self.fragments;
        if whole + incomplete > 0 {
            notes.push(match (whole, incomplete) {
                (0, _) => {
                    format!("{} could not be put together from their fragments", count(incomplete, "packet"))
                }
                (_, 0) => format!("{} put together from fragments", count(whole, "packet")),
                _ => format!(
                    "{} put together from fragments; {} could not be put together",
                    count(whole, "packet"),
                    count(incomplete, "other packet")
                ),
            });
        }
        if self.tunnelled > 0 {
            notes.push(format!(
                "{} in tunnels: the packets inside are analysed",
                count(self.tunnelled, "packet")
            ));
        }
        notes
    }
}

impl RecordingFacts {
    /// Describes the frames and packets that were not analysed; `None` if they hide no packets and are at most a
    /// twentieth of the `packets` that were analysed.
    pub fn describe_foreign(&self, packets: u64) -> Option<String> {
        let list = self.foreign.list();
        let all: u64 = list.iter().map(|(_, n)| n).sum();
        let hides = list.iter().any(|(name, _)| name.starts_with("ESP") || name.starts_with("GRE"));
        let what = self.foreign.describe().filter(|_| hides || all * 20 > packets)?;
        Some(format!("not analysed: {what}"))
    }
}

/// Describes the largest error of the size of a step, to two digits: ` +/- 1.1 ms`; empty if it is unknown.
pub fn describe_error(error: Option<Span>) -> String {
    error.map_or(String::new(), |error| format!(" +/- {}", jitlat_verdict::time(error.0 as f64)))
}

/// Describes a step of the recording's clock.
pub fn describe_step(step: &RecordedStep) -> String {
    let how = if step.by_ns.0 < 0 { "back" } else { "forward" };
    let size = units::eng3(step.by_ns.0.saturating_abs() as f64);
    match step.proven {
        true => format!("the recording's clock was set {how} by {size}{}", describe_error(step.error_ns)),
        false => format!(
            "the recorded times go {how} by {size} at {}: the clock was set, or recordings were appended",
            units::utc_date(step.at)
        ),
    }
}
