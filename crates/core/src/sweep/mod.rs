//! A sweep repeats the same test under every combination of some conditions, in random order.
//!
//! * [`SweepGrid`] – the conditions and their combinations; [`order`] – the order of the runs
//! * [`RunOutcome`] – the result of one run
//! * [`points`] – mean and confidence interval of each combination over its repetitions
//! * [`size_laws`] – delay as a function of packet size (metrics §21)

mod estimate;
mod outcome;

pub use estimate::{
    ConfidenceLevel, Estimate, SizeLaw, SweepPoint, points, size_laws, with_intervals_of_packets,
};
pub use outcome::{RunFigures, RunOutcome};

use core::fmt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// A condition that is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// Packet size in bytes, as `-l` counts it.
    Payload,
    /// Time between packets.
    Period,
    /// Time from an answer to the next request.
    Wait,
    /// DSCP of the packets.
    Dscp,
    /// Priority within the sending host.
    Priority,
    /// Wi-Fi access category of the packets.
    Category,
    /// Protocol of two-way tests, and the kind of stamps.
    Protocol,
    /// Transport protocol: UDP or TCP.
    Transport,
    /// Background load on the path.
    Load,
    /// A number that distinguishes saved tests, for example the value of a distance tag.
    Number,
    /// A label that distinguishes saved tests; each value is drawn as a separate curve.
    Group,
}

impl Factor {
    /// Returns true if the values are quantities that can be shown on a numeric axis.
    pub fn is_quantity(self) -> bool {
        matches!(self, Factor::Payload | Factor::Period | Factor::Wait | Factor::Number)
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Factor::Payload => "payload",
            Factor::Period => "period",
            Factor::Wait => "wait",
            Factor::Dscp => "DSCP",
            Factor::Priority => "priority",
            Factor::Category => "category",
            Factor::Protocol => "protocol",
            Factor::Transport => "transport",
            Factor::Load => "load",
            Factor::Number => "number",
            Factor::Group => "group",
        })
    }
}

/// One value of a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactorLevel {
    /// Value as written by the user, and as passed to the test's option.
    pub text: String,
    /// Value in bytes or ns; `None` if it is not a quantity.
    pub number: Option<f64>,
}

/// One condition with all its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepAxis {
    /// Condition that is varied.
    pub factor: Factor,
    /// Name for readers, with the unit in parentheses if there is one; `None` to use the name of the factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values in the order in which the user gave them.
    pub levels: Vec<FactorLevel>,
}

impl SweepAxis {
    /// Creates an axis that has the factor's own name.
    pub fn new(factor: Factor, levels: Vec<FactorLevel>) -> SweepAxis {
        SweepAxis { factor, name: None, levels }
    }

    /// Returns the name for readers.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.factor.to_string())
    }

    /// Returns the name for readers without the unit.
    pub fn label_without_unit(&self) -> String {
        let label = self.label();
        label.split_once(" (").map_or(label.clone(), |(name, _)| name.to_owned())
    }

    /// Returns true if the levels can be shown on a numeric axis.
    pub fn is_quantity(&self) -> bool {
        self.factor.is_quantity() && self.levels.iter().all(|l| l.number.is_some())
    }
}

/// All combinations of the conditions. The last axis varies fastest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepGrid {
    /// Axes, each with at least one level.
    pub axes: Vec<SweepAxis>,
}

