//! [`Exchange`]: a running two-way test on its socket.

use super::client::{PingError, ProgressFeed, TwoWayLink, TwoWayMeasured};
use super::raw::PacketFraming;
use super::socket::{Carrier, PreparedSocket};
use crate::clock::{self, ClockSteps, tick};
use crate::cmsg::{Passage, ReceivedInfo};
use crate::departures::{MAX_AWAITED, TransmitMatcher};
use crate::interface::InterfaceCounters;
use crate::pace::{PaceMode, SPIN_TIME, late_start_note};
use crate::sockets::{exceeded_mtu, is_mtu_report, is_prohibition};
use crate::stamp::{StampMode, StampedPackets};
use crate::sys::{self, AsFd, Inbox, MAX_BATCH, PollFd, PollFlags, ReceiveMode, poll};
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::{Span, Stamp, StampSource, SteadyTime};
use jitlat_proto::machine::Tick;
use jitlat_proto::twoway::pinger::PingReception;
use jitlat_proto::twoway::{PingPlan, Pinger, Protocol, Transmit};
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum sleep, so that a stop is noticed soon.
const MAX_SLEEP: Span = Span::millis(100);
/// Maximum delay of a socket's timeout: the kernel counts timeouts in ticks, at least a hundred per second.
const MAX_TIMEOUT_DELAY: Span = Span::millis(12);
/// Maximum number of consecutive requests sent before answers are read again.
const MAX_BURST: usize = 32;
/// Maximum wait for the last transmit stamps.
const LAST_STAMPS_LIMIT: Span = Span::millis(20);
/// Additional buffer space for answers that are longer than the requests, in bytes.
const EXTRA_ANSWER_BYTES: usize = 2048;

/// A running test: its socket, its state machine, and its failures so far.
pub(super) struct Exchange<'a, P> {
    link: &'a TwoWayLink,
    wire: ExchangeSockets,
    pinger: Pinger<P>,
    stamping: Stamping,
    inbox: Inbox,
    out: Vec<u8>,
    mode: PaceMode,
    feed: ProgressFeed<'a>,
    /// Time at which packets from other ports were last read.
    checked: SteadyTime,
    /// Behaviour of the next receive call if nothing is queued.
    waiting: ReceiveMode,
    failures: Failures,
    interrupted: bool,
    host: HostFacts,
    clock_steps: ClockSteps,
    counters: InterfaceCounters,
}

/// Sockets of a test, and the framing of its packets.
struct ExchangeSockets {
    socket: Socket,
    /// Socket for packets that the far host sends from other UDP ports; `None` if no second socket is open.
    elsewhere: Option<Socket>,
    framing: Option<Box<PacketFraming>>,
    /// True if received packets begin with an IPv4 header.
    ip_header: bool,
    local: SocketAddr,
    /// Far host's port to which the socket is connected; 0 if the carrier has no ports.
    port: u16,
}

/// State of the transmit stamps.
struct Stamping {
    stamps: StampMode,
    source: StampSource,
    departures: TransmitMatcher<Option<u32>>,
    /// Number of requests for which a stamp was requested.
    requested: u64,
    /// True if the error queue may have entries.
    queued: bool,
}

/// Numbers of requests that could not be sent, and of ICMP errors received.
#[derive(Default)]
struct Failures {
    unsent: u64,
    first: Option<io::Error>,
    refused: u64,
    prohibited: u64,
    /// Number of requests answered by the time the far host last reported that no program listens on the
    /// port; `None` without such a report.
    answered_before: Option<u64>,
}

impl Stamping {
    /// Passes the stamps in the error queue to `pinger`; returns the number of entries read.
    fn collect<P: Protocol>(&mut self, socket: &Socket, pinger: &mut Pinger<P>) -> usize {
        let source = self.source;
        self.departures
            .collect(socket, |request, passage, stamp| stamped(pinger, source, request, passage, stamp))
    }

    /// Restarts the numbering of stamps after a failed send, because it is unknown whether the kernel has
    /// counted the packet.
    fn restart<P: Protocol>(&mut self, socket: &Socket, pinger: &mut Pinger<P>) {
        let source = self.source;
        if source == StampSource::User {
            return;
        }
        // If this fails, no stamps will arrive, and the wait for them is short.
        let _ = self.departures.restart(
            socket,
            sys::stamp_flags(self.stamps, StampedPackets::BOTH),
            |request, stamp| {
                if let Some((passage, stamp)) = stamp {
                    stamped(pinger, source, request, passage, stamp);
                }
            },
        );
    }
}

