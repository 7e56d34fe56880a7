//! [`Layers`]: makes the plan for two captures of which one or both contain tunnels.

use crate::survey::{MatchPlan, NoPlan, PacketPreview, Sides, survey};

/// Previews of the packets of both points, and of the packets inside tunnels at the points that have tunnels.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// Packets as they were captured, of the reference and the monitor point.
    pub outer: [&'a [PacketPreview]; 2],
    /// Packets inside tunnels, and packets that are not in tunnels; `None` for a point without tunnels.
    pub inner: [Option<&'a [PacketPreview]>; 2],
}

impl Layers<'_> {
    /// Makes the plan for matching the packets of both points; `asked` are the addresses given by the user. If
    /// `innermost` is false, tunnels stay closed unless opening those of one point or both more than doubles the number
    /// of packets in common.
    ///
    /// # Errors
    /// Reason why the packets cannot be matched.
    pub fn survey(&self, asked: Option<&Sides>, innermost: bool) -> Result<MatchPlan, NoPlan> {
        if innermost && self.inner.iter().any(Option::is_some) {
            let inside = self.inner.map(|inner| inner.is_some());
            let [r, m] = [0, 1].map(|k| self.inner[k].unwrap_or(self.outer[k]));
            return survey(r, m, asked).map(|plan| MatchPlan { inside, ..plan });
        }
        let mut best = survey(self.outer[0], self.outer[1], asked);
        let common = |plan: &Result<MatchPlan, NoPlan>| plan.as_ref().map_or(0, |plan| plan.common);
        for inside in [[true, false], [false, true], [true, true]] {
            let of = |k: usize| if inside[k] { self.inner[k] } else { Some(self.outer[k]) };
            if let (Some(r), Some(m)) = (of(0), of(1)) {
                let plan = survey(r, m, asked).map(|plan| MatchPlan { inside, ..plan });
                if common(&plan) > 2 * common(&best) {
                    best = plan;
                }
            }
        }
        best
    }
}
