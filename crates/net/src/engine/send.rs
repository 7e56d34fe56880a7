//! Sending thread: waits for the due time of each packet, writes the time into a prepared packet, and sends
//! it.

use super::context::Context;
use super::hand_over::HandOver;
use super::sent_times::{CollectedStamps, SentTimes};
use super::stream_socket;
use super::tcp_moments::TcpMoments;
use crate::clock::{steady, tick, wall};
use crate::launch::Launch;
use crate::pace::{PaceMode, Pacer, late_start_note};
use crate::random::{self, Padding};
use crate::sockets;
use crate::stamp::StampMode;
use crate::sys::AsFd;
use crate::sys::MAX_BATCH;
use crate::sys::{PollFd, PollFlags, poll};
use jitlat_core::tcp::TcpMoment;
use jitlat_core::{Span, SteadyTime, TestSpec, WallTime};
use jitlat_proto::jitlat::flow::{FlowReport, SendReport};
use jitlat_proto::jitlat::packet::{HEADER_LEN, PacketHeader};
use jitlat_proto::jitlat::stream::{ScheduledPacket, StreamSender};
use std::io::{self, IoSlice};
use std::net::{TcpStream, UdpSocket};

/// Time from the start command to the first packet: long enough for the thread to be awake and ready.
const START_DELAY: Span = Span::millis(2);
/// Maximum random offset of the start.
const MAX_PHASE: Span = Span::millis(100);

/// Returns a random part of the period, so that tests do not synchronise with periodic events on the path
/// (RFC 3432 §4). Zero if the system provides no random numbers, which is harmless here.
fn phase(spec: &TestSpec) -> Span {
    let mut bytes = [0; 8];
    let range = spec.period().0.clamp(1, MAX_PHASE.0);
    random::fill(&mut bytes).map_or(Span::ZERO, |()| Span((u64::from_be_bytes(bytes) % range as u64) as i64))
}

/// Maximum number of outstanding transmit stamps before the thread fetches stamps even if that delays packets. With
/// fewer, the thread fetches stamps only if there is time for a system call. Each packet has two entries, and one call
/// reads at most 32 entries.
const MAX_STAMPS_AWAITED: u32 = 16;
/// Minimum time until the next packet for stamps to be fetched without delaying that packet.
const MIN_IDLE: Span = Span::micros(500);
/// Maximum wait for the last stamps.
const MAX_STAMP_DELAY: Span = Span::millis(200);

/// State of the sending thread during a stream.
struct SendingStream<'a> {
    context: &'a Context,
    sender: StreamSender,
    failed: u32,
    ended: bool,
    /// Number of end requests handled so far.
    requests: u32,
}

impl<'a> SendingStream<'a> {
    /// Prepares the stream; also returns the method of waiting until its packets are due.
    fn start(context: &'a Context, launch: Option<Launch>) -> (SendingStream<'a>, PaceMode) {
        let (pacing, spec) = (&context.settings.sending.pacing, &context.opening.spec);
        context.reporter.note(pacing.apply());
        let (mode, chosen) = match launch {
            Some(_) => (PaceMode::Etf, None),
            None => pacing.mode_at(spec.period()),
        };
        context.reporter.note(chosen);
        let advance = launch.map_or(Span::ZERO, |launch| launch.advance);
        let soon = steady() + START_DELAY + advance;
        let begin = match context.settings.sending.start {
            None => soon + phase(spec),
            Some(start) => {
                let now = tick();
                let asked = now.steady + (start - now.wall);
                if asked < soon {
                    context.reporter.note([late_start_note(soon - asked)]);
                }
                asked.max(soon)
            }
        };
        let sender = StreamSender::new(spec, begin);
        (SendingStream { context, sender, failed: 0, ended: false, requests: 0 }, mode)
    }

    /// True if an end request has not been handled yet.
    fn is_asked(&self) -> bool {
        self.context.stop_flags.requests() != self.requests
    }

    /// Handles end requests.
    fn follow_requests(&mut self) {
        let stop_flags = &self.context.stop_flags;
        self.requests = stop_flags.requests();
        if stop_flags.is_stopped() {
            self.sender.stop();
        } else if stop_flags.is_cut().is_some() {
            self.sender.cut(steady());
        }
    }

    /// Reports, once, that the last data packet was sent.
    fn report_end(&mut self) {
        if !self.ended && !self.sender.is_streaming() {
            self.ended = true;
            self.context
                .reporter
                .report(FlowReport::Ended(self.context.opening.flow, self.sender.attempted()));
        }
    }

