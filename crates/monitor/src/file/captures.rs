//! Sections of the file about continuous captures.

use super::hosts::{plain, report_option_fault};
use super::keys::{CAPTURE, choose};
use super::reader::{Located, TableReader};
use super::tests::period;
use super::{DeclaredCapture, Instruments, Sections};
use crate::model::{Host, MonitoredCapture, MonitoredTest, ServeRules};
use jitlat_core::time::SECOND;

/// Shortest period of a capture: packets may be in flight for some seconds.
const MIN_PERIOD_NS: i64 = 5 * SECOND;

pub fn captures(
    file: &Sections<'_>,
    hosts: &[Host],
    tests: &[MonitoredTest],
    serve: &ServeRules,
    instruments: &dyn Instruments,
) -> Vec<MonitoredCapture> {
    let reader = CaptureTableReader { file, hosts, serve, instruments };
    let mut captures: Vec<MonitoredCapture> = Vec::new();
    for table in file.tables(&CAPTURE) {
        let Some(capture) = reader.capture(&table) else { continue };
        let names = tests.iter().map(|t| &t.name).chain(captures.iter().map(|c| &c.name));
        if names.into_iter().any(|name| *name == capture.name) {
            table.fault(
                "name",
                format!(
                    "another test or capture has the name '{}': choose another name",
                    capture.name.escape_debug()
                ),
            );
        }
        captures.push(capture);
    }
    captures
}

struct CaptureTableReader<'a, 'b> {
    file: &'a Sections<'b>,
    hosts: &'a [Host],
    serve: &'a ServeRules,
    instruments: &'a dyn Instruments,
}

impl CaptureTableReader<'_, '_> {
    fn capture(&self, table: &TableReader<'_>) -> Option<MonitoredCapture> {
        let name = table.name("name = \"office\"");
        let hosts = match table.texts("host") {
            Some(names) => names.iter().filter_map(|name| self.host(name)).collect(),
            None => {
                table.missing("host", "host = \"NAME\", the host that captures");
                Vec::new()
            }
        };
        let known = self.instruments.captures();
        let instrument = match table.text("instrument") {
            Some(wanted) => match known.iter().find(|(name, _)| name == wanted.get_ref()) {
                Some(known) => *known,
                None => {
                    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                    let meant = choose(wanted.get_ref(), &names);
                    let text = wanted.get_ref().escape_debug();
                    table.fault("instrument", format!("unknown capture instrument '{text}': {meant}"));
                    return None;
                }
            },
            None => *known.first()?,
        };
        let interface = table.needed("interface", "interface = \"eth0\"").map(Located::into_inner);
        let far_interface = table.needed_if_there("far-interface", "far-interface = \"eth1\"");
        let towards = table.text("towards").and_then(|name| self.host(&name));
        let (instrument, two_points) = instrument;
        self.check_points(table, two_points, &hosts, towards);
        let given = table.options("options");
        let capture = MonitoredCapture {
            name: name?.into_inner(),
            hosts,
            instrument: instrument.to_owned(),
            two_points,
            interface: interface?,
            towards,
            far_interface,
            options: plain(&given),
            every: period(table, MIN_PERIOD_NS)?,
        };
        let asked = DeclaredCapture {
            instrument,
            options: &capture.options,
            has_ends: capture.towards.is_some() || !two_points,
            is_far: capture.towards.is_some(),
        };
        if let Err(wrong) = self.instruments.capture(&asked) {
            report_option_fault(self.file, table, &given, wrong);
        }
        Some(capture)
    }

    fn host(&self, name: &Located<String>) -> Option<u32> {
        if let Some(index) = self.hosts.iter().position(|h| h.name == *name.get_ref()) {
            return Some(index as u32);
        }
        let names: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
        let meant = choose(name.get_ref(), &names);
        let text = name.get_ref().escape_debug();
        self.file.faults.add(&name.span(), format!("unknown host '{text}': {meant}"));
        None
    }

    /// Reports settings of the second point that are missing or would not be used.
    fn check_points(&self, table: &TableReader<'_>, two_points: bool, hosts: &[u32], towards: Option<u32>) {
        if !two_points {
            if table.has("far-interface") {
                table.fault(
                    "far-interface",
                    "this instrument has only one capture point: leave out 'far-interface'",
                );
            }
            return;
        }
        if !table.has("far-interface") {
            let example = "far-interface = \"eth1\", the second interface that the traffic passes: on the host 'towards', or on this host";
            table.missing("far-interface", example);
        }
        let Some(far) = towards else { return };
        if hosts.contains(&far) {
            table.fault(
                "towards",
                "'towards' is one of the capturing hosts: name another host, or leave it out",
            );
        }
        let is_open = self.serve.options.iter().any(|(name, _)| name == "capture-without-key");
        let known = |host: &Host| host.key.is_some() || self.serve.key.is_some();
        if !self.serve.on {
            table.fault(
                "towards",
                "the far host must send digests of its packets, but [serve] is off: leave out on = false",
            );
        } else if !is_open
            && hosts.iter().filter_map(|host| self.hosts.get(*host as usize)).any(|host| !known(host))
        {
            table.fault(
                "towards",
                "a host sends digests of its packets only to hosts with a key: write key-file in [serve], or in each [[host]]",
            );
        }
    }
}
