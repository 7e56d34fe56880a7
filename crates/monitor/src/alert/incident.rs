//! [`Incidents`]: the paths on which a rule is violated, grouped by what they have in common: one host that is down, and one
//! bad link, are one incident, however many paths it has.
//!
//! The first path opens an incident. While its message is held, further paths widen it to the host or the site that all of
//! them have in common. After that it stays what its message says; later paths join it if they belong to it.
//! It is resolved with its last path.

use super::place::{AlertScope, AlertSubject, Places};
use jitlat_core::{Span, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A change of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertChange {
    /// Subject of the incident.
    pub subject: AlertSubject,
    /// Time of the decision.
    pub at: WallTime,
    /// Description of the reason.
    pub reason: String,
    /// Kind of event.
    pub event: AlertEvent,
}

/// Kind of change of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertEvent {
    /// The alert fires because of this path.
    Fired {
        /// `critical`, `warning` or `info`.
        severity: &'static str,
        /// Start of the first test that contributed, in ns since 1970; for missing results, start of the last result.
        since_ns: i64,
        /// Time until which the message is held.
        held_until: WallTime,
        /// The first path.
        path: AlertSubject,
    },
    /// A further path belongs to the alert, with the start of its first test that contributed, in ns since 1970.
    Joined(AlertSubject, i64),
    /// A path no longer belongs to the alert, but others do.
    Left(AlertSubject),
    /// The alert had this smaller subject before.
    Widened(AlertSubject),
    /// The alert is resolved. If other judges have their turn first, this message is held like the first one.
    Resolved,
}

/// The incident that a path belongs to, as it is stored with the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    scope: String,
    test: String,
    src: String,
    dst: String,
    held_until: i64,
}

/// A rule that is violated on a path.
#[derive(Clone, Debug)]
pub struct Violation<'a> {
    /// The path.
    pub path: &'a AlertSubject,
    /// Time of the decision.
    pub at: WallTime,
    /// Description.
    pub reason: String,
    /// Severity of the rule.
    pub severity: &'static str,
    /// Start of the first test that contributed, in ns since 1970.
    pub since_ns: i64,
    /// Time for which the message of a new incident is held.
    pub hold: Span,
    /// Subject that the path is known to belong to; `None`: only the paths themselves are known.
    pub cause: Option<AlertSubject>,
}

#[derive(Clone, Debug)]
struct Incident {
    held_until: WallTime,
    /// Description of the reason, as for the first path.
    reason: String,
    paths: BTreeSet<AlertSubject>,
}

/// The open incidents of all rules.
#[derive(Clone, Debug, Default)]
pub struct Incidents(BTreeMap<AlertSubject, Incident>);

impl Incidents {
    /// Adds a firing path to the incident that was stored with the path, or to one of its own if none was stored.
    pub fn restore(&mut self, path: &AlertSubject, stored: Option<&Membership>, reason: &str) {
        let subject = stored.and_then(|of| {
            let ends = [of.src.as_str(), of.dst.as_str()];
            let subject = AlertSubject::path(&path.rule, &of.test, ends);
            Some(AlertSubject { scope: AlertScope::named(&of.scope)?, ..subject })
        });
        let held_until = WallTime(stored.map_or(0, |of| of.held_until));
        let new = || Incident { held_until, reason: reason.to_owned(), paths: BTreeSet::new() };
        let subject = subject.unwrap_or_else(|| path.clone());
        self.0.entry(subject).or_insert_with(new).paths.insert(path.clone());
    }

    /// Returns the incident that a path belongs to, to be stored with the path; `None` if there is none.
    pub fn membership(&self, path: &AlertSubject) -> Option<Membership> {
        let (subject, incident) = self.of(path)?;
        let AlertSubject { scope, test, src, dst, .. } = subject.clone();
        Some(Membership { scope: scope.word().to_owned(), test, src, dst, held_until: incident.held_until.0 })
    }

    fn of(&self, path: &AlertSubject) -> Option<(&AlertSubject, &Incident)> {
        self.0.iter().find(|(subject, incident)| subject.rule == path.rule && incident.paths.contains(path))
    }

    /// True if an open incident contains a path.
    pub fn has_open(&self, places: &Places, path: &AlertSubject) -> bool {
        self.0.keys().any(|subject| places.contains(subject, path))
    }

