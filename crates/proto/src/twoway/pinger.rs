//! [`Pinger`]: one two-way test. Requests are sent either on a fixed schedule, regardless of earlier answers
//! (open loop; the default, because it avoids coordinated omission), or after the answer to the previous one.

use crate::jitlat::Recording;
use crate::jitlat::SentStamps;
use crate::machine::Tick;
use crate::twoway::request_table::{AnswerMatch, RequestTable};
use crate::twoway::{ConversationState, DatagramKind, DepartureNotice, Protocol};
use jitlat_core::record::{Flags, Moment};
use jitlat_core::schedule::Deadlines;
use jitlat_core::twoway::{MarkedSlowdown, NotAnswers, ScheduleShift};
use jitlat_core::{Ecn, PacketRecord, Schedule, Span, Stamp, StampSource, SteadyTime, TestSpec, WallTime};
use std::collections::VecDeque;

/// Maximum number of answers whose departure or processing time may still be reported in a later packet.
const MAX_PENDING: usize = 256;
/// Time for which an answer waits for a later packet with its departure or processing time.
const LATER_REPORT_TIMEOUT: Span = Span::millis(500);
/// Maximum number of requests sent after the test to determine whether the far host counts its answers.
const MAX_PROBES: u32 = 3;
/// Timeout of the answer to a request sent after the test.
const PROBE_TIMEOUT: Span = Span::millis(250);

/// Schedule of requests, and timeout of answers.
#[derive(Clone, Debug)]
pub struct PingPlan {
    /// Number of packets, period and schedule.
    pub spec: TestSpec,
    /// Stop and wait: time from the answer to a request, or from its [`timeout`](Self::timeout), to the next
    /// request. The period of `spec` is not used. `None`: open loop.
    pub wait: Option<Span>,
    /// Time after which a missing answer counts as lost.
    pub timeout: Span,
    /// Handling of requests that became overdue while this host was stalled.
    pub overdue: Overdue,
}

/// Handling of overdue requests, that is, requests that are late by more than a period and more than
/// `MAX_LATENESS` (5 ms) after a stall of this host. A burst of them may exceed a rate limit on the path or
/// the far host: irtt's server, for example, answers only one request every 10 ms by default, apart from a
/// small burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overdue {
    /// The rest of the schedule is delayed by the duration of the stall. All requests are sent, and the test
    /// takes longer.
    #[default]
    Space,
    /// Overdue requests are not sent. The test has fewer requests, and its planned duration. Random schedules
    /// are delayed instead.
    Skip,
    /// Overdue requests are sent at once.
    Send,
}

/// Lateness up to which a request counts as on time, regardless of the period: waking up can take a few
/// milliseconds on a busy host.
const MAX_LATENESS: Span = Span::millis(5);

/// Longest time between requests to which CE marks slow a test down. At 10 packets per second, a test is not a load that must
/// respond to congestion.
const MAX_SLOWED_PERIOD: Span = Span::millis(100);

/// Response of the sender to CE.
#[derive(Clone, Copy, Debug)]
struct Slowdown {
    /// Factor by which the time between requests is increased, up to [`MAX_SLOWED_PERIOD`].
    factor: i64,
    /// Time until which further marks belong to the same round trip.
    until: Option<SteadyTime>,
    facts: MarkedSlowdown,
}

impl Default for Slowdown {
    fn default() -> Slowdown {
        Slowdown { factor: 1, until: None, facts: MarkedSlowdown::default() }
    }
}

impl Slowdown {
    /// Returns the increased time between requests with the period `period`.
    fn period(&self, period: Span) -> Span {
        if self.factor == 1 { period } else { period.times(self.factor).min(MAX_SLOWED_PERIOD.max(period)) }
    }
}

/// A packet that the driver must send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Request with this number, for which a kernel timestamp should be requested.
    Request(u32),
    /// Request sent after the test to determine whether the far host counts its answers.
    Probe,
    /// Packet of the conversation.
    Conversation,
}

