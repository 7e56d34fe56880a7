//! One row of a log: [`PacketRecord`] ⇄ text.
//!
//! Rows are read in two ways. The fast one, [`Scanner`], accepts only the form that this program writes, eight digits
//! at a time; if a row differs, the tolerant parser reads it again.

use super::compat::Layout;
use jitlat_core::record::Moment;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Flags, PacketRecord, Source, Span, Stamp, WallTime};

/// Bytes beyond the end of the input that [`Scanner`] may read.
pub(super) const PADDING: usize = 8;

const ONES: u64 = 0x0101_0101_0101_0101;
const POWERS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Number columns in the widest layout.
const COLUMNS: usize = 16;

/// How many of eight bytes (the first is the lowest) are digits before the first that is not.
#[inline]
fn leading_digits(chunk: u64) -> usize {
    let t = chunk ^ (0x30 * ONES);
    // The high bit of a byte is set if it is no digit. A carry can only corrupt bytes after the first such byte.
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

/// Reads rows, one after the other.
///
/// A column is nearly always as wide as in the row before, and often begins with the same digits. Assuming that and
/// checking it lets the processor work on all columns in parallel, instead of searching the end of each before the
/// next.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    columns: [Column; COLUMNS],
    /// The TCP_INFO in the last row, if it has one.
    pub beside: Option<TcpSample>,
}

/// The form of a column in the row before.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    /// Digits; 0 = unknown.
    width: usize,
    /// Its first eight bytes, and a mask of those that matter: the digits among them and the end of a shorter number.
    head: u64,
    mask: u64,
    /// The value of those digits.
    value: u64,
}

/// A position in a row, advanced by each column that is read.
struct Cursor<'a> {
    buf: &'a [u8],
    at: usize,
    columns: &'a mut [Column; COLUMNS],
}

impl Cursor<'_> {
    #[inline]
    fn chunk(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.buf.get(at..)?.first_chunk()?))
    }

    /// A run of 1 to 19 digits that fits 63 bits, in column `C`. Inlined, because a call would cost more than the
    /// function.
    #[inline(always)]
    fn digits<const C: usize>(&mut self) -> Option<i64> {
        let chunk = self.chunk(self.at)?;
        let column = &mut self.columns[C];
        if (chunk ^ column.head) & column.mask != 0 || column.width == 0 {
            let width = leading_digits(chunk);
            if width != column.width.min(8) || width == 0 {
                if width == 8 || width == 0 {
                    return self.digits_of_another_width::<C>();
                }
                column.width = width;
                column.mask = u64::MAX >> (56 - 8 * width);
            }
            column.head = chunk;
            column.value = eight_digits(if width < 8 { chunk << (64 - 8 * width) } else { chunk });
        }
        let width = column.width;
        let mut value = column.value;
        if width < 8 {
            self.at += width;
            return Some(value as i64);
        }
        let mut at = self.at + 8;
        if width >= 16 {
            let chunk = self.chunk(at)?;
            if leading_digits(chunk) != 8 {
                return self.digits_of_another_width::<C>();
            }
            value = value.wrapping_mul(100_000_000).wrapping_add(eight_digits(chunk));
            at += 8;
        }
        let rest = width % 8;
        let chunk = self.chunk(at)?;
        if leading_digits(chunk) != rest {
            return self.digits_of_another_width::<C>();
        }
        if rest > 0 {
            value = value.wrapping_mul(POWERS[rest]).wrapping_add(eight_digits(chunk << (64 - 8 * rest)));
        }
        self.at = at + rest;
        i64::try_from(value).ok()
    }

    #[cold]
    fn digits_of_another_width<const C: usize>(&mut self) -> Option<i64> {
        let digits = self.buf.get(self.at..)?;
        let width = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        let text = core::str::from_utf8(&digits[..width]).ok()?;
        // At most 19 digits, so that no sum above can overflow.
        let value = text.parse().ok().filter(|_| width <= 19)?;
        let head = self.chunk(self.at)?;
        let (mask, known) = match width {
            0..8 => (u64::MAX >> (56 - 8 * width), eight_digits(head << (64 - 8 * width))),
            _ => (u64::MAX, eight_digits(head)),
        };
        self.columns[C] = Column { width, head, mask, value: known };
        self.at += width;
        Some(value)
    }

    #[inline]
    fn peek(&self) -> u8 {
        self.buf.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn signed<const C: usize>(&mut self) -> Option<i64> {
        if self.peek() == b'-' {
            self.at += 1;
            return self.digits::<C>().map(|v| -v);
        }
        self.digits::<C>()
    }

    /// A signed number, or `Some(None)` for a single `-`.
    #[inline]
    fn optional<const C: usize>(&mut self) -> Option<Option<i64>> {
        if self.peek() == b'-' {
            self.at += 1;
            if !self.peek().is_ascii_digit() {
                return Some(None);
            }
            return self.digits::<C>().map(|v| Some(-v));
        }
        self.digits::<C>().map(Some)
    }

    /// The one space between two columns.
    #[inline]
    fn space(&mut self) -> Option<()> {
        let found = self.peek() == b' ';
        self.at += 1;
        found.then_some(())
    }

    /// The space, then a number or `-`.
    #[inline]
    fn next_optional<const C: usize>(&mut self) -> Option<Option<i64>> {
        self.space()?;
        self.optional::<C>()
    }

    /// The space, then a number that fits the type, or `-`.
    #[inline]
    fn next_narrow<const C: usize, T: TryFrom<i64>>(&mut self) -> Option<Option<T>> {
        narrow(self.next_optional::<C>()?)
    }
}

