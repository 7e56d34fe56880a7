//! Rules for lost packets: lost independently, in bursts, periodically, above a rate, or because of their size.

use super::rule::{CauseRule, Find, FoundCause};
use crate::case::Case;
use crate::law::{ConfinedLoss, LossLaw, LossManner};
use crate::sentences::causes::{
    LossPart, LossSpan, WorstPart, bursty_loss, periodic_loss, policing, random_loss, size_dependent,
};
use crate::severity::of_missing;
use jitlat_core::answer::{CauseId, Severity};

pub const RANDOM: CauseRule = CauseRule {
    id: CauseId::RandomLoss,
    threshold: "four losses and more than 0.1 % with 95 % confidence, without outages and drops of full queues; no other \
                pattern is found",
    source: "ITU-T Y.1541 (0.1 %), 3GPP TS 22.105 (1 and 3 %), Wald and Wolfowitz",
    find: |case| find(case, CauseId::RandomLoss),
};

pub const BURSTY: CauseRule = CauseRule {
    id: CauseId::BurstyLoss,
    threshold: "as random loss, and in the whole test losses follow within 1, 2, 4, … or 128 packets 1.25 times as often as \
                independent losses at the local rate would (0.05 % for each distance), or the runs test rejects independence \
                at 1 % with a burst ratio of 1.25",
    source: "ITU-T G.107 (BurstR), Wald and Wolfowitz, binomial distribution",
    find: |case| find(case, CauseId::BurstyLoss),
};

pub const POLICING: CauseRule = CauseRule {
    id: CauseId::Policing,
    threshold: "as random loss, but equal numbers of packets pass in equal times (a quarter of the variance that independent \
                losses or equal bursts would leave), or losses are at even distances (less than half of the variation of \
                independent losses, or the runs test at 1 %) or where packets were sent closest together; the delay does not \
                rise",
    source: "RFC 2697 (token bucket), Wald and Wolfowitz",
    find: |case| find(case, CauseId::Policing),
};

pub const PERIODIC: CauseRule = CauseRule {
    id: CauseId::PeriodicLoss,
    threshold: "as random loss, in six events or more (five if exactly evenly spaced), of which nine in ten are a multiple of one period apart, within 6 % or \
                a packet; a token bucket would lose a larger share, or nothing at first, or the same packets of each burst; \
                longer losses at regular times may have shorter losses between them",
    source: "definition: loss at regular intervals is a separate cause; RFC 2697 (token bucket)",
    find: |case| find(case, CauseId::PeriodicLoss),
};

pub const SIZE_DEPENDENT: CauseRule = CauseRule {
    id: CauseId::SizeDependent,
    threshold: "nine in ten lost packets are above a size, and these are lost eight times as often as shorter ones",
    source: "RFC 4821 (black holes for long packets)",
    find: |case| find(case, CauseId::SizeDependent),
};

fn find(case: &Case<'_>, wanted: CauseId) -> Vec<FoundCause> {
    let Some(law) = &case.law else { return Vec::new() };
    let id = match law.manner {
        LossManner::Random => CauseId::RandomLoss,
        LossManner::Bursty => CauseId::BurstyLoss,
        LossManner::Policed => CauseId::Policing,
        LossManner::Periodic => CauseId::PeriodicLoss,
        LossManner::BySize(_) => CauseId::SizeDependent,
    };
    if id != wanted {
        return Vec::new();
    }
    let gaps = if id == CauseId::BurstyLoss { case.of_gaps() } else { Severity::Good };
    let severity = of_missing(law.ratio, law.lost, case.scattered.sent).max(gaps);
    let mut found = FoundCause::of(id, severity, law.ratio, law.confidence)
        .packets(case, law.packets[0], law.packets[1])
        .share(law.ratio);
    found.cause.period_s = law.period.map(|period| period.ns / 1e9);
    let times_s = [found.cause.from_s, found.cause.to_s].map(|s| case.begin.of(s));
    let of_part = |part: ConfinedLoss| LossPart { times_s, share: Some(part.ratio), is_all: part.is_all };
    vec![found.because(why(case, law, law.part.map(of_part)))]
}

