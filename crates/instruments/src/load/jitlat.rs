//! [`JitlatServer`]: load against `jitlat serve`, consisting of jitlat's own test streams.
//!
//! The server grants and limits the load like any test. One difference: this host may hand several packets to the kernel at
//! once (`UDP_SEGMENT`), which takes a third of the processor time at high rates. TCP streams send as fast as the path
//! allows, up to their rate.

use super::{LoadResult, LoadRunner, LoadSpec};
use crate::error::Error;
use crate::instrument::Instrument;
use crate::one_way::OneWay;
use crate::stop::Stop;
use jitlat_core::load::ArrivedBytes;
use jitlat_core::observer::Event;
use jitlat_core::{Direction, Span, StampSource, TestSpec, Transport, WallTime};
use jitlat_net::interface::WatchSettings;
use jitlat_proto::jitlat::PresharedKey;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A `jitlat serve` that receives the load.
#[derive(Clone, Debug)]
pub struct JitlatServer {
    /// Name or address of the server.
    pub host: String,
    /// Control port of the server.
    pub port: u16,
    /// Key shared with the server; `None`: no key.
    pub key: Option<PresharedKey>,
}

impl JitlatServer {
    /// Returns each stream of `specs` as a one-way test of `duration`. `of_test` are the directions of the test.
    pub(super) fn runners<'a>(
        &self,
        specs: &'a [LoadSpec],
        of_test: &[Direction],
        duration: Span,
    ) -> Result<Vec<Box<dyn LoadRunner + 'a>>, Error> {
        let unlimited = specs.iter().map(LoadSpec::unlimited).sum();
        let mut runners: Vec<Box<dyn LoadRunner + 'a>> = Vec::new();
        for load in specs {
            for mut spec in load.streams(duration, unlimited, of_test)? {
                if spec.direction() == Direction::Down {
                    if load.priority().is_some() && !load.directions(of_test).contains(&Direction::Up) {
                        return Err(Error::Load(format!(
                            "the load {load}: ac and priority apply to packets that this host sends, but the load is from \
                             the server: set them at `jitlat serve`"
                        )));
                    }
                    // Each stream needs its own receive port, because the test itself uses the default one.
                    spec.dst_port = free_port()?;
                }
                runners.push(Box::new(StreamRunner { load, test: self.test(load, spec) }));
            }
        }
        Ok(runners)
    }

    fn test(&self, load: &LoadSpec, spec: TestSpec) -> OneWay {
        let priority = load.priority().filter(|_| spec.direction() == Direction::Up);
        let mut test = OneWay::new(&self.host, vec![spec]);
        // The test under load samples the interface.
        test.watch = WatchSettings::off();
        let settings = &mut test.settings;
        settings.control_port = self.port;
        settings.terms.key = self.key.clone();
        settings.sending.priority = priority;
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

/// One stream of load.
struct StreamRunner<'a> {
    load: &'a LoadSpec,
    test: OneWay,
}

impl LoadRunner for StreamRunner<'_> {
    fn streams(&self) -> usize {
        1
    }

    fn run(&self, end: &Stop, flowing: &AtomicUsize) -> Result<Vec<LoadResult>, Error> {
        let load = self.load;
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
        let analysed = self.test.analyse(&jitlat_verdict::options(), end, &mut notice).map_err(|e| {
            e.while_doing(format!(
                "the load {load} could not be sent (it needs a `jitlat serve`; see --load-host)"
            ))
        })?;
        let analysed = analysed.into_iter().next();
        let analysed =
            analysed.ok_or_else(|| Error::Load("the load stream ended without a report".to_owned()))?;
        let (summary, samples) = (&analysed.summary, &analysed.samples);
        let spec = &analysed.session.spec;
        // Times of arrival at the server are converted to the clock of this host.
        let correction = match spec.direction() {
            Direction::Up => summary.clock.correction_ns.unwrap_or(0),
            Direction::Down => 0,
        };
        let mut arrived = ArrivedBytes::default();
        let mut last: Option<WallTime> = None;
        for (sent, delay) in samples.sent.iter().zip(&samples.delay) {
            let at = WallTime(sent.saturating_add(*delay).saturating_sub(correction));
            let since = last.filter(|_| spec.transport() == Transport::Tcp).unwrap_or(at);
            arrived.add_between(since, at, spec.payload().into());
            last = Some(at);
        }
        let target = f64::from(spec.payload()) * 8.0 / spec.period().as_seconds();
        Ok(vec![LoadResult {
            load: load.to_string(),
            direction: spec.direction(),
            transport: spec.transport(),
            offered_bps: Some(target).filter(|_| load.is_limited()),
            target_bps: Some(target),
            // Without rows, and without a report that all were lost, nothing is known.
            arrived: Some(arrived).filter(|_| !samples.is_empty() || summary.loss.ratio.is_some()),
            sent: summary.counts.sent,
            loss: summary.loss.ratio,
            failure: None,
        }])
    }
}
