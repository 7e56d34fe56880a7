//! Latency under load: the same test idle, then beside traffic of our own making, and the two compared.
//!
//! * [`spec`] – [`LoadSpec`]: what traffic
//! * [`phases`] – [`Phases`]: idle, then loaded, side by side
//!
//! The load is jitlat's own test streams at a given rate, against `jitlat serve`: the server grants and limits it as it
//! does any test, it ends with the test or, if this program dies, with its own count of packets, and what became of it
//! is measured like everything else. TCP streams send as fast as the path lets them up to that rate.

pub mod phases;
pub mod spec;

pub use phases::Phases;
pub use spec::LoadSpec;

use crate::error::Error;
use crate::instrument::Instrument;
use crate::one_way::OneWay;
use crate::stop::Stop;
use jitlat_core::analysis::Options;
use jitlat_core::observer::Event;
use jitlat_core::{Direction, Source, Span, SteadyTime, TestSpec};
use jitlat_net::clock::steady;
use jitlat_proto::jitlat::Key;
use serde::Serialize;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Traffic beside a test.
#[derive(Clone, Debug)]
pub struct Load {
    /// What traffic; none is none.
    pub specs: Vec<LoadSpec>,
    /// The server that takes it.
    pub server: LoadServer,
    /// How long it runs before the test begins.
    pub settle: Span,
}

/// A `jitlat serve` that takes the load.
#[derive(Clone, Debug)]
pub struct LoadServer {
    /// Its name or address.
    pub host: String,
    /// Its control port.
    pub port: u16,
    /// The key shared with it.
    pub key: Option<Key>,
}

/// What became of one stream of load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadStream {
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

impl Load {
    /// Runs `test`, which should take `duration`, beside the load; what became of both.
    ///
    /// # Errors
    /// That of the test, or of the first stream of load that failed.
    pub fn beside<T>(
        &self,
        duration: Span,
        stop: &Stop,
        test: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Vec<LoadStream>), Error> {
        let streams = self.streams(duration)?;
        // One each: a test takes back the request that it follows.
        let ends: Vec<Stop> = streams.iter().map(|_| Stop::new()).collect();
        let end_all = || ends.iter().for_each(Stop::request);
        let flowing = AtomicUsize::new(0);
        thread::scope(|scope| {
            let mut running = Vec::new();
            for ((load, test), end) in streams.iter().zip(&ends) {
                let flowing = &flowing;
                let send = move || send(load, test, end, flowing);
                match thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, send) {
                    Ok(thread) => running.push(thread),
                    Err(source) => {
                        end_all();
                        return Err(Error::System { doing: "starting a thread for the load", source });
                    }
                }
            }
            let settled = settle(&flowing, &running, self.settle, stop);
            let result = settled.then(test);
            // Those that ended by themselves know why; the others are only told to stop.
            let (gone, left): (Vec<_>, Vec<_>) = running.into_iter().partition(ScopedJoinHandle::is_finished);
            let early = !gone.is_empty();
            end_all();
            let join =
                |t: ScopedJoinHandle<'_, Result<LoadStream, Error>>| t.join().unwrap_or(Err(Error::Panicked));
            let mut ended =
                gone.into_iter().chain(left).map(join).collect::<Result<Vec<LoadStream>, Error>>()?;
            let Some(result) = result else {
                return Err(Error::Load(if stop.is_requested() {
                    "stopped before the load had begun".to_owned()
                } else {
                    format!("the load did not begin within {} s", BEGIN.as_seconds())
                }));
            };
            if early && !stop.is_requested() {
                let failure = Some("the load ended before the test did".to_owned());
                ended.iter_mut().for_each(|s| s.failure.clone_from(&failure));
            }
            Ok((result?, ended))
        })
    }

    /// Each stream of the load as a test, long enough for a test of `duration`.
    fn streams(&self, duration: Span) -> Result<Vec<(&LoadSpec, OneWay)>, Error> {
        let whole = Span(duration.0.saturating_add(self.settle.0).saturating_add(MARGIN.0));
        let mut streams = Vec::new();
        for load in &self.specs {
            for mut spec in load.streams(whole)? {
                if spec.direction() == Direction::Down {
                    // Where the server sends to: each stream, and the test, need a port of their own.
                    spec.dst_port = free_port()?;
                }
                streams.push((load, self.server.test(spec)));
            }
        }
        Ok(streams)
    }
}

impl LoadServer {
    fn test(&self, spec: TestSpec) -> OneWay {
        OneWay {
            control_port: self.port,
            key: self.key.clone(),
            // Stamps of the load interest nobody, and cost.
            stamps: Source::User,
            ..OneWay::new(&self.host, vec![spec])
        }
    }
}

/// A port that nobody here uses.
fn free_port() -> Result<u16, Error> {
    let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.local_addr());
    let port = port.map(|address| address.port());
    port.map_err(|source| Error::System { doing: "finding a free port for the load", source })
}

/// Waits until every stream flows and has done so for a while; false if one never begins.
fn settle<T>(flowing: &AtomicUsize, running: &[ScopedJoinHandle<'_, T>], settle: Span, stop: &Stop) -> bool {
    let asked = steady();
    let mut since: Option<SteadyTime> = None;
    loop {
        let now = steady();
        if since.is_none() && flowing.load(Ordering::Relaxed) >= running.len() {
            since = Some(now);
        }
        if since.is_some_and(|since| now - since >= settle) {
            return true;
        }
        let late = since.is_none() && now - asked > BEGIN;
        if late || stop.is_requested() || running.iter().any(ScopedJoinHandle::is_finished) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn send(load: &LoadSpec, test: &OneWay, end: &Stop, flowing: &AtomicUsize) -> Result<LoadStream, Error> {
    let mut flows = false;
    let mut notice = |event: &Event<'_>| {
        if let Event::Progress(streams) = event
            && !flows
            && streams.iter().any(|p| p.sent.max(p.received) > 0)
        {
            flows = true;
            flowing.fetch_add(1, Ordering::Relaxed);
        }
    };
    let analysed = test.analyse(&Options::default(), end, &mut notice).map_err(|e| {
        e.while_doing(format!(
            "the load {load} could not be sent (it needs a `jitlat serve`; see --load-host)"
        ))
    })?;
    let summary = analysed.into_iter().next().map(|a| a.summary);
    let summary = summary.ok_or_else(|| Error::Load("the load reported nothing of itself".to_owned()))?;
    Ok(LoadStream {
        load: load.to_string(),
        offered_bps: summary.periods.target.as_ref().and_then(|r| r.throughput_bps).unwrap_or_default(),
        received_bps: summary.periods.rx.as_ref().and_then(|r| r.throughput_bps),
        sent: summary.counts.sent,
        loss: summary.loss.ratio,
        failure: None,
    })
}
