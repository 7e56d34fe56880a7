//! One-way tests as sessions of OWAMP, so that their packets can be written in the formats of OWAMP's tools; and sessions
//! as tests, so that data files can be analysed.

use super::counted::CountedPackets;
use super::message::{DataRecord, ScheduleSlot, SessionFinish, SkipRange};
use super::packet;
use super::session::{SessionData, TestSession};
use crate::amp::message::{RequestSession, command};
use crate::amp::printed::estimate_of;
use crate::amp::{SecurityMode, Sid};
use core::net::{IpAddr, Ipv4Addr};
use jitlat_core::clock::SyncState;
use jitlat_core::metrics::seqset::SeqRun;
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::record::Moment;
use jitlat_core::session::Ending;
use jitlat_core::spec::{HEADER_LEN, MAX_PAYLOAD, SpecError, UNKNOWN_SEED};
use jitlat_core::time::{Stamp, StampSource};
use jitlat_core::{Direction, Dscp, PacketRecord, Schedule, Session, Span, TestSpec, Transport, WallTime};
use std::collections::BTreeMap;

/// Maximum number of lost packets that are converted.
const MAX_LOST: u64 = 1 << 24;
/// Smallest timeout of a converted test: owping's default.
const LEAST_TIMEOUT: Span = Span::seconds(2);
/// Clock error reported for an unsynchronised clock; the kernel reports the same.
const UNSYNCHRONISED_ERROR: Span = Span::seconds(16);
/// A time in the NTP era of all sessions: 2026.
const NEAR: WallTime = WallTime(1_767_225_600_000_000_000);

/// Error: a test has too many lost packets to list each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} packets are lost, and each would need a line: at most {MAX_LOST} are possible")]
pub struct TooManyLost(pub u64);

/// Prefix of a server's note that shows that packets were sent as OWAMP requires.
pub const SERVER_NOTE: &str = "OWAMP ";
/// TTL of a record if it is not known.
const UNKNOWN_TTL: u8 = 255;

/// True if the packets of a test were sent with OWAMP, and therefore with a TTL of 255. Packets of other tests have the
/// TTL of the system.
pub fn counts_hops(session: &Session) -> bool {
    session.server.notes.iter().any(|note| note.starts_with(SERVER_NOTE))
}

/// One end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The end that sends the packets.
    Sender,
    /// The end that receives them.
    Receiver,
}

impl SessionData {
    /// Converts a one-way test. Packets of which the test does not know whether they were sent or lost have no record.
    ///
    /// Two properties of OWAMP sessions are generated for other tests: the identifier, from the receiver's address, the
    /// time and the identifier of the test; and the timeout, from the longest delay, but at least two seconds. Their TTLs
    /// are left out, because readers would derive hops from them.
    ///
    /// # Errors
    /// [`TooManyLost`].
    pub fn of_test(session: &Session, records: &[PacketRecord]) -> Result<SessionData, TooManyLost> {
        let spec = &session.spec;
        let packets = u32::try_from(session.packets()).unwrap_or(u32::MAX);
        let clean = |record: &&PacketRecord| {
            record.flags.is_clean() && record.seq >= 0 && record.seq < i64::from(packets)
        };
        let (sender, receiver) = match spec.direction() {
            Direction::Up => (&session.client, &session.server),
            Direction::Down => (&session.server, &session.client),
        };
        let (send_error, receive_error) = (estimate_of(sender), estimate_of(receiver));
        let counts_hops = counts_hops(session);
        let mut sent_at: BTreeMap<u32, NtpTime> = BTreeMap::new();
        let mut longest = LEAST_TIMEOUT;
        let mut converted = Vec::with_capacity(records.len());
        for record in records.iter().filter(clean) {
            let (Some(sent), Some(arrived), Some(delay)) = (record.sent(), record.arrived(), record.delay())
            else {
                continue;
            };
            let seq = record.seq as u32;
            let sent = NtpTime::from(sent);
            longest = longest.max(delay);
            sent_at.entry(seq).or_insert(sent);
            converted.push(DataRecord {
                seq,
                send_error,
                receive_error,
                sent,
                received: Some(NtpTime::from(arrived)),
                ttl: record.ttl().filter(|_| counts_hops).unwrap_or(UNKNOWN_TTL),
            });
        }
        let step = NtpTime::from_span(spec.period()).0;
        let first = sent_at.iter().next().map(|(seq, at)| (*seq, *at));
        let created = NtpTime::from(session.created.unwrap_or(WallTime(0)));
        let start = first.map_or(created, |(seq, at)| later(at, step, -1 - i64::from(seq)));
        let scheduled = |seq: u32| {
            let near = sent_at.range(..seq).next_back().map(|(near, at)| (*near, *at)).or(first);
            near.map_or_else(
                || later(start, step, 1 + i64::from(seq)),
                |(near, at)| later(at, step, i64::from(seq) - i64::from(near)),
            )
        };
        let unrecorded: Vec<SeqRun> = session.unrecorded_in(0, packets.into()).collect();
        let is_unrecorded = |seq: u32| {
            let next = unrecorded.partition_point(|run| run.start + run.len <= seq.into());
            unrecorded.get(next).is_some_and(|run| run.start <= seq.into())
        };
        let lost = u64::from(packets) - sent_at.len() as u64;
        if lost > MAX_LOST {
            return Err(TooManyLost(lost));
        }
        let missing = (0..packets).filter(|seq| !sent_at.contains_key(seq) && !is_unrecorded(*seq));
        converted.extend(missing.map(|seq| DataRecord::lost(seq, scheduled(seq), receive_error)));
        let skip = |run: SeqRun| {
            let first = u32::try_from(run.start).ok()?;
            Some(SkipRange { first, last: first.checked_add(u32::try_from(run.len).ok()?.checked_sub(1)?)? })
        };
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (src, dst) = (session.src.unwrap_or(unspecified), session.dst.unwrap_or(unspecified));
        let header = packet::len(SecurityMode::Open);
        let request = RequestSession {
            command: command::REQUEST_SESSION,
            version: if dst.is_ipv6() { 6 } else { 4 },
            conf_sender: u8::from(spec.direction() == Direction::Down),
            conf_receiver: u8::from(spec.direction() == Direction::Up),
            slots: 1,
            packets,
            sender_port: spec.src_port,
            receiver_port: spec.dst_port,
            sender: src,
            receiver: dst,
            sid: Sid::new(dst, start, tail(session.id.as_deref())),
            padding: usize::from(spec.payload()).saturating_sub(header) as u32,
            start,
            timeout: NtpTime::from_span(longest),
            type_p: u32::from(spec.dscp.value()) << 24,
        };
        let ended = matches!(session.ending, Ending::Complete | Ending::Interrupted);
        Ok(SessionData {
            session: TestSession { request, slots: vec![ScheduleSlot::Fixed(step)] },
            finished: if ended { SessionFinish::Normally } else { SessionFinish::Incomplete },
            next_seq: ended.then_some(packets),
            skips: session.skipped_in(0, packets.into()).filter_map(skip).collect(),
            records: converted,
        })
    }

