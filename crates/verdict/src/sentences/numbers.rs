//! Formats numbers for sentences: two significant digits, in a suitable unit.

use crate::severity::MIN_BUFFER_NS;

/// Formats a time given in ns: `3.0 s`, `97 ms`, `320 us`.
pub fn time(ns: f64) -> String {
    let size = ns.abs();
    let (value, unit) = match size {
        ..999.5 => return format!("{ns:.0} ns"),
        ..999.5e3 => (ns / 1e3, "us"),
        ..999.5e6 => (ns / 1e6, "ms"),
        ..120e9 => (ns / 1e9, "s"),
        ..7200e9 => (ns / 60e9, "min"),
        _ => (ns / 3600e9, "h"),
    };
    if value.abs() < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Formats the size of a play-out buffer, given in ns. The smallest possible buffer is formatted as an upper bound.
pub fn buffer_size(ns: i64) -> String {
    if ns <= MIN_BUFFER_NS { "under 1 ms".to_owned() } else { time(ns as f64) }
}

/// Formats the time since the first packet of a test, given in seconds: `9.5 s`, `120 s`.
pub fn moment(s: f64) -> String {
    if s < 99.95 { format!("{s:.1} s") } else { format!("{s:.0} s") }
}

/// Formats a part of a test, given in seconds: `from 9.5 s to 120 s`; `at 9.5 s` if both ends are formatted alike.
pub fn span([from_s, to_s]: [f64; 2]) -> String {
    let [from, to] = [from_s, to_s].map(moment);
    if from == to { format!("at {from}") } else { format!("from {from} to {to}") }
}

/// Formats a share: `2.7 %`, `0.14 %`, `31 %`.
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value {
        ..0.995 => format!("{value:.2} %"),
        ..9.95 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// Formats a number of packets per second, with decimals below 10: `50`, `1.4`, `0.71`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        ..0.995 => format!("{per_second:.2}"),
        ..9.95 => format!("{per_second:.1}"),
        _ => format!("{per_second:.0}"),
    }
}

/// Formats a number with its noun: `1 packet`, `7 packets`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_and_a_unit() {
        let times = [3.04e9, 97.2e6, 320e3, 15.0, 1.25e6, 600e9, 9.96e6].map(time);
        assert_eq!(times, ["3.0 s", "97 ms", "320 us", "15 ns", "1.2 ms", "10 min", "10 ms"]);
        assert_eq!(
            [0.714, 0.999, 1.43, 9.94, 9.95, 50.4, 179_999.6].map(rate),
            ["0.71", "1.0", "1.4", "9.9", "10", "50", "180000"]
        );
        assert_eq!([0.027, 0.0014, 0.31, 0.0].map(percent), ["2.7 %", "0.14 %", "31 %", "0.00 %"]);
    }

    #[test]
    fn each_unit_begins_at_its_border() {
        let times = [999.0, 1e3, 999e3, 1e6, 999e6, 1e9, 119e9, 120e9, 7199e9, 7200e9, 36e12].map(time);
        let text = [
            "999 ns", "1.0 us", "999 us", "1.0 ms", "999 ms", "1.0 s", "119 s", "2.0 min", "120 min",
            "2.0 h", "10 h",
        ];
        assert_eq!(times, text);
        assert_eq!([9.94e3, 9.95e3, -3e9].map(time), ["9.9 us", "10 us", "-3.0 s"]);
        assert_eq!([999.6, 999.6e3, 999.9e6].map(time), ["1.0 us", "1.0 ms", "1.0 s"]);
        assert_eq!([99.94, 99.96, 100.0].map(moment), ["99.9 s", "100 s", "100 s"]);
        assert_eq!([[9.5, 120.0], [9.5, 9.54]].map(span), ["from 9.5 s to 120 s", "at 9.5 s"]);
        assert_eq!([0, 1, 2].map(|n| count(n, "packet")), ["0 packets", "1 packet", "2 packets"]);
    }
}
