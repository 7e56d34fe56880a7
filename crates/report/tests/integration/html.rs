//! The HTML report: self-contained, safe, and working in a browser.

use crate::browser::{accessibility, axe, browse, browser, driven, folder, printed, result, shown};
use crate::common::{Measured, golden, made_up};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    Direction, PacketRecord, Schedule, Session, Span, Stamp, StampSource, TestSpec, Transport, WallTime,
};
use jitlat_report::html::{HtmlReport, ReportPart, comparison, page};
use jitlat_verdict::compare::{ComparisonGrid, ComparisonSettings, LabelledRun, RunKey};

fn report(runs: &[(&str, &Measured)]) -> String {
    let parts: Vec<ReportPart<'_>> = runs
        .iter()
        .map(|(label, m)| ReportPart {
            label,
            session: Some(&m.session),
            summary: &m.summary,
            trace: Some(&m.trace),
        })
        .collect();
    page(&HtmlReport {
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
        // The figures of six scores are a tenth of it.
        assert!(html.len() < 440_000, "{name}: {} bytes", html.len());
        assert_self_contained(&html);
    }
    let html = report(&[("", &made_up(200_000))]);
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

/// Checks that no attribute or rule makes a browser load anything.
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
        // The far host holds every tenth request longer than its answer takes to return.
        let (start, kept) = (i * 1_000_000, if i % 10 == 0 { 1_200_000 } else { 50_000 });
        let times =
            [start, start + 9_000_000, start + 9_000_000 + kept, start + 3_000_000 + kept.min(90_000)];
        let mut record = PacketRecord::new(i);
        for (moment, at) in
            [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned].into_iter().zip(times)
        {
            record.set(moment, Stamp { at: WallTime(at), source: StampSource::Kernel });
        }
        record
    });
    let html = report(&[("", &Measured::new(session, rows))]);
    for part in [
        "Directions",
        "round trip</th>",
        "one clock stamps both ends",
        "up (raw, two clocks)",
        "round trip</dd>",
        "Command to repeat the test: <code>jitlat ping 192.0.2.2 --proto stamp -n",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // The far host's processing time must not appear as an effect on arrivals.
    for wrong in ["latency, as measured", "receive_time_went_back", "client to server</dd>"] {
        assert!(!html.contains(wrong), "{wrong}");
    }
}

#[test]
fn tables_and_figures_are_without_a_clock_step_and_say_so() {
    // The sender's clock is set back by 2 s in the middle, or not.
    let measured = |set: i64| {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, 1000, 160, Span(20_000_000), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        (session.sent, session.ending) = (Some(1000), Ending::Complete);
        let record = |seq: i64| {
            let sent = 1_700_000_000_000_000_000 + seq * 20_000_000;
            let shown = if seq < 500 { sent } else { sent - set };
            PacketRecord::one_way(seq, WallTime(shown), WallTime(sent + 9_000_000 + seq * 7919 % 90_000))
        };
        Measured::new(session, (0..1000).map(record))
    };
    let said = |set: i64| {
        let html = report(&[("", &measured(set))]);
        let words = words(&html);
        let has = |text: &str| words.contains(text);
        [
            has("jitter, without the clock step"),
            has("Raw delays contain the clock step at 10.0 s"),
            // Part of a drawing.
            html.contains("Delays are without the clock step at 10.0 s"),
            has("jitter (PDV)"),
            has("between consecutive packets (IPDV)"),
        ]
    };
    assert_eq!(said(2_000_000_000), [true, true, true, false, false]);
    assert_eq!(said(0), [false, false, false, true, true]);
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
        "Poor: 3.9 % of packets lost",
        "<ul class=\"uses\"",
        "jitter p99",
        "figure-delay-over-time",
        "class=\"pane\"",
        "Reliability",
        "Reproduction",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{order:?}");
    for folded in ["reliability", "tables", "parameters"] {
        assert!(html.contains(&format!("<details class=\"fold\" id=\"{folded}\">")), "{folded}");
    }
}

