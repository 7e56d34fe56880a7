//! The sending thread: waits for a deadline, writes the time into a prepared packet, sends it.

use super::context::Context;
use super::sent_times::SentTimes;
use super::stream_socket;
use crate::clock::{steady, wall};
use crate::pace::Pacer;
use crate::random::{self, Padding};
use crate::stamp::Stamps;
use crate::sys::{self, BATCH};
use jitlat_core::{Span, SteadyTime, TestSpec, WallTime};
use jitlat_proto::jitlat::flow::{FlowReport, SendReport};
use jitlat_proto::jitlat::packet::{HEADER_LEN, Header};
use jitlat_proto::jitlat::stream::{Due, StreamSender};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, IoSlice};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;

/// From the order to start until the first packet is due: the thread is awake and ready by then.
const LEAD: Span = Span::millis(2);
/// Longest random start phase.
const LONGEST_PHASE: Span = Span::millis(100);

/// A random part of a period, so that tests do not fall into step with anything periodic on the path (RFC 3432
/// §4). None where the system has no random numbers: they are wanted for nothing secret here.
fn phase(spec: &TestSpec) -> Span {
    let mut bytes = [0; 8];
    let range = spec.period().0.clamp(1, LONGEST_PHASE.0);
    random::fill(&mut bytes).map_or(Span::ZERO, |()| Span((u64::from_be_bytes(bytes) % range as u64) as i64))
}

/// Transmit stamps are fetched when this many are under way, or when there is this much time.
const STAMPS_UNDER_WAY: u32 = 16;
const IDLE_ENOUGH: Span = Span::micros(30);
/// How long the last stamps are waited for.
const STAMPS_PATIENCE: Span = Span::millis(200);

/// What the thread carries through a stream.
struct Stream<'a> {
    context: &'a Context,
    sender: StreamSender,
    failed: u32,
    ended: bool,
    /// Requests to end that were followed.
    requests: u32,
}

impl<'a> Stream<'a> {
    fn start(context: &'a Context) -> Stream<'a> {
        context.reporter.note(context.settings.pacing.apply());
        let sender = StreamSender::new(&context.opening.spec, steady() + LEAD + phase(&context.opening.spec));
        Stream { context, sender, failed: 0, ended: false, requests: 0 }
    }

    /// Whether there are requests to end that have not been followed.
    fn is_asked(&self) -> bool {
        self.context.stop_flags.requests() != self.requests
    }

    /// Follows them.
    fn follow_requests(&mut self) {
        let stop_flags = &self.context.stop_flags;
        self.requests = stop_flags.requests();
        if stop_flags.is_stopped() {
            self.sender.stop();
        } else if stop_flags.is_cut().is_some() {
            self.sender.cut(steady());
        }
    }

    /// Says, once, that the last data packet has gone.
    fn tell_end(&mut self) {
        if !self.ended && !self.sender.is_streaming() {
            self.ended = true;
            self.context
                .reporter
                .report(FlowReport::Ended(self.context.opening.flow, self.sender.attempted()));
        }
    }

    fn report(self, stamps: Option<jitlat_proto::jitlat::SentStamps>) {
        if !self.context.stop_flags.is_closed() {
            let report = SendReport {
                sent: self.sender.attempted(),
                failed: self.failed + self.sender.failures(),
                stamps,
            };
            self.context.reporter.report(FlowReport::Sent(self.context.opening.flow, report));
        }
    }
}

/// What follows the headers; where the system has no random bytes the flow has failed.
fn padding(context: &Context) -> Option<Padding> {
    let length = usize::from(context.opening.spec.payload());
    Padding::new(length - HEADER_LEN)
        .inspect_err(|e| {
            let reason = format!("reading random bytes for the padding: {e}");
            context.reporter.report(FlowReport::Failed(context.opening.flow, reason));
        })
        .ok()
}

/// Sends a UDP stream to its end.
pub fn udp(context: &Context, socket: &UdpSocket, stamps: Stamps) {
    let mut times = SentTimes::new(stamps, context.opening.spec.packets());
    times.restart(socket);
    let Some(padding) = padding(context) else { return };
    let mut stream = Stream::start(context);
    let pacer = Pacer::new(context.settings.pacing.mode);
    let mut dues = [Due { at: SteadyTime(0), seq: 0 }; BATCH];
    while let Some(due) = stream.sender.due() {
        stream.tell_end();
        let Some(now) = pacer.wait_until(due.at, || stream.is_asked()) else {
            stream.follow_requests();
            continue;
        };
        // Read before anything is looked up or put together: what the packets carry is when the sender awoke.
        let reading = wall();
        // Whatever else is due by now goes in the same call; a sentinel goes alone.
        let mut count = 0;
        while let Some(due) = stream.sender.due().filter(|d| d.at <= now && count < BATCH) {
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
        stream.failed += send_all(context, socket, &dues[..count], reading, padding, &mut times);
        context.counters.set_sent(stream.sender.attempted());
        let idle = stream.sender.due().is_none_or(|next| next.at - steady() > IDLE_ENOUGH);
        if times.awaited() > 0 && (idle || times.awaited() >= STAMPS_UNDER_WAY) {
            times.collect(socket);
        }
    }
    stream.tell_end();
    let until = steady() + STAMPS_PATIENCE;
    while times.awaited() > 0 && steady() < until {
        if times.collect(socket) == 0 {
            let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::empty())], PollTimeout::from(20u16));
        }
    }
    let (known, note) = times.finish();
    context.reporter.note(note);
    stream.report(known);
}

