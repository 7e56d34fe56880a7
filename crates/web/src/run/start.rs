//! Starts a requested test, within the limits.

use super::feed::{LiveRun, RunFeed, RunStatus};
use super::watched::RunNow;
use super::{HostOffer, PageRuns, RunOffer, RunRefusal, RunRequest, Starters};
use crate::app::App;
use crate::problem::Problem;
use crate::times;
use axum::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Time between updates of a test's state.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// Number of updates per message to watchers.
const STEPS_PER_MESSAGE: u32 = 4;

/// Returns the error for requests if tests cannot be run, with instructions to allow them.
pub fn off() -> Problem {
    Problem::NotFound(
        "Running tests is off: turn it on with jitlat web --run, or run = true in [web] of a monitor's file."
            .to_owned(),
    )
}

/// Starts the requested test.
pub async fn start(app: &Arc<App>, wanted_test: RunRequest) -> Result<Arc<LiveRun>, Problem> {
    let runs = app.runs.clone().ok_or_else(off)?;
    let own = app.clone();
    let wanted = wanted_test.clone();
    let started = app.read(move |archive| {
        let offer = runs.runner.offer(archive)?;
        let typed = typed_host(&runs, &offer, &wanted);
        let host = match &typed {
            Some(host) => host,
            None => allowed(&offer.hosts, &wanted)?,
        };
        start_with(&own, &runs, &wanted, host)
    });
    match started.await {
        Ok(run) => {
            tracing::info!(
                "web page: started test {} with {}: {}",
                run.id,
                wanted_test.host,
                run.planned.about
            );
            tokio::spawn(follow(run.clone()));
            Ok(run)
        }
        Err(problem) => {
            if let Problem::Refused(refusal) = &problem {
                tracing::info!("web page: refused a test with {:?}: {}", wanted_test.host, refusal.why());
            }
            Err(problem)
        }
    }
}

/// Returns the far host of a request that is not in the offer, if any host may be named: only users of this host, who could also
/// run the command, may do so.
fn typed_host(runs: &PageRuns, offer: &RunOffer, wanted_test: &RunRequest) -> Option<HostOffer> {
    let name = wanted_test.host.trim();
    let is_known = offer.hosts.iter().any(|host| host.name == name || host.address == name);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
    let is_host = !name.is_empty() && name.len() <= 255 && !name.starts_with('-') && name.chars().all(fits);
    let may = offer.any_host && matches!(runs.who, Starters::Local);
    let host = HostOffer { name: name.to_owned(), address: name.to_owned(), only_answers: false };
    (may && is_host && !is_known).then_some(host)
}

/// Returns the far host of a request if tests with it are allowed.
fn allowed<'a>(hosts: &'a [HostOffer], wanted_test: &RunRequest) -> Result<&'a HostOffer, RunRefusal> {
    let found = hosts.iter().find(|host| host.name == wanted_test.host || host.address == wanted_test.host);
    found.ok_or_else(|| {
        let why = if wanted_test.host.is_empty() {
            "name the far host".to_owned()
        } else {
            let names: Vec<&str> = hosts.iter().take(20).map(|host| host.name.as_str()).collect();
            format!(
                "'{}' is not an allowed host: choose one of {}",
                wanted_test.host.escape_debug(),
                names.join(", ")
            )
        };
        RunRefusal::Field("host".to_owned(), why)
    })
}

fn start_with(
    app: &App,
    runs: &PageRuns,
    wanted_test: &RunRequest,
    host: &HostOffer,
) -> Result<Arc<LiveRun>, Problem> {
    let planned = runs.runner.plan(wanted_test, host)?;
    runs.limits.check(&planned).map_err(|refusal| match refusal {
        // The load sends most of a test's traffic.
        RunRefusal::Field(field, why) if field == "period" && !wanted_test.load.is_empty() => {
            RunRefusal::Field("load_rate".to_owned(), why)
        }
        other => other,
    })?;
    let run = app.table.admit(wanted_test, planned, &runs.limits, times::now())?;
    match runs.runner.start(wanted_test, host, RunFeed::new(run.clone())) {
        Ok(()) => Ok(run),
        Err(refusal) => {
            // A refused test must not count towards the limits.
            app.table.forget(&run);
            Err(refusal.into())
        }
    }
}

/// Updates the state of a test and sends it to watchers until it is over.
async fn follow(run: Arc<LiveRun>) {
    let (mut steps, mut known): (u32, Option<RunStatus>) = (0, None);
    loop {
        let status = run.status();
        let changed = known.as_ref() != Some(&status);
        let over = run.is_over();
        if changed || steps.is_multiple_of(STEPS_PER_MESSAGE) || over {
            let own = run.clone();
            let watched = !run.watchers.is_empty();
            // Computing figures would block the thread that accepts connections.
            let said = tokio::task::spawn_blocking(move || match watched {
                true => Some(event(&RunNow::of(&own))),
                false => {
                    // Nobody watches: process the events, which would otherwise accumulate.
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

/// Formats the state of a test as an event.
pub fn event(now: &RunNow) -> Bytes {
    let json = serde_json::to_string(now).unwrap_or_default();
    Bytes::from(format!("event: run\ndata: {json}\n\n"))
}
