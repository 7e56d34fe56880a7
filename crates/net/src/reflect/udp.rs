//! A UDP socket that answers requests: [`AnsweringSocket`] receives requests in batches, [`Answers`] sends
//! the answers.

use super::{AnswerCounters, ReflectorContext};
use crate::clock;
use crate::cmsg::LocalAddress;
use crate::departures::TransmitMatcher;
use crate::lead::Lead;
use crate::sockets::{enlarge, has_message_priority, observe};
use crate::sys::{self, AsFd, Inbox, MAX_BATCH, Outbox, PollFd, PollFlags, ReceiveMode, SendOptions, poll};
use jitlat_core::{Ecn, Span, StampSource, WallTime};
use jitlat_proto::lamp;
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::reflect::{RequestArrival, Silence};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a datagram, in bytes: an IPv4 packet of 65 535 bytes without its IP and UDP headers.
pub const MAX_DATAGRAM: usize = 65_507;
/// Maximum wait for a transmit stamp. The driver takes the stamp when the packet is passed to the adapter,
/// nearly always before the send call returns.
const MAX_STAMP_DELAY: Span = Span::millis(5);
/// Maximum number of answers that wait for their transmit stamps.
const MAX_STAMPS_AWAITED: usize = 1024;
/// Memory for received datagrams, in bytes. More is used if a single datagram needs more.
const INBOX_BYTES: usize = 4 << 20;

/// A UDP socket that answers requests, and reports the outcome of tracked answers, each identified by a `K`.
pub(crate) struct AnsweringSocket<K> {
    socket: UdpSocket,
    inbox: Inbox,
    shared: ReflectorContext,
    answers: Answers<K>,
    /// Minimum number of bytes counted against the limits per answer, even if the request is shorter.
    shortest_answer: usize,
    wait: Wait,
}

/// Decision about a request, according to the rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may be answered.
    Admitted,
    /// It must not be answered.
    Limited,
}

/// Method by which [`AnsweringSocket::receive`] waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Do not wait, because the caller has already waited.
    Never,
    /// Wait in the receive call (`SO_RCVTIMEO`) for at most this time; `None`: until the server stops.
    AtMost(Option<Span>),
}

/// Possible timeouts of the receive call: only a few, so that the option is rarely changed.
const WAITS: [Span; 3] = [Span::seconds(10), Span::seconds(1), Span::millis(100)];

/// Outcome of a tracked answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepartedAnswer<K> {
    /// Identifier of the answer.
    pub which: K,
    /// Outcome of sending the answer.
    pub departure: AnswerFate,
}

/// Outcome of sending an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFate {
    /// The answer left at this time, according to the kernel.
    Stamped(WallTime),
    /// The answer was sent, but its transmit stamp did not arrive.
    Unstamped,
    /// The answer could not be sent.
    NotSent,
}

impl<K: Copy> AnsweringSocket<K> {
    /// Binds to `at`. The first `slot` bytes of each datagram are stored. [`receive`](Self::receive) waits
    /// for packets until the server stops.
    pub fn bind(at: SocketAddr, shared: &ReflectorContext, slot: usize) -> io::Result<AnsweringSocket<K>> {
        let answering = AnsweringSocket { wait: Wait::AtMost(None), ..Self::bind_polled(at, shared, slot)? };
        shared.end_waits_on(&SockRef::from(&answering.socket))?;
        Ok(answering)
    }

