//! [`families`]: the samples of an archive, grouped in families with a name, a kind and a help text.

use super::histogram::{MetricHistogram, losses};
use super::pushes;
use super::tally::{MetricsTally, TestTotals};
use jitlat_archive::{Archive, ArchiveError, StreamTotal};
use std::collections::BTreeMap;

/// Samples of one metric.
#[derive(Clone, Debug)]
pub struct SampleFamily {
    /// Name without the suffix `_total` of counters.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: FamilyKind,
    pub samples: Vec<(Labels, SampleValue)>,
}

/// Kind of a family's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

/// Names and values of labels.
pub type Labels = std::rc::Rc<[(&'static str, String)]>;

/// A sample.
#[derive(Clone, Debug)]
pub enum SampleValue {
    Number(f64),
    Histogram(Box<MetricHistogram>),
}

type Count = fn(&TestTotals) -> u64;

/// Counters of packets: name, help, value.
const COUNTERS: [(&str, &str, Count); 5] = [
    ("jitlat_tests", "Tests.", |s| s.tests),
    ("jitlat_packets_sent", "Packets sent whose fate is known.", |s| s.sent),
    ("jitlat_packets_lost", "Packets sent and lost.", |s| s.lost),
    ("jitlat_packets_duplicate", "Duplicate copies of packets.", |s| s.duplicate),
    ("jitlat_packets_reordered", "Reordered packets.", |s| s.reordered),
];

type TotalFn = fn(&StreamTotal) -> Option<f64>;

/// Gauges of the newest test: name, help, value.
const GAUGES: [(&str, &str, TotalFn); 3] = [
    ("jitlat_last_test_timestamp_seconds", "Start of the newest test, seconds since 1970.", |s| {
        s.last_ns.map(|ns| ns as f64 / 1e9)
    }),
    (
        "jitlat_clock_error_seconds",
        "Estimated clock of the server minus that of the client in the newest test.",
        |s| s.clock_error_ns.map(|ns| ns / 1e9),
    ),
    ("jitlat_clock_error_bound_seconds", "Maximum error of the estimated clock offset.", |s| {
        s.clock_bound_ns.map(|ns| ns / 1e9)
    }),
];

type Distributed = fn(&StreamTotal, &TestTotals) -> MetricHistogram;

/// Histograms of distributions: name, help, value.
const HISTOGRAMS: [(&str, &str, Distributed); 3] = [
    ("jitlat_delay_seconds", "Delay as measured; one-way delays include the clock offset.", |_, s| {
        s.delay.histogram()
    }),
    ("jitlat_delay_variation_seconds", "Delay above the smallest delay of the same test.", |_, s| {
        s.variation.histogram()
    }),
    ("jitlat_test_loss_ratio", "Loss ratio of each test.", |s, _| losses(&s.losses)),
];

/// Returns all samples of `tally` and of the catalogue.
pub fn families(tally: &MetricsTally, archive: &Archive) -> Result<Vec<SampleFamily>, ArchiveError> {
    let of_hosts = archive.labels()?;
    let all = tally.streams.iter().filter_map(|s| Some((s, labels(s, &of_hosts), tally.added(s.stream_id)?)));
    let streams: Vec<(&StreamTotal, Labels, &TestTotals)> = all.collect();
    let mut families = Vec::new();
    for (name, help, of) in COUNTERS {
        let samples =
            streams.iter().map(|(_, l, s)| (l.clone(), SampleValue::Number(of(s) as f64))).collect();
        families.push(SampleFamily { name, help, kind: FamilyKind::Counter, samples });
    }
    for (name, help, of) in GAUGES {
        let samples =
            streams.iter().filter_map(|(s, l, _)| Some((l.clone(), SampleValue::Number(of(s)?)))).collect();
        families.push(SampleFamily { name, help, kind: FamilyKind::Gauge, samples });
    }
    for (name, help, of) in HISTOGRAMS {
        let samples =
            streams.iter().map(|(s, l, all)| (l.clone(), SampleValue::Histogram(Box::new(of(s, all)))));
        families.push(SampleFamily { name, help, kind: FamilyKind::Histogram, samples: samples.collect() });
    }
    let slots = archive.slots()?.into_iter().map(|(s, n)| {
        let labels = [("test", s.test), ("client", s.client), ("server", s.server), ("ending", s.ending)];
        (labels.into(), SampleValue::Number(n as f64))
    });
    families.push(SampleFamily {
        name: "jitlat_slots",
        help: "Slots of the monitor's timetable by result: measured, or the reason for not measuring.",
        kind: FamilyKind::Counter,
        samples: slots.collect(),
    });
    let labelled = of_hosts.iter().flat_map(|(host, labels)| {
        labels.iter().map(move |(name, value)| {
            let labels = [("host", host.clone()), ("label", name.clone()), ("value", value.clone())];
            (labels.into(), SampleValue::Number(1.0))
        })
    });
    families.push(SampleFamily {
        name: "jitlat_host_label",
        help: "Labels of the hosts in the monitor's file, one sample per label; site is one of them.",
        kind: FamilyKind::Gauge,
        samples: labelled.collect(),
    });
    let one = |name, help, kind, value| {
        let samples = vec![(Labels::from([]), SampleValue::Number(value))];
        SampleFamily { name, help, kind, samples }
    };
    families.push(one(
        "jitlat_alert_messages_dropped",
        "Alert messages that were dropped or given up.",
        FamilyKind::Counter,
        archive.dropped_messages()? as f64,
    ));
    families.extend(pushes::families(archive)?);
    families.push(one(
        "jitlat_streams_left_out",
        "Streams left out because there are too many.",
        FamilyKind::Gauge,
        tally.left_out as f64,
    ));
    Ok(families)
}

/// Returns the labels of a stream; its number distinguishes streams between the same hosts. Sites are labels of streams between hosts
/// that have one.
fn labels(total: &StreamTotal, of_hosts: &HostLabels) -> Labels {
    let stream = &total.stream;
    let (src, dst) =
        (total.src_name.as_ref().unwrap_or(&stream.src), total.dst_name.as_ref().unwrap_or(&stream.dst));
    let site = |name, host: &String| Some((name, of_hosts.get(host)?.get("site")?.clone()));
    let always = [
        ("src", src.clone()),
        ("dst", dst.clone()),
        ("direction", stream.direction.clone()),
        ("protocol", stream.protocol.clone()),
        ("stream", total.stream_id.to_string()),
    ];
    always.into_iter().chain(site("src_site", src)).chain(site("dst_site", dst)).collect()
}

/// Labels of hosts, by name of the host and name of the label.
type HostLabels = BTreeMap<String, BTreeMap<String, String>>;
