//! Prints every figure of a saved log: `cargo run --example figures -- LOG`.

use jitlat_core::scalars::SCALARS;
use jitlat_core::{Summary, analyze};
use jitlat_store::log::LogReader;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let log = std::env::args().nth(1).ok_or("name a log")?;
    list(&read(log.as_ref())?).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Returns the summary of a saved log.
pub fn read(log: &Path) -> Result<Summary, Box<dyn Error>> {
    let mut reader = LogReader::open(log)?;
    let (session, mut failure) = (reader.session().clone(), None);
    let summary = analyze(&session, reader.records(&mut failure), &Default::default());
    failure.map_or(Ok(summary), |e| Err(e.into()))
}

/// Returns a line for each figure that is defined.
pub fn list(summary: &Summary) -> Vec<String> {
    let known = SCALARS.iter().filter_map(|figure| Some((figure, figure.of(summary)?)));
    known.map(|(figure, value)| format!("{:<22} {}", figure.label, figure.show(value))).collect()
}
