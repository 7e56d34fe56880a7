//! Analyses captures in parts by connection, and joins their states.

use anyhow::{Context, Result};
use clap::Args;
use jitlat_output::write_file;
use jitlat_passive::tcp::{ConnectionShare, ConnectionsPart};
use std::fs;
use std::path::PathBuf;

/// Options of parts of captures.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Parts")]
pub struct TcpPartArgs {
    /// Analyse part K of N of the connections, divided by addresses and ports (1/4)
    #[arg(long, value_name = "K/N")]
    pub keep: Option<ConnectionShare>,
    /// Write the results of this part to FILE, for --join
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub state: Option<PathBuf>,
    /// Report on the whole capture, from the states of all parts
    #[arg(long, value_name = "STATE", num_args = 1.., conflicts_with_all = ["captures", "keep", "host", "port", "one_point"])]
    pub join: Vec<PathBuf>,
}

impl TcpPartArgs {
    /// Writes the file of `--state`.
    pub fn write_state(&self, part: &ConnectionsPart) -> Result<()> {
        let Some(path) = &self.state else { return Ok(()) };
        let bytes = part.save()?;
        Ok(write_file(path, |out| out.write_all(&bytes))?)
    }

    /// Reads the states of `--join`.
    pub fn states(&self) -> Result<Vec<ConnectionsPart>> {
        let load = |path: &PathBuf| {
            let bytes = fs::read(path).with_context(|| format!("reading the state {}", path.display()))?;
            ConnectionsPart::load(&bytes).with_context(|| format!("the state {}", path.display()))
        };
        self.join.iter().map(load).collect()
    }
}
