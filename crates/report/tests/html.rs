//! The HTML report: self-contained, safe, and working in a browser.

mod common;

use common::{Measured, golden, made_up};
use jitlat_core::compare::{Grid, Key, LabelledRun, Question};
use jitlat_core::record::Moment;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{Direction, PacketRecord, Session, Source, Stamp, TestSpec, WallTime};
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
        "The same test again: <code>jitlat ping 192.0.2.2 --proto stamp -n",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Not what the far host's processing time does to the arrivals.
    for wrong in ["latency, as measured", "receive_time_went_back", "client to server</dd>"] {
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
    assert!(!html.contains("id=\"figure-latency\""));
    assert!(!html.contains("NaN") && !html.contains("inf "), "undefined values are dashes");
}

#[test]
fn the_answer_comes_first_and_the_rest_folds_away() {
    let html = report(&[("", &golden("b_wan_lossy_v1"))]);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    let order = [
        "Poor: 3.9 % of the packets are lost",
        "<ul class=\"uses\"",
        "jitter p99",
        "figure-delay-over-time",
        "class=\"pane\"",
        "How far to believe it",
        "To repeat and to judge it",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{order:?}");
    for folded in ["belief", "tables", "parameters"] {
        assert!(html.contains(&format!("<details class=\"fold\" id=\"{folded}\">")), "{folded}");
    }
}

/// Two directions of one test of `n` packets each.
fn both(n: u64) -> [Measured; 2] {
    [Direction::Up, Direction::Down].map(|direction| {
        let made = made_up(n);
        let mut session = made.session;
        session.id = Some("test".into());
        session.direction_known = true;
        if direction == Direction::Down {
            session.spec = session.spec.reversed();
        }
        let samples = &made.samples;
        let rows = samples.seq.iter().zip(&samples.sent).zip(&samples.delay).map(|((seq, sent), delay)| {
            // The second host's clock is 7 s ahead.
            let (ahead, more) = if direction == Direction::Up { (0, 0) } else { (7_000_000_000, 9_000_000) };
            PacketRecord::one_way(i64::from(*seq), WallTime(sent + ahead), WallTime(sent + delay + more))
        });
        Measured::new(session, rows.collect::<Vec<_>>())
    })
}

#[test]
fn both_directions_are_one_answer_one_table_and_one_figure() {
    let [up, down] = both(500);
    let html = report(&[("Client to server", &up), ("Server to client", &down)]);
    for once in
        ["<td></td><th scope=\"col\">verdict</th>", "id=\"figure-delay-over-time\"", "<ul class=\"uses\""]
    {
        assert_eq!(html.matches(once).count(), 1, "{once}");
    }
    for row in ["<th scope=\"row\">to server</th>", "<th scope=\"row\">to client</th>"] {
        assert!(html.contains(row), "{row}");
    }
    let tabs = html.matches("role=\"tab\" id=").count();
    let ways = html.matches("<button type=\"button\" data-group=").count();
    assert_eq!((tabs, ways), (4, 3), "over time, distribution, buffer, loss; each way and both");
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

/// A script added to the page by the test: shows every figure, zooms, hovers, hides, saves, and writes errors, or `ok`
/// and the number of figures, where `--dump-dom` shows it.
const DRIVER: &str = include_str!("page/driver.js");

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
    let driver = format!("<script>{DRIVER}</script></body>");
    let watched = html.replacen("<title>", COLLECT_ERRORS, 1).replacen("</body>", &driver, 1);
    std::fs::write(&file, watched).expect("a file under target");
    let figures = html.matches("<figure id=\"").count();
    for size in ["1400,900", "400,900"] {
        let dom = browse(program, &dir, &["--dump-dom", &format!("--window-size={size}")], &file);
        assert_eq!(result(&dom, "driven"), Some(format!("ok {figures}").as_str()), "{size}");
    }
}

/// What a script wrote into the attribute `data-` `name` of the page.
fn result<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = dom.split_once(&format!("data-{name}=\""))?;
    Some(rest.split_once('"')?.0)
}

#[test]
fn every_figure_can_be_chosen_zoomed_and_read_in_a_browser() {
    driven("wan", &report(&[("", &golden("b_wan_lossy_v1"))]));
}

#[test]
fn both_directions_work_in_a_browser() {
    let [up, down] = both(1000);
    driven("both", &report(&[("Client to server", &up), ("Server to client", &down)]));
}

