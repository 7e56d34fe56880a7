//! `jitlat spp`: passive round-trip times from two captures of the same traffic.

pub mod feed;
mod hearing;
pub mod join;
mod lines;
mod link;
mod live;
mod page;
mod ping;
mod report;
mod streams;

use crate::exit::Status;
use crate::options::report::ReportArgs;
use crate::{console, present};
use anyhow::{Context, bail};
use clap::Args;
use feed::{Facts, Feed, Naming, Only, Stream};
use hearing::Hearing;
use jitlat_core::passive::flows::{FlowNumbers, Grouping};
use jitlat_core::passive::{
    CaiaMatcher, CaiaPairer, Estimator, Fields, Flows, IdentityRule, MatchCounts, Matcher, NoPlan, Plan,
    Point, Prefix, Sides, Spread, Streams, Way, survey,
};
use jitlat_core::quantity;
use jitlat_core::time::{SECOND, Span, WallTime};
use jitlat_report::figure::PassiveTrace;
use lines::Lines;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use streams::Keep;
use tracing::error;

/// Passive round-trip times: synthetic packet pairs from two captures of the same traffic.
///
/// One line per pair goes to standard output, in the form of the CAIA tool: [count] timestamp rtt [spt]
/// [owd-out owd-in], in seconds. What the captures say beyond that (loss, duplication, reordering and delay
/// variation of each direction, clock offset and skew, the far host's processing time) goes to standard
/// error, or to standard output with --summary.
#[derive(Clone, Debug, Args)]
pub struct SppArgs {
    /// Capture(s) at the reference point, where the round trip starts; - is standard input
    #[arg(short = 'f', long = "reference", value_name = "FILE", num_args = 1.., required_unless_present_any = ["payloads", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote"])]
    pub reference: Vec<PathBuf>,
    /// Capture(s) at the monitor point, the far end; - is standard input
    #[arg(short = 'F', long = "monitor", value_name = "FILE", num_args = 1.., required_unless_present_any = ["payloads", "reference_interface", "monitor_interface", "reference_remote", "monitor_remote"])]
    pub monitor: Vec<PathBuf>,
    #[command(flatten)]
    pub live: live::LiveArgs,
    /// Address, prefix or host name at the reference side; found from the captures if not given
    #[arg(short = 'a', long = "reference-address", value_name = "ADDR", requires = "monitor_address")]
    pub reference_address: Vec<String>,
    /// Address, prefix or host name at the monitor side
    #[arg(short = 'A', long = "monitor-address", value_name = "ADDR", requires = "reference_address")]
    pub monitor_address: Vec<String>,
    /// The reference side's address as translated by NAT
    #[arg(short = 'n', long = "reference-nat", value_name = "ADDR")]
    pub reference_nat: Vec<String>,
    /// The monitor side's address as translated by NAT
    #[arg(short = 'N', long = "monitor-nat", value_name = "ADDR")]
    pub monitor_nat: Vec<String>,
    /// What a NAT on the path rewrites; found from the captures if not given
    #[arg(long, value_name = "WHAT")]
    pub nat: Option<Nat>,

    /// Print the time between the pair's packets at the monitor (server processing time)
    #[arg(short = 'p', long = "spt", help_heading = "Lines")]
    pub turnaround: bool,
    /// Print the number of each pair
    #[arg(short = 'c', long = "count", help_heading = "Lines")]
    pub count: bool,
    /// Time stamps of the monitor's clock
    #[arg(short = 'm', long = "monitor-clock", help_heading = "Lines")]
    pub monitor_clock: bool,
    /// Time stamps of the pair's first packet instead of its middle
    #[arg(short = 'b', long = "begin", help_heading = "Lines")]
    pub begin: bool,
    /// Print the raw one-way delays, clock offset not removed
    #[arg(short = 'O', long = "owd", help_heading = "Lines")]
    pub one_way: bool,
    /// Print the lengths of the two IP packets
    #[arg(long, help_heading = "Lines")]
    pub sizes: bool,
    /// Print the moving average of the pair rate, in pairs a second
    #[arg(long, help_heading = "Lines")]
    pub rate: bool,
    /// Only the lines, nothing on standard error
    #[arg(short = 'q', long, help_heading = "Lines", conflicts_with = "summary")]
    pub quiet: bool,
    /// Only the summary, on standard output
    #[arg(long, help_heading = "Lines")]
    pub summary: bool,
    /// Distance of the instants of the RTT per unit of time, and span of the moving average
    #[arg(long, value_name = "T", default_value = "1s", value_parser = quantity::duration, help_heading = "Lines")]
    pub every: Span,

