//! A server of iperf3 that sends anything: the client neither panics nor collects without limit, answers no more than the
//! protocol has messages, and sends its results only once.
#![no_main]
// Aims at: crates/proto/src/iperf3

use jitlat_core::{Direction, Dscp};
use jitlat_proto::iperf3::{Iperf3Client, Iperf3Event, Iperf3Params, cookie};
use libfuzzer_sys::fuzz_target;

/// More than all messages of a client with 62 connections.
const MOST_OUTPUT: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let [parallel, end, pieces, bytes @ ..] = data else { return };
    let params = Iperf3Params {
        directions: Direction::BOTH.to_vec(),
        parallel: usize::from(parallel % 31) + 1,
        seconds: 60,
        rate: None,
        block: 1 << 17,
        dscp: Dscp::default(),
    };
    let streams = params.streams();
    let mut client = Iperf3Client::new(params, cookie(&[0; 36]));
    let (mut output, mut ran, mut done) = (client.output().len(), 0, 0);
    for (k, piece) in bytes.chunks(usize::from(*pieces).max(1)).enumerate() {
        if k == usize::from(*end) {
            client.end(&vec![1; streams]);
        }
        let Ok(events) = client.receive(piece) else { break };
        for event in events {
            match event {
                Iperf3Event::Connect(n) => assert_eq!(n, streams),
                Iperf3Event::Run => ran += 1,
                Iperf3Event::Done(results) => {
                    assert_eq!(results.len(), streams);
                    done += 1;
                }
            }
        }
        output += client.output().len();
    }
    assert!(ran <= 1 && done <= ran && output <= MOST_OUTPUT, "{ran} {done} {output}");
});
