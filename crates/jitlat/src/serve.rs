//! `jitlat serve`: answers tests from other hosts.

use crate::confinement::ConfinementArgs;
use crate::exit::Status;
use crate::late_server::TestFolder;
use crate::options::priority::PriorityArgs;
use crate::options::protocol::{GivenArgs, add_options};
use crate::policy::{AccessArgs, show};
use crate::{console, interrupt};
use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use jitlat_core::Span;
use jitlat_core::quantity;
use jitlat_core::spec::{CONTROL_PORT, MAX_PAYLOAD, TEST_PORT};
use jitlat_instruments::arguments::NamedFile;
use jitlat_instruments::ping::{PROTOCOLS, Protocol};
use jitlat_instruments::serve::{
    DigestService, OneWayPacket, OneWayService, Policy, Reflector, Serve, every_address,
};
use jitlat_net::capture::interface::InterfaceSettings;
use jitlat_net::confine::Confining;
use jitlat_net::pace::Pacing;
use jitlat_proto::accounts::ClientLimits;
use jitlat_proto::digest;
use jitlat_proto::jitlat::{Key, Limits};
use jitlat_proto::policy::{self, DIGESTS, ONE_WAY, Service};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use tracing::warn;

#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Addresses to answer on (default: every IPv4 and IPv6 address)
    #[arg(long, value_name = "ADDR", num_args = 1..)]
    pub bind: Vec<IpAddr>,
    /// Port of control connections
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT)]
    pub control_port: u16,
    /// Port where test streams are awaited unless a client asks for another
    #[arg(long, value_name = "PORT", default_value_t = TEST_PORT)]
    pub test_port: u16,
    /// SCHED_FIFO priority of the measuring threads, and memory locked; reduced with a note where not permitted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "50", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    #[command(flatten)]
    pub priority: PriorityArgs,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub digests: DigestArgs,
    #[command(flatten)]
    pub reflect: ReflectArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub confinement: ConfinementArgs,
}

/// Packet digests for `jitlat spp -R HOST`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packet digests")]
pub struct DigestArgs {
    /// Interfaces whose packets are reported to `jitlat spp`: times, lengths and hashes, no payload. Needs --key-file
    #[arg(long, value_name = "IFACE", value_delimiter = ',')]
    pub capture: Vec<String>,
    /// TCP port where they are asked for
    #[arg(long, value_name = "PORT", default_value_t = digest::PORT, requires = "capture")]
    pub capture_port: u16,
    /// Send them to any host that asks, without a key
    #[arg(long, requires = "capture", conflicts_with = "key_file")]
    pub capture_without_key: bool,
    /// Packets a second reported to one host (200k)
    #[arg(long, value_name = "PPS", default_value_t = 200_000, requires = "capture", value_parser = quantity::packet_rate)]
    pub max_digest_rate: u32,
}

impl DigestArgs {
    fn settings(&self, key: Option<Key>, open: bool) -> Result<Option<DigestService>> {
        if self.capture.is_empty() {
            return Ok(None);
        }
        ensure!(
            key.is_some() || open,
            "--capture tells other hosts about this one's packets: give a key with --key-file, \
             or say --capture-without-key"
        );
        let service = jitlat_net::digest::DigestExporter {
            interfaces: self.capture.clone(),
            key,
            rate: self.max_digest_rate,
            settings: InterfaceSettings::default(),
        };
        Ok(Some(DigestService { port: self.capture_port, service }))
    }
}

/// Two-way tests of `jitlat ping` and other programs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Two-way tests")]
pub struct ReflectArgs {
    #[command(flatten)]
    pub protocols: AnsweredArgs,
    /// Keep the packets of each unidirectional LaMP test, which no client has, in DIR: a file in LaTe's format and a log
    /// for `jitlat analyze`. At most 10 000 tests
    #[arg(long, value_name = "DIR")]
    pub late_packets: Option<PathBuf>,
    /// Packets a second answered of one address (200k)
    #[arg(long, value_name = "PPS", default_value_t = USUAL.packets_per_second, value_parser = quantity::packet_rate)]
    pub max_reflect_rate: u32,
    /// Bits a second answered of one address (1G)
    #[arg(long, value_name = "RATE", default_value_t = 8 * USUAL.bytes_per_second, value_parser = quantity::bit_rate)]
    pub max_reflect_bandwidth: u64,
}

/// `--only`, and the options of every protocol that can be answered, made from [`PROTOCOLS`].
#[derive(Clone, Debug)]
pub struct AnsweredArgs {
    only: Vec<String>,
    given: GivenArgs,
}

/// The usual limits of answers.
const USUAL: ClientLimits = ClientLimits { packets_per_second: 200_000, bytes_per_second: 125_000_000 };

