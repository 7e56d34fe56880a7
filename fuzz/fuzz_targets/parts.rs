#![no_main]
// Aims at: crates/passive/src/part.rs crates/passive/src/tcp/part.rs crates/passive/src/estimate.rs
// Longest input: 16384

use jitlat_core::{Span, WallTime};
use jitlat_fuzz::Heap;
use jitlat_passive::tcp::{ConnectionsPart, answer};
use jitlat_passive::{PairEstimator, PartState};
use twox_hash::XxHash3_64;

/// Most bytes in use at a time.
const BUDGET: usize = 1 << 28;

#[global_allocator]
static HEAP: Heap = Heap::new();

fn sealed(first_line: &[u8], body: &[u8]) -> Vec<u8> {
    [first_line, &XxHash3_64::oneshot(body).to_le_bytes(), body].concat()
}

// Bytes as states of parts of captures, without and with a valid first line and checksum.
libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    let most = HEAP.most_during(|| {
        let _ = PartState::load(body);
        let _ = ConnectionsPart::load(body);
        if let Ok(part) = PartState::load(&sealed(b"jitlat part 1\n", body)) {
            pairs(part);
        }
        if let Ok(part) = ConnectionsPart::load(&sealed(b"jitlat tcp part 1\n", body)) {
            connections(part);
        }
    });
    assert!(most < BUDGET, "{most} bytes for {}", body.len());
});

fn pairs(part: PartState) {
    let again = PartState::load(&part.save().expect("what was read can be written")).expect("and read again");
    assert_eq!(again.records, part.records);
    let mut next = again.clone();
    (next.part.from, next.part.to) = (part.part.to, WallTime(i64::MAX));
    let mut whole = part;
    let _ = whole.append(next);
    whole.result(PairEstimator::new(Span::seconds(1), None), |estimator| drop(estimator.take_pairs()));
    again.result(PairEstimator::new(Span::seconds(1), None), |_| ());
}

fn connections(part: ConnectionsPart) {
    let again =
        ConnectionsPart::load(&part.save().expect("what was read can be written")).expect("and read again");
    let read = again.connections.len();
    assert_eq!(read, part.connections.len());
    let _ = ConnectionsPart::join(vec![part.clone(), again]);
    let result = ConnectionsPart::join(vec![part.clone()]).unwrap_or(part).result();
    assert_eq!(result.first.connections.len(), read);
    let _ = answer(&result);
    let _ = jitlat_report::text::tcp(&result, 10);
    let _ = serde_json::to_vec(&jitlat_store::passive::tcp_document(&result));
}
