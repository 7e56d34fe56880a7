//! One row of a log: [`PacketRecord`] ⇄ text.
//!
//! Reading has two paths. The fast one takes the form this program writes, eight digits at a time; it
//! gives up at the first surprise, and the tolerant one looks again.

use super::Layout;
use jitlat_core::record::Moment;
use jitlat_core::{Flags, Nanos, PacketRecord, Source, Span, Stamp};

/// Bytes that must be readable beyond the end of a row for [`parse`].
pub(super) const PADDING: usize = 8;

/// Reads the row `buf[start..end]`, where `end` is its line feed or the end of the input.
/// Returns the row's own index and the packet.
#[inline]
pub(super) fn parse(buf: &[u8], start: usize, end: usize, layout: Layout) -> Option<(u64, PacketRecord)> {
    parse_fast(buf, start, end, layout).or_else(|| parse_tolerant(buf.get(start..end)?, layout))
}

const ONES: u64 = 0x0101_0101_0101_0101;
const POWERS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];

/// How many of eight bytes, the first being the lowest, are digits before the first that is not.
#[inline]
fn leading_digits(chunk: u64) -> usize {
    let t = chunk ^ (0x30 * ONES);
    // The high bit of a byte is set if it is no digit. A carry can only spoil bytes beyond the first such.
    let other = (t.wrapping_add(0x76 * ONES) | t) & (0x80 * ONES);
    (other.trailing_zeros() / 8) as usize
}

/// The value of eight digits, the first being the lowest byte. A zero byte counts as the digit 0.
#[inline]
fn eight_digits(chunk: u64) -> u64 {
    let d = chunk & (0x0f * ONES);
    let pairs = d.wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}

/// A place in a row that moves on as fields are taken.
struct Cursor<'a> {
    buf: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// A run of 1 to 19 digits that fits 63 bits.
    #[inline]
    fn digits(&mut self) -> Option<i64> {
        let first = self.at;
        let mut value = 0u64;
        loop {
            let chunk = u64::from_le_bytes(*self.buf.get(self.at..)?.first_chunk()?);
            let n = leading_digits(chunk);
            self.at += n;
            if n < 8 {
                let total = self.at - first;
                if total == 0 || total > 19 {
                    return None;
                }
                if n > 0 {
                    value = value.wrapping_mul(POWERS[n]).wrapping_add(eight_digits(chunk << (64 - 8 * n)));
                }
                return i64::try_from(value).ok();
            }
            value = value.wrapping_mul(100_000_000).wrapping_add(eight_digits(chunk));
        }
    }

    #[inline]
    fn peek(&self) -> u8 {
        self.buf.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn signed(&mut self) -> Option<i64> {
        if self.peek() == b'-' {
            self.at += 1;
            return self.digits().map(|v| -v);
        }
        self.digits()
    }

    /// A signed number, or `Some(None)` for a lone `-`.
    #[inline]
    fn optional(&mut self) -> Option<Option<i64>> {
        if self.peek() == b'-' && !self.buf.get(self.at + 1)?.is_ascii_digit() {
            self.at += 1;
            return Some(None);
        }
        self.signed().map(Some)
    }

    /// The one space between two fields.
    #[inline]
    fn space(&mut self) -> Option<()> {
        let found = self.peek() == b' ';
        self.at += 1;
        found.then_some(())
    }

    /// The space, then a number or `-`.
    #[inline]
    fn next_optional(&mut self) -> Option<Option<i64>> {
        self.space()?;
        self.optional()
    }
}

#[inline]
fn parse_fast(buf: &[u8], start: usize, end: usize, layout: Layout) -> Option<(u64, PacketRecord)> {
    let mut c = Cursor { buf, at: start };
    let index = c.digits()?;
    let sent = c.next_optional()?;
    c.space()?;
    let seq = c.signed()?;
    let arrived = c.next_optional()?;
    c.space()?;
    let flags = c.signed()?;
    let mut fields = Fields { seq, sent, arrived, flags, ..Fields::default() };
    if layout != Layout::Classic {
        c.space()?;
        let letters = if layout == Layout::TwoWay { 4 } else { 2 };
        for source in fields.sources.iter_mut().take(letters) {
            *source = c.peek();
            c.at += 1;
        }
        fields.send_lag = c.next_optional()?;
        fields.receive_lag = c.next_optional()?;
        fields.ttl = c.next_optional()?;
        fields.tos = c.next_optional()?;
        fields.size = c.next_optional()?;
        if layout == Layout::TwoWay {
            fields.answered = c.next_optional()?;
            fields.returned = c.next_optional()?;
        }
    }
    if c.at != end {
        return None;
    }
    Some((index as u64, fields.record(layout)?))
}

