//! The report of a month.

use crate::driven::Driven;
use crate::mesh::{self, HOUR, Went};
use crate::served::Served;
use jitlat_archive::Archive;
use std::path::Path;

/// 2025-11-03 00:00 UTC, a Monday.
const MONDAY: i64 = 1_762_128_000_000_000_000;

/// Tests of a path on Monday at every hour, and on Saturday at noon; those of Monday from 10:00 to 12:00 and on Saturday are bad.
fn month(folder: &Path) -> Archive {
    let archive = Archive::make(folder).unwrap();
    let add = |at: i64, is_bad: bool| {
        let went = if is_bad { Went::Badly } else { Went::Well };
        mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), at, went).unwrap();
    };
    for hour in 0..24 {
        add(MONDAY + hour * HOUR + HOUR / 2, (10..12).contains(&hour));
    }
    add(MONDAY + (5 * 24 + 12) * HOUR, true);
    archive
}

#[test]
fn a_report_counts_the_hours_of_business() {
    let folder = tempfile::tempdir().unwrap();
    month(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let path = |query: &str| served.json(&format!("/api/v1/sla?month=2025-11&{query}"));
    let all = path("");
    let one = &all["paths"][0];
    assert_eq!((&all["hours"], &one["tests"]), (&720.into(), &25.into()));
    assert!((one["measured"].as_f64().unwrap() - 25.0 / 720.0).abs() < 1e-9, "{one}");
    // A bad test loses 24 % of its packets.
    for key in ["available", "good_or_fair", "loss_met"] {
        assert!((one[key].as_f64().unwrap() - 22.0 / 25.0).abs() < 1e-9, "{key}: {one}");
    }
    assert!((one["loss"].as_f64().unwrap() - 0.24 * 3.0 / 25.0).abs() < 1e-9, "{one}");
    assert_eq!(path("lost=30")["paths"][0]["available"], 1.0);
    let worst = all["worst_hours"].as_array().unwrap();
    assert_eq!(worst.len(), 3);
    assert_eq!((&worst[0]["start_ns"], &worst[0]["bad"]), (&(MONDAY + 10 * HOUR).into(), &1.into()));
    // From 8 to 18 on workdays: 20 days of ten hours, and the tests of Monday.
    let business = path("open=8&close=18&workdays=1");
    assert_eq!((&business["hours"], &business["paths"][0]["tests"]), (&200.into(), &10.into()));
    assert_eq!(business["worst_hours"].as_array().unwrap().len(), 2);
    // The same hours of another zone are other hours: 8:00 in Kolkata is 2:30 UTC, whose test starts then.
    let there = path("open=8&close=9&workdays=1&zone=Asia/Kolkata");
    if there["zone"] != "UTC" {
        assert_eq!(there["paths"][0]["tests"], 1);
    }
    assert_eq!(path("name=nobody")["paths"].as_array().unwrap().len(), 0);
    assert_eq!(served.get("/sla?month=2025").status, 400);
}

#[test]
fn a_report_is_a_page_for_paper_and_a_table() {
    let folder = tempfile::tempdir().unwrap();
    month(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let page = served.get("/sla?month=2025-11&open=8&close=18").body;
    assert!(page.contains("0 of 1 path was good or fair in all tests"), "{page}");
    assert!(page.contains(" of the hours; the rest is unknown"), "{page}");
    assert!(served.get("/sla?month=2199-01").body.contains("The month 2199-01 has not begun"));
    assert_eq!(served.get("/sla?zone=Mars/X").status, 400);
    assert!(page.contains("all days, 8:00 to 18:00, UTC") && page.contains("2025-11-03 10:00"), "{page}");
    let csv = served.get("/sla/csv?month=2025-11");
    assert!(csv.head.contains("text/csv"), "{}", csv.head);
    let lines: Vec<&str> = csv.body.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].split(',').count(), 14);
    assert!(lines[1].starts_with("2025-11,\"UTC\",\"10.0.0.1\",\"10.0.0.2\","), "{}", lines[1]);
    let driven = Driven::start(&served, include_str!("../forms.js"));
    let Some((dom, asked)) = driven.visit("/sla#report", &[]) else { return };
    let line = asked[0].lines().next().unwrap();
    assert!(
        line.contains("month=2026-10&open=8&close=18&workdays=1&zone=UTC&profile=voice&lost=20"),
        "{line}"
    );
    assert!(dom.contains("No tests in these hours of the month"), "{dom}");
}

#[test]
fn the_pages_of_two_archives_have_the_tests_of_both_once() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    month(&first);
    let other = month(&second);
    // One more test than the other has.
    mesh::add(&other, ("10.0.0.1", "10.0.0.2"), MONDAY + 30 * HOUR, Went::Well).unwrap();
    drop(other);
    let served = Served::start(&first, |settings| settings.others.push(second.clone()));
    let report = served.json("/api/v1/sla?month=2025-11");
    assert_eq!(report["paths"][0]["tests"], 26, "{report}");
    let span = "from=2025-11-03T00:00:00Z&to=2025-11-09T00:00:00Z";
    for page in ["/path/10.0.0.1/10.0.0.2", "/api/v1/path/10.0.0.1/10.0.0.2", "/sla"] {
        let query = if page == "/sla" { "month=2025-11" } else { span };
        let answer = served.get(&format!("{page}?{query}"));
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
    }
    let path = served.json(&format!("/api/v1/path/10.0.0.1/10.0.0.2?{span}"));
    assert_eq!(path["all"]["tests"], 26, "{path}");
}
