//! The pages over a socket: their contents, who may read them, and what a client cannot do.

use crate::fake;
use crate::mesh;
use crate::mesh::{HOUR, Went};
use crate::served::Served;
use jitlat_archive::{AlertAbout, AlertUpdate, Archive, Fired, Note, ReportedSlot, Route};
use jitlat_web::{MonitorNow, MonitorState, ReadAccess, Settings, SlotsNow, Token, Web, WebLimits};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Two hosts for the last six hours: the forward direction is good, in the other direction the last two tests are bad.
fn two_hosts(folder: &Path) -> Archive {
    let archive = Archive::make(folder).unwrap();
    for hour in (0..6).rev() {
        let at = now() - hour * HOUR - HOUR / 6;
        mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), at, Went::Well).unwrap();
        let went = if hour < 2 { Went::Badly } else { Went::Well };
        mesh::add(&archive, ("10.0.0.2", "10.0.0.1"), at, went).unwrap();
    }
    archive
}

/// Returns the addresses that a page links to.
fn links(page: &str) -> Vec<String> {
    let after = page.split("href=\"").skip(1);
    after.map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&")).collect()
}

#[test]
fn every_page_says_which_direction_is_bad_since_when_and_every_link_leads_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let all = served.get("/").body;
    assert!(all.contains("10.0.0.2 → 10.0.0.1 has been "), "{all}");
    assert!(all.contains("(2 tests)"), "{all}");
    let back = served.get("/path/10.0.0.2/10.0.0.1").body;
    let turned = |from: &str, to: &str| format!("{from} → {to} <a href=\"/test/");
    let (bad, good) = (turned("10.0.0.2", "10.0.0.1"), turned("10.0.0.1", "10.0.0.2"));
    assert!(back.contains("since 2") && back.contains("turned poor or bad"), "{back}");
    // Both directions are on the page of each.
    for page in [&back, &served.get("/path/10.0.0.1/10.0.0.2").body] {
        assert!(page.contains(&bad) && !page.contains(&good), "{page}");
        assert_eq!(page.matches("class=\"side\"").count(), 4, "two directions, for two widths: {page}");
    }
    // Follow every link, and those of the pages they lead to.
    let mut known = std::collections::BTreeSet::from(["/".to_owned()]);
    let mut left: Vec<String> = known.iter().cloned().collect();
    while let Some(address) = left.pop() {
        let answer = served.get(&address);
        assert_eq!(answer.status, 200, "{address}");
        assert!(!answer.head.contains("text/html") || answer.body.ends_with("</html>\n"), "{address}");
        for link in links(&answer.body).into_iter().filter(|link| link.starts_with('/')) {
            // Limited, because links from a period to the next never end.
            if known.len() < 120 && known.insert(link.clone()) {
                left.push(link);
            }
        }
    }
    assert!(known.iter().any(|k| k.starts_with("/test/")) && known.iter().any(|k| k.contains("show=jitter")));
}

#[test]
fn the_overview_has_numbers_both_directions_in_a_row_and_can_be_limited() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let now = served.json("/api/v1/now");
    let jitter = now["streams"][0]["jitter_p99_ns"].as_f64().unwrap() / 1e6;
    let shown = format!("{jitter:.2}");
    let cells = |page: &str| page.matches(&format!("<b>{}</b>", shown.trim_end_matches(".00"))).count();
    let page = served.get("/?show=jitter").body;
    assert!(cells(&page) >= 1 && page.contains("p99 jitter, ms"), "{shown} in {page}");
    assert_eq!(cells(&served.get("/").body), 0, "without a metric the cells have verdicts");
    // Both directions are one row, with the last day as a line for each.
    let rows = page.split("<tr>").filter(|row| row.contains("10.0.0.1 ⇄ 10.0.0.2")).collect::<Vec<_>>();
    let [row] = rows[..] else { panic!("{} rows in {page}", rows.len()) };
    assert_eq!(row.matches("<path d=\"M").count(), 2, "{row}");
    assert!(row.contains(" for ") && row.contains("(2 tests)"), "{row}");
    assert!(!row.contains(" ago"), "the age of a new test is not shown: {row}");
    // Only the chosen paths are shown.
    for (query, paths) in [("name=0.2", 1), ("name=nobody", 0), ("verdict=good", 1), ("verdict=fair", 0)] {
        let page = served.get(&format!("/?{query}")).body;
        assert_eq!(page.contains("No path has all of these properties"), paths == 0, "{query}: {page}");
    }
    let good = served.get("/?verdict=good&show=loss&sort=value").body;
    assert!(good.contains("10.0.0.1 → 10.0.0.2") && !good.contains("10.0.0.1 ⇄"), "{good}");
    assert!(good.contains("/?show=mos&amp;sort=value&amp;verdict=good"), "a tab keeps the choice: {good}");
    // Text that a reader types is not markup.
    let hostile = served.get("/?name=%22%3E%3Cscript%3E&site=%3Cb%3E&sort=x&show=y").body;
    assert!(!hostile.contains("\"><script>") && !hostile.contains("<b><"), "{hostile}");
}

