//! One row of a log: [`PacketRecord`] ⇄ text.
//!
//! There are two parsers. The fast one, [`Scanner`], only accepts the form that this program writes, and works on eight
//! bytes at a time. Rows in another form are parsed again by the tolerant one.

use super::compat::RowLayout;
use jitlat_core::record::Moment;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Ecn, Flags, PacketRecord, Span, Stamp, StampSource, WallTime};

/// Number of bytes from the start of a row that [`Scanner`] may read, even beyond the end of the input. It rejects longer
/// rows.
pub(super) const PADDING: usize = 512;
/// Maximum length of a row. It ensures that eight bytes can be read from any position in the columns.
const MAX_ROW_BYTES: usize = PADDING / 2;

const ONES: u64 = 0x0101_0101_0101_0101;
const TEN_TO_8: u64 = 100_000_000;

/// Returns a mask of eight bytes: the high bit of each byte that is not a digit is set, all other bits are 0.
#[inline(always)]
fn no_digits(eight: u64) -> u64 {
    let t = eight ^ (0x30 * ONES);
    // The high bit of a byte is set if it was set before, or if the addition sets it; no addition carries into the next
    // byte.
    (((t & (0x7f * ONES)) + 0x76 * ONES) | t) & (0x80 * ONES)
}

/// Returns the value of eight digits, the first of which is in the lowest byte. A zero byte counts as the digit 0.
#[inline]
fn eight_digits(chunk: u64) -> u64 {
    // Joins neighbouring digits, then pairs, then groups of four: the factors are 10·2⁸ + 1, 100·2¹⁶ + 1 and
    // 10 000·2³² + 1.
    let d = chunk & (0x0f * ONES);
    let pairs = d.wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}

/// Parses rows, one after the other.
///
/// The ends of columns are found eight bytes at a time, before their digits are examined. This allows the processor to
/// work on several columns in parallel.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    last: Option<RowTail>,
    /// TCP_INFO of the last row; `None` if it has none.
    pub tcp: Option<TcpSample>,
}

/// Text after the times of the previous row. It is often the same in the next row.
#[derive(Clone, Copy, Debug)]
struct RowTail {
    /// Text from the flags to the line feed.
    text: [u64; 3],
    /// Mask of the bits of `text` that belong to the row.
    mask: [u64; 3],
    /// Number of bytes to the line feed.
    to_end: usize,
    record: PacketRecord,
}

impl RowTail {
    /// Stores the tail of a row from position `from` to its line feed at `end`; `None` if it is too long, or a time is
    /// missing.
    fn of(window: &[u8; PADDING], from: usize, end: usize, record: &PacketRecord) -> Option<RowTail> {
        let to_end = end - from;
        record.sent().zip(record.arrived()).filter(|_| to_end < 24)?;
        let mask = core::array::from_fn(|k| match (to_end + 1).saturating_sub(8 * k) {
            0 => 0,
            bytes @ 1..8 => u64::MAX >> (64 - 8 * bytes),
            _ => u64::MAX,
        });
        let text = three(window, from)?;
        Some(RowTail { text, mask, to_end, record: *record })
    }

    /// True if the row at `from` has the same tail.
    #[inline]
    fn is_at(&self, window: &[u8; PADDING], from: usize) -> bool {
        let Some(text) = three(window, from) else { return false };
        let differs = |k: usize| (text[k] ^ self.text[k]) & self.mask[k];
        differs(0) | differs(1) | differs(2) == 0
    }
}

/// Returns 24 bytes of the row, from position `from` on.
#[inline]
fn three(window: &[u8; PADDING], from: usize) -> Option<[u64; 3]> {
    let bytes: &[u8; 24] = window.get(from..)?.first_chunk()?;
    let [a, b, c] = bytes.as_chunks::<8>().0 else { return None };
    Some([u64::from_le_bytes(*a), u64::from_le_bytes(*b), u64::from_le_bytes(*c)])
}