/// Sends the packets of `dues`, the first call's with the given clock reading and those that had to wait
/// with one of their own for each call. Returns how many the system refused.
fn send_all(
    context: &Context,
    socket: &UdpSocket,
    dues: &[Due],
    mut reading: WallTime,
    padding: Padding,
    times: &mut SentTimes,
) -> u32 {
    let mut failed = 0;
    let mut rest = dues;
    while !rest.is_empty() {
        let mut headers = [[0; HEADER_LEN]; BATCH];
        let mut packets = [[IoSlice::new(&[]); 2]; BATCH];
        for (header, due) in headers.iter_mut().zip(rest) {
            *header = Header { sent: reading, seq: due.seq }.to_bytes();
        }
        for ((packet, header), due) in packets.iter_mut().zip(&headers).zip(rest) {
            *packet = [IoSlice::new(header), IoSlice::new(padding.of(due.seq))];
        }
        match sys::send_batch(socket.as_fd(), &packets[..rest.len()]) {
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
                // The host's own queue is full: the wait shows as schedule error.
                let _ =
                    poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(50u16));
            }
            // An answer to an earlier packet, not to this one.
            Err(e)
                if e.kind() == io::ErrorKind::ConnectionRefused || e.kind() == io::ErrorKind::Interrupted => {
            }
            Err(_) => {
                if !rest[0].is_sentinel() {
                    failed += 1;
                    times.restart(socket);
                }
                rest = &rest[1..];
            }
        }
        reading = wall();
    }
    failed
}

/// Sends a TCP stream to its end. A packet is stamped when the connection takes it: a sender that TCP holds
/// up is late, which is schedule error and not delay.
pub fn tcp(context: &Context, connection: &TcpStream) {
    let Some(padding) = padding(context) else { return };
    let mut stream = Stream::start(context);
    let pacer = Pacer::new(context.settings.pacing.mode);
    let _ = connection.set_nonblocking(true);
    while let Some(due) = stream.sender.due() {
        stream.tell_end();
        if pacer.wait_until(due.at, || stream.is_asked()).is_none() {
            stream.follow_requests();
            continue;
        }
        if !stream_socket::writable(connection, PollTimeout::from(50u16)) {
            if stream.is_asked() {
                stream.follow_requests();
            }
            continue;
        }
        let header = Header { sent: wall(), seq: due.seq }.to_bytes();
        if write_record(context, connection, [&header, padding.of(due.seq)]).is_err() {
            // The connection is gone; so is everything that would follow.
            stream.sender.failed(steady());
            stream.sender.cut(steady());
            stream.sender.stop();
            break;
        }
        stream.sender.sent(steady());
        context.counters.set_sent(stream.sender.attempted());
    }
    stream.tell_end();
    stream.report(None);
}

/// Writes a whole record, so that framing survives; gives up only with the connection or when stopped.
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
                stream_socket::writable(connection, PollTimeout::from(50u16));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
