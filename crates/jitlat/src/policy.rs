//! The access policy of `jitlat serve`: its options, and the keys they name.

use crate::options::{key, read_key_file};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitlat_core::passive::Prefix;
use jitlat_instruments::arguments::NamedFile;
use jitlat_instruments::ping::PROTOCOLS;
use jitlat_instruments::ping::protocols::stamp::{KEYS_FILE as STAMP_KEYS, key as stamp_key};
use jitlat_instruments::serve::Policy;
use jitlat_proto::jitlat::{Key, Keys, Limits};
use jitlat_proto::policy::file::{self, PolicyFile};
use jitlat_proto::policy::{DIGESTS, ONE_WAY, SERVICES, STAMP, Service};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Who may use which service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// File with the key that clients must prove to know; refuses all others, and classic clients
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Services served without a key although another has one (a service without a key is withheld otherwise)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PossibleValuesParser::new(services()))]
    pub open: Vec<String>,
    /// Serve these hosts and networks only (192.0.2.0/24, 2001:db8::/32), by every service; may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub allow: Vec<Prefix>,
    /// Do not serve these hosts and networks, even if allowed; may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub deny: Vec<Prefix>,
    /// Rules of all services: networks, keys and limits, in TOML (docs/security.md). Options given beside it win
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Show the policy that results from all options, in the form of --policy, and end
    #[arg(long)]
    pub show_policy: bool,
}

fn network(text: &str) -> Result<Prefix, String> {
    text.parse()
        .map_err(|()| "write an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32".to_owned())
}

/// A policy with the keys of its services.
#[derive(Debug)]
pub struct Access {
    pub policy: Policy,
    /// Of one-way tests.
    pub keys: Keys,
    /// Of digests.
    pub digest_key: Option<Key>,
    /// Of other services, by the name of the argument.
    pub key_files: BTreeMap<String, NamedFile>,
}

impl AccessArgs {
    /// The policy: the usual one, with the rules of the file, then with those of `options`.
    pub fn access(&self, options: impl FnOnce(&mut Policy)) -> Result<Access> {
        let file = match &self.policy {
            Some(path) => {
                let name = path.display();
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("reading the policy {name}"))?;
                let file = PolicyFile::parse(&text).with_context(|| format!("the policy {name}"))?;
                // Key files are looked for beside the policy.
                file.beside(path.parent().unwrap_or(Path::new("")))
            }
            None => PolicyFile::default(),
        };
        let mut policy = usual();
        file.apply(&mut policy, &services())?;
        options(&mut policy);
        policy.networks.allow.extend_from_slice(&self.allow);
        policy.networks.deny.extend_from_slice(&self.deny);
        for name in &self.open {
            policy.service(service(name)?).open = true;
        }
        let common = self.key_file.as_ref().or(file.key_file.as_ref());
        let mut keys = Keys::default();
        let mut key_files = BTreeMap::new();
        let mut digest_key = common.map(|path| key(path)).transpose()?;
        if let Some(key) = &digest_key {
            keys.add("any", key.clone());
        }
        for (name, rules) in &file.services {
            let name = service(name)?;
            if name == STAMP && !rules.keys.is_empty() {
                key_files.insert(STAMP_KEYS.to_owned(), keys_by_network(&rules.keys)?);
            }
            for (peer, path) in rules.keys.iter().filter(|_| name != STAMP) {
                if name != ONE_WAY {
                    bail!(
                        "services.{name}.keys: only {ONE_WAY} has keys by peer, and {STAMP} by network; the users of twamp \
                         are in its key file"
                    );
                }
                keys.add(peer, key(path)?);
            }
            match (&rules.key_file, name) {
                (None, _) => {}
                (Some(path), ONE_WAY) => keys.add("any", key(path)?),
                (Some(path), DIGESTS) => digest_key = Some(key(path)?),
                (Some(path), _) => {
                    key_files.insert(format!("{name}-key-file"), read_key_file(path)?);
                }
            }
        }
        Ok(Access { policy, keys, digest_key, key_files })
    }
}

/// One file of the keys of STAMP's networks, out of a file for each.
fn keys_by_network(files: &BTreeMap<String, PathBuf>) -> Result<NamedFile> {
    let mut contents = Vec::new();
    for (name, path) in files {
        network(name).map_err(|why| anyhow!("services.{STAMP}.keys: '{name}' is not a network: {why}"))?;
        let key = read_key_file(path)?;
        stamp_key(&key)?;
        contents.extend([name.as_bytes(), b" ", key.contents.trim_ascii(), b"\n"].concat());
    }
    Ok(NamedFile { name: format!("services.{STAMP}.keys"), contents })
}

/// The policy without a file and without options.
pub fn usual() -> Policy {
    let mut policy = Policy::default();
    Limits::default().apply_to(&mut policy);
    policy
}

/// Every service, with protocols that have no rules of their own yet.
pub fn services() -> Vec<Service> {
    let answered = PROTOCOLS.iter().filter(|p| p.server.is_some()).map(|p| p.name);
    SERVICES.iter().copied().chain(answered.filter(|name| !SERVICES.contains(name))).collect()
}

/// The service that is called `name`.
pub fn service(name: &str) -> Result<Service> {
    Ok(file::service(name, &services())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_keys_of_stamp() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = |digits: &str| {
            let path = folder.path().join(digits);
            std::fs::write(&path, format!("{digits}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            path
        };
        let keys = |network: &str, digits: &str| {
            let file = keys_by_network(&[(network.to_owned(), file(digits))].into())?;
            Ok::<_, anyhow::Error>(jitlat_instruments::ping::protocols::stamp::keys(&file)?)
        };
        let read = keys("192.0.2.0/24", "0001fe").unwrap();
        assert_eq!((read.len(), read[0].0), (1, "192.0.2.0/24".parse().unwrap()));
        assert!(keys("probe-1", "0001fe").is_err() && keys("192.0.2.0/24", "secret").is_err());
    }
}
