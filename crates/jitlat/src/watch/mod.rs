//! `jitlat watch HOST…`: a monitor without a file, for hosts that run nothing of jitlat. It pings them all the time, keeps
//! the results in an archive, and shows its page.
//!
//! * [`file`] – the monitor's file that says the same, which is what runs; [`first`] – whether the hosts answer at all;
//!   [`lines`] – a line for each result

mod file;
mod first;
mod lines;

use crate::exit::ExitStatus;
use crate::interrupt::Signals;
use crate::monitor::instruments::MonitorInstruments;
use crate::options::protocol::ProtocolArgs;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use file::{MAX_HOSTS_PER_SLOT, WatchFile};
use jitlat_archive::Archive;
use jitlat_core::WallTime;
use jitlat_core::far_host::FarHost;
use jitlat_core::quantity;
use jitlat_core::spec::Dscp;
use jitlat_core::{Span, time::SECOND};
use jitlat_monitor::file::{read, text_of};
use jitlat_monitor::runtime::{self, MonitorSettings};
use jitlat_monitor::{Timetable, text};
use jitlat_net::clock;
use jitlat_net::clock::host_name;
use jitlat_net::privilege::{Capability, needs};
use jitlat_output::terminal;
use jitlat_web::DEFAULT_PORT;
use lines::ResultLines;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// Number of ports after the usual one that are tried for the page.
const PORTS_TRIED: u16 = 20;
/// Time of a test without its packets: 2 s until the last answer, and setup and guard of the timetable in the file.
const AROUND_PACKETS: Span = Span::seconds(5);

/// Watch hosts all the time: ping them, keep the results, show a page
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The hosts need nothing of jitlat. Ctrl-C ends the watch; the same command goes on with it in the \
                  same archive. --print-file starts a file for `jitlat monitor`, which also has alerts, more hosts \
                  that measure, and times of day."
)]
pub struct WatchArgs {
    /// Hosts to watch: names or addresses, with :PORT for protocols that have ports
    #[arg(value_name = "HOST", required = true)]
    hosts: Vec<String>,
    #[command(flatten)]
    protocol: ProtocolArgs,
    /// Time between requests to a host (200ms; a bare number is ns)
    #[arg(short = 'p', long, value_name = "PERIOD", value_parser = quantity::period, default_value = "200ms")]
    period: Span,
    /// Time between two results of a host; all but 5 s of it is measured
    ///
    /// The results of a host are its tests in the archive. A day is a multiple of this time.
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "30s")]
    every: Span,
    /// DSCP of the requests: 0 to 63, or a name (EF, AF41, CS1, LE)
    #[arg(short = 'D', long, value_name = "DSCP")]
    dscp: Option<Dscp>,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Folder for the results [default: ~/.local/share/jitlat/watch]
    ///
    /// The default is jitlat/watch in $XDG_DATA_HOME, if that is set. Packets are stored for 30 days, tests for 400 days, and
    /// the figures of hours, days and months for ever. Every command for archives reads it: `jitlat archive ls DIR`,
    /// `jitlat web DIR`.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Address, port, or both of the page [default: 127.0.0.1:2680]
    ///
    /// Without this option, and if port 2680 is taken, the next free port is used.
    #[arg(long, value_name = "ADDRESS", value_parser = quantity::listen)]
    listen: Option<(Option<IpAddr>, Option<u16>)>,
    /// Show the page only to users with the token in FILE
    ///
    /// Needed for a page that other hosts can read (--listen). The token is the first line of FILE.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Stop after this time (30s, 10m; a bare number is seconds)
    #[arg(long = "for", value_name = "T", value_parser = quantity::duration)]
    duration: Option<Span>,
    /// Print a result only if the verdict on the host changed
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print the file with which `jitlat monitor` does the same, and exit
    #[arg(long, conflicts_with = "duration")]
    print_file: bool,
}

