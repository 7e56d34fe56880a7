#![no_main]
// Aims at: crates/archive/src/packets/read.rs crates/archive/src/check.rs crates/archive/src/text.rs crates/archive/src/parts.rs
// Longest input: 16384

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jitlat_archive::{Archive, CATALOGUE, Filter, TestHeader};
use jitlat_core::{PacketRecord, WallTime};
use jitlat_fuzz::{Heap, Scratch, uncaught};
use jitlat_store::log::LogRow;
use std::fs;
use std::sync::LazyLock;

/// Most bytes in use at a time: the description of tests in a file is limited to 128 MiB before it is decoded.
const BUDGET: usize = 1 << 29;

#[global_allocator]
static HEAP: Heap = Heap::new();

static SCRATCH: LazyLock<Scratch> = LazyLock::new(Scratch::new);
/// The catalogue of an empty archive.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let root = SCRATCH.join("empty");
    drop(Archive::make(&root).expect("an archive"));
    fs::read(root.join(CATALOGUE)).expect("its catalogue")
});

// A packet file that is not in the catalogue: it is entered, and then its tests can be read or are reported as
// damaged. Bytes that are not a packet file are used as a table's description of its tests: its logs are restored, or
// an error is returned.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let empty = &*EMPTY;
    let most = HEAP.most_during(|| {
        uncaught(|| if bytes.starts_with(b"PAR1") { enter(empty, bytes) } else { assemble(bytes) });
    });
    assert!(most < BUDGET, "{most} bytes for {}", bytes.len());
});

fn enter(empty: &[u8], bytes: &[u8]) {
    let root = SCRATCH.join("a");
    let _ = fs::remove_dir_all(&root);
    let packets = root.join("packets");
    fs::create_dir_all(&packets).expect("a folder");
    fs::write(root.join(CATALOGUE), empty).expect("a catalogue");
    fs::write(packets.join("x.parquet"), bytes).expect("a file");
    let archive = Archive::open_to_write(&root).expect("an archive");
    let checked = archive.check(true).expect("damage is no error");
    let there = packets.join("x.parquet").exists();
    if !checked.damaged.is_empty() {
        assert!(there && checked.entered == 0, "{checked:?}");
        assert!(checked.damaged.iter().all(|found| found.what == "packets/x.parquet"), "{checked:?}");
        return;
    }
    assert_eq!(there, checked.entered > 0, "{checked:?}");
    for test in archive.list(&Filter::default(), &[]).expect("a list") {
        let id = archive.find(&test.id).expect("what is listed is found");
        let mut log = archive.log(id).expect("what was entered can be read");
        std::io::copy(&mut log, &mut std::io::sink()).expect("what was entered can be read");
        archive.session(id).expect("what was entered can be read");
    }
    let again = archive.check(true).expect("damage is no error");
    assert!(again.damaged.is_empty() && again.tests == checked.entered, "{checked:?} {again:?}");
}

fn assemble(bytes: &[u8]) {
    let text = STANDARD.encode(zstd::bulk::compress(bytes, 1).expect("it can be compressed"));
    let value = |key: &str| match key {
        "jitlat.packets" => Some("1".to_owned()),
        "jitlat.tests" => Some(text.clone()),
        _ => None,
    };
    for header in TestHeader::of_metadata(value).unwrap_or_default().iter().take(20) {
        let Ok(mut log) = header.assemble() else { continue };
        let mut seen = 0;
        for k in 0..header.packets().min(500) as i64 {
            let record =
                PacketRecord::one_way(k ^ 1, WallTime(k * 1_000_003), WallTime(k * 1_000_003 + k % 77));
            let row = LogRow { index: k as u64, record, tcp: None };
            if log.push(&row, |_| seen += 1).is_err() {
                break;
            }
        }
        assert!(log.finish(|_| seen += 1).is_err() || log.is_complete());
    }
}
