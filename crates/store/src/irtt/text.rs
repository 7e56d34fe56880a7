//! The text of irtt's client: a line per reply, and the table at the end.
//!
//! The rows about the program itself (time of the send calls, error of the timer) are left out.

use super::{DurationStats, ExportedTest, Three};
use jitlat_core::record::Moment;
use jitlat_core::twoway::round_trip;
use jitlat_core::{PacketRecord, Session};
use std::fmt::Write;

/// Formatter of the replies of a test as they arrive.
#[derive(Debug, Default)]
pub struct ReplyLines {
    /// True if the far host's times are readings of its clock.
    pub far_clock: bool,
    /// Sequence number and delays of the previous reply.
    previous: Option<(i64, Three)>,
    /// Sequence numbers of the replies so far, by which duplicates are recognised.
    answered: std::collections::BTreeSet<i64>,
}

impl ReplyLines {
    /// Creates the formatter of a test. `far_clock` is true if the far host's times are readings of its clock.
    pub fn new(far_clock: bool) -> ReplyLines {
        ReplyLines { far_clock, ..ReplyLines::default() }
    }

    /// Returns the line of the next reply.
    pub fn line(&mut self, record: &PacketRecord) -> String {
        let seq = record.seq;
        if !self.answered.insert(seq) {
            return format!("DUP! seq={seq}\n");
        }
        let late = self.previous.is_some_and(|(previous, _)| seq < previous);
        let delay = delays(record, self.far_clock);
        let known = self.previous.filter(|(previous, _)| seq == previous + 1);
        let ipdv = known.and_then(|(_, before)| delay.minus(before).rtt);
        self.previous = Some((seq, delay));
        let mut line = format!("seq={seq} rtt={}", delay.rtt.map_or_else(|| "n/a".to_owned(), duration));
        for (name, delay) in [("rd", delay.receive), ("sd", delay.send)] {
            delay.into_iter().for_each(|delay| line += &format!(" {name}={}", duration(delay)));
        }
        let ipdv = ipdv.map_or_else(|| "n/a".to_owned(), |ipdv| duration(ipdv.saturating_abs()));
        line + &format!(" ipdv={ipdv}") + if late { " (LATE)\n" } else { "\n" }
    }
}

/// Returns the table at the end of the test `session` with its `records`, in order of arrival.
pub fn table(session: &Session, records: &[PacketRecord]) -> String {
    let test = ExportedTest::new(session, records.iter().copied());
    let stats = test.stats(&test.round_trips());
    let rows: [Option<(&str, &DurationStats, bool)>; 9] = [
        Some(("RTT", &stats.rtt, true)),
        Some(("send delay", &stats.send_delay, true)),
        Some(("receive delay", &stats.receive_delay, true)),
        None,
        Some(("IPDV (jitter)", &stats.ipdv_round_trip, true)),
        Some(("send IPDV", &stats.ipdv_send, true)),
        Some(("receive IPDV", &stats.ipdv_receive, true)),
        None,
        Some(("server proc. time", &stats.server_processing_time, false)),
    ];
    let names = ["", "Min", "Mean", "Median", "Max", "Stddev"];
    let under = names.map(|name| "-".repeat(name.len()));
    let mut cells: Vec<[String; 6]> = vec![names.map(str::to_owned), under];
    for row in rows {
        cells.push(match row {
            None => Default::default(),
            Some((_, stats, _)) if stats.n == 0 => continue,
            Some((name, stats, has_median)) => {
                let median = if has_median { duration(stats.median) } else { String::new() };
                let [min, mean, max, stddev] = [stats.min, stats.mean, stats.max, stats.stddev].map(duration);
                [name.to_owned(), min, mean, median, max, stddev]
            }
        });
    }
    let mut out = String::new();
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = cells.iter().map(|row| row[column].chars().count());
        // The labels have the width that irtt's longest label gives them.
        cells.max().unwrap_or(0).max(if column == 0 { "server proc. time".len() } else { 0 }) + 2
    });
    for row in &cells {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "{}", cells.collect::<String>());
    }
    out.push('\n');
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:>24}: {value}");
    };
    let percent =
        |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |percent| format!("{percent:.2}%"));
    line("duration", duration(stats.duration));
    line(
        "packets sent/received",
        format!("{}/{} ({:.2}% loss)", stats.packets_sent, stats.packets_received, stats.packet_loss_percent),
    );
    if let Some(arrived) = stats.server_packets_received {
        let (up, down) = (percent(stats.upstream_loss_percent), percent(stats.downstream_loss_percent));
        line(
            "server packets received",
            format!("{arrived}/{} ({up}/{down} loss up/down)", stats.packets_sent),
        );
    }
    for (name, count, percent) in [
        ("*** DUPLICATES", stats.duplicates, stats.duplicate_percent),
        ("late (out-of-order) pkts", stats.late_packets, stats.late_packets_percent),
    ] {
        if count > 0 {
            line(name, format!("{count} ({percent:.2}%)"));
        }
    }
    line("bytes sent/received", format!("{}/{}", stats.bytes_sent, stats.bytes_received));
    line("send/receive rate", format!("{} / {}", stats.send_rate.string, stats.receive_rate.string));
    line("packet length", format!("{} bytes", session.spec.payload()));
    out
}

