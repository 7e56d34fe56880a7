//! `otlp` and `otlp-protobuf`: a request of the OpenTelemetry protocol (OTLP) with one gauge per figure, as JSON and as
//! protobuf.
//!
//! One set of types has both encodings. Their members and tags are those of `opentelemetry/proto/metrics/v1`, version 1.

use super::{BaseValue, ReadFigure, Reading, grade_name, grade_number, readings_of};
use crate::error::Result;
use crate::format::{Destination, Output, OutputPlace, ReportParts, write_file};
use crate::report::Report;
use jitlat_core::scalars::{GradeSubject, ScalarUnit};
use serde::{Serialize, Serializer};

pub(crate) static JSON: Output = Output {
    needs: ReportParts::READINGS,
    ..Output::new("otlp", "Write OpenTelemetry metrics (OTLP) as JSON", Destination::File, |report, path| {
        let text = json(&readings_of(report))?;
        write_file(path, |out| writeln!(out, "{text}"))
    })
};

pub(crate) static PROTOBUF: Output = Output {
    needs: ReportParts::READINGS,
    lacks: if cfg!(feature = "protobuf") { None } else { Some("web") },
    ..Output::new(
        "otlp-protobuf",
        "Write OpenTelemetry metrics (OTLP) as protobuf",
        Destination::File,
        write_protobuf,
    )
};

#[cfg(feature = "protobuf")]
fn write_protobuf(report: &dyn Report, path: &OutputPlace<'_>) -> Result<()> {
    let bytes = protobuf(&readings_of(report));
    write_file(path, |out| out.write_all(&bytes))
}

/// Does nothing, because it is never called: the format is refused before the measurement.
#[cfg(not(feature = "protobuf"))]
fn write_protobuf(_: &dyn Report, _: &OutputPlace<'_>) -> Result<()> {
    Ok(())
}

/// Returns the request as JSON.
pub(crate) fn json(readings: &[Reading]) -> serde_json::Result<String> {
    serde_json::to_string(&request(readings))
}

/// Returns the request as protobuf.
#[cfg(feature = "protobuf")]
pub(crate) fn protobuf(readings: &[Reading]) -> Vec<u8> {
    use prost::Message;
    request(readings).encode_to_vec()
}

/// Returns the request: a gauge for each figure and grade that is known in at least one of `readings`, with a point per
/// reading in which it is known.
fn request(readings: &[Reading]) -> MetricsRequest {
    let mut known: Vec<&ReadFigure> = Vec::new();
    for figure in readings.iter().flat_map(|reading| &reading.figures) {
        if !known.iter().any(|other| other.plain_name == figure.plain_name) {
            known.push(figure);
        }
    }
    let figures = known.into_iter().map(|figure| Metric {
        name: format!("jitlat.{}", figure.plain_name),
        description: figure.about.to_owned(),
        unit: unit(figure.unit).to_owned(),
        gauge: Some(Gauge { data_points: readings.iter().filter_map(|r| point_of(figure, r)).collect() }),
    });
    let grades = [GradeSubject::Path, GradeSubject::Host].map(|subject| Metric {
        name: format!("jitlat.{}", grade_name(subject)),
        description: "grade: 1 good, 2 fair, 3 poor, 4 bad".to_owned(),
        unit: String::new(),
        gauge: Some(Gauge { data_points: readings.iter().filter_map(|r| grade_of(subject, r)).collect() }),
    });
    let has_points = |metric: &Metric| metric.gauge.as_ref().is_some_and(|g| !g.data_points.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let mut resource =
        vec![KeyValue::new("service.name", "jitlat"), KeyValue::new("service.version", version)];
    resource
        .extend(readings.iter().find_map(|r| r.host.as_deref()).map(|host| KeyValue::new("host.name", host)));
    MetricsRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes: resource }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(Scope { name: "jitlat".to_owned(), version: version.to_owned() }),
                metrics: figures.chain(grades).filter(has_points).collect(),
            }],
        }],
    }
}

fn point_of(figure: &ReadFigure, reading: &Reading) -> Option<DataPoint> {
    let known = reading.figures.iter().find(|of| of.plain_name == figure.plain_name)?;
    Some(DataPoint::new(reading, known.value))
}

fn grade_of(subject: GradeSubject, reading: &Reading) -> Option<DataPoint> {
    let (_, grade) = reading.grades.iter().find(|(of, _)| *of == subject)?;
    Some(DataPoint::new(reading, BaseValue::Whole(grade_number(*grade))))
}

/// Returns the unit in UCUM; empty for numbers without a unit.
fn unit(unit: ScalarUnit) -> &'static str {
    match unit {
        ScalarUnit::Time => "s",
        ScalarUnit::Share => "1",
        ScalarUnit::Packets => "{packet}",
        ScalarUnit::PacketRate => "{packet}/s",
        ScalarUnit::BitRate => "bit/s",
        ScalarUnit::Bytes => "By",
        ScalarUnit::Ppm => "[ppm]",
        ScalarUnit::Count | ScalarUnit::Plain { .. } => "",
    }
}

/// Defines a message with both encodings. JSON leaves out empty members.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $member:ident: $type:ty = $encoding:tt,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "protobuf", derive(prost::Message))]
        #[serde(rename_all = "camelCase")]
        struct $name {
            $($(#[$field])* #[cfg_attr(feature = "protobuf", prost $encoding)] $member: $type,)*
        }
    };
}

message! {
    /// `ExportMetricsServiceRequest`.
    MetricsRequest {
        resource_metrics: Vec<ResourceMetrics> = (message, repeated, tag = "1"),
    }
}

