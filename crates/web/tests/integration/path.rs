//! The page of a path in headless Chromium: every control, by keyboard and by mouse.

use crate::chromium as browser;
use crate::driven::Driven;
use crate::mesh;
use crate::served::Served;
use std::time::{SystemTime, UNIX_EPOCH};

const PAGE: &str = "/path/10.0.0.3/10.0.0.4";

/// Returns the value of a parameter in the first line of a request.
fn parameter<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let line = request.lines().next()?;
    let (_, rest) = line.split_once(&format!("{name}="))?;
    rest.split(['&', ' ']).next()
}

/// Returns start and end that a request asks for, in seconds since 1970.
fn span(request: &str) -> (i64, i64) {
    let at = |name| {
        let text = parameter(request, name).unwrap_or_else(|| panic!("no {name} in {request}"));
        let text = text.replace("%3A", ":");
        let now = jitlat_core::WallTime(0);
        jitlat_archive::When::parse(&text, now).unwrap().0.0 / 1_000_000_000
    };
    (at("from"), at("to"))
}

#[test]
fn every_control_of_a_path_leads_where_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    mesh::mesh(folder.path(), now, 12).unwrap();
    let served = Served::start(folder.path(), |_| ());
    let driven = Driven::start(&served, include_str!("../path.js"));
    let use_control = |control: &str| driven.visit(&format!("{PAGE}#{control}"), &["--window-size=1400,900"]);
    let Some((dom, _)) = use_control("none") else { return };
    assert_eq!(browser::result(&dom, "errors"), Some("none"), "{dom}");
    let of = |dom: &str, name| browser::result(dom, name).unwrap().parse::<i64>().unwrap() / 1000;
    let (from, to) = (of(&dom, "from"), of(&dom, "to"));
    let quarter = (to - from) / 4;
    for (control, ends) in [
        ("in", (from + quarter, to - quarter)),
        ("out", (from - 2 * quarter, to + 2 * quarter)),
        ("earlier", (from - 2 * quarter, to - 2 * quarter)),
        ("later", (from + 2 * quarter, to + 2 * quarter)),
    ] {
        let (_, asked) = use_control(control).unwrap();
        let found = span(asked.first().unwrap_or_else(|| panic!("{control} asks for nothing")));
        let near = |a: i64, b: i64| (a - b).abs() <= 3;
        assert!(near(found.0, ends.0) && near(found.1, ends.1), "{control}: {found:?} instead of {ends:?}");
    }
    // A drag over a fifth of the drawing shows about a fifth of the time.
    let (_, asked) = use_control("drag").unwrap();
    let (start, end) = span(asked.first().expect("a drag zooms"));
    let part = (end - start) as f64 / (to - from) as f64;
    assert!((0.18..0.24).contains(&part) && start > from && end < to, "{part}");
    let (_, asked) = use_control("click").unwrap();
    assert!(asked.iter().any(|request| request.starts_with("GET /test/")), "{asked:?}");
    let (_, asked) = use_control("show").unwrap();
    let chosen = asked.first().expect("the form is sent");
    assert_eq!(parameter(chosen, "week"), Some("1"), "{chosen}");
    assert_eq!((parameter(chosen, "src2"), parameter(chosen, "dst2")), (Some("10.0.0.1"), Some("10.0.0.2")));
    assert_eq!((parameter(chosen, "zone"), parameter(chosen, "show")), (Some("UTC"), None));
    let (dom, _) = use_control("png").unwrap();
    let size = browser::result(&dom, "png").expect("a picture was made");
    assert!(size.starts_with("2720x"), "{size}");
    assert_eq!(browser::result(&dom, "errors"), Some("none"));
}

#[test]
fn a_path_is_shown_in_the_time_zone_of_the_browser() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    mesh::mesh(folder.path(), now, 2).unwrap();
    let served = Served::start(folder.path(), |_| ());
    let driven = Driven::start(&served, include_str!("../path.js"));
    let Some((dom, asked)) = driven.visit("/path/10.0.0.1/10.0.0.2#zone", &[]) else { return };
    let again = asked.first().expect("the page loads again");
    assert!(again.contains("jitlat-zone=Asia%2FKolkata"), "{again}");
    assert_eq!(asked.len(), 1, "once: {asked:?}");
    assert!(dom.contains("All times are in the zone Asia/Kolkata"), "{dom}");
    // A zone that the address names comes first.
    let (_, asked) = driven.visit("/path/10.0.0.1/10.0.0.2?zone=UTC#zone", &[]).unwrap();
    assert!(asked.is_empty(), "{asked:?}");
}
