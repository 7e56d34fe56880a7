//! The console report: a summary as plain text for a terminal, a pipe or a mail.
//!
//! The classic report comes first, line by line in its established form (DRDC TM 2011-047, Figure 16); further sections
//! come below. Everything is plain ASCII in engineering units; an undefined figure is a `-`, never a number.
//!
//! * [`answers`] – the verdict: the first lines of a full report
//! * [`screen`] – the default: the result of a test on one screen
//! * [`report`] – the whole report of one direction; [`both`] – figures that need both directions
//! * [`connecting`], [`sending`], [`logged`], [`analysing`] – messages before and after a run
//! * [`comparison()`] – several runs in one table
//! * [`passive()`], [`tcp()`], [`calls()`], [`stream_traffic()`] – captured traffic; [`link_tables`] – sizes and delays
//!   of packets on a link
//! * [`outcome`] – scores of Quality of Outcome
//! * [`plots`] – plots in characters

mod answer;
mod bars;
mod calls;
mod class_paths;
mod classic;
pub mod comparison;
mod evidence;
mod link;
mod one_point;
pub mod outcome;
mod page;
mod passive;
mod path;
pub mod plots;
pub mod screen;
mod stream_traffic;
mod tcp;
mod two_way;
mod windows;

pub use two_way::{asking, is_one_host, two_way_remarks};
pub use windows::{window_head, window_line};

pub use answer::{answers, why};
pub use calls::calls;
pub use class_paths::class_paths;
pub use comparison::comparison;
pub use link::tables as link_tables;
pub use one_point::one_point;
pub use page::{Page, TextOptions, TextStyle, count};
pub use passive::{
    CAPTURE_COLUMNS, PassiveExtras, asked_tables, capture_row, captures, describe_band, passive,
};
pub use path::path;
pub use stream_traffic::stream_traffic;
pub use tcp::tcp;

use jitlat_core::session::Session;
use jitlat_core::spec::Direction;
use jitlat_core::summary::Summary;
use jitlat_core::units;
use page::{WordStyle, dash, mark, printable, share};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Returns the report of one direction of one test.
pub fn report(summary: &Summary, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    if summary.two_way.as_ref().is_some_and(|t| t.far_report.is_some()) {
        two_way::of_far_report(&mut page, summary);
        evidence::write_but_figures(&mut page, summary);
        return page.text;
    }
    classic::write(&mut page, summary, options.corrected);
    bars::write(&mut page, summary);
    windows::write(&mut page, summary);
    evidence::write(&mut page, summary);
    page.text
}

/// Returns only the windows of `--interval`, without those that begin at a time in `except`; empty if there are
/// none.
pub fn windows(summary: &Summary, except: &[i64], options: &TextOptions) -> String {
    let mut page = Page::new(options);
    windows::alone(&mut page, &summary.intervals, except);
    page.text
}

/// Returns a line with the sum of both directions' smallest latencies, in which the clock offset cancels. Empty
/// if either direction received nothing.
pub fn both(up: &Summary, down: &Summary, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    if let (Some(there), Some(back)) = (up.latency.min, down.latency.min) {
        page.heading("Both directions");
        let sum = i128::from(there) + i128::from(back);
        let sum = units::full(sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        page.item(&format!("smallest latency up + down = {sum}: the clock offset cancels in this sum"));
    }
    page.text
}

const UP: &str = "Up (client to server)";
const DOWN: &str = "Down (server to client)";

/// Returns the heading of a direction.
pub fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => UP,
        Direction::Down => DOWN,
    }
}

/// Shortens the heading of a direction to the name of its row; other labels are unchanged.
pub(crate) fn short_label(label: &str) -> &str {
    match label {
        UP => "up",
        DOWN => "down",
        label => label,
    }
}

/// Returns `Connecting to janus. ... `, to be followed by `Connected.` on the same line.
pub fn connecting(host: &str) -> String {
    format!("Connecting to {}. ... ", printable(host))
}

/// Returns `sending 10000 UDP pkts from 192.0.2.1:34519 to 192.0.2.2:2667`, from the sender's point of view; `receiving
/// …` in reverse. The payload size is not part of this message, but has its own line in the report (DRDC TM 2011-047,
/// A.1).
pub fn sending(session: &Session) -> String {
    let spec = &session.spec;
    format!(
        "{} {} {} pkts from {} to {}",
        if spec.direction() == Direction::Up { "sending" } else { "receiving" },
        session.packets(),
        spec.transport(),
        endpoint(session.src, spec.src_port),
        endpoint(session.dst, spec.dst_port),
    )
}

/// Returns `Data logged to jitlat.0faqgu`.
pub fn logged(log: &Path) -> String {
    format!("Data logged to {}", log.display())
}

/// Returns the two lines above the report of a saved log: its name and its date.
pub fn analysing(session: &Session) -> String {
    let spec = &session.spec;
    let date = session.date.clone().or_else(|| session.created.map(units::utc_date));
    if session.two_way.is_some() {
        let date = printable(date.as_deref().unwrap_or("date unknown"));
        return format!("Analysing {}\n# {date}\n", asking(session));
    }
    let passive = session.tags.iter().any(|(k, v)| k == "instrument" && v == jitlat_core::session::PASSIVE);
    format!(
        "Analysing {} {} pkts from {} to {}\n# {}\n",
        session.packets(),
        if passive { "captured".to_owned() } else { spec.transport().to_string() },
        endpoint(session.src, spec.src_port),
        endpoint(session.dst, spec.dst_port),
        printable(date.as_deref().unwrap_or("date unknown")),
    )
}

fn endpoint(ip: Option<IpAddr>, port: u16) -> String {
    ip.map_or_else(|| format!("-:{port}"), |ip| SocketAddr::new(ip, port).to_string())
}

/// Formats a number above 0 with this many digits, or more if it would be rounded to 0: the lower end of an interval of
/// loss is never 0.
fn above_zero(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if digits < 9 && text.bytes().all(|c| matches!(c, b'0' | b'.')) {
        return above_zero(value, digits + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::TestSpec;

    #[test]
    fn lines_around_a_run() {
        let mut session = Session::new(TestSpec::default());
        session.src = Some("192.0.2.1".parse().unwrap());
        session.dst = Some("2001:db8::2".parse().unwrap());
        session.date = Some("Tue Dec 8 15:06:22 UTC 2009".into());
        assert_eq!(connecting("janus"), "Connecting to janus. ... ");
        assert_eq!(sending(&session), "sending 1000 UDP pkts from 192.0.2.1:0 to [2001:db8::2]:2667");
        assert_eq!(
            analysing(&session),
            "Analysing 1000 UDP pkts from 192.0.2.1:0 to [2001:db8::2]:2667\n# Tue Dec 8 15:06:22 UTC 2009\n"
        );
        session.src = None;
        assert!(sending(&session).contains("from -:0 to"));
    }

    #[test]
    fn a_lower_end_above_zero_is_not_printed_as_zero() {
        let of = [(1.234, 1), (0.04, 1), (0.04, 2), (0.000_31, 2), (12.0, 0)]
            .map(|(x, digits)| above_zero(x, digits));
        assert_eq!(of, ["1.2", "0.04", "0.04", "0.0003", "12"]);
    }

    #[test]
    fn a_log_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a?[2Jb?c");
    }

    #[test]
    fn statements_wrap_between_words() {
        let mut page = Page::new(&TextOptions { width: 40, ..TextOptions::default() });
        page.item("one two three four five six seven eight nine ten");
        assert_eq!(page.text, "    one two three four five six seven\n      eight nine ten\n");
        assert!(page.text.lines().all(|l| l.len() <= 40));
    }
}
