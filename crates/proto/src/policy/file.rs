//! [`PolicyFile`]: reads and writes a policy in TOML.
//!
//! ```
//! use jitlat_proto::policy::file::{PolicyFile, write};
//! use jitlat_proto::policy::{Policy, SERVICES, STAMP};
//!
//! let text = "deny = [\"192.0.2.0/24\"]\n[services.stamp.client]\npackets = \"2k/s\"";
//! let mut policy = Policy::default();
//! PolicyFile::parse(text)?.apply(&mut policy, SERVICES)?;
//! assert_eq!(policy.service(STAMP).client.packets, Some(2000));
//!
//! let mut again = Policy::default();
//! let files = PolicyFile::default();
//! PolicyFile::parse(&write(&policy, SERVICES, |_| true, &files))?.apply(&mut again, SERVICES)?;
//! assert_eq!(again.service(STAMP), policy.service(STAMP));
//! # Ok::<(), jitlat_proto::policy::file::FileError>(())
//! ```

use super::{Networks, Policy, Quota, Service, TCP};
use crate::accounts::ClientLimits;
use jitlat_core::prefix::Prefix;
use jitlat_core::quantity::{self, QuantityError};
use jitlat_core::time::{SECOND, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A policy file. Rules that are not in the file stay unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PolicyFile {
    allow: Vec<String>,
    deny: Vec<String>,
    /// File with the key for one-way tests and digests; `None`: not set.
    pub key_file: Option<PathBuf>,
    client: QuotaTable,
    total: QuotaTable,
    /// Rules of services, by name.
    pub services: BTreeMap<String, ServiceTable>,
}

/// Rules of a service in a [`PolicyFile`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServiceTable {
    serve: Option<bool>,
    open: Option<bool>,
    allow: Vec<String>,
    deny: Vec<String>,
    /// File with the service's key or users; `None`: not set.
    pub key_file: Option<PathBuf>,
    /// Key files, by peer name (one-way tests, IRTT, digests) or by network (STAMP).
    pub keys: BTreeMap<String, PathBuf>,
    client: QuotaTable,
    total: QuotaTable,
    /// Limits of one connection.
    connection: RateTable,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RateTable {
    packets: Option<Amount>,
    bytes: Option<Amount>,
}

#[derive(Clone, Debug, Default, Deserialize)]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

/// Error in a policy file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file is not TOML, or contains unknown names.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// The service does not exist.
    #[error("there is no service '{name}'; the services are: {services}")]
    Service {
        /// Name in the file.
        name: String,
        /// Names of all services.
        services: String,
    },
    /// The text is not a network.
    #[error("'{0}' is not a network: write an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32")]
    Network(String),
    /// This service does not support limits per connection.
    #[error("services.{0}.connection: only {TCP} limits each connection; use services.{0}.client instead")]
    Connection(String),
    /// An amount cannot be parsed.
    #[error("{table}")]
    Amount {
        /// Table that contains the amount.
        table: String,
        /// Reason why the amount cannot be parsed.
        source: QuantityError,
    },
}

/// Returns the service in `services` that has this name.
///
/// # Errors
/// [`FileError::Service`] if it does not exist.
pub fn service(name: &str, services: &[Service]) -> Result<Service, FileError> {
    let unknown = || FileError::Service { name: name.to_owned(), services: services.join(", ") };
    services.iter().copied().find(|s| *s == name).ok_or_else(unknown)
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
    /// Parses the text of a policy file.
    ///
    /// # Errors
    /// [`FileError::Toml`]
    pub fn parse(text: &str) -> Result<PolicyFile, FileError> {
        Ok(toml::from_str(text)?)
    }

    /// Resolves relative names of key files against `folder`.
    pub fn relative_to(mut self, folder: &Path) -> PolicyFile {
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        self.key_file.iter_mut().for_each(resolve);
        for rules in self.services.values_mut() {
            rules.key_file.iter_mut().chain(rules.keys.values_mut()).for_each(resolve);
        }
        self
    }

    /// Applies the file's rules to `policy`, whose services are `services`.
    ///
    /// # Errors
    /// [`FileError`]; some rules may have been applied.
    pub fn apply(&self, policy: &mut Policy, services: &[Service]) -> Result<(), FileError> {
        let fault = |table: &str, source| FileError::Amount { table: table.to_owned(), source };
        networks(&mut policy.networks, &self.allow, &self.deny)?;
        self.client.apply(&mut policy.client).map_err(|e| fault("client", e))?;
        self.total.apply(&mut policy.total).map_err(|e| fault("total", e))?;
        for (name, table) in &self.services {
            let rules = policy.service(service(name, services)?);
            rules.off = table.serve.map_or(rules.off, |serve| !serve);
            rules.open = table.open.unwrap_or(rules.open);
            networks(&mut rules.networks, &table.allow, &table.deny)?;
            table
                .client
                .apply(&mut rules.client)
                .and_then(|()| table.total.apply(&mut rules.total))
                .and_then(|()| table.connection.apply(&mut rules.connection))
                .map_err(|e| fault(&format!("services.{name}"), e))?;
            if name != TCP && !table.connection.is_empty() {
                return Err(FileError::Connection(name.clone()));
            }
        }
        Ok(())
    }
}