    /// Only these packets: tcp, udp, icmp, a port, or tcp:PORT, udp:PORT
    #[arg(long, value_name = "WHAT", help_heading = "Apart")]
    pub only: Option<Only>,
    /// Figures of each flow (protocol, addresses, ports), at most 65536
    #[arg(long, help_heading = "Apart")]
    pub per_flow: bool,
    /// Figures of each pair of prefixes of so many bits: IPv4, or IPv4,IPv6 (24,48)
    #[arg(long, value_name = "BITS", value_parser = prefix_bits, conflicts_with = "per_flow", help_heading = "Apart")]
    pub per_prefix: Option<Grouping>,
    /// Flows or prefixes shown in the summary, those with most bytes first; JSON has all
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Apart")]
    pub top: usize,
    /// Round trips to compare with: output of ping (best with -D), or a log of jitlat ping. ICMP echoes in the
    /// reference capture are found by themselves
    #[arg(long, value_name = "FILE", help_heading = "Apart")]
    pub ping: Option<PathBuf>,
    /// Write the packets of both ways as logs of version 3, LOG.up (OUT) and LOG.down (IN), for analyze and compare
    #[arg(long, value_name = "LOG")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub report: ReportArgs,

    /// Compare with an access link: pppoe-llc,up=128k,down=512k,tunnel=28 (also pppoa-vc, bridged-llc, ipoa-vc, ethernet,
    /// plain+BYTES, …; up is from the reference side), or find it: fit, or fit,tunnel=BYTES
    #[arg(long, value_name = "LINK", help_heading = "Link")]
    pub link: Option<link::Asked>,
    /// Only print what --link makes of these UDP payloads (40,340,640): bytes layer by layer, cells, delays
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "link", help_heading = "Link",
          value_parser = clap::value_parser!(u64).range(..=65_507), conflicts_with_all = ["reference", "monitor"])]
    pub payloads: Vec<u64>,

    /// Monitor clock minus reference clock, in seconds; found from the captures if not given
    #[arg(
        short = 'o',
        long = "offset",
        value_name = "SEC",
        allow_negative_numbers = true,
        help_heading = "Matching"
    )]
    pub offset: Option<f64>,
    /// Longest time a packet may be under way, in seconds (10; with --compat 60)
    #[arg(short = 'd', long = "window", value_name = "SEC", help_heading = "Matching")]
    pub window: Option<f64>,
    /// Fields that name a packet, as a mask of the CAIA tool (63 is its default)
    #[arg(short = '#', long = "mask", value_name = "MASK", help_heading = "Matching")]
    pub mask: Option<u32>,
    /// Leave out pairs whose packets are further apart at the monitor than this
    #[arg(long, value_name = "T", value_parser = quantity::duration, help_heading = "Matching")]
    pub max_spt: Option<Span>,
    /// Match like the CAIA tool: its fields, its list search, its order, no last pair, no negative RTT
    #[arg(long, help_heading = "Matching")]
    pub compat: bool,
    /// Packets searched for a match with --compat
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
    /// Accepted for old scripts; packets are always filtered, identities always 64 bits wide
    #[arg(short = 'P', hide = true)]
    pub filter: bool,
    /// See -P.
    #[arg(short = 'H', hide = true, value_name = "HASH")]
    pub hash: Option<String>,
    /// See -P.
    #[arg(short = 'v', hide = true, value_name = "MASK")]
    pub verbosity: Option<u32>,
}

/// What a NAT rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Nat {
    /// Nothing: there is none
    None,
    /// Addresses
    Address,
    /// Addresses and ports
    Ports,
}

/// The window of the default matcher.
const WINDOW: Span = Span::seconds(10);
/// The CAIA tool's `-d` and `-#`.
const CAIA_WINDOW: Span = Span::seconds(60);
const CAIA_MASK: u32 = 63;

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
    /// `-o`, or else what was found.
    fn offset(&self, found: Span) -> anyhow::Result<Span> {
        let Some(s) = self.offset else { return Ok(found) };
        seconds(s).with_context(|| format!("-o {s}: not a number of seconds"))
    }

    /// `-d`, or else the usual.
    fn window(&self, usual: Span) -> anyhow::Result<Span> {
        let Some(s) = self.window else { return Ok(usual) };
        seconds(s).filter(|w| w.0 > 0).with_context(|| format!("-d {s}: give a time above 0"))
    }

    /// How packets are put together, if they are.
    fn grouping(&self) -> Option<Grouping> {
        self.per_prefix.or(self.per_flow.then_some(Grouping::Flow))
    }

    /// Whether anything shows the common analysis of both ways.
    fn analyses_ways(&self) -> bool {
        present::shows_runs(&self.report) || self.log.is_some()
    }
}

