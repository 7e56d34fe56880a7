//! Runs one two-way test over datagrams.

use crate::clock::{self, tick};
use crate::cmsg::{Passage, ReceivedInfo};
use crate::departures::{Departures, UNDER_WAY};
use crate::interface_counters::InterfaceCounters;
use crate::pace::{Mode, Pacing};
use crate::privilege::{Capability, how_to_grant, needs};
use crate::sockets::is_prohibition;
use crate::stamp::{Stamps, Ways, flags};
use crate::sys::{self, BATCH, Inbox};
use crate::twoway::socket::{self, Carrier, Marking, Prepared};
use jitlat_core::session::{Ending, HostFacts};
use jitlat_core::time::SECOND;
use jitlat_core::{PacketRecord, Source, Span, Stamp, SteadyTime};
use jitlat_proto::twoway::pinger::{Outcome, Reception};
use jitlat_proto::twoway::{Pinger, Plan, Protocol, Transmit};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeSpec, TimeVal};
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// How to reach the far host, and how this host runs the test.
#[derive(Clone, Debug)]
pub struct Link {
    /// The far host; ICMP ignores the port.
    pub to: SocketAddr,
    /// The kind of packets.
    pub carrier: Carrier,
    /// Addresses and marks.
    pub marking: Marking,
    /// The best kind of stamps to use.
    pub stamps: Stamps,
    /// How the thread is scheduled and waits.
    pub pacing: Pacing,
    /// Receives the events of the test; `None`: not needed. Events for which the queue has no room can still be found
    /// in the result. A receiver that polls costs less than one that blocks and has to be woken.
    pub live: Option<SyncSender<PingEvent>>,
}

/// An event of a running test.
#[derive(Clone, Copy, Debug)]
pub enum PingEvent {
    /// An answer, with what is known of it so far.
    Answer(PacketRecord),
    /// The progress of the test, a few times a second.
    Progress(Progress),
}

/// Sends the events of a test, each once.
pub(crate) struct ProgressFeed<'a> {
    to: Option<&'a SyncSender<PingEvent>>,
    answers: usize,
    progress: SteadyTime,
}

impl<'a> ProgressFeed<'a> {
    pub(crate) fn new(link: &'a Link) -> ProgressFeed<'a> {
        ProgressFeed { to: link.live.as_ref(), answers: 0, progress: SteadyTime(i64::MIN) }
    }

    /// Sends what is new, without blocking: if the queue is full, later.
    pub(crate) fn send_events<P: Protocol>(&mut self, pinger: &Pinger<P>, now: SteadyTime) {
        let Some(to) = self.to else { return };
        let answers = pinger.answers_since(self.answers).take(RUN);
        self.answers += answers.take_while(|r| to.try_send(PingEvent::Answer(*r)).is_ok()).count();
        if now - self.progress >= PROGRESS {
            self.progress = now;
            let requests = pinger.requests();
            let progress = Progress { sent: requests.sent(), answered: requests.answered() };
            // If the queue is full, the next progress is sent instead.
            let _ = to.try_send(PingEvent::Progress(progress));
        }
    }
}

/// Why a test could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// The socket could not be set up.
    #[error("opening a socket to {}: {hint}", host(to))]
    Socket {
        /// The far host.
        to: SocketAddr,
        /// The reason, and what to try.
        hint: String,
    },
    /// No request could be sent.
    #[error(
        "sending to {}: {source}{}",
        host(to),
        match source.kind() {
            io::ErrorKind::AddrNotAvailable => ": --bind takes an address of this host",
            io::ErrorKind::PermissionDenied => ": does a firewall of this host forbid it?",
            _ => "",
        }
    )]
    Send {
        /// The far host.
        to: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("{}: {why}", host(to))]
    Conversation {
        /// The far host.
        to: SocketAddr,
        /// The reason, and what to try.
        why: String,
    },
    /// The far host refuses: nothing listens on the port.
    #[error(
        "{0} refuses: nothing listens on that port there; is the reflector running, and is the port right?"
    )]
    Refused(SocketAddr),
    /// Nothing was answered, and a host on the way says that it may not be.
    #[error(
        "{}: a router or firewall on the way says that this traffic is prohibited (ICMP); does it let {} through?",
        host(.0), if .0.port() == 0 { "echo requests" } else { "this protocol and port" }
    )]
    Prohibited(SocketAddr),
    /// A connection cannot be made: there is no route, or a host on the way says that there is none or that it may not be.
    #[error("{to}: {source}; is there a route to it, and does a firewall on the way prohibit this port?")]
    Unreachable {
        /// The far host.
        to: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A far host and its port; echo requests have none.
fn host(to: &SocketAddr) -> String {
    if to.port() == 0 { to.ip().to_string() } else { to.to_string() }
}

/// The result of a test.
pub struct Measured<P> {
    /// Records and counts.
    pub outcome: Outcome<P>,
    /// This host's address and port.
    pub local: SocketAddr,
    /// The kind of stamps that was used.
    pub stamps: Stamps,
    /// Facts about this host.
    pub host: HostFacts,
    /// How it ended.
    pub ending: Ending,
    /// Requests that could not be sent.
    pub unsent: u64,
    /// Requests whose stamp of leaving was asked for and never came; `None` if none were asked for.
    pub stamps_lost: Option<u64>,
    /// "Port unreachable" messages received.
    pub refused: u64,
    /// Messages received that say that a filter or policy prohibits these packets.
    pub prohibited: u64,
}

/// The progress of a test.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
}

