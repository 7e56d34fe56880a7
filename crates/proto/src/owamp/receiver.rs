//! The session receiver (RFC 4656 §4.2): records arrivals, and gives up packets that do not arrive in time.

use super::message::{DataRecord, SentSummary, SessionFinish, SkipRange};
use super::packet::{OwampPacketError, TestPacket};
use super::schedule::OwampSchedule;
use super::sender::END_DELAY;
use super::session::{SessionData, TestSession, bounded, distance};
use crate::amp::TestKeys;
use crate::twoway::RequestArrival;
use core::net::IpAddr;
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::{Span, WallTime};
use std::collections::VecDeque;

/// Maximum number of duplicates recorded in addition to one per packet: an allowance for short sessions.
const MAX_DUPLICATES: usize = 1024;
/// Maximum number of records for which memory is allocated before the first packet.
const RESERVED_RECORDS: usize = 1 << 20;

/// Reason why a datagram is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ignored {
    /// The datagram is not from the session's sender.
    Source,
    /// The datagram is shorter than the session's packets.
    Short,
    /// The packet was not made with the session's keys.
    Forged,
    /// The sequence number does not belong to the session.
    Number,
    /// The error estimate marks the packet as corrupt.
    Corrupt,
    /// The packet had already been given up.
    Late,
    /// The send time is too long before or after the arrival: the clocks differ by more than the timeout.
    Clock,
    /// The send time is too far from the scheduled time.
    Schedule,
    /// There are more duplicates than can be recorded.
    Full,
}

impl Ignored {
    /// All reasons, in the order of their codes.
    pub const ALL: [Ignored; 9] = [
        Ignored::Source,
        Ignored::Short,
        Ignored::Forged,
        Ignored::Number,
        Ignored::Corrupt,
        Ignored::Late,
        Ignored::Clock,
        Ignored::Schedule,
        Ignored::Full,
    ];

    /// Returns a short description.
    pub fn name(self) -> &'static str {
        [
            "from another sender",
            "too short",
            "forged",
            "no such number",
            "corrupt",
            "too late",
            "clocks too far apart",
            "off schedule",
            "too many duplicates",
        ][self as usize]
    }
}

/// A packet that may still arrive.
#[derive(Clone, Copy, Debug)]
struct ExpectedPacket {
    at: NtpTime,
    arrived: bool,
}

/// Error: the sender's summary contradicts the received packets, so the data is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender's summary contradicts the received packets")]
pub struct Contradiction;

/// Receiver of one session. Memory for its records is allocated when it is created.
#[derive(Clone, Debug)]
pub struct SessionReceiver {
    session: TestSession,
    keys: Option<TestKeys>,
    host: IpAddr,
    /// Source port of the packets; if it is not known in advance, `None` until the first packet.
    port: Option<u16>,
    size: usize,
    timeout: i64,
    schedule: OwampSchedule,
    /// Latest send time in the part of the schedule computed so far.
    latest: NtpTime,
    /// Latest send time of the packets received; it is after `latest` if the sender was late.
    latest_sent: NtpTime,
    /// Packets that may still arrive, from the part of the schedule computed so far. The first has the
    /// sequence number `given_up`.
    expected: VecDeque<ExpectedPacket>,
    given_up: u32,
    records: Vec<DataRecord>,
    ignored: [u64; Ignored::ALL.len()],
}

impl SessionReceiver {
    /// Creates the receiver of an accepted session. Its packets have `len` bytes before the padding, and are
    /// sent from `host` and, if known, `port`.
    pub fn new(
        session: &TestSession,
        keys: Option<TestKeys>,
        len: usize,
        host: IpAddr,
        port: Option<u16>,
    ) -> SessionReceiver {
        let packets = session.request.packets as usize;
        SessionReceiver {
            session: session.clone(),
            keys,
            host: host.to_canonical(),
            port,
            size: len + session.request.padding as usize,
            timeout: bounded(session.request.timeout),
            schedule: session.schedule(),
            latest: session.request.start,
            latest_sent: session.request.start,
            expected: VecDeque::with_capacity(packets.min(4096)),
            given_up: 0,
            records: Vec::with_capacity(packets.saturating_add(MAX_DUPLICATES).min(RESERVED_RECORDS)),
            ignored: [0; Ignored::ALL.len()],
        }
    }