/// A position in a row, which advances with each column that is read.
struct Cursor<'a> {
    window: &'a [u8; PADDING],
    at: usize,
    /// Bit mask of the eight bytes from `base` on: the high bit of a byte is set if the byte is not a digit and has not
    /// been passed yet.
    marks: u64,
    base: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn new(window: &'a [u8; PADDING]) -> Cursor<'a> {
        let mut cursor = Cursor { window, at: 0, marks: 0, base: 0 };
        cursor.marks = no_digits(cursor.eight(0));
        cursor
    }

    /// Returns the position of the next byte that is not a digit. Inlined, like all methods that read columns, because
    /// a call would take more time than the method.
    #[inline(always)]
    fn next_mark(&mut self) -> Option<usize> {
        while self.marks == 0 {
            self.base += 8;
            if self.base >= MAX_ROW_BYTES {
                return None;
            }
            self.marks = no_digits(self.eight(self.base));
        }
        let at = self.base + self.marks.trailing_zeros() as usize / 8;
        self.marks &= self.marks - 1;
        Some(at)
    }

    /// Returns eight bytes from position `at` on, which is below [`MAX_ROW_BYTES`].
    #[inline(always)]
    fn eight(&self, at: usize) -> u64 {
        let at = at % MAX_ROW_BYTES;
        self.window[at..at + 8].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
    }

    /// Reads the number that ends at the next byte that is not a digit: 1 to 19 digits, at most 63 bits.
    #[inline(always)]
    fn digits(&mut self) -> Option<i64> {
        let (at, end) = (self.at, self.next_mark()?);
        let width = end - at;
        self.at = end;
        if (1..=8).contains(&width) {
            return Some(self.few_digits(at, width) as i64);
        }
        self.many_digits(at, width)
    }

    /// Reads 1 to 8 digits.
    #[inline(always)]
    fn few_digits(&self, at: usize, width: usize) -> u64 {
        eight_digits(self.eight(at).wrapping_shl(64 - 8 * width as u32))
    }

    #[inline]
    fn many_digits(&self, at: usize, width: usize) -> Option<i64> {
        let last = eight_digits(self.eight((at + width).checked_sub(8)?));
        let value = match width {
            9..=16 => self.few_digits(at, width - 8) * TEN_TO_8 + last,
            17..=19 => {
                let middle = eight_digits(self.eight(at + width - 16));
                (self.few_digits(at, width - 16) * TEN_TO_8 + middle) * TEN_TO_8 + last
            }
            _ => return None,
        };
        i64::try_from(value).ok()
    }

    #[inline(always)]
    fn peek(&self) -> u8 {
        self.window[self.at % PADDING]
    }

    #[inline(always)]
    fn signed(&mut self) -> Option<i64> {
        if self.peek() == b'-' {
            self.at = self.next_mark()? + 1;
            return self.digits().map(|v| -v);
        }
        self.digits()
    }

    /// Reads a signed number, or a single `-`, for which it returns `Some(None)`.
    #[inline(always)]
    fn optional(&mut self) -> Option<Option<i64>> {
        if self.peek() == b'-' {
            self.at = self.next_mark()? + 1;
            if !self.peek().is_ascii_digit() {
                self.at = self.next_mark()?;
                return Some(None);
            }
            return self.digits().map(|v| Some(-v));
        }
        self.digits().map(Some)
    }

    /// Moves past the single space between two columns. The cursor must be at the space.
    #[inline(always)]
    fn space(&mut self) -> Option<()> {
        let found = self.peek() == b' ';
        self.at += 1;
        found.then_some(())
    }

    /// Reads a space, then a number or `-`.
    #[inline(always)]
    fn next_optional(&mut self) -> Option<Option<i64>> {
        self.space()?;
        self.optional()
    }

    /// Reads a space, then a number that fits the type, or `-`.
    #[inline(always)]
    fn next_narrow<T: TryFrom<i64>>(&mut self) -> Option<Option<T>> {
        narrow(self.next_optional()?)
    }
}