/// The longest sleep, so that a stop is noticed soon.
const SLICE: Span = Span::millis(100);
/// How long before the deadline [`Mode::Hybrid`] stops sleeping.
const SPIN: Span = Span::micros(60);
/// How late a socket's timeout may fire: the kernel counts it in ticks, at least a hundred a second.
const COARSE: Span = Span::millis(12);
/// Requests sent in a row before answers are read again.
const RUN: usize = 32;
/// Time between two progress events.
const PROGRESS: Span = Span::millis(250);
/// How long to wait for the last transmit stamps.
const LAST_STAMPS: Span = Span::millis(20);
/// Extra bytes for answers that are longer than the requests.
const SLACK: usize = 2048;

/// Runs `protocol` against `link` as `plan` says, until it is over or `stop` is set; answers in transit are still
/// waited for then. The argument of `make` is whether the kernel chooses the ICMP identifier.
pub fn run<P: Protocol>(
    make: impl FnOnce(bool) -> P,
    plan: Plan,
    link: &Link,
    stop: &AtomicBool,
) -> Result<Measured<P>, PingError> {
    run_on(prepare(link, plan.spec.payload().into())?, make, plan, link, stop)
}

/// Opens the socket of a test of requests with `payload` bytes. Its port can thus be sent to the far host before
/// [`run_on`].
pub fn prepare(link: &Link, payload: usize) -> Result<Prepared, PingError> {
    socket::open(link.carrier, link.to, &link.marking, link.stamps, payload)
        .map_err(|e| PingError::Socket { to: link.to, hint: hint(link.carrier, &e) })
}