/// Simulates two directions of one test of `n` packets each.
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
    let html = report(&[("Up (client to server)", &up), ("Down (server to client)", &down)]);
    for once in
        ["<td></td><th scope=\"col\">verdict</th>", "id=\"figure-delay-over-time\"", "<ul class=\"uses\""]
    {
        assert_eq!(html.matches(once).count(), 1, "{once}");
    }
    for row in ["<th scope=\"row\">up</th>", "<th scope=\"row\">down</th>"] {
        assert!(html.contains(row), "{row}");
    }
    let tabs = html.matches("role=\"tab\" id=").count();
    let ways = html.matches("<button type=\"button\" data-group=").count();
    assert_eq!((tabs, ways), (4, 3), "over time, distribution, buffer, loss; each way and both");
}

/// Returns the words of a page, without its style, scripts, data and drawings, which have tests of their own.
fn words(html: &str) -> String {
    let mut text = html.to_owned();
    for (open, close) in [("<style>", "</style>"), ("<script", "</script>"), ("<svg", "</svg>"), ("<", ">")] {
        let mut kept = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(open) {
            kept.push_str(before);
            kept.push(' ');
            rest = after.split_once(close).expect("elements are closed").1;
        }
        text = kept + rest;
    }
    for (entity, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(entity, character);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Headings of every report, in their order.
const HEADINGS: [&str; 8] = [
    "Path report: ",
    "Figures",
    "Reliability",
    "Findings",
    "In words",
    "All figures",
    "Parameters, hosts and clocks",
    "Clocks",
];

/// Drawings of every report.
const DRAWINGS: [&str; 8] = [
    "delay-over-time",
    "send-error-course",
    "jitter",
    "latency",
    "ipdv",
    "send-error",
    "latency-full",
    "dejitter",
];

/// Drawings of a path that loses, duplicates and reorders.
const DRAWINGS_OF_LOSS: [&str; 3] = ["loss-lengths", "duplication-lengths", "reorder-density"];

/// A golden log, the additional drawings of its report, and rows of its tables and sentences: the specification, the
/// deciding figures, the counts, the distributions, the rates, and their reliability.
type Said = (&'static str, &'static [&'static str], &'static [&'static str]);

const SAID: [Said; 4] = [
    (
        "a_loopback_v1",
        &[],
        &[
            "10.9.8.7 to 10.9.8.7 2000 UDP packets of 80 bytes, one every 20.00 ms · Fri Jul 3 19:46:11 UTC 2009",
            "one way good 64.3 µs 158 µs none 112 µs none (<0.15 %) <1 ms",
            "sent 2000 received 2000 unique and valid 2000 lost 0 (0 %) longest loss – duplicates 0 (0 %)",
            "latency, as measured 45.00 µs 70.69 µs 64.30 µs 91.60 µs 157.5 µs 498.0 µs 889.4 µs 35.22 µs",
            "jitter (PDV) 0 ns 25.69 µs 19.30 µs 46.60 µs 112.5 µs 453.0 µs 844.4 µs 35.22 µs",
            "sent 20.00 ms 49.99 31.99 kbps received 20.00 ms 49.99 31.99 kbps",
            "RTP jitter 21.20 µs",
            "best MOS 4.41",
            "2000 packets: enough for the 99.9th percentile",
        ],
    ),
    (
        "b_wan_lossy_v1",
        &DRAWINGS_OF_LOSS,
        &[
            "192.0.2.10 to 198.51.100.20 1500 UDP packets of 40 bytes, one every 20.00 ms · Mon Nov 23 18:13:50 UTC 2009",
            "one way poor – – unknown 57.8 ms 3.9 % (1.4-8.6) 82 ms",
            "sent 1500 received 1456 unique and valid 1441 lost 59 (3.93 %) longest loss 9 in a row duplicates 15 (1.03 %)",
            "jitter (PDV) 0 ns 3.019 ms 1.378 ms 3.928 ms 57.80 ms 92.29 ms 93.87 ms 9.038 ms",
            "sent 20.00 ms 50.00 16.00 kbps received 20.82 ms 48.03 15.37 kbps",
            "loss-run-mean 2.68 mean length of a loss burst burst-ratio 2.58",
            "Command to repeat the test: jitlat 198.51.100.20 -n 1500 -l 40 -p 20ms",
            "1441 packets: enough for the 99.9th percentile",
        ],
    ),
    (
        "c_unsync_v2",
        &[],
        &[
            "192.168.2.1 to 192.168.2.4 1000 UDP packets of 80 bytes, one every 20.00 ms · Tue Dec 8 15:16:40 UTC 2009",
            "one way bad 1.61 s 1.62 s 1.62 s 321 µs none (<0.30 %) <1 ms",
            "latency, clocks corrected 1.615 s 1.615 s 1.615 s 1.615 s 1.615 s 1.616 s 1.616 s 82.87 µs",
            "the clock offset was 31.3 s (server − client), known to ±1.62 s",
        ],
    ),
    (
        "d_edge_small_v1",
        &DRAWINGS_OF_LOSS,
        &[
            "192.0.2.1 to 192.0.2.2 12 UDP packets of 12 bytes, one every 10.00 ms · Sun Mar 13 07:06:40 UTC 2011",
            "one way unknown – – unknown – 17 % (3-44) –",
            "sent 12 received 15 unique and valid 10 lost 2 (16.7 %) longest loss 1 in a row duplicates 2 (13.3 %) invalid 3 (20 %)",
            "10 packets: too few for a 99th percentile",
        ],
    ),
];

#[test]
fn golden_reports_say_what_was_found() {
    for (name, drawings, rows) in SAID {
        let measured = golden(name);
        let html = report(&[("", &measured)]);
        let said = words(&html);
        let mut rest = said.as_str();
        for heading in HEADINGS {
            rest = rest.split_once(heading).unwrap_or_else(|| panic!("{name}: {heading}: {said}")).1;
        }
        let figures = html.split("<figure id=\"figure-").skip(1).map(|f| f.split('"').next().unwrap());
        // Another test looks at the figures of the scores.
        let drawn: Vec<&str> = figures.filter(|id| !id.starts_with("qoo-")).collect();
        assert_eq!(drawn, [&DRAWINGS, drawings].concat(), "{name}");
        let Measured { summary, .. } = &measured;
        let answer = summary.answer.as_ref().expect("golden logs have an answer");
        let causes = answer.causes.iter().map(|cause| cause.because.as_str());
        let profiles = answer.profiles.keys().map(String::as_str);
        let sentences = [answer.headline.as_str()].into_iter().chain(causes).chain(profiles);
        for text in sentences.chain(rows.iter().copied()) {
            // Sentences are in ASCII, pages in typographic characters.
            let text = text.replace(" us", " µs").replace("+/- ", "±");
            assert!(said.contains(&text), "{name}: {text} is not in: {said}");
        }
        // Each warning and each finding has a line.
        let shown: Vec<&str> =
            html.split("<li data-code=\"").skip(1).map(|line| line.split('"').next().unwrap()).collect();
        let warned: Vec<&str> = summary.warnings.iter().map(|warning| &*warning.code).collect();
        assert_eq!(shown, warned, "{name}");
        let findings = html.split_once(">In words</h3>").expect("findings").1;
        let findings = findings.split_once("</ul>").expect("a list").0.matches("<li").count();
        assert_eq!(findings, summary.verdicts.len(), "{name}");
    }
}

#[test]
fn every_figure_can_be_chosen_zoomed_and_read_in_a_browser() {
    driven("wan", &report(&[("", &golden("b_wan_lossy_v1"))]));
}

#[test]
fn both_directions_work_in_a_browser() {
    let [up, down] = both(1000);
    driven("both", &report(&[("Up (client to server)", &up), ("Down (server to client)", &down)]));
}

#[test]
fn on_paper_the_answer_is_the_first_of_at_most_six_pages() {
    let [up, down] = both(1000);
    let html = report(&[("Up (client to server)", &up), ("Down (server to client)", &down)]);
    let Some((first, all)) = printed(&html) else { return };
    assert!((2..=6).contains(&all), "{all} pages");
    assert_eq!(first, 1);
}

#[test]
fn nobody_is_kept_from_a_page() {
    let Some(axe) = axe() else { return };
    let ([up, down], wan, loopback) = (both(500), golden("b_wan_lossy_v1"), golden("a_loopback_v1"));
    let pages = [
        report(&[("Up (client to server)", &up), ("Down (server to client)", &down)]),
        report(&[("", &wan)]),
        comparison(&compared(&[("loopback", &loopback), ("wan", &wan)]), "jitlat 0", None),
    ];
    for (arguments, _) in shown() {
        for (k, page) in pages.iter().enumerate() {
            let found = accessibility(page, &axe, arguments);
            assert_eq!(found.as_deref(), Some("ok"), "page {k}, {arguments:?}");
        }
    }
    // Verify that axe-core runs: an injected fault is found.
    let wrong = pages[1].replacen("<main>", "<main><img src=\"data:,\"><button></button>", 1);
    let found = accessibility(&wrong, &axe, &[]).expect("there is a browser");
    assert!(found.contains("image-alt") && found.contains("button-name"), "{found}");
}

#[test]
fn several_runs_and_densities_work_in_a_browser() {
    let runs = [golden("a_loopback_v1"), golden("c_unsync_v2"), made_up(20_000)];
    driven("several", &report(&[("loopback", &runs[0]), ("no clock", &runs[1]), ("long", &runs[2])]));
}

/// Script that reports the time of the first paint, ms after the page was requested.
const PAINT: &str = r#"<script>new PerformanceObserver((list) => { for (const e of list.getEntries()) if (e.name === "first-contentful-paint") document.documentElement.dataset.paint = Math.round(e.startTime); }).observe({ type: "paint", buffered: true });</script><title>"#;

/// `just pages`: prints the sizes of pages and their times to first paint. The content of a page does not grow with the
/// number of packets.
#[test]
#[ignore = "prints a table of docs/benchmarks.md; ten million packets take minutes"]
fn sizes_and_times_to_first_paint() {
    let Some(program) = browser() else { return };
    let mut sizes = Vec::new();
    for n in [1_000, 10_000_000] {
        let html = report(&[("", &made_up(n))]);
        let folder = folder();
        let file = folder.path().join("report.html");
        std::fs::write(&file, html.replacen("<title>", PAINT, 1)).expect("a file");
        // A browser that has loaded the page before it paints ends without a time: try again.
        let paint = |_| {
            let dom = browse(program, folder.path(), &["--dump-dom", "--timeout=3000"], &file);
            result(&dom, "paint")?.parse::<u32>().ok()
        };
        let mut paints: Vec<u32> = (0..40).filter_map(paint).take(5).collect();
        assert_eq!(paints.len(), 5, "it is drawn");
        paints.sort_unstable();
        println!("{n} packets: {} kB, first paint after {} ms", html.len() / 1000, paints[2]);
        sizes.push(html.len());
    }
    // Ten thousand times as many packets.
    assert!(sizes[1] < 3 * sizes[0], "{sizes:?}");
}

fn compared(runs: &[(&str, &Measured)]) -> ComparisonGrid {
    let runs: Vec<LabelledRun> = runs
        .iter()
        .map(|(label, m)| LabelledRun {
            label: (*label).to_owned(),
            source: format!("{label}.log"),
            summary: m.summary.clone(),
            samples: m.samples.clone(),
        })
        .collect();
    ComparisonGrid::new(&runs, &RunKey::Label, None, None, &ComparisonSettings::default())
}

#[test]
fn a_comparison_begins_with_its_verdicts_and_works_in_a_browser() {
    let (a, b, long) = (golden("a_loopback_v1"), golden("b_wan_lossy_v1"), made_up(20_000));
    let html = comparison(&compared(&[("loopback", &a), ("wan", &b), ("long", &long)]), "jitlat 0", None);
    assert_self_contained(&html);
    assert!(html.len() < 400_000, "{} bytes", html.len());
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    let order =
        ["class=\"first\"", "class=\"pane\"", "wan against loopback", "<h2>The figures<", "Compared runs"];
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
