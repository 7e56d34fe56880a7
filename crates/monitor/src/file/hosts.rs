//! Sections of the file about hosts, their servers, their archives and the timetable.

use super::collectors::is_fingerprint;
use super::keys::{ARCHIVE, HOST, SERVE, TIMETABLE, choose};
use super::reader::{Located, TableReader};
use super::{Instruments, OptionValue, Sections, key_source};
use crate::model::{ArchiveRules, Host, HostCertificate, ServeRules};
use crate::window::DAY;
use jitlat_core::Span;
use jitlat_core::far_host::FarHost;
use jitlat_core::quantity::{self, QuantityError};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Default time between slots.
const DEFAULT_GUARD: Span = Span::seconds(1);
/// Default time of a slot before and after the packets, for set-up and results.
const DEFAULT_SETUP: Span = Span::seconds(4);

/// Maximum number of concurrent tests of a host.
const MAX_CONCURRENT: u32 = 64;

pub fn hosts(file: &Sections<'_>) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    let (mut names, mut addresses, mut pins) = (HashSet::new(), HashMap::new(), HashMap::new());
    for table in file.tables(&HOST) {
        let name = table.needed("name", "name = \"berlin\"");
        let address = table.needed("address", "address = \"192.0.2.7\"");
        match address.as_ref().map(|address| address.get_ref().parse::<FarHost>()) {
            Some(Err(e)) => table.fault("address", e.to_string()),
            Some(Ok(FarHost { name, port: Some(port) })) => {
                let why =
                    format!("write {name} without :{port}: the ports are options of tests and of [serve]");
                table.fault("address", why);
            }
            Some(Ok(host)) => {
                if let Some(why) = host.not_one_host() {
                    table.fault("address", why);
                }
                let of = name.as_ref().map_or_else(String::new, |name| name.get_ref().clone());
                let written = host.name.trim_end_matches('.').to_ascii_lowercase();
                if let Some(other) = addresses.insert(written, of) {
                    let message = format!(
                        "{} is also the address of {}: tests and pushes could not tell these hosts apart",
                        host.name,
                        other.escape_debug()
                    );
                    table.fault("address", message);
                }
            }
            None => {}
        }
        let bandwidth = table.quantity("bandwidth", quantity::bit_rate).map(Located::into_inner);
        let concurrent = table.number("concurrent").unwrap_or(1);
        if concurrent > MAX_CONCURRENT {
            table.fault(
                "concurrent",
                format!("a host can take part in at most {MAX_CONCURRENT} tests at the same time"),
            );
        }
        let site = table.needed_if_there("site", "site = \"berlin\"");
        let labels = labels(file, &table);
        let key = key_source(&table);
        let certificate = certificate(file, &table, hosts.len(), &mut pins);
        // Keep an unnamed entry in the list: the indices of the other hosts must stay correct.
        let name = name.map(Located::into_inner).unwrap_or_default();
        if !name.is_empty() && !names.insert(name.to_ascii_lowercase()) {
            table.fault(
                "name",
                format!("another host has the name '{}': choose another name", name.escape_debug()),
            );
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
            let message =
                "a name has only ASCII letters, digits and '-._', so that no name looks like another";
            table.fault("name", message);
        }
        hosts.push(Host {
            name,
            address: address.map(Located::into_inner).unwrap_or_default(),
            key,
            certificate,
            bandwidth,
            concurrent,
            site,
            labels,
        });
    }
    if hosts.is_empty() && !file.root.iter().any(|(k, _)| k.get_ref() == HOST.name) {
        let example = "write a [[host]] section with name and address for each host";
        file.faults.add(&(0..0), format!("the file has no hosts: {example}"));
    }
    hosts
}

/// Reads the certificate of the host `index`. `pins` contains the fingerprints of earlier hosts, with their indices.
fn certificate(
    file: &Sections<'_>,
    table: &TableReader<'_>,
    index: usize,
    pins: &mut HashMap<String, usize>,
) -> Option<HostCertificate> {
    let own = table.needed_if_there("certificate", "certificate = \"berlin.pem\"");
    let given = table.texts("pin").unwrap_or_default();
    if own.is_none() && !given.is_empty() {
        let message = "a pin is the fingerprint of the certificate with which the host pushes: name its file, too (certificate = \"berlin.pem\")";
        table.fault("pin", message);
    }
    for pin in &given {
        if !is_fingerprint(pin.get_ref()) {
            let message =
                "write the fingerprint that the host prints at its start: sha256: and 64 hexadecimal digits";
            file.faults.add(&pin.span(), message);
        }
        let digits = pin.get_ref().replace(':', "").to_ascii_lowercase();
        if pins.insert(digits, index).is_some_and(|other| other != index) {
            let message = "another host has this pin, so each could push as the other: give each host its own certificate";
            file.faults.add(&pin.span(), message);
        }
    }
    Some(HostCertificate { file: own?, pins: given.into_iter().map(Located::into_inner).collect() })
}

/// Reads the labels of a host.
fn labels(file: &Sections<'_>, table: &TableReader<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for (name, value) in table.options("labels") {
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !is_name(name.get_ref()) {
            let message = format!(
                "'{}' cannot be the name of a label: it has letters, digits and '_', and does not begin with a digit",
                name.get_ref().escape_debug()
            );
            file.faults.add(&name.span(), message);
        }
        if OWN_LABELS.contains(&name.get_ref().as_str()) {
            let own = name.get_ref();
            file.faults
                .add(&name.span(), format!("the label '{own}' is the key {own} of [[host]]: write it there"));
        }
        match value.get_ref() {
            OptionValue::Text(text) => drop(labels.insert(name.into_inner(), text.clone())),
            _ => file.faults.add(&value.span(), "the value of a label is a string: write role = \"edge\""),
        }
    }
    labels
}