fn why(case: &Case<'_>, law: &LossLaw, part: Option<LossPart>) -> String {
    let span = LossSpan { part, worst: worst(case, law) };
    let [clusters, mean] = law.clusters;
    match law.manner {
        LossManner::Random => random_loss(law.ratio, span),
        LossManner::Bursty => {
            // If the losses of a cluster are mostly not adjacent, the length of runs does not describe them.
            let adjacent = law.pattern.burst_ratio >= MIN_ADJACENT_RATIO;
            bursty_loss(law.ratio, clusters as u64, mean, adjacent.then_some(law.pattern.burst_ratio), span)
        }
        LossManner::Policed => policing(law.ratio, span),
        LossManner::Periodic => {
            let [period_s, length] = law.period.map_or([0.0; 2], |p| [p.ns / 1e9, p.length]);
            periodic_loss(law.ratio, period_s, length, span)
        }
        LossManner::BySize(size) => size_dependent(law.ratio, size),
    }
}

/// Minimum burst ratio at which the mean length of loss bursts is used as the length of bursts.
const MIN_ADJACENT_RATIO: f64 = 1.5;

/// Number of parts of a test whose loss ratios are compared.
const PARTS: u64 = 10;
/// Minimum number of losses in a part that is reported separately.
const MIN_LOSSES_OF_PART: u64 = 10;

/// Returns the worst tenth of the test if its losses are isolated and clearly more frequent than on average, for
/// example at the peak of a load ramp; otherwise `None`.
fn worst(case: &Case<'_>, law: &LossLaw) -> Option<WorstPart> {
    let end = case.known.end;
    if law.manner != LossManner::Random || law.part.is_some() || end < 100 * PARTS {
        return None;
    }
    let mut lost = [0u64; PARTS as usize];
    for (_, run) in &case.scattered.runs {
        let part = u128::from(run.start) * u128::from(PARTS) / u128::from(end);
        lost[(part as usize).min(PARTS as usize - 1)] += run.len;
    }
    let (part, most) = (0..PARTS).zip(lost).max_by_key(|(_, lost)| *lost)?;
    let expected = law.lost as f64 / PARTS as f64;
    let clear = most as f64 > 2.0 * expected && most as f64 > expected + 4.0 * expected.sqrt();
    let edge = |k: u64| case.begin.of(case.seconds(end * k / PARTS));
    (clear && most >= MIN_LOSSES_OF_PART).then(|| WorstPart {
        share: most as f64 * PARTS as f64 / end as f64,
        from_s: edge(part),
        to_s: edge(part + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::Pattern;
    use crate::periodic::LossPeriod;
    use crate::testing::{found_in, quiet, scattered};

    fn of(rule: &CauseRule, manner: LossManner) -> Option<FoundCause> {
        let pattern = Pattern { z: None, burst_ratio: 2.5, spacing: None };
        let period = LossPeriod { ns: 5e8, packets: 50.0, exact: true, events: 20, length: 1.0, first: 100 };
        let law = LossLaw {
            manner,
            ratio: 0.02,
            lost: 20,
            packets: [100, 899],
            pattern,
            clusters: [4.0, 5.0],
            period: Some(period),
            part: None,
            confidence: 0.8,
        };
        let found = found_in(&quiet(), rule, |case| {
            (case.law, case.scattered) =
                (Some(law), scattered(1000, [(100, 10), (200, 5), (300, 3), (400, 2)]));
        });
        found.into_iter().next()
    }

    #[test]
    fn each_law_is_one_cause() {
        let table = [
            (
                &RANDOM,
                LossManner::Random,
                "2.0 % lost, in isolated losses without a pattern, rising to 10 % from 1.0 s to 2.0 s",
            ),
            (
                &BURSTY,
                LossManner::Bursty,
                "2.0 % lost in 4 bursts of 5.0 packets on average, 2.5 times what random loss would give",
            ),
            (
                &POLICING,
                LossManner::Policed,
                "2.0 % lost at even intervals or at peaks of the rate, without additional delay: a rate limit drops them",
            ),
            (&PERIODIC, LossManner::Periodic, "2.0 % lost at regular intervals: 1 packet every 500 ms"),
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
