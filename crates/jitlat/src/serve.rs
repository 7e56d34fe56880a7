//! `jitlat serve`: answers tests from other hosts.

use crate::browser::BrowserArgs;
use crate::confinement::ConfinementArgs;
use crate::exit::ExitStatus;
use crate::interrupt::Signals;
use crate::options::LocalAddresses;
use crate::options::priority::PriorityArgs;
use crate::options::protocol::{GivenArgs, add_options};
use crate::policy::AccessArgs;
use crate::rpm::RpmServeArgs;
use anyhow::{Context, Result, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use jitlat_core::Span;
use jitlat_core::printable::printable;
use jitlat_core::quantity;
use jitlat_core::spec::{CONTROL_PORT, MAX_PAYLOAD, TEST_PORT};
use jitlat_instruments::access::{KeySources, PolicyWithKeys, service, services};
use jitlat_instruments::arguments::NamedFile;
use jitlat_instruments::serve::{
    AnsweredProtocol, DigestService, OneWayService, Policy, Reflector, Serve, Serving, answered,
    every_address,
};
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_net::clock::host_name;
use jitlat_net::confine::{CallSet, Confinement, Confining};
use jitlat_net::discovery::Announcer;
use jitlat_net::pace::Pacing;
use jitlat_net::resolve::reachable_at;
use jitlat_output::late_folder::TestFolder;
use jitlat_output::terminal;
use jitlat_proto::digest;
use jitlat_proto::jitlat::{PresharedKeys, ServerLimits};
use jitlat_proto::policy::file::PolicyFile;
use jitlat_proto::policy::{self, DIGESTS, ONE_WAY, PUBLIC_SERVICES, PublicServer, RPM, WEB};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tracing::{info, warn};

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Addresses or interfaces to answer on (default: every address)
    #[arg(long, value_name = "ADDR", num_args = 1..)]
    pub bind: Vec<LocalAddresses>,
    /// Port of control connections
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT)]
    pub control_port: u16,
    /// Port of test streams, unless the client chooses one
    #[arg(long, value_name = "PORT", default_value_t = TEST_PORT)]
    pub test_port: u16,
    /// SCHED_FIFO priority of the measuring threads, with memory locked
    ///
    /// Where it is not permitted, the priority is reduced and the log has a note.
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "50", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Announce this server on the local link, for `jitlat find`
    ///
    /// By multicast DNS: name of this host, addresses, control port and version, as the service _jitlat._udp.local.
    /// Anyone on the link sees them.
    #[arg(long)]
    pub announce: bool,
    #[command(flatten)]
    pub public: PublicArgs,
    #[command(flatten)]
    pub priority: PriorityArgs,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub digests: DigestArgs,
    #[command(flatten)]
    pub reflect: ReflectArgs,
    #[command(flatten)]
    pub rpm: RpmServeArgs,
    #[command(flatten)]
    pub browser: BrowserArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub confinement: ConfinementArgs,
}

/// Options of a server for everybody.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Public server")]
pub struct PublicArgs {
    /// Serve everybody: one-way tests, STAMP and IRTT within small, fixed limits
    ///
    /// A client (IPv4 /24, IPv6 /64) has 2 tests at a time of at most 60 s, 250 packets per second and 1 Mbit/s in each direction;
    /// all clients together have 2500 packets per second and 10 Mbit/s for each service. No results are stored beyond 10 s. Private networks are
    /// not served, unless --allow names networks. docs/guide/public-server.md has the worst-case traffic.
    #[arg(long, requires = "contact", conflicts_with_all = NOT_PUBLIC)]
    pub public: bool,
    /// Address for complaints about the public server, which refusals contain
    #[arg(long, value_name = "TEXT", requires = "public", value_parser = contact)]
    pub contact: Option<String>,
}