impl Scanner {
    /// Reads the row at `buf[start..]` up to its line feed, if it has exactly the form that this program writes.
    /// Returns the row's index, the record, and the position of the line feed.
    #[inline]
    pub fn row(&mut self, buf: &[u8], start: usize, layout: RowLayout) -> Option<(u64, PacketRecord, usize)> {
        let window = buf.get(start..)?.first_chunk()?;
        let mut c = Cursor::new(window);
        let index = c.digits()? as u64;
        let mut times = [None; 4];
        times[0] = c.next_optional()?;
        c.space()?;
        let seq = c.signed()?;
        times[1] = c.next_optional()?;
        c.space()?;
        if let (Some(tail), [Some(sent), Some(arrived), ..]) = (&self.last, times)
            && tail.is_at(window, c.at)
        {
            let mut record = tail.record.at(WallTime(sent), WallTime(arrived));
            record.seq = seq;
            return Some((index, record, start + c.at + tail.to_end));
        }
        let tail = c.at;
        let mut record = PacketRecord::new(seq);
        record.flags = flags(c.signed()?);
        let mut letters = [b'u'; 4];
        let mut queue = None;
        if layout.is_classic() {
            // Both times must be present.
            if times[0].is_none() || times[1].is_none() {
                return None;
            }
        } else {
            c.space()?;
            let several = &mut letters[..layout.moments()];
            several.copy_from_slice(window.get(c.at..c.at + several.len())?);
            // The letter of an unknown time is not examined below, but it must be printable.
            several.iter().all(u8::is_ascii_graphic).then_some(())?;
            // Move past the letters and the space after them.
            for _ in 0..several.len() {
                c.at = (c.next_mark()? == c.at).then_some(c.at + 1)?;
            }
            (c.next_mark()? == c.at).then_some(())?;
            record.set_send_lag(c.next_optional()?.map(Span));
            record.set_receive_lag(c.next_optional()?.map(Span));
            record.set_ttl(c.next_narrow()?);
            record.set_traffic_class(c.next_narrow()?);
            record.set_size(c.next_narrow()?);
            if layout.moments() == 4 {
                times[2] = c.next_optional()?;
                times[3] = c.next_optional()?;
            }
            if layout.has_queue() {
                queue = c.next_optional()?;
            }
            if layout.has_marks() {
                record.set_request_mark(mark(c.next_optional()?)?);
                record.set_answer_mark(mark(c.next_optional()?)?);
            }
            if layout.has_tcp() {
                self.tcp = sample([c.next_narrow()?, c.next_narrow()?, c.next_narrow()?]);
            }
        }
        set_times(&mut record, times, letters)?;
        set_local_queue(&mut record, queue);
        if c.peek() != b'\n' {
            return None;
        }
        // TCP_INFO differs from row to row and is not part of the record, so the tail cannot be reused.
        self.last = if layout.has_tcp() { None } else { RowTail::of(window, tail, c.at, &record) };
        Some((index, record, start + c.at))
    }
}

/// Returns the TCP_INFO; `None` unless all its columns are present.
#[inline]
fn sample([retransmissions, srtt_us, cwnd]: [Option<u32>; 3]) -> Option<TcpSample> {
    let (retransmissions, srtt_us, cwnd) = (retransmissions?, srtt_us?, cwnd?);
    Some(TcpSample { retransmissions, srtt_us, cwnd, ..TcpSample::default() })
}

/// Sets the time at which the packet entered the local queue: `ns` before its send stamp, which must be set first. Does
/// nothing if the send stamp does not mark the packet's departure.
#[inline]
fn set_local_queue(record: &mut PacketRecord, ns: Option<i64>) {
    if let Some((ns, (lag, _))) = ns.zip(record.local_queue()) {
        record.set_entry_lag(lag.0.checked_sub(ns).map(Span));
    }
}

/// Sets the known times and their sources.
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

