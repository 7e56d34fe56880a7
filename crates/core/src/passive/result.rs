//! [`PassiveResult`]: everything that two capture points show.

use super::pipeline::CaptureFacts;
use super::{FlowFigures, IdentityRule, PassiveSummary, Plan, SizeFigures};
use crate::time::Span;

/// What was found, and how.
#[derive(Clone, Debug)]
pub struct PassiveResult {
    /// Whose packets were followed.
    pub plan: Plan,
    /// Whether the user said whose.
    pub addresses_given: bool,
    /// How they were told apart.
    pub identity: IdentityRule,
    /// Longest time a packet may have been under way.
    pub window: Span,
    /// What the captures are like, at the reference and at the monitor point.
    pub captures: [CaptureFacts; 2],
    /// The figures.
    pub summary: PassiveSummary,
    /// Round trips by the sizes of the pair.
    pub sizes: Vec<SizeFigures>,
    /// The flows apart, where they were asked for.
    pub flows: Option<Vec<FlowFigures>>,
}
