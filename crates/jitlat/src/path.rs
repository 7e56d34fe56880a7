//! `jitlat path HOST`: examines the routers on the path, and how they treat packets.

use crate::exit::ExitStatus;
use crate::interrupt;
use crate::live::{self, PathBoard};
use crate::options::live::LiveArgs;
use crate::options::outputs::Outputs;
use crate::options::{LocalAddresses, family};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use jitlat_core::class_paths::ClassPaths;
use jitlat_core::far_host::FarHost;
use jitlat_core::path::Path;
use jitlat_core::path_history::{FlowNumber, PathEvent, PathHistory};
use jitlat_core::spec::Dscp;
use jitlat_core::{Ecn, Span, Transport, quantity};
use jitlat_instruments::Stop;
use jitlat_instruments::path::{PathTest, TCP_PORT, UDP_PORT};
use jitlat_net::clock;
use jitlat_net::names::{NameSources, Names};
use jitlat_net::resolve::is_link_local;
use jitlat_output::terminal;
use jitlat_output::terminal::work::Work;
use jitlat_output::{Report, ReportParts};
use jitlat_report::text;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Maximum number of probes per hop.
const MAX_PROBES: u32 = 100_000;
/// Number of probes per hop without `-n`.
const USUAL_PROBES: u32 = 10;
/// Time to wait for names after the last probe.
const NAMES_TIMEOUT: Duration = Duration::from_secs(1);

/// Examine the routers to a host: delay, names, DSCP, ECN and MPLS labels per hop
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Needs CAP_NET_RAW to receive the packets that routers quote. Routers limit their answers \
                        (Linux: one per second): silence at one hop is not loss on the path if later hops \
                        answer."
)]
pub struct PathArgs {
    /// Far host: a name or an address
    pub host: String,
    /// Send TCP probes (connection attempts) instead of UDP
    #[arg(short = 't')]
    pub tcp: bool,
    /// Number of probes per hop (default: 10; with --live until you quit)
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PROBES)))]
    pub probes: Option<u32>,
    /// Time between two probes to the same hop
    #[arg(short = 'p', value_name = "PERIOD", value_parser = quantity::period, default_value = "1s")]
    pub period: Span,
    /// DSCP of the probes: 0 to 63, or a name (EF, AF41)
    #[arg(short = 'D', value_name = "DSCP", default_value = "0")]
    pub dscp: Dscp,
    /// Mark (ECN) of UDP probes: off, ect0 or ect1
    ///
    /// Routers quote the probe as it arrived, which shows the hop at which a mark is removed or changed.
    #[arg(long, value_name = "MARK", default_value = "off", conflicts_with = "tcp")]
    pub ecn: ProbeMark,
    /// Examine the path of each class, side by side: BE,EF or numbers
    ///
    /// One class after the other, to the same address. The table has a line for each router and a column for each class.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "dscp")]
    pub classes: Vec<Dscp>,
    /// Destination port of the probes (default: UDP 33434, TCP 80)
    #[arg(short = 'd', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Local address or interface of the probes
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<LocalAddresses>,
    /// Maximum number of hops
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..))]
    pub hops: u8,
    /// Time to wait for an answer
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "2s")]
    pub timeout: Span,
    /// Vary the source port: N flows, which routers may send along different routes
    ///
    /// Without it all UDP probes have the same addresses and ports, so that routers which balance load by these send them
    /// along one route. The flows take turns: no hop is probed more often than with one flow.
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with_all = ["tcp", "classes"])]
    pub flows: FlowNumber,
    /// Do not look up the names of routers
    #[arg(long)]
    pub no_dns: bool,
    /// Look up the autonomous system of each router (asks Team Cymru's DNS)
    ///
    /// Sends the public addresses of the routers to the name servers of origin.asn.cymru.com, through those of this host.
    #[arg(long)]
    pub asn: bool,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub outputs: Outputs<{ ReportParts::NOTHING.0 }>,
}

/// Mark of the probes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProbeMark {
    Off,
    Ect0,
    Ect1,
}

impl From<ProbeMark> for Ecn {
    fn from(mark: ProbeMark) -> Ecn {
        match mark {
            ProbeMark::Off => Ecn::NotEct,
            ProbeMark::Ect0 => Ecn::Ect0,
            ProbeMark::Ect1 => Ecn::Ect1,
        }
    }
}

