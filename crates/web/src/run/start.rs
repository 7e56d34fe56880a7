//! Starts a test that somebody wants, within the limits.

use super::feed::{LiveRun, RunFeed, RunStatus};
use super::watched::RunNow;
use super::{HostOffer, PageRuns, RunRefusal, RunRequest};
use crate::app::App;
use crate::problem::Problem;
use crate::times;
use axum::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often what has happened in a test is taken up.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// How often those who watch it hear of it, in steps.
const STEPS_PER_MESSAGE: u32 = 4;

/// That nobody can run tests here, and how somebody could.
pub fn off() -> Problem {
    Problem::NotFound(
        "Running tests from here is off: jitlat web --run, or run = true in [web] of a monitor's file, turns it on."
            .to_owned(),
    )
}

/// Starts what is wished.
pub async fn start(app: &Arc<App>, wish: RunRequest) -> Result<Arc<LiveRun>, Problem> {
    let runs = app.runs.clone().ok_or_else(off)?;
    let own = app.clone();
    let wanted = wish.clone();
    let started = app.read(move |archive| {
        let offer = runs.runner.offer(archive)?;
        let host = allowed(&offer.hosts, &wanted)?;
        start_with(&own, &runs, &wanted, host)
    });
    match started.await {
        Ok(run) => {
            tracing::info!("page: test {} of {} was started: {}", run.id, wish.host, run.planned.about);
            tokio::spawn(follow(run.clone()));
            Ok(run)
        }
        Err(problem) => {
            if let Problem::Refused(refusal) = &problem {
                tracing::info!("page: a test of {:?} is not made: {}", wish.host, refusal.why());
            }
            Err(problem)
        }
    }
}

/// The far host, if it is one that tests may be made with.
fn allowed<'a>(hosts: &'a [HostOffer], wish: &RunRequest) -> Result<&'a HostOffer, RunRefusal> {
    let found = hosts.iter().find(|host| host.name == wish.host || host.address == wish.host);
    found.ok_or_else(|| {
        let why = if wish.host.is_empty() {
            "name the far host".to_owned()
        } else {
            let names: Vec<&str> = hosts.iter().take(20).map(|host| host.name.as_str()).collect();
            format!("tests are made with {} only, not with '{}'", names.join(", "), wish.host.escape_debug())
        };
        RunRefusal::Wish("host".to_owned(), why)
    })
}

fn start_with(
    app: &App,
    runs: &PageRuns,
    wish: &RunRequest,
    host: &HostOffer,
) -> Result<Arc<LiveRun>, Problem> {
    let planned = runs.runner.plan(wish, host)?;
    runs.limits.check(&planned)?;
    let run = app.table.admit(wish, planned, &runs.limits, times::now())?;
    match runs.runner.start(wish, host, RunFeed::new(run.clone())) {
        Ok(()) => Ok(run),
        Err(refusal) => {
            app.table.forget(&run);
            Err(refusal.into())
        }
    }
}

/// Takes up what happens in a test, and tells those who watch, until it is over.
async fn follow(run: Arc<LiveRun>) {
    let (mut steps, mut known): (u32, Option<RunStatus>) = (0, None);
    loop {
        let status = run.status();
        let changed = known.as_ref() != Some(&status);
        let over = run.is_over();
        if changed || steps.is_multiple_of(STEPS_PER_MESSAGE) || over {
            let own = run.clone();
            let watched = !run.watchers.is_empty();
            let said = tokio::task::spawn_blocking(move || match watched {
                true => Some(event(&RunNow::of(&own))),
                false => {
                    drop(own.look());
                    None
                }
            });
            if let Ok(Some(said)) = said.await {
                run.watchers.send(&said);
            }
        }
        if over {
            run.watchers.end();
            return;
        }
        known = Some(status);
        steps += 1;
        sleep(UPDATE_INTERVAL).await;
    }
}

/// A test as an event.
pub fn event(now: &RunNow) -> Bytes {
    let json = serde_json::to_string(now).unwrap_or_default();
    Bytes::from(format!("event: run\ndata: {json}\n\n"))
}
