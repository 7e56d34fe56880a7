//! Tests that are started from the page: who may, which requests are refused, that no foreign page can start one, and how
//! one is watched.

use crate::fake;
use crate::fake::Fake;
use crate::mesh;
use crate::mesh::Went;
use crate::served::{Answer, Served};
use jitlat_archive::Archive;
use jitlat_web::{ReadAccess, RunLimits, Settings, Starters, Token, Web, WebError};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn archive(folder: &Path) -> Archive {
    let archive = Archive::make(folder).unwrap();
    for pair in [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.1")] {
        mesh::add(&archive, pair, 1_760_000_000_000_000_000, Went::Well).unwrap();
    }
    archive
}

fn local(folder: &Path, fake: &Arc<Fake>) -> Served {
    Served::start(folder, |settings| settings.runs = fake::runs(fake, Starters::Local))
}

/// Returns the cookie and the form's secret, as a browser has them after it loaded a page with a form.
fn browser(served: &Served, headers: &str) -> (String, String) {
    let page = served.ask("GET /run", headers, "");
    assert_eq!(page.status, 200, "{}", page.body);
    let cookie = page.head.lines().find_map(|l| l.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
    (cookie.split(';').next().unwrap().to_owned(), secret(&page).expect("a secret"))
}

fn secret(page: &Answer) -> Option<String> {
    let (_, rest) = page.body.split_once("name=\"secret\" value=\"")?;
    rest.split('"').next().map(str::to_owned)
}

fn post(served: &Served, path: &str, headers: &str, body: &str) -> Answer {
    let length = format!("{headers}Content-Length: {}\r\n", body.len());
    served.ask(&format!("POST {path}"), &length, body)
}

/// Submits a form of this server as a browser does.
fn submit(served: &Served, path: &str, (cookie, secret): &(String, String), fields: &str) -> Answer {
    let headers = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nOrigin: http://{}\r\nSec-Fetch-Site: same-origin\r\nCookie: {cookie}\r\n",
        served.address
    );
    post(served, path, &headers, &format!("secret={secret}&{fields}"))
}

