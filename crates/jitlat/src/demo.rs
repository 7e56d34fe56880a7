//! `jitlat demo`: server, client and an impaired path on this machine, without any privilege.
//!
//! The server listens on 127.0.0.2, a relay on 127.0.0.1 at the same ports carries everything between them
//! through the impairment model, and the client is the real one.

use crate::cli::{Cli, Command, TestArgs};
use crate::{console, interrupt, present, test};
use anyhow::{Context, Result, anyhow};
use clap::{Args, Parser};
use jitlat_core::Direction;
use jitlat_core::impair::Scenario;
use jitlat_net::emulator::{Forward, Numbering, Relay, RelayConfig};
use jitlat_net::pace::Pacing;
use jitlat_net::server::{Server, Service};
use jitlat_proto::jitlat::Limits;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// The path between client and server: a scenario file (default: an access line with jitter, losses in
    /// bursts, duplicates, reordering)
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Options of the test, as for `jitlat HOST`: -n 500, -R, -b, -t, --json - …
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

/// The path that is shown unless another is asked for.
const PATH: &str = include_str!("../../../testdata/scenarios/demo.txt");

const CLIENT_SIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SERVER_SIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Runs the demonstration.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let scenario = scenario(args)?;
    let test_args = test_args(&args.options)?;
    let stop = interrupt::stop_flag()?;
    let [control, up, down, here] = free_ports()?;
    let service = Service {
        bind: vec![SocketAddr::from((SERVER_SIDE, control))],
        test_port: up,
        limits: Limits::default(),
        key: None,
        pacing: Pacing::default(),
    };
    let server = Server::bind(service).context("starting the demonstration's server")?;
    if !present::is_silent(&test_args.report) {
        console::print(&format!("A server, a client, and between them: {}.\n\n", scenario.name))?;
    }
    let through = |port: u16| Forward { listen: (CLIENT_SIDE, port).into(), to: (SERVER_SIDE, port).into() };
    let relay = Relay::start(RelayConfig {
        tcp: [control, up, down].map(through).to_vec(),
        udp: [up, down].map(through).to_vec(),
        numbering: Numbering::Sequence,
        scenario,
    })?;
    let mut request = test::request(&CLIENT_SIDE.to_string(), &test_args)?;
    request.control_port = control;
    for spec in &mut request.specs {
        // What is relayed must have fixed ports on the server's side.
        (spec.src_port, spec.dst_port) = match spec.direction() {
            Direction::Up => (0, up),
            Direction::Down => (down, here),
        };
    }
    let server_stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| server.run(&server_stop));
        let result = test::measure(&request, &test_args, &stop);
        server_stop.store(true, Ordering::Relaxed);
        result
    });
    relay.stop();
    result
}

fn scenario(args: &DemoArgs) -> Result<Scenario> {
    let (text, name) = match &args.scenario {
        Some(file) => {
            let name = file.display().to_string();
            (std::fs::read_to_string(file).with_context(|| format!("reading the scenario {name}"))?, name)
        }
        None => (PATH.to_owned(), "built in".to_owned()),
    };
    text.parse().with_context(|| format!("in the scenario {name}"))
}

/// The options of `jitlat HOST`, without a host.
fn test_args(options: &[String]) -> Result<Box<TestArgs>> {
    let line = ["jitlat", "test", "demo"].map(str::to_owned);
    let parsed = Cli::try_parse_from(line.iter().chain(options)).unwrap_or_else(|e| e.exit());
    match parsed.command {
        Some(Command::Test(args)) if !args.host_args.classic => Ok(args),
        _ => Err(anyhow!("the relay of the demonstration speaks version 3 only: leave out --classic")),
    }
}

/// Ports that nobody uses on either side, for TCP and UDP.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let free = (0..50).find_map(|_| {
            let tcp = TcpListener::bind((SERVER_SIDE, 0)).ok()?;
            let port = tcp.local_addr().ok()?.port();
            let others = (
                TcpListener::bind((CLIENT_SIDE, port)).ok()?,
                UdpSocket::bind((CLIENT_SIDE, port)).ok()?,
                UdpSocket::bind((SERVER_SIDE, port)).ok()?,
            );
            Some((port, tcp, others))
        });
        let (number, tcp, others) = free.ok_or_else(|| anyhow!("no free ports on the loopback interface"))?;
        *port = number;
        held.push((tcp, others));
    }
    Ok(ports)
}