    /// Converts the session to a test with the packets that arrived, in order of arrival. Times of both hosts are those
    /// that their programs read.
    ///
    /// # Errors
    /// [`SpecError`] if the session has an impossible number of packets or schedule.
    pub fn to_test(&self) -> Result<(Session, Vec<PacketRecord>), SpecError> {
        let request = &self.session.request;
        let slots = &self.session.slots;
        let schedule = match slots[..] {
            [ScheduleSlot::Exponential(_)] => Schedule::Poisson { seed: UNKNOWN_SEED },
            _ => Schedule::Periodic,
        };
        let mean =
            slots.iter().map(|slot| u128::from(slot.mean())).sum::<u128>() / slots.len().max(1) as u128;
        let period = NtpTime(u64::try_from(mean).unwrap_or(u64::MAX)).to_span();
        let length = packet::len(SecurityMode::Open) as u64 + u64::from(request.padding);
        let direction = self.session.direction().unwrap_or(Direction::Up);
        let payload = length.clamp(HEADER_LEN.into(), MAX_PAYLOAD.into());
        let packets = u64::from(request.packets).max(1);
        let mut spec =
            TestSpec::new(direction, Transport::Udp, packets, payload, period.max(Span(1)), schedule)?;
        (spec.src_port, spec.dst_port) = (request.sender_port, request.receiver_port);
        spec.dscp = request.dscp().and_then(|dscp| Dscp::new(dscp.into())).unwrap_or_default();
        let counted = CountedPackets::of(self, &[], None);
        let mut session = Session::new(spec);
        (session.payload_known, session.period_known) = (payload == length, period > Span::ZERO);
        (session.src, session.dst) = (Some(request.sender), Some(request.receiver));
        session.created = Some(request.start.to_nanos(NEAR));
        session.sent = Some(counted.end);
        session.unsent = counted.unsent;
        session.skipped = counted.skipped;
        let (sender, receiver) = (self.clock(SessionEnd::Sender), self.clock(SessionEnd::Receiver));
        let (near, far) = if direction == Direction::Up { (sender, receiver) } else { (receiver, sender) };
        (session.client.sync_before, session.client.sync_after) = (near, near);
        (session.server.sync_before, session.server.sync_after) = (far, far);
        session.server.notes = vec![format!("{SERVER_NOTE}session {}", request.sid)];
        if self.finished == SessionFinish::Normally {
            session.ending = Ending::Complete;
        } else {
            session.ending = Ending::PeerLost;
            session.reason = Some("the OWAMP session was not stopped by both sides".to_owned());
        }
        let record = |record: &DataRecord| {
            let mut packet = PacketRecord::new(record.seq.into());
            let stamp = |at: NtpTime| Stamp { at: at.to_nanos(NEAR), source: StampSource::User };
            packet.set(Moment::Sent, stamp(record.sent));
            packet.set(Moment::Arrived, stamp(record.received?));
            packet.set_ttl(Some(record.ttl));
            Some(packet)
        };
        Ok((session, self.records.iter().filter_map(record).collect()))
    }