impl Scanner {
    /// Reads the row at `buf[start..]` up to its line feed, if it is exactly as this program writes it. Returns the
    /// row's index, the record, and the position of the line feed.
    #[inline]
    pub fn row(&mut self, buf: &[u8], start: usize, layout: Layout) -> Option<(u64, PacketRecord, usize)> {
        let mut c = Cursor { buf, at: start, columns: &mut self.columns };
        let index = c.digits::<0>()?;
        let mut times = [None; 4];
        times[0] = c.next_optional::<1>()?;
        c.space()?;
        let mut record = PacketRecord::new(c.signed::<2>()?);
        times[1] = c.next_optional::<3>()?;
        c.space()?;
        record.flags = flags(c.signed::<4>()?);
        let mut letters = [b'u'; 4];
        let mut queue = None;
        if layout.is_classic() {
            // Both times are always present.
            if times[0].is_none() || times[1].is_none() {
                return None;
            }
        } else {
            c.space()?;
            let several = &mut letters[..layout.moments()];
            several.copy_from_slice(buf.get(c.at..c.at + several.len())?);
            c.at += several.len();
            record.set_send_lag(c.next_optional::<5>()?.map(Span));
            record.set_receive_lag(c.next_optional::<6>()?.map(Span));
            record.set_ttl(c.next_narrow::<7, _>()?);
            record.set_traffic_class(c.next_narrow::<8, _>()?);
            record.set_size(c.next_narrow::<9, _>()?);
            if layout.moments() == 4 {
                times[2] = c.next_optional::<10>()?;
                times[3] = c.next_optional::<11>()?;
            }
            if layout.has_queue() {
                queue = c.next_optional::<15>()?;
            }
            if layout.has_tcp() {
                let values =
                    [c.next_narrow::<12, _>()?, c.next_narrow::<13, _>()?, c.next_narrow::<14, _>()?];
                self.beside = sample(values);
            }
        }
        set_times(&mut record, times, letters)?;
        set_local_queue(&mut record, queue);
        (c.peek() == b'\n').then_some((index as u64, record, c.at))
    }
}

/// The TCP_INFO, if all its columns are present.
#[inline]
fn sample([retransmissions, srtt_us, cwnd]: [Option<u32>; 3]) -> Option<TcpSample> {
    let (retransmissions, srtt_us, cwnd) = (retransmissions?, srtt_us?, cwnd?);
    Some(TcpSample { retransmissions, srtt_us, cwnd, ..TcpSample::default() })
}

/// Sets when the packet entered the queue in which it spent `ns` before its sent stamp. That stamp is set before this
/// is called: if it does not say when the packet left, the packet has no time in the queue.
#[inline]
fn set_local_queue(record: &mut PacketRecord, ns: Option<i64>) {
    if let Some((ns, (lag, _))) = ns.zip(record.local_queue()) {
        record.set_entry_lag(lag.0.checked_sub(ns).map(Span));
    }
}

/// Sets the times that are known, and their sources.
#[inline]
fn set_times(record: &mut PacketRecord, times: [Option<i64>; 4], letters: [u8; 4]) -> Option<()> {
    const MOMENTS: [Moment; 4] = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
    for i in 0..4 {
        if let Some(at) = times[i] {
            record.set(MOMENTS[i], Stamp { at: WallTime(at), source: source(letters[i])? });
        }
    }
    Some(())
}

