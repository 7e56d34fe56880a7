//! The session sender (RFC 4656 §4.1).

use super::message::{SentSummary, SkipRange, StopSessions};
use super::packet::{MAX_LEN, TestPacket};
use super::schedule::OwampSchedule;
use super::session::TestSession;
use crate::amp::TestKeys;
use crate::machine::Tick;
use jitlat_core::ntp::{ErrorEstimate, NtpTime};
use jitlat_core::{Span, SteadyTime, WallTime};

/// Time from the timeout of the last packet until an end considers its session complete, because the clock of the other
/// end may be slow.
pub(super) const END_DELAY: Span = Span::seconds(1);

/// Sender of one session: schedules packets, and skips those that are too late.
///
/// ```text
/// loop { sleep until poll_timeout; if let Some((seq, len)) = poll_transmit(now, …) { send } }
/// ```
#[derive(Clone, Debug)]
pub struct SessionSender {
    session: TestSession,
    keys: Option<TestKeys>,
    schedule: OwampSchedule,
    timeout: Span,
    /// Maximum lateness. Packets that are overdue by more than this time are skipped.
    max_lateness: Span,
    /// Readings of both clocks at one instant, for converting the schedule from wall time to the steady
    /// clock.
    anchor: Tick,
    /// Sequence number of the next packet.
    next: u32,
    /// Time at which to send the next packet; `None` if there is none.
    due: Option<SteadyTime>,
    last_due: SteadyTime,
    /// Time at which the last packet left; it is after `last_due` if the sender was late.
    last_departure: SteadyTime,
    skips: Vec<SkipRange>,
    stopped: bool,
}

/// A packet that must be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuePacket {
    /// Sequence number.
    pub seq: u32,
    /// Number of bytes written to the front of the packet;
    /// [`RequestSession::padding`](crate::amp::message::RequestSession::padding) bytes of padding follow.
    pub len: usize,
}

impl SessionSender {
    /// Creates the sender of an accepted session. The schedule follows the steady clock from `now` on: a step
    /// of the wall clock during the session changes the times in the packets, but not the instants at which
    /// they are sent.
    pub fn new(session: &TestSession, keys: Option<TestKeys>, now: Tick) -> SessionSender {
        let mut sender = SessionSender {
            session: session.clone(),
            keys,
            schedule: session.schedule(),
            timeout: session.request.timeout.to_span(),
            max_lateness: session.request.timeout.to_span(),
            anchor: now,
            next: 0,
            due: None,
            last_due: now.steady,
            last_departure: now.steady,
            skips: Vec::with_capacity(64),
            stopped: false,
        };
        sender.step();
        sender
    }

    /// Also skips packets that, with `delay` on the path, would arrive after the receiver has given them up. The
    /// receiver counts the timeout from the scheduled time, and would report these packets as lost. `delay` is limited
    /// to half of the timeout.
    #[must_use]
    pub fn arriving_after(mut self, delay: Span) -> SessionSender {
        self.max_lateness = self.timeout - delay.clamp(Span::ZERO, Span(self.timeout.0 / 2));
        self
    }

    /// Advances to the next packet.
    fn step(&mut self) {
        self.due = self.schedule.next().map(|at| {
            let wall: WallTime = at.to_nanos(self.anchor.wall);
            self.anchor.steady + (wall - self.anchor.wall)
        });
        self.last_due = self.due.unwrap_or(self.last_due);
    }

    /// Returns the time of the next call of `poll_transmit`; `None` once stopped.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        (!self.stopped).then(|| self.due.unwrap_or_else(|| self.end()))
    }

    /// Returns the time after which every packet has arrived or counts as lost. Results do not contain packets sent
    /// within the timeout before the end (RFC 4656 §3.8), so late packets postpone this time.
    fn end(&self) -> SteadyTime {
        self.last_due.max(self.last_departure) + self.timeout + END_DELAY
    }

    /// True if every packet has been sent, and has arrived or counts as lost by now.
    pub fn is_complete(&self, now: SteadyTime) -> bool {
        self.due.is_none() && now >= self.end()
    }

    /// Writes the packet that is due at `now` to the front of `packet`. The clocks must be read for every
    /// call, and the packet must be sent at once. Packets that are overdue by more than the session's timeout
    /// ([less the delay](Self::arriving_after)) are skipped. `error` is the error estimate of this host's clock.
    pub fn poll_transmit(
        &mut self,
        now: Tick,
        error: ErrorEstimate,
        packet: &mut [u8; MAX_LEN],
    ) -> Option<DuePacket> {
        while let Some(due) = self.due.filter(|due| !self.stopped && now.steady >= *due) {
            let seq = self.next;
            self.next += 1;
            self.step();
            if now.steady - due > self.max_lateness {
                self.skip(seq);
                continue;
            }
            self.last_departure = now.steady;
            let sent = NtpTime::from(now.wall);
            let len = TestPacket { seq, sent, error }.write(self.keys.as_ref(), packet);
            return Some(DuePacket { seq, len });
        }
        None
    }

    /// Records that the system did not accept the last packet, `seq`, which then counts as skipped, not as
    /// lost on the path.
    pub fn not_sent(&mut self, seq: u32) {
        if self.skips.len() < StopSessions::MOST_SKIPS {
            self.skip(seq);
        }
    }

    fn skip(&mut self, seq: u32) {
        match self.skips.last_mut() {
            Some(range) if range.last + 1 == seq => range.last = seq,
            _ => self.skips.push(SkipRange { first: seq, last: seq }),
        }
    }

    /// Returns the number of packets sent so far.
    pub fn sent(&self) -> u32 {
        self.next - self.skips.iter().map(|r| r.last - r.first + 1).sum::<u32>()
    }

    /// Stops sending and returns the summary for Stop-Sessions.
    pub fn stop(&mut self) -> SentSummary {
        self.stopped = true;
        SentSummary { sid: self.session.sid(), next_seq: self.next, skips: self.skips.clone() }
    }
}
