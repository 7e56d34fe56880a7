//! Parses quantities such as `20ms`, `1.5s`, `50/s`, `64kbit`. Decimal arithmetic on integers makes `0.1s` exactly 100
//! 000 000 ns.

use crate::time::{SECOND, Span};
use crate::units::bit_rate3;
use core::net::{IpAddr, SocketAddr};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Error: the text is not a valid quantity. The message explains the valid forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(Cow<'static, str>);

impl From<QuantityError> for String {
    fn from(e: QuantityError) -> String {
        e.0.into_owned()
    }
}

impl QuantityError {
    /// Creates an error with its explanation.
    pub fn new(text: impl Into<Cow<'static, str>>) -> QuantityError {
        QuantityError(text.into())
    }
}

/// Parses a time with a unit (ns, us, µs, ms, s, m, h, d). A number without a unit is multiplied by `bare` nanoseconds.
fn span(text: &str, bare: i64) -> Result<Span, QuantityError> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "" => bare,
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        other => {
            return Err(QuantityError::new(format!(
                "'{other}' is not a unit of time: use ns, us, ms, s, m, h or d"
            )));
        }
    };
    decimal(number, scale).map(Span)
}

/// Returns `number × scale`, computed exactly and rounded half up to an integer.
fn decimal(number: &str, scale: i64) -> Result<i64, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityError::new("a number is missing"));
    }
    let digits = |s: &str| if s.is_empty() { Ok(0) } else { s.parse::<i128>() };
    let fraction = &fraction[..fraction.len().min(18)];
    let (Ok(w), Ok(f)) = (digits(whole), digits(fraction)) else {
        return Err(QuantityError::new(format!("'{number}' is not a number")));
    };
    let unit = 10i128.pow(fraction.len() as u32);
    let total = w.checked_mul(scale.into()).map(|w| w + (f * i128::from(scale) + unit / 2) / unit);
    total
        .and_then(|t| i64::try_from(t).ok())
        .ok_or_else(|| QuantityError::new(format!("'{number}' is too large")))
}

/// Parses a time that may be negative or zero, such as `-5us`; a number without a unit is in nanoseconds.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn signed_time(text: &str) -> Result<Span, QuantityError> {
    match text.trim().strip_prefix('-') {
        Some(rest) => Ok(Span(-span(rest, 1)?.0)),
        None => span(text, 1),
    }
}

/// Smallest period, in ns, that may be written without a unit. No sender achieves a smaller one, so the user probably
/// meant milliseconds.
const MIN_BARE_NS: i64 = 10_000;

/// Parses a packet period such as `20ms`; a number without a unit is in nanoseconds, as in the classic tool.
///
/// # Errors
/// [`QuantityError`] if the text has another form, or for a small number without a unit, which the user
/// probably meant in milliseconds.
pub fn period(text: &str) -> Result<Span, QuantityError> {
    let period = positive(span(text, 1)?, text)?;
    let number = text.trim();
    if period.0 < MIN_BARE_NS && number.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(QuantityError::new(format!(
            "a number without a unit is in nanoseconds: did you mean {number}ms? Otherwise write {number}ns"
        )));
    }
    Ok(period)
}

/// Parses a duration such as `30s` or `10m`; a number without a unit is in seconds.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn duration(text: &str) -> Result<Span, QuantityError> {
    positive(span(text, SECOND)?, text)
}

/// Parses a pause: a duration, or `0` for none.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn pause(text: &str) -> Result<Span, QuantityError> {
    if text.trim() == "0" { Ok(Span::ZERO) } else { duration(text) }
}

fn positive(span: Span, text: &str) -> Result<Span, QuantityError> {
    if span.0 > 0 {
        Ok(span)
    } else {
        Err(QuantityError::new(format!("'{text}' is too short: give a time above 0")))
    }
}

/// A sending rate: packets or payload bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SendingRate {
    /// Packets per second, stored as the period.
    Packets(Span),
    /// Payload bits per second.
    Bits(f64),
}