/// Options that a public server refuses: its limits are fixed, and strangers could misuse these services.
const NOT_PUBLIC: &[&str] = &[
    "no_sandbox",
    "key_file",
    "open",
    "policy",
    "show_policy",
    "capture",
    "capture_port",
    "capture_without_key",
    "max_digest_rate",
    "late_packets",
    "rpm",
    "web",
    "max_reflect_rate",
    "max_reflect_bandwidth",
    "no_classic",
    "max_packets",
    "max_payload",
    "test_ports",
    "max_rate",
    "max_bandwidth",
    "max_duration",
    "max_connections",
    "max_connections_per_client",
    "max_sessions",
    "max_sessions_per_client",
    "max_memory",
    "max_memory_per_client",
    "idle",
    "keep",
];

/// Checks the text of `--contact`.
fn contact(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.len() > 200 || printable(text) != text {
        return Err("write an e-mail address or a web address, at most 200 characters".to_owned());
    }
    Ok(text.to_owned())
}

impl PublicArgs {
    /// Returns the public server; `None` without `--public`.
    fn server(&self) -> Option<PublicServer> {
        let contact = self.contact.clone().filter(|_| self.public)?;
        Some(PublicServer { contact })
    }
}

/// Options of packet digests for `jitlat spp -R HOST`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packet digests")]
pub struct DigestArgs {
    /// Interfaces whose packets are reported to `jitlat spp`
    ///
    /// Only times, lengths and hashes are sent, no payload. Needs --key-file.
    #[arg(long, value_name = "IFACE", value_delimiter = ',')]
    pub capture: Vec<String>,
    /// TCP port of the packet digests
    #[arg(long, value_name = "PORT", default_value_t = digest::PORT, requires = "capture")]
    pub capture_port: u16,
    /// Send packet digests to any host that asks, without a key
    #[arg(long, requires = "capture", conflicts_with = "key_file")]
    pub capture_without_key: bool,
    /// Maximum packets per second reported to one host (200k)
    #[arg(long, value_name = "PPS", default_value_t = 200_000, requires = "capture", value_parser = quantity::packet_rate)]
    pub max_digest_rate: u32,
}

impl DigestArgs {
    fn settings(&self, keys: PresharedKeys, open: bool) -> Result<Option<DigestService>> {
        if self.capture.is_empty() {
            return Ok(None);
        }
        ensure!(
            !keys.is_empty() || open,
            "--capture reports this host's packets to other hosts: give a key with --key-file, or allow it \
             with --capture-without-key"
        );
        let service = jitlat_net::digest::DigestExporter {
            interfaces: self.capture.clone(),
            keys: keys.into(),
            rate: self.max_digest_rate,
            settings: InterfaceSettings::default(),
        };
        Ok(Some(DigestService { port: self.capture_port, service }))
    }
}

/// Options of two-way tests of `jitlat ping` and other programs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Two-way tests")]
pub struct ReflectArgs {
    #[command(flatten)]
    pub protocols: AnsweredArgs,
    /// Store the packets of one-way LaMP tests in DIR
    ///
    /// Only the server has these results. Each test is a file in LaTe's format and a log for `jitlat analyze`; at
    /// most 10 000 tests.
    #[arg(long, value_name = "DIR")]
    pub late_packets: Option<PathBuf>,
    /// Maximum packets answered per second and address [default: 200k]
    #[arg(long, value_name = "PPS", value_parser = quantity::packet_rate)]
    pub max_reflect_rate: Option<u32>,
    /// Maximum bits answered per second and address [default: 1G]
    #[arg(long, value_name = "RATE", value_parser = quantity::bit_rate)]
    pub max_reflect_bandwidth: Option<u64>,
}

/// `--only`, and the options of every protocol that can be answered, from [`answered`].
#[derive(Clone, Debug)]
pub struct AnsweredArgs {
    only: Vec<String>,
    given: GivenArgs,
}