fn networks(networks: &mut Networks, allow: &[String], deny: &[String]) -> Result<(), FileError> {
    for (list, texts) in [(&mut networks.allow, allow), (&mut networks.deny, deny)] {
        for text in texts {
            list.push(text.parse().map_err(|()| FileError::Network(text.clone()))?);
        }
    }
    Ok(())
}

impl RateTable {
    fn is_empty(&self) -> bool {
        self.packets.is_none() && self.bytes.is_none()
    }

    fn apply(&self, limits: &mut ClientLimits) -> Result<(), QuantityError> {
        if let Some(amount) = &self.packets {
            limits.packets_per_second = quantity::packet_rate(&amount.text())?;
        }
        if let Some(amount) = &self.bytes {
            limits.bytes_per_second = quantity::bytes(&amount.text())?;
        }
        Ok(())
    }
}

impl QuotaTable {
    fn apply(&self, quota: &mut Quota) -> Result<(), QuantityError> {
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

/// Formats `policy` as a policy file, with a section for each of `services`. `serves` returns true for
/// services that this server offers. `files` provides the names of key files.
pub fn write(
    policy: &Policy,
    services: &[Service],
    serves: impl Fn(Service) -> bool,
    files: &PolicyFile,
) -> String {
    let mut text = String::from("# Access policy of jitlat serve: see docs/security.md\n");
    text += &lists(&policy.networks);
    let key_file = |path: &Option<PathBuf>| path.as_deref().map(name_of);
    text += &entries([("key-file", key_file(&files.key_file))]);
    text += &quota("client", &policy.client);
    text += &quota("total", &policy.total);
    for service in services {
        let rules = policy.services.get(service).cloned().unwrap_or_default();
        let _ = write!(text, "\n[services.{service}]\nserve = {}\n", !rules.off && serves(service));
        let _ = writeln!(text, "open = {}", rules.open);
        text += &lists(&rules.networks);
        if let Some(table) = files.services.get(*service) {
            text += &entries([("key-file", key_file(&table.key_file))]);
            let keys =
                table.keys.iter().map(|(peer, path)| format!("{} = {}\n", quoted(peer), name_of(path)));
            let keys: String = keys.collect();
            if !keys.is_empty() {
                let _ = write!(text, "\n[services.{service}.keys]\n{keys}");
            }
        }
        text += &quota(&format!("services.{service}.client"), &rules.client);
        text += &quota(&format!("services.{service}.total"), &rules.total);
        let limit = |rate: u64, unlimited: u64| Some(rate).filter(|rate| *rate != unlimited);
        let (own, unlimited) = (rules.connection, ClientLimits::UNLIMITED);
        let packets = limit(own.packets_per_second.into(), unlimited.packets_per_second.into());
        let bytes = limit(own.bytes_per_second, unlimited.bytes_per_second);
        let connection = [("packets", packets.map(most)), ("bytes", bytes.map(most))];
        text += &rows(&format!("services.{service}.connection"), connection);
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
    // Formatted exactly: as fractional seconds, durations of more than some months would be rounded.
    let time = |span: Span| match span.0 % SECOND {
        0 => format!("\"{}s\"", span.0 / SECOND),
        _ => format!("\"{}ns\"", span.0),
    };
    let limits = [
        ("packets", quota.packets.map(|n| n.to_string())),
        ("bytes", quota.bytes.map(most)),
        ("connections", quota.connections.map(|n| most(n as u64))),
        ("sessions", quota.sessions.map(|n| most(n as u64))),
        ("memory", quota.memory.map(most)),
        ("duration", quota.duration.map(time)),
    ];
    rows(name, limits)
}

/// Formats a number, limited to the largest integer in TOML.
fn most(n: u64) -> String {
    n.min(i64::MAX as u64).to_string()
}

/// Formats a table of the rows that have a value; returns an empty string if there are none.
fn rows<const N: usize>(name: &str, rows: [(&str, Option<String>); N]) -> String {
    let rows = entries(rows);
    if rows.is_empty() { rows } else { format!("\n[{name}]\n{rows}") }
}

/// Formats the rows that have a value.
fn entries<const N: usize>(rows: [(&str, Option<String>); N]) -> String {
    rows.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?))).collect()
}