/// Stores a stamp. An adapter's stamps arrive in addition to the kernel's, but a record only contains stamps
/// of one source.
fn stamped<P: Protocol>(
    pinger: &mut Pinger<P>,
    source: StampSource,
    request: Option<u32>,
    passage: Passage,
    stamp: Stamp,
) {
    match (request, passage) {
        (Some(seq), Passage::Queued) => pinger.queued(seq, stamp.at),
        (Some(seq), Passage::Left) if stamp.source == source => pinger.stamped(seq, stamp.at),
        _ => {}
    }
}

impl<'a, P: Protocol> Exchange<'a, P> {
    /// Starts a test. The argument of `make` is true if the kernel chooses the ICMP identifier.
    pub fn new(
        prepared: PreparedSocket,
        make: impl FnOnce(bool) -> P,
        plan: PingPlan,
        link: &'a TwoWayLink,
    ) -> Exchange<'a, P> {
        let PreparedSocket { socket, stamps, notes, kernel_id, ip_header, elsewhere, framing, local } =
            prepared;
        let mut host = clock::host_facts();
        host.notes = link.pacing.apply();
        host.notes.extend(notes);
        let (mode, chosen) = link.pacing.mode_at(plan.spec.period());
        host.notes.extend(chosen);
        host.adapter_clock = clock::stamping_clock(local.ip(), stamps);
        let clock_steps = ClockSteps::start();
        let counters = InterfaceCounters::start(local.ip());
        let source = match stamps {
            StampMode::User | StampMode::KernelReceive => StampSource::User,
            StampMode::Kernel => StampSource::Kernel,
            StampMode::Hardware => StampSource::Hardware,
        };
        let slot = usize::from(plan.spec.payload()) + EXTRA_ANSWER_BYTES;
        let departures = TransmitMatcher::new(MAX_AWAITED, source);
        let mut pinger = Pinger::new(make(kernel_id), plan, source);
        pinger.take_any_port(link.marking.any_port);
        pinger.start_at(link.start);
        Exchange {
            link,
            wire: ExchangeSockets { socket, elsewhere, framing, ip_header, local, port: link.to.port() },
            pinger,
            stamping: Stamping { stamps, source, departures, requested: 0, queued: false },
            inbox: Inbox::new(MAX_BATCH, slot.min(1 << 16)).of_nonblocking(),
            out: Vec::with_capacity(slot),
            mode,
            feed: ProgressFeed::new(link),
            checked: clock::steady(),
            waiting: ReceiveMode::Queued,
            failures: Failures::default(),
            interrupted: false,
            host,
            clock_steps,
            counters,
        }
    }

    /// Receives queued packets and sends requests that are due. Returns the next deadline, or `None` once the
    /// test is over.
    pub fn turn(&mut self, stop: &AtomicBool) -> Option<SteadyTime> {
        self.collect_stamps();
        self.receive();
        if self.wire.elsewhere.is_some()
            && (self.link.marking.any_port || clock::steady() - self.checked >= MAX_SLEEP)
        {
            self.checked = clock::steady();
            self.receive_elsewhere();
        }
        if stop.load(Ordering::Relaxed) && !self.interrupted {
            self.interrupted = true;
            self.pinger.interrupt(tick());
        }
        self.pinger.handle_timeout(tick());
        for _ in 0..MAX_BURST {
            if !self.transmit() {
                break;
            }
            self.pinger.handle_timeout(tick());
        }
        // Read stamps first: a stamp that has already arrived would end the wait at once.
        if self.stamping.departures.awaited() > 0 {
            self.stamping.collect(&self.wire.socket, &mut self.pinger);
        }
        self.pinger.poll_timeout()
    }

    /// Reads all stamps that have arrived.
    fn collect_stamps(&mut self) {
        let Exchange { stamping, wire, pinger, .. } = self;
        // Read the queue even if no stamp is awaited, because any entry in it would end every wait at once.
        if stamping.departures.awaited() > 0 || std::mem::take(&mut stamping.queued) {
            while stamping.collect(&wire.socket, pinger) == MAX_BATCH {}
        }
        if stamping.departures.is_suspect() {
            stamping.restart(&wire.socket, pinger);
        }
    }

    /// Receives all answers that have arrived.
    fn receive(&mut self) {
        let carrier = self.link.carrier;
        loop {
            let mode = std::mem::replace(&mut self.waiting, ReceiveMode::Queued);
            match self.inbox.receive(self.wire.socket.as_fd(), mode) {
                Ok(count) => {
                    self.take_answers(tick());
                    if count < MAX_BATCH {
                        return;
                    }
                }
                Err(e) if is_refusal(carrier, &e) => self.refused(),
                Err(e) if is_filtered(carrier, &e) => self.failures.prohibited += 1,
                Err(_) => return,
            }
        }
    }

    /// Passes the datagrams in the inbox to the state machine.
    fn take_answers(&mut self, now: Tick) {
        let Exchange { inbox, wire, pinger, .. } = self;
        for datagram in inbox.datagrams() {
            let mut info = datagram.info();
            let body = match &wire.framing {
                Some(framing) => {
                    let Some(datagram) = framing.unwrap(datagram.data) else { continue };
                    (info.ttl, info.traffic_class) = (datagram.ttl, datagram.traffic_class);
                    datagram.payload
                }
                None if wire.ip_header => without_ip_header(datagram.data),
                None => datagram.data,
            };
            pinger.handle(body, &reception(&info, body.len(), now, false), now);
        }
    }

    /// Receives packets that the far host sent from other ports.
    fn receive_elsewhere(&mut self) {
        let Exchange { inbox, wire, pinger, link, .. } = self;
        let Some(socket) = &wire.elsewhere else { return };
        let far: IpAddr = link.to.ip();
        while let Ok(count) = inbox.receive(socket.as_fd(), ReceiveMode::Queued) {
            let now = tick();
            for datagram in inbox.datagrams().filter(|d| d.sender().is_some_and(|from| from.ip() == far)) {
                let info = datagram.info();
                // Packets of the conversation come from its own port, although requests are sent to another one.
                let other = datagram.sender().is_none_or(|from| from.port() != link.to.port());
                pinger.handle(datagram.data, &reception(&info, datagram.data.len(), now, other), now);
            }
            if count < MAX_BATCH {
                return;
            }
        }
    }

    /// Counts a report from the far host that no program listens on the port.
    fn refused(&mut self) {
        self.failures.refused += 1;
        self.failures.answered_before = Some(self.pinger.requests().answered());
    }

    /// Sends the next request if one is due; returns false otherwise.
    fn transmit(&mut self) -> bool {
        self.out.clear();
        let now = tick();
        let Some(what) = self.pinger.poll_transmit(now, &mut self.out) else { return false };
        let request = match what {
            Transmit::Request(seq) => Some(seq),
            Transmit::Probe | Transmit::Conversation => None,
        };
        if let Some(seq) = request {
            self.link.marking.marker().before(&self.wire.socket, seq.into());
        }
        let port = match what {
            Transmit::Conversation => None,
            Transmit::Request(_) | Transmit::Probe => self.pinger.protocol().request_port(),
        };
        match self.send_to_port(port.unwrap_or(self.link.to.port())) {
            Ok(()) if self.stamping.source == StampSource::User => {}
            Ok(()) => {
                self.stamping.departures.sent(request, now.wall);
                self.stamping.requested += u64::from(request.is_some());
            }
            Err(e) => {
                self.failures.unsent += 1;
                self.stamping.restart(&self.wire.socket, &mut self.pinger);
                self.failures.first.get_or_insert(e);
            }
        }
        true
    }

    /// Sends the packet in `out` to this port of the far host. The socket stays connected to the port of the latest
    /// request, whose answers it receives.
    fn send_to_port(&mut self, port: u16) -> io::Result<()> {
        let mut to = self.link.to;
        if port == self.wire.port {
            return self.send();
        }
        if port == to.port() {
            return self.wire.socket.send_to(&self.out, &to.into()).map(drop);
        }
        to.set_port(port);
        self.wire.socket.connect(&to.into())?;
        self.wire.port = port;
        self.send()
    }

    /// Sends the packet in `out`. A pending error about an earlier packet makes the call fail without
    /// sending, so it is repeated.
    fn send(&mut self) -> io::Result<()> {
        let carrier = self.link.carrier;
        let mut sent = self.send_once(carrier == Carrier::Udp && self.failures.refused > 0);
        if matches!(&sent, Err(e) if is_refusal(carrier, e)) {
            self.refused();
            self.stamping.restart(&self.wire.socket, &mut self.pinger);
            sent = self.send_once(carrier == Carrier::Udp);
        }
        if matches!(&sent, Err(e) if is_mtu_report(e)) {
            self.stamping.restart(&self.wire.socket, &mut self.pinger);
            sent = self.send_once(false);
        }
        if matches!(&sent, Err(e) if is_filtered(carrier, e)) {
            self.stamping.restart(&self.wire.socket, &mut self.pinger);
            sent = self.send_once(false);
            self.failures.prohibited += u64::from(sent.is_ok());
        }
        sent
    }

    /// Sends the packet in `out`. If the far host has refused packets (`refused`), a program on it may still read whole
    /// frames (LaTe's raw sockets). Such a program rejects frames whose checksum is left to the adapter, so the
    /// checksum is computed before sending.
    fn send_once(&mut self, refused: bool) -> io::Result<()> {
        let ExchangeSockets { socket, framing, .. } = &mut self.wire;
        let bytes = framing.as_mut().map_or(&self.out[..], |framing| framing.wrap(&self.out));
        if refused { sys::send_summed(socket, bytes) } else { socket.send(bytes).map(drop) }
    }

    /// Waits until `due` or until a packet arrives, at most [`MAX_SLEEP`].
    pub fn wait_until(&mut self, due: SteadyTime) {
        let now = clock::steady();
        self.feed.send_events(&self.pinger, now);
        let span = pause(due, now, self.mode);
        let ExchangeSockets { socket, elsewhere, .. } = &self.wire;
        let any_port = self.link.marking.any_port;
        // Neither transmit stamps nor packets on the second socket end a receive call, and its timeout is
        // coarse.
        let coarse = self.stamping.source == StampSource::User && span > MAX_TIMEOUT_DELAY && !any_port;
        // Compared with a separate wait, this saves a system call between an answer and its stamp.
        if coarse && sys::receive_within(socket, span - MAX_TIMEOUT_DELAY) {
            self.waiting = ReceiveMode::Wait;
        } else {
            self.stamping.queued = wait(socket, elsewhere.as_ref().filter(|_| any_port), span);
        }
    }

    /// Returns the result of a test that is over.
    pub fn finish(mut self) -> Result<TwoWayMeasured<P>, PingError> {
        self.receive_elsewhere();
        self.collect_last_stamps();
        if let Some(why) = self.failure() {
            return Err(why);
        }
        let Exchange {
            mut host,
            mut clock_steps,
            counters,
            pinger,
            failures,
            stamping,
            interrupted,
            wire,
            link,
            ..
        } = self;
        host.sync_after = clock::sync_state();
        let adapter = clock::stamping_clock(wire.local.ip(), stamping.stamps);
        host.adapter_clock = clock::worse_clock(host.adapter_clock, adapter);
        host.notes.extend(pinger.late_start().map(late_start_note));
        host.clock_step = Some(clock_steps.check());
        host.notes.extend(counters.note());
        // The far program ended during the test if its host reported this, no answer arrived afterwards, and
        // at least one answer is missing.
        let requests = pinger.requests();
        let gone =
            failures.answered_before == Some(requests.answered()) && requests.answered() < requests.sent();
        let ending = match (gone, interrupted) {
            (true, _) if pinger.protocol().expects_replies() => Ending::PeerLost,
            (_, true) => Ending::Interrupted,
            _ => Ending::Complete,
        };
        let outcome = pinger.finish_up();
        let length = u32::from(outcome.spec.payload());
        let path_mtu = match link.carrier {
            Carrier::Udp => exceeded_mtu(&wire.socket, link.to.is_ipv6(), length + 8),
            Carrier::Icmp => exceeded_mtu(&wire.socket, link.to.is_ipv6(), length),
            Carrier::Raw | Carrier::Ethernet(_) => None,
        };
        // Packets dropped in this host's queue were never sent, so their stamps do not count as lost.
        let dropped = outcome.sent.dropped_in_queue(outcome.records.iter().map(|r| r.seq));
        let lost = stamping.requested.saturating_sub(outcome.sent.known() as u64 + dropped);
        Ok(TwoWayMeasured {
            outcome,
            local: wire.local,
            stamps: stamping.stamps,
            host,
            ending,
            path_mtu,
            unsent: failures.unsent + dropped,
            stamps_lost: (stamping.source != StampSource::User).then_some(lost),
            refused: failures.refused,
            prohibited: failures.prohibited,
        })
    }

    /// Waits for the last transmit stamps, at most [`LAST_STAMPS_LIMIT`].
    fn collect_last_stamps(&mut self) {
        let until = clock::steady() + LAST_STAMPS_LIMIT;
        while self.stamping.departures.awaited() > 0 && clock::steady() < until {
            if self.stamping.collect(&self.wire.socket, &mut self.pinger) == 0 {
                wait(&self.wire.socket, None, pause(until, clock::steady(), PaceMode::Sleep));
            }
        }
    }

    /// Returns the reason why nothing was measured; `None` if something was measured.
    fn failure(&mut self) -> Option<PingError> {
        let (to, requests) = (self.link.to, self.pinger.requests());
        let Failures { unsent, refused, prohibited, first, .. } = &mut self.failures;
        if let Some(why) = self.pinger.failure() {
            return Some(match *refused {
                0 => PingError::Conversation { to, why: why.to_owned() },
                _ => PingError::Refused(to),
            });
        }
        let unanswered = requests.answered() == 0 && self.pinger.protocol().expects_replies();
        match () {
            () if unanswered && *refused > 0 => Some(PingError::Refused(to)),
            () if unanswered && *prohibited > 0 => Some(PingError::Prohibited(to)),
            () if *unsent > 0 && *unsent >= requests.sent() => {
                first.take().map(|source| PingError::Send { to, source })
            }
            () => None,
        }
    }
}