#[test]
fn a_host_whose_name_has_no_address_is_on_the_overview() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let report = |server: &str| ReportedSlot {
        test: "all".to_owned(),
        client: "10.0.0.1".to_owned(),
        server: server.to_owned(),
        at_ns: now() - HOUR,
        since_ns: now() - 5 * HOUR,
        reason: "<oslo> has no address".to_owned(),
        ..ReportedSlot::default()
    };
    // One path has tests, the other has none.
    archive.record_reports(&[report("10.0.0.2"), report("oslo")], 10).unwrap();
    let served = Served::start(folder.path(), |_| ());
    let all = served.json("/api/v1/now");
    let missing: Vec<&str> =
        all["unmeasured"].as_array().unwrap().iter().map(|r| r["server"].as_str().unwrap()).collect();
    assert_eq!(missing, ["oslo"]);
    let page = served.get("/").body;
    assert!(
        page.contains("1 path has no result yet") && page.contains("&lt;oslo&gt; has no address"),
        "{page}"
    );
    assert!(!served.get("/?name=rome").body.contains("no result yet"));
}

#[test]
fn many_hosts_are_folded_to_their_sites() {
    const HOSTS: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::make(folder.path()).unwrap();
    let host = |k: usize| format!("10.0.{}.{}", k % 2, k % HOSTS + 1);
    for k in 0..HOSTS {
        let went = if k == 3 { Went::Badly } else { Went::Well };
        mesh::add(&archive, (&host(k), &host(k + 1)), now() - HOUR, went).unwrap();
    }
    let label = |k: usize| {
        let site = if k.is_multiple_of(2) { "oslo" } else { "rome" };
        (host(k), [("site".to_owned(), site.to_owned())].into())
    };
    archive.set_labels(&(0..HOSTS).map(label).collect()).unwrap();
    let served = Served::start(folder.path(), |_| ());
    let page = served.get("/").body;
    let (_, matrix) = page.split_once("id=\"matrix\"").unwrap();
    let (matrix, _) = matrix.split_once("</table>").unwrap();
    assert_eq!(matrix.matches("<th scope=\"row\"").count(), 2, "{matrix}");
    assert!(matrix.contains("1 of 20 streams") && !matrix.contains("10.0.0.1"), "{matrix}");
    assert!(matrix.contains("href=\"/?show=verdict&amp;sort=name&amp;site=rome\""), "{matrix}");
    // The link on a site shows its hosts.
    let rome = served.get("/?site=rome").body;
    assert!(rome.contains("title=\"10.0.1.2 → 10.0.0.3"), "{rome}");
}

#[test]
fn a_path_lists_its_routes_with_the_hop_that_changed() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    for (hours, hops) in [(3, ["192.0.2.1", "192.0.2.2"]), (2, ["192.0.2.1", "192.0.2.9"])] {
        let at = now() - hours * HOUR;
        let seen = Route {
            id: 0,
            route: "all".to_owned(),
            src: "10.0.0.1".to_owned(),
            dst: "10.0.0.2".to_owned(),
            first_ns: at,
            last_ns: at,
            hops: hops.map(str::to_owned).to_vec(),
        };
        assert!(archive.record_route(&seen).unwrap());
    }
    let served = Served::start(folder.path(), |_| ());
    let page = served.get("/path/10.0.0.1/10.0.0.2").body;
    let (_, table) = page.split_once("id=\"routes\"").unwrap();
    let change = "the route changed at hop 2: 192.0.2.9 instead of 192.0.2.2";
    assert_eq!(table.matches(change).count(), 1, "{table}");
    // The mark is on the drawing for each width, and the list of events links to the table.
    assert_eq!(page.matches("<g class=\"mark\">").count(), 2, "{page}");
    assert!(page.contains("href=\"#routes\"") && page.contains("◆ the route changed"), "{page}");
    assert!(page.contains("192.0.2.1 → 192.0.2.9"), "{page}");
}

