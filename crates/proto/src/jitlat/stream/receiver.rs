//! [`StreamReceiver`]: classifies arrivals, and decides when the stream is over.

use super::{longest_gap, sentinel_interval};
use crate::jitlat::limits::WINDOW;
use crate::jitlat::packet::{HELLO, PacketHeader, SENTINEL};
use jitlat_core::record::Moment;
use jitlat_core::{Flags, PacketRecord, Span, Stamp, SteadyTime, TestSpec, Transport, WallTime};

/// Timeouts of a receiver, on the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverTimeouts {
    /// Maximum time without any arrival while the stream should be running.
    pub silence: Span,
    /// Maximum time without any arrival after the last packet is due, when sentinels should arrive.
    pub tail: Span,
    /// Time to wait for late packets after the first sentinel, or after the sender reported its end.
    pub linger: Span,
}

impl ReceiverTimeouts {
    /// Returns the timeouts for `spec`. Silence: a minute plus ten times the longest regular gap. Tail: two
    /// sentinel intervals plus 10 s (TCP: plus a minute, because a connection may stall for that long).
    /// Linger: ten periods (¼ s to 2 s), zero over TCP.
    pub fn of(spec: &TestSpec) -> ReceiverTimeouts {
        let (linger, tail) = match spec.transport() {
            Transport::Udp => (spec.period().times(10).0.clamp(250_000_000, 2_000_000_000), 10),
            // TCP delivers in order, so nothing arrives after the sentinel, but a connection may stall for a
            // minute.
            Transport::Tcp => (0, 60),
        };
        ReceiverTimeouts {
            silence: Span::seconds(60) + longest_gap(spec).times(10),
            tail: Span::seconds(tail) + sentinel_interval(spec).times(2),
            linger: Span(linger),
        }
    }
}

/// Timeout for the first packet.
const FIRST_PACKET_TIMEOUT: Span = Span::seconds(60);

/// Facts about a received datagram or TCP record, in addition to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// Most precise timestamp of the arrival, on the wall clock.
    pub stamp: Stamp,
    /// This program's own reading of the wall clock; `None` if `stamp` is that reading.
    pub read: Option<WallTime>,
    /// Current time on the steady clock, for timers. One reading may serve a whole batch.
    pub steady: SteadyTime,
    /// Payload length on the wire in bytes, if the buffer was too short for the payload; `None`: the length
    /// of the slice.
    pub full_len: Option<usize>,
    /// TTL or hop limit; `None` if unknown.
    pub ttl: Option<u8>,
    /// TOS or traffic-class octet; `None` if unknown.
    pub traffic_class: Option<u8>,
}

impl Reception {
    /// Creates a reception with a timestamp, but without further facts.
    pub fn new(stamp: Stamp, steady: SteadyTime) -> Reception {
        Reception { stamp, read: None, steady, full_len: None, ttl: None, traffic_class: None }
    }
}

/// Classification of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamArrival {
    /// A test packet, valid or flagged, which must be recorded.
    Packet(PacketRecord),
    /// The stream has ended; see [`StreamReceiver::status`].
    Sentinel,
    /// A greeting with this token, which must be returned to its source unchanged.
    Hello(u64),
    /// Too short for a packet, or beyond the limit of arrivals. Counted and dropped.
    Noise,
}

/// Reason why a reception ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A sentinel arrived.
    Sentinel,
    /// The sender reported its end on the control connection, or this host cut the test.
    Cut,
    /// No packet ever arrived.
    NeverStarted,
    /// Packets arrived, but then none for the timeout.
    Silent,
    /// The sender closed the TCP test connection.
    Closed,
    /// Far more packets arrived than the schedule contains.
    Exceeded,
}

/// Limit on the number of arriving packets: twice the schedule's maximum in each window, because networks may
/// duplicate packets, plus the packets of one second, because this host may start late. Packets that a path
/// delays and then delivers all at once stay below the limit.
#[derive(Clone, Copy, Debug)]
struct ArrivalLimit {
    /// Maximum number of packets in a [`WINDOW`] of the schedule.
    peak: u64,
    began: SteadyTime,
    /// Timestamp of the first arrival; `None` before it.
    first: Option<WallTime>,
    /// Number of packets allowed, as last computed.
    allowed: u64,
}