/// Runs `jitlat spp`.
pub fn run(args: &SppArgs) -> anyhow::Result<Status> {
    if !args.payloads.is_empty() {
        let Some(link::Asked::Compare(link)) = &args.link else {
            bail!("--payloads needs a link whose encapsulation and rates are given");
        };
        report::to_stdout(&link::tables(link, &args.payloads))?;
        return Ok(Status::Measured);
    }
    let stdin = |l: &[PathBuf]| l.iter().filter(|p| p.as_os_str() == jitlat_net::capture::STDIN).count();
    if stdin(&args.reference) + stdin(&args.monitor) > 1 {
        bail!("only one of the captures can come from standard input");
    }
    present::check(&args.report)?;
    if args.compat && (args.log.is_some() || !args.report.fail_if.is_empty() || args.grouping().is_some()) {
        bail!("--compat makes pairs and nothing else: leave it out for logs, thresholds, flows and prefixes");
    }
    if args.live.wanted() {
        return live::run(args);
    }
    let asked = asked(args)?;
    let feeds = [Feed::open(&args.reference)?, Feed::open(&args.monitor)?];
    let heads = feeds.each_ref().map(Feed::head);
    let available = heads.iter().map(feed::Head::available).min().unwrap_or(0);
    let previews = heads.each_ref().map(|h| h.previews(available));
    let mut plan = survey(&previews[0], &previews[1], asked.as_ref());
    if matches!(plan, Err(NoPlan::NothingCommon | NoPlan::OtherAddresses(_)))
        && stdin(&args.reference) + stdin(&args.monitor) == 0
    {
        // The captures may begin at different times: look at a sample of all of both.
        let [r, m] = [feed::sample(&args.reference, available)?, feed::sample(&args.monitor, available)?];
        plan = survey(&r, &m, asked.as_ref());
    }
    let elsewhere = match plan {
        Err(NoPlan::OtherAddresses(_)) => survey(&previews[0], &previews[1], None).ok(),
        _ => None,
    };
    let plan = match plan {
        Ok(plan) => plan,
        // Without a survey the user's own word has to do.
        Err(why) => match asked.clone() {
            Some(sides) if args.mask.is_some() || args.compat => Plan {
                sides: [sides.clone(), sides],
                fields: Fields::ALL,
                offset: Span::ZERO,
                common: 0,
                direction_assumed: false,
            },
            _ => return Err(nothing(why, elsewhere.as_ref(), feeds)),
        },
    };
    let echoes_apart = !args.compat && heads[0].holds_more_than_echoes(&plan.sides[0]);
    drop((heads, previews));
    let fields = fields(args, &plan);
    let rule = IdentityRule { fields, available };
    let [reference, monitor] = feeds;
    let numbers = Arc::new(Mutex::new(FlowNumbers::default()));
    let start = |feed: Feed, sides: &Sides| {
        feed.begin(Naming {
            sides: sides.clone(),
            rule,
            sorted: !args.compat,
            only: args.only,
            echoes_apart,
            flows: args.grouping().map(|g| (g, Arc::clone(&numbers))),
        })
    };
    let streams = [start(reference, &plan.sides[0]), start(monitor, &plan.sides[1])];
    let offset = args.offset(if args.compat { Span::ZERO } else { plan.offset })?;
    let window = args.window(if args.compat { CAIA_WINDOW } else { WINDOW })?;
    let mut hearing = hearing(args, &plan)?;
    let mut lines = Lines::new(args);
    let (facts, counts) = if args.compat {
        let matcher = CaiaMatcher::new(args.search, window, offset, !args.no_narrowing);
        run_compat(matcher, streams, &mut hearing, &mut lines)?
    } else {
        run_matcher(Matcher::new(offset, window), streams, &mut hearing, &mut lines)?
    };
    conclude(
        args,
        &Found { plan, rule, facts, counts, window },
        hearing,
        &numbers,
        Vec::from_iter(lines.finish()),
    )
}