/// Returns the lines of the table for a spreadsheet, without its head.
fn csv(served: &Served, query: &str) -> Vec<String> {
    let answer = served.get(&format!("/path/10.0.0.1/10.0.0.2/csv?{query}"));
    assert!(answer.head.contains("text/csv") && answer.head.contains("attachment"), "{}", answer.head);
    answer.body.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_path_has_ranges_overlays_zones_and_a_table_for_a_spreadsheet() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), now() - 7 * 24 * HOUR - HOUR, Went::Badly).unwrap();
    mesh::add(&archive, ("10.0.0.3", "10.0.0.4"), now() - HOUR, Went::Badly).unwrap();
    let served = Served::start(folder.path(), |_| ());
    // Six tests of each direction in the last day.
    assert_eq!(csv(&served, "range=24h").len(), 12);
    assert_eq!(csv(&served, "range=30d").len(), 13);
    let lines = csv(&served, "range=24h&week=1&src2=10.0.0.3&dst2=10.0.0.4");
    let of = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((of(": a week earlier\""), of(": 10.0.0.3 → 10.0.0.4\"")), (1, 1), "{lines:?}");
    let page = served.get("/path/10.0.0.1/10.0.0.2?range=24h&week=1&src2=10.0.0.3&dst2=10.0.0.4").body;
    assert!(page.contains("class=\"over0 mid\"") && page.contains("class=\"over1 mid\""), "{page}");
    assert!(page.contains("range=7d&amp;") || page.contains("&amp;range=7d"), "a range keeps the overlays");
    assert!(page.contains("week=1&amp;src2=10.0.0.3&amp;dst2=10.0.0.4&amp;range=1h"), "{page}");
    // Times of the address are those of the zone, and so are those of the page.
    let utc = csv(&served, "from=2000-01-01&to=2100-01-01").len();
    let zone =
        served.get("/path/10.0.0.1/10.0.0.2?zone=Asia/Kolkata&from=2025-01-01T05:30:00&to=2099-01-01").body;
    assert_eq!(utc, 13);
    assert!(zone.contains("2025-01-01 05:30:00 to 2099-01-01 00:00:00"), "{zone}");
    assert!(
        zone.contains("All times are in the zone Asia/Kolkata")
            && zone.contains("&amp;from=2025-01-01T00:00:00Z")
    );
    let cookie = served.ask("GET /path/10.0.0.1/10.0.0.2", "Cookie: jitlat-zone=Asia%2FKolkata\r\n", "").body;
    assert!(cookie.contains("data-zone=\"Asia/Kolkata\""), "{cookie}");
    for (wrong, status) in [
        ("range=2h", 400),
        ("from=soon", 400),
        ("from=2026-01-02&to=2026-01-01", 400),
        ("src2=x&dst2=y", 404),
        ("zone=../../etc/passwd", 400),
    ] {
        assert_eq!(served.get(&format!("/path/10.0.0.1/10.0.0.2?{wrong}")).status, status, "{wrong}");
    }
}

