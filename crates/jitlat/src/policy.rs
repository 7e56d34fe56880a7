//! The access policy of `jitlat serve`: its options, and the keys they name.

use crate::options::{key, read_key_file};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitlat_core::prefix::Prefix;
use jitlat_instruments::arguments::NamedFile;
use jitlat_instruments::ping::protocols::{irtt, stamp};
use jitlat_instruments::serve::Policy;
use jitlat_instruments::serve::answered;
use jitlat_proto::jitlat::{PresharedKeys, ServerLimits};
use jitlat_proto::policy::file::{self, PolicyFile};
use jitlat_proto::policy::{COLLECT, DIGESTS, IRTT, ONE_WAY, SERVICES, STAMP, Service};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Who may use which service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// File with the key that clients must prove to know
    ///
    /// All others are refused, and classic clients.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Services served without a key although another has one
    ///
    /// Otherwise a service without a key is withheld.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PossibleValuesParser::new(services()))]
    pub open: Vec<String>,
    /// Serve only these hosts and networks; may be repeated
    ///
    /// 192.0.2.0/24, 2001:db8::/32. For every service.
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

fn network(text: &str) -> Result<Prefix, String> {
    text.parse()
        .map_err(|()| "write an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32".to_owned())
}

/// A policy with the keys of its services.
#[derive(Debug)]
pub struct PolicyWithKeys {
    pub policy: Policy,
    /// Of one-way tests.
    pub keys: PresharedKeys,
    /// Of digests.
    pub digest_keys: PresharedKeys,
    /// Of other services, by the name of the argument.
    pub key_files: BTreeMap<String, NamedFile>,
    /// The names of all key files, to show.
    pub files: PolicyFile,
}

