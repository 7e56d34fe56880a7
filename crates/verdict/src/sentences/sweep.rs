//! Sentences about a sweep.

use crate::sweep::ConditionEffect;
use jitlat_core::answer::Severity;
use jitlat_core::units::eng3;

/// The worst point of a sweep.
#[derive(Clone, Debug)]
pub struct WorstPoint {
    /// Name of the combination.
    pub name: String,
    /// Number of other combinations that are equally bad.
    pub others: usize,
    /// Share of packets lost at this point, 0…1.
    pub lost: f64,
}

/// Second half of a sweep's headline.
#[derive(Clone, Copy, Debug)]
pub enum SweepChange<'a> {
    /// Every condition had only one value.
    NothingVaried,
    /// No condition changes the delay by more than the variation between runs; contains the largest change.
    NothingCertain(&'a ConditionEffect),
    /// Each combination was run only once; contains the largest change.
    SingleRuns(&'a ConditionEffect),
    /// A condition changes the delay by more than the variation between runs; contains the largest change.
    Certain(&'a ConditionEffect),
}

/// Returns the headline of a sweep. `too_few` is the minimum number of packets if no combination reached it.
pub fn headline(
    severity: Severity,
    worst: Option<WorstPoint>,
    too_few: Option<u64>,
    change: SweepChange<'_>,
) -> String {
    let name = ["No verdict", "Good throughout", "Fair", "Poor", "Bad"][severity as usize];
    let place = worst.map_or_else(String::new, |worst| {
        let more = if worst.others > 0 { format!(" and {} more", worst.others) } else { String::new() };
        format!(" at {}{more} ({:.1} % lost)", worst.name, 100.0 * worst.lost)
    });
    let few = too_few.map_or_else(String::new, |n| format!(": fewer than {n} packets each"));
    let what = match change {
        SweepChange::NothingVaried => "nothing was varied".to_owned(),
        SweepChange::NothingCertain(c) => format!(
            "no change along the sweep exceeds the variation between runs (delay {} to {})",
            eng3(c.least.1),
            eng3(c.most.1)
        ),
        SweepChange::SingleRuns(c) => format!("{}, from one run per combination", effect(c)),
        SweepChange::Certain(c) => effect(c),
    };
    format!("{name}{place}{few}; {what}.")
}

/// Returns the effect of a condition: `delay grows with payload: 120 us at 60, 1.45 ms at 1460`.
pub fn effect(effect: &ConditionEffect) -> String {
    let with = match effect.trend {
        Some(true) => "grows with",
        Some(false) => "shrinks with",
        None => "depends on",
    };
    let others = if effect.others.is_empty() { String::new() } else { format!(" ({})", effect.others) };
    let at = |(level, mean): &(String, f64)| format!("{} at {level}", eng3(*mean));
    let ends = match effect.trend {
        Some(false) => format!("{}, {}", at(&effect.most), at(&effect.least)),
        _ => format!("{}, {}", at(&effect.least), at(&effect.most)),
    };
    format!("delay {with} {}: {ends}{others}", effect.axis)
}
