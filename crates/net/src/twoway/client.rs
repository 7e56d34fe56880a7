//! Runs one two-way test over datagrams.

use crate::clock::{self, tick};
use crate::cmsg::ReceivedInfo;
use crate::departures::{Departures, UNDER_WAY};
use crate::pace::{Mode, Pacing};
use crate::privilege::{Capability, how_to_grant, needs};
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
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// How the far host is reached and this host is run.
#[derive(Clone, Debug)]
pub struct Link {
    /// The far host; the port means nothing to ICMP.
    pub to: SocketAddr,
    /// What carries the test.
    pub carrier: Carrier,
    /// Addresses and marks.
    pub marking: Marking,
    /// Stamps wanted.
    pub stamps: Stamps,
    /// How the thread waits.
    pub pacing: Pacing,
    /// Where the course of the test is handed to, if anyone listens. What the listener has no room for it finds in
    /// the result; one that looks now and then costs less than one that waits and has to be woken.
    pub live: Option<SyncSender<PingEvent>>,
}

/// What a listener is handed while a test runs.
#[derive(Clone, Copy, Debug)]
pub enum PingEvent {
    /// An answer, with what is known of it by now.
    Answer(PacketRecord),
    /// How far the test is, a few times a second.
    Progress(Progress),
}

/// Hands the course of a test to a listener, each piece once.
pub(crate) struct ProgressFeed<'a> {
    to: Option<&'a SyncSender<PingEvent>>,
    answers: usize,
    progress: SteadyTime,
}

impl<'a> ProgressFeed<'a> {
    pub(crate) fn new(link: &'a Link) -> ProgressFeed<'a> {
        ProgressFeed { to: link.live.as_ref(), answers: 0, progress: SteadyTime(i64::MIN) }
    }

    /// Hands over what is new. Never waits: a listener that is behind hears the rest later.
    pub(crate) fn send_news<P: Protocol>(&mut self, pinger: &Pinger<P>, now: SteadyTime) {
        let Some(to) = self.to else { return };
        let answers = pinger.answers_since(self.answers).take(RUN);
        self.answers += answers.take_while(|r| to.try_send(PingEvent::Answer(*r)).is_ok()).count();
        if now - self.progress >= PROGRESS {
            self.progress = now;
            let requests = pinger.requests();
            let progress = Progress { sent: requests.sent(), answered: requests.answered() };
            // A listener without room hears of the next.
            let _ = to.try_send(PingEvent::Progress(progress));
        }
    }
}

/// Why a test could not be run.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The socket.
    #[error("opening a socket to {to}: {hint}")]
    Socket {
        /// The far host.
        to: SocketAddr,
        /// The reason, and what to try.
        hint: String,
    },
    /// Sending never worked.
    #[error("sending to {to}: {source}")]
    Send {
        /// The far host.
        to: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("{to}: {why}")]
    Conversation {
        /// The far host.
        to: SocketAddr,
        /// The reason, and what to try.
        why: String,
    },
    /// Nobody listens there.
    #[error(
        "{0} refuses: nothing listens on that port there; is the reflector running, and is the port right?"
    )]
    Refused(SocketAddr),
}

/// What a test found.
pub struct Measured<P> {
    /// Records, requests, oddities.
    pub outcome: Outcome<P>,
    /// This host's address and port.
    pub local: SocketAddr,
    /// Stamps that were expected.
    pub stamps: Stamps,
    /// This host.
    pub host: HostFacts,
    /// How it ended.
    pub ending: Ending,
    /// Requests that could not be sent.
    pub unsent: u64,
    /// "Nothing listens there" messages received.
    pub refused: u64,
}

/// How far a test is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
}

/// The longest sleep, so that a stop is noticed soon.
const SLICE: Span = Span::millis(100);
/// How long before the due time [`Mode::Hybrid`] stops sleeping.
const SPIN: Span = Span::micros(60);
/// By how much the kernel may overrun a socket's timeout: it counts them in ticks, a hundred a second at least.
const COARSE: Span = Span::millis(12);
/// Requests sent in a row before answers are looked at again.
const RUN: usize = 32;
/// Between two tellings of the progress.
const PROGRESS: Span = Span::millis(250);
/// For the last transmit stamps.
const LAST_STAMPS: Span = Span::millis(20);
/// Extra room for answers that are longer than the requests.
const SLACK: usize = 2048;

/// Runs `protocol` against `link` as `plan` says, until it is over or `stop` is set; then answers on
/// their way are still waited for. `make` is given whether the kernel chooses the ICMP identifier.
pub fn run<P: Protocol>(
    make: impl FnOnce(bool) -> P,
    plan: Plan,
    link: &Link,
    stop: &AtomicBool,
) -> Result<Measured<P>, PingError> {
    run_on(prepare(link, plan.spec.payload().into())?, make, plan, link, stop)
}