/// Facts about a received datagram, in addition to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingReception {
    /// Most precise timestamp of the datagram's arrival.
    pub stamp: Stamp,
    /// This program's own clock reading after reception.
    pub read: WallTime,
    /// Length in bytes.
    pub length: usize,
    /// TTL or hop limit; `None` if unknown.
    pub ttl: Option<u8>,
    /// TOS or traffic-class octet; `None` if unknown.
    pub traffic_class: Option<u8>,
    /// True if the datagram came from a port other than the one to which requests are sent.
    pub other_port: bool,
}

/// A two-way test in progress.
#[derive(Clone, Debug)]
pub struct Pinger<P> {
    protocol: P,
    plan: PingPlan,
    deadlines: Deadlines,
    /// Sum of `shifts`.
    moved: Span,
    shifts: Vec<ScheduleShift>,
    /// Number of scheduled requests that are not sent.
    skipped: u64,
    slowdown: Slowdown,
    state: PingerState,
    next: u32,
    due: SteadyTime,
    start: Option<SteadyTime>,
    /// Time at which the answer to the last request (in stop-and-wait mode: to the current one) is given up; `None`
    /// while no such answer is awaited.
    until: Option<SteadyTime>,
    requests: RequestTable,
    records: Recording,
    sent: SentStamps,
    not_answers: NotAnswers,
    /// Answers whose departure or processing time may still be reported in a later packet, in order of arrival.
    pending: VecDeque<PacketRecord>,
    /// True if the protocol determines the end of the test, because it is waiting for a packet.
    closing: bool,
    /// True if answers are accepted from any port of the far host.
    any_port: bool,
    /// Requested time of the first request; `None`: as soon as requests may be sent.
    start_at: Option<WallTime>,
    /// Time by which the first request was later than requested; `None` if it was not.
    late: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PingerState {
    Opening,
    Sending,
    Draining,
    /// Probing whether the far host counts its answers; contains the number of probes so far.
    Probing(u32),
    Over,
    Failed(String),
}

impl<P: Protocol> Pinger<P> {
    /// Creates a test that starts when it is first polled. Allocates memory now, for up to a million requests:
    /// per request, 64 bytes for the record and 16 for the transmit timestamps. Longer tests allocate more
    /// while they run.
    pub fn new(protocol: P, plan: PingPlan, stamps: StampSource) -> Pinger<P> {
        let packets = plan.spec.packets();
        // Twice the number of requests, for duplicates, and a reserve for short tests.
        let limit = (packets as usize).saturating_mul(2).saturating_add(1024);
        let mut records = Recording::new(limit);
        records.reserve(packets.min(1 << 20) as usize);
        let mut sent = SentStamps::new(stamps);
        if stamps != StampSource::User {
            sent.reserve(packets.min(1 << 20) as usize);
            sent.reserve_entries(packets.min(1 << 20) as usize);
        }
        let deadlines = Deadlines::new(&plan.spec);
        let mut requests = RequestTable::new(packets);
        // Known in advance, so that equal numbers already mean that no request was lost.
        if protocol.counts_answers() {
            requests.declare_stateful();
        }
        Pinger {
            protocol,
            deadlines,
            moved: Span::ZERO,
            shifts: Vec::new(),
            skipped: 0,
            slowdown: Slowdown::default(),
            plan,
            state: PingerState::Opening,
            next: 0,
            due: SteadyTime(i64::MIN),
            start: None,
            until: None,
            requests,
            records,
            sent,
            not_answers: NotAnswers::default(),
            pending: VecDeque::with_capacity(MAX_PENDING + 1),
            closing: false,
            any_port: false,
            start_at: None,
            late: None,
        }
    }

    /// Sends the first request at `start`, or as soon as requests may be sent. The conversation around the test begins at
    /// once.
    pub fn start_at(&mut self, start: Option<WallTime>) {
        self.start_at = start;
    }

    /// Returns the time by which requests may be sent later than [requested](Self::start_at); `None` if they are not.
    pub fn late_start(&self) -> Option<Span> {
        self.late
    }

    /// Accepts answers from any port of the far host if `any` is true. Otherwise, packets from other ports
    /// are counted, but do not count as answers.
    pub fn take_any_port(&mut self, any: bool) {
        self.any_port = any;
    }

    /// Returns the protocol with its state.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Returns the protocol, so that it can be informed about the far host.
    pub fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// Returns the requests and answers so far.
    pub fn requests(&self) -> &RequestTable {
        &self.requests
    }