impl AnsweredArgs {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| o == name)
    }

    /// True if the server of `protocol` is to run.
    fn starts(&self, protocol: &AnsweredProtocol) -> bool {
        let is_selected = self.only.iter().any(|name| name == protocol.name);
        let is_switched_on = |switch| self.given.names().any(|name| name == switch);
        is_selected || protocol.server.switch.map_or(self.only.is_empty(), is_switched_on)
    }

    /// Replaces the key files named in `files` with those given as options.
    fn name_key_files(&self, files: &mut PolicyFile) {
        for (name, path) in self.given.files() {
            if let Some(service) = name.strip_suffix("-key-file") {
                let path = std::path::absolute(path).unwrap_or(path.to_owned());
                files.services.entry(service.to_owned()).or_default().key_file = Some(path);
            }
        }
    }

    /// Checks that a public server offers only what it may, without further options, and selects that if nothing is selected.
    fn make_public(&mut self) -> Result<()> {
        if let Some(name) = self.only.iter().find(|name| !PUBLIC_SERVICES.contains(&name.as_str())) {
            bail!(
                "--public offers {} only, because strangers could misuse {name}",
                PUBLIC_SERVICES.join(", ")
            );
        }
        let is_offered =
            |name: &str| name.strip_suffix("-port").is_some_and(|service| PUBLIC_SERVICES.contains(&service));
        if let Some(name) = self.given.names().find(|name| !is_offered(name)) {
            bail!(
                "--{name} cannot be combined with --public, whose settings are fixed: leave one of them out"
            );
        }
        if self.only.is_empty() {
            self.only = PUBLIC_SERVICES.iter().map(|name| (*name).to_owned()).collect();
        }
        Ok(())
    }

    /// Creates the reflectors of the selected protocols, with the keys of the policy unless an option names others.
    fn reflectors(&self, key_files: &BTreeMap<String, NamedFile>) -> Result<Vec<Box<dyn Reflector>>> {
        let mut given = self.given.read()?;
        for (name, file) in key_files {
            let service = name.trim_end_matches("-key-file");
            let arguments = answered().flat_map(|p| p.server.arguments);
            ensure!(
                arguments.map(|a| a.name).any(|a| a == name),
                "services.{service}.key-file: {service} has no key"
            );
            if given.file(name).is_none() {
                given = given.with_file(name, file.clone());
            }
        }
        for protocol in answered().filter(|p| !self.starts(p)) {
            let own = |name: &&str| protocol.server.arguments.iter().any(|argument| argument.name == *name);
            if let (Some(switch), Some(option)) = (protocol.server.switch, self.given.names().find(own)) {
                bail!(
                    "--{option} has no effect without --{switch}, because {} is not answered by default",
                    protocol.title
                );
            }
        }
        let mut reflectors = Vec::new();
        for protocol in answered().filter(|p| self.starts(p)) {
            reflectors.extend(protocol.reflectors(&given.of(protocol.server.arguments))?);
        }
        Ok(reflectors)
    }
}

