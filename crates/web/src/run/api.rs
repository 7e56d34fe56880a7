//! Tests as JSON: what may be asked for, those there are, and one; starting, stopping and following one.

use super::feed::LiveRun;
use super::start::{event, off, start};
use super::watched::RunNow;
use super::{RunLimits, RunOffer, RunRequest};
use crate::app::App;
use crate::change::UserRole;
use crate::events::sent;
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

/// Most bytes of a wish.
pub const MAX_BODY_BYTES: usize = 4096;

/// What may be run, and what was.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsNow {
    /// Whether who asks may start tests.
    pub may_run: bool,
    /// What may be asked for.
    pub offer: RunOffer,
    /// How much of it.
    pub limits: LimitsNow,
    /// Tests that were asked for since the page was started, the newest first.
    pub runs: Vec<RunNow>,
}

/// How much may be asked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitsNow {
    /// Tests at the same time.
    pub at_once: usize,
    /// Tests that are begun within an hour.
    pub per_hour: usize,
    /// Seconds for which a test may send.
    pub longest_s: f64,
    /// Bits a second in a direction.
    pub bits_per_second: u64,
    /// Packets of a test.
    pub packets: u64,
}

impl LimitsNow {
    /// As they are written.
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

/// What may be run, and what was.
pub fn runs(archive: &Archive, asked: &RouteRequest) -> Result<RunsNow, Problem> {
    let runs = asked.app.runs.as_ref().ok_or_else(off)?;
    Ok(RunsNow {
        may_run: asked.role == UserRole::Run,
        offer: runs.runner.offer(archive)?,
        limits: LimitsNow::of(&runs.limits),
        runs: asked.app.table.all().iter().map(|run| RunNow::of(run)).collect(),
    })
}

/// A test.
pub fn run(_: &Archive, asked: &RouteRequest) -> Result<RunNow, Problem> {
    Ok(RunNow::of(&*find(&asked.app, asked.part(0))?))
}

/// The test of an id.
pub fn find(app: &App, id: &str) -> Result<Arc<LiveRun>, Problem> {
    if app.runs.is_none() {
        return Err(off());
    }
    app.table.find(id).ok_or_else(|| {
        Problem::NotFound(
            "No such test was started since this page was. What has ended is in the archive, as all tests are.".to_owned(),
        )
    })
}

/// Starting a test.
pub fn starting() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, request: Request| async move {
        let run = async {
            let body = body(&app, request).await?;
            let wish: RunRequest = serde_json::from_slice(&body)
                .map_err(|e| Problem::Wrong(format!("This is no wish for a test: {e}.")))?;
            start(&app, wish).await
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

/// Stopping one.
pub fn stopping() -> MethodRouter<Arc<App>> {
    post(|State(app): State<Arc<App>>, Path(id): Path<String>| async move {
        match find(&app, &id) {
            Ok(run) => {
                tracing::info!("page: test {id} was asked to end");
                run.stop();
                json(&app, run).await
            }
            Err(problem) => problem.json(),
        }
    })
}

/// Following one: its state once a second until it is over.
pub fn following() -> MethodRouter<Arc<App>> {
    get(|State(app): State<Arc<App>>, Path(id): Path<String>| async move {
        let run = match find(&app, &id) {
            Ok(run) => run,
            Err(problem) => return problem.json(),
        };
        let Some(receiver) = run.watchers.add(app.limits.watching) else { return Problem::Busy.json() };
        let own = run.clone();
        let Ok(now) = app.read(move |_| Ok(event(&RunNow::of(&own)))).await else {
            return Problem::Busy.json();
        };
        run.watchers.send(&now);
        if run.is_over() {
            run.watchers.end();
        }
        sent(receiver)
    })
}

/// The body of a request, if it is short.
pub async fn body(app: &App, request: Request) -> Result<Bytes, Problem> {
    let body = tokio::time::timeout(app.limits.headers, to_bytes(request.into_body(), MAX_BODY_BYTES)).await;
    match body {
        Ok(Ok(body)) => Ok(body),
        _ => Err(Problem::Wrong(format!(
            "What was sent is longer than {MAX_BODY_BYTES} bytes, or did not come."
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
