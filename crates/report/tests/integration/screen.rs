//! The screen report: its contents for every kind of test, and that it always fits one screen.

use jitlat_core::analysis::{Analyzer, Samples};
use jitlat_core::record::{Moment, PacketRecord};
use jitlat_core::session::{Ending, Session};
use jitlat_core::summary::{Level, Summary};
use jitlat_core::twoway::TwoWay;
use jitlat_core::{ClockProbe, Direction, Schedule, Span, Stamp, StampSource, TestSpec, Transport, WallTime};
use jitlat_report::text::screen::{MAX_ROWS, Relation, Screen, ScreenStream};
use jitlat_report::text::{self, TextStyle};

const START: i64 = 1_763_697_000_000_000_000;
const MS: i64 = 1_000_000;

struct Measured {
    summary: Summary,
    samples: Samples,
}

impl Measured {
    fn of(session: &Session, records: impl IntoIterator<Item = PacketRecord>) -> Measured {
        let mut analyzer = Analyzer::new(session, &jitlat_verdict::options());
        records.into_iter().for_each(|record| analyzer.push(&record));
        let (summary, samples) = analyzer.finish_with_samples(session);
        Measured { summary, samples }
    }

    fn stream<'a>(&'a self, label: &'a str) -> ScreenStream<'a> {
        ScreenStream { label, summary: &self.summary, samples: &self.samples }
    }
}

fn session(direction: Direction, n: u32) -> Session {
    let spec =
        TestSpec::new(direction, Transport::Udp, n.into(), 172, Span(20 * MS), Schedule::Periodic).unwrap();
    let mut session = Session::new(spec);
    session.created = Some(WallTime(START));
    session.src = Some("192.0.2.1".parse().unwrap());
    session.dst = Some("198.51.100.7".parse().unwrap());
    if direction == Direction::Down {
        std::mem::swap(&mut session.src, &mut session.dst);
    }
    session.sent = Some(n);
    session.ending = Ending::Complete;
    session
}

/// Adds probes whose round trip is 24 ms, before and after `n` packets.
fn probed(mut session: Session, n: u32) -> Session {
    for at in [START - 1_000 * MS, START + i64::from(n) * 20 * MS] {
        for k in 0..4 {
            let sent = at + k * 100 * MS;
            session.probes.push(ClockProbe {
                sent: WallTime(sent),
                arrived: WallTime(sent + 12 * MS + k * 9_000),
                answered: WallTime(sent + 12 * MS + k * 9_000),
                returned: WallTime(sent + 24 * MS + k * 20_000),
            });
        }
    }
    session
}

