//! [`CellMetric`]: the number in the cells of the overview.

use super::StreamNow;

/// Number shown for the newest test of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellMetric {
    /// No number: the verdict in a word.
    #[default]
    Verdict,
    /// 99th percentile of the delay, as measured.
    Delay,
    /// 99th percentile of the jitter.
    Jitter,
    /// Share of lost packets.
    Loss,
    /// Mean opinion score.
    Mos,
}

/// A tab: its metric, its name in addresses, and its title with the unit, which the cells omit.
pub struct MetricTab {
    pub metric: CellMetric,
    pub name: &'static str,
    pub title: &'static str,
}

/// All tabs.
pub const METRICS: [MetricTab; 5] = [
    MetricTab { metric: CellMetric::Verdict, name: "verdict", title: "Verdict" },
    MetricTab { metric: CellMetric::Delay, name: "delay", title: "p99 delay, ms" },
    MetricTab { metric: CellMetric::Jitter, name: "jitter", title: "p99 jitter, ms" },
    MetricTab { metric: CellMetric::Loss, name: "loss", title: "Loss, %" },
    MetricTab { metric: CellMetric::Mos, name: "mos", title: "MOS" },
];

impl CellMetric {
    /// Returns the metric with this name in addresses; the verdict if there is none.
    pub fn named(name: Option<&str>) -> CellMetric {
        METRICS.iter().find(|tab| Some(tab.name) == name).map_or(CellMetric::default(), |tab| tab.metric)
    }

    /// Returns the tab of the metric.
    pub fn tab(self) -> &'static MetricTab {
        METRICS.iter().find(|tab| tab.metric == self).unwrap_or(&METRICS[0])
    }

    /// Returns the value of a stream's newest test in the unit of the tab; `None` if it is unknown or not a number.
    pub fn of(self, stream: &StreamNow) -> Option<f64> {
        match self {
            CellMetric::Verdict => None,
            CellMetric::Delay => stream.delay_p99_ns.map(|ns| self.shown(ns)),
            CellMetric::Jitter => stream.jitter_p99_ns.map(|ns| self.shown(ns)),
            CellMetric::Loss => stream.loss.map(|share| self.shown(share)),
            CellMetric::Mos => stream.mos,
        }
    }

    /// Converts a stored value to the unit of the tab.
    pub fn shown(self, value: f64) -> f64 {
        match self {
            CellMetric::Delay | CellMetric::Jitter => value / 1e6,
            CellMetric::Loss => value * 100.0,
            CellMetric::Verdict | CellMetric::Mos => value,
        }
    }

    /// Returns the key of the stored figure whose last day is drawn; for the verdict, that of the jitter.
    pub fn key(self) -> &'static str {
        match self {
            CellMetric::Delay => "latency-p99",
            CellMetric::Verdict | CellMetric::Jitter => "pdv-p99",
            CellMetric::Loss => "loss",
            CellMetric::Mos => "mos",
        }
    }

    /// Returns the metric whose last day is shown.
    pub fn of_last_day(self) -> CellMetric {
        if self == CellMetric::Verdict { CellMetric::Jitter } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_tab() {
        for tab in &METRICS {
            assert_eq!(CellMetric::named(Some(tab.name)), tab.metric);
            assert_eq!(tab.metric.tab().name, tab.name);
        }
        assert_eq!(CellMetric::named(Some("x")), CellMetric::Verdict);
    }
}
