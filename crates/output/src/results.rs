//! Results of an archive's tests for systems that receive a stream of them: `jitlat archive stream`.
//!
//! [`RESULT_FORMATS`] is the list of formats. Each makes one message, for one run of a command, of several results.
//! Series have the names and labels of [`systems`](crate::systems).

use crate::error::Result;
use crate::systems::{BaseValue, ReadFigure, Reading, otlp};
use jitlat_archive::ArchivedResult;
use jitlat_core::scalars::{ExactNumber, Selector, selectors};
use jitlat_core::{Direction, WallTime};
use jitlat_store::openmetrics;
use std::fmt::Write;

/// A format of messages.
pub struct ResultFormat {
    /// Name for `--as`.
    pub name: &'static str,
    /// Description for people.
    pub about: &'static str,
    /// Makes a message of results.
    pub message: fn(&[ArchivedResult]) -> Result<Vec<u8>>,
}

/// All formats.
pub const RESULT_FORMATS: &[ResultFormat] = &[
    ResultFormat {
        name: "json",
        about: "a JSON object per line",
        message: |results| {
            let mut text = String::new();
            for result in results {
                text += &serde_json::to_string(result)?;
                text.push('\n');
            }
            Ok(text.into_bytes())
        },
    },
    ResultFormat {
        name: "keyed-json",
        about: "the same after the SHA-256 of the test's log and a tab, for kcat -K",
        message: |results| {
            let mut text = String::new();
            for result in results {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{}\t{}", result.hash, serde_json::to_string(result)?);
            }
            Ok(text.into_bytes())
        },
    },
    ResultFormat {
        name: "otlp",
        about: "a request of OpenTelemetry (OTLP) as JSON",
        message: |results| Ok(otlp::json(&readings(results))?.into_bytes()),
    },
    #[cfg(feature = "protobuf")]
    ResultFormat {
        name: "otlp-protobuf",
        about: "the same as protobuf",
        message: |results| Ok(otlp::protobuf(&readings(results))),
    },
    #[cfg(feature = "protobuf")]
    ResultFormat {
        name: "remote-write",
        about: "a request of Prometheus remote write 1.0: protobuf, Snappy",
        message: |results| Ok(remote_write::message(&readings(results))),
    },
];

/// Returns the readings of results: each whole test, followed by the directions of a round-trip test.
fn readings(results: &[ArchivedResult]) -> Vec<Reading> {
    let directions = [None, Some(Direction::Up), Some(Direction::Down)];
    let all = results.iter().flat_map(|result| directions.iter().map(move |of| reading(result, *of)));
    all.filter(|reading| !reading.figures.is_empty()).collect()
}

/// Returns the figures of a test (`of` is `None`) or of one direction.
fn reading(result: &ArchivedResult, of: Option<Direction>) -> Reading {
    let stream = &result.stream;
    let is_round_trip = stream.direction == "both";
    let direction = match of {
        None => stream.direction.as_str(),
        Some(Direction::Up) => "up",
        Some(Direction::Down) => "down",
    };
    let labels = [
        ("direction", direction.to_owned()),
        ("test", if is_round_trip { "round-trip" } else { "one-way" }.to_owned()),
        ("proto", stream.protocol.clone()),
        ("dscp", stream.dscp.to_string()),
        ("src", stream.src.clone()),
        ("dst", stream.dst.clone()),
        ("name", result.name.clone().unwrap_or_default()),
    ];
    let labels = labels.into_iter().filter(|(_, value)| !value.is_empty() && value != "-");
    let tags = openmetrics::tag_labels(&result.tags);
    let tags =
        tags.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.to_owned()));
    let figure = |selector: Selector| {
        let value = *result.figures.get(&selector.to_string())?;
        let value = selector.scalar.unit.in_base(ExactNumber::Real(value));
        Some(ReadFigure::with(selector.scalar, BaseValue::Real(value)))
    };
    Reading {
        name: result.id.clone(),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).chain(tags).collect(),
        time: Some(WallTime(result.started_ns)),
        grades: Vec::new(),
        host: None,
        figures: selectors().filter(|s| s.direction == of).filter_map(figure).collect(),
    }
}