    /// Like [`bind`](Self::bind), for a caller that polls the socket: [`receive`](Self::receive) does not
    /// wait.
    pub fn bind_polled(
        at: SocketAddr,
        shared: &ReflectorContext,
        slot: usize,
    ) -> io::Result<AnsweringSocket<K>> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        let v6 = at.is_ipv6();
        if v6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&at.into())?;
        observe(&socket, v6);
        enlarge(&socket);
        // Older kernels do not accept a priority for a single answer.
        let priority = shared.prefer(&socket).filter(|_| has_message_priority());
        // Answers are sent from the address to which the request was sent. The hop limit lets the client see
        // the distance.
        sys::observe_destination(&socket, v6)?;
        if v6 {
            socket.set_unicast_hops_v6(255)?;
        } else {
            socket.set_ttl_v4(255)?;
        }
        let stamps = sys::set_stamps(&socket, sys::answer_stamp_flags()).is_ok();
        Ok(AnsweringSocket {
            socket: socket.into(),
            inbox: Inbox::new((INBOX_BYTES / slot.max(1)).clamp(1, MAX_BATCH), slot),
            shared: shared.clone(),
            shortest_answer: 0,
            wait: Wait::Never,
            answers: Answers {
                outbox: Outbox::new(MAX_BATCH * 1500),
                tracked: Vec::with_capacity(MAX_BATCH),
                departures: TransmitMatcher::new(MAX_STAMPS_AWAITED, StampSource::Kernel),
                counters: Arc::clone(&shared.counters),
                priority,
                bound: !at.ip().is_unspecified(),
                stamps,
                departed: Vec::new(),
                lead: Lead::new(),
            },
        })
    }

    /// Sets the minimum number of bytes that each answer counts against a client's limits.
    pub fn with_shortest_answer(self, bytes: usize) -> AnsweringSocket<K> {
        AnsweringSocket { shortest_answer: bytes, ..self }
    }

    /// Returns the socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// True if the kernel can report the departure times of answers.
    pub(crate) fn stamps_answers(&self) -> bool {
        self.answers.stamps
    }

    /// Waits for a batch of packets and passes each to `each`, with its arrival and its destination address; then sends
    /// all answers. If `due` is set, the wait ends after at most this time, or up to a tenth of a second later.
    pub fn receive(
        &mut self,
        due: Option<Span>,
        mut each: impl FnMut(&mut Answers<K>, &[u8], &RequestArrival, Option<LocalAddress>),
    ) {
        self.receive_all(due, |out, admission, data, arrival, local| {
            if admission == Admission::Admitted {
                each(out, data, arrival, local);
            }
        });
    }

    /// Like [`receive`](Self::receive), but also passes on requests that must not be answered because of a rate limit.
    pub fn receive_all(
        &mut self,
        due: Option<Span>,
        mut each: impl FnMut(&mut Answers<K>, Admission, &[u8], &RequestArrival, Option<LocalAddress>),
    ) {
        let mode = match self.wait {
            Wait::Never => ReceiveMode::Queued,
            Wait::AtMost(limit) if self.answers.departures.awaited() == 0 => {
                self.limit_wait(limit, due);
                ReceiveMode::Wait
            }
            // A transmit stamp does not end the receive call, so wait for packets and stamps here.
            Wait::AtMost(_) => {
                self.wait_for_stamps();
                ReceiveMode::Queued
            }
        };
        if self.inbox.receive(self.socket.as_fd(), mode).is_err() {
            return;
        }
        let now = clock::tick();
        for datagram in self.inbox.datagrams() {
            let Some(from) = datagram.sender() else { continue };
            if !self.shared.admits(from.ip()) {
                self.shared.counters.silent(Silence::NotAllowed);
                continue;
            }
            let info = datagram.info();
            if info.broadcast {
                self.shared.counters.silent(Silence::Broadcast);
                continue;
            }
            // Limits count the longer of request and answer, so that short requests gain nothing.
            let answer = datagram.data.len().max(self.shortest_answer);
            let admission = match self.shared.take(from.ip(), answer, now.steady) {
                Ok(()) => Admission::Admitted,
                Err(_) => {
                    self.shared.counters.silent(Silence::Limited);
                    Admission::Limited
                }
            };
            let arrival = RequestArrival {
                from,
                at: info.stamp.map_or(now.wall, |s| s.at),
                ttl: info.ttl,
                traffic_class: info.traffic_class,
            };
            if self.answers.outbox.is_full() {
                self.answers.flush(&self.socket);
            }
            each(&mut self.answers, admission, datagram.data, &arrival, info.local);
        }
        self.answers.flush(&self.socket);
    }

    /// Changes the timeout of the receive call if `due` requires a different one.
    fn limit_wait(&mut self, limit: Option<Span>, due: Option<Span>) {
        let wanted = due.map(|due| WAITS.into_iter().find(|wait| *wait <= due).unwrap_or(WAITS[2]));
        if wanted != limit {
            let time =
                wanted.map(|wanted| Duration::from_nanos(wanted.0.unsigned_abs())).or(sys::LONGEST_WAIT);
            if self.socket.set_read_timeout(time).is_ok() {
                self.wait = Wait::AtMost(wanted);
            }
        }
    }

    /// Sends a packet that does not answer a request of the current batch.
    pub fn send(&mut self, packet: &[u8], to: SocketAddr, from: Option<LocalAddress>) {
        self.answers.push(packet, to, from, 0);
        self.answers.flush(&self.socket);
    }

    /// Reports the outcomes of tracked answers, latest first. `each` can send further packets.
    pub(crate) fn take_departed(&mut self, mut each: impl FnMut(&mut Answers<K>, DepartedAnswer<K>)) {
        let answers = &mut self.answers;
        if answers.departures.awaited() > 0 {
            let Answers { departures, departed, lead, .. } = answers;
            departures.collect(&self.socket, |tracked, _, stamp| {
                if let Some(read) = tracked.read {
                    lead.note(read, stamp.at);
                }
                departed.extend(tracked.fate(AnswerFate::Stamped(stamp.at)));
            });
            let timeout = clock::wall() - MAX_STAMP_DELAY;
            departures.give_up_before(timeout, |tracked| {
                departed.extend(tracked.fate(AnswerFate::Unstamped));
            });
        }
        while let Some(one) = answers.departed.pop() {
            each(answers, one);
            if answers.outbox.is_full() || answers.departed.is_empty() {
                answers.flush(&self.socket);
            }
        }
    }

    fn wait_for_stamps(&self) {
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, Some(MAX_STAMP_DELAY));
    }
}

