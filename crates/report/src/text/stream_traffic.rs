//! Capture of a test's own stream on this host.

use jitlat_core::spec::Direction;
use jitlat_core::units::eng4;
use jitlat_passive::StreamTraffic;
use jitlat_passive::tcp::{DelayCause, DelayCauses};
use std::fmt::Write as _;
use std::path::Path;

/// Formats the captured packets, and the causes of delay that they reveal. `saved` is the file that contains
/// the packets.
pub fn stream_traffic(s: &StreamTraffic, saved: Option<&Path>) -> String {
    let mut text = format!("\nThe stream on interface {} of this host\n", s.interface);
    // Writing to a string cannot fail.
    for (counts, name) in [(s.sent, "sent"), (s.received, "received")] {
        if counts.packets > 0 {
            let _ = writeln!(text, "  {} packets {name}, {} bytes", counts.packets, counts.ip_bytes);
        }
        if counts.fragments > 0 {
            let n = counts.fragments;
            let _ = writeln!(text, "  of these, {n} fragments: the packets exceed the path MTU");
        }
    }
    if !s.tcp.first.connections.is_empty() {
        text.push_str(&super::tcp(&s.tcp, 0));
    }
    s.delays.iter().for_each(|(direction, causes)| delay_causes(&mut text, *direction, causes));
    if let Some(file) = saved {
        let _ = writeln!(text, "  saved in {}", file.display());
    }
    s.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    text
}

fn delay_causes(t: &mut String, direction: Direction, e: &DelayCauses) {
    let which = if direction == Direction::Up { "up" } else { "down" };
    let _ = writeln!(
        t,
        "\nCauses of delay, {which}: {} of latency above the minimum, of {} packets\n  {:<47}{:>8}{:>9}{:>11}",
        eng4(e.above_minimum_ns),
        e.packets,
        "",
        "mostly",
        "share",
        "longest"
    );
    for c in &e.causes {
        let what = match c.cause {
            DelayCause::WindowFull => "waited in this host: the receiver's window was full",
            DelayCause::Sender => "waited in this host for another reason",
            DelayCause::Fast => "retransmitted after duplicate acknowledgements",
            DelayCause::Timeout => "retransmitted after silence",
            DelayCause::Behind => "waited behind retransmitted data",
            DelayCause::Receiver => "read late on this host",
            DelayCause::Path => "the path and the far host",
        };
        let share = c.share.map_or("-".to_owned(), |s| format!("{:.1} %", 100.0 * s));
        let _ = writeln!(t, "  {what:<47}{:>8}{share:>9}{:>11}", c.packets, eng4(c.longest_ns));
    }
}
