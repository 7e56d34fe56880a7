//! Screens of a path rendered from events in virtual time.

use super::{PATH_KEYS, PathBoard, PathScreenState, PathTab, PathViewing, draw};
use crate::look::Look;
use crate::selection::ViewerRequest;
use jitlat_core::path::{Label, PathEnd, ProbeReply};
use jitlat_core::path_history::{FlowNumber, PathEvent, PathHistory, Probe};
use jitlat_core::{Dscp, Span, SteadyTime, WallTime};
use jitlat_net::names::AddressNames;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::HashMap;
use std::net::IpAddr;

const FULL: Look = Look { colour: true, unicode: true };
const PLAIN: Look = Look { colour: false, unicode: true };
const ASCII: Look = Look { colour: false, unicode: false };

fn at(ms: i64) -> SteadyTime {
    SteadyTime(0) + Span::millis(ms)
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Router of a flow at a hop in a round; 0: no answer. The second hop has two routers, the third answers two of four probes,
/// the fourth never answers, and the router of the fifth hop changes in round 30.
fn router(flow: FlowNumber, ttl: u8, round: i64) -> u8 {
    match ttl {
        2 if flow == 2 => 22,
        3 if round % 4 >= 2 => 0,
        4 => 0,
        5 if round >= 30 => 55,
        6.. => 99,
        ttl => ttl,
    }
}

/// A path after this many rounds, one per second.
fn board(rounds: i64, flows: FlowNumber) -> (PathBoard, SteadyTime) {
    let mut history = PathHistory::new(Span::seconds(2));
    let mut number = 0;
    for round in 0..rounds {
        let flow = (round % i64::from(flows)) as FlowNumber + 1;
        for ttl in 1..=6 {
            let sent = round * 1000 + i64::from(ttl) * 20;
            let wall = WallTime(1_763_697_000_000_000_000 + sent * 1_000_000);
            let probe = Probe { number, ttl, flow };
            number += 1;
            history.event(&PathEvent::Sent(probe), at(sent), wall);
            let last = router(flow, ttl, round);
            if last == 0 || (round == 17 && ttl >= 5) {
                continue;
            }
            let rtt = Span::micros(i64::from(ttl) * 3000 + round * 7919 % 1000);
            let label = Label { label: 24_000, traffic_class: 5, bottom: true, ttl: 1 };
            let reply = ProbeReply {
                from: address(last),
                flow,
                rtt,
                traffic_class: Some(if ttl < 5 { 0xb8 } else { 0x20 }),
                labels: if ttl == 3 { vec![label] } else { Vec::new() },
                end: (ttl == 6).then_some(PathEnd::Destination),
                reported_by: None,
            };
            history.event(&PathEvent::Answered(probe, &reply), at(sent) + rtt, wall + rtt);
        }
        history.event(&PathEvent::Round(round as u32 + 1), at(round * 1000 + 150), WallTime(0));
    }
    let now = at(rounds * 1000);
    history.expire(now);
    let board = PathBoard {
        host: "server.example".to_owned(),
        probes: "UDP port 33434".to_owned(),
        dscp: "EF".parse::<Dscp>().unwrap(),
        flows,
        planned: None,
        history,
    };
    (board, now)
}

fn names() -> HashMap<IpAddr, AddressNames> {
    let known = |name: Option<&str>, origin: Option<&str>| AddressNames {
        name: name.map(str::to_owned),
        origin: origin.map(str::to_owned),
    };
    HashMap::from([
        (address(1), known(Some("gateway.example"), None)),
        (address(2), known(Some("core1.provider.example"), Some("AS64500"))),
        (address(5), known(None, Some("AS64511"))),
        (address(99), known(Some("server.example"), None)),
    ])
}

fn picture(
    (board, now): &(PathBoard, SteadyTime),
    viewing: &PathViewing,
    look: Look,
    size: [u16; 2],
) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size[0], size[1])).unwrap();
    let names = names();
    let drawn = terminal.draw(|frame| {
        let mut buffer = Buffer::empty(frame.area());
        draw(&PathScreenState { board, viewing, names: &names, look, now: *now }, &mut buffer);
        *frame.buffer_mut() = buffer;
    });
    drawn.unwrap();
    if !look.colour {
        let coloured = |cell: &ratatui::buffer::Cell| cell.fg != ratatui::style::Color::Reset;
        assert!(!terminal.backend().buffer().content.iter().any(coloured), "a colour");
    }
    let text = terminal.backend().to_string();
    assert!(look.unicode || text.is_ascii(), "{text}");
    text
}