/// Reads a row in any notation that is unambiguous: any white space, a carriage return at the end, further columns. The
/// row is without line feed. Also returns its TCP_INFO.
#[cold]
pub(super) fn parse_tolerant(row: &[u8], layout: Layout) -> Option<(u64, PacketRecord, Option<TcpSample>)> {
    let row = core::str::from_utf8(row).ok()?;
    let mut columns = row.split_ascii_whitespace();
    let number = |text: &str| text.parse::<i64>().ok();
    let optional = |text: &str| if text == "-" { Some(None) } else { number(text).map(Some) };
    let index = columns.next()?.parse().ok()?;
    let mut times = [None; 4];
    times[0] = optional(columns.next()?)?;
    let mut record = PacketRecord::new(number(columns.next()?)?);
    times[1] = optional(columns.next()?)?;
    record.flags = flags(number(columns.next()?)?);
    let mut letters = [b'u'; 4];
    let mut queue = None;
    if layout.is_classic() {
        if times[0].is_none() || times[1].is_none() {
            return None;
        }
    } else {
        let theirs = columns.next()?.as_bytes();
        letters.get_mut(..layout.moments()).filter(|l| l.len() == theirs.len())?.copy_from_slice(theirs);
        record.set_send_lag(optional(columns.next()?)?.map(Span));
        record.set_receive_lag(optional(columns.next()?)?.map(Span));
        record.set_ttl(narrow(optional(columns.next()?)?)?);
        record.set_traffic_class(narrow(optional(columns.next()?)?)?);
        record.set_size(narrow(optional(columns.next()?)?)?);
        if layout.moments() == 4 {
            times[2] = optional(columns.next()?)?;
            times[3] = optional(columns.next()?)?;
        }
        if layout.has_queue() {
            queue = optional(columns.next()?)?;
        }
    }
    let mut beside = None;
    if layout.has_tcp() {
        let mut values = [None; 3];
        for value in &mut values {
            *value = narrow(optional(columns.next()?)?)?;
        }
        beside = sample(values);
    }
    set_times(&mut record, times, letters)?;
    set_local_queue(&mut record, queue);
    Some((index, record, beside))
}

/// A value that does not fit its field makes the row invalid, like any other bad field.
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

