//! `/api/v1`: what the pages show, as JSON.

use crate::app::App;
use crate::path::Asked;
use crate::problem::Problem;
use crate::{now, path, times};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

fn answer<T: Serialize>(result: Result<T, Problem>) -> Response {
    match result {
        Ok(document) => Json(document).into_response(),
        Err(problem) => problem.json(),
    }
}

/// All paths.
pub async fn now(State(app): State<Arc<App>>) -> Response {
    answer(app.read(|archive| now::read(archive, times::now())).await)
}

/// A path over time.
pub async fn path(
    State(app): State<Arc<App>>,
    Path((src, dst)): Path<(String, String)>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let asked = match asked {
        Ok(Query(asked)) => asked,
        Err(e) => return Problem::Wrong(format!("{}.", e.body_text())).json(),
    };
    answer(app.read(move |archive| Ok(path::read(archive, &src, &dst, &asked, times::now())?.course)).await)
}
