//! `influx`: a point for each test and direction in InfluxDB's line protocol, which Telegraf reads too.

use super::{BaseValue, Reading, grade_name, readings_of};
use crate::format::{Destination, Output, ReportParts, write_file};
use std::fmt::Write as _;

/// Name of the measurement.
const MEASUREMENT: &str = "jitlat";

pub(crate) static OUTPUT: Output = Output {
    needs: ReportParts::READINGS,
    ..Output::new(
        "influx",
        "Write one point per test and direction in InfluxDB's line protocol",
        Destination::File,
        |report, path| {
            let points: String = readings_of(report).iter().map(point).collect();
            write_file(path, |out| out.write_all(points.as_bytes()))
        },
    )
};

/// Returns the point as one line; without a time if the time of the test is unknown.
fn point(reading: &Reading) -> String {
    let mut tags: Vec<(&str, String)> =
        reading.labels.iter().map(|(key, value)| (key.as_str(), tag_value(value))).collect();
    // The database finds the series faster if its tags are sorted.
    tags.sort_unstable();
    let mut line = MEASUREMENT.to_owned();
    for (key, value) in tags {
        let _ = write!(line, ",{key}={value}");
    }
    let grades = reading.grades.iter().map(|(of, grade)| format!("{}=\"{}\"", grade_name(*of), grade.name()));
    let figures = reading.figures.iter().map(|figure| match figure.value {
        BaseValue::Whole(whole) => format!("{}={whole}i", figure.name),
        BaseValue::Real(real) => format!("{}={real}", figure.name),
    });
    let fields: Vec<String> = figures.chain(grades).collect();
    line += " ";
    line += &fields.join(",");
    if let Some(time) = reading.time {
        let _ = write!(line, " {}", time.0);
    }
    line + "\n"
}

/// Escapes the value of a tag. A tag can contain neither control characters nor a backslash before an escaped character.
fn tag_value(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            ',' | '=' | ' ' => text.extend(['\\', c]),
            '\\' => text.push('/'),
            c if c.is_control() => text.push_str("\\ "),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{examples, readings};
    use super::*;

    #[test]
    fn a_point_has_escaped_tags_typed_fields_and_the_time_of_the_test() {
        let summaries = [examples::summary(), examples::unnamed_down()];
        let points: Vec<String> = readings(&summaries).iter().map(point).collect();
        let tags = r#"jitlat,direction=up,dscp=0,dst=192.0.2.7,name=a\,\ "b"\=\ /,proto=udp,src=192.0.2.1,tag_site_a=x\ y/z,test=one-way "#;
        assert!(points[0].starts_with(tags), "{}", points[0]);
        for field in [",packets_received=3i,", ",latency_p99_seconds=0.005,", ",latency_min_seconds=0.005,"] {
            assert!(points[0].contains(field), "{field}: {}", points[0]);
        }
        assert!(points[0].ends_with(&format!(" {}\n", examples::BEGAN)), "{}", points[0]);
        assert_eq!(points[0].matches('\n').count(), 1);
        assert!(points[1].starts_with("jitlat,direction=down,"), "{}", points[1]);
        assert_eq!(points[1].split(' ').count(), 3, "escaped tag, fields, no time: {}", points[1]);
        assert!(!points.concat().contains("NaN") && !points.concat().contains("inf"));
    }
}