impl SweepGrid {
    /// Returns the number of combinations; `None` if it overflows.
    pub fn cells(&self) -> Option<usize> {
        self.axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.levels.len()))
    }

    /// Returns the level of each axis in combination `cell`.
    pub fn levels(&self, cell: usize) -> Vec<(Factor, &FactorLevel)> {
        let mut rest = cell;
        let mut found: Vec<_> = self
            .axes
            .iter()
            .rev()
            .filter_map(|axis| {
                let count = axis.levels.len().max(1);
                let level = axis.levels.get(rest % count)?;
                rest /= count;
                Some((axis.factor, level))
            })
            .collect();
        found.reverse();
        found
    }

    /// Returns the level of `factor` in combination `cell`; `None` if the factor is not varied.
    pub fn level(&self, cell: usize, factor: Factor) -> Option<&FactorLevel> {
        self.levels(cell).into_iter().find(|(f, _)| *f == factor).map(|(_, level)| level)
    }

    /// Returns the name of `factor` for readers.
    pub fn label(&self, factor: Factor) -> String {
        self.axes.iter().find(|a| a.factor == factor).map_or_else(|| factor.to_string(), SweepAxis::label)
    }

    /// Returns the name of combination `cell`: the levels of all axes with several levels, without the axis `except`.
    pub fn name(&self, cell: usize, except: Option<Factor>) -> String {
        let varied = |f: Factor| self.axes.iter().any(|a| a.factor == f && a.levels.len() > 1);
        let alone = !self.axes.iter().any(|a| a.levels.len() > 1);
        let shown =
            self.levels(cell).into_iter().filter(|(f, _)| Some(*f) != except && (alone || varied(*f)));
        let parts: Vec<String> = shown
            .map(|(f, level)| match f {
                Factor::Protocol | Factor::Transport | Factor::Dscp | Factor::Category | Factor::Group => {
                    level.text.clone()
                }
                Factor::Payload => format!("{} bytes", level.text),
                _ => {
                    let axis = self.axes.iter().find(|a| a.factor == f);
                    let name = axis.map_or_else(|| f.to_string(), SweepAxis::label_without_unit);
                    format!("{name} {}", level.text)
                }
            })
            .collect();
        parts.join(", ")
    }

    /// Returns the horizontal axis of figures: the quantity with the most values, otherwise the first axis.
    pub fn main_axis(&self) -> Option<&SweepAxis> {
        let quantity = |a: &&SweepAxis| a.levels.len() > 1 && a.is_quantity();
        let longest = self.axes.iter().filter(quantity).max_by_key(|a| a.levels.len());
        longest.or_else(|| self.axes.iter().find(|a| a.levels.len() > 1)).or(self.axes.first())
    }
}

/// A run: a combination and the number of its repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepRun {
    /// Index of the combination in the grid.
    pub cell: usize,
    /// Number of the repetition, from 0.
    pub repetition: u32,
}

/// Returns the order of the runs: repetition by repetition, so that a drift of the path affects all combinations
/// equally. Each repetition is shuffled with `seed`; with `None`, the combinations stay in the given order.
pub fn order(cells: usize, repetitions: u32, seed: Option<u64>) -> Vec<SweepRun> {
    let mut rng = seed.map(ChaCha8Rng::seed_from_u64);
    let mut all = Vec::new();
    for repetition in 0..repetitions {
        let mut block: Vec<usize> = (0..cells).collect();
        if let Some(rng) = &mut rng {
            // Fisher–Yates shuffle. The bias from taking a remainder is below cells/2⁶⁴.
            for i in (1..block.len()).rev() {
                let j = (rng.next_u64() % (i as u64 + 1)) as usize;
                block.swap(i, j);
            }
        }
        all.extend(block.into_iter().map(|cell| SweepRun { cell, repetition }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(factor: Factor, texts: &[&str]) -> SweepAxis {
        let level = |t: &&str| FactorLevel { text: (*t).to_owned(), number: t.parse().ok() };
        SweepAxis::new(factor, texts.iter().map(level).collect())
    }

    #[test]
    fn every_combination_once() {
        let grid = SweepGrid {
            axes: vec![
                axis(Factor::Payload, &["40", "80", "120"]),
                axis(Factor::Protocol, &["icmp", "lamp"]),
            ],
        };
        assert_eq!(grid.cells(), Some(6));
        let names: Vec<String> = (0..6).map(|c| grid.name(c, None)).collect();
        assert_eq!(names[..3], ["40 bytes, icmp", "40 bytes, lamp", "80 bytes, icmp"]);
        assert_eq!(grid.name(5, Some(Factor::Payload)), "lamp");
        assert_eq!(grid.level(4, Factor::Payload).unwrap().number, Some(120.0));
        assert_eq!(grid.main_axis().unwrap().factor, Factor::Payload);
        assert_eq!(SweepGrid::default().cells(), Some(1));
    }

    #[test]
    fn an_order_is_random_within_repetitions_and_reproducible() {
        let runs = order(8, 3, Some(7));
        assert_eq!(runs, order(8, 3, Some(7)));
        assert_ne!(runs, order(8, 3, Some(8)));
        for (r, block) in runs.chunks(8).enumerate() {
            let mut cells: Vec<usize> = block.iter().map(|run| run.cell).collect();
            assert!(block.iter().all(|run| run.repetition as usize == r));
            cells.sort_unstable();
            assert_eq!(cells, (0..8).collect::<Vec<_>>());
        }
        assert_eq!(order(3, 1, None).iter().map(|r| r.cell).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