message! {
    ResourceMetrics {
        resource: Option<Resource> = (message, optional, tag = "1"),
        scope_metrics: Vec<ScopeMetrics> = (message, repeated, tag = "2"),
    }
}

message! {
    Resource {
        attributes: Vec<KeyValue> = (message, repeated, tag = "1"),
    }
}

message! {
    ScopeMetrics {
        scope: Option<Scope> = (message, optional, tag = "1"),
        metrics: Vec<Metric> = (message, repeated, tag = "2"),
    }
}

message! {
    /// `InstrumentationScope`.
    Scope {
        name: String = (string, tag = "1"),
        version: String = (string, tag = "2"),
    }
}

message! {
    Metric {
        name: String = (string, tag = "1"),
        description: String = (string, tag = "2"),
        #[serde(skip_serializing_if = "String::is_empty")]
        unit: String = (string, tag = "3"),
        /// The only member of the union `data` that is written.
        gauge: Option<Gauge> = (message, optional, tag = "5"),
    }
}

message! {
    Gauge {
        data_points: Vec<DataPoint> = (message, repeated, tag = "1"),
    }
}

message! {
    /// `NumberDataPoint`, with one of the two values.
    DataPoint {
        attributes: Vec<KeyValue> = (message, repeated, tag = "7"),
        /// Time at which the test began, ns since 1970; 0 if unknown, as the protocol defines.
        #[serde(serialize_with = "as_text")]
        time_unix_nano: u64 = (fixed64, tag = "3"),
        #[serde(skip_serializing_if = "Option::is_none")]
        as_double: Option<f64> = (double, optional, tag = "4"),
        #[serde(serialize_with = "as_optional_text", skip_serializing_if = "Option::is_none")]
        as_int: Option<i64> = (sfixed64, optional, tag = "6"),
    }
}

message! {
    KeyValue {
        key: String = (string, tag = "1"),
        value: Option<AnyValue> = (message, optional, tag = "2"),
    }
}

message! {
    AnyValue {
        string_value: Option<String> = (string, optional, tag = "1"),
    }
}

impl KeyValue {
    fn new(key: &str, value: &str) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
    }
}

impl DataPoint {
    fn new(reading: &Reading, value: BaseValue) -> DataPoint {
        let (as_double, as_int) = match value {
            BaseValue::Real(real) => (Some(real), None),
            BaseValue::Whole(whole) => (None, Some(whole)),
        };
        DataPoint {
            attributes: reading.labels.iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
            time_unix_nano: reading.time.and_then(|time| u64::try_from(time.0).ok()).unwrap_or(0),
            as_double,
            as_int,
        }
    }
}

/// Serialises a 64-bit integer as JSON represents it in protobuf: as a string.
fn as_text<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_optional_text<S: Serializer>(value: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&value.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{examples, readings};
    use super::*;
    use serde_json::{Value, json};

    fn example() -> MetricsRequest {
        let summaries = [examples::summary(), examples::unnamed_down()];
        request(&readings(&summaries))
    }

    #[test]
    fn json_has_integers_of_64_bits_as_strings_and_a_point_for_each_stream() {
        let document = serde_json::to_value(example()).unwrap();
        let of_resource = &document["resourceMetrics"][0];
        let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let host = attribute("host.name", "probe 1");
        assert!(of_resource["resource"]["attributes"].as_array().unwrap().contains(&host));
        let metrics = of_resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| -> &Value {
            metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}"))
        };
        let received = named("jitlat.packets_received");
        let points = received["gauge"]["dataPoints"].as_array().unwrap();
        assert_eq!((&received["unit"], points.len()), (&"{packet}".into(), 2));
        assert_eq!((&points[0]["asInt"], &points[0]["asDouble"]), (&"3".into(), &Value::Null));
        assert_eq!(points[0]["timeUnixNano"], examples::BEGAN.to_string());
        assert_eq!(points[1]["timeUnixNano"], "0", "unknown");
        assert!(points[0]["attributes"].as_array().unwrap().contains(&attribute("direction", "up")));
        let delay = named("jitlat.latency_p99");
        assert_eq!(
            (&delay["unit"], &delay["gauge"]["dataPoints"][0]["asDouble"]),
            (&"s".into(), &0.005.into())
        );
        assert!(!document.to_string().contains("null"));
    }

    #[cfg(feature = "protobuf")]
    #[test]
    fn protobuf_is_what_the_definition_of_the_protocol_says() {
        use prost::Message;
        // NumberDataPoint: attributes = 7, fixed64 time_unix_nano = 3, double as_double = 4, sfixed64 as_int = 6.
        let point = DataPoint {
            attributes: vec![KeyValue::new("a", "b")],
            time_unix_nano: 1,
            as_double: None,
            as_int: Some(2),
        };
        let expected = [
            &[0x3a, 8, 0x0a, 1, b'a', 0x12, 3, 0x0a, 1, b'b'][..],
            &[0x19, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x31, 2, 0, 0, 0, 0, 0, 0, 0],
        ];
        let mut fields: Vec<Vec<u8>> = expected.iter().map(|field| field.to_vec()).collect();
        // Fields may be in any order.
        fields.sort();
        let encoded = point.encode_to_vec();
        let mut rest = &encoded[..];
        while let Some(field) = fields.iter().find(|field| rest.starts_with(field)) {
            rest = &rest[field.len()..];
        }
        assert!(rest.is_empty() && encoded.len() == expected.concat().len(), "{encoded:x?}");
        let whole = example();
        assert!(MetricsRequest::decode(&whole.encode_to_vec()[..]).unwrap() == whole);
    }
}