#[test]
fn figures_of_every_level_are_those_of_the_packets() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let streams = served.json("/api/v1/now");
    let streams = streams["streams"].as_array().unwrap();
    let verdicts: Vec<_> = streams.iter().map(|s| s["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts[0], "good");
    assert!(["poor", "bad"].contains(&verdicts[1]), "{verdicts:?}");
    assert_eq!(streams[1]["bad_tests"], 2);
    let filter = jitlat_archive::Filter {
        path: Some("10.0.0.2:10.0.0.1".parse().unwrap()),
        ..jitlat_archive::Filter::default()
    };
    let (_, pool) = archive.pools(&filter).unwrap().remove(0);
    for (from, by) in [("1970-01-01", "test"), ("2d", "test")] {
        let course = served.json(&format!("/api/v1/path/10.0.0.2/10.0.0.1?from={from}"));
        assert_eq!(course["by"], by);
        let all = &course["all"];
        assert_eq!(
            (&all["tests"], &all["sent"], &all["lost"]),
            (&6.into(), &pool.sent.into(), &pool.lost.into())
        );
        let of = |key: &str| pool.scalar(jitlat_core::scalars::Scalar::named(key).unwrap());
        assert_eq!(all["delay_p99_ns"].as_f64(), of("latency-p99"));
        assert_eq!(all["jitter_p99_ns"].as_f64(), of("pdv-p99"));
        let periods = course["periods"].as_array().unwrap();
        assert_eq!(periods.iter().map(|p| p["sent"].as_u64().unwrap()).sum::<u64>(), pool.sent);
        assert_eq!(course["changes"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_test_is_shown_with_the_report_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let id = archive.list(&jitlat_archive::Filter::default(), &[]).unwrap()[0].id.clone();
    let page = served.get(&format!("/test/{id}")).body;
    assert!(page.contains("<section class=\"first\"") && page.contains("figure-jitter"), "{page}");
    // Nothing in the page is refused by its own policy.
    assert!(!page.contains("style=\"") && !page.contains("<style") && !page.contains("<script>"));
    for (id, status) in [("0000", 404), ("zz", 404), ("..%2f..%2fetc%2fpasswd", 404)] {
        assert_eq!(served.get(&format!("/test/{id}")).status, status, "{id}");
    }
}

#[test]
fn hosts_say_what_is_known_of_them_and_what_their_monitor_missed() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let state = std::sync::Arc::new(MonitorState::default());
    let lost = vec![("too late".to_owned(), 2)];
    let slots = vec![SlotsNow { test: "voice".to_owned(), far: "oslo".to_owned(), measured: 7, lost }];
    let (host, version) = ("rome".to_owned(), "9.9.9".to_owned());
    state.set(MonitorNow { host, version, since_ns: now() - HOUR, running: 1, busy: 0.25, slots });
    let served = Served::start(folder.path(), |s| s.monitor = Some(state));
    let hosts = served.json("/api/v1/hosts");
    let list = hosts["hosts"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!((&list[0]["address"], &list[0]["bad"]), (&"10.0.0.1".into(), &1.into()));
    assert_eq!(list[0]["synchronised"], Value::Null, "nothing was recorded");
    assert_eq!(hosts["monitor"]["slots"][0]["lost"][0][1], 2);
    let page = served.get("/hosts").body;
    for said in ["Monitor on rome", "9.9.9", "25.0 %", "2 too late", "unknown"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
fn two_periods_and_two_paths_are_compared_by_all_their_packets() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let periods = "src=10.0.0.2&dst=10.0.0.1&from=1d&to=2h&from2=2h";
    let both = served.json(&format!("/api/v1/compare?{periods}"));
    let stream = &both["streams"][0];
    assert_eq!((&stream["tests"], &stream["tests2"]), (&4.into(), &2.into()));
    let loss = stream["figures"].as_array().unwrap().iter().find(|f| f["key"] == "loss").unwrap();
    assert!(loss["first"] == 0.0 && loss["second"].as_f64().unwrap() > 0.1, "{loss}");
    let page = served.get(&format!("/compare?{periods}")).body;
    assert!(
        page.contains("value=\"10.0.0.2\"")
            && page.contains(
                "<th scope=\"row\">tests</th><td data-label=\"first\">4</td><td data-label=\"second\">2</td>"
            ),
        "{page}"
    );
    // Forward and back, whatever their direction is called.
    let paths = served.json("/api/v1/compare?src=10.0.0.1&dst=10.0.0.2&src2=10.0.0.2&dst2=10.0.0.1");
    assert_eq!((&paths["streams"][0]["tests"], &paths["streams"][0]["tests2"]), (&6.into(), &6.into()));
    assert_eq!(archive.newest().unwrap().len(), 2);
    let empty = served.json("/api/v1/compare?src=10.0.0.1&dst=10.0.0.2&from=30d&to=20d");
    assert_eq!(empty["streams"].as_array().unwrap().len(), 0);
}

fn about(name: &str) -> AlertAbout {
    let [alert, scope, test, src, dst] = [name, "path", "voice", "rome", "<oslo>"].map(str::to_owned);
    AlertAbout { alert, scope, test, src, dst }
}

/// Sends JSON, and returns the status and the answer.
fn post(served: &Served, path: &str, body: &str, more: &str) -> (u16, Value) {
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}Content-Length: {}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let text = answer.split_once("\r\n\r\n").unwrap().1;
    let json = text.find('{').and_then(|from| serde_json::from_str(&text[from..=text.rfind('}')?]).ok());
    (status, json.unwrap_or_default())
}

#[test]
fn an_alert_is_acknowledged_and_silenced_by_programs_of_this_host_only() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let fired = Fired { about: about("new"), path: ["t", "a", "b"].map(str::to_owned), ..Fired::default() };
    archive.note(&Note { changes: vec![AlertUpdate::Fired(fired)], ..Note::default() }).unwrap();
    let json = "Content-Type: application/json\r\n";
    let seen = "{\"by\": \"ann\", \"note\": \"<cable>\"}";
    assert_eq!(post(&served, "/api/v1/alerts/1/acknowledge", seen, json).0, 200);
    assert_eq!(post(&served, "/api/v1/alerts/9/acknowledge", seen, json).0, 404);
    assert_eq!(post(&served, "/api/v1/alerts/1/acknowledge", seen, "Content-Type: text/plain\r\n").0, 415);
    let foreign = format!("{json}Origin: http://evil.example\r\n");
    assert_eq!(post(&served, "/api/v1/alerts/1/acknowledge", seen, &foreign).0, 403);
    for wrong in ["{}", "{\"by\": \" \"}", "{\"by\": \"ann\", \"extra\": 1}", "[]"] {
        assert_eq!(post(&served, "/api/v1/alerts/1/acknowledge", wrong, json).0, 400, "{wrong}");
    }
    let page = served.get("/alerts").body;
    assert!(page.contains("acknowledged by ann") && page.contains("&lt;cable&gt;"), "{page}");
    let asked = "{\"by\": \"ann\", \"for\": \"2h\", \"host\": \"rome\"}";
    let (status, made) = post(&served, "/api/v1/silences", asked, json);
    assert_eq!((status, made["host"].as_str()), (200, Some("rome")), "{made}");
    assert_eq!(
        post(&served, "/api/v1/silences", "{\"by\": \"ann\", \"for\": \"soon\", \"host\": \"rome\"}", json).0,
        400
    );
    assert_eq!(post(&served, "/api/v1/silences", "{\"by\": \"ann\", \"for\": \"2h\"}", json).0, 400);
    assert_eq!(served.json("/api/v1/silences")["silences"].as_array().unwrap().len(), 1);
    let end = format!("/api/v1/silences/{}/end", made["id"]);
    assert_eq!((post(&served, &end, "{}", json).0, post(&served, &end, "{}", json).0), (200, 404));
    let paths = served.json("/api/v1/alerts/1");
    assert_eq!(paths["paths"][0]["dst"], "b");
}

#[test]
fn alerts_that_fire_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    assert!(served.get("/alerts").body.contains("No alert rules"));
    let fired = |name: &str, at: i64| {
        let path = ["voice", "rome", "<oslo>"].map(str::to_owned);
        let [severity, reason] = ["warning", "loss was 12 %"].map(str::to_owned);
        let about = about(name);
        AlertUpdate::Fired(Fired {
            about,
            severity,
            path,
            since_ns: at,
            fired_ns: at,
            held_until_ns: 0,
            reason,
        })
    };
    let resolved = AlertUpdate::Resolved {
        about: about("old"),
        held_until_ns: 0,
        at_ns: now(),
        reason: "three tests were well".to_owned(),
    };
    let changes = vec![fired("old", now() - 2 * HOUR), resolved, fired("new", now() - 3 * HOUR)];
    archive.note(&Note { judged: Some(1), changes, ..Note::default() }).unwrap();
    let alerts = served.json("/api/v1/alerts");
    let names: Vec<&str> =
        alerts["alerts"].as_array().unwrap().iter().map(|a| a["alert"].as_str().unwrap()).collect();
    assert_eq!(names, ["new", "old"]);
    let page = served.get("/alerts").body;
    assert!(page.contains("1 alert is firing.") && page.contains("three tests were well"), "{page}");
    assert!(page.contains("&lt;oslo&gt;") && !page.contains("<oslo>"));
}

/// Checks that `value` matches `schema` and has no property that it does not name.
fn agrees(value: &Value, schema: &Value, all: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return agrees(value, all.pointer(&reference[1..]).unwrap(), all, at);
    }
    if let Some(one) = schema["anyOf"].as_array() {
        let other = one.iter().find(|s| s["type"] != "null").unwrap();
        if !value.is_null() {
            agrees(value, other, all, at);
        }
        return;
    }
    match value {
        Value::Object(object) => {
            // Objects with any keys have one schema for all values.
            let any = schema.get("additionalProperties").filter(|schema| schema.is_object());
            let known = schema["properties"].as_object();
            for (key, value) in object {
                let schema = known.and_then(|known| known.get(key)).or(any);
                let schema = schema.unwrap_or_else(|| panic!("{at}: no {key} in {schema:?}"));
                agrees(value, schema, all, &format!("{at}/{key}"));
            }
            for key in schema["required"].as_array().into_iter().flatten() {
                assert!(object.contains_key(key.as_str().unwrap()), "{at}: {key} is missing");
            }
        }
        Value::Array(items) => {
            let one = |k: usize| schema["prefixItems"].get(k).unwrap_or(&schema["items"]);
            items.iter().enumerate().for_each(|(k, item)| agrees(item, one(k), all, &format!("{at}/{k}")));
        }
        other => {
            let of = match other {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::String(_) => "string",
                _ => "number",
            };
            let kinds = schema["type"].to_string().replace("integer", "number");
            assert!(
                kinds.contains(of) || schema.get("enum").is_some() || schema.get("oneOf").is_some(),
                "{at}: {other} is {kinds}"
            );
        }
    }
}

#[test]
fn programs_get_what_the_openapi_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let about = AlertAbout { alert: "loss".to_owned(), ..AlertAbout::default() };
    let path = ["t", "10.0.0.1", "10.0.0.2"].map(str::to_owned);
    let fired = Fired { about, path, ..Fired::default() };
    archive.note(&Note { changes: vec![AlertUpdate::Fired(fired)], ..Note::default() }).unwrap();
    let fake = std::sync::Arc::new(fake::Fake::default());
    let served = Served::start(folder.path(), |s| s.runs = fake::runs(&fake, jitlat_web::Starters::Local));
    let json = |request: &str, body: &str| {
        let headers = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let answer = served.ask(request, &headers, body);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/web.openapi.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let paths = all["paths"].as_object().unwrap();
    assert!(paths.len() >= 10);
    let content = |what: &Value, status: u16| {
        what["responses"][&status.to_string()]["content"]["application/json"]["schema"].clone()
    };
    // Starting and stopping a test.
    let (status, run) = json("POST /api/v1/runs", "{\"host\":\"oslo\"}");
    assert_eq!(status, 201);
    agrees(&run, &content(&paths["/api/v1/runs"]["post"], status), &all, "POST /api/v1/runs");
    let mut feed = fake.last();
    fake::two_seconds(&mut feed);
    let id = run["id"].as_str().unwrap();
    let stop = "/api/v1/runs/{id}/stop";
    let (status, stopped) = json(&format!("POST {}", stop.replace("{id}", id)), "");
    agrees(&stopped, &content(&paths[stop]["post"], status), &all, stop);
    // Acknowledged alerts and silences.
    for (path, body) in [
        ("/api/v1/alerts/{id}/acknowledge", "{\"by\":\"ann\"}"),
        ("/api/v1/silences", "{\"by\":\"ann\",\"for\":\"2h\",\"host\":\"oslo\"}"),
        ("/api/v1/silences/{id}/end", ""),
    ] {
        let (status, answer) = json(&format!("POST {}", path.replace("{id}", "1")), body);
        assert_eq!(status, 200, "{path}: {answer}");
        agrees(&answer, &content(&paths[path]["post"], status), &all, path);
    }
    // Everything that is read; events are the same documents.
    let is_read = |path: &&String, what: &Value| !path.ends_with("/events") && what.get("get").is_some();
    for (path, what) in paths.iter().filter(|(path, what)| is_read(path, what)) {
        let id = if path.contains("/alerts/") { "1" } else { id };
        let path = path.replace("{src}", "10.0.0.2").replace("{dst}", "10.0.0.1").replace("{id}", id);
        let query =
            if path.ends_with("/compare") { "?src=10.0.0.2&dst=10.0.0.1&from=1d&to=2h&from2=2h" } else { "" };
        agrees(&served.json(&format!("{path}{query}")), &content(&what["get"], 200), &all, &path);
    }
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    for (path, status) in [
        ("/nowhere", 404),
        ("/path/10.0.0.1/10.9.9.9", 404),
        ("/path/10.0.0.1/%3Cscript%3E", 404),
        ("/path/10.0.0.1/10.0.0.2?from=never", 400),
        ("/path/10.0.0.1/10.0.0.2?from=1d&to=2d", 400),
        ("/path/10.0.0.1/10.0.0.2?stream=x", 400),
        ("/path/10.0.0.1/10.0.0.2?stream=77", 404),
        ("/path/10.0.0.1/10.0.0.2?show=me", 400),
        ("/api/v1/path/10.0.0.1/10.9.9.9", 404),
        ("/compare?src=10.0.0.1&dst=10.9.9.9", 404),
        ("/compare?src=10.0.0.1&dst=10.0.0.2&from=1d&to=2d", 400),
        ("/compare?src=10.0.0.1&dst=10.0.0.2&to2=%3Cscript%3E", 400),
        ("/api/v1/compare", 400),
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(!answer.body.contains("<script>"), "{path}");
        assert!(path.starts_with("/api") || answer.body.contains("<main"), "{path}");
    }
    // Any time may be requested.
    for span in
        ["from=0001-01-01&to=9999-01-01", "from=1677-09-22&to=2262-04-11", "to=1980-01-01&from=1970-01-01"]
    {
        let status = served.get(&format!("/path/10.0.0.1/10.0.0.2?{span}")).status;
        assert!([200, 400].contains(&status), "{span}: {status}");
    }
}

#[test]
fn nothing_can_be_changed_and_no_other_site_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/login", "/api/v1/now"] {
            assert_eq!(
                served.ask(&format!("{method} {path}"), "Content-Length: 0\r\n", "").status,
                405,
                "{method}"
            );
        }
    }
    for (host, status) in [("evil.example", 421), ("localhost", 200), ("127.0.0.1.evil.example", 421)] {
        assert_eq!(served.ask("GET /", &format!("Host: {host}\r\n"), "").status, status, "{host}");
    }
    let answer = served.get("/");
    assert!(
        answer
            .head
            .contains("content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'")
    );
    assert!(
        answer.head.contains("x-content-type-options: nosniff") && !answer.head.contains("access-control")
    );
    assert_eq!(served.ask("HEAD /", "", "").body, "");
}

