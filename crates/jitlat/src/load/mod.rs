//! Latency under load (`--load`): the same test idle, then beside traffic of our own making, and the two compared.
//!
//! * [`spec`] – what traffic
//! * [`phases`] – idle, then loaded, side by side
//!
//! The load is jitlat's own test streams at a given rate, against `jitlat serve`: the server grants and limits it as it
//! does any test, it ends with the test or, if this program dies, with its own count of packets, and what became of it
//! is measured like everything else. TCP streams send as fast as the path lets them up to that rate.

pub mod phases;
pub mod spec;

pub use spec::LoadSpec;

use crate::cli::quantity;
use crate::instrument::Keeper;
use crate::test;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::spec::CONTROL_PORT;
use jitlat_core::units::bit_rate;
use jitlat_core::{Direction, Source, Span, TestSpec};
use jitlat_net::client::{self, TestRequest};
use jitlat_net::clock::steady;
use jitlat_net::pace::Pacing;
use jitlat_proto::jitlat::{Dialect, Key};
use serde::Serialize;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Traffic beside the test.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Latency under load")]
pub struct LoadArgs {
    /// Measure twice, idle and beside this traffic to a `jitlat serve`, and compare: udp:5Mbit,dscp=AF11;
    /// tcp:20Mbit,streams=4; both with payload=BYTES, down (server to client); may be repeated
    #[arg(long, value_name = "LOAD")]
    pub load: Vec<LoadSpec>,
    /// How long the load runs before the test begins
    #[arg(long, value_name = "T", value_parser = quantity::duration, default_value = "1s")]
    pub load_settle: Span,
    /// The `jitlat serve` that takes the load (default: the test's host)
    #[arg(long, value_name = "HOST")]
    pub load_host: Option<String>,
    /// Its control port
    #[arg(long, value_name = "PORT", default_value_t = CONTROL_PORT)]
    pub load_port: u16,
    /// File with the key shared with it (default: the test's)
    #[arg(long, value_name = "FILE")]
    pub load_key_file: Option<PathBuf>,
}

/// What became of one stream of load.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// The load it belongs to.
    pub load: String,
    /// Payload bits a second that were to be sent.
    pub offered_bps: f64,
    /// Payload bits a second that arrived.
    pub received_bps: Option<f64>,
    /// Packets sent.
    pub sent: u64,
    /// Share of them lost.
    pub loss: Option<f64>,
    /// Why it ended before the test did, if so.
    pub failure: Option<String>,
}

/// How long streams may take to begin.
const BEGIN: Span = Span::seconds(20);
/// Beyond the test's own duration, for its conversation and for what is late.
const MARGIN: Span = Span::seconds(30);

/// Runs `test`, which should take `duration`, beside the load; what became of both.
pub fn beside<T>(
    loads: &[LoadSpec],
    link: &Link,
    duration: Span,
    stop: &AtomicBool,
    test: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Stream>)> {
    let whole = Span(duration.0.saturating_add(link.settle.0).saturating_add(MARGIN.0));
    let mut streams: Vec<(&LoadSpec, TestSpec)> = Vec::new();
    for load in loads {
        for mut spec in load.streams(whole).map_err(|e| anyhow!(e))? {
            if spec.direction() == Direction::Down {
                // Where the server sends to: each stream, and the test, need a port of their own.
                spec.dst_port = free_port()?;
            }
            streams.push((load, spec));
        }
    }
    // A flag each: a test lowers its own while it obeys.
    let over: Vec<AtomicBool> = streams.iter().map(|_| AtomicBool::new(false)).collect();
    let end = || over.iter().for_each(|o| o.store(true, Ordering::Relaxed));
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut running = Vec::new();
        for ((load, spec), over) in streams.iter().zip(&over) {
            let request = link.request(spec.clone());
            let begun = &begun;
            let one = move || stream(load, &request, over, begun);
            match thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, one) {
                Ok(thread) => running.push(thread),
                Err(e) => {
                    end();
                    bail!("starting a thread for the load: {e}");
                }
            }
        }
        let began = settle(&begun, &running, link.settle, stop);
        let result = if began { Some(test()) } else { None };
        // Those that ended by themselves know why; the others were only told to stop.
        let (gone, told): (Vec<_>, Vec<_>) = running.into_iter().partition(ScopedJoinHandle::is_finished);
        let early = !gone.is_empty();
        end();
        let join = |t: ScopedJoinHandle<'_, Result<Stream>>| {
            t.join().unwrap_or_else(|_| bail!("the load's thread died"))
        };
        let mut ended = gone.into_iter().chain(told).map(join).collect::<Result<Vec<Stream>>>()?;
        let Some(result) = result else {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load had begun");
            }
            bail!("the load did not begin within {} s", BEGIN.0 / 1_000_000_000);
        };
        if early && !stop.load(Ordering::Relaxed) {
            ended.iter_mut().for_each(|s| s.failure = Some("the load ended before the test did".to_owned()));
        }
        Ok((result?, ended))
    })
}

