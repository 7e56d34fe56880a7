//! [`TestCondition`]: a condition of `--fail-if` on a test.

use jitlat_core::scalars::ScalarCondition;
use jitlat_verdict::load::LoadCondition;
use std::str::FromStr;

/// A condition on a figure or grade of a test, or on the effect of a load.
#[derive(Clone, Debug)]
pub enum TestCondition {
    /// Condition on a figure, a score or a grade.
    Figure(ScalarCondition),
    /// Condition on the effect of `--load`.
    Load(LoadCondition),
}

impl FromStr for TestCondition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<TestCondition, anyhow::Error> {
        Ok(match LoadCondition::is_meant(text) {
            true => TestCondition::Load(text.parse()?),
            false => TestCondition::Figure(text.parse()?),
        })
    }
}

/// Returns the conditions on figures among `conditions`.
pub fn figures(conditions: &[TestCondition]) -> Vec<ScalarCondition> {
    let figure = |condition: &TestCondition| match condition {
        TestCondition::Figure(figure) => Some(figure.clone()),
        TestCondition::Load(_) => None,
    };
    conditions.iter().filter_map(figure).collect()
}

/// Returns the conditions on the effect of a load among `conditions`.
pub fn on_load(conditions: &[TestCondition]) -> impl Iterator<Item = &LoadCondition> {
    conditions.iter().filter_map(|condition| match condition {
        TestCondition::Load(load) => Some(load),
        TestCondition::Figure(_) => None,
    })
}
