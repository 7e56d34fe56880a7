//! [`SendingSession`]: sending end of a session, on a separate thread.

use crate::clock::ClockError;
use crate::clock::{steady, tick};
use crate::engine::sent_times::{CollectedStamps, SentTimes};
use crate::pace::{PaceMode, Pacer, Pacing};
use crate::random::Padding;
use crate::stamp::StampMode;
use crate::sys;
use crate::sys::AsFd;
use crate::sys::{PollFd, PollFlags, poll};
use crate::wake::Waker;
use jitlat_core::Span;
use jitlat_proto::amp::Sid;
use jitlat_proto::jitlat::SentStamps;
use jitlat_proto::machine::Tick;
use jitlat_proto::owamp::packet::MAX_LEN;
use jitlat_proto::owamp::{SentSummary, SessionSender};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Minimum time until the next packet for transmit stamps to be fetched, unless [`MAX_STAMPS_AWAITED`] are outstanding.
const MIN_IDLE: Span = Span::micros(30);
const MAX_STAMPS_AWAITED: u32 = 16;
/// Maximum wait for the last stamps.
const MAX_STAMP_DELAY: Span = Span::millis(200);
/// Maximum number of attempts to send a packet, while the system reports an error about an earlier packet or
/// its queue is full.
const MAX_ATTEMPTS: usize = 5;

/// A socket, and the packets that are sent through it.
pub(crate) struct Departing {
    /// Socket, connected to the receiver.
    pub socket: UdpSocket,
    /// State machine that schedules the packets.
    pub sender: SessionSender,
    /// Number of packets to send.
    pub packets: u32,
    /// Number of bytes after the fields of each packet.
    pub padding: u32,
    /// Kind of stamps that the socket provides.
    pub stamps: StampMode,
    /// True if the result contains the stamps of the packets.
    pub keeps_stamps: bool,
    /// Scheduling and waiting method of the thread.
    pub pacing: Pacing,
    /// Called before each packet with its length; returns true if the packet may be sent.
    pub admit: Box<dyn FnMut(usize) -> bool + Send>,
}

/// Result of a sender.
#[derive(Debug)]
pub(crate) struct SenderResult {
    /// Summary for the Stop-Sessions message.
    pub summary: SentSummary,
    /// Numbers of the packets that the system refused, ascending; they are also among the skipped packets of the
    /// summary.
    pub refused: Vec<u32>,
    /// Actual departure times of the packets; `None` without stamps.
    pub stamps: Option<SentStamps>,
    /// Number of packets whose stamp was requested but has not arrived; `None` if no stamps were requested.
    pub stamps_lost: Option<u32>,
    /// Notes about settings that were not possible.
    pub notes: Vec<String>,
}

#[derive(Debug, Default)]
struct SenderFlags {
    stop: AtomicBool,
    complete: AtomicBool,
    sent: AtomicU32,
}

/// A running sender. Its thread ends soon after this value is dropped.
#[derive(Debug)]
pub(crate) struct SendingSession {
    sid: Sid,
    flags: Arc<SenderFlags>,
    thread: Option<JoinHandle<SenderResult>>,
}

impl SendingSession {
    /// Starts the thread, which wakes `waker` once all packets have been sent and have had time to arrive.
    pub fn start(sid: Sid, departing: Departing, waker: Waker) -> io::Result<SendingSession> {
        let flags = Arc::new(SenderFlags::default());
        let shared = flags.clone();
        let run = move || {
            let sent = departing.run(&shared);
            // First the flag, then the waker: the woken thread checks the flag.
            shared.complete.store(true, Ordering::Release);
            waker.wake();
            sent
        };
        let thread = std::thread::Builder::new().name("owamp-sender".to_owned()).spawn(run)?;
        Ok(SendingSession { sid, flags, thread: Some(thread) })
    }

    /// True once all packets have been sent and have had time to arrive.
    pub fn is_complete(&self) -> bool {
        self.flags.complete.load(Ordering::Acquire)
    }

    /// Returns the number of packets sent so far.
    pub fn sent(&self) -> u32 {
        self.flags.sent.load(Ordering::Relaxed)
    }

