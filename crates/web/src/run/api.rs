//! JSON API for running tests: the offer, the list of tests, and starting, stopping and following a test.

use super::feed::LiveRun;
use super::start::{event, off, start};
use super::watched::RunNow;
use super::{RunLimits, RunOffer, RunRequest, Starters};
use crate::app::App;
use crate::change::UserRole;
use crate::events::{EventClient, sent};
use crate::problem::Problem;
use crate::routes::RouteRequest;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use jitlat_archive::Archive;
use serde::Serialize;
use std::sync::Arc;

/// Maximum size of a request for a test.
pub const MAX_BODY_BYTES: usize = 4096;

/// Tests that may be run, and tests requested so far.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsNow {
    /// True if the client may start tests.
    pub may_run: bool,
    /// Hosts and tests to choose from.
    pub offer: RunOffer,
    /// Limits of tests.
    pub limits: LimitsNow,
    /// Tests requested since the server was started, newest first.
    pub runs: Vec<RunNow>,
}

/// Limits of tests.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitsNow {
    /// Maximum number of tests at the same time.
    pub at_once: usize,
    /// Maximum number of tests started within an hour.
    pub per_hour: usize,
    /// Maximum sending time of a test, s.
    pub longest_s: f64,
    /// Maximum rate in a direction, bits per second.
    pub bits_per_second: u64,
    /// Maximum number of packets of a test.
    pub packets: u64,
}

impl LimitsNow {
    /// Converts the limits for output.
    pub fn of(limits: &RunLimits) -> LimitsNow {
        LimitsNow {
            at_once: limits.at_once,
            per_hour: limits.per_hour,
            longest_s: limits.longest.as_seconds(),
            bits_per_second: limits.bits_per_second,
            packets: limits.packets,
        }
    }
}

/// Returns the offer and the list of requested tests.
pub fn runs(archive: &Archive, asked: &RouteRequest) -> Result<RunsNow, Problem> {
    let runs = asked.app.runs.as_ref().ok_or_else(off)?;
    let mut offer = runs.runner.offer(archive)?;
    offer.any_host &= matches!(runs.who, Starters::Local);
    Ok(RunsNow {
        may_run: asked.role == UserRole::Run,
        offer,
        limits: LimitsNow::of(&runs.limits),
        runs: asked.app.table.all().iter().map(|run| RunNow::of(run)).collect(),
    })
}

/// Returns the state of the test named in the request.
pub fn run(_: &Archive, asked: &RouteRequest) -> Result<RunNow, Problem> {
    Ok(RunNow::of(&*find(&asked.app, asked.part(0))?))
}

/// Returns the test with this id.
pub fn find(app: &App, id: &str) -> Result<Arc<LiveRun>, Problem> {
    if app.runs.is_none() {
        return Err(off());
    }
    app.table.find(id).ok_or_else(|| {
        Problem::NotFound(
            "No test with this id has been started since the server started. Results of earlier tests are in the archive.".to_owned(),
        )
    })
}

/// Handler that starts a test.
pub fn starting() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, request: Request| async move {
        let run = async {
            let body = body(&app, request).await?;
            let wanted_test: RunRequest = serde_json::from_slice(&body)
                .map_err(|e| Problem::Wrong(format!("The request for a test cannot be read: {e}.")))?;
            start(&app, wanted_test).await
        };
        match run.await {
            Ok(run) => {
                let place = (header::LOCATION, format!("/api/v1/runs/{}", run.id));
                (StatusCode::CREATED, [place], json(&app, run).await).into_response()
            }
            Err(problem) => problem.json(),
        }
    })
}

/// Handler that stops a test.
pub fn stopping() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, Path(id): Path<String>| async move {
        match find(&app, &id) {
            Ok(run) => {
                tracing::info!("web page: stopping test {id}");
                run.stop();
                json(&app, run).await
            }
            Err(problem) => problem.json(),
        }
    })
}

/// Handler that streams the state of a test once per second until it is over.
pub fn following() -> MethodRouter<Arc<App>> {
    get(|State(app): State<Arc<App>>, from: EventClient, Path(id): Path<String>| async move {
        let run = match find(&app, &id) {
            Ok(run) => run,
            Err(problem) => return problem.json(),
        };
        let answer = sent(&app, &from, &run.watchers);
        if !answer.status().is_success() {
            return answer;
        }
        let own = run.clone();
        let Ok(now) = app.read(move |_| Ok(event(&RunNow::of(&own)))).await else {
            return Problem::Busy.json();
        };
        run.watchers.send(&now);
        if run.is_over() {
            run.watchers.end();
        }
        answer
    })
}

/// Reads the body of a request, up to the limit.
pub async fn body(app: &App, request: Request) -> Result<Bytes, Problem> {
    let body = tokio::time::timeout(app.limits.headers, to_bytes(request.into_body(), MAX_BODY_BYTES)).await;
    match body {
        Ok(Ok(body)) => Ok(body),
        _ => Err(Problem::Wrong(format!(
            "The request is larger than {MAX_BODY_BYTES} bytes, or did not arrive in time."
        ))),
    }
}

async fn json(app: &Arc<App>, run: Arc<LiveRun>) -> Response {
    let made = app.read(move |_| {
        serde_json::to_string(&RunNow::of(&run)).map_err(|e| Problem::Failed(format!("{e}.")))
    });
    match made.await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], Body::from(json)).into_response(),
        Err(problem) => problem.json(),
    }
}
