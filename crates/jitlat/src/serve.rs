//! `jitlat serve`: answers tests from other hosts.

use crate::cli::quantity;
use crate::console;
use crate::interrupt;
use crate::test::key;
use anyhow::Result;
use clap::{Args, ValueEnum};
use jitlat_core::Span;
use jitlat_core::passive::Prefix;
use jitlat_core::spec::{CONTROL_PORT, MAX_PAYLOAD, TEST_PORT};
use jitlat_net::capture::live::Settings;
use jitlat_net::digest::Serving;
use jitlat_net::pace::Pacing;
use jitlat_net::reflect::{
    LampFrameReflector, LampReflector, Reflector, Reflectors, StampReflector, TcpResponder, TwampServer,
};
use jitlat_net::server::{Server, Service};
use jitlat_proto::access::Access;
use jitlat_proto::digest;
use jitlat_proto::jitlat::{Key, Limits};
use jitlat_proto::{lamp, reqresp, stamp, twamp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;
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
    /// File with the key that clients must prove to know; refuses all others, and classic clients
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// SCHED_FIFO priority of the measuring threads, and memory locked; reduced with a note where not permitted
    #[arg(long, value_name = "PRIORITY", num_args = 0..=1, default_missing_value = "50", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    #[command(flatten)]
    pub digests: DigestArgs,
    #[command(flatten)]
    pub reflect: ReflectArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Packet digests, which `jitlat spp -R HOST` asks for.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packet digests")]
pub struct DigestArgs {
    /// Interfaces whose packets are told to `jitlat spp`: times, lengths and hashes, no payload. Needs --key-file
    #[arg(long, value_name = "IFACE", value_delimiter = ',')]
    pub capture: Vec<String>,
    /// TCP port where they are asked for
    #[arg(long, value_name = "PORT", default_value_t = digest::PORT, requires = "capture")]
    pub capture_port: u16,
    /// Tell them to whoever asks, without a key
    #[arg(long, requires = "capture", conflicts_with = "key_file")]
    pub capture_without_key: bool,
    /// Packets a second told to one host
    #[arg(long, value_name = "PPS", default_value_t = 200_000, requires = "capture")]
    pub max_digest_rate: u32,
}

impl DigestArgs {
    /// Starts to serve, if it is wanted.
    fn start(&self, bind: &[IpAddr], key: Option<Key>) -> Result<Option<Serving>> {
        if self.capture.is_empty() {
            return Ok(None);
        }
        anyhow::ensure!(
            key.is_some() || self.capture_without_key,
            "--capture tells other hosts about this one's packets: give a key with --key-file, \
             or say --capture-without-key"
        );
        let service = digest_service(self, key);
        let addresses: Vec<_> = bind.iter().map(|ip| SocketAddr::new(*ip, self.capture_port)).collect();
        let serving = service.serve(&addresses)?;
        for address in serving.addresses() {
            let interfaces = self.capture.join(", ");
            console::print(&format!("jitlat serve: digests of packets at {interfaces} on TCP {address}\n"))?;
        }
        Ok(Some(serving))
    }
}

fn digest_service(args: &DigestArgs, key: Option<Key>) -> jitlat_net::digest::Service {
    jitlat_net::digest::Service {
        interfaces: args.capture.clone(),
        key,
        rate: args.max_digest_rate,
        settings: Settings::default(),
    }
}

/// Two-way tests, which `jitlat ping` and other programs make.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Two-way tests")]
pub struct ReflectArgs {
    /// Answer only these
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<Answered>,
    /// UDP port of the STAMP and TWAMP Light reflector
    #[arg(long, value_name = "PORT", default_value_t = stamp::PORT)]
    pub stamp_port: u16,
    /// File with the key of STAMP's authenticated mode, in hexadecimal; unsigned requests are not answered
    #[arg(long, value_name = "FILE")]
    pub stamp_key_file: Option<PathBuf>,
    /// STAMP sessions whose answers are counted, so that loss is told by direction; 0 = stateless
    #[arg(long, value_name = "N", default_value_t = StampReflector::default().sessions)]
    pub stamp_sessions: usize,
    /// TCP port of the TWAMP control server
    #[arg(long, value_name = "PORT", default_value_t = twamp::PORT)]
    pub twamp_port: u16,
    /// File with the TWAMP users, a name and a passphrase in hexadecimal a line (perfSONAR's .pfs); offers the keyed
    /// modes and no longer the open one
    #[arg(long, value_name = "FILE")]
    pub twamp_key_file: Option<PathBuf>,
    /// UDP ports of TWAMP sessions, for a firewall; without this any from 1024 up
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    pub twamp_test_ports: Option<RangeInclusive<u16>>,
    /// UDP port of the LaMP server, for LaTe
    #[arg(long, value_name = "PORT", default_value_t = lamp::PORT)]
    pub lamp_port: u16,
    /// Answer LaMP over IPv4 in whole Ethernet frames at this interface, past this host's own IP and UDP, and nowhere
    /// else (needs CAP_NET_RAW)
    #[arg(long, value_name = "IFACE")]
    pub lamp_raw: Option<String>,
    /// TCP port of the request-response server
    #[arg(long, value_name = "PORT", default_value_t = reqresp::PORT)]
    pub tcp_port: u16,
    /// Answer two-way tests of these hosts and networks only (192.0.2.0/24, 2001:db8::/32); may be repeated
    #[arg(long, value_name = "NETWORK", value_parser = network, value_delimiter = ',')]
    pub allow: Vec<Prefix>,
    /// Packets a second answered of one address
    #[arg(long, value_name = "PPS", default_value_t = Access::default().packets_per_second, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_reflect_rate: u32,
}

/// What a server can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Answered {
    /// One-way tests of jitlat
    Jitlat,
    /// STAMP and TWAMP Light
    Stamp,
    /// TWAMP with a control connection
    Twamp,
    /// LaMP
    Lamp,
    /// TCP request-response
    Tcp,
}