/// Prometheus remote write 1.0: `prometheus.WriteRequest` of `prompb/remote.proto`, in Snappy's block format.
#[cfg(feature = "protobuf")]
mod remote_write {
    use super::*;
    use prost::Message;
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        pub timeseries: Vec<TimeSeries>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TimeSeries {
        #[prost(message, repeated, tag = "1")]
        pub labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        pub samples: Vec<Sample>,
    }

    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Message)]
    pub(super) struct Label {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct Sample {
        #[prost(double, tag = "1")]
        pub value: f64,
        /// Milliseconds since 1970.
        #[prost(int64, tag = "2")]
        pub timestamp: i64,
    }

    /// One series per name and labels, which are sorted by name, with its samples in order of time.
    pub(super) fn request(readings: &[Reading]) -> WriteRequest {
        let mut series: BTreeMap<Vec<Label>, Vec<Sample>> = BTreeMap::new();
        for reading in readings {
            let timestamp = reading.time.map_or(0, |time| time.0.div_euclid(1_000_000));
            for figure in &reading.figures {
                let value = match figure.value {
                    BaseValue::Real(value) => value,
                    BaseValue::Whole(value) => value as f64,
                };
                let name = ("__name__".to_owned(), format!("jitlat_{}", figure.name));
                let labels = reading.labels.iter().cloned().chain([name]);
                let mut labels: Vec<Label> = labels.map(|(name, value)| Label { name, value }).collect();
                labels.sort();
                series.entry(labels).or_default().push(Sample { value, timestamp });
            }
        }
        let of = |(labels, mut samples): (Vec<Label>, Vec<Sample>)| {
            samples.sort_by_key(|sample| sample.timestamp);
            // A series has one value per time.
            samples.dedup_by_key(|sample| sample.timestamp);
            TimeSeries { labels, samples }
        };
        WriteRequest { timeseries: series.into_iter().map(of).collect() }
    }

    pub(super) fn message(readings: &[Reading]) -> Vec<u8> {
        snappy(&request(readings).encode_to_vec())
    }

    /// Encodes bytes as a Snappy block of one literal. The protocol requires Snappy, but not that anything becomes
    /// shorter.
    pub(super) fn snappy(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 10);
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        for part in bytes.chunks(u32::MAX as usize) {
            // A literal whose length minus one follows in four bytes.
            out.push(63 << 2);
            out.extend((part.len() as u32 - 1).to_le_bytes());
            out.extend(part);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_archive::{Archive, ArchivedResult};
    use jitlat_core::{PacketRecord, Session, TestSpec};
    use jitlat_store::log::{LogVersion, LogWriter};

    /// Results of two tests of one stream.
    fn results() -> Vec<ArchivedResult> {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::make(&folder.path().join("net")).unwrap();
        for k in 0..2 {
            let start = 1_795_749_002_250_000_000 + k * 60_000_000_000;
            let mut session = Session::new(TestSpec::default());
            (session.created, session.sent) = (Some(WallTime(start)), Some(3));
            (session.src, session.dst) = ("192.0.2.1".parse().ok(), "192.0.2.7".parse().ok());
            let path = folder.path().join(format!("{k}.log"));
            let mut log = LogWriter::new(std::fs::File::create(&path).unwrap(), LogVersion::V3);
            log.begin(&session);
            for i in 0..3 {
                let sent = start + i * 20_000_000;
                log.record(&PacketRecord::one_way(i, WallTime(sent), WallTime(sent + 5_000_000)));
            }
            log.finish(&session);
            log.close().1.unwrap();
            archive.add(&path, &[("site".to_owned(), "oslo".to_owned())]).unwrap();
        }
        let all = archive.results_after(-1, 10).unwrap();
        assert_eq!(archive.results_after(-1, 1).unwrap(), all[..1]);
        assert_eq!(archive.results_after(all[0].entered, 10).unwrap(), all[1..]);
        all
    }

    fn message(name: &str, results: &[ArchivedResult]) -> Vec<u8> {
        let format = RESULT_FORMATS.iter().find(|format| format.name == name).unwrap();
        (format.message)(results).unwrap()
    }

    #[test]
    fn lines_have_the_hash_as_key() {
        let results = results();
        let text = String::from_utf8(message("keyed-json", &results)).unwrap();
        let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once('\t').unwrap()).collect();
        assert_eq!(lines.len(), 2);
        for (line, result) in lines.iter().zip(&results) {
            assert_eq!((line.0, line.0.len()), (result.hash.as_str(), 64));
            let value: serde_json::Value = serde_json::from_str(line.1).unwrap();
            assert_eq!((&value["hash"], &value["src"]), (&line.0.into(), &"192.0.2.1".into()));
            assert_eq!(value["figures"]["latency-p99"], 5e6);
            assert_eq!(value["tags"]["site"], "oslo");
        }
    }

    #[test]
    fn otlp_has_a_point_per_test_and_figure() {
        let document: serde_json::Value = serde_json::from_slice(&message("otlp", &results())).unwrap();
        let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let delay = metrics.iter().find(|metric| metric["name"] == "jitlat.latency_p99").unwrap();
        let points = delay["gauge"]["dataPoints"].as_array().unwrap();
        assert_eq!((points.len(), &points[0]["asDouble"]), (2, &0.005.into()));
        assert_eq!(points[1]["timeUnixNano"], "1795749062250000000");
    }

    #[cfg(feature = "protobuf")]
    #[test]
    fn remote_write_has_sorted_labels_and_samples_in_order_of_time() {
        use prost::Message;
        let mut results = results();
        results.reverse();
        let bytes = message("remote-write", &results);
        let request = remote_write::request(&readings(&results));
        let plain = request.encode_to_vec();
        // One literal with the whole request.
        let mut rest = &bytes[..];
        assert_eq!(prost::encoding::decode_varint(&mut rest).unwrap(), plain.len() as u64);
        assert_eq!(rest[0], 0xfc);
        assert_eq!(u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize + 1, plain.len());
        assert_eq!(rest[5..], plain);
        let name = |series: &remote_write::TimeSeries| {
            series.labels.iter().find(|label| label.name == "__name__").unwrap().value.clone()
        };
        let series = request.timeseries.iter().find(|s| name(s) == "jitlat_latency_p99_seconds").unwrap();
        assert!(series.labels.is_sorted());
        let samples: Vec<(f64, i64)> = series.samples.iter().map(|s| (s.value, s.timestamp)).collect();
        assert_eq!(samples, [(0.005, 1_795_749_002_250), (0.005, 1_795_749_062_250)]);
        assert!(series.labels.iter().any(|label| (&*label.name, &*label.value) == ("tag_site", "oslo")));
        assert_eq!(remote_write::snappy(&[]), [0]);
    }

    #[test]
    fn every_format_has_its_row_in_the_documentation() {
        let page = include_str!("../../../docs/formats/stream.md");
        for format in RESULT_FORMATS {
            assert!(page.contains(&format!("| `{}` |", format.name)), "stream.md lacks {}", format.name);
        }
    }
}