/// Formats a file name as a TOML string.
fn name_of(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Formats `text` as a TOML string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_ascii_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::SERVICES;
    use super::*;

    fn applied(text: &str) -> Result<Policy, FileError> {
        let mut policy = Policy::default();
        PolicyFile::parse(text)?.apply(&mut policy, SERVICES).map(|()| policy)
    }

    #[test]
    fn a_policy_that_is_shown_can_be_read_again() {
        let mut policy = Policy::default();
        policy.networks.deny.push("192.0.2.0/24".parse().unwrap());
        policy.service("stamp").open = true;
        policy.service("lamp").off = true;
        policy.service("tcp").networks.allow.push("2001:db8::/32".parse().unwrap());
        let twamp = &mut policy.service("twamp").client;
        (twamp.packets, twamp.duration) = (Some(10), Some(Span::seconds(90)));
        policy.total.duration = Some(Span(20_000_000_000_000_001));
        (policy.total.bytes, policy.client.sessions) = (Some(i64::MAX as u64), Some(i64::MAX as usize));
        policy.service(TCP).connection.packets_per_second = 3;
        let names = "key-file = \"all\"\n[services.digests]\nkey-file = \"a \\\"b\\\\c\\u0007\"\n[services.irtt.keys]\n\"x y\" = \"k\"";
        let files = PolicyFile::parse(names).unwrap();
        let shown = write(&policy, SERVICES, |_| true, &files);
        let read = applied(&shown).unwrap();
        let again = PolicyFile::parse(&shown).unwrap();
        assert_eq!(again.key_file, files.key_file);
        for (service, table) in &files.services {
            assert_eq!(
                (&again.services[service].key_file, &again.services[service].keys),
                (&table.key_file, &table.keys)
            );
        }
        for service in SERVICES {
            assert_eq!(read.services[service], *policy.service(service));
        }
        let endless = Quota { memory: Some(u64::MAX), ..Quota::default() };
        assert!(PolicyFile::parse(&quota("total", &endless)).is_ok());
        assert_eq!((read.networks, read.client, read.total), (policy.networks, policy.client, policy.total));
    }

    #[test]
    fn amounts_have_units_and_mistakes_are_named() {
        let text = "[services.stamp.client]\npackets = \"2k/s\"\nbytes = \"1M\"\n[total]\nmemory = \"2G\"\nduration = \"1h\"";
        let mut policy = applied(text).unwrap();
        assert_eq!((policy.total.memory, policy.total.duration), (Some(2 << 30), Some(Span::seconds(3600))));
        assert_eq!(policy.service("stamp").client.packets, Some(2000));
        for (bad, named) in [
            ("[services.ntp]\nserve = true", "'ntp'"),
            ("[services.stamp]\nserv = true", "serv"),
            ("allow = [\"everybody\"]", "everybody"),
            ("[client]\npackets = \"many\"", "many"),
            ("[services.twamp.connection]\npackets = 1", "only tcp"),
        ] {
            let error = applied(bad).unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(format!("{error} {cause}").contains(named), "{error}");
        }
    }
}
