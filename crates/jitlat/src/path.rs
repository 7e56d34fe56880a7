//! `jitlat path HOST`: examines the routers on the path, and how they treat packets.

use crate::exit::ExitStatus;
use crate::interrupt;
use crate::options::outputs::Outputs;
use crate::options::{LocalAddresses, family};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use jitlat_core::class_paths::ClassPaths;
use jitlat_core::far_host::FarHost;
use jitlat_core::path::Path;
use jitlat_core::spec::Dscp;
use jitlat_core::{Ecn, Span, Transport, quantity};
use jitlat_instruments::Stop;
use jitlat_instruments::path::PathTest;
use jitlat_net::resolve::is_link_local;
use jitlat_output::terminal;
use jitlat_output::{Report, ReportParts};
use jitlat_report::text;
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

/// Examine the routers to a host: delay, DSCP, ECN and MPLS labels per hop
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
    /// Number of probes per hop
    #[arg(short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub probes: u32,
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
        probes: args.probes,
        period: args.period,
        hops: args.hops,
        timeout: args.timeout,
        ..PathTest::new(host)
    };
    let options = text::TextOptions { style: terminal::style(), ..text::TextOptions::default() };
    let whole = match &args.classes[..] {
        [] => {
            let path = test.run(&stop, &mut |_| ())?;
            let whole = args.outputs.write(&PathReport(&path), || text::path(&path, &options));
            whole && !path.hops.is_empty()
        }
        classes => {
            let found = of_classes(test, classes, &stop)?;
            let whole = args.outputs.write(&PathReport(&found), || text::class_paths(&found, &options));
            whole && found.hops() > 0
        }
    };
    Ok(if whole { ExitStatus::Measured } else { ExitStatus::NotMeasured })
}

/// Examines the path of each class.
fn of_classes(mut test: PathTest, classes: &[Dscp], stop: &Stop) -> Result<ClassPaths> {
    let mut paths: Vec<Path> = Vec::new();
    for dscp in classes.iter().filter(|_| !stop.is_requested()) {
        // A name may have several addresses, and their paths would differ. (A link-local address needs its interface.)
        if let Some(first) = paths.first().filter(|first| !is_link_local(&first.destination)) {
            test.host = first.destination.to_string();
        }
        test.dscp = *dscp;
        paths.push(test.run(stop, &mut |_| ())?);
    }
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
