//! The pages in headless Chromium: wide and narrow, light and dark, with their own policy and scripts, and their
//! accessibility.

use crate::chromium as browser;
use crate::fake;
use crate::fake::Fake;
use crate::mesh;
use crate::served::Served;
use jitlat_archive::{AlertAbout, AlertUpdate, Fired, Note, Silence};
use jitlat_web::Starters;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Serves a mesh of five hosts; returns the addresses of a page of each kind.
fn served(folder: &std::path::Path) -> (Served, Arc<Fake>, Vec<String>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let archive = mesh::mesh(folder, now, 12).unwrap();
    let test = archive.newest().unwrap()[0].test;
    let pages = [
        "/",
        "/?show=mos&sort=value",
        "/path/10.0.0.3/10.0.0.4",
        "/path/10.0.0.3/10.0.0.4?show=jitter&from=30d",
        "/path/10.0.0.3/10.0.0.4?range=24h&week=1&src2=10.0.0.1&dst2=10.0.0.2",
        "/nowhere",
        "/hosts",
        "/compare",
        "/compare?src=10.0.0.3&dst=10.0.0.4&from=1d&to=9h&from2=9h",
        "/alerts",
        "/alerts/1",
        "/sla?open=8&close=18",
    ];
    let about = AlertAbout { alert: "loss".to_owned(), ..AlertAbout::default() };
    let path = ["all", "10.0.0.3", "10.0.0.4"].map(str::to_owned);
    let fired = Fired { about, path, ..Fired::default() };
    archive.note(&Note { changes: vec![AlertUpdate::Fired(fired)], ..Note::default() }).unwrap();
    let silence = Silence { author: "ann".to_owned(), from_ns: now, until_ns: 2 * now, ..Silence::default() };
    archive.add_silence(&silence).unwrap();
    let fake = Arc::new(Fake::default());
    let served = Served::start(folder, |settings| settings.runs = fake::runs(&fake, Starters::Local));
    let pages = pages.into_iter().map(str::to_owned);
    let pages = pages.chain(["/run".to_owned(), under_way(&served, &fake), format!("/test/{test}")]);
    let pages = pages.collect();
    (served, fake, pages)
}

/// Returns the page of a running test.
fn under_way(served: &Served, fake: &Fake) -> String {
    let body = "{\"host\":\"oslo\"}";
    let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let run = served.ask("POST /api/v1/runs", &headers, body);
    let run: serde_json::Value = serde_json::from_str(&run.body).unwrap();
    let mut started = fake.started.lock().unwrap();
    fake::two_seconds(&mut started.last_mut().unwrap().1);
    format!("/run/{}", run["id"].as_str().unwrap())
}

/// Returns a page with its style sheet inline and without scripts, so that it can be opened as a file.
fn alone(served: &Served, path: &str) -> String {
    let page = served.get(path).body;
    let style = served.get("/style.css").body;
    let (before, rest) = page.split_once("<link rel=\"stylesheet\"").expect("every page has its style");
    let (_, rest) = rest.split_once('>').unwrap();
    let mut page = format!("{before}<style>{style}</style>{rest}");
    while let Some(start) = page.find("<script src=") {
        let end = start + page[start..].find("</script>").unwrap() + "</script>".len();
        page.replace_range(start..end, "");
    }
    page
}

#[test]
fn nobody_is_kept_from_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (served, _fake, pages) = served(folder.path());
    let Some(axe) = browser::axe() else { return };
    let mut wrong = Vec::new();
    for (k, path) in pages.iter().enumerate() {
        let page = alone(&served, path);
        // Without `JITLAT_FULL`, every other page is tested in the other corner.
        let corners =
            browser::CORNERS.iter().enumerate().filter(|(corner, _)| browser::full() || k % 2 == *corner);
        for (_, (arguments, scheme)) in corners {
            let found = browser::accessibility(&page, &axe, arguments);
            wrong.extend(
                found.filter(|found| found != "ok").map(|found| format!("{path}, {scheme}: {found}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scripts_and_styles_are_those_of_the_policy() {
    let Some(program) = browser::browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (served, fake, pages) = served(folder.path());
    let own = browser::folder();
    let url = |path: &str| format!("http://{}{path}", served.address);
    // The page's own scripts run and wait for new tests.
    let dom = browser::visit(program, own.path(), &["--dump-dom"], &url("/"));
    assert!(
        dom.contains("role=\"status\">connecting<") || dom.contains("role=\"status\">live<"),
        "the script does not run"
    );
    // A running test is followed: its events appear on the page, and so does the choice of another figure.
    let run = pages.iter().find(|path| path.starts_with("/run/")).unwrap();
    let dom = std::thread::scope(|scope| {
        // The browser's virtual time stops while it waits for events, so that it sees the end of the test, whenever that is.
        scope.spawn(|| {
            let under_way = || !fake.started.lock().unwrap().is_empty();
            jitlat_waiting::while_true("a test is under way", Duration::from_secs(3), under_way);
            fake.started.lock().unwrap()[0].1.ended(Ok(Vec::new()));
        });
        browser::visit(program, own.path(), &["--dump-dom", "--virtual-time-budget=30000"], &url(run))
    });
    assert!(dom.contains("Ended; the report") && dom.contains(">the test has ended<"), "{dom}");
    let test = pages.last().unwrap();
    let dom = browser::visit(program, own.path(), &["--dump-dom"], &url(test));
    assert!(
        dom.contains("class=\"plot\"") || dom.contains("class=\"view"),
        "the figures are not drawn by the script"
    );
}

#[test]
fn no_page_is_wider_than_a_phone_and_keys_reach_whatever_can_be_pressed() {
    let Some(program) = browser::browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (served, _fake, pages) = served(folder.path());
    let own = browser::folder();
    const LOOK: &str = concat!("<script>", include_str!("../look.js"), "</script></body>");
    for path in &pages {
        let file = own.path().join("page.html");
        let page = alone(&served, path);
        std::fs::write(&file, &page).unwrap();
        browser::shown()
            .into_iter()
            .for_each(|shown| browser::picture(program, own.path(), shown, &file, path));
        std::fs::write(&file, page.replacen("</body>", LOOK, 1)).unwrap();
        for (arguments, _) in browser::shown() {
            let dom = browser::browse(program, own.path(), &[&["--dump-dom"], arguments].concat(), &file);
            assert_eq!(browser::result(&dom, "wide"), Some("false"), "{path}, {arguments:?}");
            assert_eq!(browser::result(&dom, "keys"), Some("ok"), "{path}, {arguments:?}");
        }
    }
}
