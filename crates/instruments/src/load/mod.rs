//! Latency under load: the same test without and with background traffic, and a comparison of both.
//!
//! * [`spec`] – [`LoadSpec`]: description of the background traffic
//! * [`phases`] – [`Phases`]: the idle and the loaded phase, compared
//!
//! The load consists of jitlat's own test streams at a given rate, against `jitlat serve`. The server grants
//! and limits the load like any test. The load ends with the test (or, if this program dies, after its
//! configured number of packets), and is measured like any other stream. One difference: this host may hand
//! several packets to the kernel at once (`UDP_SEGMENT`), which takes a third of the processor time at high
//! rates. TCP streams send as fast as the path allows, up to that rate.

pub mod phases;
pub mod spec;

pub use phases::Phases;
pub use spec::LoadSpec;

use crate::error::Error;
use crate::instrument::Instrument;
use crate::one_way::OneWay;
use crate::stop::Stop;
use jitlat_core::observer::Event;
use jitlat_core::{Direction, Span, StampSource, SteadyTime, TestSpec, units};
use jitlat_net::clock::steady;
use jitlat_net::interface::WatchSettings;
use jitlat_proto::jitlat::PresharedKey;
use serde::Serialize;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Background traffic during a test.
#[derive(Clone, Debug)]
pub struct Load {
    /// Streams to send; empty: no load.
    pub specs: Vec<LoadSpec>,
    /// Server that receives the load.
    pub server: LoadServer,
    /// Time for which the load runs before the test starts.
    pub settle: Span,
}

/// A `jitlat serve` that receives the load.
#[derive(Clone, Debug)]
pub struct LoadServer {
    /// Name or address of the server.
    pub host: String,
    /// Control port of the server.
    pub port: u16,
    /// Key shared with the server; `None`: no key.
    pub key: Option<PresharedKey>,
}

/// Result of one stream of load.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadStream {
    /// Description of the load, as given by the user.
    pub load: String,
    /// Requested payload rate in bit/s; `None`: as fast as TCP can send.
    pub offered_bps: Option<f64>,
    /// Received payload rate in bit/s; `None` if unknown.
    pub received_bps: Option<f64>,
    /// Packets sent.
    pub sent: u64,
    /// Share of packets lost, 0…1; `None` if unknown.
    pub loss: Option<f64>,
    /// Reason why the stream ended before the test did; `None` if it did not.
    pub failure: Option<String>,
}

/// Maximum time until all streams are running.
const START_TIMEOUT: Span = Span::seconds(20);
/// Time added to the test's duration for the control connection and for late packets.
const CONVERSATION_MARGIN: Span = Span::seconds(30);

impl Load {
    /// Runs `test`, which takes about `duration`, while the load is running. Returns the results of both.
    ///
    /// # Errors
    /// The error of the test, or of the first load stream that failed.
    pub fn run_during<T>(
        &self,
        duration: Span,
        stop: &Stop,
        test: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Vec<LoadStream>), Error> {
        let streams = self.streams(duration)?;
        // Each stream has its own stop flag, because a test resets its flag while it ends.
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
            // Streams that have already ended recorded a reason; the others only have to be stopped.
            let (gone, left): (Vec<_>, Vec<_>) = running.into_iter().partition(ScopedJoinHandle::is_finished);
            let early = !gone.is_empty();
            end_all();
            let join =
                |t: ScopedJoinHandle<'_, Result<LoadStream, Error>>| t.join().unwrap_or(Err(Error::Panicked));
            let mut ended =
                gone.into_iter().chain(left).map(join).collect::<Result<Vec<LoadStream>, Error>>()?;
            let Some(result) = result else {
                return Err(Error::Load(if stop.is_requested() {
                    "stopped before the load had started".to_owned()
                } else {
                    format!("the load did not start within {}", units::duration(START_TIMEOUT))
                }));
            };
            if early && !stop.is_requested() {
                let failure = Some("the load ended before the test did".to_owned());
                ended.iter_mut().for_each(|s| s.failure.clone_from(&failure));
            }
            Ok((result?, ended))
        })
    }

    /// Returns each load stream as a one-way test that outlasts a test of `duration`.
    fn streams(&self, duration: Span) -> Result<Vec<(&LoadSpec, OneWay)>, Error> {
        let whole = Span(duration.0.saturating_add(self.settle.0).saturating_add(CONVERSATION_MARGIN.0));
        let unlimited = self.specs.iter().map(LoadSpec::unlimited).sum();
        let mut streams = Vec::new();
        for load in &self.specs {
            for mut spec in load.streams(whole, unlimited)? {
                if spec.direction() == Direction::Down {
                    // Each stream needs its own receive port, because the test itself uses the default one.
                    spec.dst_port = free_port()?;
                }
                streams.push((load, self.server.test(load, spec)));
            }
        }
        Ok(streams)
    }
}

impl LoadServer {
    fn test(&self, load: &LoadSpec, spec: TestSpec) -> OneWay {
        let mut test = OneWay::new(&self.host, vec![spec]);
        // The test under load samples the interface.
        test.watch = WatchSettings::off();
        let settings = &mut test.settings;
        settings.control_port = self.port;
        settings.terms.key = self.key.clone();
        settings.sending.priority = load.priority();
        // User-space stamps are sufficient for the load, and kernel stamps would cost processor time.
        settings.terms.stamps = StampSource::User;
        settings.sending.segmented = true;
        test
    }
}

/// Finds a free UDP port of this host.
fn free_port() -> Result<u16, Error> {
    let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.local_addr());
    let port = port.map(|address| address.port());
    port.map_err(|source| Error::System { doing: "finding a free port for the load", source })
}

/// Waits until every stream has run for `settle`. Returns false if a stream does not start.
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
        let late = since.is_none() && now - asked > START_TIMEOUT;
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
    let analysed = test.analyse(&jitlat_verdict::options(), end, &mut notice).map_err(|e| {
        e.while_doing(format!(
            "the load {load} could not be sent (it needs a `jitlat serve`; see --load-host)"
        ))
    })?;
    let summary = analysed.into_iter().next().map(|a| a.summary);
    let summary = summary.ok_or_else(|| Error::Load("the load stream ended without a report".to_owned()))?;
    Ok(LoadStream {
        load: load.to_string(),
        offered_bps: summary
            .periods
            .target
            .as_ref()
            .and_then(|r| r.throughput_bps)
            .filter(|_| load.is_limited()),
        received_bps: summary.periods.rx.as_ref().and_then(|r| r.throughput_bps),
        sent: summary.counts.sent,
        loss: summary.loss.ratio,
        failure: None,
    })
}