impl SendingRate {
    /// Returns the packet period of this rate for packets of `payload` bytes.
    ///
    /// # Errors
    /// [`QuantityError`] if it is shorter than a nanosecond or too long.
    pub fn period(self, payload: u64) -> Result<Span, QuantityError> {
        match self {
            SendingRate::Packets(period) => Ok(period),
            SendingRate::Bits(bits) => {
                let ns = payload as f64 * 8.0 * SECOND as f64 / bits;
                if ns >= 1.0 && ns < i64::MAX as f64 {
                    Ok(Span(ns.round() as i64))
                } else {
                    Err(QuantityError::new("the rate is too high: its period would be below a nanosecond"))
                }
            }
        }
    }
}

impl SendingRate {
    /// Describes this rate in packets of `payload` bytes and in bits: `125 packets/s of 64 bytes = 64.0 kbps`.
    pub fn describe(self, payload: u64) -> String {
        let bits = payload as f64 * 8.0;
        let (packets, bits_per_second) = match self {
            SendingRate::Packets(period) => (1.0 / period.as_seconds(), bits / period.as_seconds()),
            SendingRate::Bits(rate) => (rate / bits, rate),
        };
        let packets = match packets {
            ..9.995 => format!("{packets:.3}"),
            ..999.5 => format!("{packets:.1}"),
            _ => format!("{packets:.0}"),
        };
        // 125.0 becomes 125.
        let packets = match packets.contains('.') {
            true => packets.trim_end_matches('0').trim_end_matches('.'),
            false => &packets,
        };
        format!("{packets} packets/s of {payload} bytes = {}", bit_rate3(bits_per_second))
    }
}

/// Parses a rate of packets (`50`, `50/s`, `1k/s`, `1/min`) or of payload bits (`64kbit`, `1.5Mbit`). A number without
/// a unit is in packets per second.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn rate(text: &str) -> Result<SendingRate, QuantityError> {
    let bad = || QuantityError::new(format!("'{text}' is not a rate: write 50, 50/s, 2k/s, 1/min or 64kbit"));
    let (value, bits) = scaled(text).ok_or_else(bad)?;
    if bits {
        return Ok(SendingRate::Bits(value));
    }
    let ns = SECOND as f64 / value;
    if !(1.0..i64::MAX as f64).contains(&ns) {
        return Err(QuantityError::new(format!(
            "'{text}' is out of range: the period must be 1 ns to 292 years"
        )));
    }
    Ok(SendingRate::Packets(Span(ns.round() as i64)))
}

/// Parses a number above 0 with an optional scale (k, M, G: powers of 1000), an optional `bit` or `bps`, and an
/// optional period (`/s`, `/min`, `/h`). Returns the number per second, and true if it is in bits; `None` if the text
/// has another form.
fn scaled(text: &str) -> Option<(f64, bool)> {
    const PER: [(&str, f64); 6] =
        [("/sec", 1.0), ("/s", 1.0), ("pps", 1.0), ("/min", 60.0), ("/hour", 3600.0), ("/h", 3600.0)];
    let lower = text.trim().to_ascii_lowercase();
    let per = PER.iter().find_map(|(unit, seconds)| Some((lower.strip_suffix(unit)?, *seconds)));
    let (lower, seconds) = per.unwrap_or((&lower, 1.0));
    let (body, bits) = match ["bits", "bit", "bps"].iter().find_map(|s| lower.strip_suffix(s)) {
        Some(body) => (body, true),
        None => (lower, false),
    };
    let body = body.trim();
    let (number, scale) = match body.chars().last() {
        Some('k') => (&body[..body.len() - 1], 1e3),
        Some('m') => (&body[..body.len() - 1], 1e6),
        Some('g') => (&body[..body.len() - 1], 1e9),
        _ => (body, 1.0),
    };
    let value = number.trim().parse::<f64>().ok().filter(|v| v.is_finite()).map(|v| v * scale / seconds);
    value.filter(|v| *v > 0.0).map(|v| (v, bits))
}

