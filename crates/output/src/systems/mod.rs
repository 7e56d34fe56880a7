//! Figures for systems that store measurements.
//!
//! * [`influx`], [`collectd`], [`zabbix`], [`otlp`] – one format each
//! * [`Reading`] – the figures of a test with its labels, which all of these formats write
//!
//! A figure has the same name in every system: its name in OpenMetrics without the prefix, with its base unit
//! (`loss_ratio`, `latency_p99_seconds`). Its time is that at which the test began. Undefined figures are left out.

pub(crate) mod collectd;
pub(crate) mod influx;
pub(crate) mod otlp;
pub mod zabbix;

use crate::report::Report;
use jitlat_core::answer::Severity;
use jitlat_core::scalars::{ExactNumber, GradeSubject, SCALARS, Scalar, ScalarSource, ScalarUnit};
use jitlat_core::spec::ip_protocol_name;
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, WallTime};
use jitlat_store::openmetrics;

/// Maximum length of the name of a reading, in bytes; collectd cuts longer names.
const MAX_NAME_BYTES: usize = 100;

/// The figures of a test, of one direction of a round-trip test, or of a part of an instrument's result.
pub(crate) struct Reading {
    /// Name that differs from that of all other readings: the far host's address, after the name of the test if it has
    /// one, and before the direction. It has no blank, slash, quote, backslash or control character.
    pub name: String,
    /// Labels, none of them empty.
    pub labels: Vec<(String, String)>,
    /// Time at which the test began; `None` if its log does not contain it.
    pub time: Option<WallTime>,
    /// Grades of the path and of the hosts that are known.
    pub grades: Vec<(GradeSubject, Severity)>,
    /// Name of the measuring host; `None` if unknown.
    pub host: Option<String>,
    /// Defined figures.
    pub figures: Vec<ReadFigure>,
}

/// A figure with its value in base units.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReadFigure {
    /// Name with the unit: `latency_p99_seconds`.
    pub name: String,
    /// Name without the unit.
    pub plain_name: String,
    /// Description for people.
    pub about: &'static str,
    /// Unit.
    pub unit: ScalarUnit,
    /// Value.
    pub value: BaseValue,
}

/// Part of an instrument's result whose figures are not those of streams.
#[derive(Clone, Debug)]
pub struct NativeReading {
    /// Name of the part. A number is appended if another reading has the same name.
    pub name: String,
    /// Labels.
    pub labels: Vec<(&'static str, String)>,
    /// Time at which the measurement began.
    pub time: WallTime,
    /// Name of the measuring host; `None` if unknown.
    pub host: Option<String>,
    /// Figures that are known.
    pub figures: Vec<NativeFigure>,
}

/// Figure of an instrument.
#[derive(Clone, Copy, Debug)]
pub struct NativeFigure {
    /// Name without the unit.
    pub name: &'static str,
    /// Description for people.
    pub about: &'static str,
    /// Unit.
    pub unit: ScalarUnit,
    /// Value in base units.
    pub value: f64,
}

/// Value of a figure in its base unit. The figure has a value of the same kind in every test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BaseValue {
    /// A count.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

/// Returns the readings of `report`: those of its instrument or, if it has none, of its streams.
pub(crate) fn readings_of(report: &dyn Report) -> Vec<Reading> {
    let native = report.native();
    if native.is_empty() {
        return readings(&report.summaries());
    }
    let mut readings: Vec<Reading> = Vec::new();
    for part in native {
        let mut reading = Reading::of_native(part);
        reading.name = unused(&reading.name, &readings);
        readings.push(reading);
    }
    readings
}

/// Returns the readings of `summaries`: each whole test, followed by the directions of a round-trip test.
pub(crate) fn readings(summaries: &[Summary]) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for summary in summaries {
        for direction in [None, Some(Direction::Up), Some(Direction::Down)] {
            let Some(source) = ScalarSource::of(summary, direction) else { continue };
            let mut reading = Reading::of(summary, source, direction);
            reading.name = unused(&reading.name, &readings);
            readings.push(reading);
        }
    }
    readings
}

