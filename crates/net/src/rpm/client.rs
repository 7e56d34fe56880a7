//! [`RpmClient`]: measures the responsiveness of the path to a server.

use super::connection::{Target, download};
use super::load::LoadThread;
use super::probe;
use super::{RpmError, trust::Trust};
use crate::client::AddressFamily;
use crate::clock::{self, steady};
use bytes::Bytes;
use h2::client::SendRequest;
use jitlat_core::session::HostFacts;
use jitlat_core::{Direction, Span};
use jitlat_proto::rpm::measured::{RpmMeasured, RpmProgress};
use jitlat_proto::rpm::resources::{MAX_DOCUMENT, TestResources, WebUrl};
use jitlat_proto::rpm::stage::{AnsweredProbe, LoadStage, ProbeKind, StageCommand, StageOutcome};
use jitlat_proto::rpm::{LoadDirections, RpmParameters};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustls::{ClientConfig, ProtocolVersion};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Number of probes of each kind on the idle path.
const IDLE_PROBES: usize = 10;
/// Maximum time for the probes on the idle path.
const IDLE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time until a stop is noticed and progress is reported.
const MAX_WAIT: Span = Span::millis(100);

/// Settings of a measurement.
#[derive(Clone, Debug)]
pub struct RpmClient {
    /// URL of the configuration document.
    pub url: WebUrl,
    /// Directions of the load, one stage each, in this order.
    pub stages: Vec<LoadDirections>,
    /// Parameters of the method.
    pub parameters: RpmParameters,
    /// Certificates that are accepted.
    pub trust: Trust,
    /// Address family; `None`: any.
    pub family: Option<AddressFamily>,
}

/// Report of a task to the thread that runs the stage.
pub(super) enum Report {
    /// A load-generating connection transfers data.
    Connected(SendRequest<Bytes>),
    /// A load-generating connection failed.
    LoadFailed(String),
    /// A probe was answered.
    Probe(AnsweredProbe),
    /// A probe failed.
    ProbeFailed(ProbeKind, String),
}

impl RpmClient {
    /// Measures; `progress` is called about ten times per second. A measurement that is stopped, or whose connections
    /// fail during a stage, has the results of the stages so far.
    ///
    /// # Errors
    /// [`RpmError`] if nothing was measured.
    pub fn run(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&RpmProgress<'_>),
    ) -> Result<RpmMeasured, RpmError> {
        let system = |doing| move |source| RpmError::System { doing, source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(system("starting the runtime of HTTP/2"))?;
        let measured = runtime.block_on(self.measure(stop, progress));
        runtime.shutdown_background();
        measured
    }

    async fn measure(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&RpmProgress<'_>),
    ) -> Result<RpmMeasured, RpmError> {
        let tls = self.trust.client()?;
        let mut host = clock::host_facts();
        let mut steps = clock::ClockSteps::start();
        let now = clock::tick();
        let began = (now.wall, now.steady);
        let target = self.target(&self.url, None, &tls)?;
        let resources = configuration(&target, &self.url, stop).await?;
        let target = self.target(&resources.small, resources.endpoint.as_deref(), &tls)?;
        progress(&RpmProgress::Idle(target.address));
        let idle = until(stop, self.idle(&target, &resources.small)).await.ok_or(RpmError::Stopped)??;
        let mut measured = RpmMeasured {
            server: target.address,
            local: idle.local,
            tls_version: idle.tls_version,
            host: HostFacts::default(),
            began,
            idle: idle.probes,
            stages: Vec::new(),
            is_interrupted: false,
        };
        for &load in &self.stages {
            let targets = Targets {
                small: target.clone(),
                large: target.at(&resources.large)?,
                upload: target.at(&resources.upload)?,
                resources: &resources,
            };
            measured.stages.push(self.stage(load, &targets, stop, progress).await?);
            if stop.load(Ordering::Acquire) {
                measured.is_interrupted = true;
                break;
            }
        }
        host.sync_after = clock::sync_state();
        host.clock_step = Some(steps.check());
        measured.host = host;
        Ok(measured)
    }

    /// Resolves the host of `url`, or `endpoint` if the configuration names one.
    fn target(
        &self,
        url: &WebUrl,
        endpoint: Option<&str>,
        tls: &Arc<ClientConfig>,
    ) -> Result<Target, RpmError> {
        let host = endpoint.unwrap_or(&url.host).trim_matches(['[', ']']);
        let found = (host, url.tcp_port()).to_socket_addrs();
        let mut found = found.map_err(|source| RpmError::Lookup { host: host.to_owned(), source })?;
        let address = found.find(|a| self.family.is_none_or(|family| family.has(a)));
        let address = address.ok_or_else(|| RpmError::NoAddress(host.to_owned()))?;
        Target::new(url, address, tls)
    }

    /// Measures the idle path: probes one after another.
    async fn idle(&self, target: &Target, small: &WebUrl) -> Result<IdlePath, RpmError> {
        let connection = target.connect().await?;
        let mut probes = Vec::new();
        let began = tokio::time::Instant::now();
        // The first request includes work that later ones do not need, such as the settings of both ends.
        probe::own(connection.sender.clone(), small).await?;
        for _ in 0..IDLE_PROBES {
            probes.push(probe::foreign(target, small, steady()).await?);
            probes.push(probe::own(connection.sender.clone(), small).await?);
            if began.elapsed() > IDLE_LIMIT {
                break;
            }
        }
        let tls_version = match connection.tls_version {
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "unknown",
        };
        Ok(IdlePath { probes, local: connection.local, tls_version })
    }

    /// Runs one stage.
    async fn stage(
        &self,
        load: LoadDirections,
        targets: &Targets<'_>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&RpmProgress<'_>),
    ) -> Result<StageOutcome, RpmError> {
        let system = |source| RpmError::System { doing: "starting the thread of the load", source };
        let thread = LoadThread::start().map_err(system)?;
        let counters: [Arc<AtomicU64>; 2] = Default::default();
        let (reports, mut reported) = mpsc::unbounded_channel();
        let mut stage = LoadStage::new(self.parameters, load, steady());
        let mut loaded: Vec<SendRequest<Bytes>> = Vec::new();
        let mut random = random();
        let began = steady();
        let mut shown = began;
        loop {
            let now = steady();
            if stop.load(Ordering::Acquire) {
                stage.interrupt(now);
            }
            stage.handle_timeout(now, counters.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
            while let Some(command) = stage.poll_command() {
                match command {
                    StageCommand::Connect(direction) => {
                        let (target, url) = targets.of(direction);
                        let counter = Arc::clone(&counters[direction as usize]);
                        thread.add(target.clone(), direction, url.clone(), counter, reports.clone());
                    }
                    StageCommand::Probe(kind) => {
                        let choice = (u64::from(random.next_u32()) * loaded.len() as u64) >> 32;
                        let chosen = loaded.get(choice as usize).cloned();
                        spawn_probe(kind, targets, chosen, reports.clone());
                    }
                }
            }
            if now >= shown {
                shown = now + MAX_WAIT;
                progress(&RpmProgress::Loaded {
                    load,
                    elapsed: now - began,
                    limit: self.parameters.time_limit,
                    connections: stage.connections(),
                    interval: stage.last_interval(),
                });
            }
            let Some(due) = stage.poll_timeout() else { break };
            let wait = (due.min(shown) - steady()).0.max(0).unsigned_abs();
            let first = tokio::time::timeout(Duration::from_nanos(wait), reported.recv()).await;
            let rest = std::iter::from_fn(|| reported.try_recv().ok());
            for report in first.ok().flatten().into_iter().chain(rest) {
                let now = steady();
                match report {
                    Report::Connected(sender) => {
                        loaded.push(sender);
                        stage.handle_connected(now);
                    }
                    Report::LoadFailed(why) => stage.handle_failed_load(&why, now),
                    Report::Probe(probe) => stage.handle_probe(probe),
                    Report::ProbeFailed(kind, why) => stage.handle_failed_probe(kind, &why, now),
                }
            }
        }
        Ok(stage.outcome(steady()))
    }
}

/// Result of the idle path.
struct IdlePath {
    probes: Vec<AnsweredProbe>,
    local: Option<SocketAddr>,
    tls_version: &'static str,
}

/// Resources of the server, each with the target of its connections.
struct Targets<'a> {
    small: Target,
    large: Target,
    upload: Target,
    resources: &'a TestResources,
}

