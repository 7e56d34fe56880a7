//! `jitlat HOST`: one-way tests against a server.

use crate::cli::{HostArgs, Pace, Stamps, TestArgs};
use crate::collect;
use crate::doctor;
use crate::interrupt;
use crate::present::{self, Run};
use crate::recorder::Recorder;
use crate::watch::{Watch, Watched};
use anyhow::{Context, Result, anyhow};
use jitlat_core::session::Ending;
use jitlat_core::{Source, TestSpec};
use jitlat_net::client::{self, Family, Measured, TestRequest};
use jitlat_net::pace::{Mode, Pacing};
use jitlat_net::random;
use jitlat_proto::jitlat::{Dialect, Key};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use tracing::{error, warn};

/// Measures, saves, reports.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let host = args.host.as_deref().ok_or_else(|| anyhow!("name the host that runs `jitlat serve`"))?;
    let stop = interrupt::stop_flag()?;
    if !args.collect.is_empty() {
        return collect::run(host, args, &stop);
    }
    let request = request(host, args)?;
    measure(&request, args, &stop)
}

/// Runs `request` and shows its result.
pub fn measure(request: &TestRequest, args: &TestArgs, stop: &AtomicBool) -> Result<ExitCode> {
    present::check(&args.report)?;
    let mut recorder = Recorder::new(&request.host, &request.specs, args)?;
    if let Some(spec) = request.specs.first().filter(|_| args.host_args.doctor) {
        recorder.set_noise(doctor::told(doctor::floor(spec, &request.pacing, request.stamps, stop)));
    }
    let watch = Watch::start(request, args).inspect_err(|_| recorder.abandon())?;
    let measured = client::run(request, stop, &mut recorder);
    let measured = measured.inspect_err(|_| recorder.abandon())?;
    let watched = watch.map(Watch::finish).transpose()?;
    conclude(recorder, measured, watched, args)
}

/// Completes the logs and shows what was measured.
pub fn conclude(
    recorder: Recorder<'_>,
    measured: Measured,
    watched: Option<Watched>,
    args: &TestArgs,
) -> Result<ExitCode> {
    let Measured { sessions, ending, reason } = measured;
    let (runs, troubles) = recorder.finish(sessions);
    let received: u64 = runs.iter().map(|r| r.summary.counts.received).sum();
    let told = watched.map(|w| w.tell(&runs)).transpose()?;
    present::present_with(&runs, told.as_ref(), &args.report)?;
    for trouble in troubles {
        error!("{trouble}");
    }
    let unsaved = runs.iter().any(|r| r.session.ending == Ending::StorageFailed);
    if let Some(reason) = reason.filter(|_| ending != Ending::Complete) {
        warn!("the test ended early: {reason}");
    }
    let measured = received > 0 || ending == Ending::Complete || runs.iter().any(sent_something);
    if !measured || unsaved {
        return Ok(ExitCode::from(crate::COULD_NOT_MEASURE));
    }
    Ok(crate::verdict(&runs, &args.report))
}

/// A stream that was sent and wholly lost is a measurement too.
fn sent_something(run: &Run) -> bool {
    run.summary.counts.sent > 0 && run.summary.session.ending == Ending::Interrupted
}

/// What `args` ask of `host`.
pub fn request(host: &str, args: &TestArgs) -> Result<TestRequest> {
    let mut seed = [0; 8];
    random::fill(&mut seed).context("drawing a seed from the system's random numbers")?;
    let specs: Vec<TestSpec> = args.stream.specs(u64::from_be_bytes(seed)).map_err(|e| anyhow!(e))?;
    let link = &args.host_args;
    Ok(TestRequest {
        host: host.to_owned(),
        control_port: link.control_port,
        family: match (link.ipv4, link.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        },
        bind: link.bind,
        specs,
        dialect: if link.classic { Dialect::Classic } else { Dialect::V3 },
        key: link.key_file.as_deref().map(key).transpose()?,
        pacing: pacing(link),
        stamps: match link.stamps {
            Stamps::User => Source::User,
            Stamps::Kernel => Source::Kernel,
            Stamps::Hardware => Source::Hardware,
        },
    })
}

/// How packet threads are to be run.
pub fn pacing(args: &HostArgs) -> Pacing {
    Pacing {
        mode: match args.pace {
            Pace::Sleep => Mode::Sleep,
            Pace::Hybrid => Mode::Hybrid,
            Pace::Spin => Mode::Spin,
        },
        realtime: args.realtime,
        lock_memory: args.realtime.is_some(),
        cpu: args.cpu,
    }
}

/// Reads a key file.
pub fn key(path: &Path) -> Result<Key> {
    let bytes = std::fs::read(path).with_context(|| format!("reading the key file {}", path.display()))?;
    Key::from_file_contents(&bytes).with_context(|| format!("the key file {}", path.display()))
}