fn location(answer: &Answer) -> String {
    answer.head.lines().find_map(|l| l.strip_prefix("location: ")).expect("it leads somewhere").to_owned()
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn a_test_is_asked_for_watched_and_found_in_the_archive() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    let archive = archive(folder.path());
    let served = local(folder.path(), &fake);
    let own = browser(&served, "");
    let fields = "host=oslo&test=udp&direction=both&duration=10s&load=up&load_rate=2Mbit";
    let answer = submit(&served, "/run", &own, fields);
    assert_eq!(answer.status, 303, "{}", answer.body);
    let asked =
        fake.started.lock().unwrap().last().map(|(asked, _)| [asked.load.clone(), asked.load_rate.clone()]);
    assert_eq!(asked, Some(["up".to_owned(), "2Mbit".to_owned()]));
    let address = location(&answer);
    let page = served.get(&address);
    assert!(page.body.contains("About to start") && page.body.contains("Stop the test"), "{}", page.body);
    assert!(page.body.contains("<noscript><meta http-equiv=\"refresh\""));
    let mut feed = fake.last();
    feed.waits(4_000_000_000_000_000_000);
    assert!(served.get(&address).body.contains("next gap in the timetable"));
    fake::two_seconds(&mut feed);
    let page = served.get(&address).body;
    for said in [
        "Sending packets.",
        "19 % of the packets",
        ">up<",
        ">down<",
        "100 of 500",
        "<b class=\"level\">",
        "reported once per second",
        "Delay over time",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    // Each plot has its figure, without anything that the page's own policy refuses.
    for (plot, what) in [
        ("delay", "largest"),
        ("distribution", "cumulative share"),
        ("losses", "missing"),
        ("packets", "<svg"),
    ] {
        let page = served.get(&format!("{address}?plot={plot}")).body;
        assert!(
            page.contains(&format!("<option value=\"{plot}\" selected>")) && page.contains(what),
            "{plot}"
        );
        assert!(page.contains("<svg") && !page.contains("style=\"") && !page.contains("<style"), "{plot}");
    }
    assert_eq!(served.get(&format!("{address}?plot=x")).status, 400);
    feed.under_load();
    assert!(served.get(&address).body.contains("Sending packets under load."));
    let api = address.replace("/run/", "/api/v1/runs/");
    let now = served.json(&api);
    assert_eq!((&now["state"], &now["streams"][0]["missing"]), (&"running".into(), &5.into()));
    assert_eq!((&now["streams"][1]["received"], &now["streams"][1]["reported"]), (&90.into(), &false.into()));
    fake::records(&mut feed);
    let tests = fake::end(&feed, &archive);
    let page = served.get(&address).body;
    assert!(page.contains(&format!("href=\"/test/{}\"", tests[0])) && !page.contains("http-equiv"), "{page}");
    assert!(!page.contains("Stop the test"));
    let now = served.json(&api);
    assert_eq!(now["tests"].as_array().unwrap().len(), 2);
    // In the end the packets of both directions are known.
    assert_eq!((&now["streams"][0]["received"], &now["streams"][0]["reported"]), (&98.into(), &false.into()));
    assert!(served.get(&format!("{address}?plot=jitter")).body.matches("<svg").count() == 2);
    assert_eq!(served.get(&format!("/test/{}", tests[0])).status, 200);
    assert!(served.get("/run").body.contains("ended"));
}

#[test]
fn those_who_watch_hear_of_it_once_a_second_until_it_is_over() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    let archive = archive(folder.path());
    let served = local(folder.path(), &fake);
    let run = post(&served, "/api/v1/runs", JSON, "{\"host\":\"oslo\"}");
    assert_eq!(run.status, 201, "{}", run.body);
    let run: Value = serde_json::from_str(&run.body).unwrap();
    let mut stream = served.connect();
    let request = format!(
        "GET /api/v1/runs/{}/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        run["id"].as_str().unwrap()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    let mut until = |wanted: &str| {
        let mut bytes = [0; 16384];
        while !text.contains(wanted) {
            let n = stream.read(&mut bytes).expect("an event within a minute");
            assert!(n > 0, "{wanted}: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    until("\"state\":\"waiting\"");
    let mut feed = fake.last();
    fake::two_seconds(&mut feed);
    until("\"state\":\"running\"");
    until("\"received\":90");
    fake::end(&feed, &archive);
    until("\"state\":\"ended\"");
    // Chunks end with an empty one.
    until("\r\n0\r\n\r\n");
}

#[test]
fn it_can_be_stopped_by_who_may_and_a_runner_that_dies_is_a_failure() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    archive(folder.path());
    let served = local(folder.path(), &fake);
    let own = browser(&served, "");
    let address = location(&submit(&served, "/run", &own, "host=oslo"));
    let feed = fake.last();
    let stop = feed.stop();
    assert_eq!(post(&served, &format!("{address}/stop"), "", "").status, 403);
    assert!(!stop.load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(submit(&served, &format!("{address}/stop"), &own, "").status, 303);
    assert!(stop.load(std::sync::atomic::Ordering::SeqCst));
    drop(feed);
    let page = served.get(&address).body;
    assert!(page.contains("headline bad") && page.contains("a bug in jitlat"), "{page}");
    // Started by a program.
    let run = post(&served, "/api/v1/runs", JSON, "{\"host\":\"oslo\"}");
    let id = serde_json::from_str::<Value>(&run.body).unwrap()["id"].as_str().unwrap().to_owned();
    let feed = fake.last();
    assert_eq!(post(&served, &format!("/api/v1/runs/{id}/stop"), JSON, "").status, 200);
    assert!(feed.stop().load(std::sync::atomic::Ordering::SeqCst));
    for gone in ["/run/0000", "/api/v1/runs/0000", "/api/v1/runs/0000/events"] {
        assert_eq!(served.get(gone).status, 404, "{gone}");
    }
}

#[test]
fn no_foreign_page_starts_anything() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    archive(folder.path());
    let served = local(folder.path(), &fake);
    let (cookie, secret) = browser(&served, "");
    let (_, other) = browser(&served, "");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let own = format!("Origin: http://{}\r\n", served.address);
    let cookie = format!("Cookie: {cookie}\r\n");
    let body = format!("secret={secret}&host=oslo");
    let evil = "Origin: http://evil.example\r\n";
    // Everything that a foreign page can make a browser send; also requests of old browsers, which lack some headers.
    let tries: &[(&str, String, String)] = &[
        ("/run", format!("{form}{evil}{cookie}"), body.clone()),
        ("/run", format!("{form}Origin: null\r\n{cookie}"), body.clone()),
        ("/run", format!("{form}Sec-Fetch-Site: cross-site\r\n{cookie}"), body.clone()),
        ("/run", format!("{form}Sec-Fetch-Site: same-site\r\n{own}{cookie}"), body.clone()),
        // Without its cookie (SameSite), without its secret, or with the secret of another browser.
        ("/run", format!("{form}{own}"), body.clone()),
        ("/run", format!("{form}{own}{cookie}"), "host=oslo".to_owned()),
        ("/run", format!("{form}{own}{cookie}"), format!("secret={other}&host=oslo")),
        ("/run", format!("{form}{own}Cookie: jitlat-form=0\r\n"), body.clone()),
        ("/api/v1/runs", format!("Content-Type: text/plain\r\n{evil}"), "{\"host\":\"oslo\"}".to_owned()),
        ("/api/v1/runs", "Content-Type: text/plain\r\n".to_owned(), "{\"host\":\"oslo\"}".to_owned()),
        ("/api/v1/runs", format!("{form}{cookie}"), "{\"host\":\"oslo\"}".to_owned()),
        ("/api/v1/runs", String::new(), "{\"host\":\"oslo\"}".to_owned()),
        ("/api/v1/runs", format!("{JSON}{evil}"), "{\"host\":\"oslo\"}".to_owned()),
        ("/api/v1/runs", format!("{JSON}Sec-Fetch-Site: cross-site\r\n"), "{\"host\":\"oslo\"}".to_owned()),
        // A foreign name that resolves to this host.
        ("/api/v1/runs", format!("{JSON}Host: evil.example\r\n"), "{\"host\":\"oslo\"}".to_owned()),
    ];
    for (path, headers, body) in tries {
        let answer = post(&served, path, headers, body);
        assert!([403, 415, 421].contains(&answer.status), "{path} {headers}{body}: {}", answer.status);
        assert!(fake.started.lock().unwrap().is_empty(), "{path} {headers}{body}");
    }
    // A preflight request of a foreign page is refused, and an image cannot start anything.
    let ask = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    let answer = served.ask("OPTIONS /api/v1/runs", ask, "");
    assert!(answer.status == 405 && !answer.head.contains("access-control"), "{}", answer.head);
    served.get("/run?host=oslo&test=udp&secret=x");
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(served.ask(&format!("{method} /api/v1/runs"), JSON, "").status, 405, "{method}");
    }
    assert!(fake.started.lock().unwrap().is_empty());
    // Its own page may start tests.
    let answer = post(&served, "/run", &format!("{form}{own}{cookie}"), &body);
    assert_eq!((answer.status, fake.started.lock().unwrap().len()), (303, 1));
}