impl Targets<'_> {
    fn of(&self, direction: Direction) -> (&Target, &WebUrl) {
        match direction {
            Direction::Down => (&self.large, &self.resources.large),
            Direction::Up => (&self.upload, &self.resources.upload),
        }
    }
}

impl Target {
    /// Returns the target of another URL of the same host, whose port may differ.
    fn at(&self, url: &WebUrl) -> Result<Target, RpmError> {
        let address = SocketAddr::new(self.address.ip(), url.tcp_port());
        Target::new(url, address, &self.tls)
    }
}

/// Downloads the configuration document.
async fn configuration(target: &Target, url: &WebUrl, stop: &AtomicBool) -> Result<TestResources, RpmError> {
    let document = async {
        let connection = target.connect().await?;
        super::connection::within(
            "the configuration",
            probe::PROBE_LIMIT,
            download(connection.sender, url, MAX_DOCUMENT),
        )
        .await
    };
    let document = until(stop, document).await.ok_or(RpmError::Stopped)??;
    TestResources::parse(&document.body).map_err(|source| RpmError::Document { url: url.to_string(), source })
}

/// Runs `future` until a stop is requested; `None` if it was.
async fn until<T>(stop: &AtomicBool, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    while !stop.load(Ordering::Acquire) {
        let wait = Duration::from_nanos(MAX_WAIT.0.unsigned_abs());
        if let Ok(result) = tokio::time::timeout(wait, future.as_mut()).await {
            return Some(result);
        }
    }
    None
}

/// Sends a probe in a task that reports its result.
fn spawn_probe(
    kind: ProbeKind,
    targets: &Targets<'_>,
    chosen: Option<SendRequest<Bytes>>,
    reports: mpsc::UnboundedSender<Report>,
) {
    let (target, small) = (targets.small.clone(), targets.resources.small.clone());
    let began = steady();
    tokio::spawn(async move {
        let result = match (kind, chosen) {
            (ProbeKind::Own, Some(sender)) => probe::own(sender, &small).await,
            _ => probe::foreign(&target, &small, began).await,
        };
        let report = match result {
            Ok(probe) => Report::Probe(probe),
            Err(e) => Report::ProbeFailed(kind, e.to_string()),
        };
        // The stage may have ended.
        let _ = reports.send(report);
    });
}

/// Returns the source of the random numbers that choose the connections for self probes.
fn random() -> ChaCha8Rng {
    let mut seed = [0; 32];
    // Without random bytes, the sequence is always the same, which does no harm.
    let _ = crate::random::fill(&mut seed);
    ChaCha8Rng::from_seed(seed)
}
