//! State that a monitor stores for its alerts: in one transaction with the number of the last judged test.

use crate::common::*;
use jitlat_archive::{Alert, AlertUpdate, Archive, Fired, Note, Retention};
use jitlat_core::WallTime;

fn fired(path: &str, at: i64) -> AlertUpdate {
    AlertUpdate::Fired(Fired {
        alert: "loss".into(),
        severity: "warning".into(),
        test: "voice".into(),
        src: "a".into(),
        dst: path.into(),
        since_ns: at - 5,
        fired_ns: at,
        reason: "loss>1% (loss is 2%)".into(),
    })
}

fn resolved(path: &str, at: i64) -> AlertUpdate {
    let (alert, test, src, dst) = ("loss".into(), "voice".into(), "a".into(), path.into());
    AlertUpdate::Resolved { alert, test, src, dst, at_ns: at, reason: "3 good".into() }
}

fn note(changes: Vec<AlertUpdate>) -> Note {
    Note { changes, channels: vec!["webhook".into(), "print".into()], most_waiting: 3, ..Note::default() }
}

#[test]
fn tests_are_numbered_as_they_enter_and_judged_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("archive");
    let archive = Archive::make(&root).unwrap();
    assert_eq!((archive.entered().unwrap(), archive.judged().unwrap()), (0, None));
    for seed in [3, 1, 2] {
        let log = write_log(folder.path(), seed, NEW_YEAR + seed * HOUR, 300);
        archive.add(&log, &[("test".into(), "voice".into())]).unwrap();
        // Adding the same log again does not add a test.
        archive.add(&log, &[]).unwrap();
    }
    let tests = archive.entered_after(0, 10).unwrap();
    let starts: Vec<i64> = tests.iter().map(|t| (t.started_ns - NEW_YEAR) / HOUR).collect();
    assert_eq!(starts, [3, 1, 2], "in the order in which they entered");
    assert_eq!(tests.iter().map(|t| t.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(tests[0].tags.get("test").map(String::as_str), Some("voice"));
    assert_eq!(tests[0].figures.get("sent"), Some(&300.0));
    assert!(tests[0].figures["pdv-p99"] > 0.0 && tests[0].src == "192.0.2.1");
    let states =
        vec![("rule/a".to_owned(), Some("x".to_owned())), ("other".to_owned(), Some("y".to_owned()))];
    archive.note(&Note { judged: Some(2), states, ..Note::default() }).unwrap();
    drop(archive);
    let archive = Archive::open_to_write(&root).unwrap();
    assert_eq!(archive.judged().unwrap(), Some(2));
    assert_eq!(
        archive.rule_states("rule/").unwrap().into_iter().collect::<Vec<_>>(),
        [("rule/a".into(), "x".into())]
    );
    archive.note(&Note { states: vec![("rule/a".into(), None)], ..Note::default() }).unwrap();
    assert!(archive.rule_states("rule/").unwrap().is_empty());
    assert_eq!(archive.entered_after(2, 10).unwrap().len(), 1);
    // A number is never reused, even when its test is removed.
    archive.prune(Retention::Tests { days: 1 }, WallTime(NEW_YEAR + 40 * DAY)).unwrap();
    assert!(archive.entered_after(0, 10).unwrap().is_empty());
    archive.add(&write_log(folder.path(), 9, NEW_YEAR + 41 * DAY, 50), &[]).unwrap();
    assert_eq!(archive.entered_after(0, 10).unwrap()[0].number, 4);
}

#[test]
fn alerts_fire_and_are_resolved_once_and_wait_to_be_sent() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(folder.path()).unwrap();
    let first = archive.note(&note(vec![fired("b", 100), fired("c", 101), fired("b", 102)])).unwrap();
    assert_eq!(first.alerts.len(), 2, "one that fires does not fire again");
    let second =
        archive.note(&note(vec![resolved("b", 200), resolved("b", 201), resolved("x", 201)])).unwrap();
    assert_eq!((second.alerts.len(), second.dropped), (1, 0));
    let of = |a: &Alert| (a.dst.clone(), a.fired_ns, a.resolved_ns);
    let list: Vec<_> = archive.alerts(10).unwrap().iter().map(of).collect();
    assert_eq!(list, [("c".to_owned(), 101, None), ("b".to_owned(), 100, Some(200))]);
    assert_eq!(archive.alerts(1).unwrap().len(), 1);
    let waiting = archive.waiting("webhook", 0, 10).unwrap();
    let sent: Vec<_> = waiting.iter().map(|m| of(&m.alert)).collect();
    // The first message describes the alert as it was when it fired.
    assert_eq!(sent, [("b".into(), 100, None), ("c".into(), 101, None), ("b".into(), 100, Some(200))]);
    archive.not_sent(&[waiting[0].id], 5000).unwrap();
    archive.sent(&[waiting[1].id]).unwrap();
    assert_eq!(archive.waiting("webhook", 4999, 10).unwrap().len(), 1);
    let again = archive.waiting("webhook", 5000, 10).unwrap();
    assert_eq!((again.len(), again[0].id, again[0].tries), (2, waiting[0].id, 1));
    // Three messages may wait in each channel: the oldest of `print` is dropped.
    let third = archive.note(&note(vec![fired("b", 300)])).unwrap();
    assert_eq!((third.dropped, archive.dropped_messages().unwrap()), (1, 1));
    let print = archive.waiting("print", 0, 10).unwrap();
    assert_eq!(print.iter().map(|m| m.alert.dst.as_str()).collect::<Vec<_>>(), ["c", "b", "b"]);
}

#[test]
fn totals_only_grow_and_are_the_same_from_parts() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(&folder.path().join("archive")).unwrap();
    let add = |seed: i64| {
        archive.add(&write_log(folder.path(), seed, NEW_YEAR + seed * DAY, 400), &[]).unwrap();
    };
    (1..4).for_each(add);
    let first = archive.totals(None, 10).unwrap();
    assert_eq!((first.entered, first.streams.len(), first.left_out), (3, 1, 0));
    assert_eq!(first.streams[0].pool.tests, 3);
    (4..6).for_each(add);
    let (more, all) = (archive.totals(Some(3), 10).unwrap(), archive.totals(None, 10).unwrap());
    let mut sum = first.streams[0].pool.clone();
    sum.merge(&more.streams[0].pool);
    let whole = &all.streams[0].pool;
    assert_eq!(
        (sum.tests, sum.sent, sum.lost, sum.delays().len()),
        (5, whole.sent, whole.lost, whole.delays().len())
    );
    assert_eq!(all.streams[0].losses.values().map(|(n, _)| n).sum::<u64>(), 5);
    // Counters stay when tests are removed.
    archive.prune(Retention::Tests { days: 1 }, WallTime(NEW_YEAR + 400 * DAY)).unwrap();
    let left = archive.totals(None, 10).unwrap();
    assert_eq!((left.streams[0].pool.sent, &left.streams[0].losses), (whole.sent, &all.streams[0].losses));
    assert_eq!(archive.totals(None, 0).unwrap().left_out, 1);
}
