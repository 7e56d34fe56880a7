//! Sentences about the delay that a load adds.

use super::comparison::signed;
use crate::load::{LoadEffect, LoadState};
use jitlat_core::answer::{Level, Severity};
use jitlat_core::spec::Direction;
use jitlat_core::units::bit_rate3;

/// Reason why an added delay has no grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoGrade {
    NotFilled,
    Nothing,
    EndedEarly,
    Unknown,
    OtherDirection,
    NoDelay,
    ClocksSet,
    TooFewPackets,
}

impl NoGrade {
    pub fn text(self) -> &'static str {
        match self {
            NoGrade::NotFilled => "all of the load arrived, so it may not have filled the path",
            NoGrade::Nothing => "nothing of the load arrived",
            NoGrade::EndedEarly => "the load ended before the test did",
            NoGrade::Unknown => "it is unknown how much of the load arrived",
            NoGrade::OtherDirection => "the load was in the other direction",
            NoGrade::NoDelay => "a phase has no packets that arrived",
            NoGrade::ClocksSet => "a clock was set between the phases",
            NoGrade::TooFewPackets => "there are too few packets",
        }
    }
}

/// Returns the effect of a load in one sentence that fits on one line, with a level. `direction` is named if a test has
/// two.
pub fn headline(effect: &LoadEffect, round_trip: bool, direction: Option<Direction>) -> (Level, String) {
    let under_load = match direction {
        None => "Under load",
        Some(Direction::Up) => "Up under load",
        Some(Direction::Down) => "Down under load",
    };
    match effect.state {
        LoadState::Nothing => {
            return (Level::Note, format!("{under_load}: unknown, because nothing of the load arrived."));
        }
        LoadState::EndedEarly => {
            return (Level::Note, format!("{under_load}: unknown, because the load ended before the test."));
        }
        _ => {}
    }
    let Some(added) = &effect.added else {
        let reason = effect.no_grade.as_deref().unwrap_or("no packets arrived");
        return (Level::Note, format!("{under_load}: unknown, because {reason}."));
    };
    let quantity = if round_trip { "round trip" } else { "delay" };
    let (what, [mean, p99]) = match &added.own_queue {
        Some(queue) => ("the sender's own queue", [queue.mean_ns, queue.p99_ns]),
        None => (quantity, [added.mean_ns, added.p99_ns]),
    };
    let grade = effect.grade.as_ref().map(|graded| graded.grade);
    let graded = match grade {
        Some(grade) => format!(": bufferbloat grade {}", grade.name()),
        None => String::new(),
    };
    let level = grade.map_or(Level::Note, |grade| grade.severity().into());
    if !effect.adds() {
        return (level, format!("{under_load}: nothing measurable is added to the {quantity}{graded}."));
    }
    (level, format!("{under_load}: {what} {} mean, {} p99{graded}.", signed(mean), signed(p99)))
}

/// Returns the sentence that the user can send to the provider of a line. `effects` are those of loads that filled the line, each with the
/// direction of its stream (`None`: round trips) and the throughput in bit/s. Returns `None` if no grade is poor, or if a poor one is caused by this
/// host's own queue.
pub fn for_provider(effects: &[(Option<Direction>, &LoadEffect, Option<f64>)]) -> Option<String> {
    let poor = effects.iter().filter_map(|(direction, effect, bps)| {
        let grade = effect.grade.as_ref()?.grade;
        let added = effect.added.filter(|added| added.own_queue.is_none())?;
        (grade.severity() >= Severity::Poor && effect.adds()).then(|| {
            let way = match direction {
                None => "",
                Some(Direction::Up) => " up",
                Some(Direction::Down) => " down",
            };
            let at = bps.map_or_else(String::new, |bps| format!(" at {}", bit_rate3(bps)));
            format!("{}{way}{at}", signed(added.mean_ns))
        })
    });
    let poor: Vec<String> = poor.collect();
    (!poor.is_empty()).then(|| {
        format!(
            "Tell your provider: a full line adds {}; its queue needs management (CAKE, fq_codel or PIE).",
            poor.join(" and ")
        )
    })
}

/// Returns a note with the reason why there is no grade; `None` if there is one, or if the headline gives the reason.
pub fn ungraded(effect: &LoadEffect) -> Option<String> {
    let reason = effect.no_grade.as_deref().filter(|_| effect.added.is_some())?;
    Some(format!("no bufferbloat grade: {reason}"))
}