/// Everything that hears the matcher, as far as it was asked for.
fn hearing(args: &SppArgs, plan: &Plan) -> anyhow::Result<Hearing> {
    let report = &args.report;
    let draws = report.html.is_some() || report.plots.is_some();
    let keep = match args.analyses_ways() && !args.compat {
        true => Some(Keep::new(&plan.sides, report.options(), args.log.as_deref(), report.csv.as_deref())?),
        false => None,
    };
    Ok(Hearing {
        estimator: Estimator::new(args.every, args.max_spt),
        streams: keep.map(Streams::new),
        flows: args.grouping().map(|_| Flows::new(args.max_spt)),
        trace: draws.then(|| Box::new(PassiveTrace::new(args.every))),
    })
}

/// What is known when all packets have been matched.
struct Found {
    plan: Plan,
    rule: IdentityRule,
    facts: [Facts; 2],
    counts: [MatchCounts; 2],
    window: Span,
}

/// Shows what was found, in every form asked for.
fn conclude(
    args: &SppArgs,
    found: &Found,
    mut hearing: Hearing,
    numbers: &Mutex<FlowNumbers>,
    // What cannot be written keeps nothing else from being written or shown.
    mut failures: Vec<anyhow::Error>,
) -> anyhow::Result<Status> {
    let Found { plan, rule, facts, counts, window } = found;
    let report = &args.report;
    let mut summary = hearing.estimator.summary_of(*counts);
    let sizes = hearing.estimator.sizes();
    let link = args.link.as_ref();
    if let Some(link::Asked::Compare(link)) = link {
        link::explain(&mut summary.levels, link, &sizes);
    }
    let pings = pings(args, facts).unwrap_or_else(|e| {
        failures.push(e);
        facts[0].pings.clone()
    });
    let mut ping = Spread::default();
    for (at, rtt) in &pings {
        ping.push(rtt.0);
        if let Some(t) = &mut hearing.trace {
            t.ping(at.0, rtt.0);
        }
    }
    let flows = hearing
        .flows
        .take()
        .map(|f| f.figures(numbers.lock().unwrap_or_else(PoisonError::into_inner).keys()));
    let ways = hearing.streams.take().map(|s| streams::finish(s, &plan.sides, &summary.clocks));
    let streams::Finished { runs, failures: unsaved, scratch: _scratch } = ways.unwrap_or_default();
    failures.extend(unsaved);
    let outcome = report::Outcome {
        plan,
        rule,
        facts,
        summary: &summary,
        window: *window,
        sizes: &sizes,
        link,
        ping: ping.figures(0),
        flows: flows.as_deref(),
        top: args.top,
        runs: &runs,
        chosen: !args.reference_address.is_empty(),
        windows: report.analysis.interval.is_some(),
    };
    if let Some(path) = &report.json {
        failures.extend(report::write_json(&outcome, path).err());
    }
    failures.extend(present::write_tables(&runs, report).err());
    if let Some(trace) = hearing.trace.take() {
        let section = page::section(&outcome, &trace);
        let drawn =
            present::write_figures(&runs, Some(&section), report.html.as_deref(), report.plots.as_deref());
        failures.extend(drawn.err());
    }
    if args.summary && !present::is_silent(report) {
        failures.extend(report::to_stdout(&report::summary(&outcome)).err());
    } else if !args.quiet {
        // Where nobody reads what is said beside the lines, nothing is lost.
        let _ = console::print_beside(&report::summary(&outcome));
    }
    for failure in &failures {
        error!("{}", crate::exit::explain(failure));
    }
    if !failures.is_empty() || counts.iter().all(|c| c.matched == 0) {
        return Ok(Status::NotMeasured);
    }
    Ok(present::status(&runs, report))
}

/// What ping measured: in the reference capture, and in the file given.
fn pings(args: &SppArgs, facts: &[Facts; 2]) -> anyhow::Result<Vec<(WallTime, Span)>> {
    let mut all = facts[0].pings.clone();
    if let Some(path) = &args.ping {
        let start = facts[0].span.map_or(WallTime(0), |s| s.0);
        all.extend(ping::read(path, start)?);
    }
    Ok(all)
}

/// The sides the user gave, if any.
fn asked(args: &SppArgs) -> anyhow::Result<Option<Sides>> {
    if args.reference_address.is_empty() {
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
                format!("'{text}' is no address or prefix, and no host of that name is known")
            })?;
            all.extend(resolved.map(|a| Prefix::from(a.ip())));
        }
        all.dedup();
        Ok(all)
    };
    Ok(Some(Sides {
        reference: list(&args.reference_address, &args.reference_nat)?,
        monitor: list(&args.monitor_address, &args.monitor_nat)?,
    }))
}

