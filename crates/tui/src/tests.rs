//! Screens rendered from events in virtual time.

use super::Board;
use super::look::Look;
use super::screen::{self, ScreenState};
use super::selection::ViewerRequest;
use super::viewing::{ViewTab, Viewing};
use jitlat_core::distribution::Precision;
use jitlat_core::live::LivePhase;
use jitlat_core::live::LiveState;
use jitlat_core::live::{StreamState, summary};
use jitlat_core::observer::{Event, StreamProgress};
use jitlat_core::record::Moment;
use jitlat_core::session::HostFacts;
use jitlat_core::so_far::{ReceivedSoFar, SoFar};
use jitlat_core::twoway::TwoWay;
use jitlat_core::{
    ClockProbe, Direction, PacketRecord, Schedule, Session, Span, SteadyTime, Summary, SyncState, TestSpec,
    Transport, WallTime,
};
use jitlat_core::{Stamp, StampSource};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const FULL: Look = Look { colour: true, unicode: true };
const PLAIN: Look = Look { colour: false, unicode: true };
const ASCII: Look = Look { colour: false, unicode: false };

/// Start of the tests in this file, ns since 1970.
const EPOCH: i64 = 1_763_697_001_000_000_000;
const PERIOD: i64 = 20_000_000;

fn session(direction: Direction, packets: u64) -> Session {
    let spec =
        TestSpec::new(direction, Transport::Udp, packets, 80, Span(PERIOD), Schedule::Periodic).unwrap();
    let sync = SyncState {
        synchronised: true,
        estimated_error: Span::micros(12),
        maximum_error: Span::millis(3),
        offset: Span::ZERO,
        frequency_ppb: 0,
    };
    let host = |name: &str, sync| HostFacts {
        name: Some(name.to_owned()),
        system: Some("Linux 6.18".to_owned()),
        clock_source: Some("tsc".to_owned()),
        sync_before: sync,
        ..HostFacts::default()
    };
    let at = |us: i64| WallTime(EPOCH - 1_000_000_000 + us * 1000);
    Session {
        client: host("near", Some(sync)),
        server: host("far", None),
        // The server's clock is 5 ms ahead; a round trip takes 20 ms.
        probes: vec![ClockProbe {
            sent: at(0),
            arrived: at(15_000),
            answered: at(15_010),
            returned: at(20_010),
        }],
        ..Session::new(spec)
    }
}

/// Delay of packet `k` minus the clock offset, ns; `None` if it is lost: between seconds 8 and 10, and occasionally.
fn delay(k: i64) -> Option<i64> {
    let lost = (400..500).contains(&k) || k % 97 == 13;
    let wave = ((k as f64 / 40.0).sin() * 3e6) as i64 + (k * 7919 % 1000) * 1500;
    (!lost).then_some(12_000_000 + wave)
}

fn record(k: i64, shift: i64) -> Option<PacketRecord> {
    let sent = EPOCH + k * PERIOD;
    Some(PacketRecord::one_way(k, WallTime(sent), WallTime(sent + delay(k)? + shift)))
}

fn at(ms: i64) -> SteadyTime {
    SteadyTime(0) + Span::millis(ms)
}

/// Board of a test of both directions, `seconds` after its start.
fn both(seconds: i64) -> (Board, SteadyTime) {
    let mut board = Board::of_hosts(["server.example"]);
    let state = &mut board.targets[0];
    let sessions = [session(Direction::Up, 1000), session(Direction::Down, 1000)];
    state.event(&Event::Connecting("192.0.2.7:2666".parse().unwrap()), at(-900));
    state.event(&Event::Started(&sessions), at(0));
    let mut far = SoFar::new(Precision::FLOW);
    let mut arrived = 0;
    for second in 0..seconds {
        let numbers = second * 50..(second + 1) * 50;
        for record in numbers.clone().filter_map(|k| record(k, 5_000_000)) {
            far.push(&record, record.delay());
            arrived = record.seq;
        }
        let records: Vec<PacketRecord> = numbers.filter_map(|k| record(k, -5_000_000)).collect();
        let now = at((second + 1) * 1000);
        state.event(&Event::Arrived { stream: 1, records: &records }, now);
        let silence = Some(Span(((second + 1) * 50 - arrived) * PERIOD));
        let so_far = ReceivedSoFar { silence, ..far.take() };
        state.event(&Event::FarReceived { stream: 0, so_far: &so_far }, now);
        let sent = ((second + 1) * 50) as u32;
        let up = StreamProgress { packets: 1000, sent, ..StreamProgress::default() };
        let down = StreamProgress { packets: 1000, received: sent, ..StreamProgress::default() };
        state.event(&Event::Progress(&[up, down]), now);
    }
    (board, at(seconds * 1000))
}