/// Sending half of an [`AnsweringSocket`]. Answers to one batch of requests are sent together.
pub struct Answers<K> {
    outbox: Outbox,
    /// Tracking data, by position in the outbox.
    tracked: Vec<Tracked<K>>,
    departures: TransmitMatcher<Tracked<K>>,
    counters: Arc<AnswerCounters>,
    /// True if the socket is bound to a single address, so that answers need no source address.
    bound: bool,
    /// Priority of each answer that has its own traffic class; `None`: the kernel chooses.
    priority: Option<u32>,
    stamps: bool,
    /// Outcomes of tracked answers, until [`AnsweringSocket::take_departed`] reports them.
    departed: Vec<DepartedAnswer<K>>,
    /// Estimator of the time from reading the clock for an answer to its departure.
    lead: Lead,
}

/// An answer whose outcome is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerTracking<K> {
    /// Mark (ECN field) of the answer.
    pub mark: Ecn,
    /// Identifier of the answer.
    pub which: K,
    /// True if the time at which the answer left is reported.
    pub stamped: bool,
    /// Time at which the answer is expected to leave; `None` if the answer contains no time.
    pub leaving: Option<ExpectedDeparture>,
    /// True if the answer leaves through the interface on which the request arrived.
    pub same_link: bool,
}

/// Tracking data of an answer in the outbox.
#[derive(Clone, Copy)]
struct Tracked<K> {
    /// Identifier, if the outcome of the answer is to be reported.
    which: Option<K>,
    stamped: bool,
    /// Clock reading from which the time in the answer was computed; `None` if the answer contains no time.
    read: Option<WallTime>,
    /// True if the answer leaves through the interface on which the request arrived.
    same_link: bool,
}

impl<K> Tracked<K> {
    fn fate(self, departure: AnswerFate) -> Option<DepartedAnswer<K>> {
        self.which.map(|which| DepartedAnswer { which, departure })
    }
}

/// Time at which an answer is expected to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedDeparture {
    /// Expected time of departure.
    pub at: Tick,
    /// Clock reading from which the expected time was computed.
    read: Tick,
}

impl<K: Copy> Answers<K> {
    /// Queues `answer` for sending with the rest of the batch. There is room for one answer and one further
    /// packet per request.
    pub fn push(&mut self, answer: &[u8], to: SocketAddr, from: Option<LocalAddress>, dscp: u8) {
        self.add(
            answer,
            to,
            from,
            dscp << 2,
            Tracked { which: None, stamped: false, read: None, same_link: false },
        );
    }

