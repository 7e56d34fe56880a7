//! Figures of selected tests and of any calendar are those of the packets.

use crate::common::{DAY, HOUR, NEW_YEAR, write_log};
use jitlat_archive::{
    AddOutcome, Archive, ChangeOutcome, Filter, Periods, PoolPeriod, Retention, TestId, WeekHours, When, Zone,
};
use jitlat_core::answer::Severity;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::Scalar;
use jitlat_core::{Options, WallTime};
use std::collections::BTreeMap;
use std::path::Path;

const FIGURES: [&str; 4] = ["pdv-p99", "loss", "latency-mean", "sent"];

fn figures() -> Vec<&'static Scalar> {
    FIGURES.iter().map(|key| Scalar::named(key).unwrap()).collect()
}

/// A test of the archive: its start, the tags it was added with, its packets.
struct Known {
    start: i64,
    site: &'static str,
    pool: Pool,
    severity: String,
}

/// An archive with 40 tests of five weeks, which begin five hours or so apart.
fn made(folder: &Path) -> (Archive, Vec<Known>) {
    let archive = Archive::make(&folder.join("a")).unwrap();
    let mut known = Vec::new();
    for k in 0..40i64 {
        let start = NEW_YEAR + k * (20 * HOUR + 77 * HOUR / 60);
        let site = if k % 3 == 0 { "oslo" } else { "lab" };
        let log = write_log(folder, k, start, 120);
        let AddOutcome::New(id) = archive.add(&log, &[("site".into(), site.into())]).unwrap() else {
            panic!("it is new")
        };
        known.push((id, start, site));
    }
    let severities: BTreeMap<String, String> = archive
        .list(&Filter::default(), &[])
        .unwrap()
        .into_iter()
        .map(|test| (test.id, test.severity))
        .collect();
    let pool = |id: TestId| {
        let (summary, samples) = archive.analyse(id, &Options::default()).unwrap();
        Pool::of(&summary, &samples)
    };
    let known = known
        .into_iter()
        .map(|(id, start, site)| Known {
            start,
            site,
            pool: pool(id),
            severity: severities[&id.to_string()].clone(),
        })
        .collect();
    (archive, known)
}

/// Figures of each period, computed from the tests for which `is_selected` is true.
fn expected(
    known: &[Known],
    period: impl Fn(i64) -> i64,
    is_selected: impl Fn(&Known) -> bool,
) -> Vec<(i64, u64, Vec<Option<f64>>)> {
    let mut pools: BTreeMap<i64, Pool> = BTreeMap::new();
    known
        .iter()
        .filter(|test| is_selected(test))
        .for_each(|test| pools.entry(period(test.start)).or_default().merge(&test.pool));
    let values = |pool: &Pool| figures().iter().map(|figure| pool.scalar(figure)).collect();
    pools.iter().map(|(start, pool)| (*start, pool.tests, values(pool))).collect()
}

fn asked(archive: &Archive, filter: &Filter, by: impl Into<Periods>) -> Vec<(i64, u64, Vec<Option<f64>>)> {
    let found = archive.query(filter, &figures(), by).unwrap();
    assert!(found.len() <= 1);
    let points = found.into_iter().flat_map(|(_, points)| points);
    points.map(|p| (p.start_ns, p.tests, p.values)).collect()
}

#[test]
fn periods_of_a_time_zone_and_hours_of_a_week_have_the_figures_of_their_packets() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, known) = made(folder.path());
    let shift = 5 * HOUR + HOUR / 2;
    let zone: Zone = "+05:30".parse().unwrap();
    let by = |length| Periods { length, zone: zone.clone() };
    let local_day = |at: i64| (at + shift).div_euclid(DAY) * DAY - shift;
    assert_eq!(
        asked(&archive, &Filter::default(), by(PoolPeriod::Day)),
        expected(&known, local_day, |_| true)
    );
    // 1 January 2026 is a Thursday.
    let is_night =
        |at: i64| (at + shift).rem_euclid(DAY) >= 22 * HOUR || (at + shift).rem_euclid(DAY) < 6 * HOUR;
    let is_weekend = |at: i64| matches!((at - NEW_YEAR).div_euclid(DAY) % 7, 2 | 3);
    let hours = |text: &str, zone: &Zone| Some(text.parse::<WeekHours>().unwrap().in_zone(zone.clone()));
    let night = Filter { hours: hours("22:00-06:00", &zone), ..Filter::default() };
    let weekend = Filter { hours: hours("sat,sun", &Zone::default()), ..Filter::default() };
    let nights = expected(&known, local_day, |test| is_night(test.start));
    assert!(nights.len() > 5 && nights.len() < 30);
    assert_eq!(asked(&archive, &night, by(PoolPeriod::Day)), nights);
    let month = |at: i64| NEW_YEAR + if at - NEW_YEAR >= 31 * DAY { 31 * DAY } else { 0 };
    let weekends = expected(&known, month, |test| is_weekend(test.start));
    assert_eq!(asked(&archive, &weekend, PoolPeriod::Month), weekends);
    // Lists follow the same hours.
    let listed = archive.list(&weekend, &[]).unwrap();
    assert_eq!(listed.len() as u64, weekends.iter().map(|(_, tests, _)| tests).sum::<u64>());
    // All together, within a range that begins and ends in the middle of an hour.
    let (from, to) = (known[3].start, known[30].start);
    let part = Filter { since: Some(When(WallTime(from))), before: Some(When(WallTime(to))), ..night };
    let all = expected(&known[3..30], |_| 0, |test| is_night(test.start));
    let found = asked(&archive, &part, by(PoolPeriod::All));
    assert_eq!((found[0].1, &found[0].2), (all[0].1, &all[0].2));
}

