//! Writes a log and reads it back: `cargo run -p jitlat-store --example log`.

use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_store::log::{LogReader, LogVersion, LogWriter};
use std::io::Cursor;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::new(TestSpec::default());
    let mut log = LogWriter::new(Vec::new(), LogVersion::V3);
    log.begin(&session);
    for seq in 0..100 {
        log.record(&PacketRecord::one_way(seq, WallTime(seq * 1000), WallTime(seq * 1000 + 700)));
    }
    log.finish(&session);
    let (bytes, written) = log.close();
    written?;

    let mut failure = None;
    let mut reader = LogReader::from_reader("example.log", Box::new(Cursor::new(bytes)))?;
    println!("{} packets read", reader.records(&mut failure).count());
    assert!(failure.is_none());
    Ok(())
}
