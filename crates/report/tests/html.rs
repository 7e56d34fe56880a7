//! The HTML report: self-contained, safe, and working in a browser.

mod common;

use common::{Measured, golden, made_up};
use jitlat_core::compare::{Grid, Key, LabelledRun, Question};
use jitlat_core::record::Moment;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{PacketRecord, Session, Source, Stamp, TestSpec, WallTime};
use jitlat_report::html::{Part, Report, comparison, page};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn report(runs: &[(&str, &Measured)]) -> String {
    let parts: Vec<Part<'_>> = runs
        .iter()
        .map(|(label, m)| Part {
            label,
            session: Some(&m.session),
            summary: &m.summary,
            trace: Some(&m.trace),
        })
        .collect();
    page(&Report {
        section: None,
        parts: &parts,
        corrected: false,
        command: Some("jitlat -f x.log --html x.html"),
        program: "jitlat 0",
        written: None,
    })
}

#[test]
fn a_report_is_one_small_file_that_fetches_nothing() {
    for name in ["a_loopback_v1", "b_wan_lossy_v1", "c_unsync_v2", "d_edge_small_v1"] {
        let html = report(&[("", &golden(name))]);
        assert!(html.len() < 400_000, "{name}: {} bytes", html.len());
        assert_self_contained(&html);
    }
    let html = report(&[("", &made_up(200_000))]);
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

/// No attribute or rule makes a browser fetch something.
fn assert_self_contained(html: &str) {
    for fetches in ["src=", "url(http", "@import", "href=\"http", "href=\"/", "<link", "<iframe"] {
        assert!(!html.contains(fetches), "{fetches}");
    }
}

#[test]
fn round_trips_are_called_so() {
    let mut session = Session::new(TestSpec::default());
    let two_way = TwoWay { protocol: "stamp".into(), far_clock: true, ..TwoWay::default() };
    (session.sent, session.two_way) = (Some(200), Some(Box::new(two_way)));
    session.dst = Some("192.0.2.2".parse().unwrap());
    let rows = (0..200).map(|i| {
        // The far host holds every tenth request longer than its answer takes to come back.
        let (start, kept) = (i * 1_000_000, if i % 10 == 0 { 1_200_000 } else { 50_000 });
        let times =
            [start, start + 9_000_000, start + 9_000_000 + kept, start + 3_000_000 + kept.min(90_000)];
        let mut record = PacketRecord::new(i);
        for (moment, at) in
            [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned].into_iter().zip(times)
        {
            record.set(moment, Stamp { at: WallTime(at), source: Source::Kernel });
        }
        record
    });
    let html = report(&[("", &Measured::new(session, rows))]);
    for part in [
        "There and back",
        "round trip</th>",
        "both ends are on one clock",
        "there (raw, two clocks)",
        "there and back</dd>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Neither a one-way test's command, nor what the far host's processing time does to the arrivals.
    for wrong in
        ["The same test again", "latency, as measured", "receive_time_went_back", "client to server</dd>"]
    {
        assert!(!html.contains(wrong), "{wrong}");
    }
}

#[test]
fn names_from_strangers_stay_text() {
    let mut m = golden("b_wan_lossy_v1");
    let evil = "</script><img src=x onerror=alert(1)>\"'&";
    m.session.client.name = Some(evil.into());
    m.session.server.notes = vec![evil.into()];
    m.summary.session.name = Some(evil.into());
    m.summary.session.tags.insert(evil.into(), evil.into());
    m.summary.session.reason = Some(evil.into());
    m.summary.header.src_ip = Some(evil.into());
    let html = report(&[(evil, &m), (evil, &golden("a_loopback_v1"))]);
    assert!(!html.contains("<img"), "markup got through");
    assert_eq!(html.matches("</script>").count(), 2, "the data block and the program, nothing else");
}

#[test]
fn nothing_received_is_said_and_not_drawn() {
    let m = golden("a_loopback_v1");
    let empty = Measured::new(m.session, []);
    let html = report(&[("", &empty)]);
    assert!(html.contains("Nothing usable arrived"));
    assert!(!html.contains("data-figure=\"latency\""));
    assert!(!html.contains("NaN") && !html.contains("inf "), "undefined values are dashes");
}

#[test]
fn no_two_selectors_of_a_group_have_the_same_name() {
    let html = report(&[("a", &golden("a_loopback_v1")), ("b", &golden("b_wan_lossy_v1"))]);
    for group in html.split("<div class=\"choose\"").skip(1) {
        let group = group.split("</div>").next().expect("split gives one part");
        let mut names: Vec<_> = group.split("</button>").filter_map(|b| b.rsplit('>').next()).collect();
        names.retain(|n| !n.trim().is_empty());
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert!(names.len() > 1 && distinct.len() == names.len(), "{names:?}");
    }
}

#[test]
fn the_verdict_comes_first() {
    let html = report(&[("", &golden("b_wan_lossy_v1"))]);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(at("Poor: 3.9 % of the packets are lost") < at("The figures"));
    assert!(at("The figures") < at("class=\"pane\""));
    assert!(at("class=\"pane\"") < at("To repeat and to judge it"));
}

/// The page without its style, scripts, data and drawings, which have tests of their own.
fn skeleton(html: &str) -> String {
    let mut text = html.to_owned();
    for (open, close) in [("<style>", "</style>"), ("<script", "</script>"), ("<svg", "</svg>")] {
        let mut kept = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(open) {
            kept.push_str(before);
            rest = after.split_once(close).expect("elements are closed").1;
        }
        text = kept + rest;
    }
    text.replace("><", ">\n<")
}

#[test]
fn golden_reports_say_what_they_said() {
    for name in ["a_loopback_v1", "b_wan_lossy_v1", "c_unsync_v2", "d_edge_small_v1"] {
        insta::assert_snapshot!(format!("{name}-html"), skeleton(&report(&[("", &golden(name))])));
    }
}

/// A script added to the page by the test: clicks every selector, zooms, hovers, hides, and writes errors, or `ok` and
/// the number of figures, where `--dump-dom` shows it.
const DRIVER: &str = r#"<script>
(() => {
  const root = document.documentElement, wrong = window.__wrong;
  const plot = document.querySelector(".plot");
  const buttons = [...document.querySelectorAll("button[data-figure]")];
  const event = (type, at, more) => plot.dispatchEvent(new PointerEvent(type, { bubbles: true, button: 0, pointerId: 1, clientX: at.x, clientY: at.y, ...more }));
  plot.setPointerCapture = () => {};
  for (const b of buttons) {
    b.click();
    const check = (what) => {
      const svg = plot.querySelector("svg");
      if (!svg || /NaN|Infinity|undefined/.test(svg.outerHTML)) wrong.push(`${b.dataset.figure}: ${what}: bad drawing`);
      if (!svg.querySelector(".data").childElementCount) wrong.push(`${b.dataset.figure}: ${what}: nothing drawn`);
    };
    check("chosen");
    if (b.getAttribute("aria-pressed") !== "true") wrong.push(`${b.dataset.figure}: not marked as chosen`);
    const box = () => plot.querySelector(".area").getBoundingClientRect();
    const point = (fx, fy) => { const r = box(); return { x: r.left + fx * r.width, y: r.top + fy * r.height }; };
    for (let k = 0; k <= 20; k++) { event("pointermove", point(k / 20, 1 - k / 21)); if (/NaN|undefined|Infinity/.test(document.querySelector(".readout").textContent)) wrong.push(`${b.dataset.figure}: readout ${document.querySelector(".readout").textContent}`); }
    const before = plot.querySelector("svg").outerHTML;
    event("pointerdown", point(0.1, 0.5)); event("pointermove", point(0.4, 0.5)); event("pointerup", point(0.4, 0.5));
    check("zoomed");
    if (before === plot.querySelector("svg").outerHTML) wrong.push(`${b.dataset.figure}: zoom did nothing`);
    plot.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: -1, clientX: point(0.5, 0.5).x, clientY: point(0.5, 0.5).y }));
    for (const key of ["+", "-", "ArrowLeft", "ArrowRight"]) plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    check("moved");
    plot.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    if (before !== plot.querySelector("svg").outerHTML) wrong.push(`${b.dataset.figure}: reset did not restore`);
    const key = plot.querySelector(".key");
    if (key) { key.dispatchEvent(new MouseEvent("click", { bubbles: true })); if (!plot.querySelector(".key.off")) wrong.push(`${b.dataset.figure}: hiding did nothing`); }
  }
  root.dataset.driven = wrong.length ? wrong.join(" | ") : `ok ${buttons.length}`;
})();
</script></body>"#;

