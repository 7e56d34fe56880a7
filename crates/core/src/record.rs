//! [`PacketRecord`]: one packet of any instrument.

use crate::ecn::Ecn;
use crate::time::{Span, Stamp, StampSource, WallTime};

/// Value that means "no time". As a real timestamp it would be in the year 1677.
const MISSING: i64 = i64::MIN;
/// Value of a lag that means "no clock reading by the program in addition to the stamp".
const NO_LAG: i32 = i32::MIN;

/// Anomalies noticed when a packet was received. Zero stands for a clean packet. Any other value excludes the packet
/// from all figures (metrics §1), but not from the log.
///
/// Logs of versions 1 and 2 have 32 undocumented bits in this field, of which only the distinction between zero and
/// non-zero is meaningful. The low 15 are retained; any higher bit becomes [`Flags::FOREIGN`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// The length of the datagram differs from the agreed one.
    pub const LENGTH: Flags = Flags(1 << 0);
    /// The datagram was truncated by the receiver's buffer.
    pub const TRUNCATED: Flags = Flags(1 << 1);
    /// Unknown bits of an older log.
    pub const FOREIGN: Flags = Flags(1 << 15);

    /// Converts the 32-bit anomaly field of a classic log or packet record.
    pub fn from_classic(bits: i32) -> Flags {
        let low = (bits & 0x7fff) as u16;
        if bits & !0x7fff == 0 { Flags(low) } else { Flags(low | Flags::FOREIGN.0) }
    }

    /// Returns true if no anomaly was noticed.
    pub fn is_clean(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, o: Flags) -> Flags {
        Flags(self.0 | o.0)
    }
}

/// One of the four times of a packet. One-way tests have the first two, two-way tests up to four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Moment {
    /// The sender sent the packet (T1).
    Sent = 0,
    /// The packet arrived at the receiver, or at the far host (T2).
    Arrived = 1,
    /// The far host sent the answer (T3).
    Answered = 2,
    /// The answer arrived at the sender (T4).
    Returned = 3,
}

/// Everything observed about one packet, in 64 bytes: a row of a log, and the input of every metric. Unknown values are
/// missing, never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Sequence number, from 0. A negative number, or one beyond the test's packet count, is invalid but can be stored.
    pub seq: i64,
    times: [i64; 4],
    /// Time from the program's own clock reading to the send stamp, in ns; [`MISSING`] if unknown.
    send_lag: i64,
    entry_lag: i32,
    receive_lag: i32,
    size: u16,
    /// Anomalies of reception.
    pub flags: Flags,
    sources: u8,
    /// TTL or hop limit seen by the receiver; 0 = unknown (no packet arrives with 0).
    ttl: u8,
    traffic_class: u8,
    /// Bit 0: [`KNOWN_CLASS`]. Bits 1 to 3 and 4 to 6: the marks that a far host reported, each with a bit that is set if
    /// the mark is known.
    known: u8,
}

const KNOWN_CLASS: u8 = 1;
/// Position of the mark of a request on arrival, in `known`.
const REQUEST_MARK: u8 = 1;
/// Position of the mark of an answer as sent, in `known`.
const ANSWER_MARK: u8 = 4;
/// Bit above the two bits of a mark: the mark is known.
const KNOWN_MARK: u8 = 4;

impl PacketRecord {
    /// Creates a record of packet `seq` without any other data.
    pub const fn new(seq: i64) -> PacketRecord {
        PacketRecord {
            seq,
            times: [MISSING; 4],
            send_lag: MISSING,
            entry_lag: NO_LAG,
            receive_lag: NO_LAG,
            size: 0,
            flags: Flags(0),
            sources: 0,
            ttl: 0,
            traffic_class: 0,
            known: 0,
        }
    }

    /// Creates a one-way record with a send and an arrival time, both read by programs.
    pub fn one_way(seq: i64, sent: WallTime, arrived: WallTime) -> PacketRecord {
        PacketRecord { times: [sent.0, arrived.0, MISSING, MISSING], ..PacketRecord::new(seq) }
    }

    /// Returns the same packet with another send and arrival time. The sources of the stamps remain unchanged.
    #[must_use]
    #[inline]
    pub fn at(mut self, sent: WallTime, arrived: WallTime) -> PacketRecord {
        (self.times[0], self.times[1]) = (sent.0, arrived.0);
        self
    }

