//! Options of `--check`.

use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_core::scalars::{ConditionError, ScalarCondition};
use jitlat_output::check::Check;
use std::str::FromStr;
use std::time::Duration;

/// Options of a check by a monitoring system.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct CheckArgs {
    /// Print one line for Nagios or Icinga, and exit with its status (0 to 3)
    ///
    /// The line has performance data after a bar. The states are 0 OK, 1 WARNING, 2 CRITICAL and 3 UNKNOWN. The state is
    /// CRITICAL if --critical is violated or the far host does not
    /// answer, WARNING if --warning is violated, and UNKNOWN if a figure of a condition is not known, the arguments are
    /// wrong, or nothing could be measured. Without conditions, no figure is judged, only whether the far host answers.
    /// Several hosts have one line with the state of the worst. No log is written without -o.
    #[arg(long, conflicts_with_all = ["verbose", "quiet", "text_plots", "corrected", "fail_if", "live"])]
    pub check: bool,
    /// With --check: WARNING on this condition, as in --fail-if; -w for short
    ///
    /// May be repeated. The pair of check_ping is accepted too: 100,20% is latency-mean>100ms and loss>20%.
    #[arg(long, value_name = "CONDITION", requires = "check")]
    pub warning: Vec<CheckConditions>,
    /// With --check: CRITICAL on this condition, as in --fail-if; -c for short
    ///
    /// May be repeated. With --check, -c is never the number of packets of ping: give -n.
    #[arg(long, value_name = "CONDITION", requires = "check")]
    pub critical: Vec<CheckConditions>,
    /// With --check: end with UNKNOWN after this time
    #[arg(long, value_name = "T", default_value = "60s", value_parser = quantity::duration, requires = "check")]
    pub check_timeout: Span,
}

/// Conditions in one argument.
#[derive(Clone, Debug)]
pub struct CheckConditions(Vec<ScalarCondition>);

impl FromStr for CheckConditions {
    type Err = ConditionError;

    /// Parses a condition, or the pair of check_ping: mean round trip in ms, and loss.
    fn from_str(text: &str) -> Result<CheckConditions, ConditionError> {
        let pair = text.split_once(',').filter(|(_, loss)| loss.ends_with('%') && !text.contains(['<', '>']));
        let conditions = match pair {
            Some((delay, loss)) => {
                let delay = delay.trim_end_matches("ms");
                vec![format!("latency-mean>{delay}ms"), format!("loss>{loss}")]
            }
            None => vec![text.to_owned()],
        };
        conditions.iter().map(|condition| condition.parse()).collect::<Result<_, _>>().map(CheckConditions)
    }
}

impl CheckArgs {
    /// Returns the check; `None` without `--check`.
    pub fn check(&self) -> Option<Check> {
        let all = |given: &[CheckConditions]| given.iter().flat_map(|one| one.0.iter().cloned()).collect();
        self.check.then(|| Check { warning: all(&self.warning), critical: all(&self.critical) })
    }

    /// Returns the time limit; `None` without `--check`.
    pub fn limit(&self) -> Option<Duration> {
        self.check.then(|| Duration::from_nanos(self.check_timeout.0.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_check_ping_are_two_conditions() {
        let read = |text: &str| {
            let conditions = text.parse::<CheckConditions>().map_err(|e| e.to_string());
            conditions.map(|all| all.0.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read("100.5,20%").unwrap(), ["latency-mean>100.5ms", "loss>20%"]);
        assert_eq!(read("3000.0ms,80%").unwrap(), ["latency-mean>3000.0ms", "loss>80%"]);
        assert_eq!(read("delay-p99>100ms").unwrap(), ["delay-p99>100ms"]);
        for wrong in ["100,20", "100", "x,20%", "loss>20", "delay>5ms"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("delay>5ms").unwrap_err().contains("did you mean delay-p99"));
    }
}
