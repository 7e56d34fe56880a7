//! The access policy of `jitlat serve`: its options, its file in TOML, and how it is shown.

use crate::options::{key, read_key_file};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitlat_core::passive::Prefix;
use jitlat_core::{Span, quantity};
use jitlat_instruments::arguments::NamedFile;
use jitlat_instruments::ping::PROTOCOLS;
use jitlat_instruments::serve::Policy;
use jitlat_proto::jitlat::{Key, Keys};
use jitlat_proto::policy::{DIGESTS, Networks, ONE_WAY, Quota, SERVICES, Service};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
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
    /// Of other services, by name.
    pub key_files: BTreeMap<Service, NamedFile>,
}

impl AccessArgs {
    /// The policy: that of the file, or `usual`, with the limits of `given` that are not the usual ones.
    pub fn access(&self, given: &Policy, usual: &Policy) -> Result<Access> {
        let file = match &self.policy {
            Some(path) => {
                let name = path.display();
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("reading the policy {name}"))?;
                let file: PolicyFile = toml::from_str(&text).with_context(|| format!("the policy {name}"))?;
                // Key files are looked for beside the policy.
                file.beside(path.parent().unwrap_or(Path::new("")))
            }
            None => PolicyFile::default(),
        };
        let mut policy = usual.clone();
        file.apply(&mut policy)?;
        policy.apply_changes(given, usual);
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
            for (peer, path) in &rules.keys {
                if name != ONE_WAY {
                    bail!(
                        "services.{name}.keys: only {ONE_WAY} has keys by peer; the users of twamp are in its key file"
                    );
                }
                keys.add(peer, key(path)?);
            }
            match (&rules.key_file, name) {
                (None, _) => {}
                (Some(path), ONE_WAY) => keys.add("any", key(path)?),
                (Some(path), DIGESTS) => digest_key = Some(key(path)?),
                (Some(path), _) => {
                    key_files.insert(name, read_key_file(path)?);
                }
            }
        }
        Ok(Access { policy, keys, digest_key, key_files })
    }
}

/// Every service, with protocols that have no rules of their own yet.
fn services() -> impl Iterator<Item = Service> {
    let answered = PROTOCOLS.iter().filter(|p| p.server.is_some()).map(|p| p.name);
    SERVICES.iter().copied().chain(answered.filter(|name| !SERVICES.contains(name)))
}

fn service(name: &str) -> Result<Service> {
    let known = || services().collect::<Vec<_>>().join(", ");
    services()
        .find(|s| *s == name)
        .ok_or_else(|| anyhow!("there is no service '{name}'; these are: {}", known()))
}