impl Args for AnsweredArgs {
    fn augment_args(command: Command) -> Command {
        let names = std::iter::once(ONE_WAY).chain(answered().map(|p| p.name));
        let titles: Vec<&str> = answered().map(|p| p.title).collect();
        let list = format!("Answer only these protocols: {ONE_WAY} (one-way tests), {}", titles.join(", "));
        let only = Arg::new("only")
            .long("only")
            .value_name("LIST")
            .value_delimiter(',')
            .num_args(1..)
            .value_parser(PossibleValuesParser::new(names).map(|name| name.to_ascii_lowercase()))
            .ignore_case(true)
            .help("Answer only these protocols, separated by commas")
            .long_help(list);
        let entries = answered().map(|p| (p.title, p.server.arguments));
        add_options(command.arg(only), entries)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AnsweredArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AnsweredArgs, clap::Error> {
        let arguments = answered().flat_map(|p| p.server.arguments);
        Ok(AnsweredArgs {
            only: matches.get_many("only").into_iter().flatten().cloned().collect(),
            given: GivenArgs::new(arguments, matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AnsweredArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Options of the server's limits. A refusal names the limit that was reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Refuse classic workorders
    #[arg(long)]
    pub no_classic: bool,
    /// Maximum number of packets of a test
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().packets)]
    pub max_packets: u32,
    /// Maximum payload of a packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MAX_PAYLOAD)]
    pub max_payload: u16,
    /// Ports that clients may name for test streams
    ///
    /// Clients may also leave the choice to the system.
    #[arg(long, value_name = "FIRST-LAST", value_parser = quantity::ports, default_value = "1024-65535")]
    pub test_ports: RangeInclusive<u16>,
    /// Maximum packets per second of a client, each direction [default: 1M]
    ///
    /// The limit applies to every 100 ms. Examples: 1000, 200k/s.
    #[arg(long, value_name = "PPS", value_parser = quantity::packet_rate)]
    pub max_rate: Option<u32>,
    /// Maximum payload bits per second of a client, each direction [default: 10G]
    ///
    /// Examples: 64kbit, 1.5Mbit; a bare number is bits.
    #[arg(long, value_name = "RATE", value_parser = quantity::bit_rate)]
    pub max_bandwidth: Option<u64>,
    /// Maximum duration of a test [default: 24h]
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub max_duration: Option<Span>,
    /// Maximum control connections of all clients [default: 256]
    #[arg(long, value_name = "N")]
    pub max_connections: Option<usize>,
    /// Maximum control connections of one client [default: 40]
    #[arg(long, value_name = "N")]
    pub max_connections_per_client: Option<usize>,
    /// Maximum sessions running or stored, of all clients [default: 128]
    #[arg(long, value_name = "N")]
    pub max_sessions: Option<usize>,
    /// Maximum sessions of one client [default: 32]
    #[arg(long, value_name = "N")]
    pub max_sessions_per_client: Option<usize>,
    /// Memory for the sessions of all clients and services [default: 3G]
    ///
    /// In bytes, or with k, M, G.
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub max_memory: Option<u64>,
    /// Memory for the sessions of one client [default: 1536M]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub max_memory_per_client: Option<u64>,
    /// Time without messages after which a client is disconnected
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "30s")]
    pub idle: Span,
    /// Time for which results are stored for clients to fetch
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "10m")]
    pub keep: Span,
}

impl ServeArgs {
    /// Returns the policy with the keys of its services.
    pub fn access(&self) -> Result<PolicyWithKeys> {
        let mut access = self.access.access(|policy| self.apply_to(policy))?;
        if self.public.public {
            // Last, because it depends on the networks that are named.
            PublicServer::limit(&mut access.policy);
        }
        Ok(access)
    }

    /// Returns the settings of the server with `access`.
    pub fn settings(&self, access: PolicyWithKeys) -> Result<Serve> {
        let one_way = OneWayService {
            control_port: self.control_port,
            test_port: self.test_port,
            limits: match self.public.server() {
                Some(public) => public.limits(),
                None => ServerLimits::from(&self.limits),
            },
            keys: access.keys.into(),
            pacing: Pacing {
                realtime: self.realtime,
                lock_memory: self.realtime.is_some(),
                ..Pacing::default()
            },
        };
        let protocols = &self.reflect.protocols;
        let bound = self.bind.iter().flat_map(|bind| bind.0.clone());
        let ips = if self.bind.is_empty() { every_address() } else { bound.collect() };
        let mut reflectors = protocols.reflectors(&access.key_files)?;
        reflectors.extend(self.rpm.reflector(&ips)?);
        reflectors.extend(self.browser.reflector()?);
        Ok(Serve {
            ips,
            one_way: Some(one_way).filter(|_| protocols.wants(ONE_WAY)),
            reflectors,
            digests: self.digests.settings(access.digest_keys, access.policy.is_open(DIGESTS))?,
            policy: access.policy,
            priority: self.priority.priority(),
            one_way_packets: None,
        })
    }

