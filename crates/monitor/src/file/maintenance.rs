//! Section of the file about maintenance: times in which no alert begins to fire.

use super::Sections;
use super::hosts::selected;
use super::keys::{MAINTENANCE, choose};
use super::reader::Located;
use super::tests::window;
use crate::model::{Host, Maintenance, MonitoredCapture, MonitoredTest};

pub fn maintenance(
    file: &Sections<'_>,
    hosts: &[Host],
    tests: &[MonitoredTest],
    captures: &[MonitoredCapture],
) -> Vec<Maintenance> {
    let targets = tests.iter().flat_map(|test| &test.pairs.targets).map(String::as_str);
    let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).chain(targets).collect();
    let names: Vec<&str> =
        tests.iter().map(|test| test.name.as_str()).chain(captures.iter().map(|c| c.name.as_str())).collect();
    let read = |table: &super::reader::TableReader<'_>| {
        let chosen = table.texts("test").unwrap_or_default();
        for name in chosen.iter().filter(|name| !names.contains(&name.get_ref().as_str())) {
            let meant = choose(name.get_ref(), &names);
            file.faults
                .add(&name.span(), format!("unknown test '{}': {meant}", name.get_ref().escape_debug()));
        }
        let one = Maintenance {
            hosts: selected(file, table, hosts, &known),
            tests: chosen.into_iter().map(Located::into_inner).collect(),
            from: table.moment("from"),
            to: table.moment("to"),
            window: window(file, table),
        };
        if !["from", "to", "days", "hours"].iter().any(|key| table.has(key)) {
            table.missing(
                "from",
                "from = 2026-12-24T22:00:00Z and to, or days and hours that repeat every week",
            );
        }
        if one.from.zip(one.to).is_some_and(|(from, to)| to <= from) {
            table.fault("to", "the maintenance ends before it begins: swap 'from' and 'to'");
        }
        one
    };
    file.tables(&MAINTENANCE).iter().map(read).collect()
}