    /// Reads the clock for an answer to `to`, and returns the expected departure time. Pass the result to the next
    /// push.
    pub(crate) fn leaving(&self, to: SocketAddr) -> ExpectedDeparture {
        let read = clock::tick();
        ExpectedDeparture { at: read + self.lead.of(to.ip()), read }
    }

    /// True if the answer should be stamped to update the lead.
    fn is_lead_due(&mut self, leaving: ExpectedDeparture) -> bool {
        self.stamps && self.lead.is_due(leaving.read.steady)
    }

    /// Like [`push`](Self::push), for an answer that contains a time.
    pub(crate) fn push_timed(
        &mut self,
        answer: &[u8],
        to: SocketAddr,
        from: Option<LocalAddress>,
        dscp: u8,
        leaving: ExpectedDeparture,
    ) {
        let stamped = self.is_lead_due(leaving);
        let read = Some(leaving.read.wall);
        self.add(answer, to, from, dscp << 2, Tracked { which: None, stamped, read, same_link: false });
    }

    /// Like [`push`](Self::push), for a tracked answer. [`AnsweringSocket::take_departed`] reports if the answer could
    /// not be sent and, if requested, when it left.
    pub(crate) fn push_tracked(
        &mut self,
        answer: &[u8],
        to: SocketAddr,
        from: Option<LocalAddress>,
        dscp: u8,
        tracking: AnswerTracking<K>,
    ) {
        let AnswerTracking { mark, which, stamped, leaving, same_link } = tracking;
        let stamped = leaving.is_some_and(|leaving| self.is_lead_due(leaving)) || stamped;
        let read = leaving.map(|leaving| leaving.read.wall);
        self.add(
            answer,
            to,
            from,
            dscp << 2 | mark.bits(),
            Tracked { which: Some(which), stamped, read, same_link },
        );
    }

    fn add(
        &mut self,
        answer: &[u8],
        to: SocketAddr,
        from: Option<LocalAddress>,
        class: u8,
        tracked: Tracked<K>,
    ) {
        let leave = SendOptions {
            class: (class != 0).then_some(class),
            priority: self.priority,
            // An answer with a time is sent in the same way whether it is stamped or not.
            stamped: (self.stamps && (tracked.stamped || tracked.read.is_some())).then_some(tracked.stamped),
            // LaTe's raw clients, recognised by their port, read whole frames and drop those whose checksum
            // is left to the adapter.
            summed: to.port() == lamp::RAW_PORT,
            same_link: tracked.same_link,
        };
        self.outbox.push(answer, to, from.filter(|_| tracked.same_link || !self.bound), leave);
        self.tracked.push(tracked);
    }

    /// Counts a request without an answer.
    pub fn silent(&self, why: Silence) {
        self.counters.silent(why);
    }

    fn flush(&mut self, socket: &UdpSocket) {
        if self.outbox.is_empty() {
            return;
        }
        // The clock is not read for answers that contain a time: reading it would make stamped ones leave later than
        // the others.
        let unread = self.tracked.iter().any(|t| t.stamped && t.read.is_none());
        let reading = if unread { clock::wall() } else { WallTime(0) };
        let mut sent = 0;
        while let Some(handed_over) = self.outbox.send_next(socket.as_fd()) {
            match handed_over {
                Ok(accepted) => {
                    sent += accepted.len() as u64;
                    for tracked in self.tracked[accepted].iter().filter(|t| t.stamped) {
                        if self.stamps {
                            self.departures.sent(*tracked, tracked.read.unwrap_or(reading));
                        } else {
                            self.departed.extend(tracked.fate(AnswerFate::Unstamped));
                        }
                    }
                }
                // The request stays unanswered, as if it had been lost on the path.
                Err(rejected) => {
                    let tracked = self.tracked[rejected];
                    self.departed.extend(tracked.fate(AnswerFate::NotSent));
                    if tracked.stamped {
                        self.restart(socket);
                    }
                }
            }
        }
        self.outbox.clear();
        self.tracked.clear();
        self.counters.answered(sent);
    }