/// Opens the socket of a test of requests with `payload` bytes. What the far host has to be told of it beforehand (its port) can be
/// found out before [`run_on`].
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
    let Prepared { socket, stamps, notes, kernel_id, ip_header, mut framing, local } = prepared;
    let mut host = clock::host_facts();
    host.notes = link.pacing.apply();
    host.notes.extend(notes);
    let mut steps = clock::StepWatch::start();

    let source = match stamps {
        Stamps::User | Stamps::KernelReceive => Source::User,
        Stamps::Kernel => Source::Kernel,
        Stamps::Hardware => Source::Hardware,
    };
    let slot = usize::from(plan.spec.payload()) + SLACK;
    let mut inbox = Inbox::new(BATCH, slot.min(1 << 16));
    let mut departures = Departures::new(UNDER_WAY, source);
    // An adapter's stamps come beside the kernel's; records have one source.
    let stamped = |pinger: &mut Pinger<P>, request: Option<u32>, stamp: Stamp| {
        if let Some(seq) = request.filter(|_| stamp.source == source) {
            pinger.stamped(seq, stamp.at);
        }
    };
    let mut pinger = Pinger::new(make(kernel_id), plan, source);
    let mut out = Vec::with_capacity(slot);
    let (mut unsent, mut refused, mut interrupted) = (0u64, 0u64, false);
    let mut first_failure = None;
    let mut feed = ProgressFeed::new(link);
    let mut waiting = libc::MSG_DONTWAIT;
    // Whether the error queue holds something.
    let mut queued = false;
    // After a failed send nobody knows whether the kernel had numbered the packet.
    let restart = |departures: &mut Departures<Option<u32>>, pinger: &mut Pinger<P>| {
        if source == Source::User {
            return;
        }
        // Where it fails no stamps come, and none are awaited for long.
        let _ = departures.restart(&socket, flags(stamps, Ways::BOTH), |request, stamp| {
            if let Some(stamp) = stamp {
                stamped(pinger, request, stamp);
            }
        });
    };

    loop {
        // Also where none is awaited: what lies in the queue would end every wait at once.
        if departures.awaited() > 0 || std::mem::take(&mut queued) {
            while departures.collect(&socket, |request, stamp| stamped(&mut pinger, request, stamp)) == BATCH
            {
            }
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
                                let Some(carried) = framing.unwrap(datagram.data) else { continue };
                                info.ttl = Some(carried.ttl);
                                info.traffic_class = Some(carried.traffic_class);
                                carried.payload
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
                        };
                        pinger.handle(body, &received, now);
                    }
                    if count < BATCH {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => refused += 1,
                Err(_) => break,
            }
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
            // A pending "refused" is told by the next send, which then sends nothing: once more.
            let bytes = framing.as_mut().map_or(&out[..], |framing| framing.wrap(&out));
            let mut sent = send(&socket, bytes, link.carrier == Carrier::Udp && refused > 0);
            if matches!(&sent, Err(e) if e.kind() == io::ErrorKind::ConnectionRefused) {
                refused += 1;
                restart(&mut departures, &mut pinger);
                sent = send(&socket, bytes, link.carrier == Carrier::Udp);
            }
            match sent {
                Ok(_) if source == Source::User => {}
                Ok(_) => departures.sent(request, now.wall),
                Err(e) => {
                    unsent += 1;
                    restart(&mut departures, &mut pinger);
                    first_failure.get_or_insert(e);
                }
            }
            pinger.handle_timeout(tick());
        }
        let Some(due) = pinger.poll_timeout() else { break };
        let now = clock::steady();
        feed.send_news(&pinger, now);
        let span = pause(due, now, link.pacing.mode);
        if source == Source::User && span > COARSE && receive_within(&socket, span - COARSE) {
            waiting = libc::MSG_WAITFORONE;
        } else {
            queued = wait(&socket, span);
        }
    }

    let until = clock::steady() + LAST_STAMPS;
    while departures.awaited() > 0 && clock::steady() < until {
        if departures.collect(&socket, |request, stamp| stamped(&mut pinger, request, stamp)) == 0 {
            wait(&socket, pause(until, clock::steady(), Mode::Sleep));
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
    if let Some(source) = first_failure.filter(|_| unsent > 0 && unsent >= pinger.requests().sent()) {
        return Err(PingError::Send { to: link.to, source });
    }
    host.sync_after = clock::sync_state();
    host.clock_step = Some(steps.look());
    let ending = if interrupted { Ending::Interrupted } else { Ending::Complete };
    Ok(Measured { outcome: pinger.finish_up(), local, stamps, host, ending, unsent, refused })
}

/// Sends `bytes`. A host that `refused` may yet have a listener, which reads whole frames beside its kernel (LaTe's
/// raw sockets) and takes none with a checksum left to an adapter.
fn send(socket: &Socket, bytes: &[u8], refused: bool) -> io::Result<()> {
    if refused { sys::send_summed(socket, bytes) } else { socket.send(bytes).map(drop) }
}

/// How long may be slept where `due` is next, a tenth of a second at most.
fn pause(due: SteadyTime, now: SteadyTime, mode: Mode) -> Span {
    let wake = match mode {
        Mode::Sleep => due,
        Mode::Hybrid => due - SPIN,
        Mode::Spin => now,
    };
    (wake - now).max(Span(0)).min(SLICE)
}

/// Sleeps for `span`, or until something arrives or a stamp comes back; says whether the error queue holds something.
fn wait(socket: &impl AsFd, span: Span) -> bool {
    if span.0 == 0 {
        return false;
    }
    let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    // A signal or nothing ready: the caller looks at everything again anyway.
    let _ = ppoll(&mut ready, Some(TimeSpec::new(span.0 / SECOND, span.0 % SECOND)), None);
    ready[0].revents().is_some_and(|r| r.contains(PollFlags::POLLERR))
}

/// Lets the next receiving call itself wait for `span`: a step less between an answer and its stamp than [`wait`],
/// by a coarser clock. False if it will not.
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
        _ => e.to_string(),
    }
}
