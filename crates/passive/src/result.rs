//! [`PassiveResult`]: the result of an analysis of two capture points.

use super::pipeline::{CaptureFacts, PointStep};
use super::{FlowFigures, IdentityRule, MatchPlan, PassiveSummary, SizeFigures};
use jitlat_core::time::Span;

/// Results, and how they were obtained.
#[derive(Clone, Debug)]
pub struct PassiveResult {
    /// Addresses, direction and offset used.
    pub plan: MatchPlan,
    /// True if the user specified the addresses.
    pub addresses_given: bool,
    /// Rule by which packets were identified.
    pub identity: IdentityRule,
    /// Longest transit time of a packet between the two points.
    pub window: Span,
    /// Facts about the captures at the reference and at the monitor point.
    pub captures: [CaptureFacts; 2],
    /// Results for the path.
    pub summary: PassiveSummary,
    /// Round trips by the packet sizes of the pair.
    pub sizes: Vec<SizeFigures>,
    /// Steps of the clock of either point that only both captures together show. The results are corrected for them.
    pub clock_steps: Vec<PointStep>,
    /// Results of each flow; `None` if not requested.
    pub flows: Option<Vec<FlowFigures>>,
}