/// Reads a row in any notation that is unambiguous: any white space, a carriage return at the end, additional columns.
/// The row must not contain its line feed. Also returns its TCP_INFO.
#[cold]
pub(super) fn parse_tolerant(
    row: &[u8],
    layout: RowLayout,
) -> Option<(u64, PacketRecord, Option<TcpSample>)> {
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
        if layout.has_marks() {
            record.set_request_mark(mark(optional(columns.next()?)?)?);
            record.set_answer_mark(mark(optional(columns.next()?)?)?);
        }
    }
    let mut tcp = None;
    if layout.has_tcp() {
        let mut values = [None; 3];
        for value in &mut values {
            *value = narrow(optional(columns.next()?)?)?;
        }
        tcp = sample(values);
    }
    set_times(&mut record, times, letters)?;
    set_local_queue(&mut record, queue);
    Some((index, record, tcp))
}

/// Converts a value to the type of its field; `None` if it does not fit, which makes the row invalid.
#[inline]
fn narrow<T: TryFrom<i64>>(value: Option<i64>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(v) => T::try_from(v).ok().map(Some),
    }
}

/// Converts the bits of a mark, `None` if the mark is unknown. Returns `None` if they are out of range, which makes the row invalid.
#[inline]
fn mark(bits: Option<i64>) -> Option<Option<Ecn>> {
    match bits {
        None => Some(None),
        Some(bits) => u8::try_from(bits).ok().filter(|bits| *bits < 4).map(|bits| Some(Ecn::of_bits(bits))),
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
fn source(letter: u8) -> Option<StampSource> {
    Some(match letter {
        b'u' => StampSource::User,
        b'k' => StampSource::Kernel,
        b'h' => StampSource::Hardware,
        b'w' => StampSource::Wire,
        _ => return None,
    })
}

/// Appends `record` as row `index`, with its line feed. Returns `false` and appends nothing for a record without both times
/// in the classic layout.
#[inline]
pub(super) fn push(
    out: &mut Vec<u8>,
    index: u64,
    record: &PacketRecord,
    tcp: Option<&TcpSample>,
    layout: RowLayout,
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
        let stamped = record.local_queue().filter(|(_, source)| *source == StampSource::Kernel);
        out.push(b' ');
        optional(out, stamped.map(|(time, _)| time.0));
    }
    if layout.has_marks() {
        for mark in [record.request_mark(), record.answer_mark()] {
            out.push(b' ');
            optional(out, mark.map(|mark| mark.bits().into()));
        }
    }
    if layout.has_tcp() {
        let column = |f: fn(&TcpSample) -> u32| tcp.map(|s| f(s).into());
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
    use proptest::prelude::*;

    /// Parses `text` with both parsers, with the fast one twice: without and with known widths.
    fn parse_text(text: &str, layout: RowLayout) -> Option<(u64, PacketRecord)> {
        let buf = [text.as_bytes(), b"\n", &[0; PADDING]].concat();
        let mut scanner = Scanner::default();
        let first = scanner.row(&buf, 0, layout);
        assert_eq!(scanner.row(&buf, 0, layout), first, "{text}");
        let tolerant = parse_tolerant(text.as_bytes(), layout);
        if let Some((_, _, tcp)) = tolerant.filter(|_| first.is_some()) {
            assert_eq!(scanner.tcp, tcp, "{text}");
        }
        let tolerant = tolerant.map(|(index, record, _)| (index, record));
        if let Some((index, record, end)) = first {
            assert_eq!((tolerant, end), (Some((index, record)), text.len()));
        }
        tolerant
    }

    fn digits(text: &str) -> Option<i64> {
        let mut window = [0; PADDING];
        window[..text.len()].copy_from_slice(text.as_bytes());
        let mut c = Cursor::new(&window);
        let found = c.digits();
        assert!(found.is_none() || c.at == text.bytes().take_while(u8::is_ascii_digit).count(), "{text}");
        found
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
    fn numbers_of_all_widths_follow_each_other() {
        let mut numbers: Vec<u64> =
            (0..19).flat_map(|n| [10u64.pow(n), 10u64.pow(n) + 7, 2 * 10u64.pow(n) - 1]).collect();
        numbers.extend((0..200).map(|i| 1_763_697_000_000_000_000 + i * 99_999_999_983));
        numbers.extend_from_slice(&[7, 7, 12, 12_345_678, 12_345_679, 1_234_567, 123_456_789_012_345_678, 5]);
        for some in numbers.chunks(5) {
            let text = some.iter().map(|n| format!("{n} ")).collect::<String>();
            let mut window = [0; PADDING];
            window[..text.len()].copy_from_slice(text.as_bytes());
            let mut c = Cursor::new(&window);
            let read: Vec<Option<i64>> =
                some.iter().map(|_| c.digits().zip(c.space()).map(|(n, ())| n)).collect();
            assert_eq!(read, some.iter().map(|n| i64::try_from(*n).ok()).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn only_digits_are_digits() {
        for other in (0u8..=255).filter(|b| !b.is_ascii_digit()) {
            for n in 0..8 {
                let mut bytes = *b"12345678";
                (bytes[n], bytes[n / 2]) = (other, other);
                let found = no_digits(u64::from_le_bytes(bytes));
                assert_eq!(found, 0x80 << (8 * n) | 0x80 << (n / 2 * 8), "{other}");
            }
        }
    }

    /// Generates records with anything that a log can hold.
    fn any_record() -> impl Strategy<Value = PacketRecord> {
        let time =
            || prop_oneof![4 => 1_700_000_000_000_000_000i64..1_700_000_001_000_000_000, 1 => any::<i64>()];
        let lag =
            || prop::option::of(prop_oneof![3 => -99_999i64..99_999, 1 => any::<i32>().prop_map(i64::from)]);
        let times = prop::array::uniform4(prop::option::weighted(0.9, time()));
        let seen = (any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u16>>());
        let seq = prop_oneof![8 => 0i64..2_000_000, 1 => any::<i64>()];
        let flags = prop_oneof![3 => Just(0u16), 1 => any::<u16>()];
        (seq, times, lag(), lag(), seen, flags, 0u8..=255).prop_map(
            |(seq, times, send, receive, seen, flags, by)| {
                let mut record = PacketRecord::new(seq);
                let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
                for (k, (moment, time)) in moments.into_iter().zip(times).enumerate() {
                    if let Some(at) = time {
                        record.set(
                            moment,
                            Stamp {
                                at: WallTime(at),
                                source: StampSource::ALL[usize::from(by >> (2 * k) & 3)],
                            },
                        );
                    }
                }
                record.set_send_lag(send.map(Span));
                record.set_receive_lag(receive.map(Span));
                record.set_entry_lag(send.map(|lag| Span(lag / 2)));
                record.flags = Flags(flags);
                record.set_ttl(seen.0);
                record.set_traffic_class(seen.1);
                record.set_size(seen.2);
                record.set_request_mark((by & 1 == 0).then(|| Ecn::of_bits(by >> 1)));
                record.set_answer_mark((by & 8 == 0).then(|| Ecn::of_bits(by >> 4)));
                record
            },
        )
    }

    proptest! {
        /// Sequences of rows of every layout, as written, as edited by people, and damaged: the fast parser reads the same
        /// as the tolerant one.
        #[test]
        fn both_parsers_read_the_same(
            layout in prop::sample::select(vec![
                RowLayout::Classic,
                RowLayout::OneWay { queue: false },
                RowLayout::OneWay { queue: true },
                RowLayout::TwoWay { queue: false },
                RowLayout::TwoWay { queue: true },
                RowLayout::TwoWayMarked,
                RowLayout::TwoWayTcp,
            ]),
            records in prop::collection::vec((any_record(), 1u32..4, 0u8..12, any::<prop::sample::Index>(), any::<u8>()), 1..12),
        ) {
            let mut scanner = Scanner::default();
            let tcp = TcpSample { retransmissions: 2, srtt_us: 25, cwnd: 10, ..TcpSample::default() };
            for (k, (record, times, change, index, byte)) in (0u64..).zip(records) {
                // Repeated, so that the tail of the previous row is known.
                for copy in 0..times {
                    let mut text = Vec::new();
                    if !push(&mut text, k + u64::from(copy), &record, (copy % 2 == 0).then_some(&tcp), layout) {
                        continue;
                    }
                    text.pop();
                    match change {
                        0 => text.push(b'\r'),
                        1 => text.extend_from_slice(b" 7 x"),
                        2 => text.truncate(index.index(text.len())),
                        3 => text.insert(index.index(text.len()), b' '),
                        4 => { let at = index.index(text.len()); text[at] = byte }
                        5 => { let at = index.index(text.len()); text[at] = b"0123456789- kx"[usize::from(byte) % 14] }
                        _ => {}
                    }
                    text.retain(|b| *b != b'\n');
                    let buf = [&text[..], b"\n", &[0; PADDING]].concat();
                    let fast = scanner.row(&buf, 0, layout).map(|(index, record, end)| {
                        assert_eq!(end, text.len());
                        (index, record, scanner.tcp.filter(|_| layout.has_tcp()))
                    });
                    let tolerant = parse_tolerant(&text, layout);
                    if let Some((_, _, tcp)) = tolerant.filter(|_| fast.is_none()) {
                        scanner.tcp = tcp;
                    }
                    let plain = change > 5 && i64::MIN != record.seq;
                    prop_assert!(fast.is_none() || fast == tolerant, "{}", String::from_utf8_lossy(&text));
                    prop_assert!(fast.is_some() || !plain || tolerant.is_none() || text.len() > MAX_ROW_BYTES);
                }
            }
        }
    }

    #[test]
    fn marks_that_a_far_host_reports_are_in_the_row() {
        let layout = RowLayout::TwoWayMarked;
        let text = "3 10 3 - 0 u--k - 5 64 1 52 - 30 - 3 -";
        let (index, r) = parse_text(text, layout).unwrap();
        assert_eq!((r.request_mark(), r.answer_mark(), r.ecn()), (Some(Ecn::Ce), None, Some(Ecn::Ect1)));
        let mut out = Vec::new();
        assert!(push(&mut out, index, &r, None, layout));
        assert_eq!(String::from_utf8(out).unwrap(), format!("{text}\n"));
        assert_eq!(parse_text("3 10 3 - 0 u--k - 5 64 1 52 - 30 - 4 -", layout), None, "a mark has two bits");
    }

    #[test]
    fn classic_row() {
        let (index, r) =
            parse_text("7 1300000000070000000 7 1300000000075000000 1", RowLayout::Classic).unwrap();
        assert_eq!((index, r.seq, r.delay()), (7, 7, Some(Span::millis(5))));
        assert!(!r.flags.is_clean());
    }

    #[test]
    fn the_tolerant_path_reads_what_people_make_of_a_log() {
        let expected = parse_text("7 10 -2 15 0", RowLayout::Classic);
        assert!(expected.is_some());
        for text in ["7 10 -2 15 0\r", "  7\t10  -2 15 0 ", "7 10 -2 15 0 9 9 9", "+7 +10 -2 0015 0"] {
            assert_eq!(parse_text(text, RowLayout::Classic), expected, "{text}");
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
            assert_eq!(parse_text(text, RowLayout::Classic), None, "{text}");
        }
        for text in ["0 1 2 3 0 ux - - - - -", "0 1 2 3 0 uu - - 256 - -", "0 1 2 3 0 uu - - - - 65536"] {
            assert_eq!(parse_text(text, RowLayout::OneWay { queue: false }), None, "{text}");
        }
    }

    /// An unknown time must have a letter, too.
    #[test]
    fn a_source_of_no_time_is_a_letter() {
        for (letter, is_read) in [(b'u', true), (b' ', false), (0xff, false)] {
            let mut row = b"0 -1 0 5 0 uuu? - 10 - - - 7 - -\n".to_vec();
            row[14] = letter;
            row.resize(row.len() + PADDING, 0);
            let fast = Scanner::default().row(&row, 0, RowLayout::TwoWay { queue: true });
            assert_eq!(fast.is_some(), is_read, "{letter}");
        }
    }

    #[test]
    fn foreign_flags_stay_unclean() {
        for bits in ["65536", "-1", "-2147483648", "4294967296"] {
            let (_, r) = parse_text(&format!("0 1 2 3 {bits}"), RowLayout::Classic).unwrap();
            assert!(!r.flags.is_clean(), "{bits}");
        }
    }

    #[test]
    fn both_paths_agree() {
        let mut r = PacketRecord::one_way(5, WallTime(-3), WallTime(i64::MAX));
        r.set(Moment::Returned, Stamp { at: WallTime(12), source: StampSource::Hardware });
        r.set_receive_lag(Some(Span(-17)));
        r.set_traffic_class(Some(0));
        r.set_size(Some(80));
        let mut out = Vec::new();
        assert!(push(&mut out, 9, &r, None, RowLayout::TwoWay { queue: false }));
        let end = out.len() - 1;
        let text = core::str::from_utf8(&out[..end]).unwrap();
        assert_eq!(text, "9 -3 5 9223372036854775807 0 uu-h - -17 - 0 80 - 12");
        assert_eq!(parse_text(text, RowLayout::TwoWay { queue: false }), Some((9, r)));
    }

    #[test]
    fn the_time_in_the_local_queue_comes_back() {
        let mut r = PacketRecord::one_way(5, WallTime(3), WallTime(4));
        r.set(Moment::Sent, Stamp { at: WallTime(3), source: StampSource::Kernel });
        r.set_send_lag(Some(Span(5_000_000_000)));
        let bounded = r;
        r.set_entry_lag(Some(Span(1500)));
        let layouts =
            [(RowLayout::OneWay { queue: true }, "ku"), (RowLayout::TwoWay { queue: true }, "ku--")];
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
        // Compatibility: an older program reads this row, and this program reads an older log.
        let text = "9 3 5 4 0 ku 5000000000 - - - - 4999998500";
        assert_eq!(parse_text(text, RowLayout::OneWay { queue: false }), Some((9, bounded)));
        // Without the program's own reading, or without a stamp of the packet's departure, there is no queue time.
        for text in ["9 3 5 4 0 ku - - - - - 7", "9 3 5 4 0 uu 5 - - - - 7"] {
            let layout = RowLayout::OneWay { queue: true };
            assert_eq!(parse_text(text, layout).unwrap().1.entry_lag(), None, "{text}");
            assert_eq!(parse_tolerant(text.as_bytes(), layout).unwrap().1.entry_lag(), None, "{text}");
        }
    }

    #[test]
    fn the_kernels_account_comes_back() {
        let r = PacketRecord::one_way(5, WallTime(3), WallTime(4));
        let sample = TcpSample { retransmissions: 2, srtt_us: 25, cwnd: 10, ..TcpSample::default() };
        for tcp in [Some(sample), None] {
            let mut out = Vec::new();
            assert!(push(&mut out, 9, &r, tcp.as_ref(), RowLayout::TwoWayTcp));
            let text = core::str::from_utf8(&out[..out.len() - 1]).unwrap();
            assert_eq!(parse_text(text, RowLayout::TwoWayTcp), Some((9, r)));
            assert_eq!(parse_tolerant(text.as_bytes(), RowLayout::TwoWayTcp), Some((9, r, tcp)));
        }
        assert_eq!(parse_text("9 3 5 4 0 uu-- - - - - - - - 1 2 4294967296", RowLayout::TwoWayTcp), None);
    }
}
