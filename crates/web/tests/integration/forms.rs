//! Forms of the pages in headless Chromium: alerts are acknowledged and silenced, periods are chosen, tests are started.

use crate::chromium as browser;
use crate::driven::Driven;
use crate::fake::{self, Fake};
use crate::mesh::{self, Went};
use crate::served::Served;
use jitlat_archive::{AlertAbout, AlertUpdate, Archive, Fired, Note};
use jitlat_web::{MonitorState, PlannedMaintenance, ReadAccess, Starters, Token};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const FORMS: &str = include_str!("../forms.js");

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// An archive with a path, and a firing alert about it.
fn with_alert(folder: &Path) -> Archive {
    let archive = Archive::make(folder).unwrap();
    mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), now() - mesh::HOUR, Went::Badly).unwrap();
    let [alert, test, src, dst] = ["loss", "all", "10.0.0.1", "10.0.0.2"].map(str::to_owned);
    let path = [test.clone(), src.clone(), dst.clone()];
    let about = AlertAbout { alert, scope: "path".to_owned(), test, src, dst };
    let fired = Fired { about, path, reason: "24 % lost".to_owned(), ..Fired::default() };
    archive.note(&Note { changes: vec![AlertUpdate::Fired(fired)], ..Note::default() }).unwrap();
    archive
}

#[test]
fn an_alert_leads_to_its_path_and_is_acknowledged_and_silenced_on_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let archive = with_alert(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let all = served.get("/alerts").body;
    assert!(all.contains("href=\"/path/10.0.0.1/10.0.0.2\"") && all.contains("href=\"/alerts/1\""), "{all}");
    let one = served.get("/alerts/1").body;
    assert!(one.contains("24 % lost") && one.contains("is violated in this direction"), "{one}");
    assert_eq!(served.get("/alerts/2").status, 404);
    let driven = Driven::start(&served, FORMS);
    let Some((dom, _)) = driven.visit("/alerts/1#acknowledge", &[]) else { return };
    assert!(dom.contains("acknowledged by ann") && dom.contains("cable ordered"), "{dom}");
    // A silence with a start in the future is a planned maintenance, and holds nothing yet.
    driven.visit("/alerts#silence", &[]).unwrap();
    let planned = archive.silences(10).unwrap().remove(0);
    assert_eq!((planned.author.as_str(), planned.note.as_str()), ("ann", "new cables"));
    assert_eq!(planned.until_ns - planned.from_ns, 3 * mesh::HOUR);
    assert_eq!(planned.from_ns % (24 * mesh::HOUR), 10 * mesh::HOUR);
    assert!(planned.from_ns > now() + 24 * mesh::HOUR);
    let page = served.get("/alerts").body;
    assert!(page.contains(" 10:00 (planned)"), "{page}");
    let (dom, _) = driven.visit("/alerts#end", &[]).unwrap();
    assert!(!dom.contains("(planned)"), "{dom}");
    assert_eq!(browser::result(&dom, "errors"), Some("none"));
}

#[test]
fn maintenance_of_the_file_is_on_the_page_of_alerts() {
    let folder = tempfile::tempdir().unwrap();
    with_alert(folder.path());
    let state = Arc::new(MonitorState::default());
    let planned = PlannedMaintenance { about: "hosts <oslo>".to_owned(), when: "sat 22:00-24:00".to_owned() };
    state.set_maintenance(vec![planned]);
    let served = Served::start(folder.path(), |s| s.monitor = Some(state));
    let page = served.get("/alerts").body;
    assert!(page.contains("hosts &lt;oslo&gt;") && page.contains("sat 22:00-24:00"), "{page}");
    assert_eq!(served.json("/api/v1/alerts")["maintenance"][0]["about"], "hosts <oslo>");
}

