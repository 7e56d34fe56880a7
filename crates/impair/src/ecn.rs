//! [`EcnRule`]: a box on the path that rewrites the marks of packets, or drops packets by their mark.

use super::chance::unit;
use jitlat_core::ecn::Ecn;
use rand_chacha::ChaCha8Rng;

/// Effect on packets with certain marks. Bleaching, re-marking, marking without a queue and dropping of ECT packets are
/// all rules of this form.
#[derive(Clone, Debug, PartialEq)]
pub struct EcnRule {
    /// Marks to which the rule applies.
    pub from: Vec<Ecn>,
    /// Mark that these packets get; `None`: they are dropped.
    pub to: Option<Ecn>,
    /// Probability that the rule applies to such a packet: less than 1 if only one of several routes has the box.
    pub share: f64,
}

impl EcnRule {
    /// Applies `rules` in their order to a packet with the mark `mark`. Returns its new mark; `None` if it is dropped.
    pub(super) fn apply(rules: &[EcnRule], mut mark: Ecn, rng: &mut ChaCha8Rng) -> Option<Ecn> {
        for rule in rules {
            // A random number is drawn regardless of the mark, so that the results for later packets do not depend on it.
            let chosen = rule.share >= 1.0 || unit(rng) < rule.share;
            if chosen && rule.from.contains(&mark) {
                mark = rule.to?;
            }
        }
        Some(mark)
    }
}