/// Collects errors from the first script on.
const COLLECT_ERRORS: &str = r#"<script>window.__wrong = []; addEventListener("error", (e) => __wrong.push(e.message)); addEventListener("securitypolicyviolation", (e) => __wrong.push("fetches " + e.blockedURI)); for (const k of ["error", "warn"]) { const old = console[k]; console[k] = (...a) => { __wrong.push(a.join(" ")); old(...a); }; }</script><title>"#;

fn browser() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    if found.is_none() {
        assert!(
            std::env::var_os("JITLAT_REQUIRE_BROWSER").is_none(),
            "JITLAT_REQUIRE_BROWSER is set and no Chromium is installed"
        );
        eprintln!(
            "SKIPPED: no Chromium (package chromium) is installed; set JITLAT_REQUIRE_BROWSER=1 to make this fail"
        );
    }
    found
}

/// Runs the browser on `file`; killed after a minute.
fn browse(program: &str, dir: &Path, arguments: &[&str], file: &Path) -> String {
    let profile = dir.join("profile");
    let output = dir.join("dom.html");
    let mut child = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stdout(std::fs::File::create(&output).expect("a file in the temporary directory"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser answered --version");
    let until = Instant::now() + Duration::from_secs(60);
    while child.try_wait().expect("our child").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the browser did not finish within a minute");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(output).expect("the browser's output")
}

fn driven(name: &str, html: &str) {
    let Some(program) = browser() else { return };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("a directory under target");
    let file = dir.join("report.html");
    let watched = html.replacen("<title>", COLLECT_ERRORS, 1).replacen("</body>", DRIVER, 1);
    std::fs::write(&file, watched).expect("a file under target");
    let dom = browse(program, &dir, &["--dump-dom", "--window-size=1200,1600"], &file);
    let result =
        dom.split_once("data-driven=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(result, _)| result);
    let buttons = html.matches("data-figure=\"").count();
    assert_eq!(result, Some(format!("ok {buttons}").as_str()));
}

#[test]
fn every_figure_can_be_chosen_zoomed_and_read_in_a_browser() {
    driven("wan", &report(&[("", &golden("b_wan_lossy_v1"))]));
}

#[test]
fn several_runs_and_densities_work_in_a_browser() {
    let runs = [golden("a_loopback_v1"), golden("c_unsync_v2"), made_up(20_000)];
    driven("several", &report(&[("loopback", &runs[0]), ("no clock", &runs[1]), ("long", &runs[2])]));
}

fn compared(runs: &[(&str, &Measured)]) -> Grid {
    let runs: Vec<LabelledRun> = runs
        .iter()
        .map(|(label, m)| LabelledRun {
            label: (*label).to_owned(),
            source: format!("{label}.log"),
            summary: m.summary.clone(),
            samples: m.samples.clone(),
        })
        .collect();
    Grid::new(&runs, &Key::Label, None, None, &Question::default())
}

#[test]
fn a_comparison_begins_with_its_verdicts_and_works_in_a_browser() {
    let (a, b, long) = (golden("a_loopback_v1"), golden("b_wan_lossy_v1"), made_up(20_000));
    let html = comparison(&compared(&[("loopback", &a), ("wan", &b), ("long", &long)]), "jitlat 0", None);
    assert_self_contained(&html);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(at("wan against loopback") < at("The figures") && at("The figures") < at("class=\"pane\""));
    assert!(at("class=\"pane\"") < at("What was compared"));
    assert!(html.contains("different payloads: 80 and 40 bytes"));
    driven("comparison", &html);
}

#[test]
fn labels_from_strangers_stay_text_in_a_comparison() {
    let evil = "</script><img src=x onerror=alert(1)>\"'&";
    let mut a = golden("a_loopback_v1");
    a.summary.header.src_ip = Some(evil.into());
    let html = comparison(&compared(&[(evil, &a), ("b", &golden("b_wan_lossy_v1"))]), "jitlat 0", None);
    assert!(!html.contains("<img"), "markup got through");
    assert_eq!(html.matches("</script>").count(), 2);
}