fn pressed(viewing: &mut Viewing, board: &Board, now: SteadyTime, keys: &[KeyCode]) {
    for key in keys {
        viewing.key(KeyEvent::new(*key, KeyModifiers::NONE), board, now);
    }
}

fn chars(keys: &str) -> Vec<KeyCode> {
    keys.chars().map(KeyCode::Char).collect()
}

/// Renders a board on a terminal of this size.
fn picture(
    (board, now): &(Board, SteadyTime),
    viewing: &Viewing,
    look: Look,
    [width, height]: [u16; 2],
) -> String {
    let analyses = board.target(viewing.target).map(|state| state.streams.iter().map(StreamState::analysis));
    let summaries: Vec<Option<Summary>> =
        analyses.into_iter().flatten().map(|analysis| analysis.map(summary)).collect();
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let drawn = terminal.draw(|frame| {
        let mut buffer = Buffer::empty(frame.area());
        let shown = ScreenState { board, viewing, look, summaries: &summaries, now: *now };
        screen::draw(&shown, &mut buffer);
        *frame.buffer_mut() = buffer;
    });
    drawn.unwrap();
    if !look.colour {
        let coloured = |cell: &ratatui::buffer::Cell| cell.fg != ratatui::style::Color::Reset;
        assert!(!terminal.backend().buffer().content.iter().any(coloured), "a colour");
    }
    let text = terminal.backend().to_string();
    if !look.unicode {
        assert!(text.is_ascii(), "{text}");
    }
    text
}

#[test]
fn both_directions_over_time() {
    let shown = both(12);
    let viewing = Viewing::new(1);
    insta::assert_snapshot!("overview_80", picture(&shown, &viewing, FULL, [80, 24]));
    insta::assert_snapshot!("overview_120", picture(&shown, &viewing, FULL, [120, 40]));
    insta::assert_snapshot!("overview_60", picture(&shown, &viewing, PLAIN, [60, 20]));
    insta::assert_snapshot!("overview_ascii", picture(&shown, &viewing, ASCII, [80, 24]));
}

#[test]
fn every_page() {
    let shown = both(12);
    let mut viewing = Viewing::new(1);
    for (key, name) in [("2", "distribution"), ("3", "figures"), ("4", "hosts"), ("?", "help")] {
        pressed(&mut viewing, &shown.0, shown.1, &chars(key));
        insta::assert_snapshot!(name, picture(&shown, &viewing, FULL, [80, 24]));
    }
}

#[test]
fn figures_of_a_stream_that_arrives_elsewhere_are_those_the_far_host_reports() {
    let shown = both(12);
    let mut viewing = Viewing::new(1);
    pressed(&mut viewing, &shown.0, shown.1, &chars("3"));
    for (size, name) in [([120, 40], "figures_120"), ([60, 20], "figures_60")] {
        insta::assert_snapshot!(name, picture(&shown, &viewing, PLAIN, size));
    }
    let text = picture(&shown, &viewing, FULL, [80, 160]);
    let row = |label: &str| text.lines().find(|line| line.contains(label)).unwrap().to_owned();
    // Both streams lose the same packets, so the figures known for both are equal.
    for label in ["packets sent", "unique and valid", "lost packets", "loss runs", "longest loss"] {
        let row = row(label);
        let values: Vec<&str> = row.trim_matches('"').split_whitespace().rev().take(2).collect();
        assert!(values[0] == values[1] && values[0].parse::<u64>().is_ok(), "{row}");
    }
    assert!(row("IPDV mean").contains("at the end"), "{text}");
}

