//! [`LastSeen`]: times at which each host was last seen, from which the cause of missing results is found: the path, a
//! host or a whole site. [`SlotReport`]: report about a slot without a result.

use super::place::{AlertScope, AlertSubject, Places};
use crate::window::{DAY, TimeWindow, open_between};
use jitlat_core::time::SECOND;
use jitlat_core::units::utc_date;
use jitlat_core::{Span, WallTime};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum time after its return in which a host pushes its results.
const LATE_PUSH: Span = Span::seconds(40);
/// Maximum time in which the result of a test arrives here; added to the period of the test.
pub(super) const ARRIVAL: Span = Span::seconds(10);

/// Report of the host that starts a test about a slot without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Name of the test.
    pub test: String,
    /// Name of the host that starts the test.
    pub client: String,
    /// Name of the other end.
    pub server: String,
    /// Start of the slot, ns since 1970.
    pub at_ns: i64,
    /// Start of the first slot in a row that was lost for the same reason, ns since 1970.
    pub since_ns: i64,
    /// True if the slot was lost by the host that starts the test.
    pub is_own_fault: bool,
    /// True if the result was measured, but could not be stored.
    pub is_not_stored: bool,
    /// Reason: `unreachable: connection refused`.
    pub reason: String,
}

impl SlotReport {
    /// Formats the reason with its start: `unreachable since 14:05: connection refused`.
    pub fn said(&self, now: WallTime) -> String {
        let since = clock_time(WallTime(self.since_ns), now);
        match self.reason.split_once(": ") {
            Some((what, why)) => format!("{what} since {since}: {why}"),
            None => format!("{} since {since}", self.reason),
        }
    }
}

/// Formats a time as hours and minutes, with the date if it is more than half a day ago.
fn clock_time(at: WallTime, now: WallTime) -> String {
    if now - at >= Span::seconds(12 * 3600) {
        return utc_date(at);
    }
    let minute = at.0.rem_euclid(DAY) / (60 * SECOND);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// Subject that a missing result is attributed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SilenceCause {
    /// A host at an end has just been seen again: its next result is awaited.
    Awaited,
    /// The host that starts the tests is seen, and has results that have not arrived yet.
    Backlog,
    /// The path: both ends are seen, or too little is known.
    Path,
    /// A host or a site.
    Place(AlertSubject),
}

/// Times at which the hosts were last seen.
#[derive(Clone, Debug, Default)]
pub struct LastSeen {
    hosts: BTreeMap<String, HeardHost>,
    /// Newest report of each path whose newest slot had no result: by test, client and server.
    reports: BTreeMap<[String; 3], SlotReport>,
}

#[derive(Clone, Debug, Default)]
struct HeardHost {
    /// Time at which the host was last seen, ns since 1970; 0 if never.
    last: i64,
    /// Time at which the host was last seen again after an absence of more than `gap`, or had a result again after slots
    /// that it lost itself, ns since 1970; 0 if never.
    returned: i64,
    /// Longest time between two results while all is well.
    gap: Span,
    /// Start of the newest slot that the host lost itself (it missed the slot, or could not store the result), ns since 1970;
    /// 0 if it has had a later result.
    not_stored: i64,
    /// True if the host has results that have not arrived yet.
    has_results: bool,
    /// Hosts at the other ends of its paths; two at most are stored.
    partners: BTreeSet<String>,
}