impl AccessArgs {
    /// The policy: the usual one, with the rules of the file, then with those of `options`.
    pub fn access(&self, options: impl FnOnce(&mut Policy)) -> Result<PolicyWithKeys> {
        let mut file = match &self.policy {
            Some(path) => {
                let name = path.display();
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("reading the policy {name}"))?;
                let file = PolicyFile::parse(&text).with_context(|| format!("the policy {name}"))?;
                // Key files are looked for beside the policy.
                let folder = path.parent().unwrap_or(Path::new(""));
                file.beside(&std::path::absolute(folder.join(".")).unwrap_or(folder.to_owned()))
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
        if let Some(path) = &self.key_file {
            file.key_file = Some(std::path::absolute(path).unwrap_or(path.clone()));
        }
        let common = self.key_file.as_ref().or(file.key_file.as_ref());
        let common = common.map(|path| key(path)).transpose()?;
        let (mut keys, mut digest_keys) = (PresharedKeys::from(common.clone()), PresharedKeys::default());
        let mut key_files = BTreeMap::new();
        // That of digests takes the place of the common one.
        let mut digest_key = common;
        for (name, rules) in &file.services {
            let name = service(name)?;
            match name {
                ONE_WAY => add_peers(&mut keys, &rules.keys)?,
                DIGESTS => add_peers(&mut digest_keys, &rules.keys)?,
                _ if rules.keys.is_empty() => {}
                STAMP => {
                    key_files.insert(stamp::KEYS_FILE.to_owned(), keys_by_network(&rules.keys)?);
                }
                IRTT => {
                    key_files.insert(irtt::KEYS_FILE.to_owned(), irtt_keys(&rules.keys)?);
                }
                _ => bail!(
                    "services.{name}.keys: {ONE_WAY}, {IRTT} and {DIGESTS} have keys by peer, and {STAMP} by network; the \
                     users of twamp and owamp are in their key files"
                ),
            }
            match (&rules.key_file, name) {
                (None, _) => {}
                (Some(path), ONE_WAY) => keys.add(PresharedKeys::ANY, key(path)?),
                (Some(path), DIGESTS) => digest_key = Some(key(path)?),
                (Some(_), COLLECT) => {
                    bail!(
                        "services.{name}.key-file: who pushes proves the key of its [[host]] in the monitor's file"
                    )
                }
                (Some(path), _) => {
                    key_files.insert(format!("{name}-key-file"), read_key_file(path)?);
                }
            }
        }
        if let Some(key) = digest_key {
            digest_keys.add(PresharedKeys::ANY, key);
        }
        Ok(PolicyWithKeys { policy, keys, digest_keys, key_files, files: file })
    }
}

/// Adds the key of each peer, out of a file for each.
fn add_peers(keys: &mut PresharedKeys, files: &BTreeMap<String, PathBuf>) -> Result<()> {
    for (peer, path) in files {
        keys.add(peer, key(path)?);
    }
    Ok(())
}

/// One file of the keys of IRTT's peers, out of a file for each.
fn irtt_keys(files: &BTreeMap<String, PathBuf>) -> Result<NamedFile> {
    let mut contents = Vec::new();
    for (peer, path) in files {
        let file = read_key_file(path)?;
        irtt::key(&file)?;
        let key = file.contents.trim_ascii();
        if peer.is_empty() || peer.starts_with('#') || peer.contains(char::is_whitespace) {
            bail!("services.{IRTT}.keys: '{peer}' is not a name: write one without white space");
        }
        if key.contains(&b'\n') {
            bail!("services.{IRTT}.keys: the key file {} has more than one line", file.name);
        }
        contents.extend([peer.as_bytes(), b" ", key, b"\n"].concat());
    }
    Ok(NamedFile { name: format!("services.{IRTT}.keys"), contents })
}

/// One file of the keys of STAMP's networks, out of a file for each.
fn keys_by_network(files: &BTreeMap<String, PathBuf>) -> Result<NamedFile> {
    let mut contents = Vec::new();
    for (name, path) in files {
        network(name).map_err(|why| anyhow!("services.{STAMP}.keys: '{name}' is not a network: {why}"))?;
        let key = read_key_file(path)?;
        stamp::key(&key)?;
        contents.extend([name.as_bytes(), b" ", key.contents.trim_ascii(), b"\n"].concat());
    }
    Ok(NamedFile { name: format!("services.{STAMP}.keys"), contents })
}

/// The policy without a file and without options.
pub fn usual() -> Policy {
    let mut policy = Policy::default();
    ServerLimits::default().apply_to(&mut policy);
    policy
}

/// Every service, with protocols that have no rules of their own yet.
pub fn services() -> Vec<Service> {
    let answered = answered().map(|p| p.name);
    SERVICES.iter().copied().chain(answered.filter(|name| !SERVICES.contains(name))).collect()
}

/// The service that is called `name`.
pub fn service(name: &str) -> Result<Service> {
    Ok(file::service(name, &services())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a key file of this name in `folder`.
    fn key_file(folder: &Path, name: &str, contents: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, format!("{contents}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    #[test]
    fn networks_have_keys_of_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |network: &str, digits: &str| {
            let file =
                keys_by_network(&[(network.to_owned(), key_file(folder.path(), digits, digits))].into())?;
            Ok::<_, anyhow::Error>(stamp::keys(&file)?)
        };
        let read = keys("192.0.2.0/24", "0001fe").unwrap();
        assert_eq!((read.len(), read[0].0), (1, "192.0.2.0/24".parse().unwrap()));
        assert!(keys("probe-1", "0001fe").is_err() && keys("192.0.2.0/24", "secret").is_err());
    }

    #[test]
    fn peers_have_keys_of_irtt() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |peer: &str, key: &str| {
            let file = irtt_keys(&[(peer.to_owned(), key_file(folder.path(), "key", key))].into())?;
            Ok::<_, anyhow::Error>(irtt::keys_by_peer(&file)?)
        };
        let read = keys("probe-1", "two words").unwrap();
        assert_eq!(read, [("probe-1".to_owned(), jitlat_proto::irtt::IrttKey::new("two words").unwrap())]);
        assert!(keys("probe 1", "0x01").is_err() && keys("probe-1", "0x0").is_err());
        assert!(keys("probe-1", "two\nlines").is_err());
    }

    #[test]
    fn peers_have_keys_of_one_way_tests_and_digests() {
        let folder = tempfile::tempdir().unwrap();
        for (name, key) in
            [("all", "a key of all peers"), ("own", "a key of digests alone"), ("p", "a key of one peer")]
        {
            key_file(folder.path(), name, key);
        }
        let path = folder.path().join("policy");
        let access = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let args = AccessArgs {
                key_file: None,
                open: Vec::new(),
                allow: Vec::new(),
                deny: Vec::new(),
                policy: Some(path.clone()),
                show_policy: false,
            };
            args.access(|_| ())
        };
        let names = |text: &str| {
            let access = access(text).unwrap();
            [access.keys, access.digest_keys].map(|keys| keys.names().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names("key-file = \"all\""), ["any", "any"]);
        assert_eq!(names("[services.digests.keys]\nprobe-1 = \"p\""), ["", "probe-1"]);
        assert_eq!(
            names("key-file = \"all\"\n[services.digests.keys]\nprobe-1 = \"p\""),
            ["any", "probe-1 any"]
        );
        assert_eq!(names("[services.jitlat.keys]\nprobe-1 = \"p\""), ["probe-1", ""]);
        let with_own = access("key-file = \"all\"\n[services.digests]\nkey-file = \"own\"").unwrap();
        assert_eq!(with_own.digest_keys.names().count(), 1, "its own takes the place of that of all");
        assert_ne!(with_own.keys, with_own.digest_keys);
        assert!(
            access("[services.lamp.keys]\nprobe-1 = \"p\"")
                .unwrap_err()
                .to_string()
                .contains("services.lamp.keys")
        );
    }
}