/// As [`run`], on a socket that was opened before.
pub fn run_on<P: Protocol>(
    prepared: Prepared,
    make: impl FnOnce(bool) -> P,
    plan: Plan,
    link: &Link,
    stop: &AtomicBool,
) -> Result<Measured<P>, PingError> {
    let Prepared { socket, stamps, notes, kernel_id, ip_header, elsewhere, mut framing, local } = prepared;
    let any_port = link.marking.any_port;
    let mut host = clock::host_facts();
    host.notes = link.pacing.apply();
    host.notes.extend(notes);
    let (mode, chosen) = link.pacing.mode_at(plan.spec.period());
    host.notes.extend(chosen);
    let mut steps = clock::ClockSteps::start();
    let counters = InterfaceCounters::start(local.ip());

    let source = match stamps {
        Stamps::User | Stamps::KernelReceive => Source::User,
        Stamps::Kernel => Source::Kernel,
        Stamps::Hardware => Source::Hardware,
    };
    let slot = usize::from(plan.spec.payload()) + SLACK;
    let mut inbox = Inbox::new(BATCH, slot.min(1 << 16));
    let mut departures = Departures::new(UNDER_WAY, source);
    // An adapter's stamps come in addition to the kernel's; a record has only one source.
    let stamped = |pinger: &mut Pinger<P>, request: Option<u32>, passage: Passage, stamp: Stamp| match (
        request, passage,
    ) {
        (Some(seq), Passage::Queued) => pinger.queued(seq, stamp.at),
        (Some(seq), Passage::Left) if stamp.source == source => pinger.stamped(seq, stamp.at),
        _ => {}
    };
    let mut pinger = Pinger::new(make(kernel_id), plan, source);
    pinger.take_any_port(any_port);
    // When what came from other ports was read.
    let mut looked = clock::steady();
    let mut out = Vec::with_capacity(slot);
    let (mut unsent, mut refused, mut prohibited, mut interrupted) = (0u64, 0u64, 0u64, false);
    // Requests that the kernel was to stamp.
    let mut stampable = 0u64;
    // How many requests had been answered when the far host last said that nothing listens.
    let mut answered_before = None;
    let mut first_failure = None;
    let mut feed = ProgressFeed::new(link);
    let mut waiting = libc::MSG_DONTWAIT;
    // Whether the error queue has entries.
    let mut queued = false;
    // After a failed send it is unknown whether the kernel had numbered the packet.
    let restart = |departures: &mut Departures<Option<u32>>, pinger: &mut Pinger<P>| {
        if source == Source::User {
            return;
        }
        // If it fails no stamps come, and the wait for them is short.
        let _ = departures.restart(&socket, flags(stamps, Ways::BOTH), |request, stamp| {
            if let Some((passage, stamp)) = stamp {
                stamped(pinger, request, passage, stamp);
            }
        });
    };

    loop {
        // Also if none is awaited: entries in the queue would end every wait at once.
        if departures.awaited() > 0 || std::mem::take(&mut queued) {
            while departures
                .collect(&socket, |request, passage, stamp| stamped(&mut pinger, request, passage, stamp))
                == BATCH
            {}
        }
        if departures.is_suspect() {
            restart(&mut departures, &mut pinger);
        }
        loop {
            match inbox.receive(socket.as_fd(), std::mem::replace(&mut waiting, libc::MSG_DONTWAIT)) {
                Ok(count) => {
                    let now = tick();
                    for datagram in inbox.datagrams() {
                        let mut info = ReceivedInfo::parse(datagram.control);
                        let body = match &framing {
                            Some(framing) => {
                                let Some(datagram) = framing.unwrap(datagram.data) else { continue };
                                (info.ttl, info.traffic_class) = (datagram.ttl, datagram.traffic_class);
                                datagram.payload
                            }
                            None if ip_header => without_ip_header(datagram.data),
                            None => datagram.data,
                        };
                        let stamp = info.stamp.unwrap_or(Stamp { at: now.wall, source: Source::User });
                        let received = Reception {
                            stamp,
                            read: now.wall,
                            length: body.len(),
                            ttl: info.ttl,
                            traffic_class: info.traffic_class,
                            other_port: false,
                        };
                        pinger.handle(body, &received, now);
                    }
                    if count < BATCH {
                        break;
                    }
                }
                Err(e) if is_refusal(link.carrier, &e) => {
                    refused += 1;
                    answered_before = Some(pinger.requests().answered());
                }
                Err(e) if is_filtered(link.carrier, &e) => prohibited += 1,
                Err(_) => break,
            }
        }
        if let Some(elsewhere) = &elsewhere
            && (any_port || clock::steady() - looked >= SLICE)
        {
            looked = clock::steady();
            read_elsewhere(elsewhere, link.to.ip(), &mut inbox, &mut pinger);
        }
        if stop.load(Ordering::Relaxed) && !interrupted {
            interrupted = true;
            pinger.interrupt(tick());
        }
        pinger.handle_timeout(tick());
        for _ in 0..RUN {
            out.clear();
            let now = tick();
            let Some(what) = pinger.poll_transmit(now, &mut out) else { break };
            let request = match what {
                Transmit::Request(seq) => Some(seq),
                Transmit::Conversation => None,
            };
            // A pending "refused" is reported by the next send, which then sends nothing: try again.
            let bytes = framing.as_mut().map_or(&out[..], |framing| framing.wrap(&out));
            let mut sent = send(&socket, bytes, link.carrier == Carrier::Udp && refused > 0);
            if matches!(&sent, Err(e) if is_refusal(link.carrier, e)) {
                refused += 1;
                answered_before = Some(pinger.requests().answered());
                restart(&mut departures, &mut pinger);
                sent = send(&socket, bytes, link.carrier == Carrier::Udp);
            }
            if matches!(&sent, Err(e) if is_filtered(link.carrier, e)) {
                restart(&mut departures, &mut pinger);
                sent = send(&socket, bytes, false);
                prohibited += u64::from(sent.is_ok());
            }
            match sent {
                Ok(_) if source == Source::User => {}
                Ok(_) => {
                    departures.sent(request, now.wall);
                    stampable += u64::from(request.is_some());
                }
                Err(e) => {
                    unsent += 1;
                    restart(&mut departures, &mut pinger);
                    first_failure.get_or_insert(e);
                }
            }
            pinger.handle_timeout(tick());
        }
        // A stamp that has come already would end the wait at once.
        if departures.awaited() > 0 {
            departures
                .collect(&socket, |request, passage, stamp| stamped(&mut pinger, request, passage, stamp));
        }
        let Some(due) = pinger.poll_timeout() else { break };
        let now = clock::steady();
        feed.send_events(&pinger, now);
        let span = pause(due, now, mode);
        if source == Source::User && span > COARSE && !any_port && receive_within(&socket, span - COARSE) {
            waiting = libc::MSG_WAITFORONE;
        } else {
            queued = wait(&socket, elsewhere.as_ref().filter(|_| any_port), span);
        }
    }
    if let Some(elsewhere) = &elsewhere {
        read_elsewhere(elsewhere, link.to.ip(), &mut inbox, &mut pinger);
    }

    let until = clock::steady() + LAST_STAMPS;
    while departures.awaited() > 0 && clock::steady() < until {
        if departures
            .collect(&socket, |request, passage, stamp| stamped(&mut pinger, request, passage, stamp))
            == 0
        {
            wait(&socket, None, pause(until, clock::steady(), Mode::Sleep));
        }
    }
    if let Some(why) = pinger.failure() {
        return Err(if refused > 0 {
            PingError::Refused(link.to)
        } else {
            PingError::Conversation { to: link.to, why: why.to_owned() }
        });
    }
    if refused > 0 && pinger.requests().answered() == 0 && pinger.protocol().expects_replies() {
        return Err(PingError::Refused(link.to));
    }
    if prohibited > 0 && pinger.requests().answered() == 0 && pinger.protocol().expects_replies() {
        return Err(PingError::Prohibited(link.to));
    }
    if let Some(source) = first_failure.filter(|_| unsent > 0 && unsent >= pinger.requests().sent()) {
        return Err(PingError::Send { to: link.to, source });
    }
    host.sync_after = clock::sync_state();
    host.clock_step = Some(steps.check());
    host.notes.extend(counters.note());
    // The far program ended during the test: no answer has come since its host said so, and one is missing.
    let requests = pinger.requests();
    let gone = answered_before == Some(requests.answered()) && requests.answered() < requests.sent();
    let ending = match (gone, interrupted) {
        (true, _) if pinger.protocol().expects_replies() => Ending::PeerLost,
        (_, true) => Ending::Interrupted,
        _ => Ending::Complete,
    };
    let outcome = pinger.finish_up();
    let dropped = outcome.sent.dropped_in_queue(outcome.records.iter().map(|r| r.seq));
    unsent += dropped;
    let lost = stampable.saturating_sub(outcome.sent.known() as u64 + dropped);
    let stamps_lost = (source != Source::User).then_some(lost);
    Ok(Measured { outcome, local, stamps, host, ending, unsent, stamps_lost, refused, prohibited })
}

