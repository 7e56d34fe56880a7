//! [`RpmServeArgs`]: options of `jitlat serve --rpm`.

use anyhow::{Context, Result};
use clap::Args;
use jitlat_instruments::access::read_key_file;
use jitlat_instruments::rpm::{RpmServer, ServerCertificate, method};
use jitlat_instruments::serve::Reflector;
use std::net::IpAddr;
use std::path::PathBuf;

/// Options of the server for responsiveness tests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Responsiveness")]
pub struct RpmServeArgs {
    /// Answer responsiveness tests over HTTPS (`jitlat rpm` and others)
    #[arg(long)]
    pub rpm: bool,
    /// TCP port of responsiveness tests
    #[arg(long, value_name = "PORT", default_value_t = method::PORT, requires = "rpm", conflicts_with = "public")]
    pub rpm_port: u16,
    /// Certificate chain of this server (PEM)
    ///
    /// Without it the server makes a certificate that clients only accept if they accept any certificate.
    #[arg(long, value_name = "FILE", requires = "rpm", requires = "rpm_key", conflicts_with = "public")]
    pub rpm_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM); only its owner may read the file
    #[arg(long, value_name = "FILE", requires = "rpm_certificate")]
    pub rpm_key: Option<PathBuf>,
}

impl RpmServeArgs {
    /// True if the service is requested.
    pub fn is_wanted(&self) -> bool {
        self.rpm
    }

    /// Returns the service on `ips`; `None` without `--rpm`.
    pub fn reflector(&self, ips: &[IpAddr]) -> Result<Option<Box<dyn Reflector>>> {
        if !self.rpm {
            return Ok(None);
        }
        let certificate = match (&self.rpm_certificate, &self.rpm_key) {
            (Some(chain), Some(key)) => {
                let key = read_key_file(key).context("--rpm-key")?;
                ServerCertificate::read(chain, &key.contents).context("--rpm-certificate")?
            }
            _ => ServerCertificate::self_made(names(ips))?,
        };
        Ok(Some(Box::new(RpmServer { port: self.rpm_port, certificate })))
    }
}

/// Returns the names of a certificate of this host.
fn names(ips: &[IpAddr]) -> Vec<String> {
    let host = jitlat_net::clock::host_facts().name;
    let addresses = ips.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string);
    let mut names: Vec<String> = host.into_iter().filter(|name| name.is_ascii()).chain(addresses).collect();
    names.push("localhost".to_owned());
    names
}