    /// Applies the given options to `policy`.
    fn apply_to(&self, policy: &mut Policy) {
        fn set<T>(rule: &mut Option<T>, given: Option<T>) {
            if given.is_some() {
                *rule = given;
            }
        }
        let (limits, reflect) = (&self.limits, &self.reflect);
        let one_way = policy.service(ONE_WAY);
        set(&mut one_way.total.connections, limits.max_connections);
        set(&mut one_way.client.connections, limits.max_connections_per_client);
        set(&mut one_way.total.sessions, limits.max_sessions);
        set(&mut one_way.client.sessions, limits.max_sessions_per_client);
        set(&mut one_way.client.packets, limits.max_rate);
        set(&mut one_way.client.bytes, limits.max_bandwidth.map(|bits| bits / 8));
        set(&mut one_way.client.duration, limits.max_duration);
        set(&mut policy.total.memory, limits.max_memory);
        set(&mut policy.client.memory, limits.max_memory_per_client);
        set(&mut policy.client.packets, reflect.max_reflect_rate);
        set(&mut policy.client.bytes, reflect.max_reflect_bandwidth.map(|bits| bits / 8));
        let named = reflect.protocols.only.iter().filter_map(|name| service(name).ok());
        let captures = (!self.digests.capture.is_empty()).then_some(DIGESTS);
        let rpm = self.rpm.is_wanted().then_some(RPM);
        let web = self.browser.is_wanted().then_some(WEB);
        named.chain(captures).chain(rpm).chain(web).for_each(|service| policy.service(service).off = false);
        policy.service(DIGESTS).open |= self.digests.capture_without_key;
    }
}

/// Converts the limits that are not part of the policy.
impl From<&LimitArgs> for ServerLimits {
    fn from(a: &LimitArgs) -> ServerLimits {
        ServerLimits {
            packets: a.max_packets,
            payload: a.max_payload,
            idle: a.idle,
            keep: a.keep,
            classic: !a.no_classic,
            ports: a.test_ports.clone(),
            ..ServerLimits::default()
        }
    }
}

/// Serves until stopped by a signal.
pub fn run(args: &ServeArgs) -> Result<ExitStatus> {
    let mut args = args.clone();
    if args.public.public {
        args.reflect.protocols.make_public()?;
        let user = args.confinement.user.as_deref();
        ensure!(
            !matches!(user, Some("root" | "0")),
            "--user root cannot be combined with --public, whose confinement cannot be switched off: name another user"
        );
    }
    let args = &args;
    let mut access = args.access()?;
    if args.access.show_policy {
        let wants = |service| match service {
            DIGESTS => !args.digests.capture.is_empty(),
            RPM => args.rpm.is_wanted(),
            WEB => args.browser.is_wanted(),
            policy::TEST_PORT => args.reflect.protocols.wants(ONE_WAY),
            _ => args.reflect.protocols.wants(service),
        };
        let mut files = access.files;
        args.reflect.protocols.name_key_files(&mut files);
        terminal::print(&policy::file::write(&access.policy, &services(), wants, &files))?;
        return Ok(ExitStatus::Measured);
    }
    let reflect = &args.reflect;
    let folder = reflect.late_packets.as_deref().map(TestFolder::new).transpose()?;
    let reloadable = std::mem::take(&mut access.reloadable);
    let mut serve = args.settings(access)?;
    // Without keys SIGHUP stops the server, as it does other commands whose terminal is closed.
    let signals = if reloadable.is_empty() { Signals::to_stop()? } else { Signals::to_stop_or_reload()? };
    let browser = &args.browser;
    let folders = reflect.late_packets.iter().cloned().chain(browser.archive().map(Path::to_owned)).collect();
    let calls = if browser.archive().is_some() { CallSet::Monitor } else { CallSet::default() };
    let capabilities = serve.capabilities(args.realtime.is_some());
    let confinement = Confinement { capabilities, folders, calls, ..Confinement::default() };
    let confining = args.confinement.begin(confinement)?;
    browser.check_archive()?;
    let keep = folder.map(TestFolder::start).transpose()?;
    serve.one_way_packets = keep.as_ref().map(|(packets, _)| packets.clone());
    let serving = serve.start()?;
    let announcer = announcer(args, &serving)?;
    // Read before confinement, which may hide the interfaces.
    let hints = hints(args, serving.one_way(), &serve.policy);
    let confined = confining.map(Confining::complete).transpose()?;
    serving.failure_lines().iter().for_each(|line| warn!("{line}"));
    let mut lines = match &confined {
        Some(confined) => confined.lines("jitlat serve"),
        None => "jitlat serve: not confined (--no-sandbox)\n".to_owned(),
    };
    for address in serving.digests() {
        let interfaces = args.digests.capture.join(", ");
        lines += &format!("jitlat serve: sending packet digests of {interfaces} on TCP {address}\n");
    }
    for address in serving.one_way() {
        lines += &format!("jitlat serve: listening on TCP {address}, test port {}\n", args.test_port);
    }
    if let Some(public) = args.public.server() {
        lines += &format!("jitlat serve: public, with fixed limits; contact: {}\n", public.contact);
    }
    lines += &hints;
    for (name, address) in serving.reflected() {
        lines += &format!("jitlat serve: answering {name} on {address}\n");
        if *name == BROWSERS {
            lines += &pages(*address, args.browser.is_secure());
        }
    }
    if !serving.withheld().is_empty() {
        let list = serving.withheld().join(", ");
        lines += &format!(
            "jitlat serve: not serving {list}: a key is configured, but these services cannot check one (--open serves them nevertheless)\n"
        );
    }
    terminal::print(&lines)?;
    if serve.one_way.as_ref().is_some_and(|one_way| one_way.keys.is_empty()) {
        info!(
            "in clear: what clients request and receive, and facts about this host; with --key-file it is encrypted"
        );
    }
    signals.wait_for_stop(|| reload(&serve, &reloadable));
    drop(announcer);
    drop(serving);
    drop(serve);
    if let Some((packets, writer)) = keep {
        // The writer finishes when the sender is dropped.
        drop(packets);
        if writer.join().is_err() {
            warn!("--late-packets: the thread that writes packets failed");
        }
    }
    Ok(ExitStatus::Measured)
}

