//! [`RpmCondition`]: conditions of `jitlat rpm --fail-if`.

use crate::exit::ExitStatus;
use jitlat_core::quantity;
use jitlat_core::scalars::ScalarCondition;
use jitlat_core::units::bit_rate3;
use jitlat_instruments::rpm::method::LoadDirections;
use jitlat_instruments::rpm::method::stage::StageOutcome;
use jitlat_output::AnalysedStream;
use jitlat_output::rpm::RpmReport;
use std::str::FromStr;
use tracing::error;

/// Condition on a figure of each load, or of one.
#[derive(Clone, Debug)]
pub struct RpmCondition {
    text: String,
    kind: ConditionKind,
}

#[derive(Clone, Debug)]
enum ConditionKind {
    /// A figure of the loads.
    Load { figure: LoadFigure, load: Option<LoadDirections>, above: bool, threshold: f64 },
    /// A figure of the round trips on load-generating connections.
    RoundTrips(ScalarCondition),
}

#[derive(Clone, Copy, Debug)]
enum LoadFigure {
    Rpm,
    Goodput,
}

impl FromStr for RpmCondition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<RpmCondition, anyhow::Error> {
        let kind = match load_condition(text)? {
            Some(kind) => kind,
            None => ConditionKind::RoundTrips(text.parse()?),
        };
        Ok(RpmCondition { text: text.to_owned(), kind })
    }
}

/// Parses a condition on a figure of the loads; `None` if it is about another figure.
fn load_condition(text: &str) -> Result<Option<ConditionKind>, anyhow::Error> {
    let Some(at) = text.find(['<', '>']) else { return Ok(None) };
    let (name, above, value) = (text[..at].trim(), text.as_bytes()[at] == b'>', text[at + 1..].trim());
    let loads = [LoadDirections::Down, LoadDirections::Up, LoadDirections::Both];
    let of = |load: &LoadDirections| name.strip_prefix(load.name())?.strip_prefix('-');
    let named = loads.iter().find_map(|load| Some((Some(*load), of(load)?)));
    let (load, name) = named.unwrap_or((None, name));
    let (figure, threshold) = match name {
        "rpm" => {
            let threshold: f64 = value
                .parse()
                .map_err(|_| anyhow::anyhow!("'{value}' is not a number of round trips per minute"))?;
            (LoadFigure::Rpm, threshold)
        }
        "goodput" => (LoadFigure::Goodput, quantity::bit_rate(value)? as f64),
        _ => return Ok(None),
    };
    Ok(Some(ConditionKind::Load { figure, load, above, threshold }))
}

/// Result of a condition.
enum Decision {
    Met,
    Violated(String),
    Unknown,
}

impl RpmCondition {
    fn decide(&self, report: &RpmReport) -> Vec<Decision> {
        match &self.kind {
            ConditionKind::Load { figure, load, above, threshold } => {
                let wanted = |stage: &&StageOutcome| load.is_none_or(|load| load == stage.load);
                let decisions: Vec<Decision> = report
                    .stages()
                    .iter()
                    .filter(wanted)
                    .flat_map(|stage| figure.of(stage).into_iter().map(move |value| (stage, value)))
                    .map(|(stage, value)| {
                        let Some(value) = value else { return Decision::Unknown };
                        match if *above { value > *threshold } else { value < *threshold } {
                            true => Decision::Violated(format!(
                                "{} ({}: {})",
                                self.text,
                                stage.load.name(),
                                figure.show(value)
                            )),
                            false => Decision::Met,
                        }
                    })
                    .collect();
                if decisions.is_empty() { vec![Decision::Unknown] } else { decisions }
            }
            ConditionKind::RoundTrips(condition) => {
                let decide = |run: &AnalysedStream| {
                    if let Some(violated) = condition.violated(&run.summary) {
                        return Decision::Violated(violated);
                    }
                    condition.undecided(&run.summary).map_or(Decision::Met, |_| Decision::Unknown)
                };
                report.loaded().map(decide).collect()
            }
        }
    }
}

impl LoadFigure {
    /// Returns the values of a stage; `None` for an unknown value.
    fn of(self, stage: &StageOutcome) -> Vec<Option<f64>> {
        match self {
            LoadFigure::Rpm => vec![stage.rpm()],
            LoadFigure::Goodput => stage.goodput.iter().map(|g| Some(g.average_bps)).collect(),
        }
    }

    /// Formats a value with its unit.
    fn show(self, value: f64) -> String {
        match self {
            LoadFigure::Rpm => format!("{value:.0} RPM"),
            LoadFigure::Goodput => bit_rate3(value),
        }
    }
}

/// Logs which of `conditions` are violated or unknown; returns the exit status.
pub fn status(conditions: &[RpmCondition], report: &RpmReport) -> ExitStatus {
    let mut status = ExitStatus::Measured;
    for condition in conditions {
        for decision in condition.decide(report) {
            match decision {
                Decision::Met => {}
                Decision::Violated(text) => {
                    error!("failed: {text}");
                    status = ExitStatus::ThresholdViolated;
                }
                Decision::Unknown => {
                    error!("--fail-if {} cannot be decided: the figure is unknown", condition.text);
                    if status == ExitStatus::Measured {
                        status = ExitStatus::NotMeasured;
                    }
                }
            }
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_name_a_figure_and_perhaps_a_load() {
        let load = |text: &str| match text.parse::<RpmCondition>().unwrap().kind {
            ConditionKind::Load { load, above, threshold, .. } => Some((load, above, threshold)),
            ConditionKind::RoundTrips(_) => None,
        };
        assert_eq!(load("rpm<300"), Some((None, false, 300.0)));
        assert_eq!(load("down-rpm > 1000"), Some((Some(LoadDirections::Down), true, 1000.0)));
        assert_eq!(load("up-goodput<10M"), Some((Some(LoadDirections::Up), false, 10e6)));
        assert_eq!(load("latency-p99>100ms"), None);
        for wrong in ["rpm<many", "rpm", "goodput<fast", "speed>1"] {
            assert!(wrong.parse::<RpmCondition>().is_err(), "{wrong}");
        }
    }
}
