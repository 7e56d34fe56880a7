//! Prints the screen of a simulated test, drawn into a buffer: no terminal is needed.

use jitlat_core::observer::Event;
use jitlat_core::{PacketRecord, Session, Span, SteadyTime, TestSpec, WallTime};
use jitlat_tui::{Board, Look, ScreenState, Viewing, draw};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

fn main() {
    let mut board = Board::of_hosts(["server.example"]);
    let (begun, now) = (SteadyTime(0), SteadyTime(0) + Span::seconds(10));
    let session = Session::new(TestSpec::default());
    let delay = |k: i64| 12_000_000 + (k * 7919 % 1000) * 4000;
    let records: Vec<PacketRecord> = (0..500)
        .filter(|k| k % 50 != 7)
        .map(|k| PacketRecord::one_way(k, WallTime(k * 20_000_000), WallTime(k * 20_000_000 + delay(k))))
        .collect();
    board.targets[0].event(&Event::Started(&[session]), begun);
    board.targets[0].event(&Event::Arrived { stream: 0, records: &records }, now);

    let mut picture = Buffer::empty(Rect::new(0, 0, 80, 24));
    let look = Look { colour: false, unicode: true };
    draw(&ScreenState { board: &board, viewing: &Viewing::new(1), look, summaries: &[], now }, &mut picture);
    for row in picture.content.chunks(80) {
        println!("{}", row.iter().map(Cell::symbol).collect::<String>().trim_end());
    }
}