impl LastSeen {
    /// Adds a path that should have a result per period `every`.
    pub fn expect(&mut self, ends: [&str; 2], every: Span) {
        let gap = every + ARRIVAL;
        for (own, other) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let host = self.hosts.entry(own.to_owned()).or_default();
            host.gap = if host.gap == Span::ZERO { gap } else { host.gap.min(gap) };
            if host.partners.len() < 2 && !host.partners.contains(other) {
                host.partners.insert(other.to_owned());
            }
        }
    }

    /// Records that a host was seen at a time.
    pub fn seen(&mut self, host: &str, at: WallTime) {
        let Some(host) = self.hosts.get_mut(host) else { return };
        if at.0 <= host.last {
            return;
        }
        if host.last > 0 && at.0 - host.last > host.gap.0 {
            host.returned = at.0;
        }
        host.last = at.0;
    }

    /// Records whether a host has results that have not arrived yet.
    pub fn waiting(&mut self, host: &str, has_results: bool) {
        if let Some(host) = self.hosts.get_mut(host) {
            host.has_results = has_results;
        }
    }

    /// Replaces times later than `now` with `now`, after the clock was set back.
    pub fn set_back(&mut self, now: WallTime) {
        for host in self.hosts.values_mut() {
            (host.last, host.returned) = (host.last.min(now.0), host.returned.min(now.0));
        }
    }

    /// Records a result of a path, whose reports no longer count. If the host that starts the tests had lost slots itself (it
    /// missed them, or could not store results), its reports about such slots of other paths no longer count either.
    pub fn measured(&mut self, key: &[String; 3], started: WallTime, now: WallTime) {
        self.reports.remove(key);
        let [_, client, _] = key;
        let stores_again = |host: &&mut HeardHost| host.not_stored > 0 && host.not_stored < started.0;
        let Some(host) = self.hosts.get_mut(client).filter(stores_again) else { return };
        (host.not_stored, host.returned) = (0, now.0);
        self.reports.retain(|_, report| report.client != *client || !report.is_own_fault);
    }

    /// Records a report.
    pub fn report(&mut self, report: &SlotReport) {
        let key = [&report.test, &report.client, &report.server].map(String::clone);
        let is_newer = self.reports.get(&key).is_none_or(|known| known.at_ns <= report.at_ns);
        if is_newer {
            self.reports.insert(key, report.clone());
            if let Some(host) = self.hosts.get_mut(&report.client).filter(|_| report.is_own_fault) {
                host.not_stored = host.not_stored.max(report.at_ns);
            }
        }
    }

    /// Returns the cause to which `judge` attributes a missing result of `path`. `since` is the time from which missing
    /// results count, `windows` are the times of the path's tests.
    pub fn cause(
        &self,
        places: &Places,
        judge: &str,
        path: &AlertSubject,
        windows: &[&TimeWindow],
        (since, now): (WallTime, WallTime),
    ) -> SilenceCause {
        let place = |of: AlertSubject| SilenceCause::Place(of);
        if let Some(report) = self.of_path(path)
            && report.is_own_fault
        {
            return place(AlertSubject::host(&path.rule, &report.client));
        }
        // If a host has paths with only one other host, a fault of the host cannot be distinguished from one of the
        // path.
        let is_unheard = |name: &str| {
            let Some(host) = self.hosts.get(name).filter(|_| name != judge) else { return false };
            open_between(windows, WallTime(host.last.max(since.0)), now) > host.gap
        };
        // Only the host that starts the tests has their results.
        if !is_unheard(&path.src) && self.hosts.get(&path.src).is_some_and(|host| host.has_results) {
            return SilenceCause::Backlog;
        }
        let is_known = |name: &str| self.hosts.get(name).is_some_and(|host| host.partners.len() > 1);
        let others: Vec<&str> =
            places.hosts().filter(|host| *host != judge && self.hosts.contains_key(*host)).collect();
        if others.len() > 1 && others.iter().all(|host| is_unheard(host)) {
            let site = places
                .site(others[0])
                .filter(|site| others.iter().all(|host| places.site(host) == Some(site)));
            return place(match site {
                Some(site) if places.site(judge) != Some(site) => AlertSubject::site(&path.rule, site),
                _ => AlertSubject::host(&path.rule, judge),
            });
        }
        let mut ends: Vec<&str> = path.ends().collect();
        // The host that starts the tests comes last: if neither is seen, the other one is more probably the cause.
        ends.reverse();
        for end in ends.iter().filter(|end| is_unheard(end)) {
            if let Some(site) = places.site(end)
                && places.hosts_of(site).count() > 1
                && places.hosts_of(site).all(|host| is_unheard(host) || !self.hosts.contains_key(host))
            {
                return place(AlertSubject::site(&path.rule, site));
            }
            if is_known(end) {
                return place(AlertSubject::host(&path.rule, end));
            }
        }
        let has_returned = |end: &str| {
            let host = self.hosts.get(end);
            host.is_some_and(|host| {
                host.returned > 0 && now - WallTime(host.returned) <= host.gap.times(2) + LATE_PUSH
            })
        };
        match path.scope {
            AlertScope::Path if ends.iter().any(|end| has_returned(end)) => SilenceCause::Awaited,
            _ => SilenceCause::Path,
        }
    }

    fn of_path(&self, path: &AlertSubject) -> Option<&SlotReport> {
        self.reports.get(&[&path.test, &path.src, &path.dst].map(String::clone))
    }

    /// Returns the reason in the newest report about `subject`, with the host that sent it; `None` without a report.
    pub fn reason(&self, places: &Places, subject: &AlertSubject, now: WallTime) -> Option<String> {
        let about = |report: &&SlotReport| {
            let far =
                |host: &str| if report.is_own_fault { report.client == host } else { report.server == host };
            match subject.scope {
                AlertScope::Path | AlertScope::Pair => {
                    [&report.client, &report.server].map(String::as_str)
                        == [subject.src.as_str(), subject.dst.as_str()]
                        && (subject.test.is_empty() || report.test == subject.test)
                }
                AlertScope::Host => far(&subject.src),
                AlertScope::Site => places.hosts_of(&subject.src).any(far),
            }
        };
        let report = self.reports.values().filter(about).max_by_key(|report| report.at_ns)?;
        let by = if subject.ends().next() == Some(report.client.as_str()) {
            String::new()
        } else {
            format!(" (according to {})", report.client)
        };
        Some(format!("{}{by}", report.said(now)))
    }
}