fn answered() -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().copied().filter(|p| p.server.is_some())
}

impl AnsweredArgs {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| o == name)
    }

    /// The reflectors of the selected protocols, with the keys of the policy where no option names another.
    fn reflectors(&self, key_files: &BTreeMap<Service, NamedFile>) -> Result<Vec<Box<dyn Reflector>>> {
        let mut given = self.given.read()?;
        for (service, file) in key_files {
            let name = format!("{service}-key-file");
            let arguments = answered().filter_map(|p| p.server.as_ref()).flat_map(|s| s.arguments);
            ensure!(
                arguments.map(|a| a.name).any(|a| a == name),
                "services.{service}.key-file: {service} has no key"
            );
            if given.file(&name).is_none() {
                given = given.with_file(&name, file.clone());
            }
        }
        let mut reflectors = Vec::new();
        for protocol in answered().filter(|p| self.wants(p.name)) {
            let arguments = protocol.server.as_ref().map_or(&[][..], |s| s.arguments);
            reflectors.extend(protocol.reflectors(&given.of(arguments))?);
        }
        Ok(reflectors)
    }
}

impl Args for AnsweredArgs {
    fn augment_args(command: Command) -> Command {
        let names = std::iter::once(ONE_WAY).chain(answered().map(|p| p.name));
        let titles: Vec<&str> = answered().map(|p| p.title).collect();
        let help = format!("Answer only these: {ONE_WAY} (one-way tests), {}", titles.join(", "));
        let only = Arg::new("only")
            .long("only")
            .value_name("LIST")
            .value_delimiter(',')
            .num_args(1..)
            .value_parser(PossibleValuesParser::new(names))
            .help(help);
        let entries = answered().filter_map(|p| Some((p.title, p.server.as_ref()?.arguments)));
        add_options(command.arg(only), entries)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AnsweredArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AnsweredArgs, clap::Error> {
        let arguments = answered().filter_map(|p| p.server.as_ref()).flat_map(|s| s.arguments);
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

/// The limits of clients; a refusal names the limit.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Refuse classic workorders
    #[arg(long)]
    pub no_classic: bool,
    /// Packets of a test
    #[arg(long, value_name = "N", default_value_t = Limits::default().packets)]
    pub max_packets: u32,
    /// Payload of a packet
    #[arg(long, value_name = "BYTES", default_value_t = MAX_PAYLOAD)]
    pub max_payload: u16,
    /// Ports that clients may name for test streams; any they may not leave to the system
    #[arg(long, value_name = "FIRST-LAST", value_parser = quantity::ports, default_value = "1024-65535")]
    pub test_ports: RangeInclusive<u16>,
    /// Packets per second of a client's streams in each direction, in every 100 ms (1000, 200k/s)
    #[arg(long, value_name = "PPS", default_value_t = Limits::default().rate, value_parser = quantity::packet_rate)]
    pub max_rate: u32,
    /// Payload bits per second, likewise (64kbit, 1.5Mbit, 10G; a bare number is bits)
    #[arg(long, value_name = "RATE", default_value_t = Limits::default().bandwidth, value_parser = quantity::bit_rate)]
    pub max_bandwidth: u64,
    /// Duration of a test
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "24h")]
    pub max_duration: Span,
    /// Control connections, of all clients
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    pub max_connections: usize,
    /// Control connections of one client
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections_per_client)]
    pub max_connections_per_client: usize,
    /// Sessions running or kept, of all clients
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions)]
    pub max_sessions: usize,
    /// Sessions of one client
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions_per_client)]
    pub max_sessions_per_client: usize,
    /// Memory for the results of all clients (k, M, G)
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "3G")]
    pub max_memory: u64,
    /// Memory for the results of one client
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "1536M")]
    pub max_memory_per_client: u64,
    /// How long a client may be silent between messages
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "30s")]
    pub idle: Span,
    /// How long results that were not collected are kept
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "10m")]
    pub keep: Span,
}

impl From<&LimitArgs> for Limits {
    fn from(a: &LimitArgs) -> Limits {
        Limits {
            packets: a.max_packets,
            payload: a.max_payload,
            rate: a.max_rate,
            bandwidth: a.max_bandwidth,
            duration: a.max_duration,
            connections: a.max_connections,
            connections_per_client: a.max_connections_per_client,
            sessions: a.max_sessions,
            sessions_per_client: a.max_sessions_per_client,
            memory: a.max_memory,
            memory_per_client: a.max_memory_per_client,
            idle: a.idle,
            keep: a.keep,
            classic: !a.no_classic,
            ports: a.test_ports.clone(),
            ..Limits::default()
        }
    }
}