/// Any white space, a carriage return at the end, further columns.
#[cold]
fn parse_tolerant(row: &[u8], layout: Layout) -> Option<(u64, PacketRecord)> {
    let row = core::str::from_utf8(row).ok()?;
    let mut columns = row.split_ascii_whitespace();
    let number = |text: &str| text.parse::<i64>().ok();
    let optional = |text: &str| if text == "-" { Some(None) } else { number(text).map(Some) };
    let index = columns.next()?.parse().ok()?;
    let mut fields = Fields {
        sent: optional(columns.next()?)?,
        seq: number(columns.next()?)?,
        arrived: optional(columns.next()?)?,
        flags: number(columns.next()?)?,
        ..Fields::default()
    };
    if layout != Layout::Classic {
        let letters = columns.next()?.as_bytes();
        if letters.len() != if layout == Layout::TwoWay { 4 } else { 2 } {
            return None;
        }
        fields.sources[..letters.len()].copy_from_slice(letters);
        fields.send_lag = optional(columns.next()?)?;
        fields.receive_lag = optional(columns.next()?)?;
        fields.ttl = optional(columns.next()?)?;
        fields.tos = optional(columns.next()?)?;
        fields.size = optional(columns.next()?)?;
        if layout == Layout::TwoWay {
            fields.answered = optional(columns.next()?)?;
            fields.returned = optional(columns.next()?)?;
        }
    }
    Some((index, fields.record(layout)?))
}

/// The fields of a row as numbers, not yet known to make sense.
#[derive(Default)]
struct Fields {
    seq: i64,
    sent: Option<i64>,
    arrived: Option<i64>,
    answered: Option<i64>,
    returned: Option<i64>,
    flags: i64,
    /// Letters, in the order of the moments.
    sources: [u8; 4],
    send_lag: Option<i64>,
    receive_lag: Option<i64>,
    ttl: Option<i64>,
    tos: Option<i64>,
    size: Option<i64>,
}

impl Fields {
    #[inline]
    fn record(&self, layout: Layout) -> Option<PacketRecord> {
        if layout == Layout::Classic {
            let (sent, arrived) = (Nanos(self.sent?), Nanos(self.arrived?));
            let mut r = PacketRecord::one_way(self.seq, sent, arrived);
            r.flags = flags(self.flags);
            return Some(r);
        }
        let mut r = PacketRecord::new(self.seq);
        r.flags = flags(self.flags);
        let times = [self.sent, self.arrived, self.answered, self.returned];
        let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
        for ((time, letter), moment) in times.into_iter().zip(self.sources).zip(moments) {
            if let Some(at) = time {
                r.set(moment, Stamp { at: Nanos(at), source: source(letter)? });
            }
        }
        r.set_send_lag(self.send_lag.map(Span));
        r.set_receive_lag(self.receive_lag.map(Span));
        // A value that the field cannot hold makes the row unreadable, as any other bad field does.
        r.set_ttl(narrow(self.ttl)?);
        r.set_traffic_class(narrow(self.tos)?);
        r.set_size(narrow(self.size)?);
        Some(r)
    }
}

#[inline]
fn narrow<T: TryFrom<i64>>(value: Option<i64>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(v) => T::try_from(v).ok().map(Some),
    }
}

#[inline]
fn flags(bits: i64) -> Flags {
    match u16::try_from(bits) {
        Ok(known) => Flags(known),
        Err(_) => Flags((bits & 0x7fff) as u16) | Flags::FOREIGN,
    }
}

#[inline]
fn source(letter: u8) -> Option<Source> {
    Some(match letter {
        b'u' => Source::User,
        b'k' => Source::Kernel,
        b'h' => Source::Hardware,
        b'w' => Source::Wire,
        _ => return None,
    })
}

