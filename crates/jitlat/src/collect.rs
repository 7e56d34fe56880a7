//! `jitlat HOST --collect LOG`: what a server keeps of a test whose client did not live to fetch it.

use crate::cli::TestArgs;
use crate::recorder::Recorder;
use crate::{present, test};
use anyhow::{Context, Result, bail};
use jitlat_core::session::Ending;
use jitlat_core::{Direction, Session};
use jitlat_net::client::{self, Earlier};
use jitlat_proto::jitlat::{Dialect, Limits, Recording, SessionId};
use jitlat_store::log::LogReader;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// What one flow of the earlier test left in this host's log.
struct Left {
    session: Session,
    /// What had arrived here; nothing of a flow that this host sent.
    recording: Option<Recording>,
}

/// Collects, saves under a new name, reports.
pub fn run(host: &str, args: &TestArgs, stop: &AtomicBool) -> Result<ExitCode> {
    present::check(&args.report)?;
    let mut left = args.collect.iter().map(|log| read(log)).collect::<Result<Vec<Left>>>()?;
    left.sort_by_key(|l| l.session.spec.direction() == Direction::Down);
    let ids: Vec<Option<&str>> = left.iter().map(|l| l.session.id.as_deref()).collect();
    if ids.windows(2).any(|pair| pair[0] != pair[1]) {
        bail!("the logs are of different tests: collect one test at a time");
    }
    let id =
        ids.first().copied().flatten().context("the log names no session: no server keeps its results")?;
    let session: SessionId = id.parse().with_context(|| format!("the log's session '{id}'"))?;
    let mut request = test::request(host, args)?;
    request.specs = left.iter().map(|l| l.session.spec.clone()).collect();
    request.dialect = Dialect::V3;
    let mut recorder = Recorder::new(host, &request.specs, args)?;
    let (sessions, recordings): (Vec<Session>, Vec<_>) =
        left.into_iter().map(|l| (l.session, l.recording)).unzip();
    recorder.resume(&sessions);
    let collected = client::collect(&request, Earlier { session, recordings }, stop, &mut recorder);
    let mut collected = collected.inspect_err(|_| recorder.abandon())?;
    collected.sessions =
        sessions.into_iter().zip(collected.sessions).map(|(before, now)| merge(before, now)).collect();
    test::conclude(recorder, collected, None, args)
}

fn read(log: &Path) -> Result<Left> {
    let mut reader = LogReader::open(log)?;
    let session = reader.session().clone();
    if session.two_way.is_some() {
        bail!("{}: a two-way test leaves nothing at the far end", log.display());
    }
    let mut failure = None;
    let recording = (session.spec.direction() == Direction::Down).then(|| {
        let mut recording = Recording::new(Limits::record_limit(&session.spec));
        recording.extend(reader.records(&mut failure));
        recording
    });
    // A last line cut in two is what such a log is expected to end with.
    Ok(Left { session, recording })
}

/// What the log knew, and what the server has added.
fn merge(before: Session, now: Session) -> Session {
    let cut_short = before.spec.direction() == Direction::Down && before.ending != Ending::Complete;
    let (ending, reason) = match cut_short {
        true => (Ending::Interrupted, Some("this host's program ended before the stream did".to_owned())),
        false => (now.ending, now.reason),
    };
    Session {
        sent: now.sent.or(before.sent),
        server: jitlat_core::session::HostFacts {
            name: now.server.name.or(before.server.name),
            ..now.server
        },
        receiver_drops: now.receiver_drops.or(before.receiver_drops),
        ending,
        reason,
        ..before
    }
}
