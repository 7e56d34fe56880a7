//! [`FailCondition`]: a condition under which a comparison fails (`--fail-if`).

use super::{Cell, ComparisonGrid, LabelledRun};
use crate::comparison;
use jitlat_core::scalars::{
    ConditionError, ExactNumber, ScalarCondition, ScalarUnit, Selector, UnknownScalar,
};
use std::str::FromStr;

/// A condition under which a comparison fails.
#[derive(Clone, Debug, PartialEq)]
pub enum FailCondition {
    /// A column is worse than the first in jitter, delay or loss, beyond chance. The headline uses the same criterion.
    Worse,
    /// A column differs from the first in jitter, delay or loss, beyond chance.
    Different,
    /// A figure of any run crosses a threshold.
    Figure(ScalarCondition),
    /// A figure differs from the value in the first column by more than this limit.
    Change(ChangeLimit),
}

/// Limit for the change of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeLimit {
    selector: Selector,
    above: bool,
    limit: Limit,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Limit in the same unit as the figure.
    By(f64),
    /// Limit as a share of the first column's value.
    Share(f64),
}

impl FromStr for FailCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<FailCondition, String> {
        match text.trim() {
            "worse" => return Ok(FailCondition::Worse),
            "different" => return Ok(FailCondition::Different),
            _ => {}
        }
        let Some(at) = text.find(['<', '>']) else {
            return Err(format!(
                "'{text}' is not a condition: write worse, different, loss>1% or jitter-p99>+20%"
            ));
        };
        let threshold = text[at + 1..].trim();
        let sign = match threshold.as_bytes().first() {
            Some(b'+') => 1.0,
            Some(b'-') => -1.0,
            _ => return text.parse().map(FailCondition::Figure).map_err(|e: ConditionError| e.to_string()),
        };
        let selector: Selector = text[..at].trim().parse().map_err(|e: UnknownScalar| e.to_string())?;
        let amount = &threshold[1..];
        let share = amount.trim().strip_suffix('%').filter(|_| selector.scalar.unit != ScalarUnit::Share);
        let limit = match share {
            Some(number) => {
                let number = number.trim().parse::<f64>().ok().filter(|n| n.is_finite());
                Limit::Share(
                    sign * number.ok_or_else(|| format!("'{threshold}' is not a percentage"))? / 100.0,
                )
            }
            None => Limit::By(sign * selector.threshold(amount)?),
        };
        Ok(FailCondition::Change(ChangeLimit {
            selector,
            above: text.as_bytes()[at] == b'>',
            limit,
            text: text.to_owned(),
        }))
    }
}

impl FailCondition {
    /// Describes each violation of this condition.
    pub fn violations(&self, grid: &ComparisonGrid, runs: &[LabelledRun]) -> Vec<String> {
        match self {
            FailCondition::Worse | FailCondition::Different => grid
                .comparisons()
                .filter_map(|(row, c)| {
                    let how = match comparison::SideChange::of(c) {
                        comparison::SideChange::Worse => "worse than",
                        comparison::SideChange::Mixed => "in part worse than",
                        comparison::SideChange::Better if *self == FailCondition::Different => {
                            "different from"
                        }
                        _ => return None,
                    };
                    let of = if row.is_empty() { String::new() } else { format!("{row}: ") };
                    Some(format!("{of}{} is {how} {}", c.b, c.a))
                })
                .collect(),
            FailCondition::Figure(figure) => runs
                .iter()
                .filter_map(|run| Some(format!("{}: {}", run.label, figure.violated(&run.summary)?)))
                .collect(),
            FailCondition::Change(change) => grid
                .rows
                .iter()
                .flat_map(|row| {
                    let mut cells = row.cells.iter().flatten();
                    let first = cells.next();
                    cells.filter_map(move |cell| change.violated(&row.name, first?, cell, runs))
                })
                .collect(),
        }
    }
}

impl ChangeLimit {
    fn violated(&self, row: &str, first: &Cell, cell: &Cell, runs: &[LabelledRun]) -> Option<String> {
        let (a, b) = (self.mean(first, runs)?, self.mean(cell, runs)?);
        let limit = match self.limit {
            Limit::By(by) => by,
            Limit::Share(share) => share * a.abs(),
        };
        let crossed = if self.above { b - a > limit } else { b - a < limit };
        let of = if row.is_empty() { String::new() } else { format!("{row}: ") };
        let show = |v: f64| self.selector.scalar.show(ExactNumber::Real(v));
        crossed.then(|| {
            format!(
                "{of}{} ({} of {} is {}, of {} {})",
                self.text,
                self.selector,
                cell.column,
                show(b),
                first.column,
                show(a)
            )
        })
    }

    /// Returns the mean of the figure over the runs of `cell`; `None` if it is undefined.
    fn mean(&self, cell: &Cell, runs: &[LabelledRun]) -> Option<f64> {
        let values: Vec<f64> = cell
            .members
            .iter()
            .filter_map(|k| Some(self.selector.of(&runs.get(*k)?.summary)?.as_f64()))
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Limit {
        match text.parse() {
            Ok(FailCondition::Change(c)) => c.limit,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn changes_are_absolute_or_relative() {
        assert_eq!(limit("jitter-p99>+5ms"), Limit::By(5e6));
        assert_eq!(limit("jitter-p99>+20%"), Limit::Share(0.2));
        assert_eq!(limit("latency-mean<-10%"), Limit::Share(-0.1));
        assert_eq!(limit("loss>+0.5%"), Limit::By(0.005));
        assert_eq!(limit("mos<-0.3"), Limit::By(-0.3));
        assert!(matches!("loss>1%".parse(), Ok(FailCondition::Figure(_))));
        assert_eq!("worse".parse(), Ok(FailCondition::Worse));
        for bad in
            ["", "better", "loss>+x%", "loss>+1", "speed>+1%", "jitter-p99>+20 apples", "jitter-p99>+NaN%"]
        {
            assert!(bad.parse::<FailCondition>().is_err(), "{bad}");
        }
    }
}
