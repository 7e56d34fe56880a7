#![no_main]
// Aims at: crates/proto/src/echo

use jitlat_core::WallTime;
use jitlat_proto::echo::{Echo, HEADER_LEN, IpVersion, checksum};
use jitlat_proto::twoway::{DatagramKind, Protocol};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    v6: bool,
    id: Option<u16>,
    mark: u64,
    payload: u8,
    answers: Vec<Answer>,
}

#[derive(arbitrary::Arbitrary, Debug)]
enum Answer {
    /// Arbitrary bytes.
    Raw(Vec<u8>),
    /// The reply to this request, changed in one byte, and truncated or lengthened.
    Reply { seq: u32, at: u16, flip: u8, length: Option<u8> },
}

// A true reply is accepted as the answer to its request. A corrupted reply is never accepted as the answer to another
// request (over IPv6 the kernel checks the checksum), and packets that are not replies to this test do not count.
libfuzzer_sys::fuzz_target!(|input: Input| {
    let family = if input.v6 { IpVersion::V6 } else { IpVersion::V4 };
    let reply_type = if input.v6 { 129 } else { 0 };
    let mut echo = Echo::new(family, input.id, input.mark, input.payload.into());
    for answer in input.answers.iter().take(200) {
        let (seq, at, flip, length) = match answer {
            Answer::Raw(bytes) => {
                if let DatagramKind::Reply(reply) = echo.receive(bytes, WallTime(1)) {
                    assert_eq!(bytes[..2], [reply_type, 0], "no reply");
                    assert_eq!(bytes[6..8], (reply.seq as u16).to_be_bytes(), "the number in the header");
                    assert!(input.v6 || checksum(bytes) == 0, "a wrong sum");
                    assert!(input.id.is_none_or(|id| bytes[4..6] == id.to_be_bytes()), "another program's");
                    assert!(reply.seq_bits == 16 || input.payload >= 8);
                    assert_eq!(reply.damaged, bytes.len() != HEADER_LEN + usize::from(input.payload));
                }
                continue;
            }
            Answer::Reply { seq, at, flip, length } => (*seq, usize::from(*at), *flip, *length),
        };
        let mut packet = Vec::new();
        echo.request(seq, false, WallTime(1), &mut packet);
        assert_eq!(packet.len(), HEADER_LEN + usize::from(input.payload));
        if let Some(length) = length {
            packet.resize(HEADER_LEN + usize::from(length), 0);
        }
        (packet[0], packet[2], packet[3]) = (reply_type, 0, 0);
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
        let long = input.payload >= 8 && packet.len() >= HEADER_LEN + 8;
        // A truncated payload has no mark: the reply is matched by the number in its header.
        let bits = if long { 32 } else { 16 };
        let want = if long { seq } else { seq & 0xffff };
        match echo.receive(&packet, WallTime(2)) {
            DatagramKind::Reply(r) => {
                assert_eq!((r.seq, r.seq_bits), (want, bits));
                assert_eq!(r.damaged, packet.len() != HEADER_LEN + usize::from(input.payload));
            }
            other => panic!("a true reply is {other:?}"),
        }
        if flip != 0 {
            let at = at % packet.len();
            packet[at] ^= flip;
            if let DatagramKind::Reply(r) = echo.receive(&packet, WallTime(2)) {
                assert!(input.v6, "a spoilt reply passes its checksum");
                let header = u16::from_be_bytes([packet[6], packet[7]]);
                assert_eq!(r.seq as u16, header, "a number that is not in the header");
            }
        }
    }
});
