//! Several archives as one answer like one archive that has all of their tests.

use crate::common::{DAY, HOUR, NEW_YEAR, write_log};
use jitlat_archive::{
    AlertAbout, AlertUpdate, Archive, ArchiveError, Filter, Fired, Note, PoolPeriod, Retention, When,
};
use jitlat_core::WallTime;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::{SCALARS, Scalar};
use std::path::{Path, PathBuf};

fn add(root: &Path, logs: &[PathBuf]) {
    let archive = Archive::make(root).unwrap();
    for (k, log) in logs.iter().enumerate() {
        let tag = if k % 2 == 0 { "even" } else { "odd" };
        archive.add(log, &[("half".into(), tag.into())]).unwrap();
    }
}

fn figures_of(pool: &Pool) -> Vec<Option<f64>> {
    SCALARS.iter().map(|figure| pool.scalar(figure)).collect()
}

/// Everything that an archive answers about its tests, without the numbers of streams, and the order of streams.
fn answers(archive: &Archive) -> String {
    let figures: Vec<&Scalar> =
        ["pdv-p99", "loss", "latency-mean", "sent", "lost"].map(|key| Scalar::named(key).unwrap()).to_vec();
    let mut text = String::new();
    let within = Filter {
        since: Some(When(WallTime(NEW_YEAR + DAY + HOUR / 3))),
        before: Some(When(WallTime(NEW_YEAR + 9 * DAY + HOUR / 2))),
        ..Filter::default()
    };
    for filter in [Filter::default(), within.clone()] {
        for (_, period) in PoolPeriod::NAMES {
            text += &format!("{period:?}: {:?}\n", archive.query(&filter, &figures, period).unwrap());
        }
        for (stream, pool) in archive.pools(&filter).unwrap() {
            text += &format!("{stream:?} {:?}\n", figures_of(&pool));
        }
        for (stream, _) in archive.streams(&filter).unwrap() {
            for period in [PoolPeriod::Day, PoolPeriod::Test] {
                let (from, to) = (NEW_YEAR, NEW_YEAR + 8 * DAY);
                for p in archive.course(stream, period, from, to).unwrap() {
                    let mut delays: Vec<_> = p.pool.delays().counted().collect();
                    delays.sort_unstable();
                    let mut variations: Vec<_> = p.pool.variations().counted().collect();
                    variations.sort_unstable();
                    text += &format!(
                        "{:?} {delays:?} {variations:?} {}\n",
                        (p.start_ns, p.end_ns, p.test),
                        p.pool.sent
                    );
                }
                text += &format!("{:?}\n", archive.verdicts(stream, from, to).unwrap());
                text += &format!("{}\n", archive.tests_between(stream, from, to).unwrap());
                text += &format!("{:?}\n", archive.figure_since(stream, "pdv-p99", from).unwrap());
                let some = archive.tests_with_figures(stream, &["pdv-p99", "loss"], (from, to)).unwrap();
                text += &format!("{some:?}\n");
                text += &format!("{:?}\n", archive.host_faults(stream, from, to).unwrap());
            }
            text += &format!("{:?}\n", archive.first_and_last(stream).unwrap());
            text += &format!("{:?}\n", archive.regular_distance(stream).unwrap());
        }
    }
    for mut newest in archive.newest().unwrap() {
        newest.stream_id = 0;
        text += &format!("{newest:?}\n");
    }
    for mut total in archive.totals(None, 10).unwrap().streams {
        total.stream_id = 0;
        // Sums of real numbers depend on their order.
        total.losses.values_mut().for_each(|(_, share)| *share = (*share * 1e9).round());
        let pool = std::mem::take(&mut total.pool);
        text += &format!("{:?} {total:?}\n", figures_of(&pool));
    }
    text + &format!("{:?} {:?}\n", archive.extent().unwrap(), archive.hosts().unwrap())
}

fn listed(archive: &Archive, filter: &Filter) -> Vec<(String, bool)> {
    archive.list(filter, &[]).unwrap().into_iter().map(|test| (test.id, test.has_packets)).collect()
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    (0..24).map(|k| write_log(folder, k, NEW_YEAR + k * 9 * HOUR, 80)).collect()
}

#[test]
fn tests_in_several_archives_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let logs = logs(folder.path());
    add(&at("whole"), &logs);
    // Disjoint parts, the same tests, parts that overlap, and one that contains the other.
    for (k, parts) in [
        vec![&logs[..10], &logs[10..]],
        vec![&logs[..], &logs[..]],
        vec![&logs[..15], &logs[9..20], &logs[14..]],
        vec![&logs[4..6], &logs[..]],
    ]
    .into_iter()
    .enumerate()
    {
        let roots: Vec<PathBuf> = (0..parts.len()).map(|part| at(&format!("{k}-{part}"))).collect();
        for (root, part) in roots.iter().zip(&parts) {
            add(root, part);
        }
        let (whole, all) = (Archive::open(&at("whole")).unwrap(), Archive::open_all(&roots).unwrap());
        let (all_answers, whole_answers) = (answers(&all), answers(&whole));
        for (mine, theirs) in all_answers.lines().zip(whole_answers.lines()) {
            assert_eq!(mine, theirs, "{k}");
        }
        assert_eq!(all_answers.lines().count(), whole_answers.lines().count(), "{k}");
        assert_eq!(listed(&all, &Filter::default()), listed(&whole, &Filter::default()));
        let id = whole.find(&whole.list(&Filter::default(), &[]).unwrap()[11].id).unwrap();
        assert_eq!(all.find(&id.to_string()).unwrap(), id);
        assert_eq!(format!("{:?}", all.session(id).unwrap()), format!("{:?}", whole.session(id).unwrap()));
        assert_eq!(all.reader(id, "a").unwrap().count(), whole.reader(id, "a").unwrap().count());
    }
}

