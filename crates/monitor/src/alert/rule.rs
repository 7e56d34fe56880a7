//! [`AlertRule`]: an alert rule of the file. [`NotifyChannel`]: a receiver of notifications.

use super::condition::AlertCondition;
use crate::window::{MONDAY, TimeWindow};
use jitlat_core::{Span, WallTime};
use std::fmt;

/// Default length of the earlier period that a test is compared with.
pub const DEFAULT_BASELINE: Span = Span::seconds(7 * 86_400);

/// Time that each judge has to send a message before the next one in the list does.
pub const TURN: Span = Span::seconds(30);

/// An alert rule.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// Name, unique in the file.
    pub name: String,
    /// Severity of the alert.
    pub severity: AlertSeverity,
    /// Condition that the rule watches for.
    pub kind: RuleKind,
    /// Names of the tests that the rule applies to; empty: all.
    pub tests: Vec<String>,
    /// Hosts or targets at one end of the paths that the rule applies to; empty: all.
    pub hosts: Vec<String>,
    /// Quiet hours, in which no alert begins to fire; `None`: no quiet hours.
    pub quiet: Option<TimeWindow>,
    /// Hosts that judge all tests of their archives; empty: each host judges the tests that it starts.
    pub at: Vec<String>,
}

/// Condition that a rule watches for.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleKind {
    /// Results that meet a condition.
    Results {
        /// Conditions; a result is bad if it meets one of them.
        conditions: Vec<AlertCondition>,
        /// Conditions for the end of the alert; a result is good if it meets all of them. If empty, every
        /// result that is not bad is good.
        until: Vec<AlertCondition>,
        /// Number of bad results, among the last `of`, that make the alert fire.
        bad: u32,
        /// Number of newest results among which bad ones are counted.
        of: u32,
        /// Number of consecutive good results that resolve the alert.
        clear: u32,
        /// Length of the earlier period that a test is compared with.
        against: Span,
    },
    /// No result for longer than a time.
    Silence {
        /// Longest time without a result.
        after: Span,
        /// True if the rule watches each host, with any partner; false if it watches each path.
        by_host: bool,
    },
}

/// Formats all settings that stored states depend on; the text is the same in every process.
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

/// Severity of an alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlertSeverity {
    /// Somebody should act now.
    Critical,
    /// Somebody should look at the alert.
    #[default]
    Warning,
    /// For information only; nobody needs to act.
    Info,
}

impl AlertSeverity {
    /// All severities with their names in the file.
    pub const WORDS: [(&'static str, AlertSeverity); 3] = [
        ("warning", AlertSeverity::Warning),
        ("critical", AlertSeverity::Critical),
        ("info", AlertSeverity::Info),
    ];

    /// Returns the name in the file.
    pub fn word(self) -> &'static str {
        AlertSeverity::WORDS.iter().find(|(_, s)| *s == self).map_or("warning", |(word, _)| word)
    }
}

/// A receiver of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyChannel {
    /// Name, unique in the file.
    pub name: String,
    /// Method by which notifications are sent.
    pub method: NotifyMethod,
}

/// Method by which notifications are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyMethod {
    /// An HTTP request whose body has the format of Alertmanager's `/api/v2/alerts`.
    Webhook {
        /// URL.
        address: String,
        /// File with certificate authorities, relative to the folder of the monitor's file; `None`: those of the
        /// system.
        ca_file: Option<String>,
    },
    /// A program with its arguments, which reads a message from its standard input.
    Command(Vec<String>),
    /// Prints a line on standard output.
    Print,
}

/// All alert rules and receivers of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlertRules {
    /// Rules, in the order of the file.
    pub rules: Vec<AlertRule>,
    /// Receivers of notifications.
    pub channels: Vec<NotifyChannel>,
}

impl AlertRule {
    /// True if the rule applies to this test and to a path between these ends.
    pub fn covers(&self, test: &str, ends: [&str; 2]) -> bool {
        (self.tests.is_empty() || self.tests.iter().any(|t| t == test))
            && (self.hosts.is_empty() || self.hosts.iter().any(|h| ends.contains(&h.as_str())))
    }

    /// True if the host `name` judges by the rule.
    pub fn is_judged_at(&self, name: &str) -> bool {
        self.at.is_empty() || self.at.iter().any(|host| host == name)
    }

    /// Returns the time for which the host `name` holds its messages, so that the judges before it in the list can send them: the
    /// first judge that is alive sends a message, and the others ask it.
    pub fn turn(&self, name: &str) -> Span {
        let place = self.at.iter().position(|host| host == name).unwrap_or(0);
        TURN.times(place as i64)
    }

    /// True if no alert may begin to fire at this time.
    pub fn is_quiet(&self, now: WallTime) -> bool {
        self.quiet.as_ref().is_some_and(|window| window.is_open((now - MONDAY).0))
    }

    /// Returns the length of the period that results are compared with; `None` if the rule needs no comparison.
    pub fn compares_with(&self) -> Option<Span> {
        let RuleKind::Results { conditions, against, .. } = &self.kind else { return None };
        let compares = |c: &AlertCondition| matches!(c, AlertCondition::Changed | AlertCondition::Worse);
        conditions.iter().any(compares).then_some(*against)
    }
}