/// Returns the facts about the reception of a packet of `length` bytes, read at `now`.
fn reception(info: &ReceivedInfo, length: usize, now: Tick, other_port: bool) -> PingReception {
    PingReception {
        stamp: info.stamp.unwrap_or(Stamp { at: now.wall, source: StampSource::User }),
        read: now.wall,
        length,
        ttl: info.ttl,
        traffic_class: info.traffic_class,
        other_port,
    }
}

/// True if the error means that no program listens on the far host's port.
fn is_refusal(carrier: Carrier, error: &io::Error) -> bool {
    carrier != Carrier::Icmp && error.kind() == io::ErrorKind::ConnectionRefused
}

/// True if the error means that a filter or policy rejects the requests. Echo requests have no port that
/// could be closed, so "port unreachable" is sent by a firewall (the default of netfilter's REJECT).
fn is_filtered(carrier: Carrier, error: &io::Error) -> bool {
    is_prohibition(error) || carrier == Carrier::Icmp && error.kind() == io::ErrorKind::ConnectionRefused
}

/// Returns the time to sleep if the next deadline is `due`, at most a tenth of a second.
fn pause(due: SteadyTime, now: SteadyTime, mode: PaceMode) -> Span {
    let wake = match mode {
        PaceMode::Sleep | PaceMode::Etf => due,
        PaceMode::Hybrid => due - SPIN_TIME,
        PaceMode::Spin => now,
    };
    (wake - now).max(Span(0)).min(MAX_SLEEP)
}

/// Sleeps for `span`, or until a packet or a stamp arrives on `socket` or a packet on `elsewhere`. Returns
/// true if the error queue has entries.
fn wait(socket: &impl AsFd, elsewhere: Option<&Socket>, span: Span) -> bool {
    if span.0 == 0 {
        sys::spin();
        return false;
    }
    let other = elsewhere.map_or_else(|| socket.as_fd(), AsFd::as_fd);
    let mut ready = [socket.as_fd(), other].map(|socket| PollFd::new(socket, PollFlags::POLLIN));
    // A signal or a timeout needs no special treatment, because the caller checks everything again.
    let watched = if elsewhere.is_some() { &mut ready[..] } else { &mut ready[..1] };
    let _ = poll(watched, Some(span));
    ready[0].revents().is_some_and(|r| r.contains(PollFlags::POLLERR))
}

fn without_ip_header(packet: &[u8]) -> &[u8] {
    // The header length is in the lower half of the first byte, in 32-bit words.
    let length = packet.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    packet.get(length..).unwrap_or_default()
}