/// Watches the hosts until a signal requests to stop.
pub fn run(args: &WatchArgs) -> Result<ExitStatus> {
    args.protocol.check()?;
    check_hosts(&args.hosts, &args.protocol)?;
    let archive = args.archive.clone().map_or_else(default_archive, Ok)?;
    let place = page(args.listen)?;
    let page = place.local_addr().context("--listen")?;
    let name = own_name();
    // The file may be for a service, which has other rights than this command.
    let has_routes = args.print_file || Capability::NetRaw.is_held();
    let file =
        WatchFile { args, name: &name, archive: &archive, page, duration: duration(args)?, has_routes };
    let written = file.text();
    let model = read(&written, &MonitorInstruments).map_err(|faults| {
        let messages: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
        anyhow!("{}", messages.join("; "))
    })?;
    if args.print_file {
        terminal::print(&written)?;
        return Ok(ExitStatus::Measured);
    }
    let is_new = !jitlat_archive::is_archive(&archive);
    let known = Archive::make(&archive).with_context(|| format!("--archive {}", archive.display()))?;
    let signals = Signals::to_stop()?;
    let timetable = Timetable::new(&model);
    for shortfall in timetable.shortfalls(&model) {
        warn!("{shortfall}");
    }
    let tests = known.extent()?.tests;
    let (entered, scheme) = (
        known.entered()?,
        if args.token_file.is_some() && !page.ip().is_loopback() { "https" } else { "http" },
    );
    let before = if is_new { "new".to_owned() } else { format!("{tests} tests so far") };
    terminal::print(&format!(
        "page     {scheme}://{page}/\narchive  {} ({before})\n{}: {} every {}, a result every {}\n\n",
        archive.display(),
        count(args.hosts.len(), "host"),
        args.protocol.protocol.name,
        text_of(args.period.0),
        text_of(args.every.0),
    ))?;
    if !has_routes {
        terminal::print(&format!("routes   not examined: {}\n\n", needs(Capability::NetRaw)))?;
    }
    let width = args.hosts.iter().map(|host| host.chars().count()).max().unwrap_or(0);
    let reached = first::ask(&model, &args.hosts, width, &signals)?;
    if signals.stop().is_requested() {
        return Ok(ExitStatus::Measured);
    }
    if !reached {
        bail!("none of the hosts can be measured from here: see the reasons above");
    }
    if let Some(at) = first_result(&timetable, file.duration) {
        terminal::print(&format!("\nfirst results at {}; Ctrl-C ends the watch\n", lines::time_of_day(at)))?;
    }
    let lines = ResultLines::start(&archive, entered, width, args.quiet)?;
    let settings = MonitorSettings {
        file: None,
        host: Some(name.clone()),
        archive: Some(archive.clone()),
        duration: args.duration,
        equipment: Arc::new(MonitorInstruments),
        print: Arc::new(|text| terminal::print(text).map_err(io::Error::other)),
        // It acts for the person who started it, in a folder of theirs that a service user cannot write.
        confinement: None,
    };
    drop(place);
    let counts = runtime::run(&settings, model, timetable, &signals);
    drop(lines);
    terminal::print(&format!("\n{}", text::counts(&counts?)))?;
    Ok(ExitStatus::Measured)
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Returns the reason why one of `hosts` cannot be a host of this protocol.
fn check_hosts(hosts: &[String], protocol: &ProtocolArgs) -> Result<()> {
    for (k, host) in hosts.iter().enumerate() {
        if host.ends_with(".toml") && Path::new(host).is_file() {
            bail!(
                "{host} is a file: `jitlat monitor {host}` runs it; jitlat watch has hosts instead of a file"
            );
        }
        if host.contains(',') {
            bail!("{host} is not the name of a host: separate several hosts by spaces");
        }
        let FarHost { port, .. } = host.parse()?;
        protocol.client(port).with_context(|| host.clone())?;
        if hosts[..k].contains(host) {
            bail!("{host} is given twice: leave one out");
        }
    }
    Ok(())
}

/// Returns the time for which the packets of a test are sent: whole periods, as many as fit.
fn duration(args: &WatchArgs) -> Result<Span> {
    let rounds = args.hosts.len().div_ceil(MAX_HOSTS_PER_SLOT).max(1) as i64;
    let available = Span((args.every.0 / rounds - AROUND_PACKETS.0) / SECOND * SECOND);
    if available < AROUND_PACKETS {
        let least = text_of(2 * AROUND_PACKETS.0 * rounds);
        bail!(
            "--every {} is too short for {}: give {least} or more",
            text_of(args.every.0),
            count(args.hosts.len(), "host")
        );
    }
    let period = args.period.0.max(1);
    let packets = available.0 / period;
    if packets == 0 {
        bail!(
            "--every {} leaves {} for the requests of a result, which is shorter than -p {}: give a longer \
             --every or a shorter -p",
            text_of(args.every.0),
            text_of(available.0),
            text_of(period)
        );
    }
    Ok(Span(packets * period))
}

/// Returns the usual folder of the results.
fn default_archive() -> Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    let data =
        data.context("the environment has no HOME, in which the results would be: give --archive DIR")?;
    Ok(data.join("jitlat/watch"))
}

/// Takes a port for the page, which is bound until the page itself binds it. Another watch may have the usual port, so that
/// the next free one is taken.
fn page(listen: Option<(Option<IpAddr>, Option<u16>)>) -> Result<TcpListener> {
    let (ip, port) = listen.unwrap_or_default();
    let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let free = |port: u16| TcpListener::bind((ip, port));
    if let Some(port) = port {
        return free(port).with_context(|| format!("--listen {ip}:{port}, for the page"));
    }
    let mut ports = DEFAULT_PORT..DEFAULT_PORT + PORTS_TRIED;
    let found = ports.find_map(|port| free(port).ok());
    found.map_or_else(|| free(0), Ok).with_context(|| format!("--listen {ip}, for the page"))
}