/// The fields that name packets: the user's word, else what the survey found.
fn fields(args: &SppArgs, plan: &Plan) -> Fields {
    let translated = !args.reference_nat.is_empty() || !args.monitor_nat.is_empty();
    match (args.mask.or(args.compat.then_some(CAIA_MASK)), plan.fields) {
        // Translated addresses are left out, ports are not: as in the CAIA tool.
        (Some(mask), _) => Fields::Mask(if translated { mask & !3 } else { mask }),
        (None, Fields::Full { addresses, ports, ident }) => {
            let (a, p) = match args.nat {
                Some(Nat::None) => (true, true),
                Some(Nat::Address) => (false, true),
                Some(Nat::Ports) => (false, false),
                None => (addresses && !translated, ports),
            };
            Fields::Full { addresses: a, ports: p, ident }
        }
        (None, mask) => mask,
    }
}

type Run = ([Facts; 2], [MatchCounts; 2]);

fn run_matcher(
    mut matcher: Matcher,
    streams: [Stream; 2],
    hearing: &mut Hearing,
    lines: &mut Lines,
) -> anyhow::Result<Run> {
    let [mut reference, mut monitor] = streams;
    loop {
        let (r, m) = (reference.peek(), monitor.peek());
        for (point, stream) in [(Point::Reference, &reference), (Point::Monitor, &monitor)] {
            if let Some((from, to)) = stream.span() {
                matcher.covers(point, from);
                matcher.covers(point, to);
            }
        }
        // As long as neither needs a new batch.
        let (mut r, mut m) = (r, m);
        for _ in 0..1024 {
            let first = match (r, m) {
                (Some(r), Some(m)) => r.at <= m.at - matcher.offset(),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => {
                    matcher.finish(hearing);
                    lines.print(hearing.take_pairs());
                    let counts = Way::BOTH.map(|w| matcher.counts(w));
                    return Ok(([reference.finish()?, monitor.finish()?], counts));
                }
            };
            if first {
                if let Some(s) = r {
                    matcher.push(Point::Reference, s, hearing);
                }
                reference.advance();
                r = reference.peek();
            } else {
                if let Some(s) = m {
                    matcher.push(Point::Monitor, s, hearing);
                }
                monitor.advance();
                m = monitor.peek();
            }
        }
        lines.print(hearing.take_pairs());
    }
}

fn run_compat(
    mut matcher: CaiaMatcher,
    streams: [Stream; 2],
    hearing: &mut Hearing,
    lines: &mut Lines,
) -> anyhow::Result<Run> {
    let [mut reference, mut monitor] = streams;
    let mut pairer = CaiaPairer::default();
    while let Some(m) = monitor.peek() {
        monitor.advance();
        while let Some(r) = reference.peek() {
            if !matcher.wants_reference(&m, r.at) {
                break;
            }
            matcher.reference(r);
            reference.advance();
        }
        if let Some(record) = matcher.monitor(m) {
            hearing.packet(&record);
            if let Some(pair) = pairer.push(record) {
                hearing.estimator.pair(pair);
                lines.print(hearing.take_pairs());
            }
        }
    }
    while let Some(r) = reference.peek() {
        matcher.reference(r);
        reference.advance();
    }
    let counts = Way::BOTH.map(|way| MatchCounts {
        seen_at_reference: matcher.seen(Point::Reference, way),
        seen_at_monitor: matcher.seen(Point::Monitor, way),
        matched: matcher.matched(way),
        ..MatchCounts::default()
    });
    Ok(([reference.finish()?, monitor.finish()?], counts))
}

/// Why nothing could be measured, with what the captures say about it.
fn nothing(why: NoPlan, elsewhere: Option<&Plan>, feeds: [Feed; 2]) -> anyhow::Error {
    let everything = Sides { reference: vec![any(4), any(6)], monitor: vec![any(4), any(6)] };
    let rule = IdentityRule { available: 0, ..IdentityRule::WHOLE };
    let [reference, monitor] = feeds;
    let facts = [reference, monitor].map(|feed| {
        let mut stream = feed.begin(Naming {
            sides: everything.clone(),
            rule,
            sorted: false,
            only: None,
            echoes_apart: false,
            flows: None,
        });
        while stream.peek().is_some() {
            stream.advance();
        }
        // Of a reader that fails as well nothing more is known.
        stream.finish().unwrap_or_default()
    });
    let mut text = why.to_string();
    for line in report::suspicions_without_match(&facts, elsewhere) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    anyhow::anyhow!(text)
}

fn any(version: u8) -> Prefix {
    let address = if version == 4 {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    Prefix::new(address, 0).unwrap_or_else(|| Prefix::from(address))
}
