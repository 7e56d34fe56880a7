//! `owstats`: statistics of data files of OWAMP, or of any log of a one-way test.

use super::arguments::{ForeignOption as Opt, Given, Program, with};
use super::owping::printed;
use super::perfsonar as common;
use anyhow::{Context, Result, bail};
use jitlat_output::{input, terminal};
use jitlat_proto::owamp::{OwpingOptions, SessionData, Statistics, counts_hops};
use std::path::Path;
use tracing::warn;

pub static PROGRAM: Program = Program {
    name: "owstats",
    about: "Prints the statistics of data files of OWAMP (.owp), and of logs of one-way tests, with the text of owstats",
    usage: "[OPTIONS] FILE…",
    options: &[
        Opt::ours("-a", "LIST", "--owamp-percentiles LIST", |list| with("--owamp-percentiles", list)),
        common::BUCKET,
        common::UNIT,
        Opt::refused("-N", "N", "`jitlat analyze FILE --interval 1s --as intervals` writes windows"),
        Opt::printed("-v", "[N]", "a line for each packet, or the first N (--as owstats)"),
        common::UNIX_TIMES,
        Opt::printed("-R", "", "one line per packet, without text (--as owping)"),
        Opt::printed("-M", "", "machine-readable statistics (--as owstats-m)"),
    ],
    run,
    wrong: 1,
    failed: 1,
};

fn run(given: &Given) -> Result<u8> {
    if given.operands.is_empty() {
        bail!("give a file: owstats FILE.owp");
    }
    let mut style = OwpingOptions::default();
    if let Some(width) = given.number::<f64>("-b")? {
        style.bucket = Some(width).filter(|w| *w > 0.0).context("-b: a bucket must be longer than zero")?;
    }
    if let Some(list) = given.value("-a") {
        let percent = |word: &str| word.trim().parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
        let percentiles = list.split(',').map(percent).collect::<Option<Vec<f64>>>();
        style.percentiles = percentiles.with_context(|| format!("-a {list}: give numbers from 0 to 100"))?;
    }
    for name in &given.operands {
        let path = Path::new(name);
        let (data, counts_hops) = session(path)?;
        if let Some(early) = data.early_end() {
            warn!("{name}: {early}");
        }
        let style = OwpingOptions { counts_hops, ..style.clone() };
        terminal::print(&printed(given, &[Statistics { data, style }])?)?;
    }
    Ok(0)
}

/// Reads a data file of OWAMP, or the log of a one-way test. The second value is true if TTLs give numbers of hops.
fn session(path: &Path) -> Result<(SessionData, bool)> {
    if input::is_owamp_file(path) {
        return Ok((input::owamp_file(path)?, true));
    }
    let mut log = input::open(path)?;
    let mut failure = None;
    let records: Vec<_> = log.records(&mut failure).collect();
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    if log.session().two_way.is_some() {
        bail!("{} is a test of round trips: jitlat export {0} --as twping-m", path.display());
    }
    Ok((SessionData::of_test(log.session(), &records)?, counts_hops(log.session())))
}
