//! Numbers, times and histograms as the tools of perfSONAR print them.

use core::net::{IpAddr, SocketAddr};
use jitlat_core::ntp::{ErrorEstimate, NtpTime, TimeFormat};
use jitlat_core::session::HostFacts;
use jitlat_core::units::civil;
use std::collections::BTreeMap;

/// Unit of delays (`-n` of owping and twping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds, the default.
    #[default]
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl DelayUnit {
    /// Returns the unit with the letter of `-n`: n, u, m or s; `None` for other letters.
    pub fn of_letter(letter: &str) -> Option<DelayUnit> {
        Some(match letter {
            "n" => DelayUnit::Nanoseconds,
            "u" => DelayUnit::Microseconds,
            "m" => DelayUnit::Milliseconds,
            "s" => DelayUnit::Seconds,
            _ => return None,
        })
    }

    /// Returns the symbol of the unit.
    pub fn symbol(self) -> &'static str {
        match self {
            DelayUnit::Nanoseconds => "ns",
            DelayUnit::Microseconds => "us",
            DelayUnit::Milliseconds => "ms",
            DelayUnit::Seconds => "s",
        }
    }

    /// Formats a delay in seconds with three significant digits, without the symbol; `nan` if it is unknown.
    pub fn show(self, seconds: Option<f64>) -> String {
        let factor = match self {
            DelayUnit::Nanoseconds => 1e9,
            DelayUnit::Microseconds => 1e6,
            DelayUnit::Milliseconds => 1e3,
            DelayUnit::Seconds => 1.0,
        };
        seconds.map_or("nan".to_owned(), |seconds| general(seconds * factor, 3))
    }
}

/// Format of results: options that owping, owstats and twping share.
#[derive(Clone, Debug, PartialEq)]
pub struct OwpingOptions {
    /// Width of the buckets in which delays are counted for median and percentiles, in seconds (`-b`).
    pub bucket: f64,
    /// Additional percentiles, in percent (`-a`).
    pub percentiles: Vec<f64>,
    /// Unit of delays (`-n`).
    pub unit: DelayUnit,
    /// True to print times of the clock in seconds since 1970 too (`-U`, machine-readable format only).
    pub unix_times: bool,
    /// True if packets were sent with a TTL of 255, as OWAMP and TWAMP require, so that numbers of hops can be derived
    /// from TTLs.
    pub counts_hops: bool,
}

impl Default for OwpingOptions {
    fn default() -> OwpingOptions {
        OwpingOptions {
            bucket: 0.0001,
            percentiles: Vec::new(),
            unit: DelayUnit::default(),
            unix_times: false,
            counts_hops: true,
        }
    }
}

/// Numbers of packets by delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct DelayBuckets(pub BTreeMap<i64, u64>);

impl DelayBuckets {
    /// Counts a delay of `seconds` in a bucket of this `width`. The bucket's index is its edge farther from zero, in
    /// widths.
    pub fn count(&mut self, seconds: f64, width: f64) {
        let buckets = seconds / width;
        let index = if buckets < 0.0 { buckets.floor() } else { buckets.ceil() };
        *self.0.entry(index as i64).or_default() += 1;
    }

    /// Returns the edge of the bucket by which `share` of all `sent` packets have arrived, in seconds; `None` if fewer
    /// have arrived.
    pub fn percentile(&self, share: f64, sent: u64, width: f64) -> Option<f64> {
        let mut arrived = 0;
        let reaches = |(_, packets): &(&i64, &u64)| {
            arrived += **packets;
            arrived as f64 >= share * sent as f64
        };
        self.0.iter().find(reaches).map(|(index, _)| *index as f64 * width)
    }

    /// Returns the 95th percentile minus the median, in seconds; `None` if either is unknown.
    pub fn jitter(&self, sent: u64, width: f64) -> Option<f64> {
        Some(self.percentile(0.95, sent, width)? - self.percentile(0.5, sent, width)?)
    }
}

/// Smallest and largest of the values so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extremes(pub Option<(f64, f64)>);