    /// Returns the time of `moment`; `None` if unknown.
    #[inline]
    pub fn time(&self, moment: Moment) -> Option<WallTime> {
        let t = self.times[moment as usize];
        (t != MISSING).then_some(WallTime(t))
    }

    /// Returns the time of `moment` and its source; `None` if unknown.
    pub fn stamp(&self, moment: Moment) -> Option<Stamp> {
        self.time(moment).map(|at| Stamp { at, source: self.source(moment) })
    }

    /// Returns the source of the stamp of `moment`. It is meaningless if that time is missing.
    pub fn source(&self, moment: Moment) -> StampSource {
        StampSource::ALL[(self.sources >> (2 * moment as u8) & 3) as usize]
    }

    /// Sets the stamp of `moment`.
    #[inline]
    pub fn set(&mut self, moment: Moment, stamp: Stamp) {
        let shift = 2 * moment as u8;
        self.times[moment as usize] = stamp.at.0;
        self.sources = self.sources & !(3 << shift) | (stamp.source as u8) << shift;
    }

    /// Removes the stamp of `moment`.
    pub fn clear(&mut self, moment: Moment) {
        self.times[moment as usize] = MISSING;
    }

    /// Returns the time at which the packet was sent; `None` if unknown.
    #[inline]
    pub fn sent(&self) -> Option<WallTime> {
        self.time(Moment::Sent)
    }

    /// Returns the time at which the packet arrived at the receiver, or at the far host in a round-trip test; `None` if
    /// unknown.
    #[inline]
    pub fn arrived(&self) -> Option<WallTime> {
        self.time(Moment::Arrived)
    }

    /// Returns the raw one-way delay `arrived − sent`, which is negative if the two clocks disagree. `None` if either
    /// time is missing or the difference does not fit into 64 bits.
    #[inline]
    pub fn delay(&self) -> Option<Span> {
        self.arrived()?.checked_since(self.sent()?)
    }

    /// Returns the send time and the delay of a clean packet, both in ns; `None` if the packet is flagged or has no
    /// delay.
    #[inline]
    pub(crate) fn clean(&self) -> Option<(i64, i64)> {
        let [sent, arrived, ..] = self.times;
        let known = sent != MISSING && arrived != MISSING && self.flags.is_clean();
        known.then(|| arrived.checked_sub(sent)).flatten().map(|delay| (sent, delay))
    }

    /// Returns true if `other` differs only in sequence number, times and lags: sources, size and IP header fields are
    /// equal.
    #[inline]
    pub(crate) fn is_like(&self, other: &PacketRecord) -> bool {
        let seen = |r: &PacketRecord| {
            let header = u32::from_le_bytes([r.sources, r.ttl, r.traffic_class, r.known]);
            (r.size, r.flags.0, header)
        };
        seen(self) == seen(other)
    }

    /// Returns true if the record has a [`PacketRecord::send_lag`] or a [`PacketRecord::receive_lag`].
    #[inline]
    pub(crate) fn has_lags(&self) -> bool {
        self.send_lag != MISSING || self.receive_lag != NO_LAG
    }

    /// Returns the time that the packet spent in the sending host: from the program's own clock reading to the send
    /// stamp; `None` if unknown.
    pub fn send_lag(&self) -> Option<Span> {
        (self.send_lag != MISSING).then_some(Span(self.send_lag))
    }

    /// Returns the time from the program's own clock reading to the kernel's stamp on entry to the queue of the sending
    /// host's interface; `None` if unknown, or beyond ±2.1 s.
    pub fn entry_lag(&self) -> Option<Span> {
        (self.entry_lag != NO_LAG).then_some(Span(self.entry_lag.into()))
    }

