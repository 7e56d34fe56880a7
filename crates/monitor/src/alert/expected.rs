//! [`expected_paths`]: the paths that should have results according to the file. [`hold`]: time for which messages about them are held.

use super::condition::AlertCondition;
use super::last_seen::ARRIVAL;
use super::rule::{AlertRule, RuleKind};
use crate::group::HostPair;
use crate::model::{Model, SendingHosts};
use crate::window::TimeWindow;
use jitlat_core::Span;

/// Longest time for which the message of an alert is held, to find what the paths have in common.
const MAX_HOLD: Span = Span::seconds(120);

/// Returns the time for which the message of an alert is held, so that the other paths of a host are tested meanwhile; at
/// most [`MAX_HOLD`]. With the longest period of the paths that the rule covers it is:
///
/// * for results: as many periods as another path needs to become as bad, and [`ARRIVAL`]
/// * for missing results: one period; zero if the rule waits longer than two periods and ten seconds, because other hosts
///   are seen several times in this time
/// * for changes of routes: half the shortest time between two examinations
///
/// It is zero if the rule covers only one path.
pub(super) fn hold(model: &Model, rule: &AlertRule) -> Span {
    let is_of_routes = matches!(&rule.kind, RuleKind::Results { conditions, .. } if conditions.contains(&AlertCondition::RouteChanged));
    if is_of_routes {
        // The next examination of the same route usually resolves the alert, and no message is sent about an alert that
        // is resolved while its message is held.
        let own =
            model.routes.iter().filter(|route| rule.tests.is_empty() || rule.tests.contains(&route.name));
        return own.map(|route| Span(route.every.0 / 2)).min().map_or(Span::ZERO, |half| half.min(MAX_HOLD));
    }
    let mut paths = expected_paths(model).filter(|path| rule.covers(path.test, path.ends));
    let Some(first) = paths.next() else { return Span::ZERO };
    let (more, longest) =
        paths.fold((false, first.every), |(_, longest), path| (true, longest.max(path.every)));
    match rule.kind {
        _ if !more => Span::ZERO,
        // Another path with the same fault may still have good tests among those that the rule counts.
        RuleKind::Results { bad, of, .. } => {
            let rounds = i64::from(of.saturating_sub(bad)) + 1;
            (longest.times(rounds) + ARRIVAL).min(MAX_HOLD)
        }
        RuleKind::Silence { after, .. } if after > longest.times(2) + Span::seconds(10) => Span::ZERO,
        RuleKind::Silence { .. } => longest.min(MAX_HOLD),
    }
}

/// A path that should have results.
pub(super) struct ExpectedPath<'a> {
    /// Name of the test or capture.
    pub test: &'a str,
    /// Both ends, the host that starts the tests first.
    pub ends: [&'a str; 2],
    /// Period of the test.
    pub every: Span,
    /// Time from the start of a test to its result.
    pub lasts: Span,
    /// Times of the test.
    pub window: TimeWindow,
    /// Directions with results: from the host that starts the tests, and to it; both false for captures.
    pub ways: [bool; 2],
}

/// Returns every path that should have results.
pub(super) fn expected_paths(model: &Model) -> impl Iterator<Item = ExpectedPath<'_>> {
    let tests = model.tests.iter().flat_map(move |test| {
        let path = move |pair: &HostPair| {
            let forward = match test.work.direction {
                SendingHosts::Both => [true; 2],
                SendingHosts::Forward => [true, false],
                SendingHosts::Backward => [false, true],
            };
            let [first, second] = forward;
            ExpectedPath {
                test: test.name.as_str(),
                ends: [pair.client(), pair.server()].map(|end| model.end(test, end)),
                every: test.every,
                lasts: test.traffic.duration,
                window: test.window.clone(),
                ways: if pair.first_is_client { [first, second] } else { [second, first] },
            }
        };
        test.pairs.list.iter().map(path)
    });
    let captures = model.captures.iter().flat_map(|capture| {
        let hosts = capture.hosts.iter().filter_map(|host| model.hosts.get(*host as usize));
        let far = capture.far(&model.hosts);
        hosts.map(move |host| ExpectedPath {
            test: capture.name.as_str(),
            ends: [host.name.as_str(), far],
            every: capture.every,
            lasts: capture.every,
            window: TimeWindow::default(),
            ways: [false; 2],
        })
    });
    tests.chain(captures)
}
