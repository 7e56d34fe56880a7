//! [`ROUTES`]: every page and every document that is made from the archive.

use crate::app::App;
use crate::change::UserRole;
use crate::problem::Problem;
use crate::query::Query;
use crate::{alerts, api, compare, events, hosts, now, path, run, test};
use axum::extract::{Extension, RawPathParams, RawQuery, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use jitlat_archive::Archive;
use std::sync::Arc;

/// What an address asks for.
#[derive(Debug)]
pub struct RouteRequest {
    pub app: Arc<App>,
    /// What who asks may do.
    pub role: UserRole,
    /// The variable parts of its path.
    parts: Vec<String>,
    pub query: Query,
}

impl RouteRequest {
    /// An address without variable parts.
    pub fn of(app: &Arc<App>, role: UserRole) -> RouteRequest {
        RouteRequest { app: app.clone(), role, parts: Vec::new(), query: Query::default() }
    }

    /// A variable part of its path, from 0.
    pub fn part(&self, k: usize) -> &str {
        self.parts.get(k).map_or("", String::as_str)
    }
}

/// Makes an answer from the archive: text of HTML or JSON.
type AnswerFn = fn(&Archive, &RouteRequest) -> Result<String, Problem>;

/// What an address answers with.
#[derive(Clone, Copy, Debug)]
pub enum RouteKind {
    /// A page, for people.
    Page(AnswerFn),
    /// The same as JSON, for programs.
    Json(AnswerFn),
    /// Server-sent events.
    Events(Handler),
    /// A page with a form that changes something.
    Form(Handler),
    /// Something to be done, for programs: POST, which answers with JSON.
    Order(Handler),
}

/// Answers by itself, as what changes something does.
type Handler = fn() -> MethodRouter<Arc<App>>;

/// An address.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "schema"),
    allow(dead_code, reason = "what is said of them is for the OpenAPI document")
)]
pub struct Route {
    /// Its path, with names for variable parts.
    pub path: &'static str,
    pub kind: RouteKind,
    /// What it answers, for programs; empty of pages.
    pub about: &'static str,
    /// What may stand after the question mark, and what it says.
    pub parameters: &'static [(&'static str, &'static str)],
}

const FROM: (&str, &str) =
    ("from", "Beginning: a date, a time as in 2026-11-23T10:00:00Z, or how long ago as in 36h.");
const TO: (&str, &str) = ("to", "End, written as from.");

const fn page(path: &'static str, answer: AnswerFn) -> Route {
    Route { path, kind: RouteKind::Page(answer), about: "", parameters: &[] }
}

/// Every address of pages and documents.
pub const ROUTES: &[Route] = &[
    page("/", now::page),
    page("/path/{src}/{dst}", path::page),
    page("/test/{id}", test::page),
    page("/hosts", hosts::page),
    page("/compare", compare::page),
    page("/alerts", alerts::page),
    Route { path: "/run", kind: RouteKind::Form(run::form::asking), about: "", parameters: &[] },
    Route { path: "/run/{id}", kind: RouteKind::Form(run::page::watching), about: "", parameters: &[] },
    Route { path: "/run/{id}/stop", kind: RouteKind::Form(run::form::stopping), about: "", parameters: &[] },
    Route {
        path: "/api/v1/now",
        kind: RouteKind::Json(api::now),
        about: "Of every stream of tests the newest: what is bad since when, and what is silent.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/path/{src}/{dst}",
        kind: RouteKind::Json(api::path),
        about: "A path over time, from its sender to its receiver, by addresses or names.",
        parameters: &[FROM, TO, ("stream", "The number of the stream; that with the newest test otherwise.")],
    },
    Route {
        path: "/api/v1/hosts",
        kind: RouteKind::Json(api::hosts),
        about: "What is known of each host, and what became of the slots of the monitor that serves this.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/compare",
        kind: RouteKind::Json(api::compare),
        about: "Figures of all packets of two periods of a path, or of two paths.",
        parameters: &[
            ("src", "The sender of the first path."),
            ("dst", "Its receiver."),
            ("from", "Beginning of the first period; a week before its end otherwise."),
            (
                "to",
                "End of the first period; the beginning of the second otherwise, or of two paths its end.",
            ),
            ("src2", "The sender of the second path; that of the first otherwise."),
            ("dst2", "Its receiver."),
            (
                "from2",
                "Beginning of the second period; a day before its end otherwise, or of two paths a week.",
            ),
            ("to2", "End of the second period; after the newest test of both otherwise."),
        ],
    },
    Route {
        path: "/api/v1/alerts",
        kind: RouteKind::Json(api::alerts),
        about: "Alerts that fire, then those that were resolved, the newest first.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/events",
        kind: RouteKind::Events(|| get(events::events)),
        about: "Server-sent events: `tests`, with how many the archive has, whenever one entered it.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs",
        kind: RouteKind::Json(api::runs),
        about: "Running tests: what may be asked for, how much of it, and the tests that were started. Not found where it is off.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs",
        kind: RouteKind::Order(run::api::starting),
        about: "Starts a test, at once or in the next gap of the monitor's timetable; takes the token for running tests.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}",
        kind: RouteKind::Json(api::run),
        about: "A test that was started: how far it is, the answer so far, and in the end its tests in the archive.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}/events",
        kind: RouteKind::Events(run::api::following),
        about: "Server-sent events: `run`, the same once a second until it is over.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}/stop",
        kind: RouteKind::Order(run::api::stopping),
        about: "Asks a test to end and keep what it has; a second time also to drop what the far host still has.",
        parameters: &[],
    },
];

impl Route {
    /// What answers it.
    pub fn handler(&self) -> MethodRouter<Arc<App>> {
        match self.kind {
            RouteKind::Events(handler) | RouteKind::Form(handler) | RouteKind::Order(handler) => handler(),
            RouteKind::Page(answer) => reading(answer, false),
            RouteKind::Json(answer) => reading(answer, true),
        }
    }
}

fn reading(answer: AnswerFn, is_json: bool) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>,
              Extension(role),
              parts: RawPathParams,
              RawQuery(query): RawQuery| async move {
            let parts = parts.iter().map(|(_, part)| part.to_owned()).collect();
            let asked = RouteRequest {
                app: app.clone(),
                role,
                parts,
                query: Query::parse(&query.unwrap_or_default()),
            };
            let made = app.read(move |archive| answer(archive, &asked)).await;
            respond(made, is_json)
        },
    )
}

fn respond(made: Result<String, Problem>, is_json: bool) -> Response {
    match (made, is_json) {
        (Ok(page), false) => Html(page).into_response(),
        (Ok(json), true) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        (Err(problem), true) => problem.json(),
        (Err(problem), false) => problem.into_response(),
    }
}
