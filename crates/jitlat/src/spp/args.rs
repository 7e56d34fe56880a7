//! Options of `jitlat spp`, and the settings created from them.

use super::drawing::FigureArgs;
use super::live::LivePointArgs;
use super::parts::PassivePartArgs;
use crate::options::report::ReportArgs;
use anyhow::{Context, bail};
use clap::Args;
use jitlat_core::prefix::Prefix;
use jitlat_core::quantity;
use jitlat_core::time::{SECOND, Span};
use jitlat_instruments::passive::{CaptureSource, Matching, Passive, Translation};
use jitlat_net::capture::in_folders;
use jitlat_output::ReportParts;
use jitlat_output::captures::ShownCaptures;
use jitlat_passive::flows::Grouping;
use jitlat_passive::pipeline::PacketFilter;
use jitlat_passive::{LinkQuestion, Sides};
use jitlat_store::passive::PairColumns;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

/// Measure round trips from two captures of the same traffic
///
/// One line per pair is printed to standard output, in the format of the CAIA tool: [count] timestamp rtt [spt]
/// [owd-out owd-in], in seconds. Further results (loss, duplication, reordering and delay variation of each
/// direction, clock offset and skew, the far host's processing time) are printed to standard error, or to
/// standard output with --summary.
#[allow(rustdoc::broken_intra_doc_links, reason = "brackets of a synopsis, not links")]
#[derive(Clone, Debug, Args)]
// -v is the CAIA tool's verbosity.
#[command(mut_arg("verbose", |verbose| verbose.short(None)))]
pub struct SppArgs {
    /// Captures at the reference point, where the round trip starts
    ///
    /// Files, or folders of them; - is standard input.
    #[arg(short = 'f', long = "reference", value_name = "FILE", num_args = 1.., required_unless_present_any = ["one_point", "payloads", "join", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote"])]
    pub reference: Vec<PathBuf>,
    /// Captures at the monitor point, the far end
    ///
    /// Files, or folders of them; - is standard input.
    #[arg(short = 'F', long = "monitor", value_name = "FILE", num_args = 1.., required_unless_present_any = ["one_point", "payloads", "join", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote"])]
    pub monitor: Vec<PathBuf>,
    /// Captures of a single point: round trips of TCP and QUIC
    ///
    /// TCP is measured by its timestamps, QUIC by its spin bit. There are round trips to the server and back,
    /// and to the client and back. - is standard input.
    #[arg(long, value_name = "CAPTURE", num_args = 1.., conflicts_with_all = ["reference", "monitor", "labels", "log", "ping", "fail_if"])]
    pub one_point: Vec<PathBuf>,
    /// Names of several captures, in order
    ///
    /// The first -f and the first -F file belong to the first name, and so on. Each capture is measured separately
    /// and is a curve of common figures. Without this option several files are parts of one capture.
    #[arg(long = "label", value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["log", "ping", "fail_if", "sizes_csv"])]
    pub labels: Vec<String>,
    #[command(flatten)]
    pub live: LivePointArgs,
    /// Address, prefix or host name at the reference side
    ///
    /// Found from the captures if not given.
    #[arg(short = 'a', long = "reference-address", value_name = "ADDR", requires = "monitor_address")]
    pub reference_address: Vec<String>,
    /// Address, prefix or host name at the monitor side
    #[arg(short = 'A', long = "monitor-address", value_name = "ADDR", requires = "reference_address")]
    pub monitor_address: Vec<String>,
    /// Address of the reference side as translated by NAT
    #[arg(short = 'n', long = "reference-nat", value_name = "ADDR")]
    pub reference_nat: Vec<String>,
    /// Address of the monitor side as translated by NAT
    #[arg(short = 'N', long = "monitor-nat", value_name = "ADDR")]
    pub monitor_nat: Vec<String>,
    /// Fields that a NAT on the path rewrites
    ///
    /// Found from the captures if not given.
    #[arg(long, value_name = "WHAT")]
    pub nat: Option<Nat>,