/// Returns `name`, followed by a number if one of `readings` already has this name.
fn unused(name: &str, readings: &[Reading]) -> String {
    let is_free = |name: &String| readings.iter().all(|reading| reading.name != *name);
    let numbered = (2u32..).map(|k| format!("{name}-{k}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

impl Reading {
    /// Reads a whole test (`direction` is `None`), or one direction of a round-trip test.
    fn of(summary: &Summary, source: ScalarSource<'_>, direction: Option<Direction>) -> Reading {
        let header = &summary.header;
        let is_round_trip = summary.two_way.is_some();
        let one_way = (!is_round_trip).then_some(summary.session.direction);
        let direction = match direction.or(one_way) {
            None => "both",
            Some(Direction::Up) => "up",
            Some(Direction::Down) => "down",
        };
        let proto = ip_protocol_name(header.proto).to_lowercase();
        let mut labels = vec![
            ("direction".to_owned(), direction.to_owned()),
            ("test".to_owned(), if is_round_trip { "round-trip" } else { "one-way" }.to_owned()),
            ("proto".to_owned(), proto),
            ("dscp".to_owned(), header.dscp.to_string()),
        ];
        let known = [
            ("src", header.src_ip.as_deref()),
            ("dst", header.dst_ip.as_deref()),
            ("name", summary.session.name.as_deref()),
        ];
        let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let named = known.chain(openmetrics::tags(summary)).filter(|(_, value)| !value.is_empty());
        labels.extend(named.map(|(key, value)| (key, value.to_owned())));
        let grades = [GradeSubject::Path, GradeSubject::Host].map(|subject| (subject, subject.of(summary)));
        let is_whole = source.test().is_some();
        Reading {
            name: reading_name(summary, direction),
            labels,
            time: summary.session.created,
            grades: grades.into_iter().filter(|(_, s)| is_whole && *s != Severity::Unknown).collect(),
            host: summary.session.client.name.clone().filter(|name| !name.is_empty()),
            figures: SCALARS.iter().filter_map(|figure| ReadFigure::of(figure, &source)).collect(),
        }
    }

    fn of_native(part: NativeReading) -> Reading {
        let labels = part.labels.into_iter().filter(|(_, value)| !value.is_empty());
        let figure = |figure: NativeFigure| ReadFigure {
            name: format!("{}{}", figure.name, suffix(figure.unit)),
            plain_name: figure.name.to_owned(),
            about: figure.about,
            unit: figure.unit,
            value: BaseValue::Real(figure.value),
        };
        Reading {
            name: plain_name(&part.name),
            labels: labels.map(|(key, value)| (key.to_owned(), value)).collect(),
            time: Some(part.time),
            grades: Vec::new(),
            host: part.host.filter(|name| !name.is_empty()),
            figures: part.figures.into_iter().map(figure).collect(),
        }
    }
}

impl ReadFigure {
    /// Reads a figure of a test; `None` if it is not defined.
    fn of(figure: &'static Scalar, source: &ScalarSource<'_>) -> Option<ReadFigure> {
        Some(ReadFigure::with(figure, base_value(figure, figure.from(source)?)))
    }

    /// Creates a figure from its value.
    pub fn with(figure: &'static Scalar, value: BaseValue) -> ReadFigure {
        ReadFigure {
            name: figure_name(figure),
            plain_name: figure.openmetrics.unwrap_or(figure.key).replace(['-', '.'], "_"),
            about: figure.about,
            unit: figure.unit,
            value,
        }
    }
}

/// Returns the end of the name of a figure with this unit, as OpenMetrics defines it.
fn suffix(unit: ScalarUnit) -> &'static str {
    match unit {
        ScalarUnit::Time => "_seconds",
        ScalarUnit::Share => "_ratio",
        ScalarUnit::BitRate => "_bits_per_second",
        ScalarUnit::Bytes => "_bytes",
        _ => "",
    }
}

/// Returns the value in base units.
fn base_value(figure: &Scalar, value: ExactNumber) -> BaseValue {
    match (figure.unit, value) {
        (ScalarUnit::Time, _) | (_, ExactNumber::Real(_)) => BaseValue::Real(figure.unit.in_base(value)),
        (_, ExactNumber::Whole(whole)) => BaseValue::Whole(whole),
    }
}

/// Returns the name of a figure: `latency_p99_seconds`.
fn figure_name(figure: &Scalar) -> String {
    let name = figure.metric_name();
    name.strip_prefix("jitlat_").map_or_else(|| name.clone(), str::to_owned)
}

/// Returns the name of a grade: `path_grade`.
pub(crate) fn grade_name(subject: GradeSubject) -> String {
    format!("{}_grade", subject.name())
}

/// Returns the number of a known grade for systems that store only numbers: 1 good, 2 fair, 3 poor, 4 bad.
pub(crate) fn grade_number(grade: Severity) -> i64 {
    grade as i64
}

/// Returns the name of a reading, without characters that would have to be quoted in some of the formats.
fn reading_name(summary: &Summary, direction: &str) -> String {
    let header = &summary.header;
    let far = match summary.session.direction {
        Direction::Up => &header.dst_ip,
        Direction::Down => &header.src_ip,
    };
    let mut name = summary.session.name.clone().unwrap_or_default();
    if let Some(far) = far {
        name += if name.is_empty() { "" } else { "-" };
        name += far;
    }
    let name = plain_name(&name);
    match (name.is_empty(), direction) {
        (true, _) => direction.to_owned(),
        (false, "both") => name,
        (false, _) => name + "-" + direction,
    }
}

/// Returns a name without characters that would have to be quoted in some of the formats, and of limited length.
fn plain_name(name: &str) -> String {
    let unquoted = |c: char| !c.is_control() && !c.is_whitespace() && !"/\\\"'".contains(c);
    let mut name: String = name.chars().map(|c| if unquoted(c) { c } else { '_' }).collect();
    name.truncate(
        (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|k| name.is_char_boundary(*k)).unwrap_or(0),
    );
    name
}

#[cfg(test)]
pub(crate) mod examples {
    use jitlat_core::analysis::{Options, analyze};
    use jitlat_core::summary::Summary;
    use jitlat_core::{Direction, PacketRecord, Session, TestSpec, WallTime};

    /// Time at which the example began, ns since 1970.
    pub const BEGAN: i64 = 1_795_749_002_250_000_000;

    /// Returns the summary of three packets that each took 5 ms, with a name and a tag that have to be quoted.
    pub fn summary() -> Summary {
        let mut session = Session::new(TestSpec::default());
        session.created = Some(WallTime(BEGAN));
        session.src = "192.0.2.1".parse().ok();
        session.dst = "192.0.2.7".parse().ok();
        session.client.name = Some("probe 1".to_owned());
        session.name = Some("a, \"b\"=\n\\".to_owned());
        session.tags = vec![("site-a".to_owned(), "x y/z".to_owned()), ("empty".to_owned(), String::new())];
        let ms = 1_000_000;
        let records = (0..3).map(|i| {
            let sent = BEGAN + i * 20 * ms;
            PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5 * ms))
        });
        analyze(&session, records, &Options::default())
    }

    /// Returns the same summary for the other direction, without a time and a name.
    pub fn unnamed_down() -> Summary {
        let mut summary = summary();
        summary.session.direction = Direction::Down;
        (summary.session.created, summary.session.name) = (None, None);
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_have_distinct_names_that_need_no_quotes() {
        let mut long = examples::summary();
        long.session.name = Some("é".repeat(200));
        let same = [examples::summary(), examples::unnamed_down(), examples::unnamed_down(), long];
        let found = readings(&same);
        let names: Vec<&str> = found.iter().map(|reading| reading.name.as_str()).collect();
        let long = format!("{}-up", "é".repeat(50));
        assert_eq!(names, ["a,__b_=__-192.0.2.7-up", "192.0.2.1-down", "192.0.2.1-down-2", &long]);
        assert_eq!(readings(&[Summary::default()])[0].name, "up");
    }

    #[test]
    fn a_figure_has_one_name_and_one_kind_of_value_in_its_base_unit() {
        let summary = examples::summary();
        let found = readings(std::slice::from_ref(&summary));
        let value = |name: &str| found[0].figures.iter().find(|f| f.name == name).map(|f| f.value);
        assert_eq!(value("packets_sent"), Some(BaseValue::Whole(examples_sent(&summary))));
        assert_eq!(value("latency_median_seconds"), Some(BaseValue::Real(0.005)));
        assert_eq!(value("latency_p99_seconds"), Some(BaseValue::Real(0.005)));
        assert_eq!(value("up_loss_ratio"), None);
        let label = |key: &str| found[0].labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        assert_eq!((label("direction"), label("test")), (Some("up"), Some("one-way")));
        assert_eq!((label("tag_site_a"), label("tag_empty")), (Some("x y/z"), None));
    }

    #[test]
    fn parts_of_an_instrument_have_figures_of_their_own() {
        let part = |load: &str| NativeReading {
            name: format!("probe.example {load}"),
            labels: vec![("test", "rpm".to_owned()), ("load", load.to_owned()), ("empty", String::new())],
            time: WallTime(examples::BEGAN),
            host: None,
            figures: vec![NativeFigure {
                name: "down_goodput",
                about: "bits per second",
                unit: ScalarUnit::BitRate,
                value: 12e6,
            }],
        };
        struct Rpm(Vec<NativeReading>);
        impl Report for Rpm {
            fn json(&self) -> crate::Result<serde_json::Value> {
                Ok(serde_json::Value::Null)
            }

            fn native(&self) -> Vec<NativeReading> {
                self.0.clone()
            }
        }
        let found = readings_of(&Rpm(vec![part("down"), part("down")]));
        let names: Vec<&str> = found.iter().map(|reading| reading.name.as_str()).collect();
        assert_eq!(names, ["probe.example_down", "probe.example_down-2"]);
        assert_eq!(found[0].labels.len(), 2, "{:?}", found[0].labels);
        let figure = &found[0].figures[0];
        assert_eq!(
            (figure.name.as_str(), figure.value),
            ("down_goodput_bits_per_second", BaseValue::Real(12e6))
        );
    }

    fn examples_sent(summary: &Summary) -> i64 {
        i64::try_from(summary.counts.sent).unwrap()
    }
}