impl ArrivalLimit {
    const WINDOWS_AHEAD: u64 = 10;
    const PACKETS_AHEAD: u64 = 64;

    /// True if packet number `arrivals` is within the limit.
    #[inline]
    fn allows(&mut self, arrivals: u64, how: &Reception) -> bool {
        arrivals <= self.allowed || self.allows_by(arrivals, how)
    }

    fn allows_by(&mut self, arrivals: u64, how: &Reception) -> bool {
        // The timestamps show when packets arrived that have been waiting in the socket. It is sufficient if
        // one of the two clocks shows that enough time has passed.
        let first = *self.first.get_or_insert(how.stamp.at);
        let stamped = how.stamp.at.checked_since(first).unwrap_or(Span::ZERO);
        let elapsed = stamped.max(how.steady - self.began).0.max(0).unsigned_abs();
        let windows = elapsed / WINDOW.0.unsigned_abs() + ArrivalLimit::WINDOWS_AHEAD;
        self.allowed = (2 * self.peak).saturating_mul(windows).saturating_add(ArrivalLimit::PACKETS_AHEAD);
        arrivals <= self.allowed
    }
}

/// Receiver of one stream. Does not allocate, and needs only a few comparisons per packet.
#[derive(Clone, Debug)]
pub struct StreamReceiver {
    packets: u32,
    payload: u16,
    greetings: bool,
    timeouts: ReceiverTimeouts,
    /// Time at which the last packet should be sent, on the steady clock, as estimated by this host.
    due_end: SteadyTime,
    duration: Span,
    last: SteadyTime,
    /// Time at which the stream is over, and the reason; `None` while neither is known.
    ending: Option<(SteadyTime, Finish)>,
    /// Time at which the stream was cut, and the time without arrivals after which it is over; `None` if it
    /// was not cut.
    cut: Option<(SteadyTime, Span)>,
    received: u64,
    noise: u64,
    sentinels: u64,
    in_order: u32,
    /// Number of arrivals.
    arrivals: u64,
    /// Limit on the number of arrivals; `None`: no limit.
    allowance: Option<ArrivalLimit>,
}

impl StreamReceiver {
    /// Creates a receiver of `spec` that is ready at `now` on the steady clock. `greetings` is true if −2 is
    /// a greeting (version 3), and false if it is an invalid sequence number (classic).
    pub fn new(
        spec: &TestSpec,
        timeouts: ReceiverTimeouts,
        greetings: bool,
        now: SteadyTime,
    ) -> StreamReceiver {
        StreamReceiver {
            packets: spec.packets(),
            payload: spec.payload(),
            greetings,
            timeouts,
            due_end: now + spec.duration(),
            duration: spec.duration(),
            last: now,
            ending: None,
            cut: None,
            received: 0,
            noise: 0,
            sentinels: 0,
            in_order: 0,
            arrivals: 0,
            allowance: None,
        }
    }

    /// Makes the stream end if far more than `peak` packets arrive within any [`WINDOW`]; `None`: no limit.
    pub fn limited_to(mut self, peak: Option<u64>) -> StreamReceiver {
        let began = self.last;
        self.allowance = peak.map(|peak| ArrivalLimit { peak, began, first: None, allowed: 0 });
        self
    }

    /// Classifies one datagram or TCP record.
    #[inline]
    pub fn packet(&mut self, payload: &[u8], how: &Reception) -> StreamArrival {
        self.arrivals += 1;
        if let Some(allowance) = &mut self.allowance
            && !allowance.allows(self.arrivals, how)
        {
            self.ending = Some((how.steady, Finish::Exceeded));
            self.noise += 1;
            return StreamArrival::Noise;
        }
        let Some(header) = PacketHeader::parse(payload) else {
            self.noise += 1;
            return StreamArrival::Noise;
        };
        match header.seq {
            SENTINEL => {
                self.sentinels += 1;
                self.last = how.steady;
                // All packets arrived in order, so there is no reason to wait for late packets.
                let linger = if self.in_order == self.packets { Span::ZERO } else { self.timeouts.linger };
                self.end_by(how.steady + linger, Finish::Sentinel);
                return StreamArrival::Sentinel;
            }
            HELLO if self.greetings => return StreamArrival::Hello(header.sent.0 as u64),
            _ => {}
        }
        if self.received == 0 {
            // The sender may have started later than this host was ready.
            self.due_end = how.steady + self.duration;
        }
        self.received += 1;
        self.last = how.steady;
        if i64::from(header.seq) == i64::from(self.in_order) {
            self.in_order += 1;
        }
        StreamArrival::Packet(self.record(header, payload.len(), how))
    }