#[test]
fn other_hosts_read_nothing_without_the_token() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let mut open = Settings::new(folder.path());
    open.listen = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Web::bind(&open), Err(jitlat_web::WebError::Open(_))));
    open.access = ReadAccess::Token(Token::new("correct-horse-battery"));
    assert!(matches!(Web::bind(&open), Err(jitlat_web::WebError::Clear(_))), "no token in clear");
    open.plain = true;
    assert!(Web::bind(&open).is_ok());

    let served =
        Served::start(folder.path(), |s| s.access = ReadAccess::Token(Token::new("correct-horse-battery")));
    for path in ["/", "/api/v1/now", "/api/v1/events", "/live.js", "/test/0000", "/nowhere"] {
        let answer = served.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(!answer.body.contains("10.0.0"), "{path}");
    }
    let right = "Authorization: Bearer correct-horse-battery\r\n";
    assert_eq!(served.ask("GET /", right, "").status, 200);
    let form = |token: &str| {
        let body = format!("token={token}");
        let headers =
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
        served.ask("POST /login", &headers, &body)
    };
    assert_eq!(form("wrong-horse-battery").status, 401);
    let answer = form("correct-horse-battery");
    assert_eq!(answer.status, 303);
    let cookie = answer.head.lines().find_map(|l| l.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict") && !cookie.contains("correct"));
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(served.ask("GET /", &format!("Cookie: {cookie}\r\n"), "").status, 200);
    assert_eq!(served.ask("GET /", "Cookie: jitlat=0\r\n", "").status, 401);
    assert_eq!(served.ask("POST /", right, "").status, 405);
}

