//! `zabbix`: one JSON object, for a master item of Zabbix: the streams for low-level discovery, and their values for
//! dependent items.

use super::{BaseValue, Reading, grade_name, readings_of};
use crate::format::{Destination, Output, ReportParts, write_file};
use jitlat_core::time::SECOND;
use serde::Serialize;
use std::collections::BTreeMap;

pub(crate) static OUTPUT: Output = Output {
    needs: ReportParts::READINGS,
    ..Output::new(
        "zabbix",
        "Write JSON for Zabbix: streams for low-level discovery, and their values",
        Destination::File,
        |report, path| {
            let text = serde_json::to_string(&document(&readings_of(report)))?;
            write_file(path, |out| writeln!(out, "{text}"))
        },
    )
};

/// Version of the format.
const FORMAT: &str = "jitlat zabbix 1";

/// Object that `--as zabbix` writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZabbixDocument {
    /// Version of the format: `jitlat zabbix 1`.
    format: String,
    /// Streams for a discovery rule: the macro `{#STREAM}`, which is the key in `streams`, and a macro for each label.
    discovery: Vec<BTreeMap<String, String>>,
    /// Values of each stream by the name of the figure, in base units (seconds, ratios), and the time at which the test
    /// began in two parts, as Zabbix stores times: `clock` in seconds since 1970, and `ns`. Undefined figures are left out.
    streams: BTreeMap<String, BTreeMap<String, ZabbixValue>>,
}

/// Value of an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ZabbixValue {
    /// A count, or a part of a time.
    Whole(i64),
    /// Any other number.
    Real(f64),
    /// A grade: `good`, `fair`, `poor` or `bad`.
    Text(String),
}

fn document(readings: &[Reading]) -> ZabbixDocument {
    ZabbixDocument {
        format: FORMAT.to_owned(),
        discovery: readings.iter().map(macros).collect(),
        streams: readings.iter().map(|reading| (reading.name.clone(), values(reading))).collect(),
    }
}

/// Returns the macros of a discovered stream.
fn macros(reading: &Reading) -> BTreeMap<String, String> {
    let labels = reading.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let all = std::iter::once(("stream", reading.name.as_str())).chain(labels);
    all.map(|(key, value)| (format!("{{#{}}}", key.to_uppercase()), plain(value))).collect()
}

fn values(reading: &Reading) -> BTreeMap<String, ZabbixValue> {
    let figures = reading.figures.iter().map(|figure| match figure.value {
        BaseValue::Whole(whole) => (figure.name.clone(), ZabbixValue::Whole(whole)),
        BaseValue::Real(real) => (figure.name.clone(), ZabbixValue::Real(real)),
    });
    let grades = reading
        .grades
        .iter()
        .map(|(of, grade)| (grade_name(*of), ZabbixValue::Text(grade.name().to_owned())));
    let time = reading.time.map(|time| {
        [("clock", time.0.div_euclid(SECOND)), ("ns", time.0.rem_euclid(SECOND))]
            .map(|(key, value)| (key.to_owned(), ZabbixValue::Whole(value)))
    });
    figures.chain(grades).chain(time.into_iter().flatten()).collect()
}

/// Replaces control characters, which the names of items cannot contain.
fn plain(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{examples, readings};
    use super::*;

    #[test]
    fn every_discovered_stream_has_its_values() {
        let summaries = [examples::summary(), examples::unnamed_down()];
        let document = serde_json::to_value(document(&readings(&summaries))).unwrap();
        let discovered = document["discovery"].as_array().unwrap();
        assert_eq!(discovered.len(), 2);
        for stream in discovered {
            let name = stream["{#STREAM}"].as_str().unwrap();
            let values = &document["streams"][name];
            assert_eq!((&values["packets_received"], &values["loss_ratio"]), (&3.into(), &0.0.into()));
            let is_macro = |key: &str| key.starts_with("{#") && key.ends_with('}');
            assert!(stream.as_object().unwrap().keys().all(|key| is_macro(key)), "{stream}");
        }
        assert_eq!(discovered[0]["{#NAME}"], "a, \"b\"= \\");
        assert_eq!(discovered[0]["{#TAG_SITE_A}"], "x y/z");
        let dated = &document["streams"]["a,__b_=__-192.0.2.7-up"];
        assert_eq!((&dated["clock"], &dated["ns"]), (&1_795_749_002.into(), &250_000_000.into()));
        assert!(document["streams"]["192.0.2.1-down"]["clock"].is_null());
        assert!(!document.to_string().contains("null"));
    }
}