    /// Returns the maximum memory of a receiver of `packets` packets, in bytes, including memory for
    /// duplicates.
    pub fn memory(packets: u32) -> u64 {
        let records = 2 * u64::from(packets) + MAX_DUPLICATES as u64;
        records * size_of::<DataRecord>() as u64 + u64::from(packets) * size_of::<ExpectedPacket>() as u64
    }

    /// Returns the length of a test packet of this session, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the records so far, including losses.
    pub fn records(&self) -> &[DataRecord] {
        &self.records
    }

    /// Returns the number of datagrams that were not recorded because of `reason`.
    pub fn ignored(&self, reason: Ignored) -> u64 {
        self.ignored[reason as usize]
    }

    /// True if every packet has arrived or was given up by `now` (wall clock), and even a sender whose clock
    /// is slow should have stopped.
    pub fn is_complete(&self, now: WallTime) -> bool {
        let waited = distance(NtpTime::from(now), self.last_sent());
        let wait = self.timeout.saturating_add(NtpTime::from_span(END_DELAY).0 as i64);
        self.given_up >= self.session.request.packets && waited > wait
    }

    /// Returns the latest send time, of the schedule or of a late packet. Results do not contain packets sent within
    /// the timeout before the end (RFC 4656 §3.8), so late packets postpone the end.
    fn last_sent(&self) -> NtpTime {
        if distance(self.latest_sent, self.latest) > 0 { self.latest_sent } else { self.latest }
    }

    /// Returns the time on the wall clock at which to call [`handle_timeout`](Self::handle_timeout) and
    /// [`is_complete`](Self::is_complete). `near` is any time close to the present.
    pub fn poll_timeout(&mut self, near: WallTime) -> WallTime {
        let (at, delay) = match self.first_expected() {
            Some(first) => (first.at, Span::ZERO),
            None => (self.last_sent(), END_DELAY),
        };
        let due = NtpTime(at.0.wrapping_add(self.timeout as u64));
        // One nanosecond later, the time has passed in either time format.
        due.to_nanos(near) + delay + Span(1)
    }

    /// Returns the next packet of the schedule; `None` at its end.
    fn expect(&mut self) -> Option<ExpectedPacket> {
        let expected = ExpectedPacket { at: self.schedule.next()?, arrived: false };
        self.latest = expected.at;
        self.expected.push_back(expected);
        Some(expected)
    }

    fn first_expected(&mut self) -> Option<ExpectedPacket> {
        self.expected.front().copied().or_else(|| self.expect())
    }

    /// Gives up the packets that should have arrived by `now` (wall clock). `error` is the error estimate of
    /// this clock.
    pub fn handle_timeout(&mut self, now: WallTime, error: ErrorEstimate) {
        let now = NtpTime::from(now);
        while let Some(first) = self.first_expected() {
            if distance(now, first.at) <= self.timeout {
                break;
            }
            self.give_up(first, error);
        }
    }

    fn give_up(&mut self, first: ExpectedPacket, error: ErrorEstimate) {
        if !first.arrived {
            self.records.push(DataRecord::lost(self.given_up, first.at, error));
        }
        self.expected.pop_front();
        self.given_up += 1;
    }

