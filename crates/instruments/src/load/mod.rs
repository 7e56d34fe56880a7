//! Latency under load: the same test without and with background traffic, and a comparison of both.
//!
//! * [`spec`] – [`LoadSpec`]: description of the background traffic
//! * [`phases`] – [`Phases`]: the idle and the loaded phase, compared
//! * [`jitlat`] – load against `jitlat serve`: its own test streams; [`iperf3`] – against servers of iperf3
//! * [`result`] – how much of a load stream arrived, over time
//!
//! The load ends with the test (or, if this program dies, after a configured time), and is measured like any other stream.

pub mod iperf3;
pub mod jitlat;
pub mod phases;
pub mod result;
pub mod spec;

pub use iperf3::Iperf3Server;
pub use jitlat::JitlatServer;
pub use phases::Phases;
pub use result::LoadResult;
pub use spec::{LoadSpec, LoadSpecs};

use crate::error::Error;
use crate::stop::Stop;
use jitlat_core::{Direction, Span, SteadyTime, units};
use jitlat_net::clock::steady;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// A server that receives or sends the load.
#[derive(Clone, Debug)]
pub enum LoadServer {
    /// `jitlat serve`.
    Jitlat(JitlatServer),
    /// A server of iperf3.
    Iperf3(Iperf3Server),
}

/// Background traffic during a test.
#[derive(Clone, Debug)]
pub struct Load {
    /// Streams to send; empty: no load.
    pub specs: Vec<LoadSpec>,
    /// Directions of loads that do not name their own: those of the test.
    pub directions: Vec<Direction>,
    /// Server that receives or sends the load.
    pub server: LoadServer,
    /// Time for which the load runs before the test starts.
    pub settle: Span,
}

/// One or several load streams that one thread runs until they are stopped.
trait LoadRunner: Sync {
    /// Sends and receives until `end` is requested. Counts each stream in `flowing` once its packets flow.
    fn run(&self, end: &Stop, flowing: &AtomicUsize) -> Result<Vec<LoadResult>, Error>;

    /// Returns the number of streams.
    fn streams(&self) -> usize;
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
    ) -> Result<(T, Vec<LoadResult>), Error> {
        let runners = self.runners(duration)?;
        let streams = runners.iter().map(|runner| runner.streams()).sum();
        // Each stream has its own stop flag, because a test resets its flag while it ends.
        let ends: Vec<Stop> = runners.iter().map(|_| Stop::new()).collect();
        let end_all = || ends.iter().for_each(Stop::request);
        let flowing = AtomicUsize::new(0);
        thread::scope(|scope| {
            let mut running = Vec::new();
            for (runner, end) in runners.iter().zip(&ends) {
                let flowing = &flowing;
                let send = move || runner.run(end, flowing);
                match thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, send) {
                    Ok(thread) => running.push(thread),
                    Err(source) => {
                        end_all();
                        return Err(Error::System { doing: "starting a thread for the load", source });
                    }
                }
            }
            let settled = settle((&flowing, streams), &running, self.settle, stop);
            let result = settled.then(test);
            // Streams that have already ended recorded a reason; the others only have to be stopped.
            let (gone, left): (Vec<_>, Vec<_>) = running.into_iter().partition(ScopedJoinHandle::is_finished);
            let early = !gone.is_empty();
            end_all();
            let join = |t: ScopedJoinHandle<'_, Result<Vec<LoadResult>, Error>>| {
                t.join().unwrap_or(Err(Error::Panicked))
            };
            let ended =
                gone.into_iter().chain(left).map(join).collect::<Result<Vec<Vec<LoadResult>>, Error>>()?;
            let mut ended: Vec<LoadResult> = ended.into_iter().flatten().collect();
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

    /// Returns the runners of all streams during a test of `duration`.
    fn runners(&self, duration: Span) -> Result<Vec<Box<dyn LoadRunner + '_>>, Error> {
        let whole = Span(duration.0.saturating_add(self.settle.0).saturating_add(CONVERSATION_MARGIN.0));
        match &self.server {
            LoadServer::Jitlat(server) => server.runners(&self.specs, &self.directions, whole),
            LoadServer::Iperf3(server) => server.runners(&self.specs, &self.directions, whole),
        }
    }
}

/// Waits until every stream has run for `settle`. Returns false if a stream does not start.
fn settle<T>(
    (flowing, streams): (&AtomicUsize, usize),
    running: &[ScopedJoinHandle<'_, T>],
    settle: Span,
    stop: &Stop,
) -> bool {
    let asked = steady();
    let mut since: Option<SteadyTime> = None;
    loop {
        let now = steady();
        if since.is_none() && flowing.load(Ordering::Relaxed) >= streams {
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