/// Examines the path and prints it.
pub fn run(args: &PathArgs) -> Result<ExitStatus> {
    args.outputs.check(0, &[])?;
    if let Some(twice) = args.classes.iter().enumerate().find(|(k, class)| args.classes[..*k].contains(class))
    {
        bail!("--classes: {} is given twice, but only different classes can be compared", twice.1);
    }
    if args.live.live && !args.classes.is_empty() {
        bail!("--live shows one path: leave out --classes, or give one class as -D");
    }
    let drawn = args.live.live && live::is_possible()?;
    let stop = interrupt::stop()?;
    let FarHost { name: host, port } = args.host.parse()?;
    if let (Some(port), Some(_)) = (port, args.port) {
        bail!("the port is given twice: leave out :{port} or -d");
    }
    let family = family(args.ipv4, args.ipv6);
    let test = PathTest {
        family,
        bind: args.bind.as_ref().and_then(|bind| bind.towards(&host, family)),
        transport: if args.tcp { Transport::Tcp } else { Transport::Udp },
        port: args.port.or(port),
        dscp: args.dscp,
        mark: args.ecn.into(),
        probes: args.probes.unwrap_or(if drawn { MAX_PROBES } else { USUAL_PROBES }),
        period: args.period,
        hops: args.hops,
        timeout: args.timeout,
        flows: args.flows,
        ..PathTest::new(host)
    };
    let names =
        Arc::new(Names::start(NameSources::of_system(!args.no_dns, args.asn)).context("looking up names")?);
    let options = text::TextOptions { style: terminal::style(), ..text::TextOptions::default() };
    let whole = match &args.classes[..] {
        [] => {
            let path = examine(&test, args, drawn, &names, &stop)?;
            let whole = args.outputs.write(&PathReport(&path), || text::path(&path, &options));
            whole && !path.hops.is_empty()
        }
        classes => {
            let found = of_classes(test, classes, &names, &stop)?;
            let whole = args.outputs.write(&PathReport(&found), || text::class_paths(&found, &options));
            whole && found.hops() > 0
        }
    };
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Examines one path, with a full-screen view if it is `drawn`.
fn examine(test: &PathTest, args: &PathArgs, drawn: bool, names: &Arc<Names>, stop: &Stop) -> Result<Path> {
    let mut history = PathHistory::new(test.timeout);
    let view = match drawn {
        true => {
            let port = test.port.unwrap_or(if args.tcp { TCP_PORT } else { UDP_PORT });
            let board = PathBoard {
                host: args.host.clone(),
                probes: format!("{} port {port}", if args.tcp { "TCP" } else { "UDP" }),
                dscp: test.dscp,
                flows: test.flows,
                planned: args.probes,
                history: history.clone(),
            };
            Some(live::start_path(board, names.clone(), stop)?)
        }
        false => None,
    };
    let work = (!drawn).then(|| Work::counted("probing each hop", test.probes.into()));
    let found = test.run(stop, &mut |event| {
        history.event(event, clock::steady(), clock::wall());
        match &view {
            Some(view) => view.event(event),
            None => ask(names, event),
        }
        if let (Some(work), PathEvent::Round(rounds)) = (&work, event) {
            work.done((*rounds).into());
        }
    });
    drop(work);
    // Release the terminal before anything is printed.
    drop(view);
    let mut path = found?;
    history.complete(&mut path, clock::steady());
    name(&mut path, names);
    Ok(path)
}

/// Starts the lookup of the name of a router that has answered.
fn ask(names: &Names, event: &PathEvent<'_>) {
    if let PathEvent::Answered(_, reply) = event {
        names.ask(reply.from);
    }
}

/// Adds the names of routers that are known within [`NAMES_TIMEOUT`].
fn name(path: &mut Path, names: &Names) {
    names.wait(NAMES_TIMEOUT);
    let known = names.known();
    for responder in path.hops.iter_mut().flat_map(|hop| &mut hop.responders) {
        if let Some(names) = known.get(&responder.address) {
            (responder.name, responder.origin) = (names.name.clone(), names.origin.clone());
        }
    }
}

/// Examines the path of each class.
fn of_classes(mut test: PathTest, classes: &[Dscp], names: &Names, stop: &Stop) -> Result<ClassPaths> {
    let mut paths: Vec<Path> = Vec::new();
    let work = Work::counted("examining the path of each class", classes.len() as u64);
    for dscp in classes.iter().filter(|_| !stop.is_requested()) {
        // A name may have several addresses, and their paths would differ. (A link-local address needs its interface.)
        if let Some(first) = paths.first().filter(|first| !is_link_local(&first.destination)) {
            test.host = first.destination.to_string();
        }
        test.dscp = *dscp;
        paths.push(test.run(stop, &mut |event| ask(names, event))?);
        work.done(paths.len() as u64);
    }
    paths.iter_mut().for_each(|path| name(path, names));
    Ok(ClassPaths::new(paths))
}

/// Examines the path with three probes per hop before a test, and returns the hops as tags. If that fails, the reason
/// is logged and the test runs anyway.
pub fn tags(test: PathTest, stop: &Stop) -> Vec<(String, String)> {
    let test = PathTest { probes: 3, period: Span::millis(500), timeout: Span::seconds(1), ..test };
    let found = test.run(stop, &mut |_| ());
    found
        .inspect_err(|why| {
            warn!("--path: the path could not be examined, and is not stored with the test: {why}");
        })
        .map_or(Vec::new(), |p| p.tags())
}

struct PathReport<'a, T>(&'a T);

impl<T: Serialize> Report for PathReport<'_, T> {
    fn json(&self) -> jitlat_output::Result<Value> {
        Ok(serde_json::to_value(self.0)?)
    }
}
