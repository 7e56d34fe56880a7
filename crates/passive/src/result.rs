//! [`PassiveResult`]: the result of two capture points.

use super::pipeline::CaptureFacts;
use super::{FlowFigures, IdentityRule, MatchPlan, PassiveSummary, SizeFigures};
use jitlat_core::time::Span;

/// The results, and how they were obtained.
#[derive(Clone, Debug)]
pub struct PassiveResult {
    /// The addresses, direction and offset used.
    pub plan: MatchPlan,
    /// Whether the user has given the addresses.
    pub addresses_given: bool,
    /// How packets were identified.
    pub identity: IdentityRule,
    /// Longest time between the passages of a packet at both points.
    pub window: Span,
    /// Facts about the captures at the reference and at the monitor point.
    pub captures: [CaptureFacts; 2],
    /// The figures.
    pub summary: PassiveSummary,
    /// Round trips by the sizes of the pair.
    pub sizes: Vec<SizeFigures>,
    /// The figures of each flow; `None` if not requested.
    pub flows: Option<Vec<FlowFigures>>,
}
