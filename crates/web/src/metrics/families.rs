//! [`families`]: the samples of an archive, grouped in families with a name, a kind and a help text.

use super::MAX_STREAMS;
use super::histogram::{MetricHistogram, losses};
use super::pushes;
use super::sites::{SiteGroup, SiteKey};
use super::tally::{MetricsTally, TestTotals};
use jitlat_archive::{Archive, ArchiveError, LossCounters, StreamTotal};
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

/// Streams with the same labels, and their totals.
struct Row<'a> {
    labels: Labels,
    tests: &'a TestTotals,
    losses: &'a LossCounters,
    last_ns: Option<i64>,
    clock_error_ns: Option<f64>,
    clock_bound_ns: Option<f64>,
}

type GaugeFn = fn(&Row<'_>) -> Option<f64>;

/// Gauges of the newest test: name, help, value.
const GAUGES: [(&str, &str, GaugeFn); 3] = [
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

type Distributed = fn(&Row<'_>) -> MetricHistogram;

/// Histograms of distributions: name, help, value.
const HISTOGRAMS: [(&str, &str, Distributed); 3] = [
    ("jitlat_delay_seconds", "Delay as measured; one-way delays include the clock offset.", |row| {
        row.tests.delay.histogram()
    }),
    ("jitlat_delay_variation_seconds", "Delay above the smallest delay of the same test.", |row| {
        row.tests.variation.histogram()
    }),
    ("jitlat_test_loss_ratio", "Loss ratio of each test.", |row| losses(row.losses)),
];

/// Returns all samples of `tally` and of the catalogue.
pub fn families(tally: &MetricsTally, archive: &Archive) -> Result<Vec<SampleFamily>, ArchiveError> {
    let of_hosts = archive.labels()?;
    let mut rows: Vec<Row<'_>> = match &tally.sites {
        Some(sites) => sites.groups.iter().map(|(key, group)| of_sites(key, group)).collect(),
        None => tally.streams.iter().filter_map(|s| of_stream(s, tally, &of_hosts)).collect(),
    };
    let groups = tally.sites.iter().flat_map(|sites| sites.groups.values());
    let left_out: u64 = groups.clone().skip(MAX_STREAMS).map(|group| group.streams).sum();
    let by_site: u64 = groups.map(|group| group.streams).sum();
    rows.truncate(MAX_STREAMS);
    let mut families = Vec::new();
    for (name, help, of) in COUNTERS {
        let samples =
            rows.iter().map(|row| (row.labels.clone(), SampleValue::Number(of(row.tests) as f64))).collect();
        families.push(SampleFamily { name, help, kind: FamilyKind::Counter, samples });
    }
    for (name, help, of) in GAUGES {
        let samples = rows.iter().filter_map(|row| Some((row.labels.clone(), SampleValue::Number(of(row)?))));
        families.push(SampleFamily { name, help, kind: FamilyKind::Gauge, samples: samples.collect() });
    }
    for (name, help, of) in HISTOGRAMS {
        let samples = rows.iter().map(|row| (row.labels.clone(), SampleValue::Histogram(Box::new(of(row)))));
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
    for (name, help, streams) in [
        (
            "jitlat_streams_by_site",
            "Streams without samples of their own, which are counted by site.",
            by_site,
        ),
        ("jitlat_streams_left_out", "Streams left out because there are too many.", left_out),
    ] {
        families.push(one(name, help, FamilyKind::Gauge, streams as f64));
    }
    Ok(families)
}

fn of_stream<'a>(s: &'a StreamTotal, tally: &'a MetricsTally, of_hosts: &HostLabels) -> Option<Row<'a>> {
    Some(Row {
        labels: labels(s, of_hosts),
        tests: tally.added(s.stream_id)?,
        losses: &s.losses,
        last_ns: s.last_ns,
        clock_error_ns: s.clock_error_ns,
        clock_bound_ns: s.clock_bound_ns,
    })
}

/// Returns the row of a pair of sites. It has no clock error, because that belongs to a pair of hosts.
fn of_sites<'a>(key: &SiteKey, group: &'a SiteGroup) -> Row<'a> {
    let labels = [
        ("src_site", key.src.clone()),
        ("dst_site", key.dst.clone()),
        ("direction", key.direction.clone()),
        ("protocol", key.protocol.clone()),
    ];
    Row {
        labels: labels.into(),
        tests: &group.tests,
        losses: &group.losses,
        last_ns: group.last_ns,
        clock_error_ns: None,
        clock_bound_ns: None,
    }
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
