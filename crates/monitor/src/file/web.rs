//! Section of the file about the web page that shows a host's archive.

use super::Sections;
use super::keys::{WEB, choose};
use super::reader::{Located, TableReader};
use crate::model::{Host, Readers, RunRules, WebRules};
use jitlat_core::quantity;

/// Reads the settings of the page; `None`: no host has a page.
pub fn web(file: &Sections<'_>, hosts: &[Host]) -> Option<WebRules> {
    let table = file.table(&WEB)?;
    let listen = table.quantity("listen", quantity::listen).map_or((None, None), Located::into_inner);
    let names: Vec<&str> = hosts.iter().map(|h| h.name.as_str()).collect();
    let index = |name: Located<String>| {
        let found = names.iter().position(|known| known == name.get_ref());
        if found.is_none() {
            let meant = choose(name.get_ref(), &names);
            file.faults
                .add(&name.span(), format!("unknown host '{}': {meant}", name.get_ref().escape_debug()));
        }
        found
    };
    let hosts = table.texts("hosts").map(|list| list.into_iter().filter_map(index).collect());
    let token = table.needed_if_there("token-file", "token-file = \"page.token\"");
    let readers = match (token, table.proxies("behind-proxy")) {
        (Some(_), Some(_)) => {
            table.fault(
                "behind-proxy",
                "'token-file' and 'behind-proxy' cannot be combined: leave one of them out",
            );
            Readers::Local
        }
        (Some(file), None) => Readers::Token(file),
        (None, Some(networks)) => Readers::Proxy(networks),
        (None, None) => {
            if listen.0.is_some_and(|ip| !ip.is_loopback()) {
                table.fault(
                    "listen",
                    "other hosts can reach this address: name a file with a token (token-file), or let a \
                     proxy decide who may read (behind-proxy = true)",
                );
            }
            Readers::Local
        }
    };
    let run = run(&table, &readers);
    let certificate = table.needed_if_there("certificate", "certificate = \"page.pem\"");
    let plain = table.truth("plain").unwrap_or(false);
    if plain && certificate.is_some() {
        table.fault("plain", "'plain' and 'certificate' cannot be combined: leave one of them out");
    }
    let link = table.needed_if_there("link", "link = \"https://watch.example\"");
    if link.as_ref().is_some_and(|link| !is_address(link)) {
        table.fault(
            "link",
            "this is not an http:// or https:// address: write link = \"https://watch.example\"",
        );
    }
    let link = link.map(|link| link.trim_end_matches('/').to_owned());
    let rules = WebRules { hosts, listen, readers, certificate, plain, link, run };
    table.truth("on").unwrap_or(true).then_some(rules)
}

/// True if `text` has the form of an HTTP address.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or(text.strip_prefix("http://"));
    rest.and_then(|rest| rest.split('/').next()).is_some_and(|host| !host.is_empty())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"')
}

/// Reads the settings of tests that are started from the page; `None`: nobody can start tests.
fn run(table: &TableReader<'_>, readers: &Readers) -> Option<RunRules> {
    let positive = |key| {
        let number = table.number(key);
        if number == Some(0) {
            table.fault(key, "write 1 or more; write run = false to forbid tests");
        }
        number
    };
    let rules = RunRules {
        token: table.needed_if_there("run-token-file", "run-token-file = \"run.token\""),
        longest: table.quantity("run-longest", quantity::duration).map(Located::into_inner),
        rate: table.quantity("run-rate", quantity::bit_rate).map(Located::into_inner),
        at_once: positive("run-at-once"),
        per_hour: positive("run-per-hour"),
    };
    if table.truth("run").unwrap_or(false) {
        if *readers != Readers::Local && rules.token.is_none() {
            let message = "people other than the users of the host can read this page: name a file with a \
                           token for those who may run tests (run-token-file)";
            table.fault("run", message);
        }
        return Some(rules);
    }
    let keys = ["run-token-file", "run-longest", "run-rate", "run-at-once", "run-per-hour"];
    if let Some(key) = keys.into_iter().find(|key| table.has(key)) {
        table.fault(key, "this key is for tests from the page: write run = true");
    }
    None
}
