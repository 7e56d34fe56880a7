//! Options of the access policy of `jitlat serve`.

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitlat_core::prefix::Prefix;
use jitlat_instruments::access::{AccessRules, PolicyWithKeys, network, services};
use jitlat_instruments::serve::Policy;
use std::path::PathBuf;

/// Options that define the hosts that may use each service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// File with the key that clients must prove to know
    ///
    /// Clients without the key are refused, and so are classic clients.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Services to serve without a key although another service has one
    ///
    /// Otherwise a service without a key is not served.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PossibleValuesParser::new(services()))]
    pub open: Vec<String>,
    /// Serve only these hosts and networks; may be repeated
    ///
    /// 192.0.2.0/24, 2001:db8::/32. Applies to every service.
    #[arg(long, value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub allow: Vec<Prefix>,
    /// Do not serve these hosts and networks, even if allowed; may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub deny: Vec<Prefix>,
    /// TOML file with rules for all services: networks, keys and limits
    ///
    /// See docs/security.md. Options take precedence.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Print the policy that results from all options, and exit
    #[arg(long)]
    pub show_policy: bool,
}

impl AccessArgs {
    /// Creates the policy: the defaults, changed by the file, then by `options`.
    pub fn access(&self, options: impl FnOnce(&mut Policy)) -> Result<PolicyWithKeys> {
        let rules = AccessRules {
            key_file: self.key_file.clone(),
            open: self.open.clone(),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            policy: self.policy.clone(),
        };
        Ok(rules.access(options)?)
    }
}