    /// Records a datagram, or returns the reason why not. `error` is the error estimate of this host's clock.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        arrival: &RequestArrival,
        error: ErrorEstimate,
    ) -> Result<DataRecord, Ignored> {
        // First of all, so that a packet that arrives after its timeout counts as lost.
        self.handle_timeout(arrival.at, error);
        let result = self.examine(datagram, arrival, error);
        match &result {
            Ok(record) => self.records.push(*record),
            Err(reason) => self.ignored[*reason as usize] += 1,
        }
        result
    }

    fn examine(
        &mut self,
        datagram: &[u8],
        arrival: &RequestArrival,
        error: ErrorEstimate,
    ) -> Result<DataRecord, Ignored> {
        let from = arrival.from;
        if from.ip().to_canonical() != self.host || self.port.is_some_and(|port| port != from.port()) {
            return Err(Ignored::Source);
        }
        if datagram.len() < self.size {
            return Err(Ignored::Short);
        }
        let packet = TestPacket::parse(self.keys.as_ref(), datagram).map_err(|e| match e {
            OwampPacketError::Short => Ignored::Short,
            OwampPacketError::Forged => Ignored::Forged,
        })?;
        if packet.seq >= self.session.request.packets {
            return Err(Ignored::Number);
        }
        if !packet.error.is_valid() {
            return Err(Ignored::Corrupt);
        }
        let behind = packet.seq.checked_sub(self.given_up).ok_or(Ignored::Late)? as usize;
        let received = NtpTime::from(arrival.at);
        if distance(packet.sent, received).unsigned_abs() > self.timeout as u64 {
            return Err(Ignored::Clock);
        }
        self.look_ahead(behind, received);
        let expected = self.expected.get_mut(behind).ok_or(Ignored::Schedule)?;
        if distance(packet.sent, expected.at).unsigned_abs() > self.timeout as u64 {
            return Err(Ignored::Schedule);
        }
        // Bounded, so that duplicates cannot exceed the memory that the session was granted.
        let most = (self.session.request.packets as usize).saturating_mul(2).saturating_add(MAX_DUPLICATES);
        if expected.arrived && self.records.len() >= most {
            return Err(Ignored::Full);
        }
        expected.arrived = true;
        // The first valid packet determines the port if it was not known before.
        self.port = Some(from.port());
        if distance(packet.sent, self.latest_sent) > 0 {
            self.latest_sent = packet.sent;
        }
        Ok(DataRecord {
            seq: packet.seq,
            send_error: packet.error,
            receive_error: error,
            sent: packet.sent,
            received: Some(received),
            ttl: arrival.ttl.unwrap_or(255),
        })
    }

    /// Computes the schedule up to the packet at distance `behind` from the first expected one. Stops at the
    /// latest packet that can have been sent by now, so that forged sequence numbers cause no work.
    fn look_ahead(&mut self, behind: usize, received: NtpTime) {
        let furthest = self.timeout.saturating_mul(2);
        while self.expected.len() <= behind
            && self.expected.back().is_none_or(|last| distance(last.at, received) <= furthest)
        {
            if self.expect().is_none() {
                return;
            }
        }
    }

    /// Finishes a session whose Stop-Sessions arrived at `stopped` with the sender's `summary`. Packets that have not
    /// arrived by then are given up. Packets sent less than the timeout before `stopped` are omitted, because more of
    /// them might still have arrived (RFC 4656 §3.8).
    pub fn finish(
        mut self,
        summary: &SentSummary,
        stopped: WallTime,
        error: ErrorEstimate,
    ) -> Result<SessionData, Contradiction> {
        let packets = self.session.request.packets;
        let received_more = self.records.iter().any(|r| r.seq >= summary.next_seq && r.received.is_some());
        if summary.next_seq > packets
            || received_more
            || !SkipRange::are_in_order(&summary.skips, summary.next_seq)
        {
            return Err(Contradiction);
        }
        let latest = self.latest_counted(stopped);
        while self.given_up < summary.next_seq
            && let Some(first) = self.first_expected().filter(|e| distance(e.at, latest) <= 0)
        {
            self.give_up(first, error);
        }
        self.records.retain(|r| r.seq < summary.next_seq && distance(r.sent, latest) <= 0);
        Ok(SessionData {
            session: self.session,
            finished: SessionFinish::Normally,
            next_seq: Some(summary.next_seq),
            skips: summary.skips.clone(),
            records: self.records,
        })
    }

    /// Finishes a session that ended at `ended` without a summary of its sender. Losses after the last
    /// arrival are omitted, because these packets may never have been sent.
    pub fn abandon(mut self, ended: WallTime, error: ErrorEstimate) -> SessionData {
        self.handle_timeout(ended, error);
        let latest = self.latest_counted(ended);
        let last = self.records.iter().filter(|r| r.received.is_some()).map(|r| r.seq).max();
        self.records.retain(|r| last.is_some_and(|last| r.seq <= last) && distance(r.sent, latest) <= 0);
        SessionData {
            session: self.session,
            finished: SessionFinish::Incomplete,
            next_seq: None,
            skips: Vec::new(),
            records: self.records,
        }
    }

    /// Returns the latest send time that the results include if the session is stopped at `stopped`.
    fn latest_counted(&self, stopped: WallTime) -> NtpTime {
        NtpTime(NtpTime::from(stopped).0.wrapping_sub(self.timeout as u64))
    }
}
