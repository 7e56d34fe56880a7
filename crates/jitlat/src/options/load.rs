//! Options of background traffic during a test.

use anyhow::Result;
use clap::Args;
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_core::spec::CONTROL_PORT;
use jitlat_instruments::load::{Load, LoadServer, LoadSpec};
use std::path::PathBuf;

/// Options of background traffic during a test.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Latency under load")]
pub struct LoadArgs {
    /// Measure twice, idle and with this traffic to a `jitlat serve`, and compare
    ///
    /// Examples: udp:5Mbit,dscp=AF11; tcp:20Mbit,streams=4; tcp,streams=20 (as fast as possible). All accept
    /// payload=BYTES, ac=BK|BE|VI|VO or priority=N, and down (server to client). May be repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<LoadSpec>,
    /// Time for which the load runs before the test begins
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "1s", requires = "load")]
    pub load_settle: Span,
    /// Host of the `jitlat serve` that receives the load (default: the test's)
    #[arg(long, value_name = "HOST", requires = "load")]
    pub load_host: Option<String>,
    /// Control port of the server that receives the load
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT, requires = "load")]
    pub load_port: u16,
    /// File with the key shared with the load's server (default: the test's)
    #[arg(long, value_name = "FILE", requires = "load")]
    pub load_key_file: Option<PathBuf>,
}

impl LoadArgs {
    /// Returns the load of a test against `host`. `own` contains control port and key file of the test; `None`
    /// if it has no control connection.
    pub fn settings(&self, host: &str, own: Option<(u16, Option<&PathBuf>)>) -> Result<Load> {
        let (port, key) = own.unwrap_or((self.load_port, None));
        let elsewhere = self.load_host.is_some() || self.load_port != CONTROL_PORT;
        let key = self.load_key_file.as_ref().or(key.filter(|_| self.load_host.is_none()));
        let server = LoadServer {
            host: self.load_host.clone().unwrap_or_else(|| host.to_owned()),
            port: if elsewhere { self.load_port } else { port },
            key: key.map(|k| super::key(k)).transpose()?,
        };
        Ok(Load { specs: self.load.clone(), server, settle: self.load_settle })
    }
}