/// Reads the keys of one-way tests and digests again. Tests that are running keep theirs.
fn reload(serve: &Serve, sources: &KeySources) {
    match sources.read() {
        Ok((keys, digest_keys)) => {
            if let Some(one_way) = &serve.one_way {
                one_way.keys.replace(keys);
            }
            if let Some(digests) = &serve.digests {
                digests.service.keys.replace(digest_keys);
            }
            info!("the keys of one-way tests and digests were read again; running tests continue");
        }
        Err(e) => warn!("the keys stay as they are: {:#}", anyhow::Error::from(e)),
    }
}

/// Starts announcing the server if that was requested.
fn announcer(args: &ServeArgs, serving: &Serving) -> Result<Option<Announcer>> {
    if !args.announce {
        return Ok(None);
    }
    let Some(first) = serving.one_way().first() else {
        bail!("--announce announces the server of one-way tests, which does not run: add jitlat to --only");
    };
    let ips: Vec<IpAddr> = serving.one_way().iter().map(SocketAddr::ip).collect();
    let name = host_name().unwrap_or_default();
    let started = Announcer::start(&name, first.port(), env!("CARGO_PKG_VERSION"), &ips);
    let started = started.context("--announce: starting to announce the server")?;
    if started.is_none() {
        warn!(
            "--announce: no interface for multicast has an address of this server: `jitlat find` cannot find it"
        );
    }
    Ok(started)
}

/// Returns the commands that test against the listeners at `all` from another host. A public server that does not answer private
/// addresses names none of its own.
fn hints(args: &ServeArgs, all: &[SocketAddr], policy: &Policy) -> String {
    let is_named = |ip: IpAddr| !args.public.public || policy.networks.admit(ip);
    let lines: String = all.iter().map(|at| hint(*at, is_named)).collect();
    let is_private = all.iter().flat_map(|at| reachable_at(at.ip())).any(|ip| !is_named(ip));
    if lines.is_empty() && is_private {
        return "jitlat serve: this host has private addresses only, which a public server does not answer: other hosts need its public \
                address; --allow NETWORK serves a private network\n"
            .to_owned();
    }
    lines
}

/// Returns the commands that test against the listener at `at` from another host, one line for each of its addresses.
fn hint(at: SocketAddr, is_named: impl Fn(IpAddr) -> bool) -> String {
    let host = |ip: IpAddr| match (at.port(), ip) {
        (CONTROL_PORT, ip) => ip.to_string(),
        (port, ip) => SocketAddr::new(ip, port).to_string(),
    };
    let line = |ip| format!("jitlat serve: on the other host: jitlat {}\n", host(ip));
    reachable_at(at.ip()).into_iter().filter(|ip| is_named(*ip)).map(line).collect()
}