/// Appends `record` as row `index`, with its line feed. In the classic layout a record without both
/// times cannot be written: then nothing is appended and the answer is `false`.
#[inline]
pub(super) fn push(out: &mut Vec<u8>, index: u64, record: &PacketRecord, layout: Layout) -> bool {
    let mut digits = itoa::Buffer::new();
    let mut number = |out: &mut Vec<u8>, value: i64| out.extend_from_slice(digits.format(value).as_bytes());
    if layout == Layout::Classic && (record.sent().is_none() || record.arrived().is_none()) {
        return false;
    }
    let mut optional = |out: &mut Vec<u8>, value: Option<i64>| match value {
        Some(v) => number(out, v),
        None => out.push(b'-'),
    };
    optional(out, Some(index as i64));
    let columns = [
        record.sent().map(|t| t.0),
        Some(record.seq),
        record.arrived().map(|t| t.0),
        Some(record.flags.0.into()),
    ];
    for value in columns {
        out.push(b' ');
        optional(out, value);
    }
    if layout == Layout::Classic {
        out.push(b'\n');
        return true;
    }
    out.push(b' ');
    let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
    for moment in moments.into_iter().take(if layout == Layout::TwoWay { 4 } else { 2 }) {
        out.push(record.stamp(moment).map_or(b'-', |s| s.source.letter() as u8));
    }
    let columns = [
        record.send_lag().map(|s| s.0),
        record.receive_lag().map(|s| s.0),
        record.ttl().map(i64::from),
        record.traffic_class().map(i64::from),
        record.size().map(i64::from),
    ];
    for value in columns {
        out.push(b' ');
        optional(out, value);
    }
    if layout == Layout::TwoWay {
        for moment in [Moment::Answered, Moment::Returned] {
            out.push(b' ');
            optional(out, record.time(moment).map(|t| t.0));
        }
    }
    out.push(b'\n');
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str, layout: Layout) -> Option<(u64, PacketRecord)> {
        let mut buf = text.as_bytes().to_vec();
        buf.extend_from_slice(&[0; PADDING]);
        parse(&buf, 0, text.len(), layout)
    }

    fn digits(text: &str) -> Option<i64> {
        let mut buf = text.as_bytes().to_vec();
        buf.extend_from_slice(&[0; PADDING]);
        Cursor { buf: &buf, at: 0 }.digits()
    }

    #[test]
    fn digits_of_every_length() {
        let all = "1234567890123456789";
        for n in 1..=19 {
            let text = &all[..n];
            assert_eq!(digits(&format!("{text} 7")), text.parse().ok(), "{text}");
            assert_eq!(digits(text), text.parse().ok(), "{text}");
        }
        assert_eq!(digits("9223372036854775807\n"), Some(i64::MAX));
        assert_eq!(digits("9223372036854775808\n"), None);
        assert_eq!(digits("99999999999999999999999\n"), None);
        assert_eq!(digits("00000000000000000000000000000001"), None, "left to the tolerant path");
        assert_eq!(digits(" 1"), None);
        assert_eq!(digits(""), None);
    }

    #[test]
    fn only_digits_are_digits() {
        for other in (0u8..=255).filter(|b| !b.is_ascii_digit()) {
            for n in 0..8usize {
                let mut bytes = *b"12345678";
                bytes[n] = other;
                assert_eq!(leading_digits(u64::from_le_bytes(bytes)), n, "{other}");
            }
        }
    }

    #[test]
    fn classic_row() {
        let (index, r) =
            parse_text("7 1300000000070000000 7 1300000000075000000 1", Layout::Classic).unwrap();
        assert_eq!((index, r.seq, r.delay()), (7, 7, Some(Span::millis(5))));
        assert!(!r.flags.is_clean());
    }

    #[test]
    fn the_tolerant_path_reads_what_people_make_of_a_log() {
        let expected = parse_text("7 10 -2 15 0", Layout::Classic);
        assert!(expected.is_some());
        for text in ["7 10 -2 15 0\r", "  7\t10  -2 15 0 ", "7 10 -2 15 0 9 9 9", "+7 +10 -2 0015 0"] {
            assert_eq!(parse_text(text, Layout::Classic), expected, "{text}");
        }
    }

    #[test]
    fn bad_fields_make_a_row_unreadable() {
        for text in [
            "",
            "7",
            "7 10 2 15",
            "x 10 2 15 0",
            "7 10 2 15 zero",
            "7 - 2 15 0",
            "-7 10 2 15 0",
            "7 10 2 99999999999999999999 0",
            "7 10 2 15.5 0",
        ] {
            assert_eq!(parse_text(text, Layout::Classic), None, "{text}");
        }
        for text in ["0 1 2 3 0 ux - - - - -", "0 1 2 3 0 uu - - 256 - -", "0 1 2 3 0 uu - - - - 65536"] {
            assert_eq!(parse_text(text, Layout::OneWay), None, "{text}");
        }
    }

    #[test]
    fn foreign_flags_stay_unclean() {
        for bits in ["65536", "-1", "-2147483648", "4294967296"] {
            let (_, r) = parse_text(&format!("0 1 2 3 {bits}"), Layout::Classic).unwrap();
            assert!(!r.flags.is_clean(), "{bits}");
        }
    }

    #[test]
    fn both_paths_agree() {
        let mut r = PacketRecord::one_way(5, Nanos(-3), Nanos(i64::MAX));
        r.set(Moment::Returned, Stamp { at: Nanos(12), source: Source::Hardware });
        r.set_receive_lag(Some(Span(-17)));
        r.set_traffic_class(Some(0));
        r.set_size(Some(80));
        let mut out = Vec::new();
        assert!(push(&mut out, 9, &r, Layout::TwoWay));
        let end = out.len() - 1;
        assert_eq!(
            core::str::from_utf8(&out[..end]).unwrap(),
            "9 -3 5 9223372036854775807 0 uu-h - -17 - 0 80 - 12"
        );
        assert_eq!(parse_tolerant(&out[..end], Layout::TwoWay), Some((9, r)));
        out.extend_from_slice(&[0; PADDING]);
        assert_eq!(parse_fast(&out, 0, end, Layout::TwoWay), Some((9, r)));
    }
}
