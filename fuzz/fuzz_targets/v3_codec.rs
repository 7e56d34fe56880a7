#![no_main]
// Aims at: crates/proto/src/jitlat/v3 crates/proto/src/jitlat/framing.rs crates/proto/src/jitlat/auth.rs

use jitlat_fuzz::pieces;
use jitlat_proto::jitlat::auth::{ConnectionSide, PresharedKey};
use jitlat_proto::jitlat::message::Message;
use jitlat_proto::jitlat::v3::{CodecV3, PREFACE};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    preface: bool,
    sealed: bool,
    sizes: Vec<u8>,
    bytes: Vec<u8>,
}

fn parse(codec: &mut CodecV3) -> Vec<Message> {
    std::iter::from_fn(|| codec.decode().ok().flatten()).collect()
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    let mut codec = CodecV3::new(ConnectionSide::Server);
    if input.sealed {
        codec.seal(&PresharedKey::from_file_contents(b"0123456789abcdef").unwrap(), None);
    }
    if input.preface {
        codec.feed(&PREFACE);
    }
    let mut parsed = Vec::new();
    for piece in pieces(&input.bytes, &input.sizes) {
        codec.feed(piece);
        parsed.extend(parse(&mut codec));
    }
    // Parsed messages are encoded again, and parsed to the same.
    let mut said = Vec::new();
    let mut client = CodecV3::new(ConnectionSide::Client);
    parsed.iter().for_each(|message| client.encode(message, &mut said));
    let mut server = CodecV3::new(ConnectionSide::Server);
    server.feed(&said);
    assert_eq!(parse(&mut server), parsed);
});