/// Appends `record` as row `index`, with its line feed. In the classic layout a record without both times cannot be
/// written: then nothing is appended and the result is `false`.
#[inline]
pub(super) fn push(
    out: &mut Vec<u8>,
    index: u64,
    record: &PacketRecord,
    beside: Option<&TcpSample>,
    layout: Layout,
) -> bool {
    let mut digits = itoa::Buffer::new();
    let mut number = |out: &mut Vec<u8>, value: i64| out.extend_from_slice(digits.format(value).as_bytes());
    if layout.is_classic() && (record.sent().is_none() || record.arrived().is_none()) {
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
    if layout.is_classic() {
        out.push(b'\n');
        return true;
    }
    out.push(b' ');
    let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
    for moment in moments.into_iter().take(layout.moments()) {
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
    if layout.moments() == 4 {
        for moment in [Moment::Answered, Moment::Returned] {
            out.push(b' ');
            optional(out, record.time(moment).map(|t| t.0));
        }
    }
    if layout.has_queue() {
        let stamped = record.local_queue().filter(|(_, source)| *source == Source::Kernel);
        out.push(b' ');
        optional(out, stamped.map(|(time, _)| time.0));
    }
    if layout.has_tcp() {
        let column = |f: fn(&TcpSample) -> u32| beside.map(|s| f(s).into());
        for value in [column(|s| s.retransmissions), column(|s| s.srtt_us), column(|s| s.cwnd)] {
            out.push(b' ');
            optional(out, value);
        }
    }
    out.push(b'\n');
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both parsers, the fast one twice: without and with known widths.
    fn parse_text(text: &str, layout: Layout) -> Option<(u64, PacketRecord)> {
        let buf = [text.as_bytes(), b"\n", &[0; PADDING]].concat();
        let mut scanner = Scanner::default();
        let first = scanner.row(&buf, 0, layout);
        assert_eq!(scanner.row(&buf, 0, layout), first, "{text}");
        let tolerant = parse_tolerant(text.as_bytes(), layout);
        if let Some((_, _, beside)) = tolerant.filter(|_| first.is_some()) {
            assert_eq!(scanner.beside, beside, "{text}");
        }
        let tolerant = tolerant.map(|(index, record, _)| (index, record));
        if let Some((index, record, end)) = first {
            assert_eq!((tolerant, end), (Some((index, record)), text.len()));
        }
        tolerant
    }

    fn digits(text: &str) -> Option<i64> {
        let buf = [text.as_bytes(), &[0; PADDING]].concat();
        let mut scanner = Scanner::default();
        let mut read = || Cursor { buf: &buf, at: 0, columns: &mut scanner.columns }.digits::<0>();
        let first = read();
        assert_eq!(read(), first);
        first
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
        assert_eq!(digits("0000000000000000001"), Some(1));
        assert_eq!(digits(" 1"), None);
        assert_eq!(digits(""), None);
    }

    #[test]
    fn a_column_may_change_its_width_and_its_digits() {
        let mut scanner = Scanner::default();
        let mut numbers: Vec<u64> =
            (0..19).flat_map(|n| [10u64.pow(n), 10u64.pow(n) + 7, 2 * 10u64.pow(n) - 1]).collect();
        numbers.extend((0..200).map(|i| 1_763_697_000_000_000_000 + i * 99_999_999_983));
        numbers.extend_from_slice(&[7, 7, 12, 12_345_678, 12_345_679, 1_234_567, 123_456_789_012_345_678, 5]);
        for n in numbers {
            let buf = [format!("{n} 12345678901234567890").as_bytes(), &[0; PADDING]].concat();
            let mut c = Cursor { buf: &buf, at: 0, columns: &mut scanner.columns };
            assert_eq!((c.digits::<3>(), c.at), (i64::try_from(n).ok(), n.to_string().len()), "{n}");
        }
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
            assert_eq!(parse_text(text, Layout::OneWay { queue: false }), None, "{text}");
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
        let mut r = PacketRecord::one_way(5, WallTime(-3), WallTime(i64::MAX));
        r.set(Moment::Returned, Stamp { at: WallTime(12), source: Source::Hardware });
        r.set_receive_lag(Some(Span(-17)));
        r.set_traffic_class(Some(0));
        r.set_size(Some(80));
        let mut out = Vec::new();
        assert!(push(&mut out, 9, &r, None, Layout::TwoWay { queue: false }));
        let end = out.len() - 1;
        let text = core::str::from_utf8(&out[..end]).unwrap();
        assert_eq!(text, "9 -3 5 9223372036854775807 0 uu-h - -17 - 0 80 - 12");
        assert_eq!(parse_text(text, Layout::TwoWay { queue: false }), Some((9, r)));
    }

    #[test]
    fn the_time_in_the_local_queue_comes_back() {
        let mut r = PacketRecord::one_way(5, WallTime(3), WallTime(4));
        r.set(Moment::Sent, Stamp { at: WallTime(3), source: Source::Kernel });
        r.set_send_lag(Some(Span(5_000_000_000)));
        let bounded = r;
        r.set_entry_lag(Some(Span(1500)));
        let layouts = [(Layout::OneWay { queue: true }, "ku"), (Layout::TwoWay { queue: true }, "ku--")];
        for (layout, letters) in layouts {
            for (r, column) in [(r, "4999998500"), (bounded, "-")] {
                let mut out = Vec::new();
                assert!(push(&mut out, 9, &r, None, layout));
                let text = core::str::from_utf8(&out[..out.len() - 1]).unwrap();
                let others = if letters.len() == 4 { "- - " } else { "" };
                assert_eq!(text, format!("9 3 5 4 0 {letters} 5000000000 - - - - {others}{column}"));
                assert_eq!(parse_text(text, layout), Some((9, r)));
            }
        }
        // What an older program makes of it, and this one of an older log.
        let text = "9 3 5 4 0 ku 5000000000 - - - - 4999998500";
        assert_eq!(parse_text(text, Layout::OneWay { queue: false }), Some((9, bounded)));
        // Without the program's own reading, or without a stamp of the packet's leaving, there is no such time.
        for text in ["9 3 5 4 0 ku - - - - - 7", "9 3 5 4 0 uu 5 - - - - 7"] {
            let layout = Layout::OneWay { queue: true };
            assert_eq!(parse_text(text, layout).unwrap().1.entry_lag(), None, "{text}");
            assert_eq!(parse_tolerant(text.as_bytes(), layout).unwrap().1.entry_lag(), None, "{text}");
        }
    }

    #[test]
    fn the_kernels_account_comes_back() {
        let r = PacketRecord::one_way(5, WallTime(3), WallTime(4));
        let sample = TcpSample { retransmissions: 2, srtt_us: 25, cwnd: 10, ..TcpSample::default() };
        for beside in [Some(sample), None] {
            let mut out = Vec::new();
            assert!(push(&mut out, 9, &r, beside.as_ref(), Layout::TwoWayTcp));
            let text = core::str::from_utf8(&out[..out.len() - 1]).unwrap();
            assert_eq!(parse_text(text, Layout::TwoWayTcp), Some((9, r)));
            assert_eq!(parse_tolerant(text.as_bytes(), Layout::TwoWayTcp), Some((9, r, beside)));
        }
        assert_eq!(parse_text("9 3 5 4 0 uu-- - - - - - - - 1 2 4294967296", Layout::TwoWayTcp), None);
    }
}