    /// Print the time between the two packets of a pair at the monitor
    ///
    /// This is the processing time of the far host.
    #[arg(short = 'p', long = "spt", help_heading = "Lines")]
    pub turnaround: bool,
    /// Print the number of each pair
    #[arg(short = 'c', long = "count", help_heading = "Lines")]
    pub count: bool,
    /// Print times of the monitor's clock
    #[arg(short = 'm', long = "monitor-clock", help_heading = "Lines")]
    pub monitor_clock: bool,
    /// Print the time of the pair's first packet instead of its middle
    #[arg(short = 'b', long = "begin", help_heading = "Lines")]
    pub begin: bool,
    /// Print the raw one-way delays, which include the clock offset
    #[arg(short = 'O', long = "owd", help_heading = "Lines")]
    pub one_way: bool,
    /// Print the lengths of the two IP packets
    #[arg(long, help_heading = "Lines")]
    pub sizes: bool,
    /// Print the moving average of the pair rate, in pairs per second
    #[arg(long, help_heading = "Lines")]
    pub rate: bool,
    /// Print only the lines of pairs, and nothing on standard error
    #[arg(short = 'q', long, help_heading = "Lines", conflicts_with = "summary")]
    pub quiet: bool,
    /// Print only the summary, on standard output
    #[arg(long, help_heading = "Lines")]
    pub summary: bool,
    /// Interval of regularly sampled RTTs, and span of the pair rate's moving average
    #[arg(long, value_name = "T", default_value = "1s", value_parser = quantity::duration, help_heading = "Lines")]
    pub every: Span,

    /// Use only these packets: tcp, udp, icmp, a port, tcp:PORT or udp:PORT
    #[arg(long, value_name = "WHAT", help_heading = "Apart")]
    pub only: Option<PacketFilter>,
    /// Add figures of each flow
    ///
    /// A flow is defined by protocol, addresses and ports; at most 65536 flows.
    #[arg(long, help_heading = "Apart")]
    pub per_flow: bool,
    /// Add figures of each pair of prefixes of this many bits
    ///
    /// A number of bits for IPv4, or for IPv4 and IPv6 (24,48).
    #[arg(long, value_name = "BITS", value_parser = prefix_bits, conflicts_with = "per_flow", help_heading = "Apart")]
    pub per_prefix: Option<Grouping>,
    /// Number of flows or prefixes in the summary, by bytes
    ///
    /// The JSON has all flows.
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Apart")]
    pub top: usize,
    /// Round trips to compare with: output of ping, or a log of `jitlat ping`
    ///
    /// Output of ping should be made with -D. ICMP echoes in the reference capture are found without this option.
    #[arg(long, value_name = "FILE", help_heading = "Apart")]
    pub ping: Option<PathBuf>,
    /// Write the packets of both directions as logs LOG.up and LOG.down
    ///
    /// The logs have version 3, with the directions OUT and IN, for analyze and compare.
    #[arg(long, value_name = "LOG")]
    pub log: Option<PathBuf>,
    /// Add these logs to the archive in DIR, which is created if missing
    #[arg(long, value_name = "DIR", requires = "log")]
    pub archive: Option<PathBuf>,
    #[command(flatten)]
    pub parts: PassivePartArgs,
    #[command(flatten)]
    pub report: ReportArgs,

    #[command(flatten)]
    pub figures: FigureArgs,