fn pressed(viewing: &mut PathViewing, (board, now): &(PathBoard, SteadyTime), keys: &[KeyCode]) {
    for key in keys {
        viewing.key(KeyEvent::new(*key, KeyModifiers::NONE), &board.history, *now);
    }
}

#[test]
fn the_table_of_hops() {
    let shown = board(40, 1);
    let mut viewing = PathViewing::default();
    insta::assert_snapshot!("path_hops_80", picture(&shown, &viewing, FULL, [80, 24]));
    pressed(&mut viewing, &shown, &[KeyCode::Down, KeyCode::Down, KeyCode::Char('n')]);
    insta::assert_snapshot!("path_hops_120", picture(&shown, &viewing, PLAIN, [120, 30]));
    pressed(&mut viewing, &shown, &[KeyCode::PageDown]);
    insta::assert_snapshot!("path_hops_60", picture(&shown, &viewing, ASCII, [60, 20]));
}

#[test]
fn routers_of_several_flows() {
    let shown = board(40, 3);
    let viewing = PathViewing { hop: 1, ..PathViewing::default() };
    insta::assert_snapshot!("path_flows", picture(&shown, &viewing, FULL, [100, 24]));
}

#[test]
fn a_hop_over_time_and_the_changes_of_the_route() {
    let shown = board(40, 1);
    let mut viewing = PathViewing::default();
    pressed(&mut viewing, &shown, &[KeyCode::Char('2'), KeyCode::PageDown]);
    insta::assert_snapshot!("path_history", picture(&shown, &viewing, FULL, [80, 24]));
    let window = |viewing: &PathViewing| viewing.window(&shown.0.history, shown.1).map(|ns| ns / 100_000_000);
    assert_eq!(window(&viewing), [0, 399]);
    pressed(&mut viewing, &shown, &[KeyCode::Char('+'), KeyCode::Left, KeyCode::Left]);
    assert_eq!(window(&viewing), [99, 299]);
    pressed(&mut viewing, &shown, &[KeyCode::Char('0'), KeyCode::Tab]);
    let text = picture(&shown, &viewing, FULL, [80, 12]);
    assert!(text.contains("hop 5: 192.0.2.55 instead of 192.0.2.5 AS64511"), "{text}");
    assert!(text.contains("3 Changes (1)"), "{text}");
}

/// Probes without an answer are red only if they may be lost on the path.
#[test]
fn silence_of_a_router_is_not_called_loss() {
    let shown = board(40, 1);
    let text = picture(&shown, &PathViewing::default(), FULL, [80, 24]);
    assert!(text.contains("hops 3, 4: silence, not loss (later hops answer more probes)"), "{text}");
    let lossless = board(10, 1);
    let text = picture(&lossless, &PathViewing::default(), FULL, [80, 24]);
    let row = text.lines().find(|line| line.contains("server.example  ") && line.contains("  6 ")).unwrap();
    assert!(row.contains(" 0.0 "), "{row}");
}

#[test]
fn any_size_and_any_key_at_any_time() {
    let empty = PathBoard { history: PathHistory::new(Span::seconds(2)), ..board(0, 1).0 };
    for shown in [(empty, at(0)), board(1, 1), board(40, 3)] {
        let mut viewing = PathViewing::default();
        for (k, size) in [[1, 1], [39, 9], [40, 10], [60, 12], [80, 24], [200, 60]].into_iter().enumerate() {
            for key in "1234n?+-0q\t".chars().cycle().skip(k).take(40) {
                let code = if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) };
                pressed(&mut viewing, &shown, &[code, KeyCode::Left, KeyCode::Down]);
                picture(&shown, &viewing, [FULL, PLAIN, ASCII][k % 3], size);
            }
        }
    }
    let mut viewing = PathViewing::default();
    let (board, now) = board(1, 1);
    let mut end = |code, modifiers| viewing.key(KeyEvent::new(code, modifiers), &board.history, now);
    assert_eq!(end(KeyCode::Char('q'), KeyModifiers::NONE), Some(ViewerRequest::End));
    assert_eq!(end(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(ViewerRequest::End));
    assert_eq!(viewing.tab, PathTab::Hops);
}

#[test]
fn the_guide_shows_the_screen_and_the_keys() {
    let guide = include_str!("../../../../docs/guide/path.md");
    let drawn = picture(&board(40, 1), &PathViewing::default(), FULL, [80, 24]);
    let lines = drawn.lines().map(|line| line.trim_matches('"').trim_end());
    let screen = lines.collect::<Vec<_>>().join("\n");
    assert!(guide.contains(&format!("```text\n{screen}\n```")), "the guide's picture is not this:\n{screen}");
    for (keys, what) in PATH_KEYS {
        assert!(guide.contains(&format!("| `{keys}` | {what} |")), "{keys}");
    }
}