#[test]
fn slow_and_greedy_clients_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    two_hosts(folder.path());
    let limits = WebLimits {
        connections: 3,
        connections_of_one: 3,
        headers: Duration::from_millis(300),
        ..WebLimits::default()
    };
    let served = Served::start(folder.path(), |s| s.limits = limits);
    // Headers that never end, a connection that sends nothing, and headers that are too long.
    let ended = |mut stream: TcpStream| {
        let mut rest = Vec::new();
        // An end, or a reset because not everything was read.
        let _ = stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    };
    let mut slow = served.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    let silent = served.connect();
    assert!(!ended(slow).contains(" 200 "));
    assert_eq!(ended(silent), "");
    let mut long = served.connect();
    let _ = long.write_all(
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000)).as_bytes(),
    );
    assert!(!ended(long).contains(" 200 "));
    let mut many = served.connect();
    let headers: String = (0..200).map(|k| format!("X{k}: 1\r\n")).collect();
    let _ = many.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
    assert!(!ended(many).contains(" 200 "));
    // All of these are closed: there is room again.
    jitlat_waiting::until("room for a request", Duration::from_secs(60), || {
        let mut stream = served.connect();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        ended(stream).contains(" 200 ")
    });
}

#[test]
fn a_new_test_is_told_to_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |s| s.limits.watching = 1);
    let mut stream = served.connect();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    let mut added = 0;
    // Add tests until one is announced: the first may come before the server reads the archive for the first time.
    while !text.contains("event: tests") {
        if added < 40 {
            let at = now() + added * 1_000_000_000;
            mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), at, Went::Well).unwrap();
            added += 1;
        }
        match stream.read(&mut bytes) {
            Ok(n) => {
                assert!(n > 0, "{text}");
                text.push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
            Err(e) => assert!(e.kind() == std::io::ErrorKind::WouldBlock && added < 40, "{e}: {text}"),
        }
    }
    assert!(text.contains("text/event-stream") && text.contains("\"tests\":"), "{text}");
    // Only one client may watch.
    assert_eq!(served.get("/api/v1/events").status, 503);
}

