#![no_main]
// Aims at: crates/proto/src/jitlat/stream crates/proto/src/jitlat/packet.rs crates/proto/src/jitlat/recording.rs

use jitlat_core::{Direction, Schedule, Span, Stamp, StampSource, SteadyTime, TestSpec, Transport, WallTime};
use jitlat_fuzz::pieces;
use jitlat_proto::jitlat::framing::Framer;
use jitlat_proto::jitlat::packet::PacketHeader;
use jitlat_proto::jitlat::recording::SentStamps;
use jitlat_proto::jitlat::stream::{
    ReceiverTimeouts, Reception, StreamArrival, StreamReceiver, StreamSender,
};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    packets: u16,
    payload: u16,
    period: u32,
    burst: u8,
    greetings: bool,
    steps: Vec<(u32, i64)>,
    sizes: Vec<u8>,
    bytes: Vec<u8>,
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let schedule = match input.burst {
        0 => Schedule::Periodic,
        1 => Schedule::Poisson { seed: 1 },
        size => Schedule::Burst { size: size.into() },
    };
    let (packets, payload) = (u64::from(input.packets).max(1), u64::from(input.payload % 64) + 12);
    let period = Span(i64::from(input.period).max(1));
    let Ok(spec) = TestSpec::new(Direction::Up, Transport::Udp, packets, payload, period, schedule) else {
        return;
    };

    let mut receiver =
        StreamReceiver::new(&spec, ReceiverTimeouts::of(&spec), input.greetings, SteadyTime(0));
    let mut framer = Framer::new(payload as usize);
    let mut steady = SteadyTime(0);
    let mut steps = input.steps.iter();
    let mut stamps = SentStamps::new(StampSource::Kernel);
    let mut records = 0;
    for piece in pieces(&input.bytes, &input.sizes) {
        let (wait, wall) = steps.next().copied().unwrap_or((1, 0));
        steady = steady + Span(wait.into());
        framer.push(piece, |record| {
            assert_eq!(record.len() as u64, payload);
            let how = Reception::new(Stamp { at: WallTime(wall), source: StampSource::User }, steady);
            if let StreamArrival::Packet(mut record) = receiver.packet(record, &how) {
                records += 1;
                if let Ok(seq @ 0..100_000) = u32::try_from(record.seq) {
                    stamps.set(seq, WallTime(wall));
                }
                stamps.join(&mut record);
            }
        });
        assert!(receiver.status(receiver.deadline()).is_some());
    }
    assert_eq!(framer.pending(), input.bytes.len() % payload as usize);
    assert_eq!(receiver.received(), records);
    if let Some(header) = PacketHeader::parse(&input.bytes) {
        assert_eq!(header.to_bytes(), input.bytes[..12]);
    }

    let mut sender = StreamSender::new(&spec, SteadyTime(0));
    let mut now = SteadyTime(0);
    for (wait, cut) in &input.steps {
        let Some(due) = sender.due() else { break };
        now = SteadyTime(now.0.max(due.at.0)) + Span((*wait).into());
        if *cut == 7 {
            sender.cut(now);
        }
        sender.sent(now);
    }
    assert!(u64::from(sender.attempted()) <= packets);
});
