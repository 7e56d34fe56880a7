#![no_main]
// Aims at: crates/net/src/cmsg.rs

use jitlat_net::cmsg::{ControlBuffer, ControlMessages, LocalAddress, ReceivedInfo, transmit_stamp};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    messages: Vec<Message>,
    raw: Vec<u8>,
    cut: u16,
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Message {
    V4([u8; 4]),
    V6([u8; 16], u32),
    TrafficClass(u8),
    HopLimit(u8),
    Drops(u32),
    Stamp([i64; 6]),
    Departure(u32),
    Other(i32, i32, Vec<u8>),
}

type Buffer = ControlBuffer<256>;

fn write(message: &Message, control: &mut Buffer) {
    match message {
        Message::V4(address) => LocalAddress::V4(*address, 0).write(control, false),
        Message::V6(address, interface) => LocalAddress::V6(*address, *interface).write(control, false),
        Message::TrafficClass(class) => {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &i32::from(*class).to_ne_bytes());
        }
        Message::HopLimit(hops) => {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &i32::from(*hops).to_ne_bytes());
        }
        Message::Drops(drops) => control.push(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &drops.to_ne_bytes()),
        Message::Stamp(times) => {
            let bytes: Vec<u8> = times.iter().flat_map(|t| t.to_ne_bytes()).collect();
            control.push(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &bytes);
        }
        Message::Departure(number) => {
            let mut error = [0; 16];
            error[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
            error[12..].copy_from_slice(&number.to_ne_bytes());
            control.push(libc::IPPROTO_IP, libc::IP_RECVERR, &error);
        }
        Message::Other(level, kind, data) => control.push(*level, *kind, data),
    }
}

fn read(control: &[u8]) -> Vec<(i32, i32, &[u8])> {
    let within = control.as_ptr_range();
    let messages: Vec<_> = ControlMessages(control).map(|m| (m.level, m.kind, m.data)).collect();
    for (_, _, data) in &messages {
        let data = data.as_ptr_range();
        assert!(within.start <= data.start && data.end <= within.end, "bytes from elsewhere");
    }
    assert!(messages.iter().map(|m| 16 + m.2.len()).sum::<usize>() <= control.len());
    messages
}

// Arbitrary bytes are read within their bounds. Written messages are read back unchanged, a message that does not fit
// changes nothing, and of truncated messages those before the cut are read.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let (mut control, mut expected) = (Buffer::EMPTY, ReceivedInfo::default());
    for message in &input.messages {
        let before = control.as_bytes().to_vec();
        let had = read(&before).len();
        write(message, &mut control);
        let messages = read(control.as_bytes());
        assert!(control.as_bytes().starts_with(&before));
        if messages.len() == had {
            assert_eq!(control.as_bytes(), before, "half a message");
            continue;
        }
        match message {
            Message::V4(address) => {
                expected.local = Some(LocalAddress::V4(*address, 0));
                // In a header for sending, the destination is empty.
                expected.broadcast = *address != [0; 4];
            }
            Message::V6(address, interface) => {
                expected.local = Some(LocalAddress::V6(*address, *interface));
                expected.broadcast = address[0] == 0xff;
            }
            Message::TrafficClass(class) => expected.traffic_class = Some(*class),
            Message::HopLimit(hops) => expected.ttl = Some(*hops),
            Message::Drops(drops) => expected.drops = Some(*drops),
            Message::Departure(number) => {
                let of = transmit_stamp(control.as_bytes());
                assert!(of.is_none_or(|read| read.number == *number));
            }
            Message::Stamp(_) => expected.stamp = ReceivedInfo::parse(control.as_bytes()).stamp,
            Message::Other(level, kind, data) => {
                let last = messages.last().expect("a message");
                assert_eq!(*last, (*level, *kind, &data[..]));
            }
        }
    }
    if !input.messages.iter().any(|m| matches!(m, Message::Other(..))) {
        assert_eq!(ReceivedInfo::parse(control.as_bytes()), expected);
    }
    for bytes in [control.as_bytes(), &input.raw] {
        let whole = read(bytes);
        let _ = (ReceivedInfo::parse(bytes), transmit_stamp(bytes));
        let cut = &bytes[..usize::from(input.cut).min(bytes.len())];
        assert!(whole.starts_with(&read(cut)), "a cut message is no message");
    }
});
