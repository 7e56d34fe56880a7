//! [`WatchFile`]: the file with which a monitor does what a watch does. The watch runs this text, so that there is one
//! runtime with one list of settings, and people can go on from it.

use super::WatchArgs;
use crate::options::protocol::OptionInput;
use jitlat_core::Span;
use jitlat_monitor::file::text_of;
use jitlat_monitor::timetable::MAX_CONCURRENT_PINGS;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Number of hosts that are pinged at the same time; more take turns.
pub const MAX_HOSTS_PER_SLOT: usize = MAX_CONCURRENT_PINGS as usize;
/// Name of the watch's test in the archive.
pub const TEST: &str = "watch";
/// Name of the section about routes.
const ROUTES: &str = "routes";

/// Settings of a watch.
pub struct WatchFile<'a> {
    pub args: &'a WatchArgs,
    /// Name of this host.
    pub name: &'a str,
    pub archive: &'a Path,
    /// Address of the page.
    pub page: SocketAddr,
    /// Time for which the packets of a test are sent.
    pub duration: Span,
    /// False if this program may not examine routes.
    pub has_routes: bool,
}

impl WatchFile<'_> {
    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let WatchFile { args, name, archive, page, duration, has_routes } = self;
        let hosts: Vec<String> = args.hosts.iter().map(|host| quoted(host)).collect();
        let token = args.token_file.as_deref().map(|file| format!("token-file = {}\n", quoted_path(file)));
        format!(
            "# This host, which measures. `jitlat monitor FILE --host {name}` runs this file.\n\
             [[host]]\nname = {}\naddress = \"127.0.0.1\"\n\n\
             # The other hosts need nothing of jitlat. A result is a test of {} packets.\n\
             [[ping]]\nname = {}\ntargets = [{}]\nevery = {}\nfor = {}\n\n[ping.options]\n{}\n{}\
             [timetable]\nguard = \"1s\"\nsetup = \"2s\"\n\n\
             # This host answers no tests.\n[serve]\non = false\n\n\
             [archive]\nfolder = {}\npackets = \"30d\"\ntests = \"400d\"\n\n\
             [web]\nlisten = {}\n{}",
            quoted(name),
            duration.0 / args.period.0.max(1),
            quoted(TEST),
            hosts.join(", "),
            quoted(&text_of(args.every.0)),
            quoted(&text_of(duration.0)),
            self.options(),
            if *has_routes { self.routes(&hosts.join(", ")) } else { String::new() },
            quoted_path(archive),
            quoted(&page.to_string()),
            token.unwrap_or_default(),
        )
    }

    /// Returns the section about the routes to the hosts.
    fn routes(&self, hosts: &str) -> String {
        format!(
            "# Routers on the paths to them.\n[[route]]\nname = {}\nto = [{hosts}]\nevery = \"1min\"\n\n",
            quoted(ROUTES)
        )
    }

    /// Returns the options of the test, a line each.
    fn options(&self) -> String {
        let args = self.args;
        let mut lines = format!("proto = {}\n", quoted(args.protocol.protocol.name));
        let mut add = |name: &str, value: String| {
            let _ = writeln!(lines, "{name} = {value}");
        };
        add("period", quoted(&format!("{}ns", args.period.0)));
        if let Some(payload) = args.protocol.payload {
            add("payload", quoted(&payload.to_string()));
        }
        if let Some(dscp) = args.dscp {
            add("dscp", quoted(&dscp.value().to_string()));
        }
        for (name, _) in [("ipv4", args.ipv4), ("ipv6", args.ipv6)].iter().filter(|(_, given)| *given) {
            add(name, "true".to_owned());
        }
        for (name, input) in args.protocol.given.all() {
            let value = match input {
                OptionInput::Switch => "true".to_owned(),
                OptionInput::Text(text) => quoted(text),
                OptionInput::File(path) => quoted_path(path),
            };
            add(name, value);
        }
        lines
    }
}

/// Returns the absolute form of a path, quoted.
fn quoted_path(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    quoted(&whole.to_string_lossy())
}

/// Returns a string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}