/// Serves until stopped by a signal.
pub fn run(args: &ServeArgs) -> Result<Status> {
    let limits = Limits::from(&args.limits);
    let (mut given, mut usual) = (Policy::default(), Policy::default());
    limits.apply_to(&mut given);
    Limits::default().apply_to(&mut usual);
    given.client.packets = Some(args.reflect.max_reflect_rate);
    given.client.bytes = Some(args.reflect.max_reflect_bandwidth / 8);
    let mut access = args.access.access(&given, &usual)?;
    if args.digests.capture_without_key {
        access.policy.service(DIGESTS).open = true;
    }
    if args.access.show_policy {
        let wants = |service| match service {
            DIGESTS => !args.digests.capture.is_empty(),
            policy::TEST_PORT => args.reflect.protocols.wants(ONE_WAY),
            _ => args.reflect.protocols.wants(service),
        };
        console::print(&show(&access.policy, wants))?;
        return Ok(Status::Measured);
    }
    let one_way = OneWayService {
        control_port: args.control_port,
        test_port: args.test_port,
        limits,
        keys: access.keys,
        pacing: Pacing { realtime: args.realtime, lock_memory: args.realtime.is_some(), ..Pacing::default() },
    };
    let reflect = &args.reflect;
    let digests = args.digests.settings(access.digest_key, access.policy.is_open(DIGESTS))?;
    let folder = reflect.late_packets.as_deref().map(TestFolder::new).transpose()?;
    let mut serve = Serve {
        ips: if args.bind.is_empty() { every_address() } else { args.bind.clone() },
        one_way: Some(one_way).filter(|_| reflect.protocols.wants(ONE_WAY)),
        reflectors: reflect.protocols.reflectors(&access.key_files)?,
        policy: access.policy,
        priority: args.priority.priority(),
        one_way_packets: None,
        digests,
    };
    let stop = interrupt::stop()?;
    let folders = reflect.late_packets.iter().cloned().collect();
    let confining = args.confinement.begin(&serve, folders, args.realtime.is_some())?;
    let keep = folder.map(keep_packets).transpose()?;
    serve.one_way_packets = keep.as_ref().map(|(packets, _)| packets.clone());
    let serving = serve.start()?;
    let confined = confining.map(Confining::complete).transpose()?;
    serving.failures().iter().for_each(|failure| warn!("{failure}"));
    let mut lines = match &confined {
        Some(confined) => format!("jitlat serve: confined: {confined}\n"),
        None => "jitlat serve: not confined (--no-sandbox)\n".to_owned(),
    };
    for address in serving.digests() {
        let interfaces = args.digests.capture.join(", ");
        lines += &format!("jitlat serve: digests of packets at {interfaces} on TCP {address}\n");
    }
    for address in serving.one_way() {
        lines += &format!("jitlat serve: listening on TCP {address}, test port {}\n", args.test_port);
    }
    for (name, address) in serving.two_way() {
        lines += &format!("jitlat serve: answering {name} on {address}\n");
    }
    if !serving.withheld().is_empty() {
        let list = serving.withheld().join(", ");
        lines += &format!(
            "jitlat serve: withheld, as a key is configured and they need none: {list} (--open serves them)\n"
        );
    }
    console::print(&lines)?;
    serving.run(&stop);
    drop(serve);
    if let Some((packets, writer)) = keep {
        // Without a sender it writes what is left, and ends.
        drop(packets);
        if writer.join().is_err() {
            warn!("--late-packets: the thread that writes them failed");
        }
    }
    Ok(Status::Measured)
}

/// Packets that may wait to be kept.
const WAITING: usize = 1 << 16;

/// Starts the thread that keeps packets of one-way tests in a folder.
fn keep_packets(folder: TestFolder) -> Result<(SyncSender<OneWayPacket>, JoinHandle<()>)> {
    let (packets, received) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("late-packets".to_owned());
    Ok((packets, thread.spawn(move || folder.run(&received))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_take_units() {
        let limits = |options: &[&str]| {
            let command = ServeArgs::augment_args(Command::new("serve"));
            let matches = command.try_get_matches_from([&["serve"], options].concat())?;
            ServeArgs::from_arg_matches(&matches).map(|args| Limits::from(&args.limits))
        };
        let given = ["--max-bandwidth", "1.5Mbit", "--max-rate", "2k/s", "--max-memory", "1M"];
        let limits_given = limits(&given).unwrap();
        assert_eq!((limits_given.bandwidth, limits_given.rate), (1_500_000, 2000));
        assert_eq!(limits(&["--max-bandwidth", "64000"]).unwrap().bandwidth, 64_000);
        assert!(limits(&["--max-bandwidth", "64 apples"]).is_err());
    }
}