    fn record(&self, header: PacketHeader, len: usize, how: &Reception) -> PacketRecord {
        let full = how.full_len.unwrap_or(len).max(len);
        let mut record = PacketRecord::one_way(header.seq.into(), header.sent, how.stamp.at);
        record.set(Moment::Arrived, how.stamp);
        record.set_receive_lag(how.read.and_then(|read| read.checked_since(how.stamp.at)));
        record.set_size(Some(u16::try_from(full).unwrap_or(u16::MAX)));
        record.set_ttl(how.ttl);
        record.set_traffic_class(how.traffic_class);
        if full != usize::from(self.payload) {
            record.flags = record.flags | Flags::LENGTH;
        }
        if full > len {
            record.flags = record.flags | Flags::TRUNCATED;
        }
        record
    }

    /// Ends the stream, because the sender has ended according to the control connection or because the user
    /// gives up. Late packets are awaited until none has arrived for `linger`.
    pub fn cut(&mut self, now: SteadyTime, linger: Span) {
        self.cut = Some((now, linger));
    }

    /// Records that the TCP test connection has ended.
    pub fn closed(&mut self, now: SteadyTime) {
        self.end_by(now, Finish::Closed);
    }

    fn end_by(&mut self, at: SteadyTime, finish: Finish) {
        match &mut self.ending {
            // Repeated sentinels must not extend the time for late packets.
            Some((until, _)) => *until = (*until).min(at),
            None => self.ending = Some((at, finish)),
        }
    }

    /// Returns the time on the steady clock at which to call [`status`](StreamReceiver::status) again if
    /// nothing arrives.
    pub fn deadline(&self) -> SteadyTime {
        // The first packet is due at once, regardless of the period.
        let silence = if self.received == 0 {
            FIRST_PACKET_TIMEOUT.min(self.timeouts.silence)
        } else {
            self.timeouts.silence
        };
        let silent = self.last + silence;
        let tail = self.last.max(self.due_end) + self.timeouts.tail;
        let given_up = silent.min(tail);
        let ending = self.ending.map_or(given_up, |(until, _)| until);
        ending.min(self.cut_off()).min(given_up)
    }

    /// Returns the time at which a cut stream is over.
    fn cut_off(&self) -> SteadyTime {
        match self.cut {
            // No time is allowed for late packets, so later arrivals change nothing.
            Some((at, Span::ZERO)) => at,
            Some((at, linger)) => at.max(self.last) + linger,
            None => SteadyTime(i64::MAX),
        }
    }

    /// Returns the reason if the reception is over at `now` on the steady clock; `None` if it is not over.
    pub fn status(&self, now: SteadyTime) -> Option<Finish> {
        if now < self.deadline() {
            return None;
        }
        Some(match self.ending {
            Some((until, finish)) if until <= now => finish,
            _ if self.cut_off() <= now => Finish::Cut,
            Some((_, finish)) => finish,
            None if self.received == 0 => Finish::NeverStarted,
            None => Finish::Silent,
        })
    }

    /// Returns the number of test packets received so far, including duplicates and invalid packets.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of arrivals that were too short or beyond the limit.
    pub fn noise(&self) -> u64 {
        self.noise
    }

