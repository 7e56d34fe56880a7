//! Sections of the file about collectors: hosts that receive the tests of other hosts.

use super::Sections;
use super::hosts::pause;
use super::keys::{COLLECTOR, choose};
use super::reader::{Located, TableReader};
use crate::model::{
    ArchiveRules, CollectorQuota, CollectorRules, CollectorTrust, CollectorUrl, Host, HostCertificate,
    KeySource,
};
use jitlat_core::far_host::FarHost;
use jitlat_core::prefix::Prefix;
use jitlat_core::{Span, quantity};
use std::collections::HashMap;

/// Default TCP port of a collector.
const DEFAULT_PORT: u32 = 2670;
/// Example of the key `url`.
const EXAMPLE_URL: &str = "url = \"https://collector.example/jitlat\"";
/// Default limit for unsent packets stored on a pushing host, in bytes.
const DEFAULT_SPOOL_BYTES: u64 = 1_000_000_000;

/// Default maximum time by which a log may be dated after its arrival.
const DEFAULT_SKEW: Span = Span::seconds(3600);

pub fn collectors(file: &Sections<'_>, hosts: &[Host], archive: &ArchiveRules) -> Vec<CollectorRules> {
    let mut collectors: Vec<CollectorRules> = Vec::new();
    let by_name: HashMap<&str, usize> =
        hosts.iter().enumerate().rev().map(|(k, host)| (host.name.as_str(), k)).collect();
    let index = |name: &Located<String>| host_index(file, &by_name, name);
    for table in file.tables(&COLLECTOR) {
        let host = table.needed("host", "host = \"berlin\"").and_then(|name| index(&name));
        let port = table.number("port").unwrap_or(DEFAULT_PORT);
        if u16::try_from(port).is_err() {
            table.fault("port", format!("port {port} does not exist: write 1 to 65535"));
        }
        let spool = table.quantity("spool", quantity::bytes).map_or(DEFAULT_SPOOL_BYTES, Located::into_inner);
        if archive.folder.is_none() {
            let message = "pushing and collecting need an archive: write [archive] with a folder";
            file.faults.add(&table.at, message);
        }
        let Some(host) = host else { continue };
        if collectors.iter().any(|other| other.host == host) {
            table.fault("host", format!("{} is already a collector", hosts[host].name));
        }
        let from = match table.texts("from") {
            Some(names) => names.iter().filter_map(index).collect(),
            None => (0..hosts.len()).filter(|k| *k != host).collect::<Vec<usize>>(),
        };
        if from.contains(&host) {
            table.fault("from", format!("{} is the collector itself: leave it out", hosts[host].name));
        }
        check_keys(&table, hosts, &from);
        let host_ca_file = table.needed_if_there("host-ca-file", "host-ca-file = \"hosts.pem\"");
        check_certificates(&table, hosts, &from, host_ca_file.is_some());
        let url = url(&table);
        let trust = trust(&table, url.as_ref());
        collectors.push(CollectorRules {
            host,
            port: u16::try_from(port).unwrap_or(0),
            url,
            plain: table.truth("plain").unwrap_or(false),
            from,
            spool,
            trust,
            certificate: table.needed_if_there("certificate", "certificate = \"collector.pem\""),
            host_ca_file,
            proxies: proxies(&table),
            skew: table.quantity("skew", pause).map_or(DEFAULT_SKEW, Located::into_inner),
            quota: quota(&table),
        });
    }
    collectors
}

/// Reads the address of a proxy in front of the collector.
fn url(table: &TableReader<'_>) -> Option<CollectorUrl> {
    let text = table.needed_if_there("url", EXAMPLE_URL)?;
    let plain = table.truth("plain").unwrap_or(false);
    let secure = text.strip_prefix("https://").map(|rest| (rest, 443));
    let in_clear = text.strip_prefix("http://").filter(|_| plain).map(|rest| (rest, 80));
    let is_secure = secure.is_some();
    let parsed = secure.or(in_clear).and_then(|(rest, usual)| {
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = path.trim_end_matches('/');
        let is_path = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/".contains(&b));
        let far: FarHost = host.parse().ok()?;
        (is_path && far.not_one_host().is_none()).then(|| CollectorUrl {
            host: far.name,
            port: far.port.unwrap_or(usual),
            is_secure,
            prefix: if prefix.is_empty() { String::new() } else { format!("/{prefix}") },
        })
    });
    if parsed.is_none() {
        let plainly = if plain { ", and http:// with plain = true" } else { "" };
        table.fault("url", format!("this is not the address of a proxy: write {EXAMPLE_URL}{plainly}"));
    }
    parsed
}

/// Reads the networks of the proxies in front of the collector.
fn proxies(table: &TableReader<'_>) -> Vec<Prefix> {
    let networks = table.proxies("behind-proxy");
    if networks.as_ref().is_some_and(Vec::is_empty) {
        table.fault("behind-proxy", "name the addresses of the proxy, because hosts may also connect directly: write behind-proxy = [\"127.0.0.1\"]");
    }
    networks.unwrap_or_default()
}

