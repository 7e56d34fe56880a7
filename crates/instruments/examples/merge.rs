//! Merges two parts of a test, or two tests of the same traffic: `cargo run --example merge -- A.log B.log`.

use jitlat_core::state::SavedAnalysis;
use jitlat_core::{Options, Summary};
use jitlat_store::log::LogReader;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let logs: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &logs[..] else { return Err("name two logs".into()) };
    let summary = merge(&saved(a.as_ref())?, &saved(b.as_ref())?)?;
    println!("of {} packets lost {:?} %", summary.counts.sent, summary.counts.lost_pct);
    Ok(())
}

/// Returns the analysis of a log as bytes that can be stored or sent elsewhere.
pub fn saved(log: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut reader = LogReader::open(log)?;
    let (mut state, mut failure) = (SavedAnalysis::new(reader.session().clone(), &Options::default()), None);
    reader.records(&mut failure).for_each(|record| state.push(&record));
    failure.map_or(Ok(state.save()?), |e| Err(e.into()))
}

/// Returns the summary of both parts together.
pub fn merge(a: &[u8], b: &[u8]) -> Result<Summary, Box<dyn Error>> {
    let mut whole = SavedAnalysis::load(a, &Options::default())?;
    whole.merge(SavedAnalysis::load(b, &Options::default())?)?;
    Ok(whole.finish())
}
