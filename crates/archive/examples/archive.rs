//! Adds a log to an archive twice and reads it back: `cargo run -p jitlat-archive --example archive`.

use jitlat_archive::{AddOutcome, Archive};
use jitlat_core::{PacketRecord, Session, TestSpec, WallTime};
use jitlat_store::log::{LogVersion, LogWriter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("a.log");
    let mut out = LogWriter::new(std::fs::File::create(&log)?, LogVersion::V3);
    out.begin(&Session::new(TestSpec::default()));
    (0..100)
        .for_each(|i| out.record(&PacketRecord::one_way(i, WallTime(i * 1000), WallTime(i * 1000 + 700))));
    out.finish(&Session::new(TestSpec::default()));
    out.close().1?;
    let archive = Archive::make(&folder.path().join("archive"))?;
    let AddOutcome::New(id) = archive.add(&log, &[])? else { panic!("it is new") };
    assert!(matches!(archive.add(&log, &[])?, AddOutcome::Known(known) if known == id));
    println!("test {id} has {} packets", archive.reader(id, "a.log")?.count());
    Ok(())
}