/// A policy file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct PolicyFile {
    allow: Vec<String>,
    deny: Vec<String>,
    key_file: Option<PathBuf>,
    client: QuotaTable,
    total: QuotaTable,
    services: BTreeMap<String, ServiceTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ServiceTable {
    serve: Option<bool>,
    open: Option<bool>,
    allow: Vec<String>,
    deny: Vec<String>,
    key_file: Option<PathBuf>,
    /// Key files of one-way tests, by the name of the peer.
    keys: BTreeMap<String, PathBuf>,
    client: QuotaTable,
    total: QuotaTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct QuotaTable {
    packets: Option<Amount>,
    bytes: Option<Amount>,
    connections: Option<usize>,
    sessions: Option<usize>,
    memory: Option<Amount>,
    duration: Option<Amount>,
}

/// A number, or a text with a unit.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

impl Amount {
    fn text(&self) -> String {
        match self {
            Amount::Number(number) => number.to_string(),
            Amount::Text(text) => text.clone(),
        }
    }
}

impl PolicyFile {
    /// With the names of its files relative to `folder`.
    fn beside(mut self, folder: &Path) -> PolicyFile {
        let place = |path: &mut PathBuf| *path = folder.join(&*path);
        self.key_file.iter_mut().for_each(place);
        for rules in self.services.values_mut() {
            rules.key_file.iter_mut().chain(rules.keys.values_mut()).for_each(place);
        }
        self
    }

    fn apply(&self, policy: &mut Policy) -> Result<()> {
        networks(&mut policy.networks, &self.allow, &self.deny)?;
        self.client.apply(&mut policy.client).context("client")?;
        self.total.apply(&mut policy.total).context("total")?;
        for (name, table) in &self.services {
            let rules = policy.service(service(name)?);
            rules.off = table.serve.map_or(rules.off, |serve| !serve);
            rules.open = table.open.unwrap_or(rules.open);
            networks(&mut rules.networks, &table.allow, &table.deny)
                .and_then(|()| table.client.apply(&mut rules.client))
                .and_then(|()| table.total.apply(&mut rules.total))
                .with_context(|| format!("services.{name}"))?;
        }
        Ok(())
    }
}

fn networks(networks: &mut Networks, allow: &[String], deny: &[String]) -> Result<()> {
    for (list, texts) in [(&mut networks.allow, allow), (&mut networks.deny, deny)] {
        for text in texts {
            list.push(network(text).map_err(|why| anyhow!("'{text}' is not a network: {why}"))?);
        }
    }
    Ok(())
}

impl QuotaTable {
    fn apply(&self, quota: &mut Quota) -> Result<()> {
        if let Some(amount) = &self.packets {
            quota.packets = Some(quantity::packet_rate(&amount.text())?);
        }
        if let Some(amount) = &self.bytes {
            quota.bytes = Some(quantity::bytes(&amount.text())?);
        }
        if let Some(amount) = &self.memory {
            quota.memory = Some(quantity::bytes(&amount.text())?);
        }
        if let Some(amount) = &self.duration {
            quota.duration = Some(quantity::duration(&amount.text())?);
        }
        quota.connections = self.connections.or(quota.connections);
        quota.sessions = self.sessions.or(quota.sessions);
        Ok(())
    }
}

/// The policy in the form of its file.
pub fn show(policy: &Policy, serves: impl Fn(Service) -> bool) -> String {
    let mut text = String::from("# What jitlat serve grants: docs/security.md\n");
    text += &lists(&policy.networks);
    text += &quota("client", &policy.client);
    text += &quota("total", &policy.total);
    for service in services() {
        let rules = policy.services.get(service).cloned().unwrap_or_default();
        let _ = write!(text, "\n[services.{service}]\nserve = {}\n", !rules.off && serves(service));
        let _ = writeln!(text, "open = {}", rules.open);
        text += &lists(&rules.networks);
        text += &quota(&format!("services.{service}.client"), &rules.client);
        text += &quota(&format!("services.{service}.total"), &rules.total);
    }
    text
}

fn lists(networks: &Networks) -> String {
    let list = |name: &str, prefixes: &[Prefix]| {
        let quoted: Vec<String> = prefixes.iter().map(|p| format!("\"{p}\"")).collect();
        format!("{name} = [{}]\n", quoted.join(", "))
    };
    list("allow", &networks.allow) + &list("deny", &networks.deny)
}

fn quota(name: &str, quota: &Quota) -> String {
    let seconds = |span: Span| format!("\"{}s\"", span.as_seconds());
    let rows = [
        ("packets", quota.packets.map(|n| n.to_string())),
        ("bytes", quota.bytes.map(|n| n.to_string())),
        ("connections", quota.connections.map(|n| n.to_string())),
        ("sessions", quota.sessions.map(|n| n.to_string())),
        ("memory", quota.memory.map(|n| n.to_string())),
        ("duration", quota.duration.map(seconds)),
    ];
    let rows: String =
        rows.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?))).collect();
    if rows.is_empty() { rows } else { format!("\n[{name}]\n{rows}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_is_shown_can_be_read_again() {
        let mut policy = Policy::default();
        policy.networks.deny.push("192.0.2.0/24".parse().unwrap());
        policy.service("stamp").open = true;
        policy.service("lamp").off = true;
        policy.service("tcp").networks.allow.push("2001:db8::/32".parse().unwrap());
        let twamp = &mut policy.service("twamp").client;
        (twamp.packets, twamp.duration) = (Some(10), Some(Span::seconds(90)));
        SERVICES.iter().for_each(|service| policy.service(service).open |= false);
        let file: PolicyFile = toml::from_str(&show(&policy, |_| true)).unwrap();
        let mut read = Policy::default();
        file.apply(&mut read).unwrap();
        SERVICES.iter().for_each(|service| read.service(service).open |= false);
        assert_eq!(read, policy);
    }

    #[test]
    fn amounts_have_units_and_mistakes_are_named() {
        let apply = |text: &str| {
            let mut policy = Policy::default();
            let file: PolicyFile = toml::from_str(text)?;
            file.apply(&mut policy).map(|()| policy)
        };
        let text = "[services.stamp.client]\npackets = \"2k/s\"\nbytes = \"1M\"\n[total]\nmemory = \"2G\"\nduration = \"1h\"";
        let mut policy = apply(text).unwrap();
        assert_eq!((policy.total.memory, policy.total.duration), (Some(2 << 30), Some(Span::seconds(3600))));
        assert_eq!(policy.service("stamp").client.packets, Some(2000));
        for (bad, named) in [
            ("[services.ntp]\nserve = true", "'ntp'"),
            ("[services.stamp]\nserv = true", "serv"),
            ("allow = [\"everybody\"]", "everybody"),
            ("[client]\npackets = \"many\"", "many"),
        ] {
            let error = format!("{:#}", apply(bad).unwrap_err());
            assert!(error.contains(named), "{error}");
        }
    }
}