/// Name of the page for browsers in the list of protocols that the server answers.
const BROWSERS: &str = "browsers";

/// Returns the addresses that a browser opens, one line for each address of the listener at `at`; only a browser on this host reaches a
/// loopback address.
fn pages(at: SocketAddr, is_secure: bool) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    let line = |ip| format!("jitlat serve: in a browser: {scheme}://{}/\n", SocketAddr::new(ip, at.port()));
    let own = Some(at.ip()).filter(IpAddr::is_loopback);
    own.into_iter().chain(reachable_at(at.ip())).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_type_on_the_other_host_is_said() {
        let said = |at: &str| hint(at.parse().unwrap(), |_| true);
        assert_eq!(said("192.0.2.7:2666"), "jitlat serve: on the other host: jitlat 192.0.2.7\n");
        assert_eq!(said("[2001:db8::7]:9"), "jitlat serve: on the other host: jitlat [2001:db8::7]:9\n");
        assert_eq!(said("127.0.0.1:2666"), "");
    }

    #[test]
    fn the_address_of_the_page_is_printed_also_for_this_host() {
        let printed = |at: &str, secure| pages(at.parse().unwrap(), secure);
        assert_eq!(printed("127.0.0.1:2681", false), "jitlat serve: in a browser: http://127.0.0.1:2681/\n");
        assert_eq!(
            printed("[2001:db8::7]:1", true),
            "jitlat serve: in a browser: https://[2001:db8::7]:1/\n"
        );
    }

    fn arguments(options: &[&str]) -> Result<ServeArgs, clap::Error> {
        let command = ServeArgs::augment_args(Command::new("serve"));
        ServeArgs::from_arg_matches(&command.try_get_matches_from([&["serve"], options].concat())?)
    }

    /// Returns the policy without a file.
    fn policy_of(options: &[&str]) -> Policy {
        let args = arguments(options).unwrap();
        args.access.access(|policy| args.apply_to(policy)).unwrap().policy
    }

    #[test]
    fn limits_take_units() {
        let mut policy =
            policy_of(&["--max-bandwidth", "1.5Mbit", "--max-rate", "2k/s", "--max-memory", "1M"]);
        let client = policy.service(ONE_WAY).client.clone();
        assert_eq!((client.bytes, client.packets), (Some(187_500), Some(2000)));
        assert_eq!(policy.total.memory, Some(1 << 20));
        assert_eq!(policy_of(&["--max-bandwidth", "64000"]).service(ONE_WAY).client.bytes, Some(8000));
        assert!(arguments(&["--max-bandwidth", "64 apples"]).is_err());
    }

    #[test]
    fn the_defaults_that_help_names_are_those_of_the_policy() {
        let mut options = Vec::new();
        for option in ServeArgs::augment_args(Command::new("serve")).get_arguments() {
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            if let (Some(name), Some((_, default))) = (option.get_long(), help.split_once(" [default: "))
                && name.starts_with("max-")
            {
                options.extend([format!("--{name}"), default.trim_end_matches(']').to_owned()]);
            }
        }
        assert_eq!(options.len(), 2 * 11, "{options:?}");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        assert_eq!(policy_of(&options), jitlat_instruments::access::usual());
    }

    #[test]
    fn options_win_over_the_policy_file_even_with_their_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy");
        let text = "[client]\npackets = 7\nbytes = 8\n[services.jitlat.client]\npackets = 9\n[services.lamp]\nserve = false";
        std::fs::write(&file, text).unwrap();
        let with = |options: &[&str]| policy_of(&[&["--policy", file.to_str().unwrap()], options].concat());
        assert_eq!(with(&[]).client.packets, Some(7));
        let mut given = with(&["--max-reflect-rate", "200k", "--max-rate", "1M", "--only", "lamp"]);
        assert_eq!((given.client.packets, given.client.bytes), (Some(200_000), Some(8)));
        assert_eq!(given.service(ONE_WAY).client.packets, Some(1_000_000));
        assert!(with(&[]).is_off(policy::LAMP) && !given.is_off(policy::LAMP));
    }
}