    /// Compare with an access link, or find the link
    ///
    /// Example: pppoe-llc,up=128k,down=512k,tunnel=28 (also pppoa-vc, bridged-llc, ipoa-vc, ethernet, plain+BYTES and
    /// more; up is from the reference side). To find the link: fit, or fit,tunnel=BYTES.
    #[arg(long, value_name = "LINK", help_heading = "Link")]
    pub link: Option<LinkQuestion>,
    /// Write round trips by packet size to FILE, one line each
    ///
    /// Columns: minimum, median, mean; with --link also the time on the link, and each figure minus that time.
    #[arg(long, value_name = "FILE", help_heading = "Link", conflicts_with = "payloads")]
    pub sizes_csv: Option<PathBuf>,
    /// Only print the delays of these UDP payloads on the --link (40,340,640)
    ///
    /// They are listed as bytes layer by layer, cells and delays.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "link", help_heading = "Link",
          value_parser = clap::value_parser!(u64).range(..=65_507), conflicts_with_all = ["reference", "monitor"])]
    pub payloads: Vec<u64>,

    /// Monitor clock minus reference clock, in seconds
    ///
    /// Found from the captures if not given.
    #[arg(
        short = 'o',
        long = "offset",
        value_name = "SEC",
        allow_negative_numbers = true,
        help_heading = "Matching"
    )]
    pub offset: Option<f64>,
    /// Longest time that a packet may be in transit, in seconds
    ///
    /// Default: 10; with --compat 60.
    #[arg(short = 'd', long = "window", value_name = "SEC", help_heading = "Matching")]
    pub window: Option<f64>,
    /// Fields that identify a packet, as a mask of the CAIA tool
    ///
    /// 63 is that tool's default.
    #[arg(short = '#', long = "mask", value_name = "MASK", help_heading = "Matching")]
    pub mask: Option<u32>,
    /// Leave out pairs whose packets are further apart at the monitor
    #[arg(long, value_name = "T", value_parser = quantity::duration, help_heading = "Matching")]
    pub max_spt: Option<Span>,
    /// Match like the CAIA tool
    ///
    /// Uses the fields, list search and order of the CAIA tool, without the last pair and without negative RTT.
    #[arg(long, help_heading = "Matching")]
    pub compat: bool,
    /// Number of packets searched for a match with --compat
    #[arg(
        short = 'G',
        long = "search",
        value_name = "N",
        default_value_t = 10_000,
        help_heading = "Matching"
    )]
    pub search: usize,
    /// Do not narrow the window with --compat
    #[arg(short = 'T', long = "no-narrowing", help_heading = "Matching")]
    pub no_narrowing: bool,
    /// Accepted for old scripts: packets are always filtered
    #[arg(short = 'P', hide = true)]
    pub filter: bool,
    /// Accepted for old scripts, like -P.
    #[arg(short = 'H', hide = true, value_name = "HASH")]
    pub hash: Option<String>,
    /// Accepted for old scripts, like -P.
    #[arg(short = 'v', hide = true, value_name = "MASK")]
    pub verbosity: Option<u32>,
}

/// Fields that a NAT rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nat {
    /// No fields: there is no NAT
    None,
    /// Addresses
    Address,
    /// Addresses and ports
    Ports,
}

fn seconds(s: f64) -> Option<Span> {
    let ns = s * SECOND as f64;
    (ns.is_finite() && ns.abs() < 1e18).then_some(Span(ns.round() as i64))
}

fn prefix_bits(text: &str) -> Result<Grouping, String> {
    let (v4, v6) = text.split_once(',').unwrap_or((text, "48"));
    let bits = |t: &str, most: u8| t.trim().parse().ok().filter(|n| *n <= most);
    match (bits(v4, 32), bits(v6, 128)) {
        (Some(v4), Some(v6)) => Ok(Grouping::Prefix { v4, v6 }),
        _ => Err("give 0 to 32 bits, or with IPv6 two numbers: 24,48".to_owned()),
    }
}

impl SppArgs {
    /// Resolves options that depend on others: the profile that is read from a file.
    pub fn complete(&mut self) -> anyhow::Result<()> {
        self.report.analysis.profile.resolve()
    }

    /// Creates the settings of the instrument.
    pub fn settings(&self) -> anyhow::Result<Passive> {
        let offset = |s: f64| seconds(s).with_context(|| format!("-o {s}: not a number of seconds"));
        let window =
            |s: f64| seconds(s).filter(|w| w.0 > 0).with_context(|| format!("-d {s}: give a time above 0"));
        Ok(Passive {
            sides: self.sides()?,
            translated: !self.reference_nat.is_empty() || !self.monitor_nat.is_empty(),
            translation: self.nat.map(|nat| match nat {
                Nat::None => Translation::Nothing,
                Nat::Address => Translation::Addresses,
                Nat::Ports => Translation::Ports,
            }),
            only: self.only,
            grouping: self.per_prefix.or(self.per_flow.then_some(Grouping::Flow)),
            offset: self.offset.map(offset).transpose()?,
            window: self.window.map(window).transpose()?,
            mask: self.mask,
            max_turnaround: self.max_spt,
            interval: self.every,
            matching: match self.compat {
                true => Matching::Caia { search: self.search, narrowing: !self.no_narrowing },
                false => Matching::Windowed,
            },
            records: self.labels.is_empty() && self.analyses_directions(),
            matched: self.report.outputs.draws(),
            first_pass: self.parts.plan()?,
            part: self.parts.part(),
        })
    }

    /// Returns the captures of both points, with folders replaced by the files in them.
    pub fn points(&self) -> anyhow::Result<[CaptureSource; 2]> {
        Ok([
            CaptureSource::Files(in_folders(&self.reference)?),
            CaptureSource::Files(in_folders(&self.monitor)?),
        ])
    }