/// A port that nobody here uses.
fn free_port() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("finding a free port for the load")?;
    Ok(socket.local_addr()?.port())
}

/// Waits until every stream flows and has done so for a while; false if one never begins.
fn settle<T>(
    begun: &AtomicUsize,
    running: &[ScopedJoinHandle<'_, T>],
    settle: Span,
    stop: &AtomicBool,
) -> bool {
    let asked = steady();
    let mut flowing = None;
    loop {
        let now = steady();
        if flowing.is_none() && begun.load(Ordering::Relaxed) >= running.len() {
            flowing = Some(now);
        }
        if flowing.is_some_and(|since| now - since >= settle) {
            return true;
        }
        let late = flowing.is_none() && now - asked > BEGIN;
        if late || stop.load(Ordering::Relaxed) || running.iter().any(ScopedJoinHandle::is_finished) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn stream(load: &LoadSpec, request: &TestRequest, over: &AtomicBool, begun: &AtomicUsize) -> Result<Stream> {
    let mut watch = Watch { keeper: Keeper::default(), begun, flows: false };
    let measured = client::run(request, over, &mut watch).map_err(|e| {
        anyhow!("the load {load} could not be sent (it needs a `jitlat serve`; see --load-host): {e}")
    })?;
    let session = measured.sessions.first().ok_or_else(|| anyhow!("the load told nothing of itself"))?;
    let (summary, _) = watch.keeper.analyse(session);
    Ok(Stream {
        load: load.to_string(),
        offered_bps: summary.periods.target.as_ref().and_then(|r| r.throughput_bps).unwrap_or_default(),
        received_bps: summary.periods.rx.as_ref().and_then(|r| r.throughput_bps),
        sent: summary.counts.sent,
        loss: summary.loss.ratio,
        failure: None,
    })
}

/// Keeps a stream's records, and says when it flows.
struct Watch<'a> {
    keeper: Keeper,
    begun: &'a AtomicUsize,
    flows: bool,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Progress(streams) = event
            && !self.flows
            && streams.iter().any(|p| p.sent.max(p.received) > 0)
        {
            self.flows = true;
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        self.keeper.event(event);
    }
}

/// The way to the server that takes the load.
#[derive(Clone, Debug)]
pub struct Link {
    host: String,
    port: u16,
    key: Option<Key>,
    settle: Span,
}

impl Link {
    /// As `args` say, for a test against `host` with its own port and key.
    pub fn new(args: &LoadArgs, host: &str, own: Option<(u16, Option<&PathBuf>)>) -> Result<Link> {
        let (port, key) = own.unwrap_or((args.load_port, None));
        let elsewhere = args.load_host.is_some() || args.load_port != CONTROL_PORT;
        let key = args.load_key_file.as_ref().or(key.filter(|_| args.load_host.is_none()));
        Ok(Link {
            host: args.load_host.clone().unwrap_or_else(|| host.to_owned()),
            port: if elsewhere { args.load_port } else { port },
            key: key.map(|k| test::key(k)).transpose()?,
            settle: args.load_settle,
        })
    }

    fn request(&self, spec: TestSpec) -> TestRequest {
        TestRequest {
            host: self.host.clone(),
            control_port: self.port,
            family: None,
            bind: None,
            specs: vec![spec],
            dialect: Dialect::V3,
            key: self.key.clone(),
            pacing: Pacing::default(),
            // Stamps of the load interest nobody, and cost.
            stamps: Source::User,
        }
    }
}

/// What became of the load, in lines.
pub fn told(streams: &[Stream]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for s in streams {
        if !names.contains(&s.load.as_str()) {
            names.push(&s.load);
        }
    }
    let line = |name: &&str| {
        let of: Vec<&Stream> = streams.iter().filter(|s| s.load == **name).collect();
        let sum = |f: fn(&Stream) -> f64| of.iter().map(|s| f(s)).sum::<f64>();
        let loss = of.iter().filter_map(|s| s.loss).fold(0.0, f64::max);
        let early = of.iter().find_map(|s| s.failure.as_ref()).map_or(String::new(), |f| format!("; {f}"));
        format!(
            "{name}: {} of {} arrived{}{early}",
            bit_rate(sum(|s| s.received_bps.unwrap_or_default())),
            bit_rate(sum(|s| s.offered_bps)),
            if loss > 0.0 { format!(", {:.2} % lost", loss * 100.0) } else { String::new() }
        )
    };
    names.iter().map(line).collect()
}