    /// Returns the answers from index `k` on, in arrival order, with the transmit timestamps that are
    /// available.
    pub fn answers_since(&self, k: usize) -> impl Iterator<Item = PacketRecord> + '_ {
        self.records.since(k).map(|record| {
            let mut record = *record;
            self.sent.join(&mut record);
            record
        })
    }

    /// Returns the counts of datagrams that were not answers.
    pub fn not_answers(&self) -> NotAnswers {
        NotAnswers { unmatched: self.requests.unmatched(), ..self.not_answers }
    }

    /// Returns the reason why the test failed; `None` if it did not.
    pub fn failure(&self) -> Option<&str> {
        match &self.state {
            PingerState::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// True if nothing more is to be sent or awaited.
    pub fn is_over(&self) -> bool {
        matches!(self.state, PingerState::Over | PingerState::Failed(_))
    }

    /// Stops sending requests. Answers to earlier requests are still awaited.
    pub fn interrupt(&mut self, now: Tick) {
        if matches!(self.state, PingerState::Opening) {
            self.state = PingerState::Over;
        } else if self.state == PingerState::Sending {
            self.finish_sending(now);
        }
    }

    fn finish_sending(&mut self, now: Tick) {
        self.state = PingerState::Draining;
        self.until = Some(now.steady + self.plan.timeout);
        self.protocol.all_sent(now.steady);
    }

    /// Handles due timeouts. Must be called before [`poll_transmit`](Self::poll_transmit).
    pub fn handle_timeout(&mut self, now: Tick) {
        let stage = match &self.state {
            PingerState::Over | PingerState::Failed(_) => return,
            _ => self.protocol.conversation_state(now.steady),
        };
        self.closing = stage == ConversationState::Closing;
        // A report in the next answer may arrive at any time.
        if !self.protocol.amends() {
            let late = |r: &PacketRecord| {
                r.time(Moment::Returned).is_none_or(|at| now.wall - at > LATER_REPORT_TIMEOUT)
            };
            let settled = self.pending.iter().take_while(|r| late(r)).count();
            self.settle(self.pending.len() - settled);
        }
        match (&self.state, stage) {
            (_, ConversationState::Failed(why)) => self.state = PingerState::Failed(why),
            (PingerState::Opening, ConversationState::Ready) => {
                // The far host may restrict the test, so the schedule is computed again.
                if let Some(spec) = self.protocol.granted_test(&self.plan.spec) {
                    self.deadlines = Deadlines::new(&spec);
                    self.plan.spec = spec;
                }
                self.state = PingerState::Sending;
                let left = self.start_at.map_or(Span::ZERO, |start| start - now.wall);
                self.late = Some(Span::ZERO - left).filter(|late| *late > Span::ZERO);
                let start = now.steady + left.max(Span::ZERO);
                self.start = Some(start);
                self.due = self.deadlines.next().map_or(start, |d| start + d);
            }
            (PingerState::Sending, ConversationState::Over) => self.finish_sending(now),
            (PingerState::Draining, ConversationState::Over) => self.finish(),
            (PingerState::Draining, ConversationState::Closing) => {}
            (PingerState::Draining, _) if self.until.is_some_and(|u| now.steady >= u) => {
                if self.needs_probe() { self.state = PingerState::Probing(0) } else { self.finish() }
            }
            (PingerState::Draining, _) if self.all_answered() => self.finish(),
            (PingerState::Probing(n), _)
                if !self.needs_probe() || *n >= MAX_PROBES && now.steady >= self.due =>
            {
                self.finish();
            }
            _ => {}
        }
        if self.state == PingerState::Sending
            && self.plan.wait.is_some()
            && self.until.is_some_and(|u| now.steady >= u)
        {
            // No answer arrived, so continue with the next request.
            self.until = None;
            self.due = now.steady;
            if self.next >= self.plan.spec.packets() {
                self.finish_sending(now);
            }
        }
    }

    fn all_answered(&self) -> bool {
        self.protocol.expects_replies() && self.requests.answered() >= self.requests.sent()
    }

    /// True if answers were lost, all received answers have the numbers of their requests, and the far host may
    /// nevertheless number its answers itself. A probe can then show the direction of the losses.
    fn needs_probe(&self) -> bool {
        self.protocol.may_count()
            && self.requests.may_count()
            && self.requests.answered() < self.requests.sent()
    }

    /// Returns a number for a probe, which the far host's count can reach only by duplicates; `None` when not probing.
    fn probe(&self) -> Option<u32> {
        u32::try_from(self.requests.sent() + 1).ok().filter(|_| matches!(self.state, PingerState::Probing(_)))
    }

    fn finish(&mut self) {
        self.settle(0);
        self.state = PingerState::Over;
    }

    /// Appends the next packet to send, if one is due at `now`. The clocks must be read for every call, and
    /// the packet must be sent at once.
    pub fn poll_transmit(&mut self, now: Tick, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.is_over() {
            return self.protocol.poll_farewell(out).then_some(Transmit::Conversation);
        }
        if self.protocol.poll_conversation(now, out) {
            return Some(Transmit::Conversation);
        }
        let probe = self.probe();
        if let (PingerState::Probing(n), Some(seq)) = (&mut self.state, probe)
            && (*n == 0 || now.steady >= self.due)
            && *n < MAX_PROBES
        {
            *n += 1;
            self.due = now.steady + PROBE_TIMEOUT;
            self.protocol.request(seq, false, now.wall, out);
            return Some(Transmit::Probe);
        }
        let waiting = self.plan.wait.is_some() && self.until.is_some();
        if self.state != PingerState::Sending || now.steady < self.due || waiting {
            return None;
        }
        if self.is_overdue(now.steady) {
            match self.plan.overdue {
                Overdue::Skip if self.plan.spec.schedule() == Schedule::Periodic => {
                    self.skip_to(now.steady);
                    if now.steady < self.due {
                        return None;
                    }
                }
                Overdue::Space | Overdue::Skip => self.move_schedule(now.steady - self.due),
                Overdue::Send => {}
            }
        }
        let seq = self.next;
        let last = self.deadlines.len() == 0;
        self.protocol.request(seq, last, now.wall, out);
        // Before the packet is sent, so that even an immediate answer finds its request.
        self.requests.note_sent(seq, now.wall);
        self.next += 1;
        if self.plan.wait.is_some() {
            self.until = Some(now.steady + self.plan.timeout);
        }
        match (self.deadlines.next(), self.start) {
            (Some(next), Some(start)) => {
                self.due = start + next + self.moved;
                self.spread();
            }
            _ if self.plan.wait.is_none() => self.finish_sending(now),
            _ => {}
        }
        Some(Transmit::Request(seq))
    }

    /// Doubles the time between requests, once per round trip, if the answer shows that a packet of this test got CE on the
    /// path: a sender of ECT must respond to congestion (draft-ietf-ippm-stamp-cos-ecn §3.4). Requests that are sent with CE
    /// show nothing.
    fn slow_down_if_marked(&mut self, record: &PacketRecord, now: Tick) {
        let marking = self.plan.spec.marking;
        let period = self.plan.spec.period();
        let sent = u64::try_from(record.seq).ok().map(|seq| marking.of(seq));
        let got_ce = |sent: Option<Ecn>, received: Option<Ecn>| {
            received == Some(Ecn::Ce) && sent.is_none_or(|sent| sent != Ecn::Ce)
        };
        // If the far host does not report the mark of its answer, it may have copied the mark of the request. An answer to a
        // request with CE then shows nothing.
        let answered = record.answer_mark().or(sent);
        let marked = got_ce(sent, record.request_mark()) || got_ce(answered, record.ecn());
        let waits = self.plan.wait.is_some() || period.times(self.slowdown.factor) >= MAX_SLOWED_PERIOD;
        if !marked || !marking.is_on() || waits || self.slowdown.until.is_some_and(|until| now.steady < until)
        {
            return;
        }
        self.slowdown.factor *= 2;
        self.slowdown.facts.rounds += 1;
        self.slowdown.facts.period = self.slowdown.period(period);
        let round_trip = record.time(Moment::Returned).zip(record.sent());
        let round_trip = round_trip.map_or(Span::ZERO, |(back, sent)| Span((back - sent).0.max(0)));
        self.slowdown.until = Some(now.steady + round_trip);
    }

    /// Postpones the next request and all later ones, so that the time since the previous request is the increased one.
    fn spread(&mut self) {
        let period = self.plan.spec.period();
        let more = self.slowdown.period(period) - period;
        if more > Span::ZERO {
            self.move_schedule(more);
            self.slowdown.facts.requests += 1;
        }
    }

    fn is_overdue(&self, now: SteadyTime) -> bool {
        self.plan.wait.is_none() && now - self.due > self.plan.spec.period().max(MAX_LATENESS)
    }

    /// Delays the next request and all later ones by `by`.
    fn move_schedule(&mut self, by: Span) {
        self.due = self.due + by;
        self.moved = self.moved + by;
        self.shifts.push(ScheduleShift { seq: self.next, by });
    }

    /// Skips the requests that were due before `now`, except the last one, because protocols mark it.
    fn skip_to(&mut self, now: SteadyTime) {
        let (Some(start), due) = (self.start, self.due) else { return };
        while self.due < now
            && let Some(next) = self.deadlines.next()
        {
            self.due = start + next + self.moved;
            self.skipped += 1;
        }
        if self.due > due {
            self.shifts.push(ScheduleShift { seq: self.next, by: self.due - due });
        }
    }

    /// Records the kernel's timestamp of request `seq` entering the queue of the interface.
    pub fn queued(&mut self, seq: u32, at: WallTime) {
        if u64::from(seq) < self.requests.sent() {
            self.sent.set_entry(seq, at);
        }
    }

    /// Records the kernel's timestamp of the departure of request `seq`.
    pub fn stamped(&mut self, seq: u32, at: WallTime) {
        if u64::from(seq) < self.requests.sent() {
            self.sent.set(seq, at);
        }
    }

    /// Handles a datagram received from the far host.
    pub fn handle(&mut self, datagram: &[u8], meta: &PingReception, now: Tick) {
        if meta.other_port && !self.any_port {
            self.not_answers.other_port += 1;
            return;
        }
        let received = self.protocol.receive(datagram, meta.read);
        match received {
            DatagramKind::Reply(reply) => {
                if let Some(earlier) = reply.earlier {
                    self.amend(earlier);
                }
                if Some(reply.seq) == self.probe() {
                    return self.requests.note_probe(reply.seq, reply.far_seq);
                }
                let fit = match self.requests.unwrap_number(reply.seq, reply.seq_bits) {
                    Some(seq) => self.requests.match_answer(seq, reply.far_seq),
                    None => self.requests.note_unknown(),
                };
                let (AnswerMatch::First(seq, sent) | AnswerMatch::Again(seq, sent)) = fit else { return };
                if let Some(window) = self.protocol.far_window() {
                    self.requests.note_far_window(seq, window);
                }
                let mut record = PacketRecord::new(seq.into());
                record.set(Moment::Sent, Stamp { at: sent, source: StampSource::User });
                for (moment, time) in [(Moment::Arrived, reply.arrived), (Moment::Answered, reply.answered)] {
                    if let Some(at) = time {
                        record.set(moment, Stamp { at, source: StampSource::User });
                    }
                }
                record.set(Moment::Returned, meta.stamp);
                record.set_receive_lag(meta.read.checked_since(meta.stamp.at));
                record.set_size(u16::try_from(meta.length).ok());
                record.set_ttl(meta.ttl);
                record.set_traffic_class(meta.traffic_class);
                record.set_request_mark(reply.marks.request);
                record.set_answer_mark(reply.marks.answer);
                self.slow_down_if_marked(&record, now);
                if reply.damaged {
                    record.flags = Flags::LENGTH;
                }
                self.pending.push_back(record);
                self.settle(match () {
                    () if self.protocol.follows_up() => MAX_PENDING,
                    // The next answer may correct the departure time of this one.
                    () if self.protocol.amends() => 1,
                    () => 0,
                });
                if let (Some(pause), AnswerMatch::First(..)) = (self.plan.wait, fit)
                    && self.state == PingerState::Sending
                    && seq + 1 == self.next
                {
                    self.until = None;
                    self.due = now.steady + pause;
                    if self.next >= self.plan.spec.packets() {
                        self.finish_sending(now);
                    }
                }
            }
            DatagramKind::Took { seq, took } => {
                // Only the processing time of the far host is known. It is stored as two times in the middle
                // of the round trip: these give the right round-trip and processing times, but no one-way
                // delays (`Protocol::far_clock`).
                let has_times = |r: &PacketRecord| r.time(Moment::Answered).is_some();
                let record = self.pending.iter_mut().find(|r| r.seq as u16 == seq && !has_times(r));
                if let Some(record) = record
                    && let Some(returned) = record.time(Moment::Returned)
                {
                    let half = |sent: WallTime| Span((returned - sent).0.saturating_sub(took.0) / 2);
                    if let Some(sent) = record.sent() {
                        let arrived = sent + half(sent);
                        record.set(Moment::Arrived, Stamp { at: arrived, source: StampSource::User });
                        record.set(Moment::Answered, Stamp { at: arrived + took, source: StampSource::User });
                    }
                }
            }
            DatagramKind::Conversation | DatagramKind::OwnRequest => {}
            DatagramKind::Foreign => self.not_answers.foreign += 1,
            DatagramKind::Malformed => self.not_answers.malformed += 1,
            DatagramKind::Forged => self.not_answers.forged += 1,
        }
    }

    /// Corrects the departure time of an answer that is still pending.
    fn amend(&mut self, DepartureNotice { seq, stamp }: DepartureNotice) {
        // Searched from the end, because the report concerns one of the latest answers.
        let record = self.pending.iter_mut().rev().find(|r| r.seq == i64::from(seq));
        if let Some(record) = record.filter(|r| r.time(Moment::Answered).is_some()) {
            record.set(Moment::Answered, stamp);
        }
    }

    /// Completes pending answers, except for the last `keep`.
    fn settle(&mut self, keep: usize) {
        let done = self.pending.len().saturating_sub(keep);
        self.pending.drain(..done).for_each(|record| self.records.push(record));
    }

    /// Returns the time of the next poll at the latest, on the steady clock; `None` once the test is over.
    pub fn poll_timeout(&self) -> Option<SteadyTime> {
        if self.is_over() {
            return None;
        }
        let own = match self.state {
            PingerState::Sending if self.plan.wait.is_some() => Some(self.until.unwrap_or(self.due)),
            PingerState::Sending => Some(self.due),
            PingerState::Draining if !self.closing => self.until,
            PingerState::Probing(n) if n > 0 => Some(self.due),
            _ => None,
        };
        let conversation = self.protocol.conversation_timeout();
        // Without a timeout, the state is about to change, so poll again at once.
        Some([own, conversation].into_iter().flatten().min().unwrap_or(SteadyTime(i64::MIN)))
    }

    /// Returns the results of the test: records in arrival order, in which the kernel's timestamps replace
    /// the send times where available, and the protocol.
    pub fn finish_up(mut self) -> PingOutcome<P> {
        self.settle(0);
        PingOutcome {
            spec: self.plan.spec.clone(),
            not_answers: self.not_answers(),
            records: self.records,
            sent: self.sent,
            shifts: self.shifts,
            skipped: self.skipped,
            slowdown: Some(self.slowdown.facts).filter(|facts| facts.rounds > 0),
            requests: self.requests,
            protocol: self.protocol,
        }
    }
}

/// Results of a test.
#[derive(Clone, Debug)]
pub struct PingOutcome<P> {
    /// Specification of the test, as planned or as accepted by the far host.
    pub spec: TestSpec,
    /// Answers in arrival order.
    pub records: Recording,
    /// Kernel transmit timestamps; [`SentStamps::join`] adds them to the records.
    pub sent: SentStamps,
    /// Delays of the schedule after stalls of this host, ascending by sequence number.
    pub shifts: Vec<ScheduleShift>,
    /// Number of scheduled requests that were never sent.
    pub skipped: u64,
    /// Response of the sender to CE; `None` if there was no CE.
    pub slowdown: Option<MarkedSlowdown>,
    /// Requests and answers.
    pub requests: RequestTable,
    /// Counts of datagrams that were not answers.
    pub not_answers: NotAnswers,
    /// Protocol, with its state.
    pub protocol: P,
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