/// Returns a name for this host that the monitor's file accepts.
fn own_name() -> String {
    let name = host_name().unwrap_or_default();
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fits).collect();
    if name.is_empty() { "this-host".to_owned() } else { name }
}

/// Returns the time of the first results, about a second after the last packet of the first tests.
fn first_result(timetable: &Timetable, duration: Span) -> Option<WallTime> {
    let first = timetable.tests.first()?;
    let begins = first.begins(first.first_from(clock::wall())?)?;
    Some(begins + duration + Span::seconds(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Command, command};
    use clap::FromArgMatches;
    use std::net::SocketAddr;

    fn args(line: &str) -> WatchArgs {
        let words = format!("jitlat watch {line}");
        let matches = command().try_get_matches_from(words.split_whitespace()).unwrap();
        match crate::root::Cli::from_arg_matches(&matches).unwrap().command {
            Some(Command::Watch(args)) => *args,
            _ => panic!("{line}"),
        }
    }

    fn written(line: &str) -> String {
        let args = args(line);
        let page = SocketAddr::from(([127, 0, 0, 1], 2680));
        let archive = Path::new("/data/a \"b\"");
        let duration = duration(&args).unwrap();
        WatchFile { args: &args, name: "here", archive, page, duration, has_routes: true }.text()
    }

    #[test]
    fn the_file_of_a_watch_is_one_of_a_monitor() {
        for line in [
            "192.0.2.1",
            "192.0.2.1 [2001:db8::1]:862 h.example --proto stamp -l 100 -p 50ms -D EF --every 1min",
            "h --proto twamp --twamp-port 5000 -4",
            "h --proto icmp -6 --every 1h",
            "h -p 15s --every 5min",
            "h -p 33ms",
        ] {
            let text = written(line);
            let model = read(&text, &MonitorInstruments).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
            let args = args(line);
            assert_eq!(model.tests[0].pairs.targets, args.hosts, "{line}");
            assert_eq!(model.tests[0].every, args.every, "{line}");
            let until_last_answer = duration(&args).unwrap() + Span::seconds(2);
            assert_eq!(model.tests[0].traffic.duration, until_last_answer, "{line}");
            assert_eq!(model.archive.folder.as_deref(), Some("/data/a \"b\""), "{line}");
            assert!(!model.serve.on && model.web.is_some(), "{line}");
            assert_eq!(model.routes[0].to, args.hosts, "{line}");
            let timetable = Timetable::new(&model);
            assert_eq!(timetable.shortfalls(&model), [] as [String; 0], "{line}");
        }
    }

    #[test]
    fn many_hosts_take_turns_within_a_period() {
        let hosts: Vec<String> = (0..150).map(|k| format!("h{k}")).collect();
        let text = written(&format!("{} --every 1min", hosts.join(" ")));
        let model = read(&text, &MonitorInstruments).unwrap();
        let timetable = Timetable::new(&model);
        assert_eq!(timetable.tests[0].rounds.len(), 3);
        assert_eq!(timetable.shortfalls(&model), [] as [String; 0]);
        let refused = duration(&args(&format!("{} --every 20s", hosts.join(" ")))).unwrap_err();
        assert!(refused.to_string().ends_with("too short for 150 hosts: give 30s or more"), "{refused}");
        let refused = duration(&args("h -p 1min")).unwrap_err();
        assert!(refused.to_string().starts_with("--every 30s leaves 25s"), "{refused}");
    }

    #[test]
    fn what_is_not_a_host_is_refused_with_a_remedy() {
        for (host, remedy) in [
            ("192.0.2.0/24", "of one host"),
            ("http://example.org/", "write the host alone"),
            ("a:80", "icmp has no ports"),
            ("a,b", "separate several hosts by spaces"),
        ] {
            let refused = check_hosts(&[host.to_owned()], &args(host).protocol).unwrap_err();
            assert!(format!("{refused:#}").contains(remedy), "{refused:#}");
        }
        let check = |line: &str| check_hosts(&args(line).hosts, &args(line).protocol);
        assert!(check("a a").is_err());
        let refused = check("a 192.0.2.1:53 --proto icmp").unwrap_err();
        assert!(
            format!("{refused:#}").starts_with("192.0.2.1:53: icmp has no ports: write the host without :53")
        );
        check("a b:862 [2001:db8::1]:862 --proto stamp").unwrap();
    }
}