    /// Restarts the numbering of stamps after a stamped answer could not be sent, because it is unknown
    /// whether the kernel counted it.
    fn restart(&mut self, socket: &UdpSocket) {
        if self.stamps {
            let departed = &mut self.departed;
            let restarted = self.departures.restart(socket, sys::answer_stamp_flags(), |tracked, stamp| {
                let departure = stamp.map_or(AnswerFate::Unstamped, |(_, s)| AnswerFate::Stamped(s.at));
                departed.extend(tracked.fate(departure));
            });
            self.stamps = restarted.is_ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reflect::Reflectors;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Returns an answering socket, a client of it, and its counters.
    fn pair() -> (AnsweringSocket<u32>, UdpSocket, Arc<AnswerCounters>) {
        let shared = Reflectors::new(jitlat_proto::policy::Policy::default()).unwrap().shared.clone();
        let at = "127.0.0.1:0".parse().unwrap();
        let socket = AnsweringSocket::<u32>::bind(at, &shared, MAX_DATAGRAM).unwrap();
        let client = UdpSocket::bind(at).unwrap();
        client.connect(socket.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        (socket, client, shared.counters)
    }

    #[test]
    fn one_answer_that_cannot_be_sent_takes_nobody_elses_stamps() {
        let (mut socket, client, counters) = pair();
        let unreachable = SocketAddr::from(([127, 0, 0, 1], 0));
        // Answers to the client are numbered. Some answers go to an address that cannot be reached.
        let mut known = Vec::new();
        for n in 0..40 {
            client.send(b"?").unwrap();
            socket.receive(None, |out, _, arrival, local| {
                let to = if n % 4 == 1 { unreachable } else { arrival.from };
                let tracking = AnswerTracking {
                    mark: Ecn::NotEct,
                    which: n,
                    stamped: n % 8 < 4,
                    leaving: None,
                    same_link: false,
                };
                out.push_tracked(b"!", to, local, 0, tracking);
            });
            let until = Instant::now() + LIMIT;
            // Answers without stamps are reported only if they could not be sent.
            while n % 8 < 4 && known.iter().all(|(known, _)| *known != n) {
                assert!(Instant::now() < until, "{n} is neither stamped nor given up");
                socket.take_departed(|_, d| known.push((d.which, d.departure)));
            }
        }
        socket.take_departed(|_, d| known.push((d.which, d.departure)));
        known.sort_unstable_by_key(|(n, _)| *n);
        let failed = |d: AnswerFate| d == AnswerFate::NotSent;
        let expected: Vec<_> = (0..40).filter(|n| n % 8 < 4 || n % 4 == 1).map(|n| (n, n % 4 == 1)).collect();
        assert_eq!(known.iter().map(|(n, d)| (*n, failed(*d))).collect::<Vec<_>>(), expected);
        assert!(known.iter().all(|(_, d)| failed(*d) || matches!(d, AnswerFate::Stamped(_))));
        assert_eq!(counters.answered.load(Ordering::Relaxed), 30, "ten of forty were not sent");
    }

    #[test]
    fn stamps_that_never_come_hold_up_no_answer() {
        let (mut socket, client, _) = pair();
        // Simulates an adapter without transmit stamps: each answer is awaited, but no stamp arrives.
        let mut given_up = 0;
        let (requests, mut turns) = (200, 0);
        for n in 0..requests {
            client.send(b"?").unwrap();
            let mut answered = false;
            while !answered {
                socket.receive(None, |out, _, arrival, local| {
                    out.push(b"!", arrival.from, local, 0);
                    answered = true;
                });
                turns += 1;
                socket.take_departed(|_, d| given_up += u32::from(d.departure == AnswerFate::Unstamped));
            }
            let tracked = Tracked { which: Some(n), stamped: true, read: None, same_link: false };
            socket.answers.departures.sent(tracked, clock::wall());
            assert_eq!(client.recv(&mut [0; 8]).unwrap(), 1);
        }
        // A turn is one receive call with its answers. Waiting for a stamp does not delay requests.
        assert!(turns <= requests + requests / 10, "{turns} turns for {requests} requests");
        let until = Instant::now() + LIMIT;
        while given_up < requests {
            assert!(Instant::now() < until, "{given_up} given up");
            socket.receive(None, |_, _, _, _| unreachable!("nothing was asked"));
            socket.take_departed(|_, d| given_up += u32::from(d.departure == AnswerFate::Unstamped));
        }
        assert_eq!(socket.answers.departures.awaited(), 0);
    }
}
