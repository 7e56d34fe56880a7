//! State that a monitor stores for its alerts: in one transaction with the number of the last judged test.

use crate::common::*;
use jitlat_archive::{
    Alert, AlertAbout, AlertUpdate, Archive, Fired, Note, ReportedSlot, Retention, Route, Silence,
};
use jitlat_core::WallTime;

fn fired(path: &str, at: i64) -> AlertUpdate {
    AlertUpdate::Fired(Fired {
        about: about("path", "a", path),
        severity: "warning".into(),
        path: ["voice", "a", path].map(str::to_owned),
        since_ns: at - 5,
        fired_ns: at,
        held_until_ns: 0,
        reason: "loss>1% (loss is 2%)".into(),
    })
}

fn about(scope: &str, src: &str, dst: &str) -> AlertAbout {
    let test = if scope == "path" { "voice" } else { "" };
    let [alert, scope, test, src, dst] = ["loss", scope, test, src, dst].map(str::to_owned);
    AlertAbout { alert, scope, test, src, dst }
}

fn resolved(path: &str, at: i64) -> AlertUpdate {
    AlertUpdate::Resolved {
        about: about("path", "a", path),
        held_until_ns: 0,
        at_ns: at,
        reason: "3 good".into(),
    }
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
    assert_eq!(archive.waiting("webhook", 4999, 10).unwrap().len(), 0, "later messages wait for the first");
    assert_eq!(archive.message_due("webhook", 4999).unwrap(), Some(5000));
    let again = archive.waiting("webhook", 5000, 10).unwrap();
    assert_eq!((again.len(), again[0].id, again[0].tries), (2, waiting[0].id, 1));
    // Three messages may wait in each channel: the oldest of `print` is dropped.
    let third = archive.note(&note(vec![fired("b", 300)])).unwrap();
    assert_eq!((third.dropped, archive.dropped_messages().unwrap()), (1, 1));
    let print = archive.waiting("print", 0, 10).unwrap();
    assert_eq!(print.iter().map(|m| m.alert.dst.as_str()).collect::<Vec<_>>(), ["c", "b", "b"]);
}

fn held(path: &str, at: i64, until: i64) -> AlertUpdate {
    let AlertUpdate::Fired(fired) = fired(path, at) else { panic!() };
    AlertUpdate::Fired(Fired { held_until_ns: until, ..fired })
}

#[test]
fn a_held_message_tells_what_the_alert_has_become_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(folder.path()).unwrap();
    archive.note(&note(vec![held("b", 100, 160), held("c", 101, 160)])).unwrap();
    assert!(archive.waiting("print", 159, 9).unwrap().is_empty());
    assert_eq!(archive.message_due("print", 100).unwrap(), Some(160));
    let (wide, path) = (about("host", "a", ""), ["voice", "a", "d"].map(str::to_owned));
    let widened =
        AlertUpdate::Widened { from: about("path", "a", "b"), about: wide.clone(), reason: "r".into() };
    let joined = AlertUpdate::Joined { about: wide.clone(), path: path.clone(), since_ns: 120 };
    archive.note(&note(vec![widened, joined, resolved("c", 130)])).unwrap();
    let told = archive.waiting("print", 160, 9).unwrap();
    assert_eq!(told.len(), 1, "what was resolved while it was held is told to nobody");
    let alert = &told[0].alert;
    assert_eq!((alert.scope.as_str(), alert.src.as_str(), alert.paths), ("host", "a", 2));
    assert_eq!(archive.alerts(9).unwrap().len(), 2, "but it is in the list");
    let left = AlertUpdate::Left { about: wide.clone(), path, at_ns: 170 };
    archive.note(&note(vec![left])).unwrap();
    let paths = archive.alert_paths(alert.id, 9).unwrap();
    assert_eq!(
        paths.iter().map(|p| (p.dst.as_str(), p.ended_ns)).collect::<Vec<_>>(),
        [("b", None), ("d", Some(170))]
    );
    let over = AlertUpdate::Resolved { about: wide, held_until_ns: 0, at_ns: 200, reason: "good".into() };
    archive.note(&note(vec![over])).unwrap();
    assert_eq!(archive.waiting("print", 200, 9).unwrap().len(), 2);
    assert!(
        archive.acknowledge(alert.id, "ann", "seen", 210).unwrap()
            && !archive.acknowledge(99, "ann", "", 210).unwrap()
    );
    assert_eq!(archive.alerts(9).unwrap()[0].acknowledged_by.as_deref(), Some("ann"));
}