    /// Stops sending within a tenth of a second.
    pub fn stop(mut self) -> SenderResult {
        self.flags.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        // A thread that panicked has sent an unknown number of packets, so the session has no usable results.
        let nothing = || SenderResult {
            summary: SentSummary { sid: self.sid, next_seq: 0, skips: Vec::new() },
            refused: Vec::new(),
            stamps: None,
            stamps_lost: None,
            notes: vec!["the sending thread failed".to_owned()],
        };
        ended.and_then(Result::ok).unwrap_or_else(nothing)
    }
}

impl Drop for SendingSession {
    fn drop(&mut self) {
        self.flags.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Departing {
    fn run(mut self, flags: &SenderFlags) -> SenderResult {
        let mut notes = self.pacing.apply();
        // The packets have random send times. Without a fixed rate, spinning is never chosen automatically.
        let (mode, note) = self.pacing.mode_at(Span(i64::MAX));
        notes.extend(note);
        let mut times = if self.keeps_stamps {
            SentTimes::new(self.stamps, self.packets).with_lead()
        } else {
            SentTimes::for_lead_alone(self.stamps)
        };
        times.restart(&self.socket);
        let stopped = || flags.stop.load(Ordering::Acquire);
        let mut refused = Vec::new();
        match Padding::new(self.padding as usize) {
            Ok(padding) => refused = self.send(mode, padding, &mut times, flags),
            Err(e) => notes.push(format!("cannot read random bytes for the padding: {e}")),
        }
        let until = steady() + if self.keeps_stamps { MAX_STAMP_DELAY } else { Span::ZERO };
        while times.awaited() > 0 && steady() < until && !stopped() {
            if times.collect(&self.socket) == 0 {
                let _ =
                    poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::empty())], Some(Span::millis(20)));
            }
        }
        let CollectedStamps { stamps, lost, note } = times.finish();
        notes.extend(note);
        SenderResult {
            summary: self.sender.stop(),
            refused,
            stamps,
            stamps_lost: lost.filter(|_| self.keeps_stamps),
            notes,
        }
    }

    /// Sends the packets; returns the numbers of those that the system refused.
    fn send(
        &mut self,
        mode: PaceMode,
        padding: Padding,
        times: &mut SentTimes,
        flags: &SenderFlags,
    ) -> Vec<u32> {
        let mut refused = Vec::new();
        let pacer = Pacer::new(mode);
        let stopped = || flags.stop.load(Ordering::Acquire);
        let mut error = ClockError::read();
        let mut packet = [0; MAX_LEN];
        let to = self.socket.peer_addr().map_or(IpAddr::from([127, 0, 0, 1]), |to| to.ip());
        while let Some(due) = self.sender.poll_timeout() {
            if pacer.wait_until(due, stopped).is_none() {
                break;
            }
            loop {
                // The clock is read last, so that leaving takes every packet about the same time.
                let estimate = error.at(due);
                let now = tick();
                let leaves = Tick { wall: now.wall + times.lead(to), ..now };
                let Some(departure) = self.sender.poll_transmit(leaves, estimate, &mut packet) else { break };
                let parts =
                    [IoSlice::new(&packet[..departure.len]), IoSlice::new(padding.of(departure.seq as i32))];
                let admitted = (self.admit)(departure.len + self.padding as usize);
                if admitted && offer(&self.socket, parts) {
                    times.sent(departure.seq, now.wall);
                } else {
                    self.sender.not_sent(departure.seq);
                    refused.push(departure.seq);
                    if admitted {
                        times.restart(&self.socket);
                    }
                }
                flags.sent.store(self.sender.sent(), Ordering::Relaxed);
                if stopped() {
                    return refused;
                }
            }
            if self.sender.is_complete(steady()) {
                break;
            }
            let idle = self.sender.poll_timeout().is_none_or(|next| next - steady() > MIN_IDLE);
            if times.awaited() > 0 && (idle || times.awaited() >= MAX_STAMPS_AWAITED) {
                times.collect(&self.socket);
            }
        }
        refused
    }
}

/// Passes a packet to the system; returns true if the system accepts it. The packet contains the current
/// time, so this function must not wait for long.
fn offer(socket: &UdpSocket, parts: [IoSlice<'_>; 2]) -> bool {
    for _ in 0..MAX_ATTEMPTS {
        match sys::send_batch(socket.as_fd(), &[parts]) {
            Ok(sent) => return sent == 1,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)], Some(Span::millis(10)));
            }
            // The error concerns an earlier packet.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
            Err(e) if crate::sockets::is_mtu_report(&e) => {}
            Err(_) => return false,
        }
    }
    false
}