/// Reads what `far` sent from other ports than the one that is asked.
fn read_elsewhere<P: Protocol>(socket: &Socket, far: IpAddr, inbox: &mut Inbox, pinger: &mut Pinger<P>) {
    while let Ok(count) = inbox.receive(socket.as_fd(), libc::MSG_DONTWAIT) {
        let now = tick();
        for datagram in inbox.datagrams().filter(|d| d.sender().is_some_and(|from| from.ip() == far)) {
            let info = ReceivedInfo::parse(datagram.control);
            let received = Reception {
                stamp: info.stamp.unwrap_or(Stamp { at: now.wall, source: Source::User }),
                read: now.wall,
                length: datagram.data.len(),
                ttl: info.ttl,
                traffic_class: info.traffic_class,
                other_port: true,
            };
            pinger.handle(datagram.data, &received, now);
        }
        if count < BATCH {
            return;
        }
    }
}

/// Whether the far host says by this error that nothing listens at the port.
fn is_refusal(carrier: Carrier, error: &io::Error) -> bool {
    carrier != Carrier::Icmp && error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether somebody says by this error that a filter or policy does not let requests through. Echo requests have no port
/// that could be closed: "port unreachable" is what firewalls reject them with (the usual answer of netfilter's REJECT).
fn is_filtered(carrier: Carrier, error: &io::Error) -> bool {
    is_prohibition(error) || carrier == Carrier::Icmp && error.kind() == io::ErrorKind::ConnectionRefused
}

/// Sends `bytes`. A host that `refused` may still have a program that reads whole frames (LaTe's raw sockets) and
/// rejects those whose checksum is left to an adapter.
fn send(socket: &Socket, bytes: &[u8], refused: bool) -> io::Result<()> {
    if refused { sys::send_summed(socket, bytes) } else { socket.send(bytes).map(drop) }
}

/// How long to sleep if `due` is next, at most a tenth of a second.
fn pause(due: SteadyTime, now: SteadyTime, mode: Mode) -> Span {
    let wake = match mode {
        Mode::Sleep | Mode::Etf => due,
        Mode::Hybrid => due - SPIN,
        Mode::Spin => now,
    };
    (wake - now).max(Span(0)).min(SLICE)
}

/// Sleeps for `span`, or until a packet, one from another port where these are taken, or a stamp arrives; returns whether the
/// error queue has entries.
fn wait(socket: &impl AsFd, elsewhere: Option<&Socket>, span: Span) -> bool {
    if span.0 == 0 {
        return false;
    }
    let other = elsewhere.map_or_else(|| socket.as_fd(), AsFd::as_fd);
    let mut ready = [socket.as_fd(), other].map(|socket| PollFd::new(socket, PollFlags::POLLIN));
    // A signal, or nothing is ready: the caller checks everything again anyway.
    let watched = if elsewhere.is_some() { &mut ready[..] } else { &mut ready[..1] };
    let _ = ppoll(watched, Some(TimeSpec::new(span.0 / SECOND, span.0 % SECOND)), None);
    ready[0].revents().is_some_and(|r| r.contains(PollFlags::POLLERR))
}

/// Makes the next receiving call itself wait for `span`: one step less between an answer and its stamp than with
/// [`wait`], but with a coarser clock. False if that fails.
fn receive_within(socket: &impl AsFd, span: Span) -> bool {
    let limit = TimeVal::new(span.0 / SECOND, (span.0 % SECOND) / 1000);
    (limit.tv_sec() > 0 || limit.tv_usec() > 0) && setsockopt(socket, sockopt::ReceiveTimeout, &limit).is_ok()
}

fn without_ip_header(packet: &[u8]) -> &[u8] {
    let length = packet.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    packet.get(length..).unwrap_or_default()
}

fn hint(carrier: Carrier, e: &io::Error) -> String {
    match (carrier, e.kind()) {
        (Carrier::Icmp, io::ErrorKind::PermissionDenied) => format!(
            "{e}: let your group use ping sockets (sudo sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"), or \
             this program {}",
            needs(Capability::NetRaw)
        ),
        (_, io::ErrorKind::PermissionDenied) => {
            let wanted = [Capability::NetRaw, Capability::NetBindService];
            format!(
                "{e}: an interface of one's choice takes {}, a port below 1024 {} (this program: {})",
                wanted[0],
                wanted[1],
                how_to_grant(&wanted)
            )
        }
        (_, io::ErrorKind::AddrNotAvailable) => format!("{e}: --bind takes an address of this host"),
        _ => e.to_string(),
    }
}
