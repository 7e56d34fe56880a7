//! Numbers as text (metrics §24): the engineering format of the classic report, rates, percentages, dates. Decimal
//! arithmetic on integers makes rounding exact.

use crate::time::{SECOND, Span, WallTime};

/// Units of time, largest first: length in picoseconds, and name.
const UNITS: [(i128, &str); 4] =
    [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")];

/// Formats nanoseconds with four significant digits in s, ms, us or ns, depending on magnitude: `42.00 us`, `1.615 s`.
/// Rounds half to even on the exact decimal; zero is `0.000 s`.
pub fn eng4(ns: i64) -> String {
    engineering(i128::from(ns) * 1000)
}

/// Like [`eng4`], for a fractional number of nanoseconds such as a mean. `-` if it is not finite.
pub fn eng4_f64(ns: f64) -> String {
    match picoseconds(ns) {
        Some(ps) => engineering(ps),
        None => "-".to_owned(),
    }
}

/// Formats nanoseconds with three significant digits in s, ms, us or ns, depending on magnitude: `12.3 ms`, `5.00 s`,
/// `800 ns`. `-` if they are not finite.
pub fn eng3(ns: f64) -> String {
    if !ns.is_finite() {
        return "-".to_owned();
    }
    if ns.abs() < 999.5 {
        // A value that rounds to zero has no sign.
        return format!("{} ns", ns.round() as i64);
    }
    let (unit, name) = match ns.abs() {
        ..999.5e3 => (1e3, "us"),
        ..999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns / unit;
    match value.abs() {
        ..9.995 => format!("{value:.2} {name}"),
        ..99.95 => format!("{value:.1} {name}"),
        _ => format!("{value:.0} {name}"),
    }
}

/// Formats a duration such as a limit or a timeout, for display: `5 s`, `0.25 s`, `2.5 min`, `24 h`. Durations below a
/// millisecond are formatted like [`eng3`].
pub fn duration(span: Span) -> String {
    let s = span.as_seconds();
    let (value, decimals, unit) = match s.abs() {
        ..0.001 => return eng3(span.0 as f64),
        ..120.0 => (s, 3, "s"),
        ..7200.0 => (s / 60.0, 2, "min"),
        _ => (s / 3600.0, 2, "h"),
    };
    let digits = format!("{value:.decimals$}");
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats nanoseconds with all decimals, in a unit that depends on magnitude: `1.614710000 s`, `-80.000 us`, `5 ns`.
pub fn full(ns: i64) -> String {
    let magnitude = i128::from(ns).unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    let (unit, digits, name) = match magnitude {
        0 => return "0.000000000 s".to_owned(),
        1_000_000_000.. => (1_000_000_000, 9, "s"),
        1_000_000.. => (1_000_000, 6, "ms"),
        1_000.. => (1_000, 3, "us"),
        _ => return format!("{sign}{magnitude} ns"),
    };
    format!("{sign}{}.{:0digits$} {name}", magnitude / unit, magnitude % unit)
}

/// Like [`full`], for a fractional number of nanoseconds, rounded half to even. `-` if it is not finite.
pub fn full_f64(ns: f64) -> String {
    if ns.is_finite() { full(ns.round_ties_even() as i64) } else { "-".to_owned() }
}

/// Formats a rate as in the version 2 report: `20.02 ms (49.94 pkts/Sec = 31.96 kbps)`.
pub fn rate_line(period_ns: f64, pps: f64, bps: Option<f64>) -> String {
    let bps = bps.map_or_else(|| "-".to_owned(), bit_rate);
    format!("{} ({pps:.2} pkts/Sec = {bps})", eng4_f64(period_ns))
}

/// Formats bits per second with three significant digits, in bps, kbps, Mbps or Gbps depending on magnitude:
/// `959 Mbps`.
pub fn bit_rate3(bps: f64) -> String {
    let (unit, name) = match bps.abs() {
        ..999.5 => (1.0, "bps"),
        ..999.5e3 => (1e3, "kbps"),
        ..999.5e6 => (1e6, "Mbps"),
        _ => (1e9, "Gbps"),
    };
    let value = bps / unit;
    match value.abs() {
        ..9.995 => format!("{value:.2} {name}"),
        ..99.95 => format!("{value:.1} {name}"),
        _ => format!("{value:.0} {name}"),
    }
}

/// Formats an approximate duration in seconds, rounded up: `48 s`, `12 min`, `7 h`.
pub fn about(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{:.0} s", seconds.ceil()),
        ..6000.0 => format!("{:.0} min", (seconds / 60.0).ceil()),
        _ => format!("{:.0} h", (seconds / 3600.0).ceil()),
    }
}

/// Formats bits per second with two decimals in bps, kbps, Mbps or Gbps, depending on magnitude.
pub fn bit_rate(bps: f64) -> String {
    let (unit, name) = match bps.abs() {
        x if x >= 1e9 => (1e9, "Gbps"),
        x if x >= 1e6 => (1e6, "Mbps"),
        x if x >= 1e3 => (1e3, "kbps"),
        _ => (1.0, "bps"),
    };
    format!("{:.2} {name}", bps / unit)
}

/// Formats a date as in the first line of a log: `Fri Jul 3 19:46:11 UTC 2009`.
pub fn utc_date(at: WallTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.0.div_euclid(SECOND);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!(
        "{} {} {day} {:02}:{:02}:{:02} UTC {year}",
        DAYS[days.rem_euclid(7) as usize],
        MONTHS[month as usize - 1],
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// Converts a number of days since 1970-01-01 to year, month and day (proleptic Gregorian calendar). Computed in
/// 400-year eras that begin on 1 March.
pub fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

fn picoseconds(ns: f64) -> Option<i128> {
    ns.is_finite().then(|| (ns * 1000.0).round_ties_even() as i128)
}

fn engineering(ps: i128) -> String {
    if ps == 0 {
        return "0.000 s".to_owned();
    }
    let magnitude = ps.unsigned_abs();
    let sign = if ps < 0 { "-" } else { "" };
    let choice = UNITS.iter().position(|(u, _)| magnitude >= u.unsigned_abs()).unwrap_or(UNITS.len() - 1);
    let (unit, name) = (UNITS[choice].0.unsigned_abs(), UNITS[choice].1);
    let decimals = match magnitude / unit {
        0..=9 => 3,
        10..=99 => 2,
        100..=999 => 1,
        _ => 0,
    };
    let rounded = round_half_even(magnitude * 10u128.pow(decimals), unit);
    // Rounding up may add a digit (9.9996 → 10.00) or change the unit (999.96 us → 1.000 ms).
    match decimals {
        0 => decimal(sign, rounded, 0, name),
        _ if rounded < 10_000 => decimal(sign, rounded, decimals, name),
        1 if choice > 0 => decimal(sign, 1000, 3, UNITS[choice - 1].1),
        _ => decimal(sign, rounded / 10, decimals - 1, name),
    }
}

fn decimal(sign: &str, scaled: u128, decimals: u32, unit: &str) -> String {
    if decimals == 0 {
        return format!("{sign}{scaled} {unit}");
    }
    let (ten, width) = (10u128.pow(decimals), decimals as usize);
    format!("{sign}{}.{:0width$} {unit}", scaled / ten, scaled % ten)
}

fn round_half_even(numerator: u128, denominator: u128) -> u128 {
    let (quotient, rest) = (numerator / denominator, numerator % denominator);
    match (rest * 2).cmp(&denominator) {
        core::cmp::Ordering::Less => quotient,
        core::cmp::Ordering::Greater => quotient + 1,
        core::cmp::Ordering::Equal => quotient + quotient % 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        let times = [0.0, -0.2, 799.6, 999.5, 12_340.0, 999_600.0, 9.996e6, -98.14e6, 5_000_089_220.0, 4e12];
        assert_eq!(
            times.map(eng3),
            [
                "0 ns", "0 ns", "800 ns", "1.00 us", "12.3 us", "1.00 ms", "10.0 ms", "-98.1 ms", "5.00 s",
                "4000 s"
            ]
        );
        assert_eq!(eng3(f64::NAN), "-");
    }

    #[test]
    fn durations_have_no_more_digits_than_people_read() {
        let seconds = [5.000_089_22, 0.25, 0.000_25, 90.0, 150.0, 86_400.0, 86_400.013, 129_600.0, 0.0];
        let texts = seconds.map(|s| duration(Span((s * 1e9) as i64)));
        assert_eq!(texts, ["5 s", "0.25 s", "250 us", "90 s", "2.5 min", "24 h", "24 h", "36 h", "0 ns"]);
    }

    #[test]
    fn four_significant_digits() {
        let table: &[(i64, &str)] = &[
            (42_000, "42.00 us"),
            (2_871_000, "2.871 ms"),
            (1_615_000_000, "1.615 s"),
            (267_000, "267.0 us"),
            (0, "0.000 s"),
            (999_960, "1.000 ms"),
            (-200_000, "-200.0 us"),
            (7, "7.000 ns"),
            (999, "999.0 ns"),
            (32_955_272_000, "32.96 s"),
            (9_999_600, "10.00 ms"),
            (99_996_000, "100.0 ms"),
            (999_960_000, "1.000 s"),
            (12_345_000_000_000, "12345 s"),
            (28_985_000_000_000, "28985 s"),
            (42_005, "42.00 us"),
            (42_015, "42.02 us"),
        ];
        for (ns, text) in table {
            assert_eq!(eng4(*ns), *text, "{ns}");
        }
        assert_eq!(eng4_f64(82_873.227), "82.87 us");
        assert_eq!(eng4_f64(f64::NAN), "-");
        assert_eq!(eng4(i64::MIN), "-9223372037 s");
    }

    #[test]
    fn down_to_the_nanosecond() {
        let table: &[(i64, &str)] = &[
            (1_614_710_000, "1.614710000 s"),
            (-80_000, "-80.000 us"),
            (24_018_000, "24.018000 ms"),
            (5, "5 ns"),
            (0, "0.000000000 s"),
            (i64::MIN, "-9223372036.854775808 s"),
        ];
        for (ns, text) in table {
            assert_eq!(full(*ns), *text);
        }
    }

    #[test]
    fn bit_rates_of_screens_have_three_digits() {
        let rates = [0.0, 7.5, 959.4, 999.6, 18.034e6, 959.08e6, 999.6e6, 1e9, 12.345e9];
        let text = [
            "0.00 bps",
            "7.50 bps",
            "959 bps",
            "1.00 kbps",
            "18.0 Mbps",
            "959 Mbps",
            "1.00 Gbps",
            "1.00 Gbps",
        ];
        assert_eq!(rates.map(bit_rate3)[..8], text);
        assert_eq!([47.2, 130.0, 7000.0].map(about), ["48 s", "3 min", "2 h"]);
    }

    #[test]
    fn rates_as_the_second_version_prints_them() {
        assert_eq!(rate_line(20_024_028.8, 49.94, Some(31_961.6)), "20.02 ms (49.94 pkts/Sec = 31.96 kbps)");
    }

    #[test]
    fn dates() {
        assert_eq!(utc_date(WallTime(1_246_650_371 * SECOND)), "Fri Jul 3 19:46:11 UTC 2009");
        assert_eq!(utc_date(WallTime(1_300_000_000 * SECOND)), "Sun Mar 13 07:06:40 UTC 2011");
        assert_eq!(utc_date(WallTime(0)), "Thu Jan 1 00:00:00 UTC 1970");
        assert_eq!(utc_date(WallTime(-1)), "Wed Dec 31 23:59:59 UTC 1969");
        assert_eq!(utc_date(WallTime(951_782_400 * SECOND)), "Tue Feb 29 00:00:00 UTC 2000");
        assert!(
            utc_date(WallTime(i64::MAX)).ends_with("2262") && utc_date(WallTime(i64::MIN)).ends_with("1677")
        );
    }
}
