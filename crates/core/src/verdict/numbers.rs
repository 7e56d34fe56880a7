//! Formats the numbers in verdicts: two digits, in a suitable unit.

use crate::units::eng4_f64;

/// A time in ns: `3.0 s`, `97 ms`, `320 us`.
pub fn time(ns: f64) -> String {
    let size = ns.abs();
    let (value, unit) = match size {
        ..1e3 => return format!("{ns:.0} ns"),
        ..1e6 => (ns / 1e3, "us"),
        ..1e9 => (ns / 1e6, "ms"),
        ..120e9 => (ns / 1e9, "s"),
        ..7200e9 => (ns / 60e9, "min"),
        _ => (ns / 3600e9, "h"),
    };
    if value.abs() < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// The same with four digits: `97.21 ms`; below a microsecond whole nanoseconds.
pub fn precise_time(ns: f64) -> String {
    if ns.abs() < 1000.0 { format!("{ns:.0} ns") } else { eng4_f64(ns) }
}

/// A moment of a test, in seconds.
pub fn moment(s: f64) -> String {
    if s < 100.0 { format!("{s:.1} s") } else { format!("{s:.0} s") }
}

/// A share: `2.7 %`, `0.14 %`, `31 %`.
pub fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value {
        ..0.995 => format!("{value:.2} %"),
        ..9.95 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// `1 packet`, `7 packets`.
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
        assert_eq!([0.027, 0.0014, 0.31, 0.0].map(percent), ["2.7 %", "0.14 %", "31 %", "0.00 %"]);
    }
}