#[test]
fn running_takes_another_token_than_reading() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    archive(folder.path());
    let run = || Starters::Token(Token::new("run-horse-battery"));
    let served = Served::start(folder.path(), |settings| {
        settings.access = ReadAccess::Token(Token::new("read-horse-battery"));
        settings.runs = fake::runs(&fake, run());
    });
    let [read, may] = ["read", "run"].map(|who| format!("Authorization: Bearer {who}-horse-battery\r\n"));
    let wanted_test = "{\"host\":\"oslo\"}";
    assert_eq!(post(&served, "/api/v1/runs", JSON, wanted_test).status, 401);
    assert_eq!(post(&served, "/api/v1/runs", &format!("{JSON}{read}"), wanted_test).status, 403);
    let page = served.ask("GET /run", &read, "");
    assert!(page.body.contains("Starting one needs the token") && secret(&page).is_none(), "{}", page.body);
    assert_eq!(served.ask("GET /run", &may, "").status, 200, "who may run may read");
    // A browser shows the token once and then has a cookie, which is valid for the form but not for programs.
    let login = |token: &str| {
        post(
            &served,
            "/login",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            &format!("token={token}&to=/run"),
        )
    };
    let logged_in = |token: &str| {
        let answer = login(token);
        assert_eq!((answer.status, location(&answer)), (303, "/run".to_owned()));
        let cookie = answer.head.lines().find_map(|l| l.strip_prefix("set-cookie: ")).unwrap().to_owned();
        cookie.split(';').next().unwrap().to_owned()
    };
    let reader = logged_in("read-horse-battery");
    assert!(secret(&served.ask("GET /run", &format!("Cookie: {reader}\r\n"), "")).is_none());
    let runner = logged_in("run-horse-battery");
    let (cookie, secret) = browser(&served, &format!("Cookie: {runner}\r\n"));
    assert_eq!(
        post(&served, "/api/v1/runs", &format!("{JSON}Cookie: {runner}\r\n"), wanted_test).status,
        403
    );
    let with = |who: &str| (format!("{who}; {cookie}"), secret.clone());
    assert_eq!(submit(&served, "/run", &with(&reader), "host=oslo").status, 403);
    assert!(fake.started.lock().unwrap().is_empty());
    assert_eq!(submit(&served, "/run", &with(&runner), "host=oslo").status, 303);
    fake.last().ended(Err("x".to_owned()));
    assert_eq!(post(&served, "/api/v1/runs", &format!("{JSON}{may}"), wanted_test).status, 201);
    // If others can read, a token for running is required; behind a proxy too, because the proxy may add it.
    for access in [ReadAccess::Token(Token::new("read-horse-battery")), ReadAccess::Proxy(Vec::new())] {
        let mut settings = Settings::new(folder.path());
        settings.listen.set_port(0);
        settings.access = access;
        settings.runs = fake::runs(&fake, Starters::Local);
        assert!(matches!(Web::bind(&settings), Err(WebError::OpenRuns)));
    }
    let served = Served::start(folder.path(), |settings| {
        settings.access = ReadAccess::Proxy(Vec::new());
        settings.runs = fake::runs(&fake, run());
    });
    assert_eq!(served.ask("GET /", "Host: jitlat.example\r\n", "").status, 200);
    assert_eq!(post(&served, "/api/v1/runs", JSON, wanted_test).status, 403);
    assert_eq!(post(&served, "/api/v1/runs", &format!("{JSON}{may}"), wanted_test).status, 201);
}

