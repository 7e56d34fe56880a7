//! [`Iperf3Server`]: load against a server of iperf3, for paths whose far end has no `jitlat serve`.

use super::{LoadResult, LoadRunner, LoadSpec};
use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::load::ArrivedBytes;
use jitlat_core::{Direction, Span, Transport};
use jitlat_net::client::AddressFamily;
use jitlat_net::iperf3::{self, Iperf3Progress};
use jitlat_net::resolve;
use jitlat_proto::iperf3::Iperf3Params;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server of iperf3.
#[derive(Clone, Debug)]
pub struct Iperf3Server {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
}

/// Bytes that a sender without a rate writes at a time: the default of iperf3.
const BLOCK: u32 = 128 << 10;
/// Smallest number of bytes that a sender writes at a time: a full packet.
const SMALL_BLOCK: u32 = 1448;

/// Returns the number of bytes that a sender writes at a time: 10 ms of its rate, in bit/s.
fn block(rate: Option<u64>) -> u32 {
    let of = |rate: u64| u32::try_from(rate / 800).unwrap_or(BLOCK).clamp(SMALL_BLOCK, BLOCK);
    rate.map_or(BLOCK, of)
}

impl Iperf3Server {
    /// Returns the runner of `specs`. `of_test` are the directions of the test.
    pub(super) fn runners<'a>(
        &self,
        specs: &'a [LoadSpec],
        of_test: &[Direction],
        duration: Span,
    ) -> Result<Vec<Box<dyn LoadRunner + 'a>>, Error> {
        let [load] = specs else {
            return Err(Error::Load(
                "an iperf3 server takes one client at a time: give one --load, with `both` for both directions".to_owned(),
            ));
        };
        if load.transport() != Transport::Tcp {
            return Err(Error::Load(format!(
                "the load {load}: loads against iperf3 are TCP: write tcp, or tcp:20Mbit for a rate"
            )));
        }
        let rate = load.bits_per_second().map(|bits| (bits / load.count() as f64).round() as u64);
        let params = Iperf3Params {
            directions: load.directions(of_test).to_vec(),
            parallel: load.count(),
            // The server would end the test at this time; the load is stopped before.
            seconds: (duration.0 / 1_000_000_000 + 1).max(1) as u64,
            rate,
            block: block(rate),
            dscp: load.dscp(),
        };
        let to = resolve::addresses(&self.host, self.port, self.family, None)?[0];
        Ok(vec![Box::new(Runner { load, params, to })])
    }
}

/// All connections of a load.
struct Runner<'a> {
    load: &'a LoadSpec,
    params: Iperf3Params,
    to: SocketAddr,
}

impl LoadRunner for Runner<'_> {
    fn streams(&self) -> usize {
        1
    }

    fn run(&self, end: &Stop, flowing: &AtomicUsize) -> Result<Vec<LoadResult>, Error> {
        let mut arrived = vec![ArrivedBytes::default(); self.params.streams()];
        let mut observe = |progress: Iperf3Progress| match progress {
            Iperf3Progress::Running => drop(flowing.fetch_add(1, Ordering::Relaxed)),
            Iperf3Progress::Arrived { stream, at, bytes } => arrived[stream].add(at, bytes),
        };
        let outcome = iperf3::run(self.to, &self.params, self.load.priority(), end.flag(), &mut observe);
        let outcome = outcome.map_err(|e| {
            Error::Load(format!("the load {} could not be sent: {}", self.load, crate::error::explain(&e)))
        })?;
        let rate = self.params.rate.map(|rate| rate as f64);
        let result = |(k, arrived)| LoadResult {
            load: self.load.to_string(),
            direction: self.params.direction(k),
            transport: Transport::Tcp,
            offered_bps: rate,
            target_bps: rate,
            arrived: Some(arrived),
            // TCP has no packets of the load; the server counts bytes.
            sent: 0,
            loss: None,
            failure: outcome.failure.clone(),
        };
        Ok(arrived.into_iter().enumerate().map(result).collect())
    }
}