    fn report(
        self,
        stamps: Option<jitlat_proto::jitlat::SentStamps>,
        stamps_lost: Option<u32>,
        path_mtu: Option<u32>,
        tcp: Vec<TcpMoment>,
    ) {
        if !self.context.stop_flags.is_closed() {
            let report = SendReport {
                sent: self.sender.attempted(),
                failed: self.failed + self.sender.failures(),
                stamps,
                stamps_lost,
                path_mtu,
                tcp,
            };
            self.context.reporter.report(FlowReport::Sent(self.context.opening.flow, report));
        }
    }
}

/// Prepares the bytes after the headers. If the system has no random bytes, the flow fails and `None` is
/// returned.
fn padding(context: &Context) -> Option<Padding> {
    let length = usize::from(context.opening.spec.payload());
    Padding::new(length - HEADER_LEN)
        .inspect_err(|e| {
            let reason = format!("cannot read random bytes for the padding: {e}");
            context.reporter.report(FlowReport::Failed(context.opening.flow, reason));
        })
        .ok()
}

/// Sends a UDP stream until it ends, with launch times if `launch` is set.
pub fn udp(context: &Context, socket: &UdpSocket, stamps: StampMode, launch: Option<Launch>) {
    let mut times = SentTimes::new(stamps, context.opening.spec.packets());
    times.restart(socket);
    // Greetings were sent without marks; the packets that follow have them.
    context.reporter.note(context.marker().begin(socket).err().map(|e| e.to_string()));
    let Some(padding) = padding(context) else { return };
    let (mut stream, mode) = SendingStream::start(context, launch);
    let pacer = Pacer::new(mode);
    let mut hand_over = match launch {
        Some(launch) => HandOver::launching(socket, launch),
        // Kernel stamps would refer to the whole buffer instead of each packet.
        None if context.settings.sending.segmented && stamps == StampMode::User => {
            HandOver::segmented(socket, context.opening.spec.payload())
        }
        None => HandOver::one_by_one(socket),
    };
    let advance = hand_over.advance();
    let mut dues = [ScheduledPacket { at: SteadyTime(0), seq: 0 }; MAX_BATCH];
    while let Some(due) = stream.sender.due() {
        stream.report_end();
        let Some(now) = pacer.wait_until(due.at - advance, || stream.is_asked()) else {
            stream.follow_requests();
            continue;
        };
        // Read the clock before any other work, because packets carry the time at which the sender woke up.
        let reading = wall();
        // All other packets that are due are sent with the same call, except sentinels, which are sent
        // separately.
        let mut count = 0;
        while let Some(due) = stream.sender.due().filter(|d| d.at - advance <= now && count < MAX_BATCH) {
            if due.is_sentinel() && count > 0 {
                break;
            }
            dues[count] = due;
            count += 1;
            stream.sender.sent(now);
            if due.is_sentinel() {
                break;
            }
        }
        stream.failed +=
            send_all(context, socket, &mut hand_over, &dues[..count], reading, padding, &mut times);
        context.counters.set_sent(stream.sender.attempted());
        let idle = stream.sender.due().is_none_or(|next| next.at - steady() > MIN_IDLE);
        if times.awaited() > 0 && (idle || times.awaited() >= MAX_STAMPS_AWAITED) {
            // Two batches, because the packets of one call can cause two entries each.
            for _ in 0..2 {
                if times.collect(socket) < MAX_BATCH {
                    break;
                }
            }
        }
    }
    stream.report_end();
    let until = steady() + MAX_STAMP_DELAY;
    while times.awaited() > 0 && steady() < until {
        if times.collect(socket) == 0 {
            // Without requested events, poll returns only for the error queue, in which the stamps arrive.
            let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::empty())], Some(Span::millis(20)));
        }
    }
    if hand_over.is_launching() {
        while times.collect(socket) > 0 {}
        // Packets that missed their launch time never left this host, so they must not count as lost on the
        // path.
        stream.failed += times.missed();
    }
    let CollectedStamps { stamps, lost, note } = times.finish();
    context.reporter.note(note);
    let v6 = socket.peer_addr().is_ok_and(|peer| peer.is_ipv6());
    let length = u32::from(context.opening.spec.payload()) + 8;
    stream.report(stamps, lost, sockets::exceeded_mtu(socket, v6, length), Vec::new());
}