#[test]
fn conditions_on_tests_select_their_packets() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, known) = made(folder.path());
    let day = |at: i64| at.div_euclid(DAY) * DAY;
    let tags = vec![("site".to_owned(), "oslo".to_owned())];
    let oslo = Filter { tags: tags.clone(), ..Filter::default() };
    assert_eq!(asked(&archive, &oslo, PoolPeriod::Day), expected(&known, day, |test| test.site == "oslo"));
    let severity = Severity::named(&known[0].severity).unwrap();
    let same = Filter { severities: vec![severity], ..Filter::default() };
    assert_eq!(
        asked(&archive, &same, PoolPeriod::Day),
        expected(&known, day, |test| test.severity == known[0].severity)
    );
    let other = if severity == Severity::Bad { Severity::Good } else { Severity::Bad };
    assert!(
        asked(&archive, &Filter { severities: vec![other], ..Filter::default() }, PoolPeriod::Day).is_empty()
    );
    let count = |filter: Filter| archive.list(&filter, &[]).unwrap().len();
    let (protocols, dscps) = (vec!["tcp".to_owned(), "udp".to_owned()], vec![0, 46]);
    assert_eq!(count(Filter { protocols: protocols.clone(), dscps: dscps.clone(), ..Filter::default() }), 40);
    assert_eq!(count(Filter { protocols: protocols[..1].to_vec(), ..Filter::default() }), 0);
    assert_eq!(count(Filter { dscps: dscps[1..].to_vec(), ..Filter::default() }), 0);
    let udp = Filter { protocols, dscps, ..Filter::default() };
    assert_eq!(asked(&archive, &udp, PoolPeriod::Day), expected(&known, day, |_| true));
    assert!(asked(&archive, &Filter { dscps: vec![46], ..Filter::default() }, PoolPeriod::Day).is_empty());
    // Each test by itself, and both parts of a comparison, with the same conditions.
    let each = archive.query(&oslo, &figures(), PoolPeriod::Test).unwrap();
    let mine: Vec<_> = known.iter().filter(|test| test.site == "oslo").map(|test| test.start).collect();
    assert_eq!(each[0].1.iter().map(|p| p.start_ns).collect::<Vec<_>>(), mine);
    let half = When(WallTime(known[20].start));
    for (filter, sizes) in [(&oslo, (7, 7)), (&Filter::default(), (20, 20))] {
        let found = archive.compare_parts(filter, half, &figures()).unwrap();
        assert_eq!((found[0].before.tests, found[0].after.tests), sizes);
        let part = |tests: &[Known]| {
            expected(tests, |_| 0, |test| filter.tags.is_empty() || test.site == "oslo")[0].2[0]
        };
        let pdv = &found[0].figures[0];
        assert_eq!((pdv.before, pdv.after), (part(&known[..20]), part(&known[20..])));
        // Fourteen tests are too few for an interval, and all of these delays have the same distribution.
        let outcome = if filter.tags.is_empty() { ChangeOutcome::Undecided } else { ChangeOutcome::Unknown };
        assert_eq!(found[0].figures[2].outcome(), outcome);
    }
}

#[test]
fn what_would_be_pruned_is_what_is_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, _) = made(folder.path());
    let now = WallTime(NEW_YEAR + 40 * DAY);
    for keep in [
        Retention::Packets { days: 30 },
        Retention::Tests { days: 25 },
        Retention::Size { bytes: 40_000 },
        Retention::Tests { days: 10 },
        Retention::Packets { days: 0 },
    ] {
        let answers = |archive: &Archive| format!("{:?}", archive.list(&Filter::default(), &[]));
        let before = answers(&archive);
        let would = archive.prunable(keep, now).unwrap();
        assert_eq!(answers(&archive), before);
        let did = archive.prune(keep, now).unwrap();
        assert!(did.packets_of > 0, "{keep:?}");
        assert_eq!(
            (would.packets_of, would.tests, would.waited, would.files, would.bytes),
            (did.packets_of, did.tests, did.waited, did.files, did.bytes),
            "{keep:?}"
        );
    }
    assert!(archive.has_removed_tests().unwrap());
}