    /// Returns the time in the queue of the sending host's interface, up to the send stamp, and the source of the entry
    /// time. With [`StampSource::Kernel`], the kernel stamped the entry. With [`StampSource::User`], it did not: the
    /// time is counted from the program's own clock reading, which makes it an upper bound. `None` if the packet has no
    /// stamp of its departure.
    pub fn local_queue(&self) -> Option<(Span, StampSource)> {
        if !matches!(self.source(Moment::Sent), StampSource::Kernel | StampSource::Hardware) {
            return None;
        }
        let lag = self.send_lag()?;
        Some(match self.entry_lag() {
            Some(entered) => (Span(lag.0.saturating_sub(entered.0)), StampSource::Kernel),
            None => (lag, StampSource::User),
        })
    }

    /// Returns the time that the packet waited in the receiving host: from the arrival stamp to the program's own clock
    /// reading. Saturates at ±2.1 s; `None` if unknown.
    pub fn receive_lag(&self) -> Option<Span> {
        (self.receive_lag != NO_LAG).then_some(Span(self.receive_lag.into()))
    }

    /// Sets [`Self::send_lag`].
    pub fn set_send_lag(&mut self, lag: Option<Span>) {
        self.send_lag = lag.map_or(MISSING, |lag| lag.0);
    }

    /// Sets [`Self::entry_lag`]; a value that does not fit becomes unknown.
    pub fn set_entry_lag(&mut self, lag: Option<Span>) {
        self.entry_lag = lag.and_then(|lag| i32::try_from(lag.0).ok()).unwrap_or(NO_LAG);
    }

    /// Sets [`Self::receive_lag`].
    pub fn set_receive_lag(&mut self, lag: Option<Span>) {
        self.receive_lag = lag.map_or(NO_LAG, pack_lag);
    }

    /// Returns the number of payload bytes received; `None` if unknown (an empty payload cannot contain a
    /// sequence number).
    pub fn size(&self) -> Option<u16> {
        (self.size != 0).then_some(self.size)
    }

    /// Sets [`Self::size`].
    pub fn set_size(&mut self, bytes: Option<u16>) {
        self.size = bytes.unwrap_or(0);
    }

    /// Returns the TTL or hop limit seen by the receiver; `None` if unknown.
    pub fn ttl(&self) -> Option<u8> {
        (self.ttl != 0).then_some(self.ttl)
    }

    /// Sets [`Self::ttl`].
    pub fn set_ttl(&mut self, ttl: Option<u8>) {
        self.ttl = ttl.unwrap_or(0);
    }

    /// Returns the whole TOS / traffic-class octet seen by the receiver; `None` if unknown.
    pub fn traffic_class(&self) -> Option<u8> {
        (self.known & KNOWN_CLASS != 0).then_some(self.traffic_class)
    }

    /// Sets [`Self::traffic_class`].
    pub fn set_traffic_class(&mut self, octet: Option<u8>) {
        self.traffic_class = octet.unwrap_or(0);
        self.known = self.known & !KNOWN_CLASS | u8::from(octet.is_some());
    }

    /// Returns the six DSCP bits seen by the receiver; `None` if unknown.
    pub fn dscp(&self) -> Option<u8> {
        self.traffic_class().map(|c| c >> 2)
    }

    /// Returns the mark seen by the receiver; `None` if unknown.
    pub fn ecn(&self) -> Option<Ecn> {
        self.traffic_class().map(Ecn::of_bits)
    }

    /// Returns the mark of a request on arrival at the far host; `None` if the far host does not report it.
    pub fn request_mark(&self) -> Option<Ecn> {
        self.reported_mark(REQUEST_MARK)
    }

    /// Sets [`Self::request_mark`].
    pub fn set_request_mark(&mut self, mark: Option<Ecn>) {
        self.set_reported_mark(REQUEST_MARK, mark);
    }

    /// Returns the mark with which the far host sent an answer; `None` if the far host does not report it.
    pub fn answer_mark(&self) -> Option<Ecn> {
        self.reported_mark(ANSWER_MARK)
    }

    /// Sets [`Self::answer_mark`].
    pub fn set_answer_mark(&mut self, mark: Option<Ecn>) {
        self.set_reported_mark(ANSWER_MARK, mark);
    }

    fn reported_mark(&self, position: u8) -> Option<Ecn> {
        let bits = self.known >> position;
        (bits & KNOWN_MARK != 0).then(|| Ecn::of_bits(bits))
    }

