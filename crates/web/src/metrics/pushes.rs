//! [`families`]: samples about tests pushed to collectors, and tests that others push to this archive.

use super::families::{FamilyKind, SampleFamily, SampleValue};
use jitlat_archive::{Archive, ArchiveError, CollectedHost, Pushed};

/// Metric of a collector: name, help, kind, value.
type OfPush = (&'static str, &'static str, FamilyKind, fn(&Pushed) -> Option<f64>);

const PUSHED: [OfPush; 4] = [
    ("jitlat_push_waiting", "Tests that wait to be pushed to a collector.", FamilyKind::Gauge, |p| {
        Some(p.waiting as f64)
    }),
    ("jitlat_push_stored", "Tests of this host that a collector has stored.", FamilyKind::Counter, |p| {
        Some(p.stored as f64)
    }),
    (
        "jitlat_push_dropped",
        "Tests that were dropped before a collector had stored them.",
        FamilyKind::Counter,
        |p| Some(p.dropped as f64),
    ),
    (
        "jitlat_push_refused",
        "Tests that a collector refused, or that could not be read from this archive.",
        FamilyKind::Counter,
        |p| Some(p.refused as f64),
    ),
];

/// Metric of a host that pushes: name, help, kind, value.
type OfHost = (&'static str, &'static str, FamilyKind, fn(&CollectedHost) -> Option<f64>);

const COLLECTED: [OfHost; 6] = [
    ("jitlat_collected_tests", "Tests that a host has pushed to this archive.", FamilyKind::Counter, |c| {
        Some(c.stored as f64)
    }),
    ("jitlat_collected_refused", "Tests of a host that this archive refused.", FamilyKind::Counter, |c| {
        Some(c.refused as f64)
    }),
    ("jitlat_collected_over_quota", "Tests of a host that were over its quota.", FamilyKind::Counter, |c| {
        Some(c.over_quota as f64)
    }),
    (
        "jitlat_collected_dropped",
        "Tests that a host had dropped by its last report.",
        FamilyKind::Counter,
        |c| Some(c.dropped as f64),
    ),
    ("jitlat_collected_waiting", "Tests waiting on a host at its last report.", FamilyKind::Gauge, |c| {
        Some(c.waiting as f64)
    }),
    (
        "jitlat_collected_last_timestamp_seconds",
        "Time at which the last test of a host was stored, seconds since 1970.",
        FamilyKind::Gauge,
        |c| c.stored_ns.map(|ns| ns as f64 / 1e9),
    ),
];

/// Returns the samples.
pub fn families(archive: &Archive) -> Result<Vec<SampleFamily>, ArchiveError> {
    let (pushes, collected) = (archive.pushes()?, archive.collected()?);
    let pushed = PUSHED.into_iter().map(|(name, help, kind, value)| {
        let sample =
            |p: &Pushed| Some(([("collector", p.collector.clone())].into(), SampleValue::Number(value(p)?)));
        SampleFamily { name, help, kind, samples: pushes.iter().filter_map(sample).collect() }
    });
    let of_hosts = COLLECTED.into_iter().map(|(name, help, kind, value)| {
        let sample =
            |c: &CollectedHost| Some(([("host", c.host.clone())].into(), SampleValue::Number(value(c)?)));
        SampleFamily { name, help, kind, samples: collected.iter().filter_map(sample).collect() }
    });
    Ok(pushed.chain(of_hosts).collect())
}
