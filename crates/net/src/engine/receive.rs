//! Receiving thread: takes packets in batches and stores a record of each in preallocated memory.

use super::batches::{BatchPacing, BatchReading};
use super::context::Context;
use crate::clock::{steady, wall};
use crate::pace::sleep_until;
use crate::sys::{self, AsFd, Inbox, MAX_BATCH, ReceiveMode};
use jitlat_core::{PacketRecord, Span, Stamp, StampSource, WallTime};
use jitlat_proto::jitlat::Recording;
use jitlat_proto::jitlat::flow::{FlowReport, FlowRole, ReceiveReport, SendReport};
use jitlat_proto::jitlat::framing::Framer;
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::stream::{Finish, Reception, StreamArrival, StreamReceiver};
use std::io::{ErrorKind, Read};
use std::net::{TcpStream, UdpSocket};

/// Number of records for which memory is allocated before the stream starts. Longer streams allocate more.
const RESERVED_RECORDS: usize = 1 << 20;

struct ReceivingStream<'a> {
    context: &'a mut Context,
    receiver: StreamReceiver,
    recording: Recording,
    received: u32,
    highest: u32,
    drops: Option<u32>,
    /// Longest time for which packets were deliberately left in the socket's buffer; `None` if there was no
    /// pause.
    pause: Option<Span>,
    /// Number of end requests handled so far.
    requests: u32,
}

impl<'a> ReceivingStream<'a> {
    fn start(context: &'a mut Context) -> ReceivingStream<'a> {
        context.reporter.note(context.settings.sending.pacing.apply());
        let opening = &context.opening;
        let mut recording = Recording::new(opening.record_limit);
        let packets = opening.spec.packets() as usize;
        // A sixteenth more than the stream's packets, for duplicates.
        recording.reserve((packets + packets / 16).min(RESERVED_RECORDS));
        let receiver = StreamReceiver::new(&opening.spec, opening.timeouts, opening.greetings, steady())
            .limited_to(opening.peak);
        ReceivingStream {
            context,
            receiver,
            recording,
            received: 0,
            highest: 0,
            drops: None,
            pause: None,
            requests: 0,
        }
    }

    #[inline]
    fn keep(&mut self, record: PacketRecord) {
        self.received = self.received.saturating_add(1);
        if let Ok(seq) = u32::try_from(record.seq) {
            // An invalid sequence number must not make the progress exceed the stream.
            let seq = seq.min(self.context.opening.spec.packets().saturating_sub(1));
            self.highest = self.highest.max(seq + 1);
        }
        if let Some(live) = &mut self.context.live {
            live.push(record);
        }
        self.recording.push(record);
    }

    /// Handles end requests and updates the counters. Returns the result of the stream once it has ended.
    fn over(&mut self) -> Option<Finish> {
        self.context.counters.set_received(self.received, self.highest);
        let stop_flags = &self.context.stop_flags;
        let requests = stop_flags.requests();
        if requests != self.requests {
            self.requests = requests;
            if stop_flags.is_stopped() {
                self.receiver.cut(steady(), Span::ZERO);
            } else if let Some(linger) = stop_flags.is_cut() {
                self.receiver.cut(steady(), linger);
            }
        }
        self.receiver.status(steady())
    }

    fn report(self, finish: Finish) {
        let ReceivingStream { context, recording, drops, pause, .. } = self;
        if !context.stop_flags.is_closed() {
            let report = ReceiveReport { recording, finish, drops: drops.map(u64::from), pause };
            context.reporter.report(FlowReport::Received(context.opening.flow, report));
        }
    }
}

/// Receives a UDP stream until it ends.
pub fn udp(context: &mut Context, socket: &UdpSocket) {
    let mut stream = ReceivingStream::start(context);
    // One byte more than the agreed packet length, to detect longer packets.
    let mut inbox =
        Inbox::new(MAX_BATCH, usize::from(stream.context.opening.spec.payload()) + 1).without_senders();
    let buffer = sys::receive_buffer(socket).unwrap_or(0);
    let mut batches = BatchPacing::new(&stream.context.opening.spec, buffer);
    let finish = loop {
        if let Some(finish) = stream.over() {
            break finish;
        }
        // The socket's timeout limits this wait. Errors are ignored, because they concern packets sent
        // earlier, such as the answer to a greeting.
        let Ok(packets) = inbox.receive(socket.as_fd(), ReceiveMode::Wait) else { continue };
        let (read, now) = (wall(), steady());
        let mut stamped = true;
        for datagram in inbox.datagrams() {
            let info = datagram.info();
            stream.drops = info.drops.or(stream.drops);
            stamped &= info.stamp.is_some();
            let how = Reception {
                stamp: info.stamp.unwrap_or(Stamp { at: read, source: StampSource::User }),
                read: info.stamp.is_some().then_some(read),
                steady: now,
                full_len: Some(datagram.length),
                ttl: info.ttl,
                traffic_class: info.traffic_class,
            };
            match stream.receiver.packet(datagram.data, &how) {
                StreamArrival::Packet(record) => stream.keep(record),
                StreamArrival::Hello(token) => drop(socket.send(&PacketHeader::hello(token).to_bytes())),
                StreamArrival::Sentinel | StreamArrival::Noise => {}
            }
        }
        let reading = BatchReading { packets, full: packets == MAX_BATCH, stamped, drops: stream.drops };
        let pause = batches.pause(now, reading);
        if pause > Span::ZERO {
            sleep_until(now + pause);
        }
    };
    stream.pause = batches.longest();
    stream.report(finish);
}

/// Receives a TCP stream until it ends. `head` contains the bytes of the stream that have already been read.
pub fn tcp(context: &mut Context, mut connection: &TcpStream, head: &[u8]) {
    let mut stream = ReceivingStream::start(context);
    let mut framer = Framer::new(stream.context.opening.spec.payload().into());
    let mut buffer = vec![0; 1 << 18];
    let mut take = |stream: &mut ReceivingStream, bytes: &[u8], read: WallTime| {
        let how = Reception::new(Stamp { at: read, source: StampSource::User }, steady());
        framer.push(bytes, |record| {
            if let StreamArrival::Packet(record) = stream.receiver.packet(record, &how) {
                stream.keep(record);
            }
        });
    };
    take(&mut stream, head, wall());
    let finish = loop {
        if let Some(finish) = stream.over() {
            break finish;
        }
        match connection.read(&mut buffer) {
            Ok(0) => {
                stream.receiver.closed(steady());
            }
            Ok(n) => take(&mut stream, &buffer[..n], wall()),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => stream.receiver.closed(steady()),
        }
    };
    stream.report(finish);
}

/// Reports a flow that was stopped before its stream started.
pub fn nothing(context: &Context) {
    match context.opening.role {
        FlowRole::Send => {
            let flow = context.opening.flow;
            context.reporter.report(FlowReport::Sent(flow, SendReport::default()));
        }
        FlowRole::Receive => empty(context, Finish::Cut),
    }
}

/// Reports that no sender has connected.
pub(crate) fn no_sender(context: &Context) {
    empty(context, Finish::NeverStarted);
}

fn empty(context: &Context, finish: Finish) {
    let report = ReceiveReport { recording: Recording::default(), finish, drops: None, pause: None };
    context.reporter.report(FlowReport::Received(context.opening.flow, report));
}
