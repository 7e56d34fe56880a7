//! [`AlertRule`]: what the file says of an alert; [`NotifyChannel`]: who is told.

use super::condition::AlertCondition;
use crate::window::{MONDAY, TimeWindow};
use jitlat_core::{Span, WallTime};
use std::fmt;

/// The period before a test that it is compared with unless the file says otherwise.
pub const DEFAULT_BASELINE: Span = Span::seconds(7 * 86_400);

/// What somebody wants to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// Its name, unique in the file.
    pub name: String,
    /// How much it matters.
    pub severity: AlertSeverity,
    /// What must not be.
    pub kind: RuleKind,
    /// Names of the tests it is about; empty: all.
    pub tests: Vec<String>,
    /// Only paths that begin or end at one of these hosts or targets; empty: all.
    pub hosts: Vec<String>,
    /// When nothing begins to fire; `None`: it always may.
    pub quiet: Option<TimeWindow>,
    /// Hosts that judge all tests of their archives; empty: each judges those that it starts.
    pub at: Vec<String>,
}

/// What must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleKind {
    /// Results that meet a condition.
    Results {
        /// A result is bad if it meets one of these.
        conditions: Vec<AlertCondition>,
        /// A result is well if it meets all of these; empty: if it is not bad.
        until: Vec<AlertCondition>,
        /// It fires if so many are bad …
        bad: u32,
        /// … of so many in a row.
        of: u32,
        /// It is resolved if so many in a row are well.
        clear: u32,
        /// The period before a test that it is compared with.
        against: Span,
    },
    /// No result for longer than a time.
    Silence {
        /// How long.
        after: Span,
        /// Whether of a host, with whomever; otherwise of a path.
        by_host: bool,
    },
}

/// All that states depend on, the same in every process.
impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |conditions: &[AlertCondition]| {
            conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
        };
        match self {
            RuleKind::Results { conditions, until, bad, of, clear, against } => write!(
                f,
                "{} in {bad} of {of}, until {} in {clear}, against {} ns",
                list(conditions),
                list(until),
                against.0
            ),
            RuleKind::Silence { after, by_host } => {
                write!(f, "silent for {} ns, by host: {by_host}", after.0)
            }
        }
    }
}

/// How much an alert matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlertSeverity {
    /// Somebody should act now.
    Critical,
    /// Somebody should look.
    #[default]
    Warning,
    /// Good to know.
    Info,
}

impl AlertSeverity {
    /// All, with their words in the file.
    pub const WORDS: [(&'static str, AlertSeverity); 3] = [
        ("warning", AlertSeverity::Warning),
        ("critical", AlertSeverity::Critical),
        ("info", AlertSeverity::Info),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        AlertSeverity::WORDS.iter().find(|(_, s)| *s == self).map_or("warning", |(word, _)| word)
    }
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyChannel {
    /// Its name, unique in the file.
    pub name: String,
    /// How.
    pub way: NotifyMethod,
}

/// How somebody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyMethod {
    /// An HTTP request, with a body as Alertmanager's `/api/v2/alerts` reads it.
    Webhook {
        /// To this address.
        address: String,
        /// The certificate authorities, in a file named from the folder of this one; `None`: those of the system.
        ca_file: Option<String>,
    },
    /// A program with its arguments, and a message on its standard input.
    Command(Vec<String>),
    /// A line on standard output.
    Print,
}

/// All that the file says of alerts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlertRules {
    /// The rules, in the order of the file.
    pub rules: Vec<AlertRule>,
    /// Who is told.
    pub channels: Vec<NotifyChannel>,
}

impl AlertRule {
    /// Whether it is about this test, and a path between these ends.
    pub fn covers(&self, test: &str, ends: [&str; 2]) -> bool {
        (self.tests.is_empty() || self.tests.iter().any(|t| t == test))
            && (self.hosts.is_empty() || self.hosts.iter().any(|h| ends.contains(&h.as_str())))
    }

    /// Whether the host `name` judges by it.
    pub fn is_judged_at(&self, name: &str) -> bool {
        self.at.is_empty() || self.at.iter().any(|host| host == name)
    }

    /// Whether nothing begins to fire at this time.
    pub fn is_quiet(&self, now: WallTime) -> bool {
        self.quiet.as_ref().is_some_and(|window| window.is_open((now - MONDAY).0))
    }

    /// The period that results are compared with; `None` if they need not be.
    pub fn compares_with(&self) -> Option<Span> {
        let RuleKind::Results { conditions, against, .. } = &self.kind else { return None };
        let compares = |c: &AlertCondition| matches!(c, AlertCondition::Changed | AlertCondition::Worse);
        conditions.iter().any(compares).then_some(*against)
    }
}
