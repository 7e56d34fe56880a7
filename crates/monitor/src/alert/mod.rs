//! Alerts about the results of tests. Pure: the inputs are results and times, the outputs firing and resolved alerts.
//!
//! * [`rule`] – rules of the file: condition, number of tests that must meet it, end of the alert, quiet hours
//! * [`condition`] – thresholds as in `--fail-if`, `changed` and `worse` than before, and missing results
//! * [`machine`] – states of all rules on all paths, updated by results, by reports of lost slots, and by time
//! * [`incident`] – paths with the same cause as one alert: [`place`] finds what they have in common, [`last_seen`] the
//!   cause of missing results; `expected` has the paths that should have results
//!
//! Each rule has a state on each path: the grades of its last tests, and whether it fires. States are text, which a
//! program stores in one transaction with the number of the last judged result and all resulting notifications. Even
//! if the program is killed at any moment, each result is judged once, and each change of an alert is notified once.

pub mod condition;
mod expected;
pub mod incident;
pub mod last_seen;
pub mod machine;
pub mod place;
pub mod rule;

pub use condition::{AlertCondition, TestComparison};
pub use incident::{AlertChange, AlertEvent};
pub use last_seen::SlotReport;
pub use machine::{AlertDecision, AlertMachine, TestResult};
pub use place::{AlertScope, AlertSubject};
pub use rule::{AlertRule, NotifyChannel};