/// Reads the method by which hosts check the collector's certificate.
fn trust(table: &TableReader<'_>, url: Option<&CollectorUrl>) -> CollectorTrust {
    // A proxy in front of a collector without TLS may offer TLS to the hosts.
    let in_clear = table.truth("plain").unwrap_or(false) && url.is_none_or(|url| !url.is_secure);
    let pin = table.needed_if_there("pin", "pin = \"sha256:…\"");
    let file = table.needed_if_there("ca-file", "ca-file = \"authority.pem\"");
    if pin.as_deref().is_some_and(|pin| !is_fingerprint(pin)) {
        let message =
            "write the fingerprint that the collector prints at its start: sha256: and 64 hexadecimal digits";
        table.fault("pin", message);
    }
    match (pin, file, in_clear) {
        (Some(pin), None, false) => CollectorTrust::Pin(pin),
        (None, Some(file), false) => CollectorTrust::CaFile(file),
        (None, None, true) => CollectorTrust::Plain,
        (None, None, false) => CollectorTrust::System,
        (_, Some(_), _) => {
            table.fault("ca-file", "'pin', 'ca-file' and 'plain' cannot be combined: choose one");
            CollectorTrust::System
        }
        _ => {
            table.fault("pin", "'pin', 'ca-file' and 'plain' cannot be combined: choose one");
            CollectorTrust::System
        }
    }
}

/// True if `text` has the form of a fingerprint.
pub fn is_fingerprint(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    let digits: Vec<char> = digits.chars().filter(|c| *c != ':').collect();
    digits.len() == 64 && digits.iter().all(char::is_ascii_hexdigit)
}

/// Reads the limits on the tests that each host pushes.
fn quota(table: &TableReader<'_>) -> CollectorQuota {
    let bytes = |key| table.quantity(key, quantity::bytes).map(Located::into_inner);
    CollectorQuota {
        tests_per_second: table.number("tests-per-second"),
        bytes_per_day: bytes("bytes-per-day"),
        bytes: bytes("bytes"),
    }
}

/// Returns the index of the host `name`; unknown names are faults.
fn host_index(file: &Sections<'_>, by_name: &HashMap<&str, usize>, name: &Located<String>) -> Option<usize> {
    let found = by_name.get(name.get_ref().as_str()).copied();
    if found.is_none() {
        let mut names: Vec<&str> = by_name.keys().copied().collect();
        names.sort_unstable();
        let meant = choose(name.get_ref(), &names);
        file.faults.add(&name.span(), format!("unknown host '{}': {meant}", name.get_ref().escape_debug()));
    }
    found
}

/// Checks that every host that pushes without a certificate has its own key, by which the collector identifies it.
fn check_keys(table: &TableReader<'_>, hosts: &[Host], from: &[usize]) {
    let keyless: Vec<&str> = from
        .iter()
        .map(|k| &hosts[*k])
        .filter(|h| h.key.is_none() && h.certificate.is_none())
        .map(|h| h.name.as_str())
        .collect();
    if !keyless.is_empty() {
        table.fault(
            "from",
            format!(
                "a collector identifies hosts by their keys: give {} its own key (key-file = \"NAME.key\" in [[host]])",
                keyless.join(", ")
            ),
        );
    }
    let mut known: HashMap<&KeySource, usize> = HashMap::new();
    for one in from {
        let Some(key) = &hosts[*one].key.as_ref().filter(|_| hosts[*one].certificate.is_none()) else {
            continue;
        };
        if let Some(other) = known.insert(key, *one).filter(|other| other != one) {
            let (a, b) = (&hosts[other].name, &hosts[*one].name);
            table.fault(
                "from",
                format!("{a} and {b} have the same key, so each could push as the other: give each host its own key"),
            );
        }
    }
}

/// Checks that the collector can recognise every certificate with which a host pushes.
fn check_certificates(table: &TableReader<'_>, hosts: &[Host], from: &[usize], has_authorities: bool) {
    let own = |host: &usize| hosts[*host].certificate.as_ref().map(|own| (&hosts[*host].name, own));
    let certified: Vec<_> = from.iter().filter_map(own).collect();
    let names = |of: &[(&String, &HostCertificate)]| {
        of.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if table.truth("plain").unwrap_or(false) && !certified.is_empty() {
        let all = names(&certified);
        table.fault("plain", format!("without TLS the certificate of {all} cannot be checked: leave out 'plain', or let these hosts push with keys"));
    }
    let unknown: Vec<_> = certified.into_iter().filter(|(_, own)| own.pins.is_empty()).collect();
    if !has_authorities && !unknown.is_empty() {
        let all = names(&unknown);
        table.fault("from", format!("the collector cannot recognise the certificate of {all}: write its fingerprint (pin in [[host]]), or name the authority that has signed it (host-ca-file)"));
    }
}