/// Returns the lines of `irtt client -r`: number, round trip, receive and send delay and delay variation in ms, and
/// whether the reply is a duplicate or late. Unknown values are `NaN`.
pub fn raw(session: &Session, records: &[PacketRecord]) -> String {
    let far_clock = session.two_way.as_ref().is_some_and(|facts| facts.far_clock);
    let mut seen = std::collections::BTreeSet::new();
    let mut previous: Option<(i64, Three)> = None;
    let mut out = String::new();
    let ms = |ns: Option<i64>| ns.map_or_else(|| "NaN".to_owned(), |ns| format!("{:.6}", ns as f64 / 1e6));
    for record in records.iter().filter(|record| record.time(Moment::Returned).is_some()) {
        let seq = record.seq;
        if !seen.insert(seq) {
            let _ = writeln!(out, "{seq} NaN NaN NaN NaN 1 NaN");
            continue;
        }
        let delay = delays(record, far_clock);
        let before = previous.filter(|(before, _)| before + 1 == seq);
        let ipdv = before.and_then(|(_, before)| delay.minus(before).rtt);
        let late = u8::from(previous.is_some_and(|(before, _)| seq < before));
        previous = Some((seq, delay));
        let [rtt, receive, send, ipdv] = [delay.rtt, delay.receive, delay.send, ipdv].map(ms);
        let _ = writeln!(out, "{seq} {rtt} {receive} {send} {ipdv} 0 {late}");
    }
    out
}

/// Returns the delays of a reply; those of one direction only if `far_clock`.
fn delays(record: &PacketRecord, far_clock: bool) -> Three {
    let between = |from, to| {
        let (from, to) = (record.time(from)?, record.time(to)?);
        to.checked_since(from).filter(|_| far_clock).map(|span| span.0)
    };
    Three {
        receive: between(Moment::Answered, Moment::Returned),
        rtt: round_trip(record).map(|span| span.0),
        send: between(Moment::Sent, Moment::Arrived),
    }
}

/// Formats a time in ns with three or four digits, as irtt does.
fn duration(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let step: u64 = match size {
        0..1_000 => 1,
        1_000..10_000 => 10,
        10_000..100_000 => 100,
        100_000..1_000_000 => 1_000,
        1_000_000..100_000_000 => 10_000,
        100_000_000..1_000_000_000 => 100_000,
        1_000_000_000..10_000_000_000 => 10_000_000,
        _ => 100_000_000,
    };
    let rounded = (size.saturating_add(step / 2)) / step * step;
    let sign = if ns < 0 { "-" } else { "" };
    let (unit, symbol) = match rounded {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => return format!("{sign}{}", whole_seconds(rounded)),
    };
    format!("{sign}{}{symbol}", decimal(rounded, unit))
}

/// Formats a time of at least one second, in the form `1h2m3.4s`.
fn whole_seconds(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let (hours, minutes) = (ns / (3600 * SECOND), ns / (60 * SECOND) % 60);
    let seconds = decimal(ns % (60 * SECOND), SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Formats `value` in multiples of `unit`, without trailing zeros.
fn decimal(value: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let fraction = format!("{:0digits$}", value % unit);
    match fraction.trim_end_matches('0') {
        _ if unit == 1 => value.to_string(),
        "" => (value / unit).to_string(),
        fraction => format!("{}.{fraction}", value / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::irtt::tests::{answers, session};

    #[test]
    fn times_have_the_digits_of_irtt() {
        let printed =
            [0, 922, 4_600, 8_052, 28_540, 107_400, 1_734_000, 2_500_000, 381_140_000, 1_006_000_000]
                .map(duration);
        let expected =
            ["0s", "922ns", "4.6µs", "8.05µs", "28.5µs", "107µs", "1.73ms", "2.5ms", "381.1ms", "1.01s"];
        assert_eq!(printed, expected);
        assert_eq!([duration(-4_600), duration(61_000_000_000)], ["-4.6µs", "1m1s"]);
    }

    #[test]
    fn replies_have_the_lines_of_irtt() {
        let mut lines = ReplyLines::new(true);
        let text: String = answers().iter().map(|record| lines.line(record)).collect();
        // 1 is lost, 3 arrives after 4, 2 arrives twice.
        let expected = "seq=0 rtt=120µs rd=70µs sd=50µs ipdv=n/a\n\
                        seq=2 rtt=140µs rd=80µs sd=60µs ipdv=n/a\n\
                        DUP! seq=2\n\
                        seq=4 rtt=150µs rd=100µs sd=50µs ipdv=n/a\n\
                        seq=3 rtt=160µs rd=70µs sd=90µs ipdv=n/a (LATE)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_table_is_that_of_irtt() {
        let text = table(&session(true), &answers());
        let expected = "                        Min    Mean  Median    Max  Stddev\n\
                        \x20                       ---    ----  ------    ---  ------\n\
                        \x20               RTT  120µs   143µs   145µs  160µs  17.1µs\n";
        let lines = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(lines(&text)[..3], lines(expected)[..]);
        for line in [
            "   packets sent/received: 6/5 (33.33% loss)\n",
            " server packets received: 5/6 (16.67%/20.00% loss up/down)\n",
            "     bytes sent/received: 360/240\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(
            text.contains("\n                RTT ") && text.contains("\n                duration: "),
            "{text}"
        );
    }

    #[test]
    fn raw_lines_have_seven_columns() {
        let text = raw(&session(true), &answers());
        assert_eq!(text.lines().next(), Some("0 0.120000 0.070000 0.050000 NaN 0 0"));
        assert_eq!(text.lines().nth(2), Some("2 NaN NaN NaN NaN 1 NaN"));
        assert_eq!(text.lines().last(), Some("3 0.160000 0.070000 0.090000 NaN 0 1"));
    }
}