#[test]
fn what_is_not_allowed_is_refused_with_the_reason() {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    archive(folder.path());
    let off = Served::start(folder.path(), |_| ());
    assert!(off.get("/run").body.contains("is off"));
    assert_eq!(off.get("/api/v1/runs").status, 404);
    assert_eq!(post(&off, "/run", "", "host=oslo").status, 405);
    let served = local(folder.path(), &fake);
    let own = browser(&served, "");
    for (fields, status, said) in [
        ("host=10.9.9.9", 400, "is not an allowed host: choose one of oslo, 192.0.2.1"),
        ("", 400, "name the far host"),
        ("host=oslo&packets=%3Cx%3E", 400, "&lt;x&gt;"),
        ("host=oslo&packets=4000", 400, "it would send for 80 s, but the limit is 60 s"),
        ("host=oslo&period=never", 409, "no gap of 12 s"),
    ] {
        let answer = submit(&served, "/run", &own, fields);
        assert!(answer.status == status && answer.body.contains(said), "{fields}: {}", answer.body);
        assert!(answer.body.contains("role=\"alert\"") && answer.body.contains("Start the test"), "{fields}");
        assert!(fake.started.lock().unwrap().is_empty());
    }
    // The values stay in the form, and the wrong one is marked.
    let page = submit(&served, "/run", &own, "host=oslo&packets=%3Cx%3E").body;
    assert!(
        page.contains("value=\"&lt;x&gt;\" placeholder=\"1000\" maxlength=\"32\" aria-invalid"),
        "{page}"
    );
    for (body, status, said) in [
        ("{\"host\":\"oslo\",\"packets\":\"x\"}", 400, "\"field\":\"packets\""),
        ("{\"host\":\"oslo\",\"colour\":\"x\"}", 400, "colour"),
        ("{", 400, "cannot be read"),
    ] {
        let answer = post(&served, "/api/v1/runs", JSON, body);
        assert!(answer.status == status && answer.body.contains(said), "{body}: {}", answer.body);
    }
    let long = format!("{{\"host\":\"{}\"}}", "x".repeat(5000));
    assert_eq!(post(&served, "/api/v1/runs", JSON, &long).status, 400);
    // One test at a time.
    assert_eq!(submit(&served, "/run", &own, "host=oslo").status, 303);
    let answer = submit(&served, "/run", &own, "host=oslo");
    assert!(answer.status == 409 && answer.body.contains("another test is running"), "{}", answer.body);
    assert_eq!(post(&served, "/api/v1/runs", JSON, "{\"host\":\"oslo\"}").status, 409);
}

#[test]
fn packets_that_nobody_looks_at_are_counted_and_not_kept() {
    use jitlat_core::observer::{Event, Observer};
    use jitlat_core::{Direction, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::default()));
    archive(folder.path());
    let limits = RunLimits { at_once: 2, ..RunLimits::default() };
    let served = Served::start(folder.path(), |settings| {
        settings.runs =
            fake::runs(&fake, Starters::Local).map(|runs| jitlat_web::PageRuns { limits, ..runs });
    });
    let run = post(&served, "/api/v1/runs", JSON, "{\"host\":\"oslo\"}");
    let id = serde_json::from_str::<Value>(&run.body).unwrap()["id"].as_str().unwrap().to_owned();
    let mut feed = fake.last();
    let spec =
        TestSpec::new(Direction::Down, Transport::Udp, 1 << 22, 80, Span(1000), Schedule::Periodic).unwrap();
    feed.started();
    feed.event(&Event::Started(&[Session::new(spec)]));
    let begun = Instant::now();
    for k in 0..40i64 {
        let records: Vec<PacketRecord> = (k * 50_000..(k + 1) * 50_000)
            .map(|k| PacketRecord::one_way(k, WallTime(k * 1000), WallTime(k * 1000 + 5000)))
            .collect();
        feed.event(&Event::Arrived { stream: 0, records: &records });
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "nobody is waited for");
    let now = served.json(&format!("/api/v1/runs/{id}"));
    let received = now["streams"][0]["received"].as_u64().unwrap();
    assert!((1..=2_000_000).contains(&received), "{now}");
    feed.ended(Ok(Vec::new()));
}
