//! Options of background traffic during a test.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jitlat_core::quantity;
use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::{Direction, Span};
use jitlat_instruments::load::{Iperf3Server, JitlatServer, Load, LoadServer, LoadSpecs};
use jitlat_proto::iperf3;
use std::path::PathBuf;

/// Kind of the server that receives the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LoadProtocol {
    /// `jitlat serve`.
    #[default]
    Jitlat,
    /// `iperf3 --server`.
    Iperf3,
}

/// Options of background traffic during a test.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Latency under load")]
pub struct LoadArgs {
    /// Measure twice, idle and with this traffic to a server, and compare
    ///
    /// Examples: tcp (as fast as possible, four connections); tcp,both (up and down at once); tcp:20Mbit,streams=8;
    /// udp:5Mbit,dscp=AF11. All accept streams=N in each direction, payload=BYTES, dscp=, ac=BK|BE|VI|VO or priority=N,
    /// and up, down or both; without one of these the load has the direction of the test (with ping: up). Several
    /// loads at once: udp:4Mbit+tcp, or the option repeated.
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<LoadSpecs>,
    /// Time for which the load runs before the test begins
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "1s", requires = "load")]
    pub load_settle: Span,
    /// Server of the load: jitlat (`jitlat serve`) or iperf3 (TCP only)
    #[arg(long, value_name = "NAME", default_value = "jitlat", requires = "load")]
    pub load_proto: LoadProtocol,
    /// Host of the server that receives the load (default: the test's)
    #[arg(long, value_name = "HOST", requires = "load")]
    pub load_host: Option<String>,
    /// Port of that server (default: 2666, or 5201 for iperf3)
    #[arg(long, value_name = "PORT", requires = "load")]
    pub load_port: Option<u16>,
    /// File with the key shared with the load's server (default: the test's)
    #[arg(long, value_name = "FILE", requires = "load")]
    pub load_key_file: Option<PathBuf>,
}

impl LoadProtocol {
    /// Returns the standard port of its servers.
    pub fn port(self) -> u16 {
        match self {
            LoadProtocol::Jitlat => CONTROL_PORT,
            LoadProtocol::Iperf3 => iperf3::PORT,
        }
    }

    /// Returns the name in a file, `None` for jitlat.
    pub fn stored(self) -> Option<String> {
        (self == LoadProtocol::Iperf3).then(|| "iperf3".to_owned())
    }

    /// Returns the protocol with this name in a file.
    pub fn of(stored: Option<&str>) -> Result<LoadProtocol> {
        match stored {
            None | Some("jitlat") => Ok(LoadProtocol::Jitlat),
            Some("iperf3") => Ok(LoadProtocol::Iperf3),
            Some(other) => bail!("the load needs a server of '{other}', which this version does not know"),
        }
    }
}

impl LoadArgs {
    /// Returns the load of a test against `host` in these `directions`. `own` contains control port and key file of the
    /// test; `None` if it has no control connection.
    pub fn settings(
        &self,
        host: &str,
        own: Option<(u16, Option<&PathBuf>)>,
        directions: Vec<Direction>,
    ) -> Result<Load> {
        let server = match self.load_proto {
            LoadProtocol::Jitlat => LoadServer::Jitlat(self.jitlat_server(host, own)?),
            LoadProtocol::Iperf3 if self.load_key_file.is_some() => {
                bail!("--load-key-file: servers of iperf3 have no such keys: leave it out")
            }
            LoadProtocol::Iperf3 => LoadServer::Iperf3(Iperf3Server {
                host: self.load_host.clone().unwrap_or_else(|| host.to_owned()),
                port: self.load_port.unwrap_or(self.load_proto.port()),
                family: None,
            }),
        };
        let specs = self.load.iter().flat_map(|loads| loads.0.clone()).collect();
        Ok(Load { specs, directions, server, settle: self.load_settle })
    }
    fn jitlat_server(&self, host: &str, own: Option<(u16, Option<&PathBuf>)>) -> Result<JitlatServer> {
        let (port, key) = own.unwrap_or((CONTROL_PORT, None));
        let port = match self.load_host {
            Some(_) => self.load_port.unwrap_or(CONTROL_PORT),
            None => self.load_port.unwrap_or(port),
        };
        let key = self.load_key_file.as_ref().or(key.filter(|_| self.load_host.is_none()));
        Ok(JitlatServer {
            host: self.load_host.clone().unwrap_or_else(|| host.to_owned()),
            port,
            key: key.map(|k| super::key(k)).transpose()?,
        })
    }
}
