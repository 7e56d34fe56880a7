//! [`Plan`]: everything that fixes a sweep.

use crate::options::load::LoadArgs;
use anyhow::{Result, bail};
use jitlat_core::Span;
use jitlat_core::sweep::{Confidence, Grid, Run, order};
use jitlat_instruments::load::Load;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The parameters of a sweep: the first line of its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plan {
    /// `jitlat sweep 1`.
    pub format: String,
    /// The far host.
    pub host: String,
    /// Whether one-way tests instead of round trips.
    pub one_way: bool,
    /// The varied conditions.
    pub grid: Grid,
    /// Packets per run.
    pub packets: u64,
    /// Runs of each combination.
    pub repetitions: u32,
    /// Pause between runs.
    pub pause: Span,
    /// Seed of the random order; `None` = in the given order.
    pub seed: Option<u64>,
    /// Confidence level of the intervals.
    pub confidence: Confidence,
    /// The server that receives the load: host, port, key file, and how long the load settles.
    pub load: LoadLink,
    /// Options of the test.
    pub options: Vec<String>,
}

/// Where the load is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadLink {
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) key_file: Option<PathBuf>,
    pub(super) settle: Span,
}

/// The format in the first line of a sweep's file.
pub const FORMAT: &str = "jitlat sweep 2";

/// The formats that can be resumed: version 1 has other names for ten figures.
pub const READABLE: [&str; 2] = ["jitlat sweep 1", FORMAT];

/// Most runs; more are certainly a mistake.
const MOST_RUNS: usize = 100_000;

impl Plan {
    /// The runs, in order.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let count = self.grid.cells().and_then(|c| c.checked_mul(self.repetitions as usize));
        match count {
            Some(1..=MOST_RUNS) => Ok(order(self.grid.cells().unwrap_or(0), self.repetitions, self.seed)),
            Some(n) => bail!("{n} runs are too many: a sweep has at most {MOST_RUNS}"),
            None => bail!("there are more combinations than can be counted"),
        }
    }

    /// The server that takes the load, and how long it settles; without any load yet.
    pub fn load(&self) -> Result<Load> {
        let args = LoadArgs {
            load: Vec::new(),
            load_settle: self.load.settle,
            load_host: self.load.host.clone(),
            load_port: self.load.port,
            load_key_file: self.load.key_file.clone(),
        };
        args.settings(&self.host, None)
    }

    /// What the delays of this sweep are.
    pub fn quantity(&self) -> &'static str {
        if self.one_way { "one-way delay" } else { "round trip" }
    }
}