#[test]
fn tests_that_one_archive_has_removed_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let logs = logs(folder.path());
    let now = WallTime(NEW_YEAR + 12 * DAY);
    let figures = ["pdv-p99", "sent", "lost"].map(|key| Scalar::named(key).unwrap());
    let query = |archive: &Archive| {
        let of = |period| archive.query(&Filter::default(), &figures, period).unwrap();
        let all =
            of(PoolPeriod::All)[0].1.iter().map(|p| (p.tests, p.sent, p.values.clone())).collect::<Vec<_>>();
        (of(PoolPeriod::Hour), of(PoolPeriod::Day), of(PoolPeriod::Month), all)
    };
    add(&at("whole"), &logs);
    let whole = query(&Archive::open(&at("whole")).unwrap());
    for (k, (first, second)) in
        [(Some(8), None), (None, Some(7)), (Some(8), Some(6)), (Some(6), Some(6))].into_iter().enumerate()
    {
        let roots = [at(&format!("{k}-a")), at(&format!("{k}-b"))];
        for (root, days) in roots.iter().zip([first, second]) {
            add(root, &logs);
            if let Some(days) = days {
                Archive::open_to_write(root).unwrap().prune(Retention::Tests { days }, now).unwrap();
            }
        }
        let all = Archive::open_all(&roots).unwrap();
        assert_eq!(query(&all), whole, "{k}");
        assert_eq!(all.has_removed_tests().unwrap(), first.or(second).is_some());
    }
}

#[test]
fn totals_grow_by_what_is_new_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().join(name));
    let logs = logs(folder.path());
    add(&roots[0], &logs[..8]);
    add(&roots[1], &logs[4..12]);
    let all = Archive::open_all(&roots).unwrap();
    let first = all.totals(None, 10).unwrap();
    assert_eq!(first.streams[0].pool.tests, 12);
    // The first archive gets what the second had, and something new, which both get.
    add(&roots[0], &logs[8..14]);
    add(&roots[1], &logs[12..16]);
    let more = all.totals(Some(&first.entered), 10).unwrap();
    assert_eq!((more.streams[0].pool.tests, all.totals(None, 10).unwrap().streams[0].pool.tests), (4, 16));
    assert_eq!(all.totals(Some(&more.entered), 10).unwrap().streams[0].pool.tests, 0);
}

fn fired(archive: &Archive, about: &AlertAbout, fired_ns: i64, resolved_ns: Option<i64>) {
    let fire = AlertUpdate::Fired(Fired {
        about: about.clone(),
        severity: "warning".to_owned(),
        path: [&about.test, &about.src, &about.dst].map(Clone::clone),
        since_ns: fired_ns - 10,
        fired_ns,
        held_until_ns: 0,
        reason: "it is bad".to_owned(),
    });
    let end = resolved_ns.map(|at_ns| AlertUpdate::Resolved {
        about: about.clone(),
        held_until_ns: 0,
        at_ns,
        reason: "it is good".to_owned(),
    });
    for change in [Some(fire), end].into_iter().flatten() {
        archive.note(&Note { changes: vec![change], ..Note::default() }).unwrap();
    }
}

#[test]
fn an_incident_that_two_judges_recorded_is_one_alert() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["a", "b"].map(|name| folder.path().join(name));
    let about = |name: &str| AlertAbout {
        alert: name.to_owned(),
        scope: "path".to_owned(),
        test: "voice".to_owned(),
        src: "berlin".to_owned(),
        dst: "madrid".to_owned(),
    };
    let archives = roots.each_ref().map(|root| Archive::make(root).unwrap());
    fired(&archives[0], &about("jitter"), 1000, Some(2000));
    fired(&archives[1], &about("jitter"), 1030, Some(2100));
    fired(&archives[1], &about("jitter"), 5000, None);
    fired(&archives[0], &about("loss"), 1000, None);
    let all = Archive::open_all(&roots).unwrap();
    let alerts = all.alerts(10).unwrap();
    let seen: Vec<_> = alerts.iter().map(|a| (a.alert.as_str(), a.fired_ns, a.resolved_ns)).collect();
    assert_eq!(seen, [("jitter", 5000, None), ("loss", 1000, None), ("jitter", 1000, Some(2100))]);
    assert!(alerts.iter().all(|alert| all.alert_paths(alert.id, 10).is_ok()));
    assert_eq!(all.alerts(1).unwrap().len(), 1);
}

#[test]
fn what_cannot_be_read_as_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a");
    Archive::make(&root).unwrap();
    let open = |roots: &[PathBuf]| Archive::open_all(roots).map(drop);
    assert!(open(std::slice::from_ref(&root)).is_ok());
    let twice = [root.clone(), folder.path().join("a/../a")];
    assert!(matches!(open(&twice), Err(ArchiveError::Usage(why)) if why.contains("twice")));
    assert!(matches!(open(&[]), Err(ArchiveError::Usage(_))));
    assert!(matches!(open(&[root.clone(), folder.path().join("none")]), Err(ArchiveError::NotAnArchive(_))));
}