#[test]
fn nothing_received_is_said_at_once() {
    let (mut board, _) = both(9);
    let viewing = Viewing::new(1);
    let text = picture(&(board.clone(), at(9200)), &viewing, FULL, [80, 24]);
    assert!(!text.contains("nothing received"), "{text}");
    let text = picture(&(board.clone(), at(10_100)), &viewing, FULL, [80, 24]);
    assert!(text.contains("up: nothing received for 2.1 s"), "{text}");
    assert!(text.contains("down: nothing received for 2.1 s"), "{text}");
    // The classic protocol cannot report received packets; the view shows a remark.
    board.targets[0].streams[0].session.classic = true;
    let mut classic = Board::of_hosts(["old"]);
    let session = Session { classic: true, ..session(Direction::Up, 100) };
    classic.targets[0].event(&Event::Started(&[session]), at(0));
    let text = picture(&(classic, at(500)), &viewing, FULL, [80, 24]);
    assert!(text.contains("available at the end (not reported by the classic protocol)"), "{text}");
}

#[test]
fn a_running_test_can_be_scrolled_back() {
    let shown = both(12);
    let (board, now) = (&shown.0, shown.1);
    let mut viewing = Viewing::new(1);
    let window = |viewing: &Viewing| viewing.window(board, now).map(|ns| ns as f64 / 1e9);
    assert_eq!(window(&viewing), [0.0, 12.0]);
    pressed(&mut viewing, board, now, &chars("++"));
    assert_eq!(window(&viewing), [9.0, 12.0], "the end is followed");
    pressed(&mut viewing, board, now, &[KeyCode::Left, KeyCode::Left]);
    assert_eq!(window(&viewing), [7.5, 10.5]);
    pressed(&mut viewing, board, now, &[KeyCode::Home]);
    assert_eq!(window(&viewing), [0.0, 3.0]);
    pressed(&mut viewing, board, now, &chars("-"));
    assert_eq!(window(&viewing), [0.0, 6.0]);
    pressed(&mut viewing, board, now, &[KeyCode::End]);
    assert_eq!((window(&viewing), viewing.end), ([6.0, 12.0], None));
    pressed(&mut viewing, board, now, &chars("+,,"));
    insta::assert_snapshot!("cursor", picture(&shown, &viewing, FULL, [80, 24]));
    pressed(&mut viewing, board, now, &chars("0"));
    pressed(&mut viewing, board, now, &[KeyCode::Esc]);
    assert_eq!(viewing, Viewing::new(1));
    let end = |code, modifiers| Viewing::new(1).key(KeyEvent::new(code, modifiers), board, now);
    assert_eq!(end(KeyCode::Char('q'), KeyModifiers::NONE), Some(ViewerRequest::End));
    assert_eq!(end(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(ViewerRequest::End));
    assert_eq!(end(KeyCode::Char('c'), KeyModifiers::NONE), None);
}

fn round_trips(name: &str, delay: i64, lost: i64) -> LiveState {
    let mut state = LiveState::new(name);
    let two_way = TwoWay { protocol: "icmp".to_owned(), ..TwoWay::default() };
    let session = Session { two_way: Some(Box::new(two_way)), ..session(Direction::Up, 100) };
    state.event(&Event::Started(&[session]), at(0));
    let answers = (0..50).filter(|k| k % 10 >= lost).map(|k| {
        let (sent, mut record) = (EPOCH + k * PERIOD, PacketRecord::new(k));
        let stamp = |at| Stamp { at: WallTime(at), source: StampSource::Kernel };
        record.set(Moment::Sent, stamp(sent));
        record.set(Moment::Returned, stamp(sent + delay + k % 7 * 100_000));
        record
    });
    let answers: Vec<PacketRecord> = answers.collect();
    state.event(&Event::Arrived { stream: 0, records: &answers }, at(1000));
    let (sent, received) = (50, answers.len() as u32);
    let progress = StreamProgress { packets: 100, sent, received, missing: sent - received };
    state.event(&Event::Progress(&[progress]), at(1000));
    state
}

#[test]
fn targets_are_sorted_and_their_errors_said() {
    let mut gone = LiveState::new("nowhere.example");
    gone.phase = LivePhase::Failed("cannot find an address of nowhere.example".to_owned());
    let near = round_trips("a.example", 1_000_000, 0);
    let lossy = round_trips("b.example", 30_000_000, 3);
    let far = round_trips("c.example", 180_000_000, 0);
    let board = Board { targets: vec![far, near, gone, lossy, LiveState::new("d.example")], saved: false };
    let shown = (board, at(1100));
    let mut viewing = Viewing::new(5);
    insta::assert_snapshot!("targets_80", picture(&shown, &viewing, FULL, [80, 12]));
    insta::assert_snapshot!("targets_24_rows", picture(&shown, &viewing, FULL, [80, 24]));
    insta::assert_snapshot!("targets_60", picture(&shown, &viewing, PLAIN, [60, 12]));
    pressed(&mut viewing, &shown.0, shown.1, &chars("ssr"));
    assert_eq!(shown.0.order(viewing.sort, viewing.falling)[0], 3, "the lossy one comes first");
    assert_eq!(viewing.target, 0);
    pressed(&mut viewing, &shown.0, shown.1, &[KeyCode::PageUp, KeyCode::Enter]);
    assert_eq!((viewing.target, viewing.tab), (3, ViewTab::Overview));
    let text = picture(&shown, &viewing, FULL, [80, 24]);
    assert!(text.contains("b.example") && text.contains("round-trip time"), "{text}");
}

#[test]
fn an_hour_takes_bounded_memory() {
    let mut state = LiveState::new("hour");
    state.event(&Event::Started(&[session(Direction::Down, 180_000)]), at(0));
    let mut sizes = Vec::new();
    for second in 0..3600 {
        let numbers = second * 50..(second + 1) * 50;
        let records: Vec<PacketRecord> = numbers.filter_map(|k| record(k, 0)).collect();
        state.event(&Event::Arrived { stream: 0, records: &records }, at((second + 1) * 1000));
        if second % 900 == 899 {
            sizes.push(state.streams[0].history.end() / state.streams[0].history.step());
        }
    }
    assert!(sizes.iter().all(|buckets| *buckets <= 1 << 14), "{sizes:?}");
    let board = Board { targets: vec![state], saved: false };
    let figures = board.targets[0].streams[0].figures().unwrap();
    assert_eq!(figures.received + figures.missing, 180_000);
    let text = picture(&(board, at(3_600_000)), &Viewing::new(1), FULL, [120, 40]);
    assert!(text.contains("1.00 h") || text.contains("60.0 min"), "{text}");
}

#[test]
fn any_size_and_any_key_at_any_time() {
    let boards = [(Board::of_hosts(["x"]), at(0)), both(1), both(12), (Board::of_hosts(["x", "y"]), at(5))];
    let keys = "1234567?+-0,.srq\t";
    for shown in &boards {
        let mut viewing = Viewing::new(shown.0.targets.len());
        for (k, size) in [[1, 1], [39, 9], [40, 10], [60, 12], [80, 24], [200, 60]].into_iter().enumerate() {
            for key in keys.chars().cycle().skip(k).take(40) {
                let code = if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) };
                pressed(&mut viewing, &shown.0, shown.1, &[code, KeyCode::Left, KeyCode::Down]);
                let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, size[0], size[1]));
                let look = [FULL, PLAIN, ASCII][k % 3];
                let shown =
                    ScreenState { board: &shown.0, viewing: &viewing, look, summaries: &[], now: shown.1 };
                screen::draw(&shown, &mut buffer);
            }
        }
    }
}

#[test]
fn the_guide_shows_the_screen_and_the_keys() {
    let guide = include_str!("../../../docs/guide/live.md");
    let drawn = picture(&both(12), &Viewing::new(1), FULL, [80, 24]);
    let lines = drawn.lines().map(|line| line.trim_matches('"').trim_end());
    let screen = lines.collect::<Vec<_>>().join("\n");
    assert!(guide.contains(&format!("```text\n{screen}\n```")), "the guide's picture is not this:\n{screen}");
    for (keys, what) in super::viewing::KEYS {
        assert!(guide.contains(&format!("| `{keys}` | {what} |")), "{keys}");
    }
}
