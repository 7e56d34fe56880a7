//! Packets lost one by one, in bursts, above a rate, or by their size.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::law::{LossLaw, LossManner};
use crate::sentences::causes::{bursty_loss, policing, random_loss, size_dependent};
use crate::severity::of_missing;
use jitlat_core::answer::CauseId;

pub const RANDOM: CauseRule = CauseRule {
    id: CauseId::RandomLoss,
    threshold: "four losses and more than 0.1 % with 95 % confidence, beside outages and full queues; the runs test finds \
                no pattern, or the burst ratio is below 1.25",
    source: "ITU-T Y.1541 (0.1 %), G.1010 (1 and 3 %), Wald and Wolfowitz",
    find: |case| find(case, CauseId::RandomLoss),
};

pub const BURSTY: CauseRule = CauseRule {
    id: CauseId::BurstyLoss,
    threshold: "as random loss, and the runs test rejects independence at 1 % with a burst ratio of 1.25 or more",
    source: "ITU-T G.107 (BurstR), Wald and Wolfowitz",
    find: |case| find(case, CauseId::BurstyLoss),
};

pub const POLICING: CauseRule = CauseRule {
    id: CauseId::Policing,
    threshold: "as random loss, but as many packets come through in equal times whatever is sent (a quarter of the variance \
                that chance, or bursts as long, would leave), or losses at even distances (their variation below half of \
                chance's, or the runs test at 1 %), or where packets were sent closest together; delay does not rise with it",
    source: "RFC 2697 (token bucket), Wald and Wolfowitz",
    find: |case| find(case, CauseId::Policing),
};

pub const SIZE_DEPENDENT: CauseRule = CauseRule {
    id: CauseId::SizeDependent,
    threshold: "nine of ten losses are of packets above a size, lost eight times as often as shorter ones",
    source: "RFC 4821 (black holes for long packets)",
    find: |case| find(case, CauseId::SizeDependent),
};

fn find(case: &Case<'_>, wanted: CauseId) -> Vec<FoundCause> {
    let Some(law) = &case.law else { return Vec::new() };
    let id = match law.manner {
        LossManner::Random => CauseId::RandomLoss,
        LossManner::Bursty => CauseId::BurstyLoss,
        LossManner::Policed => CauseId::Policing,
        LossManner::BySize(_) => CauseId::SizeDependent,
    };
    if id != wanted {
        return Vec::new();
    }
    let severity = of_missing(law.ratio, law.lost, case.scattered.sent);
    let found = FoundCause::of(id, severity, law.ratio, law.confidence)
        .packets(case, law.packets[0], law.packets[1])
        .share(law.ratio);
    vec![found.because(why(case, law))]
}

fn why(case: &Case<'_>, law: &LossLaw) -> String {
    let runs = case.scattered.runs.len() as u64;
    let mean = law.lost as f64 / runs.max(1) as f64;
    match law.manner {
        LossManner::Random => random_loss(law.ratio),
        LossManner::Bursty => bursty_loss(law.ratio, runs, mean, law.pattern.burst_ratio),
        LossManner::Policed => policing(law.ratio),
        LossManner::BySize(size) => size_dependent(law.ratio, size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::Pattern;
    use crate::testing::{found_in, quiet, scattered};

    fn of(rule: &CauseRule, manner: LossManner) -> Option<FoundCause> {
        let pattern = Pattern { z: None, burst_ratio: 2.5, spacing: None };
        let law = LossLaw { manner, ratio: 0.02, lost: 20, packets: [100, 899], pattern, confidence: 0.8 };
        let found = found_in(&quiet(), rule, |case| {
            (case.law, case.scattered) =
                (Some(law), scattered(1000, [(100, 10), (200, 5), (300, 3), (400, 2)]));
        });
        found.into_iter().next()
    }

    #[test]
    fn each_law_is_one_cause() {
        let table = [
            (&RANDOM, LossManner::Random, "2.0 % lost, in isolated losses without a pattern"),
            (
                &BURSTY,
                LossManner::Bursty,
                "2.0 % lost in 4 bursts of 5.0 packets on average, 2.5 times what random loss would give",
            ),
            (
                &POLICING,
                LossManner::Policed,
                "2.0 % lost at even distances, or where most was sent, without additional delay: a rate limit drops them",
            ),
            (
                &SIZE_DEPENDENT,
                LossManner::BySize(700),
                "2.0 % lost, all of 700 bytes or more; shorter packets pass",
            ),
        ];
        for (rule, manner, because) in &table {
            for (other, ..) in &table {
                assert_eq!(of(other, *manner).is_some(), other.id == rule.id);
            }
            let found = of(rule, *manner).unwrap();
            assert_eq!((found.cause.id, found.cause.because.as_str()), (rule.id, *because));
            assert_eq!((found.cause.packets, found.cause.confidence, found.harm), ([100, 899], 0.8, 0.02));
            assert_eq!(found.cause.severity, of_missing(0.02, 20, 1000));
        }
        assert!(found_in(&quiet(), &RANDOM, |_| ()).is_empty());
    }
}
