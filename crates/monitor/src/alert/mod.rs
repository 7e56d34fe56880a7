//! Alerts about the results of tests. Pure: results and times go in, firing and resolved alerts come out.
//!
//! * [`rule`] – a rule of the file: its condition, how many of how many tests must meet it, when it is resolved, and
//!   its quiet hours
//! * [`condition`] – thresholds of `--fail-if`, `changed` and `worse` than before, and silence
//! * [`machine`] – the states of all rules on all paths, and how results and time change them
//!
//! Each rule has a state on each path: the grades of its last tests, and whether it fires. States are text, which a
//! program stores in one transaction with the number of the last judged result and all resulting notifications. Even
//! if the program is killed at any moment, each result is judged once, and each change of an alert is notified once.

pub mod condition;
pub mod machine;
pub mod rule;

pub use condition::{AlertCondition, TestComparison};
pub use machine::{AlertChange, AlertDecision, AlertMachine, TestResult};
pub use rule::{AlertRule, NotifyChannel};
