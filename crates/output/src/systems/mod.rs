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

use jitlat_core::answer::Severity;
use jitlat_core::scalars::{ExactNumber, GradeSubject, SCALARS, Scalar, ScalarSource, ScalarUnit};
use jitlat_core::spec::ip_protocol_name;
use jitlat_core::summary::Summary;
use jitlat_core::{Direction, WallTime};
use jitlat_store::openmetrics;

/// Maximum length of the name of a reading, in bytes; collectd cuts longer names.
const MAX_NAME_BYTES: usize = 100;

/// The figures of a test, or of one direction of a round-trip test.
pub(crate) struct Reading<'a> {
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
    pub host: Option<&'a str>,
    source: ScalarSource<'a>,
}

/// Value of a figure in its base unit. The figure has a value of the same kind in every test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BaseValue {
    /// A count.
    Whole(i64),
    /// Any other number.
    Real(f64),
}

/// Returns the readings of `summaries`: each whole test, followed by the directions of a round-trip test.
pub(crate) fn readings(summaries: &[Summary]) -> Vec<Reading<'_>> {
    let mut readings: Vec<Reading<'_>> = Vec::new();
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
fn unused(name: &str, readings: &[Reading<'_>]) -> String {
    let is_free = |name: &String| readings.iter().all(|reading| reading.name != *name);
    let numbered = (2u32..).map(|k| format!("{name}-{k}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

impl<'a> Reading<'a> {
    /// Reads a whole test (`direction` is `None`), or one direction of a round-trip test.
    fn of(summary: &'a Summary, source: ScalarSource<'a>, direction: Option<Direction>) -> Reading<'a> {
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
            host: summary.session.client.name.as_deref().filter(|name| !name.is_empty()),
            source,
        }
    }

    /// Iterates over the defined figures in their base units.
    pub fn figures(&self) -> impl Iterator<Item = (&'static Scalar, BaseValue)> + '_ {
        SCALARS.iter().filter_map(|figure| Some((figure, base_value(figure, figure.from(&self.source)?))))
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
pub(crate) fn figure_name(figure: &Scalar) -> String {
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
    let unquoted = |c: char| !c.is_control() && !c.is_whitespace() && !"/\\\"'".contains(c);
    let mut name: String = name.chars().map(|c| if unquoted(c) { c } else { '_' }).collect();
    name.truncate(
        (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|k| name.is_char_boundary(*k)).unwrap_or(0),
    );
    match (name.is_empty(), direction) {
        (true, _) => direction.to_owned(),
        (false, "both") => name,
        (false, _) => name + "-" + direction,
    }
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
        let value = |name: &str| found[0].figures().find(|(f, _)| figure_name(f) == name).map(|(_, x)| x);
        assert_eq!(value("packets_sent"), Some(BaseValue::Whole(examples_sent(&summary))));
        assert_eq!(value("latency_median_seconds"), Some(BaseValue::Real(0.005)));
        assert_eq!(value("latency_p99_seconds"), Some(BaseValue::Real(0.005)));
        assert_eq!(value("up_loss_ratio"), None);
        let label = |key: &str| found[0].labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        assert_eq!((label("direction"), label("test")), (Some("up"), Some("one-way")));
        assert_eq!((label("tag_site_a"), label("tag_empty")), (Some("x y/z"), None));
    }

    fn examples_sent(summary: &Summary) -> i64 {
        i64::try_from(summary.counts.sent).unwrap()
    }
}