/// Reads the hosts that a section is about: `host`, `site` and `label`; empty if it has none of these keys. `known` are the names of
/// hosts and targets.
pub fn selected(file: &Sections<'_>, table: &TableReader<'_>, hosts: &[Host], known: &[&str]) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::new();
    for name in table.texts("host").unwrap_or_default() {
        if !known.contains(&name.get_ref().as_str()) {
            let meant = choose(name.get_ref(), known);
            file.faults
                .add(&name.span(), format!("unknown host '{}': {meant}", name.get_ref().escape_debug()));
        }
        chosen.push(name.into_inner());
    }
    let sites: BTreeSet<&str> = hosts.iter().filter_map(|host| host.site.as_deref()).collect();
    let sites: Vec<&str> = sites.into_iter().collect();
    for site in table.texts("site").unwrap_or_default() {
        if !sites.contains(&site.get_ref().as_str()) {
            let meant = choose(site.get_ref(), &sites);
            file.faults
                .add(&site.span(), format!("unknown site '{}': {meant}", site.get_ref().escape_debug()));
        }
        let of = hosts.iter().filter(|host| host.site.as_ref() == Some(site.get_ref()));
        chosen.extend(of.map(|host| host.name.clone()));
    }
    for label in table.texts("label").unwrap_or_default() {
        let Some((name, value)) = label.get_ref().split_once('=') else {
            file.faults.add(&label.span(), "a label is written as label = \"role=edge\"");
            continue;
        };
        let of = hosts.iter().filter(|host| host.all_labels().get(name).is_some_and(|own| own == value));
        let before = chosen.len();
        chosen.extend(of.map(|host| host.name.clone()));
        if chosen.len() == before {
            let text = label.get_ref().escape_debug();
            file.faults
                .add(&label.span(), format!("no host has the label '{text}': add it to labels in [[host]]"));
        }
    }
    chosen
}

/// Labels that have keys of their own.
const OWN_LABELS: [&str; 2] = ["site", "name"];

/// Reads guard and setup time.
pub fn timetable(file: &Sections<'_>) -> (Span, Span) {
    let Some(table) = file.table(&TIMETABLE) else { return (DEFAULT_GUARD, DEFAULT_SETUP) };
    let time = |key, usual: Span| {
        let Some(span) = table.quantity(key, pause).map(Located::into_inner) else { return usual };
        if span.0 > DAY / 24 {
            table.fault(key, format!("'{key}' is longer than an hour: write 1h or less"));
            return usual;
        }
        span
    };
    (time("guard", DEFAULT_GUARD), time("setup", DEFAULT_SETUP))
}

pub fn archive(file: &Sections<'_>) -> ArchiveRules {
    let Some(table) = file.table(&ARCHIVE) else { return ArchiveRules::default() };
    let days = |key| table.quantity(key, whole_days).map(Located::into_inner);
    ArchiveRules {
        folder: table.needed("folder", "folder = \"/var/lib/jitlat\"").map(Located::into_inner),
        packets: days("packets"),
        tests: days("tests"),
        size: table.quantity("size", quantity::bytes).map(Located::into_inner),
    }
}

/// Parses a time that may be zero.
pub fn pause(text: &str) -> Result<Span, QuantityError> {
    if quantity::signed_time(text) == Ok(Span::ZERO) { Ok(Span::ZERO) } else { quantity::duration(text) }
}

fn whole_days(text: &str) -> Result<u32, QuantityError> {
    let span = quantity::duration(text)?;
    let days = u32::try_from(span.0 / DAY).ok().filter(|days| *days > 0 && span.0 % DAY == 0);
    days.ok_or_else(|| QuantityError::new(format!("'{text}' is not a whole number of days: write 90d")))
}

pub fn serve(file: &Sections<'_>, instruments: &dyn Instruments) -> ServeRules {
    let usual = ServeRules { on: true, key: None, options: Vec::new() };
    let Some(table) = file.table(&SERVE) else { return usual };
    let given = table.options("options");
    let options = plain(&given);
    if let Err(wrong) = instruments.serve(&options) {
        report_option_fault(file, &table, &given, wrong);
    }
    ServeRules { on: table.truth("on").unwrap_or(true), key: key_source(&table), options }
}

/// Returns options without their positions in the file.
pub fn plain(given: &[(Located<String>, Located<OptionValue>)]) -> Vec<(String, OptionValue)> {
    given.iter().map(|(name, value)| (name.get_ref().clone(), value.get_ref().clone())).collect()
}

/// Reports errors in options at the position of the option.
pub fn report_option_fault(
    file: &Sections<'_>,
    table: &TableReader<'_>,
    given: &[(Located<String>, Located<OptionValue>)],
    wrong: super::EntryError,
) {
    let of = wrong.key.as_deref().unwrap_or("options");
    match given.iter().find(|(name, _)| name.get_ref() == of) {
        Some((name, _)) => file.faults.add(&name.span(), wrong.message),
        None if of == "duration" => table.fault("for", wrong.message),
        None if ["profile", "direction"].contains(&of) => table.fault(of, wrong.message),
        None => table.fault("options", wrong.message),
    }
}
