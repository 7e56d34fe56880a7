//! Samples as messages of `io.prometheus.client` (client_model's metrics.proto), each after its length: the format in which
//! native histograms are scraped. Every histogram is both classic and native; a scraper uses the form that it supports.

use super::families::{FamilyKind, SampleFamily, SampleValue};
use super::histogram::MetricHistogram;
use jitlat_core::printable::printable;
use prost::Message;

/// Encodes all families.
pub fn written(families: &[SampleFamily]) -> Vec<u8> {
    families.iter().flat_map(|family| of_family(family).encode_length_delimited_to_vec()).collect()
}

/// The messages of metrics.proto that are used here, under the same names.
mod model {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MetricFamily {
        #[prost(string, optional, tag = "1")]
        pub name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub help: Option<String>,
        #[prost(enumeration = "MetricType", optional, tag = "3")]
        pub r#type: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub metric: Vec<ProtoMetric>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
    #[repr(i32)]
    pub enum MetricType {
        Counter = 0,
        Gauge = 1,
        Histogram = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProtoMetric {
        #[prost(message, repeated, tag = "1")]
        pub label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub gauge: Option<ProtoNumber>,
        #[prost(message, optional, tag = "3")]
        pub counter: Option<ProtoNumber>,
        #[prost(message, optional, tag = "7")]
        pub histogram: Option<ProtoHistogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct LabelPair {
        #[prost(string, optional, tag = "1")]
        pub name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub value: Option<String>,
    }

    /// A counter or a gauge.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProtoNumber {
        #[prost(double, optional, tag = "1")]
        pub value: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProtoHistogram {
        #[prost(uint64, optional, tag = "1")]
        pub sample_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub sample_sum: Option<f64>,
        #[prost(message, repeated, tag = "3")]
        pub bucket: Vec<ProtoBucket>,
        #[prost(sint32, optional, tag = "5")]
        pub schema: Option<i32>,
        #[prost(double, optional, tag = "6")]
        pub zero_threshold: Option<f64>,
        #[prost(uint64, optional, tag = "7")]
        pub zero_count: Option<u64>,
        #[prost(message, repeated, tag = "9")]
        pub negative_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, tag = "10")]
        pub negative_delta: Vec<i64>,
        #[prost(message, repeated, tag = "12")]
        pub positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, tag = "13")]
        pub positive_delta: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProtoBucket {
        #[prost(uint64, optional, tag = "1")]
        pub cumulative_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub upper_bound: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct BucketSpan {
        #[prost(sint32, optional, tag = "1")]
        pub offset: Option<i32>,
        #[prost(uint32, optional, tag = "2")]
        pub length: Option<u32>,
    }
}

fn of_family(family: &SampleFamily) -> model::MetricFamily {
    let (ending, kind) = match family.kind {
        FamilyKind::Counter => ("_total", model::MetricType::Counter),
        FamilyKind::Gauge => ("", model::MetricType::Gauge),
        FamilyKind::Histogram => ("", model::MetricType::Histogram),
    };
    let metric = family.samples.iter().map(|(labels, value)| {
        let label = labels.iter().map(|(name, value)| model::LabelPair {
            name: Some(name.to_string()),
            value: Some(printable(value).into_owned()),
        });
        let mut metric = model::ProtoMetric { label: label.collect(), ..model::ProtoMetric::default() };
        match value {
            SampleValue::Histogram(of) => metric.histogram = Some(histogram(of)),
            SampleValue::Number(value) => {
                let number = Some(model::ProtoNumber { value: Some(*value) });
                if family.kind == FamilyKind::Counter {
                    metric.counter = number;
                } else {
                    metric.gauge = number;
                }
            }
        }
        metric
    });
    model::MetricFamily {
        name: Some([family.name, ending].concat()),
        help: Some(family.help.to_string()),
        r#type: Some(kind.into()),
        metric: metric.collect(),
    }
}

fn histogram(of: &MetricHistogram) -> model::ProtoHistogram {
    let classic = of.classic.iter().copied().chain([(f64::INFINITY, of.count)]);
    let mut positive_span = spans(&of.positive);
    if of.positive.is_empty() && of.negative.is_empty() {
        // Prometheus recognises a native histogram only if it has a span.
        positive_span.push(model::BucketSpan { offset: Some(0), length: Some(0) });
    }
    model::ProtoHistogram {
        sample_count: Some(of.count),
        // The field is required: use NaN for a sum that could decrease.
        sample_sum: Some(of.sum.unwrap_or(f64::NAN)),
        bucket: classic
            .map(|(end, below)| model::ProtoBucket { cumulative_count: Some(below), upper_bound: Some(end) })
            .collect(),
        schema: Some(of.schema),
        zero_threshold: Some(of.zero_threshold),
        zero_count: Some(of.zero_count),
        negative_span: spans(&of.negative),
        negative_delta: deltas(&of.negative),
        positive_span,
        positive_delta: deltas(&of.positive),
    }
}

/// Returns runs of adjacent buckets; each offset counts from the end of the previous run.
fn spans(buckets: &[(i32, u64)]) -> Vec<model::BucketSpan> {
    let runs = buckets.chunk_by(|(k, _), (next, _)| *next == k + 1);
    let mut end = 0;
    let span = |run: &[(i32, u64)]| {
        let (first, length) = (run.first().map_or(end, |(k, _)| *k), run.len());
        let offset = first - end;
        end = first + i32::try_from(length).unwrap_or(i32::MAX);
        model::BucketSpan { offset: Some(offset), length: u32::try_from(length).ok() }
    };
    runs.map(span).collect()
}

/// Returns the difference between each count and that of the previous bucket.
fn deltas(buckets: &[(i32, u64)]) -> Vec<i64> {
    let counts = buckets.iter().map(|(_, count)| i64::try_from(*count).unwrap_or(i64::MAX));
    let before = core::iter::once(0).chain(counts.clone());
    counts.zip(before).map(|(count, before)| count - before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded as by protoc 3.21: a histogram of schema 3 with the buckets -2, -1 and 2, and zero.
    #[test]
    fn spans_and_deltas_are_those_of_client_model() {
        let of = MetricHistogram {
            classic: vec![(1.0, 6)],
            count: 7,
            sum: Some(1.5),
            schema: 3,
            zero_threshold: 0.25,
            zero_count: 1,
            positive: vec![(-2, 3), (-1, 1), (2, 2)],
            negative: Vec::new(),
        };
        let text = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
        assert_eq!(
            text(&histogram(&of).encode_to_vec()),
            "08 07 11 00 00 00 00 00 00 f8 3f 1a 0b 08 06 11 00 00 00 00 00 00 f0 3f 1a 0b 08 07 11 00 00 00 00 00 00 f0 7f \
             28 06 31 00 00 00 00 00 00 d0 3f 38 01 62 04 08 03 10 02 62 04 08 04 10 01 6a 03 06 03 02"
        );
        // A histogram without values is native, too.
        let empty = histogram(&MetricHistogram { schema: 5, ..MetricHistogram::default() }).encode_to_vec();
        assert!(text(&empty).ends_with("62 04 08 00 10 00"), "{}", text(&empty));
    }
}