/// Sends the packets in `dues`. The packets of the first system call contain the clock reading of the caller; each
/// further call uses a new reading. Returns the number of packets that the system rejected.
fn send_all(
    context: &Context,
    socket: &UdpSocket,
    hand_over: &mut HandOver<'_>,
    dues: &[ScheduledPacket],
    mut reading: WallTime,
    padding: Padding,
    times: &mut SentTimes,
) -> u32 {
    let mut failed = 0;
    let mut rest = dues;
    let mut is_mtu_known = false;
    while !rest.is_empty() {
        let mut headers = [[0; HEADER_LEN]; MAX_BATCH];
        let mut packets = [[IoSlice::new(&[]); 2]; MAX_BATCH];
        let now = hand_over.is_launching().then(tick);
        for (header, due) in headers.iter_mut().zip(rest) {
            // A packet with a launch time contains the time at which it will leave.
            let sent = now.map_or(reading, |now| now.wall + (due.at - now.steady));
            *header = PacketHeader { sent, seq: due.seq }.to_bytes();
        }
        for ((packet, header), due) in packets.iter_mut().zip(&headers).zip(rest) {
            *packet = [IoSlice::new(header), IoSlice::new(padding.of(due.seq))];
        }
        // The mark is set on the socket. If packets have different marks, each is therefore sent by its own call.
        let marker = context.marker();
        let together = if marker.is_per_packet() { 1 } else { rest.len() };
        match u64::try_from(rest[0].seq) {
            Ok(seq) => marker.before(socket, seq),
            // A sentinel is sent as Not-ECT. A failure would have occurred before the stream.
            Err(_) => drop(marker.plain(socket)),
        }
        match hand_over.send(&packets[..together], rest[0].at) {
            Ok(sent) => {
                for due in &rest[..sent.min(rest.len())] {
                    if !due.is_sentinel() {
                        times.sent(due.seq as u32, reading);
                    }
                }
                rest = &rest[sent.min(rest.len())..];
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if context.stop_flags.is_stopped() {
                    return failed + rest.iter().filter(|due| !due.is_sentinel()).count() as u32;
                }
                // The queue of this host is full; the resulting delay counts as schedule error.
                let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], Some(Span::millis(50)));
            }
            // The error concerns an earlier packet.
            Err(e)
                if e.kind() == io::ErrorKind::ConnectionRefused || e.kind() == io::ErrorKind::Interrupted => {
            }
            Err(e) if sockets::is_mtu_report(&e) && !is_mtu_known => is_mtu_known = true,
            Err(_) => {
                if !rest[0].is_sentinel() {
                    failed += 1;
                    times.restart(socket);
                }
                rest = &rest[1..];
            }
        }
        // The packets of the next call leave later, so they get a new reading.
        reading = wall();
    }
    failed
}

/// Sends a TCP stream until it ends. A packet is stamped when the connection accepts it: if TCP delays the
/// sender, that counts as schedule error, not as delay.
pub fn tcp(context: &Context, connection: &TcpStream) {
    let Some(padding) = padding(context) else { return };
    let (mut stream, mode) = SendingStream::start(context, None);
    let pacer = Pacer::new(mode);
    let _ = connection.set_nonblocking(true);
    let mut moments = TcpMoments::start();
    while let Some(due) = stream.sender.due() {
        stream.report_end();
        if pacer.wait_until(due.at, || stream.is_asked()).is_none() {
            stream.follow_requests();
            continue;
        }
        // Waits before the clock is read, because a packet is stamped when the connection accepts it.
        if !stream_socket::writable(connection, Span::millis(50)) {
            moments.look(connection);
            if stream.is_asked() {
                stream.follow_requests();
            }
            continue;
        }
        let header = PacketHeader { sent: wall(), seq: due.seq }.to_bytes();
        if write_record(context, connection, [&header, padding.of(due.seq)]).is_err() {
            // The connection is lost, so all later packets fail as well.
            stream.sender.failed(steady());
            stream.sender.cut(steady());
            stream.sender.stop();
            break;
        }
        let now = steady();
        if stream.sender.attempted() == 0 {
            moments.begin(now);
        }
        stream.sender.sent(now);
        moments.look(connection);
        context.counters.set_sent(stream.sender.attempted());
    }
    stream.report_end();
    stream.report(None, None, None, moments.finish(connection));
}

/// Writes a whole record, so that the framing stays intact. Gives up only if the connection is lost or a stop
/// is requested.
fn write_record(context: &Context, connection: &TcpStream, parts: [&[u8]; 2]) -> io::Result<()> {
    let length = parts[0].len() + parts[1].len();
    let mut done = 0;
    while done < length {
        match stream_socket::write_some(connection, parts, done) {
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if context.stop_flags.is_stopped() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                stream_socket::writable(connection, Span::millis(50));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
