//! [`Comparer`]: compares the packets of a test with those of tests in an earlier period, by the definition in
//! docs/metrics §20.

use crate::alert::TestComparison;
use jitlat_archive::{Archive, ArchiveError, Entered, TestId};
use jitlat_core::Span;
use jitlat_verdict::compare::{
    Basis, Comparison, ComparisonOutcome, ComparisonSettings, ComparisonSide, Statistic, compare,
};
use std::collections::BTreeMap;
use tracing::debug;

/// Number of evenly spaced tests of the earlier period whose packets are read; also the minimum number for a comparison.
const BASELINE_TESTS: usize = 16;
const MIN_BASELINE_TESTS: usize = 5;
/// Maximum number of packets that are read from a test.
const MAX_PACKETS_PER_TEST: u64 = 50_000;
/// Time for which the earlier period of a stream is reused for later tests.
const BASELINE_LIFETIME: Span = Span::seconds(3600);
/// Maximum number of streams whose earlier period is cached.
const MAX_CACHED_STREAMS: usize = 64;

/// Compared quantities. Jitter can always be compared, delay only if the clock offset is known.
const BASES: [Basis; 2] = [Basis::Pdv, Basis::Delay];

/// Compares tests, and caches earlier periods for a while.
#[derive(Default)]
pub struct Comparer {
    /// Cached periods by stream and length. Each has the start of the test for which it was read, and the
    /// packets' jitter and delay.
    earlier: BTreeMap<(i64, i64), (i64, [BaselineTests; 2])>,
}

/// Combined packets of the tests of the earlier period.
struct BaselineTests {
    side: ComparisonSide,
    usual: UsualSpread,
}

/// Usual spread of the medians of one stream's tests while nothing changes. One cause: the packets of each test meet
/// the time slots of a mobile network at a different phase.
struct UsualSpread {
    lowest: f64,
    highest: f64,
}

impl UsualSpread {
    /// Computes the spread of the medians of several tests, in ns.
    fn of(medians: impl Iterator<Item = f64>) -> UsualSpread {
        let none = UsualSpread { lowest: f64::INFINITY, highest: f64::NEG_INFINITY };
        medians.fold(none, |u, m| UsualSpread { lowest: u.lowest.min(m), highest: u.highest.max(m) })
    }

    /// True if `median` lies within the range of the earlier medians, extended on both sides by half of its width.
    fn has(&self, median: f64) -> bool {
        let beside = (self.highest - self.lowest) / 2.0;
        median >= self.lowest - beside && median <= self.highest + beside
    }
}

impl Comparer {
    /// Compares a test with the tests of its stream that began less than `against` before it; `None` if there
    /// are too few, or the packets are missing.
    pub fn compare(&mut self, archive: &Archive, test: &Entered, against: Span) -> Option<TestComparison> {
        self.compared(archive, test, against).unwrap_or_else(|e| {
            debug!("alerts: comparing {}: {e}", test.test);
            None
        })
    }

    fn compared(
        &mut self,
        archive: &Archive,
        test: &Entered,
        against: Span,
    ) -> Result<Option<TestComparison>, ArchiveError> {
        let Some(later) = sides(archive, test.test, "this test")? else { return Ok(None) };
        let key = (test.stream_id, against.0);
        let is_fresh = |(at, _): &(i64, _)| (test.started_ns - at).abs() < BASELINE_LIFETIME.0;
        if !self.earlier.get(&key).is_some_and(is_fresh) {
            let Some(sides) = earlier(archive, test, against)? else { return Ok(None) };
            if self.earlier.len() >= MAX_CACHED_STREAMS {
                self.earlier.clear();
            }
            self.earlier.insert(key, (test.started_ns, sides));
        }
        let Some((_, earlier)) = self.earlier.get(&key) else { return Ok(None) };
        let asked = |basis| ComparisonSettings { basis, seed: 1, ..ComparisonSettings::default() };
        let found: Vec<(Comparison, bool)> = BASES
            .into_iter()
            .zip(earlier.iter().zip(&later))
            .map(|(basis, (earlier, later))| {
                let unusual = later.median.is_some_and(|median| !earlier.usual.has(median));
                (compare(&earlier.side, later, &asked(basis)), unusual)
            })
            .collect();
        let differs =
            |(c, unusual): &(Comparison, bool)| *unusual && c.outcome == ComparisonOutcome::Different;
        let is_worse = |(c, unusual): &(Comparison, bool)| *unusual && c.is_worse();
        // Prefer the worse quantity if one is worse and the other better.
        let first = found
            .iter()
            .find(|c| is_worse(c))
            .or_else(|| found.iter().find(|c| differs(c)))
            .or(found.first());
        Ok(first.map(|found| TestComparison {
            differs: differs(found),
            is_worse: is_worse(found),
            sentence: jitlat_verdict::comparison::sentence(&found.0),
        }))
    }
}

/// Returns jitter and delay of a test; `None` if it has no packets, or too many.
fn sides(archive: &Archive, test: TestId, label: &str) -> Result<Option<[ComparisonSide; 2]>, ArchiveError> {
    let listed = archive.listed(test)?;
    if !listed.has_packets || listed.packets > MAX_PACKETS_PER_TEST {
        return Ok(None);
    }
    let (summary, samples) = archive.analyse(test, &jitlat_verdict::options())?;
    Ok(Some(BASES.map(|basis| ComparisonSide::new(label, &summary, &samples, basis, Statistic::Median))))
}

/// Combines evenly spaced tests before `test`.
fn earlier(
    archive: &Archive,
    test: &Entered,
    against: Span,
) -> Result<Option<[BaselineTests; 2]>, ArchiveError> {
    let from = test.started_ns.saturating_sub(against.0);
    let tests = archive.verdicts(test.stream_id, from, test.started_ns)?.tests;
    let count = tests.len().min(BASELINE_TESTS);
    let mut both: [Vec<ComparisonSide>; 2] = Default::default();
    for k in 0..count {
        let (_, _, id) = tests[k * tests.len() / count];
        let Some(sides) = sides(archive, id, "before")? else { continue };
        both.iter_mut().zip(sides).for_each(|(all, side)| all.push(side));
    }
    if both[0].len() < MIN_BASELINE_TESTS {
        return Ok(None);
    }
    Ok(Some(both.map(|sides| {
        let usual = UsualSpread::of(sides.iter().filter_map(|side| side.median));
        BaselineTests { side: ComparisonSide::pooled("earlier tests", sides), usual }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_differ_by_among_themselves_is_no_change() {
        let usual = UsualSpread::of([30.0, 34.0, 32.0].into_iter());
        let has = [27.9, 28.0, 33.0, 36.0, 36.1].map(|median| usual.has(median));
        assert_eq!(has, [false, true, true, true, false]);
        assert!(!UsualSpread::of(std::iter::empty()).has(30.0), "no test: nothing is known");
    }
}
