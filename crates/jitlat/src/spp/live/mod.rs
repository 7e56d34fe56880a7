//! `jitlat spp -i … -I …`: the two points are interfaces that are listened to now, of this host or of others.
//!
//! One thread a point delivers packets and says up to which time it has delivered all of them; this one plans,
//! names, joins and prints. A sighting is joined once both points have come past its time, so whatever one of
//! them is late with is waited for, up to a bounded number of sightings.

mod learn;
mod merge;
mod point;

use super::feed::{Facts, Namer, Naming};
use super::lines::Lines;
use super::{Found, SppArgs, conclude, fields, hearing};
use crate::exit::Status;
use crate::interrupt;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use jitlat_core::passive::flows::{FlowNumbers, UNKNOWN_FLOW};
use jitlat_core::passive::identity::salted;
use jitlat_core::passive::{IdentityRule, Matcher, Prefix, Sides, Sighting};
use jitlat_core::quantity;
use jitlat_core::time::Span;
use jitlat_net::capture::live::Settings;
use jitlat_net::clock;
use jitlat_proto::digest::{self, Rule};
use learn::Learner;
use merge::Merger;
use point::{News, Points, Report, Source};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::info;

/// Longest time a packet may be under way unless `-d` says otherwise. Shorter than for files: what was lost
/// towards the reference point holds the lines back for so long.
const WINDOW: Span = Span::seconds(5);
/// How long the end waits for what is still on its way here.
const ENDING: Duration = Duration::from_secs(3);

/// Points to listen to.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Live")]
pub struct LiveArgs {
    /// Listen to this interface as the reference point
    #[arg(short = 'i', long, value_name = "IFACE", conflicts_with = "reference")]
    pub reference_interface: Option<String>,
    /// Listen to this interface as the monitor point
    #[arg(short = 'I', long, value_name = "IFACE", conflicts_with = "monitor")]
    pub monitor_interface: Option<String>,
    /// The reference point is on this host, where `jitlat serve --capture IFACE` runs
    #[arg(short = 'r', long, value_name = "HOST[:PORT]", conflicts_with_all = ["reference", "reference_interface"])]
    pub reference_remote: Option<String>,
    /// The monitor point is on this host, where `jitlat serve --capture IFACE` runs
    #[arg(short = 'R', long, value_name = "HOST[:PORT]", visible_alias = "remote", conflicts_with_all = ["monitor", "monitor_interface", "reference_remote"])]
    pub monitor_remote: Option<String>,
    /// The interface of the far host (default: the first it offers)
    #[arg(long, value_name = "IFACE")]
    pub remote_interface: Option<String>,
    /// File with the key that both hosts have
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// End after this long (30s, 10m; a bare number is seconds); Ctrl-C ends at any time
    #[arg(long, value_name = "T", value_parser = quantity::duration)]
    pub duration: Option<Span>,
    /// End after this many pairs
    #[arg(long, value_name = "N")]
    pub pairs: Option<u64>,
    /// Listen to what is not meant for this host too: at a mirror port or on a bridge
    #[arg(long)]
    pub promiscuous: bool,
    /// Memory for packets that wait in the kernel, at each interface (k, M, G)
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, default_value = "16M")]
    pub capture_buffer: u64,
}

impl LiveArgs {
    /// Whether anything is to be listened to.
    pub fn wanted(&self) -> bool {
        self.reference_interface.is_some()
            || self.monitor_interface.is_some()
            || self.reference_remote.is_some()
            || self.monitor_remote.is_some()
    }

    fn sources(&self) -> Result<[Source; 2]> {
        let point = |interface: &Option<String>, remote: &Option<String>, name: &str, letters: [char; 2]| {
            if let Some(interface) = interface {
                return Ok(Source::Interface(interface.clone()));
            }
            let [here, there] = letters;
            let remote = remote.as_ref().with_context(|| {
                format!(
                    "listening takes two points, and the {name} is missing: name an interface with -{here}, \
                     or another host with -{there}"
                )
            })?;
            let (host, port) = host_and_port(remote)?;
            Ok::<_, anyhow::Error>(Source::Remote { host, port, interface: self.remote_interface.clone() })
        };
        let both = [
            point(&self.reference_interface, &self.reference_remote, "reference point", ['i', 'r'])?,
            point(&self.monitor_interface, &self.monitor_remote, "monitor point", ['I', 'R'])?,
        ];
        ensure!(
            both[0] != both[1],
            "both points are {}: name two interfaces that the traffic passes one after the other",
            both[0]
        );
        Ok(both)
    }

    fn settings(&self) -> Settings {
        Settings {
            buffer: usize::try_from(self.capture_buffer).unwrap_or(usize::MAX).min(1 << 30),
            promiscuous: self.promiscuous,
            ..Settings::default()
        }
    }
}

/// `host`, `host:port`, `v6`, `[v6]:port`.
fn host_and_port(text: &str) -> Result<(String, u16)> {
    if let Some((host, port)) = text.strip_prefix('[').and_then(|t| t.split_once("]:")) {
        return Ok((host.to_owned(), port.parse().with_context(|| format!("'{port}' is no port"))?));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => {
            Ok((host.to_owned(), port.parse().with_context(|| format!("'{port}' is no port"))?))
        }
        _ => Ok((text.trim_matches(['[', ']']).to_owned(), digest::PORT)),
    }
}

/// Bytes of every IP packet that both points are sure to hold: the snap length less the longest header that
/// comes before it.
const AVAILABLE: u16 = 200;