fn network(text: &str) -> Result<Prefix, String> {
    text.parse()
        .map_err(|()| "write an address or a network: 192.0.2.7, 192.0.2.0/24, 2001:db8::/32".to_owned())
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err("write two ports, the lower first: 18760-19960".to_owned()),
    }
}

impl ReflectArgs {
    fn answers(&self, what: Answered) -> bool {
        self.only.is_empty() || self.only.contains(&what)
    }

    fn access(&self) -> Access {
        Access { allow: self.allow.clone(), packets_per_second: self.max_reflect_rate }
    }

    /// What answers the protocols wanted.
    fn reflectors(&self) -> Result<Vec<Box<dyn Reflector>>> {
        let mut wanted: Vec<Box<dyn Reflector>> = Vec::new();
        if self.answers(Answered::Stamp) {
            let key = self.stamp_key_file.as_deref().map(crate::ping::stamp_key).transpose()?;
            wanted.push(Box::new(StampReflector {
                port: self.stamp_port,
                key,
                sessions: self.stamp_sessions,
            }));
        }
        if self.answers(Answered::Lamp) {
            if let Some(interface) = self.lamp_raw.clone() {
                wanted.push(Box::new(LampFrameReflector { port: self.lamp_port, interface }));
            }
            let only_ipv6 = self.lamp_raw.is_some();
            wanted.push(Box::new(LampReflector { port: self.lamp_port, only_ipv6 }));
        }
        if self.answers(Answered::Twamp) {
            let users = self.twamp_key_file.as_deref().map(crate::ping::read_users).transpose()?;
            wanted.push(Box::new(TwampServer {
                port: self.twamp_port,
                users: users.unwrap_or_default(),
                test_ports: self.twamp_test_ports.clone(),
                ..TwampServer::default()
            }));
        }
        if self.answers(Answered::Tcp) {
            wanted.push(Box::new(TcpResponder { port: self.tcp_port, ..TcpResponder::default() }));
        }
        Ok(wanted)
    }
}

/// What a client is granted; a refusal names the limit.
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
    /// Packets per second of a stream
    #[arg(long, value_name = "PPS", default_value_t = Limits::default().rate)]
    pub max_rate: u32,
    /// Payload bits per second of a stream
    #[arg(long, value_name = "BITS", default_value_t = Limits::default().bandwidth)]
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
            ..Limits::default()
        }
    }
}

/// Serves until stopped by a signal.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let explicit = !args.bind.is_empty();
    let mut ips = if explicit { args.bind.clone() } else { every.to_vec() };
    if !explicit && !has_ipv6() {
        ips.truncate(1);
    }
    let two_way = args.reflect.reflectors()?;
    let _digests = args.digests.start(&ips, args.key_file.as_deref().map(key).transpose()?)?;
    let service = Service {
        bind: ips.iter().map(|ip| SocketAddr::new(*ip, args.control_port)).collect(),
        test_port: args.test_port,
        limits: (&args.limits).into(),
        key: args.key_file.as_deref().map(key).transpose()?,
        pacing: Pacing { realtime: args.realtime, lock_memory: args.realtime.is_some(), ..Pacing::default() },
    };
    let stop = interrupt::stop_flag()?;
    let mut reflectors = Reflectors::new(args.reflect.access());
    two_way.iter().for_each(|r| reflectors.start(r.as_ref(), &ips));
    for failure in reflectors.failures() {
        warn!("{failure}");
    }
    if !args.reflect.answers(Answered::Jitlat) {
        anyhow::ensure!(
            !reflectors.listening().is_empty(),
            "nothing to answer: every reflector failed to start"
        );
        tell(&reflectors)?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::bind(service)?;
    for address in server.addresses() {
        console::print(&format!("jitlat serve: listening on TCP {address}, test port {}\n", args.test_port))?;
    }
    tell(&reflectors)?;
    server.run(&stop);
    Ok(ExitCode::SUCCESS)
}

/// Says where two-way tests are answered.
fn tell(reflectors: &Reflectors) -> Result<()> {
    for (name, address) in reflectors.listening() {
        console::print(&format!("jitlat serve: answering {name} on {address}\n"))?;
    }
    Ok(())
}

/// Whether this host speaks IPv6 at all.
fn has_ipv6() -> bool {
    std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}