#[test]
fn a_silence_far_in_the_future_is_refused_and_forms_need_their_secret() {
    let folder = tempfile::tempdir().unwrap();
    let archive = with_alert(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let post = |path: &str, body: &str, headers: &str| {
        let headers = format!("{headers}Content-Length: {}\r\n", body.len());
        served.ask(&format!("POST {path}"), &headers, body).status
    };
    for path in ["/alerts", "/alerts/1", "/alerts/silences/1/end"] {
        assert_eq!(post(path, "by=ann&for=2h&secret=x", ""), 403, "{path}");
    }
    // With the secret of the form and its cookie.
    let page = served.get("/alerts");
    let cookie = page.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let secret =
        page.body.split("name=\"secret\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let cookie = format!("Cookie: {cookie}\r\n");
    let ask = |fields: &str| post("/alerts", &format!("secret={secret}&{fields}"), &cookie);
    for wrong in [
        "by=&for=2h&host=a",
        "by=ann&for=soon&host=a",
        "by=ann&for=9999d&host=a",
        "by=ann&for=2h&host=a&from=2999-01-01",
        "by=ann&host=a",
        "by=ann&for=2h",
    ] {
        assert_eq!(ask(wrong), 400, "{wrong}");
    }
    assert!(archive.silences(10).unwrap().is_empty());
    assert_eq!(ask("by=ann&for=2h&host=10.0.0.1"), 303);
    assert_eq!(archive.silences(10).unwrap().len(), 1);
    let foreign = format!("{cookie}Origin: http://evil.example\r\n");
    assert_eq!(post("/alerts", &format!("secret={secret}&by=ann&for=2h&host=a"), &foreign), 403);
}

#[test]
fn readers_without_the_token_for_tests_see_no_forms_of_alerts() {
    let folder = tempfile::tempdir().unwrap();
    with_alert(folder.path());
    let fake = Arc::new(Fake::default());
    let served = Served::start(folder.path(), |settings| {
        settings.access = ReadAccess::Token(Token::new("a-token-for-reading"));
        settings.runs = fake::runs(&fake, Starters::Token(Token::new("a-token-for-running")));
    });
    let get =
        |token: &str| served.ask("GET /alerts/1", &format!("Authorization: Bearer {token}\r\n"), "").body;
    let (reader, runner) = (get("a-token-for-reading"), get("a-token-for-running"));
    assert!(
        !reader.contains("name=\"by\"") && reader.contains("needs the token for running tests"),
        "{reader}"
    );
    assert!(runner.contains("name=\"by\""), "{runner}");
    let headers = "Authorization: Bearer a-token-for-reading\r\nContent-Length: 0\r\n";
    assert_eq!(served.ask("POST /alerts/1", headers, "").status, 403);
}

#[test]
fn a_fresh_archive_offers_a_field_for_a_host_to_users_of_this_host() {
    let folder = tempfile::tempdir().unwrap();
    drop(Archive::make(folder.path()).unwrap());
    let fake = Arc::new(Fake { any_host: true, ..Fake::default() });
    let served = Served::start(folder.path(), |s| s.runs = fake::runs(&fake, Starters::Local));
    let driven = Driven::start(&served, FORMS);
    if let Some((dom, _)) = driven.visit("/run#host", &[]) {
        assert!(dom.contains("one way with new.example"), "{dom}");
        assert_eq!(fake.started.lock().unwrap()[0].0.host, "new.example");
    }
    // Hosts are names or addresses.
    for host in ["-x", "a b", "a/b", "a;b", ""] {
        let body = serde_json::json!({ "host": host }).to_string();
        let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        assert_eq!(served.ask("POST /api/v1/runs", &headers, &body).status, 400, "{host}");
    }
    // Others may not choose the targets of this host.
    let served = Served::start(folder.path(), |settings| {
        settings.access = ReadAccess::Token(Token::new("a-token-for-reading"));
        settings.runs = fake::runs(&fake, Starters::Token(Token::new("a-token-for-running")));
    });
    let body = "{\"host\":\"new.example\"}";
    let headers = format!(
        "Authorization: Bearer a-token-for-running\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    assert_eq!(served.ask("POST /api/v1/runs", &headers, body).status, 400);
}

#[test]
fn periods_to_compare_are_picked() {
    let folder = tempfile::tempdir().unwrap();
    mesh::mesh(folder.path(), now(), 2).unwrap();
    let served = Served::start(folder.path(), |_| ());
    let page = served.get("/compare?src=10.0.0.1&dst=10.0.0.2&zone=Asia/Kolkata").body;
    assert!(
        page.contains("yesterday with a week before it") && page.contains("zone=Asia%2FKolkata"),
        "{page}"
    );
    assert!(page.contains("<option value=\"10.0.0.1\" selected>"), "{page}");
    let driven = Driven::start(&served, FORMS);
    let Some((_, asked)) = driven.visit("/compare#compare", &[]) else { return };
    let line = asked[0].lines().next().unwrap();
    assert!(line.contains("src=10.0.0.1&dst=10.0.0.2&from=2026-01-01T00%3A00&"), "{line}");
}