#[test]
fn on_paper_the_answer_is_the_first_of_at_most_six_pages() {
    let Some(program) = browser() else { return };
    let [up, down] = both(1000);
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("print");
    std::fs::create_dir_all(&dir).expect("a directory under target");
    let (file, printed) = (dir.join("report.html"), dir.join("report.pdf"));
    let html = report(&[("Client to server", &up), ("Server to client", &down)]);
    let pages = |html: &str| {
        std::fs::write(&file, html).expect("a file under target");
        let to = format!("--print-to-pdf={}", printed.display());
        browse(program, &dir, &["--no-pdf-header-footer", &to], &file);
        let pdf = std::fs::read(&printed).expect("the browser prints");
        String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count()
    };
    let all = pages(&html);
    assert!((2..=6).contains(&all), "{all} pages");
    // Without what follows it.
    let (first, _) = html.split_once("<section class=\"plots\">").expect("figures follow");
    assert_eq!(pages(&format!("{first}</main></body></html>")), 1);
}

/// The version of axe-core with which pages are checked, and the checksum of its package.
const AXE: [&str; 2] = [
    "4.14.1",
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
];

/// The script of axe-core, installed below `target` by npm. Only where nothing may be skipped: elsewhere tests fetch
/// nothing.
fn axe() -> Option<String> {
    if std::env::var_os("JITLAT_REQUIRE_BROWSER").is_none() {
        eprintln!("SKIPPED: axe-core is installed with npm where JITLAT_REQUIRE_BROWSER=1 is set");
        return None;
    }
    let [version, integrity] = AXE;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("axe-{version}"));
    std::fs::create_dir_all(&dir).expect("a directory under target");
    let script = dir.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        let package = format!("axe-core@{version}");
        let options = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "."];
        let mut npm = Command::new("timeout");
        npm.args(["120", "npm"]).args(options).arg(package).current_dir(&dir);
        let status = npm.stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|s| s.success()), "npm (package npm) could not install axe-core {version}");
    }
    let lock = std::fs::read_to_string(dir.join("node_modules/.package-lock.json")).expect("npm writes it");
    assert!(lock.contains(integrity), "axe-core {version} is not the one that was checked: {lock}");
    Some(std::fs::read_to_string(script).expect("the package has it"))
}

/// Asks axe-core about every tab, with everything unfolded, and writes what it found into the page.
const ASK_AXE: &str = include_str!("page/accessibility.js");

/// What axe-core finds on a page: `ok`, or its rules with the elements that break them.
fn accessibility(name: &str, html: &str, axe: &str, arguments: &[&str]) -> Option<String> {
    let program = browser()?;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("a directory under target");
    let file = dir.join("report.html");
    let scripts = format!("<script>{axe}</script><script>{ASK_AXE}</script></body>");
    let (before, after) = html.rsplit_once("</body>").expect("a page");
    std::fs::write(&file, format!("{before}{scripts}{after}")).expect("a file under target");
    // Its waits pass in virtual time; it waits for nothing outside of the page.
    let time = ["--dump-dom", "--virtual-time-budget=120000"];
    let dom = browse(program, &dir, &[&time, arguments].concat(), &file);
    Some(result(&dom, "axe").expect("axe-core has finished").to_owned())
}

#[test]
fn nobody_is_kept_from_a_page() {
    let Some(axe) = axe() else { return };
    let ([up, down], wan, loopback) = (both(500), golden("b_wan_lossy_v1"), golden("a_loopback_v1"));
    let pages = [
        report(&[("Client to server", &up), ("Server to client", &down)]),
        report(&[("", &wan)]),
        comparison(&compared(&[("loopback", &loopback), ("wan", &wan)]), "jitlat 0", None),
    ];
    // The second makes the browser prefer dark pages.
    for arguments in [
        &["--window-size=1400,900"][..],
        &["--window-size=400,900", "--blink-settings=preferredColorScheme=0"],
    ] {
        for (k, page) in pages.iter().enumerate() {
            let found = accessibility("axe", page, &axe, arguments);
            assert_eq!(found.as_deref(), Some("ok"), "page {k}, {arguments:?}");
        }
    }
    // It is asked, and answers: what is wrong is found.
    let wrong = pages[1].replacen("<main>", "<main><img src=\"data:,\"><button></button>", 1);
    let found = accessibility("axe", &wrong, &axe, &[]).expect("there is a browser");
    assert!(found.contains("image-alt") && found.contains("button-name"), "{found}");
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
    let order = [
        "class=\"first\"",
        "class=\"pane\"",
        "wan against loopback",
        "<h2>The figures<",
        "What was compared",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    assert!(at("class=\"headline") < at("class=\"pane\""));
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
