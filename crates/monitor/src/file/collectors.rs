//! Collectors: hosts that others push their tests to.

use super::Sections;
use super::keys::{COLLECTOR, choose};
use super::reader::{Located, TableReader};
use crate::model::{ArchiveRules, CollectorRules, Host};
use jitlat_core::quantity;

/// The port unless the file says otherwise.
const DEFAULT_PORT: u32 = 2670;
/// Bytes that may wait unless the file says otherwise.
const DEFAULT_SPOOL_BYTES: u64 = 1_000_000_000;

pub fn collectors(file: &Sections<'_>, hosts: &[Host], archive: &ArchiveRules) -> Vec<CollectorRules> {
    let mut collectors: Vec<CollectorRules> = Vec::new();
    for table in file.tables(&COLLECTOR) {
        let host = table.needed("host", "host = \"berlin\"").and_then(|name| place(file, hosts, &name));
        let port = table.number("port").unwrap_or(DEFAULT_PORT);
        if u16::try_from(port).is_err() {
            table.fault("port", format!("there is no port {port}"));
        }
        let spool = table.quantity("spool", quantity::bytes).map_or(DEFAULT_SPOOL_BYTES, Located::into_inner);
        if archive.folder.is_none() {
            let message = "what waits to be pushed is in the archive, and so is what was collected: write [archive] with a folder";
            file.faults.add(&table.at, message);
        }
        let Some(host) = host else { continue };
        if collectors.iter().any(|other| other.host == host) {
            table.fault("host", format!("{} is a collector already", hosts[host].name));
        }
        let from = match table.texts("from") {
            Some(names) => names.iter().filter_map(|name| place(file, hosts, name)).collect(),
            None => (0..hosts.len()).filter(|k| *k != host).collect::<Vec<usize>>(),
        };
        if from.contains(&host) {
            table.fault("from", format!("{} has its own tests already: leave it out", hosts[host].name));
        }
        check_keys(&table, hosts, &from);
        collectors.push(CollectorRules { host, port: u16::try_from(port).unwrap_or(0), from, spool });
    }
    collectors
}

/// The place of a host.
fn place(file: &Sections<'_>, hosts: &[Host], name: &Located<String>) -> Option<usize> {
    let found = hosts.iter().position(|host| host.name == *name.get_ref());
    if found.is_none() {
        let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
        let meant = choose(name.get_ref(), &names);
        file.faults
            .add(&name.span(), format!("there is no host '{}': {meant}", name.get_ref().escape_debug()));
    }
    found
}

/// Every host that pushes has a key that no other has: by it the collector knows whose tests they are.
fn check_keys(table: &TableReader<'_>, hosts: &[Host], from: &[usize]) {
    let keyless: Vec<&str> =
        from.iter().map(|k| &hosts[*k]).filter(|h| h.key.is_none()).map(|h| h.name.as_str()).collect();
    if !keyless.is_empty() {
        table.fault(
            "from",
            format!(
                "a collector knows who pushes by its key: give {} a key of its own (key-file = \"NAME.key\" in [[host]])",
                keyless.join(", ")
            ),
        );
    }
    for (k, one) in from.iter().enumerate() {
        let same = |other: &&usize| hosts[*one].key.is_some() && hosts[*one].key == hosts[**other].key;
        if let Some(other) = from[..k].iter().find(same) {
            let (a, b) = (&hosts[*other].name, &hosts[*one].name);
            table.fault("from", format!("{a} and {b} have the same key, and each could push as the other"));
        }
    }
}