impl Extremes {
    pub fn count(&mut self, value: f64) {
        self.0 = Some(self.0.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
    }

    pub fn least(self) -> Option<f64> {
        self.0.map(|(low, _)| low)
    }

    pub fn most(self) -> Option<f64> {
        self.0.map(|(_, high)| high)
    }
}

const UNITS: f64 = (1_u64 << 32) as f64;

/// Returns `to` − `from` in seconds, computed in double precision as in owping, which loses the last bits of the times.
pub(crate) fn between(from: NtpTime, to: NtpTime) -> f64 {
    to.0 as f64 / UNITS - from.0 as f64 / UNITS
}

/// Returns the error that `estimate` states, in seconds.
pub(crate) fn error(estimate: ErrorEstimate) -> f64 {
    let scale = i32::from(estimate.0 >> 8 & 0x3f) - 32;
    f64::from(estimate.0 & 0xff) * 2_f64.powi(scale)
}

/// Returns the error estimate for the clock of `host`. A clock that is not synchronised has no estimate.
pub(crate) fn estimate_of(host: &HostFacts) -> ErrorEstimate {
    let synchronised = host.sync_before.filter(|state| state.synchronised);
    synchronised.map_or(ErrorEstimate::UNKNOWN, |state| ErrorEstimate::of_clock(Some(state), TimeFormat::Ntp))
}

/// Formats a clock reading as in `-R`: the time, 1 if the clock is synchronised, and its error. A packet without this
/// time was lost.
pub(crate) fn reading(at: Option<NtpTime>, estimate: ErrorEstimate) -> String {
    let synchronised = u8::from(estimate.synchronised());
    format!("{:020} {synchronised} {}", at.map_or(0, |at| at.0), general(error(estimate), 6))
}

/// Formats an address and port as in headings.
pub(crate) fn endpoint(ip: IpAddr, port: u16) -> String {
    match SocketAddr::new(ip, port) {
        SocketAddr::V4(at) => format!("[{}]:{port}", at.ip()),
        SocketAddr::V6(at) => at.to_string(),
    }
}

/// Formats `value` with `digits` significant digits, like C's `%g`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i32 {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), power.abs());
    }
    trimmed(&format!("{value:.*}", (digits as i32 - 1 - power).max(0) as usize))
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds(at: NtpTime) -> f64 {
    // Eras of 2^32 s begin in 1900 and 2036. Times without the highest bit belong to the later era.
    let era = f64::from(u8::from(at.0 >> 63 == 0)) * UNITS;
    at.0 as f64 / UNITS + era - 2_208_988_800.0
}

/// Formats a time of day with its date in UTC, to the nearest millisecond.
pub fn time_of_day(at: NtpTime) -> String {
    // Eras of 2^32 s begin in 1900 and 2036. Times without the highest bit belong to the later era.
    let era = i64::from(at.0 >> 63 == 0) << 32;
    let thousandths = ((u128::from(at.0) * 1000 + (1 << 31)) >> 32) as i64;
    // 2 208 988 800 s lie between the beginning of the NTP era in 1900 and 1970.
    let seconds = thousandths.div_euclid(1000) + era - 2_208_988_800;
    let thousandths = thousandths.rem_euclid(1000);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{thousandths:03}")
}

/// Formats the number of hops of packets that were sent with a TTL of 255 and arrived with these, each preceded by
/// `name`; `None` without packets.
pub(crate) fn hops(name: &str, ttls: &BTreeMap<u8, u64>) -> Option<String> {
    let hops: Vec<u8> = ttls.keys().rev().map(|ttl| 255 - ttl).collect();
    Some(match hops[..] {
        [] => return None,
        [hops] => format!("{name}hops = {hops} (consistently)\n"),
        [least, .., most] => {
            format!("{name}hops takes {} values; min hops = {least}, max hops = {most}\n", hops.len())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        let three: Vec<String> =
            [0.0806, 0.2, 71.057, 999.6, 1234.0, 0.00001, -0.5, 0.0].map(|x| general(x, 3)).into();
        assert_eq!(three, ["0.0806", "0.2", "71.1", "1e+03", "1.23e+03", "1e-05", "-0.5", "0"]);
        assert_eq!(general(2_f64.powi(-32), 6), "2.32831e-10");
    }

    #[test]
    fn times_of_the_day_go_on_after_2036() {
        assert_eq!(time_of_day(NtpTime(0xeeac_be46_ffff_ffff)), "2026-11-22T01:05:11.000");
        assert_eq!(time_of_day(NtpTime(0)), "2036-02-07T06:28:16.000");
        assert_eq!(unix_seconds(NtpTime(2_208_988_801 << 32)), 1.0);
    }
}
