//! [`DrawnRun`]: a run, as input for figures.

use super::axis::{AxisUnit, value_label};
use super::trace::Trace;
use jitlat_core::summary::Summary;

/// A run, as input for figures.
#[derive(Clone, Copy, Debug)]
pub struct DrawnRun<'a> {
    /// Name in titles, if there are several; empty for a single run.
    pub label: &'a str,
    /// Summary of the run.
    pub summary: &'a Summary,
    /// Packets of the run; `None` if only the summary is known.
    pub trace: Option<&'a Trace>,
    /// True if latency is corrected by the clock estimate where one is known (`-L`); false if raw latency is shown.
    pub corrected: bool,
}

impl DrawnRun<'_> {
    /// Value subtracted from each delay shown, in ns; `None` if there is none.
    pub(super) fn correction(&self) -> Option<i64> {
        self.summary.clock.correction_ns.filter(|_| self.corrected && !self.is_round_trip())
    }

    pub(super) fn is_round_trip(&self) -> bool {
        self.summary.two_way.is_some()
    }

    /// Describes the delays of the run: round trips or one-way, with or without the clock offset.
    pub(super) fn delay(&self) -> &'static str {
        match (self.is_round_trip(), self.correction()) {
            (true, _) => "round trip",
            (false, Some(_)) => "one-way latency, corrected",
            (false, None) => "one-way latency, not corrected",
        }
    }

    /// Returns a note on the reliability of absolute one-way delays; `None` for round trips.
    pub(super) fn position(&self) -> Option<String> {
        let clock = &self.summary.clock;
        if self.is_round_trip() {
            return None;
        }
        let Some(correction) = self.correction() else {
            return Some(match clock.correction_ns {
                Some(_) => "Latency is not corrected for the clock offset; -L corrects it.".into(),
                None => {
                    "Latency compares two clocks with an unknown offset and is not corrected: the shape is \
                         reliable, the position is not."
                        .into()
                }
            });
        };
        let known =
            clock.bound_ns.map(|b| format!(", which is known to ±{}", value_label(AxisUnit::Time, b)));
        Some(format!(
            "Corrected by the estimated clock offset: {} less than measured{}.",
            value_label(AxisUnit::Time, correction as f64),
            known.unwrap_or_default()
        ))
    }

    pub(super) fn titled(&self, title: &str) -> String {
        if self.label.is_empty() { title.to_owned() } else { format!("{title} – {}", self.label) }
    }
}