    /// Returns the state of the clock at one end, from the error estimates in the records; `None` without packets that
    /// arrived.
    pub fn clock(&self, end: SessionEnd) -> Option<SyncState> {
        let arrived = self.records.iter().filter(|record| record.received.is_some());
        let estimates = arrived.map(|record| match end {
            SessionEnd::Sender => record.send_error,
            SessionEnd::Receiver => record.receive_error,
        });
        let estimates: Vec<ErrorEstimate> = estimates.collect();
        let synchronised = estimates.iter().all(|e| e.synchronised());
        let largest = estimates.iter().map(|e| e.error()).max()?;
        // If the clock is not synchronised, the estimate has no meaning.
        let error = if synchronised { largest } else { UNSYNCHRONISED_ERROR };
        Some(SyncState {
            synchronised,
            offset: Span::ZERO,
            estimated_error: error,
            maximum_error: error,
            frequency_ppb: 0,
        })
    }
}

/// Returns `at` plus `steps` times `step`.
fn later(at: NtpTime, step: u64, steps: i64) -> NtpTime {
    NtpTime(at.0.wrapping_add((step as i64).wrapping_mul(steps) as u64))
}

/// Returns the last four bytes of a test's identifier, which is hexadecimal; zeros without one.
fn tail(id: Option<&str>) -> [u8; 4] {
    let number = id.and_then(|id| u64::from_str_radix(id, 16).ok()).unwrap_or(0);
    (number as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owamp::{OwpingOptions, Statistics};

    /// A test of six packets, 10 ms apart, of which 1 is lost, 3 arrives twice and 5 was not recorded.
    fn measured() -> (Session, Vec<PacketRecord>) {
        let spec = TestSpec::new(Direction::Up, Transport::Udp, 6, 80, Span::millis(10), Schedule::Periodic);
        let mut session = Session::new(spec.unwrap());
        (session.src, session.dst) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        session.sent = Some(6);
        session.id = Some("00000000deadbeef".to_owned());
        session.ending = Ending::Complete;
        session.unrecorded = vec![SeqRun { start: 5, len: 1 }];
        let record = |seq: i64| {
            let sent = NEAR + Span::millis(10 * seq);
            let mut record = PacketRecord::one_way(seq, sent, sent + Span::micros(250));
            record.set_ttl(Some(60));
            record
        };
        (session, vec![record(0), record(2), record(3), record(3), record(4)])
    }

    #[test]
    fn a_test_is_written_as_a_session_and_read_again() {
        let (mut session, records) = measured();
        let data = SessionData::of_test(&session, &records).unwrap();
        assert!(data.records.iter().all(|record| record.ttl == 255), "not sent with a TTL of 255");
        let seen: Vec<(u32, bool)> = data.records.iter().map(|r| (r.seq, r.received.is_some())).collect();
        assert_eq!(seen, [(0, true), (2, true), (3, true), (3, true), (4, true), (1, false)]);
        assert_eq!(
            data.session.request.sid.to_string(),
            format!("c0000202{:016x}deadbeef", data.session.request.start.0)
        );
        // The times of the schedule and of the lost packet are derived from the neighbouring packets.
        let lost = data.records[5].sent.to_nanos(NEAR) - NEAR;
        assert!((lost - Span::millis(10)).0.abs() < 10, "{lost:?}");
        let first = data.session.schedule().next().unwrap().to_nanos(NEAR) - NEAR;
        assert!(first.0.abs() < 10, "{first:?}");
        let style = OwpingOptions { counts_hops: counts_hops(&session), ..OwpingOptions::default() };
        let statistics = Statistics { data: data.clone(), style };
        let text = statistics.summary();
        assert!(text.contains("TTL not reported") && !statistics.machine().contains("TTL"), "{text}");
        session.server.notes = vec![format!("{SERVER_NOTE}server")];
        let of_owamp = SessionData::of_test(&session, &records).unwrap();
        assert!(counts_hops(&session) && of_owamp.records.iter().any(|record| record.ttl == 60));
        assert!(text.contains("5 sent, 1 lost (20.000%), 1 duplicates"), "{text}");
        assert!(text.contains("min/median/max = 0.25/0.3/0.25 ms, (unsync)"), "{text}");

        let file = SessionData::from_file(&data.to_file()).unwrap();
        let (read, packets) = file.to_test().unwrap();
        assert_eq!((read.spec.packets(), read.spec.payload(), read.sent), (6, 80, Some(5)));
        assert_eq!(read.ending, Ending::Complete);
        let delays: Vec<i64> = packets.iter().map(|p| (p.delay().unwrap() - Span::micros(250)).0).collect();
        assert!(delays.len() == 5 && delays.iter().all(|off| off.abs() <= 2), "{delays:?}");
    }

    #[test]
    fn a_test_that_lost_millions_of_packets_is_refused() {
        let (mut session, records) = measured();
        session.sent = Some(20_000_000);
        assert_eq!(SessionData::of_test(&session, &records), Err(TooManyLost(19_999_996)));
    }
}