    /// Adds a path on which a rule is violated. Returns the changes, and the paths whose membership changed.
    pub fn fire(
        &mut self,
        places: &Places,
        violation: Violation<'_>,
    ) -> (Vec<AlertChange>, BTreeSet<AlertSubject>) {
        let Violation { path, at, since_ns, .. } = violation;
        let mut changed: BTreeSet<AlertSubject> = [path.clone()].into();
        let of_rule = || self.0.iter().filter(|(subject, _)| subject.rule == path.rule);
        let open = of_rule().map(|(subject, _)| subject).filter(|subject| places.contains(subject, path));
        let joined = open.min_by_key(|subject| subject.scope).cloned();
        let joined = joined.or_else(|| violation.cause.clone().filter(|cause| self.0.contains_key(cause)));
        let mut changes = Vec::new();
        let widened = match (&joined, &violation.cause) {
            (Some(_), _) => None,
            (None, cause) => of_rule()
                .filter(|(_, incident)| at < incident.held_until)
                .filter_map(|(subject, incident)| {
                    let wider = match cause {
                        Some(cause) => incident
                            .paths
                            .iter()
                            .all(|known| places.contains(cause, known))
                            .then(|| cause.clone()),
                        None => places.cover(incident.paths.iter().chain([path])),
                    };
                    Some((subject.clone(), wider?))
                })
                .min_by_key(|(_, wider)| wider.scope),
        };
        let joined = match (joined, widened) {
            (Some(subject), _) => Some(subject),
            (None, Some((narrow, wide))) => {
                changes.extend(self.widen(&narrow, &wide, at));
                changed.extend(self.0.get(&wide).into_iter().flat_map(|incident| incident.paths.clone()));
                Some(wide)
            }
            (None, None) => None,
        };
        if let Some(subject) = joined {
            if let Some(incident) = self.0.get_mut(&subject) {
                incident.paths.insert(path.clone());
            }
            let event = AlertEvent::Joined(path.clone(), since_ns);
            changes.push(AlertChange { subject, at, reason: violation.reason, event });
            return (changes, changed);
        }
        let subject = violation.cause.clone().unwrap_or_else(|| self.beside(path));
        let held_until = at + violation.hold;
        let paths = [path.clone()].into();
        self.0.insert(subject.clone(), Incident { held_until, reason: violation.reason.clone(), paths });
        let (severity, path) = (violation.severity, path.clone());
        let event = AlertEvent::Fired { severity, since_ns, held_until, path };
        changes.push(AlertChange { subject, at, reason: violation.reason, event });
        (changes, changed)
    }

    /// Returns the subject of a new incident: the path, or the host that it shares with an incident whose message was sent.
    fn beside(&self, path: &AlertSubject) -> AlertSubject {
        let is_small =
            |subject: &&AlertSubject| subject.rule == path.rule && subject.scope <= AlertScope::Pair;
        let shared = self.0.keys().filter(is_small).find_map(|known| {
            path.ends().find(|end| known.ends().any(|other| other == *end)).map(str::to_owned)
        });
        match shared {
            Some(host) if path.scope == AlertScope::Path => AlertSubject::host(&path.rule, &host),
            _ => path.clone(),
        }
    }

    fn widen(&mut self, narrow: &AlertSubject, wide: &AlertSubject, at: WallTime) -> Option<AlertChange> {
        if narrow == wide {
            return None;
        }
        let incident = self.0.remove(narrow)?;
        let reason = match narrow.scope {
            AlertScope::Path => format!("{} → {}: {}", narrow.src, narrow.dst, incident.reason),
            _ => incident.reason.clone(),
        };
        self.0.insert(wide.clone(), Incident { reason: reason.clone(), ..incident });
        let event = AlertEvent::Widened(narrow.clone());
        Some(AlertChange { subject: wide.clone(), at, reason, event })
    }

    /// Removes a path on which a rule is no longer violated; its incident is resolved if it was the last one.
    pub fn resolve(&mut self, path: &AlertSubject, at: WallTime, reason: String) -> Option<AlertChange> {
        let subject = self.of(path)?.0.clone();
        let incident = self.0.get_mut(&subject)?;
        incident.paths.remove(path);
        let event = if incident.paths.is_empty() {
            self.0.remove(&subject);
            AlertEvent::Resolved
        } else {
            AlertEvent::Left(path.clone())
        };
        Some(AlertChange { subject, at, reason, event })
    }
}