#[test]
fn metrics_count_what_the_archive_has_in_a_form_that_promtool_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let served = Served::start(folder.path(), |_| ());
    let text = served.get("/metrics");
    assert!(text.head.contains("text/plain; version=0.0.4") && text.status == 200, "{}", text.head);
    let labels = "src=\"10.0.0.1\",dst=\"10.0.0.2\"";
    let total = &archive.totals(None, 9).unwrap().streams[0];
    let of = |name: &str, more: &str| -> f64 {
        let begins = format!("{name}{{{labels}");
        let line = text.body.lines().find(|l| l.starts_with(&begins) && l.contains(more)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(of("jitlat_tests_total", ""), 6.0);
    assert_eq!(of("jitlat_packets_sent_total", ""), total.pool.sent as f64);
    assert_eq!(of("jitlat_packets_lost_total", ""), total.pool.lost as f64);
    assert_eq!(of("jitlat_delay_seconds_count", ""), total.pool.delays().len() as f64);
    let all = of("jitlat_delay_variation_seconds_bucket", "+Inf");
    assert!(of("jitlat_delay_variation_seconds_bucket", "le=\"0.1\"") <= all && all > 0.0);
    let open = served.ask("GET /metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n", "");
    assert!(open.head.contains("application/openmetrics-text") && open.body.ends_with("# EOF\n"));
    assert!(open.body.contains("# TYPE jitlat_packets_sent counter\n"));
    promtool(&["check", "metrics"], &text.body);
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/prometheus/rules.yml");
    promtool(&["check", "rules", rules], "");
    promtool(&["test", "rules", &rules.replace("rules.yml", "rules.test.yml")], "");
    let named = std::fs::read_to_string(rules).unwrap();
    // The names in rules and dashboard are checked against the samples by the tests with a real Prometheus.
    assert!(named.contains("jitlat_packets_lost_total"));
    // Native histograms on request.
    let protobuf = "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n";
    let head = served.head_of("GET /metrics", protobuf);
    assert!(
        head.contains(
            "content-type: application/vnd.google.protobuf; proto=io.prometheus.client.metricfamily"
        ),
        "{head}"
    );
}

#[test]
fn metrics_that_were_counted_on_are_those_that_are_counted_anew() {
    const DAY: i64 = 24 * HOUR;
    let folder = tempfile::tempdir().unwrap();
    let archive = two_hosts(folder.path());
    let long = Served::start(folder.path(), |_| ());
    let samples = |served: &Served| {
        let text = served.get("/metrics");
        assert_eq!(text.status, 200, "{}", text.body);
        text.body
    };
    let sum = |text: &str, name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let mut before = samples(&long);
    let check = |what: &str, before: &mut String| {
        let now = samples(&long);
        // A server that starts now reads everything.
        let fresh = Served::start(folder.path(), |_| ());
        assert_eq!(now, samples(&fresh), "{what}");
        assert_eq!(now, samples(&long), "{what}: a look changes nothing");
        for name in ["jitlat_tests_total", "jitlat_packets_sent_total", "jitlat_delay_seconds_count"] {
            assert!(sum(&now, name) >= sum(before, name), "{what}: {name} went back");
        }
        *before = now;
    };
    check("nothing new", &mut before);
    mesh::add(&archive, ("10.0.0.1", "10.0.0.2"), now(), Went::Badly).unwrap();
    check("one more", &mut before);
    // Late tests, of other streams, more than the archive stores exactly.
    for k in 0..12 {
        mesh::add(&archive, ("10.0.0.3", "10.0.0.2"), now() - 500 * DAY + k * HOUR, Went::Well).unwrap();
        mesh::add(&archive, ("10.0.0.2", "10.0.0.1"), now() - 40 * DAY + k * HOUR, Went::Badly).unwrap();
    }
    check("late ones, and a new stream", &mut before);
    let pruned =
        archive.prune(jitlat_archive::Retention::Tests { days: 30 }, jitlat_core::WallTime(now())).unwrap();
    assert_eq!(pruned.tests, 24);
    check("what is old was removed", &mut before);
    mesh::add(&archive, ("10.0.0.3", "10.0.0.2"), now(), Went::Well).unwrap();
    check("and one more", &mut before);
    assert_eq!(sum(&before, "jitlat_tests_total"), 12.0 + 1.0 + 24.0 + 1.0);
}

/// Runs Prometheus' own check of `input`; skipped if it is not installed and not required.
fn promtool(arguments: &[&str], input: &str) {
    use std::process::{Command, Stdio};
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = match command.spawn() {
        Ok(tool) => tool,
        Err(e) => {
            assert!(std::env::var_os("JITLAT_REQUIRE_PEERS").is_none(), "promtool: {e}");
            let _ = writeln!(std::io::stderr(), "skipped: promtool is not installed (Debian: prometheus)");
            return;
        }
    };
    // A check that needs no input may have ended.
    let _ = tool.stdin.take().unwrap().write_all(input.as_bytes());
    let said = tool.wait_with_output().unwrap();
    assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
}
