//! Prints every scalar of a test of three packets: `cargo run -p jitlat-core --example scalars`.

use jitlat_core::scalars::SCALARS;
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime, analyze};

fn main() {
    let session = Session::new(TestSpec::default());
    let packet = |i, sent: i64, delay: i64| PacketRecord::one_way(i, WallTime(sent), WallTime(sent + delay));
    let records = [packet(0, 0, 42), packet(1, 20_000_000, 40), packet(2, 40_000_000, 47)];
    let summary = analyze(&session, records, &Default::default());
    assert_eq!((summary.latency.min, summary.pdv.max), (Some(40), Some(7)));
    for scalar in SCALARS {
        if let Some(value) = scalar.of(&summary) {
            println!("{} = {}", scalar.label, scalar.show(value));
        }
    }
}
