//! Section of the file about routes between hosts whose changes are recorded.

use super::Sections;
use super::keys::{ROUTE, choose};
use super::reader::{Located, TableReader};
use super::tests::period;
use crate::model::{Host, MonitoredCapture, MonitoredRoute, MonitoredTest};
use jitlat_core::Transport;
use jitlat_core::far_host::FarHost;
use jitlat_core::time::SECOND;

/// Shortest time between two examinations of a route. An examination takes a few seconds.
const LEAST: i64 = 10 * SECOND;

pub fn routes(
    file: &Sections<'_>,
    hosts: &[Host],
    tests: &[MonitoredTest],
    captures: &[MonitoredCapture],
) -> Vec<MonitoredRoute> {
    let mut routes: Vec<MonitoredRoute> = Vec::new();
    for table in file.tables(&ROUTE) {
        let Some(name) = table.needed("name", "name = \"routes\"").map(Located::into_inner) else { continue };
        let others = tests.iter().map(|t| &t.name).chain(captures.iter().map(|c| &c.name));
        if others.chain(routes.iter().map(|r| &r.name)).any(|other| *other == name) {
            table.fault("name", "a test, a capture or another route has this name: choose another name");
        }
        if name.contains(|c: char| c.is_control() || c == '/') {
            table.fault("name", "a name must be one line without '/'");
        }
        let Some(every) = period(&table, LEAST) else { continue };
        let from = from(file, &table, hosts);
        routes.push(MonitoredRoute {
            to: to(file, &table, hosts),
            transport: transport(&table),
            port: port(&table),
            name,
            from,
            every,
        });
    }
    routes
}

fn from(file: &Sections<'_>, table: &TableReader<'_>, hosts: &[Host]) -> Vec<u32> {
    let Some(given) = table.texts("from") else { return (0..hosts.len() as u32).collect() };
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let index = |name: &Located<String>| {
        let found = names.iter().position(|known| known == name.get_ref());
        if found.is_none() {
            let meant = choose(name.get_ref(), &names);
            file.faults
                .add(&name.span(), format!("unknown host '{}': {meant}", name.get_ref().escape_debug()));
        }
        found.map(|k| k as u32)
    };
    given.iter().filter_map(index).collect()
}

fn to(file: &Sections<'_>, table: &TableReader<'_>, hosts: &[Host]) -> Vec<String> {
    let Some(given) = table.texts("to") else { return hosts.iter().map(|host| host.name.clone()).collect() };
    for name in &given {
        let is_host = hosts.iter().any(|host| host.name == *name.get_ref());
        if !is_host && let Err(e) = name.get_ref().parse::<FarHost>() {
            file.faults.add(&name.span(), e.to_string());
        }
    }
    if given.is_empty() {
        table.fault("to", "the list is empty: write to = [\"berlin\", \"192.0.2.1\"]");
    }
    given.into_iter().map(Located::into_inner).collect()
}

fn transport(table: &TableReader<'_>) -> Transport {
    let Some(word) = table.text("proto") else { return Transport::Udp };
    match word.get_ref().as_str() {
        "udp" => Transport::Udp,
        "tcp" => Transport::Tcp,
        other => {
            let meant = choose(other, &["udp", "tcp"]);
            table.fault("proto", format!("'proto' cannot be '{}': {meant}", other.escape_debug()));
            Transport::Udp
        }
    }
}

fn port(table: &TableReader<'_>) -> Option<u16> {
    let port = table.number("port")?;
    let known = u16::try_from(port).ok();
    if known.is_none() {
        table.fault("port", format!("port {port} does not exist: write 1 to 65535"));
    }
    known
}
