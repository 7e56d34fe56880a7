#![no_main]
// Aims at: crates/proto/src/jitlat/classic

use jitlat_fuzz::pieces;
use jitlat_proto::jitlat::auth::ConnectionSide;
use jitlat_proto::jitlat::classic::{ClassicCodec, WORKORDER_LEN, Workorder};
use jitlat_proto::jitlat::message::{FlowRequest, Message, Request};
use std::net::SocketAddr;

#[derive(arbitrary::Arbitrary, Debug)]
struct Input {
    /// True if the client has requested a stream, and therefore expects answers.
    asked: bool,
    down: bool,
    sizes: Vec<u8>,
    bytes: Vec<u8>,
}

libfuzzer_sys::fuzz_target!(|input: Input| {
    if let Some(Ok(order)) = input.bytes.first_chunk::<WORKORDER_LEN>().map(Workorder::parse) {
        assert_eq!(order.to_bytes(), input.bytes[..WORKORDER_LEN]);
    }
    let [client, server] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|ip| SocketAddr::from((ip, 2666)));
    for (side, local, peer) in
        [(ConnectionSide::Client, client, server), (ConnectionSide::Server, server, client)]
    {
        let mut codec = ClassicCodec::new(side, local, peer);
        if side == ConnectionSide::Client && input.asked {
            let spec = jitlat_core::TestSpec::default();
            let spec = if input.down { spec.reversed() } else { spec };
            let flows = vec![FlowRequest { spec, stamps: Default::default() }];
            codec.encode(&Message::Request(Request { flows, ..Request::default() }), &mut Vec::new());
        }
        for piece in pieces(&input.bytes, &input.sizes) {
            codec.feed(piece);
            let mut parsed = 0;
            while let Ok(Some(_)) = codec.decode() {
                parsed += 1;
                assert!(parsed <= 8 + piece.len(), "more messages than bytes");
            }
        }
    }
});
