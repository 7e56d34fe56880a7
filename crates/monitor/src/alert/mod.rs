//! Alerts: what of the results of tests somebody wants to be told. Pure: results and times go in, what fires and is resolved comes out.
//!
//! * [`rule`] – what the file says: a condition, for how many of how many tests, when it is over, when nobody is told
//! * [`condition`] – thresholds of `--fail-if`, `changed` and `worse` than before, and silence
//! * [`machine`] – the states of all rules on all paths, and what follows from results and from time
//!
//! Each rule has a state on each path: what its last tests were, and whether it fires. The states are text that a program keeps with the number of the
//! last result that was judged and with all that follows from it, in one transaction: so whatever is killed when, each result is judged once, and each time
//! an alert fires or is resolved is told once.

pub mod condition;
pub mod machine;
pub mod rule;

pub use condition::{AlertCondition, TestComparison};
pub use machine::{AlertChange, AlertDecision, AlertMachine, TestResult};
pub use rule::{AlertRule, NotifyChannel};