/// Deterministic noise in 0…1.
fn noise(seq: i64) -> f64 {
    let mixed =
        (seq as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0x2545_f491_4f6c_dd1d);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

/// Creates packets with kernel stamps that take `delay` ns and some noise.
fn records(n: u32, delay: impl Fn(i64) -> Option<i64>) -> Vec<PacketRecord> {
    let of = |seq: i64| {
        let sent = START + seq * 20 * MS + (noise(seq + 7) * 60_000.0) as i64;
        let arrived = sent + delay(seq)? + (noise(seq) * 700_000.0) as i64;
        let mut record = PacketRecord::new(seq);
        record.set(Moment::Sent, Stamp { at: WallTime(sent), source: StampSource::Kernel });
        record.set(Moment::Arrived, Stamp { at: WallTime(arrived), source: StampSource::Kernel });
        Some(record)
    };
    let mut rows: Vec<PacketRecord> = (0..i64::from(n)).filter_map(of).collect();
    rows.sort_by_key(PacketRecord::arrived);
    rows
}

fn clean(n: u32, direction: Direction) -> Measured {
    Measured::of(&probed(session(direction, n), n), records(n, |_| Some(12 * MS)))
}

/// Simulates a queue that fills and empties, and an outage of three seconds.
fn queued(n: u32) -> Measured {
    let delay = |seq: i64| match seq {
        300..450 => None,
        600..800 => Some(12 * MS + (seq - 600) * MS / 2),
        _ => Some(12 * MS),
    };
    Measured::of(&probed(session(Direction::Up, n), n), records(n, delay))
}

fn shown(screen: &Screen, options: &text::TextOptions) -> String {
    let page = screen.show(options);
    let rows = page.lines().count();
    assert!(rows <= MAX_ROWS, "{rows} rows:\n{page}");
    for line in page.lines() {
        assert!(line.chars().count() <= options.width, "{line}");
    }
    page
}

fn plain() -> text::TextOptions {
    text::TextOptions::default()
}

fn unicode() -> text::TextOptions {
    text::TextOptions { unicode: true, ..text::TextOptions::default() }
}

#[test]
fn one_direction() {
    let m = queued(1000);
    let screen = Screen::new(&[m.stream("Up (client to server)")], Relation::Separate)
        .logged_to(&["jitlat.0faqgu".into()])
        .followed_by("jitlat path 198.51.100.7", "where on the path");
    insta::assert_snapshot!(shown(&screen, &unicode()));
    insta::assert_snapshot!(
        "one_direction_narrow",
        shown(&screen, &text::TextOptions { width: 60, ..plain() })
    );
}

#[test]
fn a_path_that_is_fine() {
    let m = clean(1000, Direction::Up);
    let screen = Screen::new(&[m.stream("Up (client to server)")], Relation::Separate)
        .logged_to(&["jitlat.0faqgu".into()])
        .followed_by("jitlat -f jitlat.0faqgu -v", "every figure");
    insta::assert_snapshot!(shown(&screen, &unicode()));
}

#[test]
fn lost_stamps_are_said_where_it_says_how_far_to_trust_it() {
    let trust = |lost| {
        let session = Session { stamps_lost: lost, ..session(Direction::Up, 1000) };
        let m = Measured::of(&session, records(1000, |_| Some(5 * MS)));
        let screen = Screen::new(&[m.stream("Up (client to server)")], Relation::Separate);
        shown(&screen, &plain()).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = trust(Some(3));
    assert!(
        said.contains("departure stamps missing: 3 packets, which have the program's send times instead"),
        "{said}"
    );
    assert!([None, Some(0)].iter().all(|lost| !trust(*lost).contains("departure stamps missing")));
}

#[test]
fn both_directions() {
    let (up, down) = (queued(1000), clean(1000, Direction::Down));
    let streams = [up.stream("Up (client to server)"), down.stream("Down (server to client)")];
    let screen = Screen::new(&streams, Relation::Directions)
        .logged_to(&["jitlat.0faqgu.up".into(), "jitlat.0faqgu.down".into()])
        .followed_by("jitlat path 198.51.100.7", "where on the path");
    insta::assert_snapshot!(shown(&screen, &unicode()));
    let narrow = shown(&screen, &text::TextOptions { width: 60, ..plain() });
    assert!(narrow.is_ascii() && narrow.contains("down"), "{narrow}");
}

fn round_trips(n: u32) -> Measured {
    let mut session = session(Direction::Up, n);
    session.two_way = Some(Box::new(TwoWay {
        protocol: "stamp".into(),
        timeout: Some(Span(2_000 * MS)),
        far_clock: true,
        ..TwoWay::default()
    }));
    let of = |seq: i64| {
        let sent = START + seq * 20 * MS;
        let arrived = sent + 12 * MS + (noise(seq) * 700_000.0) as i64;
        let answered = arrived + 40_000;
        let returned = answered + 12 * MS + (noise(seq + 1) * 900_000.0) as i64;
        let mut record = PacketRecord::new(seq);
        for (moment, at) in [
            (Moment::Sent, sent),
            (Moment::Arrived, arrived),
            (Moment::Answered, answered),
            (Moment::Returned, returned),
        ] {
            record.set(moment, Stamp { at: WallTime(at), source: StampSource::Kernel });
        }
        record
    };
    Measured::of(&session, (0..i64::from(n)).map(of))
}

#[test]
fn ping() {
    let m = round_trips(500);
    let screen = Screen::new(&[m.stream("round trip")], Relation::Separate);
    insta::assert_snapshot!(shown(&screen, &plain()));
}

#[test]
fn load() {
    let (idle, loaded) = (clean(500, Direction::Up), queued(1000));
    let streams = [idle.stream("idle"), loaded.stream("loaded")];
    let screen =
        Screen::new(&streams, Relation::Load).led_by(Level::Bad, "Under load packets wait 97 ms more.");
    insta::assert_snapshot!(shown(&screen, &plain()));
}

#[test]
fn an_incomplete_log_says_so_first() {
    let mut cut = session(Direction::Up, 1000);
    (cut.sent, cut.ending) = (None, Ending::Unknown);
    cut.declared = Some(1000);
    cut.version = 3;
    let m = Measured::of(&cut, records(400, |_| Some(12 * MS)));
    let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
    assert!(page.starts_with("The log is incomplete"), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn nothing_received_says_so_first() {
    let m = Measured::of(&session(Direction::Up, 1000), []);
    let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
    assert!(page.starts_with("Bad: nothing arrived"), "{page}");
    insta::assert_snapshot!(page);
}

#[test]
fn few_packets_have_bounds_and_no_verdict() {
    let m = Measured::of(&session(Direction::Up, 20), records(20, |_| Some(12 * MS)));
    insta::assert_snapshot!(shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain()));
}

#[test]
fn unknown_clocks_give_no_delay() {
    // The clocks are an hour and a half apart, and no estimate shows it.
    let hour = 5_400_000 * MS;
    let m = Measured::of(&session(Direction::Up, 1000), records(1000, |_| Some(hour)));
    let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
    assert!(page.contains("clock offset unknown") && !page.contains("5400"), "{page}");
}

#[test]
fn a_clock_step_is_excluded_from_the_table() {
    // The receiving host's clock is set forward by 1 s at 3.2 s.
    let delay = |seq: i64| Some(12 * MS + if seq < 160 { 0 } else { 1_000 * MS });
    let m = Measured::of(&session(Direction::Up, 1000), records(1000, delay));
    let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
    let row = page.lines().find(|line| line.starts_with("up ")).unwrap_or_else(|| panic!("{page}"));
    assert!(row.contains("clock set") && !row.contains("1.0 s") && !row.contains(" s "), "{page}");
    assert!(page.contains("jitter and buffer are without the clock step at 3.2 s"), "{page}");
    assert!(page.contains("a clock was set during the test: no absolute delay"), "{page}");
}

#[test]
fn both_percentiles_of_a_row_are_values_or_both_are_bounds() {
    // The delay is between 1 us and 40 ms, and the clocks may be off by 12 ms.
    for us in [1, 100, 300, 11_500, 11_990, 12_010, 20_000, 40_000] {
        let n = 1000;
        let m = Measured::of(&probed(session(Direction::Up, n), n), records(n, |_| Some(us * 1000)));
        let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
        let row = page.lines().find(|line| line.starts_with("up ")).unwrap_or_else(|| panic!("{page}"));
        // The name of the row and the verdict are two words; each cell is a number and its unit.
        let words: Vec<&str> = row.split_whitespace().collect();
        let ns = |at: usize| {
            let unit = ["ns", "us", "ms", "s"].iter().position(|unit| *unit == words[at + 1]).unwrap();
            words[at].trim_start_matches('<').parse::<f64>().unwrap() * 1000f64.powi(unit as i32)
        };
        assert_eq!(words[2].starts_with('<'), words[4].starts_with('<'), "{us} us: {row}");
        assert!(ns(2) <= ns(4), "{us} us: {row}");
    }
}

#[test]
fn the_grade_and_the_traffic_of_profiles_are_explained() {
    // 150 ms: a conversation is fine, games are not; video sends larger and more packets.
    let n = 1000;
    let mut session = session(Direction::Up, n);
    session.dst = session.src;
    session.spec =
        TestSpec::new(Direction::Up, Transport::Udp, n.into(), 80, Span(20 * MS), Schedule::Periodic)
            .unwrap();
    let m = Measured::of(&session, records(n, |_| Some(150 * MS)));
    let page = shown(&Screen::new(&[m.stream("one way")], Relation::Separate), &plain());
    let joined = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("the verdict is for a conversation with this buffer"), "{page}");
    assert!(joined.contains("measured with 80 bytes every 20 ms; "), "{page}");
    assert!(joined.contains("video sends 1200 bytes every 5.0 ms"), "{page}");
    assert!(joined.contains("limit 100 ms"), "{page}");
}

#[test]
fn drift_is_either_in_the_jitter_or_not() {
    let n = 3000;
    let drift = |seq: i64| Some(12 * MS + seq * 20 * 60);
    let m = Measured::of(&session(Direction::Up, n), records(n, drift));
    assert!(m.summary.pdv_deskewed.is_some());
    let page = text::report(&m.summary, &plain());
    let joined = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!joined.contains("inflates jitter"), "{page}");
    if joined.contains("drift apart by") && joined.contains("raw jitter") {
        assert!(
            joined.contains("the raw jitter includes this drift, the de-skewed figures do not"),
            "{page}"
        );
    }
}

#[test]
fn colours_are_styles_of_the_same_text() {
    let m = queued(1000);
    let screen = || Screen::new(&[m.stream("one way")], Relation::Separate);
    let coloured = screen().show(&text::TextOptions { style: TextStyle::Colour, ..plain() });
    assert!(coloured.contains("\x1b[1;31mBad"), "{coloured}");
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    assert_eq!(bare, shown(&screen(), &plain()));
}

#[test]
fn many_logs_are_one_screen_too() {
    let all: Vec<Measured> = (0..9).map(|k| clean(200 + k, Direction::Up)).collect();
    let names: Vec<String> = (0..9).map(|k| format!("measured/on/a/day/in/november/night-{k}.log")).collect();
    let streams: Vec<ScreenStream<'_>> = all.iter().zip(&names).map(|(m, name)| m.stream(name)).collect();
    insta::assert_snapshot!(shown(&Screen::new(&streams, Relation::Separate), &plain()));
}

#[test]
fn a_sweep() {
    use jitlat_core::sweep::{
        ConfidenceLevel, Factor, FactorLevel, RunFigures, RunOutcome, SweepAxis, SweepGrid, SweepRun, points,
    };
    use jitlat_report::text::screen::Swept;
    use jitlat_verdict::sweep::answer;
    let axis = |factor, texts: &[&str]| {
        let level = |t: &&str| FactorLevel { text: (*t).to_owned(), number: t.parse().ok() };
        SweepAxis::new(factor, texts.iter().map(level).collect())
    };
    let sizes: Vec<String> = (1..=14).map(|k| (100 * k).to_string()).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let grid = SweepGrid { axes: vec![axis(Factor::Dscp, &["BE", "EF"]), axis(Factor::Payload, &sizes)] };
    let run = |cell: usize, repetition: u32| {
        let (class, size) = (cell / 14, cell % 14);
        let us = 120.0 + 70.0 * size as f64 + if class == 0 { 4000.0 } else { 0.0 } + f64::from(repetition);
        let lost = if class == 0 && size > 10 { 6 } else { 0 };
        let figures = RunFigures::default()
            .with("latency-mean", us * 1e3)
            .with("latency-p99", us * 2e3)
            .with("pdv-p99", us * 1e3)
            .with("loss", lost as f64 / 100.0)
            .with("clock-bound", 40e3 + cell as f64);
        let (run, at, ip_length) = (SweepRun { cell, repetition }, WallTime(START), None);
        RunOutcome { run, at, sent: 100, received: 100 - lost, ip_length, figures }
    };
    let outcomes: Vec<RunOutcome> = (0..28).flat_map(|cell| (0..5).map(move |r| run(cell, r))).collect();
    let points = points(&grid, &outcomes, ConfidenceLevel::default());
    let swept = Swept {
        title: "round trip to 198.51.100.7, 140 runs made",
        one_way: false,
        grid: &grid,
        points: &points,
        confidence: ConfidenceLevel::default(),
        answer: &answer(&grid, &points, true),
        notes: &["EF: 120.0 us and 70.00 us per 100 bytes of IP packet: 11.4 Mbps in series".to_owned()],
    };
    let one_way = shown(&Screen::of_sweep(Swept { one_way: true, ..swept }), &plain());
    assert!(one_way.contains("delays may be wrong by up to 40.0 us, the error of the clocks"), "{one_way}");
    let screen = Screen::of_sweep(swept)
        .logged_to(&["sweep.0faqgu".into()])
        .followed_by("jitlat sweep --resume sweep.0faqgu -v", "every figure");
    insta::assert_snapshot!(shown(&screen, &plain()));
}

mod any_test {
    use super::*;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0i64..10_000_000_000, 2 => -1000i64..1000, 1 => any::<i64>()]
    }

    fn records() -> impl Strategy<Value = Vec<PacketRecord>> {
        let row = (-2i64..400, time(), time());
        let record = row.prop_map(|(seq, sent, at)| PacketRecord::one_way(seq, WallTime(sent), WallTime(at)));
        prop::collection::vec(record, 0..300)
    }

    /// Width in columns; characters that may be wide count as wide.
    fn columns(line: &str) -> usize {
        line.chars()
            .map(|c| if c.is_ascii() || matches!(c, '\u{a0}' | 'µ' | '▁'..='█') { 1 } else { 2 })
            .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn is_one_screen(
            rows in prop::collection::vec(records(), 0..4),
            sent in prop_oneof![Just(None), (0u32..500).prop_map(Some), Just(Some(u32::MAX))],
            both: bool,
            two_way: bool,
            width in 0usize..120,
            unicode: bool,
            name in ".{0,40}",
            text in ".{0,400}",
        ) {
            let mut session = super::session(Direction::Up, 400);
            (session.sent, session.reason) = (sent, Some(text.clone()));
            if two_way {
                session.two_way = Some(Box::default());
            }
            let all: Vec<Measured> = rows.into_iter().map(|rows| Measured::of(&session, rows)).collect();
            let streams: Vec<ScreenStream<'_>> = all.iter().map(|m| m.stream(&name)).collect();
            let relation = if both { Relation::Directions } else { Relation::Separate };
            let screen = Screen::new(&streams, relation)
                .led_by(Level::Note, &text)
                .noting(&text)
                .logged_to(&[name.clone(), text.clone()])
                .followed_by(&text, &name);
            let page = screen.show(&text::TextOptions { width, unicode, ..text::TextOptions::default() });
            prop_assert!(page.lines().count() <= MAX_ROWS, "{page}");
            for line in page.lines() {
                prop_assert!(columns(line) <= width.clamp(60, 80), "{line}");
                prop_assert!(!line.chars().any(char::is_control), "{line}");
            }
        }
    }
}