    fn set_reported_mark(&mut self, position: u8, mark: Option<Ecn>) {
        let bits = mark.map_or(0, |mark| KNOWN_MARK | mark.bits());
        self.known = self.known & !(7 << position) | bits << position;
    }
}

fn pack_lag(lag: Span) -> i32 {
    lag.0.clamp((i32::MIN + 1).into(), i32::MAX.into()) as i32
}

impl core::fmt::Debug for PacketRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut d = f.debug_struct("PacketRecord");
        d.field("seq", &self.seq);
        for moment in [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned] {
            if let Some(s) = self.stamp(moment) {
                d.field(
                    &format!("{moment:?}").to_lowercase(),
                    &format_args!("{}{}", s.at.0, s.source.letter()),
                );
            }
        }
        d.field("flags", &self.flags.0).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_at_most_64_bytes() {
        assert!(size_of::<PacketRecord>() <= 64, "{}", size_of::<PacketRecord>());
    }

    #[test]
    fn what_is_not_set_is_missing() {
        let r = PacketRecord::new(3);
        assert_eq!(
            (r.sent(), r.arrived(), r.delay(), r.send_lag(), r.receive_lag()),
            (None, None, None, None, None)
        );
        assert_eq!((r.size(), r.ttl(), r.traffic_class()), (None, None, None));
    }

    #[test]
    fn the_local_queue_is_from_the_entry_or_bounded_by_the_reading() {
        let mut r = PacketRecord::one_way(0, WallTime(0), WallTime(9_000_000_000));
        r.set_send_lag(Some(Span(5)));
        assert_eq!(r.local_queue(), None, "the program's own reading says nothing about when it left");
        r.set(Moment::Sent, Stamp { at: WallTime(5_000_000_000), source: StampSource::Kernel });
        r.set_send_lag(Some(Span(5_000_000_000)));
        assert_eq!(r.local_queue(), Some((Span(5_000_000_000), StampSource::User)), "beyond 32 bits, too");
        r.set_entry_lag(Some(Span(1000)));
        assert_eq!(r.local_queue(), Some((Span(4_999_999_000), StampSource::Kernel)));
        r.set_entry_lag(Some(Span(1 << 31)));
        assert_eq!((r.entry_lag(), r.local_queue()), (None, Some((Span(5_000_000_000), StampSource::User))));
    }

    #[test]
    fn marks_that_a_far_host_reports_are_known_or_missing_independently() {
        let mut r = PacketRecord::new(0);
        assert_eq!((r.request_mark(), r.answer_mark(), r.ecn()), (None, None, None));
        for mark in Ecn::ALL {
            r.set_request_mark(Some(mark));
            assert_eq!((r.request_mark(), r.answer_mark(), r.ecn()), (Some(mark), None, None));
        }
        r.set_answer_mark(Some(Ecn::NotEct));
        r.set_traffic_class(Some(0xb9));
        assert_eq!(
            (r.request_mark(), r.answer_mark(), r.ecn()),
            (Some(Ecn::Ce), Some(Ecn::NotEct), Some(Ecn::Ect1))
        );
        r.set_request_mark(None);
        assert_eq!((r.request_mark(), r.answer_mark(), r.dscp()), (None, Some(Ecn::NotEct), Some(46)));
    }

    #[test]
    fn stamps_keep_their_sources_apart() {
        let mut r = PacketRecord::new(0);
        r.set(Moment::Sent, Stamp { at: WallTime(5), source: StampSource::Kernel });
        r.set(Moment::Returned, Stamp { at: WallTime(9), source: StampSource::Wire });
        r.set(Moment::Sent, Stamp { at: WallTime(6), source: StampSource::Hardware });
        assert_eq!(r.stamp(Moment::Sent), Some(Stamp { at: WallTime(6), source: StampSource::Hardware }));
        assert_eq!(r.stamp(Moment::Returned), Some(Stamp { at: WallTime(9), source: StampSource::Wire }));
        assert_eq!(r.stamp(Moment::Arrived), None);
    }

    #[test]
    fn classic_flags_stay_non_zero() {
        for bits in [1, 4, 0x7fff, 0x8000, -1, i32::MIN] {
            assert!(!Flags::from_classic(bits).is_clean(), "{bits}");
        }
        assert!(Flags::from_classic(0).is_clean());
    }
}
