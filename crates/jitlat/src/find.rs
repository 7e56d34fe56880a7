//! `jitlat find`: lists the servers that announce themselves on the local link.

use crate::exit::ExitStatus;
use crate::interrupt;
use anyhow::{Result, bail};
use clap::Args;
use jitlat_core::prefix::Prefix;
use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::{Span, quantity};
use jitlat_net::discovery::{self, Found};
use jitlat_net::resolve::{connected_networks, is_link_local};
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use jitlat_proto::discovery::AnnouncedServer;
use std::net::{IpAddr, SocketAddr};

/// List the servers on the local link that announce themselves
#[derive(Clone, Debug, Args)]
#[command(after_help = "On the other host: jitlat serve --announce. The search uses multicast DNS (UDP\n\
                  5353, service _jitlat._udp.local), which routers do not forward. Anyone on the\n\
                  link can announce anything.")]
pub struct FindArgs {
    /// Time for which announcements are collected
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "2s")]
    pub timeout: Span,
}

/// Searches and prints the servers.
pub fn run(args: &FindArgs) -> Result<ExitStatus> {
    let stop = interrupt::stop()?;
    let work = Work::of("searching the local link");
    let Found { mut servers, links } = discovery::find(args.timeout, stop.flag());
    drop(work);
    if links == 0 {
        bail!("this host has no interface for multicast: is one connected? `ip address` lists them");
    }
    if servers.is_empty() {
        bail!(
            "no server announced itself on the local link: start `jitlat serve --announce` on the other host; if that \
             runs, a firewall blocks UDP 5353, or a router is between the hosts"
        );
    }
    servers.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
    terminal::print(&table(&servers, &connected_networks()))?;
    Ok(ExitStatus::Measured)
}

/// Returns a line for each server: name, address, version, and the command that tests against it. The address is in one
/// of `networks`, those of this host's links; if the server has none there, the line says so.
fn table(servers: &[AnnouncedServer], networks: &[Prefix]) -> String {
    let is_near = |ip: &IpAddr| networks.iter().any(|network| network.contains(*ip));
    let head = ["name", "address", "version", "command"].map(str::to_owned);
    let lines = servers.iter().map(|server| {
        let usable = || server.addresses.iter().filter(|ip| !is_link_local(ip));
        let address = usable().find(|ip| is_near(ip)).or_else(|| usable().next());
        let shown = |ip: &IpAddr| match is_near(ip) {
            true => ip.to_string(),
            false => format!("{ip} (not on this link)"),
        };
        let (address, command) = match address {
            Some(ip) if server.port == CONTROL_PORT => (shown(ip), format!("jitlat {ip}")),
            Some(ip) => (shown(ip), format!("jitlat {}", SocketAddr::new(*ip, server.port))),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let version = if server.version.is_empty() { "-" } else { &server.version };
        [server.name.clone(), address, version.to_owned(), command]
    });
    let lines: Vec<[String; 4]> = std::iter::once(head).chain(lines).collect();
    let width = |k: usize| lines.iter().map(|line| line[k].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |[name, address, version, command]: &[String; 4]| {
        let [n, a, v] = widths;
        format!("{name:<n$}  {address:<a$}  {version:<v$}  {command}\n")
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_line_with_the_command_to_type() {
        let server = |name: &str, port, addresses: &[&str]| AnnouncedServer {
            name: name.to_owned(),
            port,
            version: "1.2.3".to_owned(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let servers = [
            server("alpha", CONTROL_PORT, &["fe80::1", "172.17.0.1", "192.0.2.7"]),
            server("beta", 2700, &["2001:db8::7"]),
            server("gamma", CONTROL_PORT, &[]),
            server("delta", CONTROL_PORT, &["172.17.0.1"]),
        ];
        let expected = "name   address                        version  command\n\
                        alpha  192.0.2.7                      1.2.3    jitlat 192.0.2.7\n\
                        beta   2001:db8::7                    1.2.3    jitlat [2001:db8::7]:2700\n\
                        gamma  -                              1.2.3    -\n\
                        delta  172.17.0.1 (not on this link)  1.2.3    jitlat 172.17.0.1\n";
        let networks = ["192.0.2.0/24", "2001:db8::/64"].map(|text| text.parse().unwrap());
        assert_eq!(table(&servers, &networks), expected);
    }
}