/// Parses bits per second: `64kbit`, `1.5Mbit/s`, `10G`; a number without a unit is in bits per second.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn bit_rate(text: &str) -> Result<u64, QuantityError> {
    let value = scaled(text).map(|(value, _)| value).filter(|v| v.fract() == 0.0 && *v < u64::MAX as f64);
    value.map(|v| v as u64).ok_or_else(|| {
        QuantityError::new(format!("'{text}' is not a rate in bits: write 64kbit, 1.5Mbit or 10Gbit"))
    })
}

/// Parses packets per second: `1000`, `200k`, `2k/s`.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn packet_rate(text: &str) -> Result<u32, QuantityError> {
    let packets = |(value, bits): (f64, bool)| (!bits).then_some(value);
    let value = scaled(text).and_then(packets).filter(|v| v.fract() == 0.0 && *v <= u32::MAX.into());
    value
        .map(|v| v as u32)
        .ok_or_else(|| QuantityError::new(format!("'{text}' is not a packet rate: write 1000, 200k or 2k/s")))
}

/// Parses a number of packets: `1000`, `10k`, `1.5M` (powers of 1000).
///
/// # Errors
/// [`QuantityError`] if the text has another form, and for 0.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::new(format!("'{text}' is not a number of packets: write 1000, 10k or 1M"));
    let text = text.trim();
    let (number, scale) = match text.chars().last().map(|c| c.to_ascii_lowercase()) {
        Some('k') => (&text[..text.len() - 1], 1_000),
        Some('m') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    if scale == 1 {
        return number.parse().ok().filter(|n| *n > 0).ok_or_else(bad);
    }
    decimal(number, scale).ok().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(bad)
}

/// Parses a range of ports such as `18760-19960`, or a single port.
///
/// # Errors
/// [`QuantityError`] if the text has another form, and for port 0.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, QuantityError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(QuantityError::new("write two ports, the lower first: 18760-19960".to_owned())),
    }
}

/// Parses a `key=value` tag.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn tag(text: &str) -> Result<(String, String), QuantityError> {
    match text.split_once('=') {
        Some((k, v)) if !k.is_empty() && !k.contains(char::is_whitespace) => Ok((k.to_owned(), v.to_owned())),
        _ => Err(QuantityError::new(format!("'{text}' is not a tag: write key=value"))),
    }
}