    /// Returns the sides given by the user; `None` if they are to be found from the traffic.
    fn sides(&self) -> anyhow::Result<Option<Sides>> {
        if self.reference_address.is_empty() {
            return Ok(None);
        }
        let list = |own: &[String], nat: &[String]| -> anyhow::Result<Vec<Prefix>> {
            let mut all = Vec::new();
            for text in own.iter().chain(nat) {
                if let Ok(p) = text.parse() {
                    all.push(p);
                    continue;
                }
                let resolved = (text.as_str(), 0u16).to_socket_addrs().with_context(|| {
                    format!("'{text}' is not an IP address or prefix, and no host of that name is known")
                })?;
                all.extend(resolved.map(|a| Prefix::from(a.ip())));
            }
            all.dedup();
            Ok(all)
        };
        Ok(Some(Sides {
            reference: list(&self.reference_address, &self.reference_nat)?,
            monitor: list(&self.monitor_address, &self.monitor_nat)?,
        }))
    }

    /// True if an output needs the figures of both directions.
    fn analyses_directions(&self) -> bool {
        let report = &self.report;
        let shown =
            !report.outputs.is_empty() || !report.fail_if.is_empty() || report.analysis.interval.is_some();
        !self.compat && (shown || self.log.is_some())
    }

    /// True if a requested output goes to standard output, so that nothing else is printed there.
    pub fn writes_to_output(&self) -> bool {
        self.report.outputs.is_silent() || self.sizes_csv.as_deref() == Some(Path::new("-"))
    }

    /// True if no line of a pair is printed.
    pub fn is_silent(&self) -> bool {
        self.summary || self.writes_to_output()
    }

    /// Returns the settings of the report.
    pub fn shown(&self) -> ShownCaptures<'_> {
        ShownCaptures {
            link: self.link.as_ref(),
            marks: &self.figures.marks,
            interval: self.report.analysis.interval,
            corrected: self.report.plot_corrected,
            top: self.top,
        }
    }

    /// Returns the columns of the printed lines.
    pub fn columns(&self) -> PairColumns {
        PairColumns {
            count: self.count,
            turnaround: self.turnaround,
            one_way: self.one_way,
            sizes: self.sizes,
            rate: self.rate,
            monitor_clock: self.monitor_clock,
            begin: self.begin,
            no_negative: self.compat,
        }
    }

    /// Rejects contradictory options before anything is read.
    pub fn check(&self) -> anyhow::Result<()> {
        self.report.check_without_load()?;
        let parts = &self.parts;
        let apart = self.log.is_some()
            || self.ping.is_some()
            || !self.report.fail_if.is_empty()
            || !self.labels.is_empty();
        if (parts.keep.is_some() || !parts.join.is_empty())
            && (apart || self.analyses_directions() || self.per_flow || self.per_prefix.is_some())
        {
            bail!(
                "parts of captures, also joined ones, only have lines, a summary and a state (--state): leave out the other outputs"
            );
        }
        let stdin = self.reference.iter().chain(&self.monitor);
        if stdin.filter(|p| p.as_os_str() == jitlat_net::capture::STDIN).count() > 1 {
            bail!("only one of the captures can come from standard input");
        }
        let (names, files) = (self.labels.len(), [self.reference.len(), self.monitor.len()]);
        if names > 0 && files != [names; 2] {
            bail!(
                "--label: {names} names, but {} files of -f and {} of -F: give one of each per name",
                files[0],
                files[1]
            );
        }
        if let (true, Some((output, _))) = (names > 0, self.report.outputs.needing(ReportParts::STREAMS)) {
            bail!("{} applies to one capture: leave out this option or --label", output.spelling());
        }
        let apart = self.per_flow || self.per_prefix.is_some();
        if self.compat && (self.log.is_some() || !self.report.fail_if.is_empty() || apart) {
            bail!("--compat only makes pairs: leave it out for logs, thresholds, flows and prefixes");
        }
        let outputs = &self.report.outputs;
        let of_ways =
            [ReportParts::STREAMS, ReportParts::ROWS].into_iter().find_map(|part| outputs.needing(part));
        if let (true, Some((output, _))) = (self.compat, of_ways) {
            bail!("--compat only makes pairs: leave it out for {}", output.spelling());
        }
        let others: Vec<&Path> = self.log.iter().chain(&self.sizes_csv).map(PathBuf::as_path).collect();
        outputs.check_one_way()?;
        outputs.check_analysis(&self.report.options())?;
        Ok(outputs.check(if names > 0 { 1 } else { 2 }, &others)?)
    }
}