    /// Returns the number of sentinels received so far.
    pub fn sentinels(&self) -> u64 {
        self.sentinels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::time::SECOND;
    use jitlat_core::{Direction, Schedule, StampSource};

    fn receiver(packets: u64, period: Span) -> (TestSpec, StreamReceiver) {
        let spec =
            TestSpec::new(Direction::Up, Transport::Udp, packets, 20, period, Schedule::Periodic).unwrap();
        let receiver = StreamReceiver::new(&spec, ReceiverTimeouts::of(&spec), true, SteadyTime(0));
        (spec, receiver)
    }

    fn at(ms: i64) -> Reception {
        let steady = SteadyTime(ms * 1_000_000);
        Reception::new(
            Stamp { at: WallTime(steady.0) + Span::seconds(50 * 365 * 86_400), source: StampSource::Kernel },
            steady,
        )
    }

    fn packet(seq: i32) -> [u8; 20] {
        let mut bytes = [0; 20];
        PacketHeader { sent: WallTime(1000 + i64::from(seq)), seq }.write(&mut bytes);
        bytes
    }

    fn record(arrival: StreamArrival) -> PacketRecord {
        match arrival {
            StreamArrival::Packet(record) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_packet_becomes_a_record_with_all_that_is_known() {
        let (_, mut rx) = receiver(3, Span::millis(20));
        let mut how = at(5);
        how.read = Some(how.stamp.at + Span(700));
        (how.ttl, how.traffic_class) = (Some(63), Some(0xb8));
        let r = record(rx.packet(&packet(2), &how));
        assert_eq!((r.seq, r.sent(), r.arrived()), (2, Some(WallTime(1002)), Some(how.stamp.at)));
        assert_eq!((r.source(Moment::Arrived), r.receive_lag()), (StampSource::Kernel, Some(Span(700))));
        assert_eq!((r.size(), r.ttl(), r.dscp(), r.flags), (Some(20), Some(63), Some(46), Flags::default()));
    }

    #[test]
    fn wrong_lengths_are_flagged_and_noise_is_counted() {
        let (_, mut rx) = receiver(3, Span::millis(20));
        assert_eq!(record(rx.packet(&packet(0)[..12], &at(0))).flags, Flags::LENGTH);
        let mut cut = at(1);
        cut.full_len = Some(2000);
        let r = record(rx.packet(&packet(1), &cut));
        assert_eq!((r.flags, r.size()), (Flags::LENGTH | Flags::TRUNCATED, Some(2000)));
        assert_eq!(rx.packet(&packet(1)[..11], &at(2)), StreamArrival::Noise);
        // Invalid sequence numbers are recorded, because the analysis handles them.
        assert_eq!(record(rx.packet(&packet(77), &at(3))).seq, 77);
        assert_eq!(record(rx.packet(&packet(-9), &at(3))).seq, -9);
        assert_eq!((rx.received(), rx.noise()), (4, 1));
    }

    #[test]
    fn minus_two_is_a_greeting_only_where_greetings_exist() {
        let (spec, mut rx) = receiver(3, Span::millis(20));
        let mut hello = packet(0);
        PacketHeader::hello(42).write(&mut hello);
        assert_eq!(rx.packet(&hello, &at(0)), StreamArrival::Hello(42));
        assert_eq!(rx.received(), 0);
        let mut classic = StreamReceiver::new(&spec, ReceiverTimeouts::of(&spec), false, SteadyTime(0));
        assert_eq!(record(classic.packet(&hello, &at(0))).seq, -2);
    }

    #[test]
    fn a_complete_stream_ends_with_the_sentinel_another_waits_for_stragglers() {
        let (spec, mut rx) = receiver(2, Span::millis(20));
        rx.packet(&packet(0), &at(0));
        rx.packet(&packet(1), &at(20));
        assert_eq!(rx.status(at(219).steady), None);
        assert_eq!(rx.packet(&packet(-1), &at(220)), StreamArrival::Sentinel);
        assert_eq!(rx.status(at(220).steady), Some(Finish::Sentinel));

        let mut rx = StreamReceiver::new(&spec, ReceiverTimeouts::of(&spec), true, SteadyTime(0));
        rx.packet(&packet(1), &at(20));
        rx.packet(&packet(-1), &at(220));
        assert_eq!((rx.status(at(469).steady), rx.deadline()), (None, at(470).steady));
        rx.packet(&packet(-1), &at(420));
        assert!(matches!(rx.packet(&packet(0), &at(430)), StreamArrival::Packet(_)));
        assert_eq!(rx.status(at(470).steady), Some(Finish::Sentinel), "later sentinels do not prolong it");
    }

    #[test]
    fn silence_is_given_up_in_bounded_time() {
        let (_, rx) = receiver(1_000_000, Span::millis(20));
        assert_eq!(rx.deadline(), SteadyTime(60 * SECOND));
        assert_eq!(rx.status(rx.deadline()), Some(Finish::NeverStarted));
        let (_, a_packet_a_day) = receiver(10, Span::seconds(86_400));
        assert_eq!(a_packet_a_day.deadline(), SteadyTime(60 * SECOND));

        // During the stream: one minute. At the end: ten seconds after the last packet was due.
        let (_, mut rx) = receiver(10_000, Span::millis(20));
        rx.packet(&packet(0), &at(1000));
        assert_eq!(rx.deadline(), at(61_200).steady);
        rx.packet(&packet(9000), &at(181_000));
        assert_eq!(rx.deadline(), at(1000 + 200_000 + 10_000 + 400).steady);
        assert_eq!(rx.status(rx.deadline()), Some(Finish::Silent));
    }

    #[test]
    fn a_cut_stream_waits_for_what_still_comes_unless_asked_not_to() {
        let (_, mut rx) = receiver(10_000, Span::millis(20));
        rx.packet(&packet(0), &at(0));
        rx.cut(at(10).steady, Span::millis(100));
        rx.packet(&packet(1), &at(90));
        assert_eq!((rx.status(at(110).steady), rx.status(at(190).steady)), (None, Some(Finish::Cut)));
        rx.cut(at(95).steady, Span::ZERO);
        assert_eq!(rx.status(at(95).steady), Some(Finish::Cut));
    }

    #[test]
    fn a_stream_faster_than_agreed_is_ended() {
        let (_, rx) = receiver(1_000_000, Span::millis(20));
        let mut rx = rx.limited_to(Some(5));
        let arrived = (0..).find(|k| rx.packet(&packet(*k), &at(i64::from(k / 100))) == StreamArrival::Noise);
        // 66 000 packets/s arrive although 50/s were agreed. The limit is the packets of slightly less than
        // two seconds, plus 64.
        assert_eq!((arrived, rx.status(at(1).steady)), (Some(164), Some(Finish::Exceeded)));
    }

    #[test]
    fn what_a_path_duplicates_and_holds_back_is_within_the_allowance() {
        let (_, rx) = receiver(1_000_000, Span::millis(20));
        let mut rx = rx.limited_to(Some(5));
        let mut arrive = |seq: i64, ms| rx.packet(&packet(seq as i32), &at(ms));
        // The path delivers everything half a minute late, all at once and twice.
        for seq in 0..1500 {
            assert!(matches!(arrive(seq, 30_000), StreamArrival::Packet(_)), "{seq}");
            assert!(matches!(arrive(seq, 30_000), StreamArrival::Packet(_)), "{seq}");
        }
        for seq in 1500..100_000 {
            assert!(matches!(arrive(seq, seq * 20), StreamArrival::Packet(_)), "{seq}");
        }
        assert_eq!(rx.status(at(2_000_000).steady), None);
    }

    #[test]
    fn packets_that_waited_here_count_by_their_stamps() {
        let (_, rx) = receiver(1_000_000, Span::millis(1));
        let mut rx = rx.limited_to(Some(100));
        for seq in 0..20_000 {
            let mut how = at(seq.into());
            // This host was suspended for 20 s.
            how.steady = SteadyTime(0);
            assert!(matches!(rx.packet(&packet(seq), &how), StreamArrival::Packet(_)), "{seq}");
        }
    }

    #[test]
    fn a_closed_connection_ends_it_at_once() {
        let (_, mut rx) = receiver(10, Span::millis(20));
        rx.packet(&packet(0), &at(0));
        rx.closed(at(7).steady);
        assert_eq!(rx.status(at(7).steady), Some(Finish::Closed));
    }
}