#[test]
fn a_silence_holds_messages_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(folder.path()).unwrap();
    archive.set_labels(&[("b".to_owned(), [("site".to_owned(), "s".to_owned())].into())].into()).unwrap();
    archive.note(&note(vec![fired("b", 10)])).unwrap();
    let silence = |host: Option<&str>, site: Option<&str>| Silence {
        host: host.map(str::to_owned),
        site: site.map(str::to_owned),
        from_ns: 20,
        until_ns: 1000,
        author: "ann".into(),
        ..Silence::default()
    };
    let id = archive.add_silence(&silence(None, Some("s"))).unwrap();
    archive.add_silence(&silence(Some("d"), None)).unwrap();
    archive.note(&note(vec![fired("c", 30), fired("d", 31)])).unwrap();
    let told =
        |at| archive.waiting("print", at, 9).unwrap().into_iter().map(|m| m.alert.dst).collect::<Vec<_>>();
    assert_eq!(told(40), ["c"], "also what was not sent yet is held");
    assert!(archive.end_silence(id, 50).unwrap() && !archive.end_silence(id, 51).unwrap());
    assert_eq!(told(50), ["b", "c"]);
    assert_eq!(told(1000), ["b", "c", "d"], "what still fires at its end is told");
    let listed = archive.silences(9).unwrap();
    assert_eq!(listed.iter().map(|s| s.until_ns).collect::<Vec<_>>(), [1000, 50]);
}

#[test]
fn reports_and_routes_are_kept_with_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(folder.path()).unwrap();
    let report = |server: &str, at_ns| ReportedSlot {
        test: "voice".into(),
        client: "a".into(),
        server: server.into(),
        at_ns,
        ..ReportedSlot::default()
    };
    archive.record_reports(&[report("b", 1), report("c", 2)], 9).unwrap();
    archive.record_reports(&[report("b", 3)], 9).unwrap();
    let all: Vec<_> =
        archive.reports_after(0).unwrap().into_iter().map(|(n, r)| (n, r.server, r.at_ns)).collect();
    assert_eq!(all, [(2, "c".to_owned(), 2), (3, "b".to_owned(), 3)]);
    archive.record_reports(&[report("d", 4)], 2).unwrap();
    let kept: Vec<_> = archive.reports_after(0).unwrap().into_iter().map(|(_, r)| r.server).collect();
    assert_eq!(kept, ["b", "d"], "a host cannot fill the disk with paths");

    let seen = |at: i64, hops: &str| Route {
        id: 0,
        route: "r".into(),
        src: "a".into(),
        dst: "b".into(),
        first_ns: at,
        last_ns: at,
        hops: hops.split(' ').map(str::to_owned).collect(),
    };
    let new: Vec<bool> = [(1, "x y"), (2, "x y"), (3, "x z"), (4, "x y")]
        .into_iter()
        .map(|(at, hops)| archive.record_route(&seen(at, hops)).unwrap())
        .collect();
    assert_eq!(new, [true, false, true, true]);
    let routes = archive.routes("a", "b", 9).unwrap();
    assert_eq!(routes.iter().map(|r| (r.first_ns, r.last_ns)).collect::<Vec<_>>(), [(1, 2), (3, 3), (4, 4)]);
    let changed = archive.routes_after(2).unwrap();
    let before: Vec<_> = changed.iter().map(|route| route.before.clone().unwrap().join(" ")).collect();
    assert_eq!(before, ["x y", "x z"]);
    assert_eq!(archive.routes_seen().unwrap(), (4, 3));
    // The routes that have not been seen for longest are removed, but only those from this host.
    archive.record_route(&Route { src: "c".into(), ..seen(1, "x") }).unwrap();
    archive.bound_routes("a", 2).unwrap();
    let left = archive.routes("a", "b", 9).unwrap();
    assert_eq!(left.iter().map(|r| r.first_ns).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(archive.routes("c", "b", 9).unwrap().len(), 1);
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
    assert_eq!((first.entered, first.streams.len(), first.left_out), (vec![3], 1, 0));
    assert_eq!(first.streams[0].pool.tests, 3);
    (4..6).for_each(add);
    let (more, all) = (archive.totals(Some(&[3]), 10).unwrap(), archive.totals(None, 10).unwrap());
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