/// Parses a number of bytes: `64`, `8k`, `1.5M`, `2G` (powers of 1024).
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let (number, scale) = match text.chars().last().map(|c| c.to_ascii_lowercase()) {
        Some('k') => (&text[..text.len() - 1], 1 << 10),
        Some('m') => (&text[..text.len() - 1], 1 << 20),
        Some('g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    decimal(number, scale).map(|n| n as u64)
}

/// Parses an address to listen on: an address, a port, or both; `None` for a part that is not given.
///
/// # Errors
/// [`QuantityError`] if the text has another form.
pub fn listen(text: &str) -> Result<(Option<IpAddr>, Option<u16>), QuantityError> {
    let both = text.parse().ok().map(|at: SocketAddr| (Some(at.ip()), Some(at.port())));
    let address = || text.trim_matches(['[', ']']).parse().ok().map(|ip| (Some(ip), None));
    let port = || text.parse().ok().map(|port| (None, Some(port)));
    both.or_else(address).or_else(port).ok_or_else(|| {
        QuantityError::new("write an address, a port, or both, as in 192.0.2.7:2680 or [::1]:2680")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_says_how_it_was_read() {
        for (text, said) in [
            ("64k", "64000 packets/s of 64 bytes = 32.8 Mbps"),
            ("64kbit", "125 packets/s of 64 bytes = 64.0 kbps"),
            ("50", "50 packets/s of 64 bytes = 25.6 kbps"),
            ("1/min", "0.017 packets/s of 64 bytes = 8.53 bps"),
            ("1Mbit", "1953 packets/s of 64 bytes = 1.00 Mbps"),
        ] {
            assert_eq!(rate(text).unwrap().describe(64), said, "{text}");
        }
    }

    #[test]
    fn where_to_listen_is_an_address_a_port_or_both() {
        for (text, ip, port) in [
            ("192.0.2.7:80", Some("192.0.2.7"), Some(80)),
            ("[::1]:80", Some("::1"), Some(80)),
            ("192.0.2.7", Some("192.0.2.7"), None),
            ("::1", Some("::1"), None),
            ("[::1]", Some("::1"), None),
            ("8080", None, Some(8080)),
        ] {
            assert_eq!(listen(text), Ok((ip.map(|ip| ip.parse().unwrap()), port)), "{text}");
        }
        assert!(listen("example.org").is_err() && listen("70000").is_err() && listen("").is_err());
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(period("20000000"), Ok(Span(20_000_000)));
        assert_eq!(period("20ms"), Ok(Span::millis(20)));
        assert_eq!(period("20ns"), Ok(Span(20)));
        assert_eq!(
            period("20").unwrap_err().to_string(),
            "a number without a unit is in nanoseconds: did you mean 20ms? Otherwise write 20ns"
        );
        assert_eq!(period("0.1s"), Ok(Span(100_000_000)));
        assert_eq!(period("62.5us"), Ok(Span(62_500)));
        assert_eq!(period("1.5 µs"), Ok(Span(1_500)));
        assert_eq!(signed_time("-62.5us"), Ok(Span(-62_500)));
        assert_eq!((signed_time("0"), signed_time("7")), (Ok(Span::ZERO), Ok(Span(7))));
        assert!(signed_time("--1ms").is_err() && signed_time("-").is_err());
        assert_eq!(duration("90"), Ok(Span::seconds(90)));
        assert_eq!(duration("2m"), Ok(Span::seconds(120)));
        for bad in [
            "",
            "ms",
            "-1ms",
            "0",
            "0.0s",
            "1e3",
            "20 apples",
            "1.2.3s",
            "999999999999999999999s",
            "99999999999999999d",
        ] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_packets_take_units() {
        assert_eq!((count("1000"), count("1k"), count("1.5M")), (Ok(1000), Ok(1000), Ok(1_500_000)));
        for bad in ["", "0", "-1", "1.5", "k", "1g", "ten", "0.0001k"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_of_rates_take_units() {
        assert_eq!(rate("1/min"), Ok(SendingRate::Packets(Span::seconds(60))));
        assert_eq!(rate("6/h"), Ok(SendingRate::Packets(Span::seconds(600))));
        for (text, bits) in [("64kbit", 64_000), ("1.5Mbit/s", 1_500_000), ("10G", 10_000_000_000), ("8", 8)]
        {
            assert_eq!(bit_rate(text), Ok(bits), "{text}");
        }
        assert_eq!(
            (packet_rate("200k"), packet_rate("2k/s"), packet_rate("50")),
            (Ok(200_000), Ok(2000), Ok(50))
        );
        for bad in ["", "0", "1.5", "x", "-1", "64kbit", "5000000000"] {
            assert!(packet_rate(bad).is_err(), "{bad}");
        }
        assert!(bit_rate("0.5").is_err() && bit_rate("1e30").is_err());
    }

    #[test]
    fn rates_in_packets_and_bits() {
        assert_eq!(rate("50"), Ok(SendingRate::Packets(Span::millis(20))));
        assert_eq!(rate("50/s"), Ok(SendingRate::Packets(Span::millis(20))));
        assert_eq!(rate("2k/s"), Ok(SendingRate::Packets(Span::micros(500))));
        assert_eq!(rate("32kbit").unwrap().period(80), Ok(Span::millis(20)));
        assert_eq!(rate("1.28Mbit/s").unwrap().period(80), Ok(Span::micros(500)));
        for bad in ["", "0", "-5", "nan", "inf", "many", "1e300", "1e-300"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(rate("1e20bit").unwrap().period(80).is_err());
    }
}