/// Runs `jitlat spp` on live points.
pub fn run(args: &SppArgs) -> Result<Status> {
    if args.compat {
        bail!("--compat is for files: it needs the whole of both captures");
    }
    let sources = args.live.sources()?;
    let asked = super::asked(args)?;
    let stop = interrupt::stop()?;
    let same_clock = sources.iter().all(Source::is_here);
    if !sources.iter().any(Source::is_here) && args.grouping().is_some() {
        bail!(
            "--per-flow and --per-prefix need one of the points here: digests do not tell flows, only which packets are the same"
        );
    }
    let key = args.live.key_file.as_deref().map(crate::options::key).transpose()?;
    let hosts: Vec<Prefix> =
        asked.iter().flat_map(|s| s.reference.iter().chain(&s.monitor).copied()).collect();
    let mut points = Points::open(&sources, args.live.settings(), &hosts, AVAILABLE, key.as_ref())?;
    let mut learner = Learner::new(asked, usize::from(AVAILABLE), points.salt);
    let say = |line: &str| {
        if !args.quiet {
            info!("{line}");
        }
    };
    say(&format!("listening to {} (reference) and {} (monitor)", sources[0], sources[1]));
    let began = clock::steady();
    let over = |pairs: u64| {
        stop.is_requested()
            || args.live.duration.is_some_and(|d| clock::steady() - began >= d)
            || args.live.pairs.is_some_and(|n| pairs >= n)
    };
    let plan = loop {
        if let Some(report) = points.next() {
            learner.hear(report);
        }
        if let Some(plan) = learner.plan(clock::steady()) {
            break plan;
        }
        if over(0) || points.ended() {
            bail!(learner.failure(&points.close(), &sources));
        }
    };
    let rule = IdentityRule { fields: fields(args, &plan), available: AVAILABLE.into() };
    let numbers = Arc::new(Mutex::new(FlowNumbers::default()));
    let echoes_apart = learner.holds_more_than_echoes();
    let window = args.window(WINDOW)?;
    let offset = args.offset(if same_clock { Span::ZERO } else { plan.offset })?;
    let mut namers = [0, 1].map(|k| {
        Namer::new(Naming {
            sides: plan.sides[k].clone(),
            rule,
            sorted: false,
            only: args.only,
            echoes_apart,
            flows: args.grouping().map(|g| (g, Arc::clone(&numbers))),
        })
    });
    say(&format!(
        "{} packets in common, between {} and {}",
        plan.common,
        super::report::list(&plan.sides[0].reference),
        super::report::list(&plan.sides[1].monitor)
    ));
    let (protocols, port) = args.only.map_or((Vec::new(), None), |o| o.parts());
    let wanted =
        Rule { sides: Sides::default(), identity: rule, protocols, port, without_echoes: echoes_apart };
    points.plan(&plan, &wanted);
    let salt = points.salt;
    let mut hearing = hearing(args, &plan)?;
    let mut lines = Lines::new(args);
    let mut merger = Merger::new(Matcher::new(offset, window)).beginning(learner.begins());
    for report in learner.into_heard() {
        take(report, salt, &mut namers, &mut merger);
    }
    while !over(lines.number()) && !points.ended() {
        if let Some(report) = points.next() {
            take(report, salt, &mut namers, &mut merger);
        }
        merger.release(&mut hearing);
        lines.print(hearing.take_pairs());
        lines.flush();
    }
    // Another signal ends the process at once.
    points.stop();
    let late = clock::steady() + Span(ENDING.as_nanos() as i64);
    while !points.ended() && clock::steady() < late {
        if let Some(report) = points.next() {
            take(report, salt, &mut namers, &mut merger);
        }
    }
    let ends = points.close();
    let counts = merger.finish(&mut hearing, |hearing| lines.print(hearing.take_pairs()));
    let failures = ends.iter().zip(&sources).filter(|(end, _)| end.failed).map(|(_, source)| {
        anyhow!("the thread that listened to {source} failed: what it heard last is missing")
    });
    let failures = failures.chain(lines.finish()).collect();
    let mut facts = namers.map(|n| n.facts);
    facts.iter_mut().zip(ends).for_each(|(facts, end)| end.tell(facts));
    conclude(args, &Found { plan, rule, facts, counts, window }, hearing, &numbers, failures)
}

/// Names what a point delivers and queues it.
fn take(report: Report, salt: Option<u64>, namers: &mut [Namer; 2], merger: &mut Merger) {
    let (point, namer) = (report.point, &mut namers[report.point]);
    match report.news {
        News::Frames(frames) => {
            frames.each(|f| namer.frame(&f));
            for mut s in namer.take(Vec::new()) {
                s.id = salt.map_or(s.id, |salt| salted(s.id, salt));
                merger.push(point, s);
            }
        }
        News::Digests(list) => {
            let facts = &mut namer.facts;
            facts.ours += list.len() as u64;
            for d in list {
                facts.longest = facts.longest.max(d.length);
                facts.long += u64::from(d.length > 1500);
                let flow = UNKNOWN_FLOW;
                merger.push(point, Sighting { at: d.at, id: d.id, length: d.length, way: d.way, flow });
            }
        }
        // Of a time before there was a plan; what it covered counts for nothing.
        News::Previews(_) => return,
        News::Nothing => {}
    }
    if let Some((from, to)) = report.covered {
        merger.covers(point, from, to);
        let facts: &mut Facts = &mut namer.facts;
        facts.span = Some(facts.span.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
    }
}
