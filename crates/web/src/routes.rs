//! [`ROUTES`]: all pages and documents that are created from the archive.

use crate::alerts::silences;
use crate::app::App;
use crate::change::UserRole;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::ClientAddress;
use crate::{alerts, api, compare, events, hosts, now, path, run, sla, test};
use axum::body::{Body, Bytes};
use axum::extract::{Extension, RawPathParams, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use jitlat_archive::Archive;
use jitlat_proto::access::ClientAddress as Client;
use std::sync::Arc;

/// A request for a route.
#[derive(Debug)]
pub struct RouteRequest {
    pub app: Arc<App>,
    /// Rights of the client.
    pub role: UserRole,
    /// Variable parts of the request's path.
    parts: Vec<String>,
    pub query: Query,
}

impl RouteRequest {
    /// Creates a request without variable parts.
    pub fn of(app: &Arc<App>, role: UserRole) -> RouteRequest {
        RouteRequest { app: app.clone(), role, parts: Vec::new(), query: Query::default() }
    }

    /// Returns the variable part of the path with index `k`.
    pub fn part(&self, k: usize) -> &str {
        self.parts.get(k).map_or("", String::as_str)
    }

    /// Returns what the answer of `route` depends on: rights, variable parts, and the parameters that the route knows.
    /// Other parameters do not change the answer, and are left out.
    fn address(&self, route: &Route) -> String {
        let named = route.parameters.iter().filter_map(|(name, _)| Some((name, self.query.get(name)?)));
        format!("{:?} {} {:?} {:?}", self.role, route.path, self.parts, named.collect::<Vec<_>>())
    }
}

/// Function that creates an answer from the archive: HTML or JSON.
type AnswerFn = fn(&Archive, &RouteRequest) -> Result<String, Problem>;

/// Kind of answer.
#[derive(Clone, Copy, Debug)]
pub enum RouteKind {
    /// Page for people.
    Page(AnswerFn),
    /// JSON for programs.
    Json(AnswerFn),
    /// Table for a spreadsheet.
    Csv(AnswerFn),
    /// Page that takes long to make, and the version of what it shows.
    ExpensivePage(AnswerFn, AnswerFn),
    /// JSON that takes long to make, and the version of what it contains.
    ExpensiveJson(AnswerFn, AnswerFn),
    /// Server-sent events.
    Events(Handler),
    /// A page with a form that changes something.
    Form(Handler),
    /// Command for programs: a POST request, which is answered with JSON.
    Order(Handler),
}

/// Function that handles a request itself, for example one that changes something.
type Handler = fn() -> MethodRouter<Arc<App>>;

/// A path of the server, with the function that answers it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "schema"),
    allow(dead_code, reason = "descriptions are only used for the OpenAPI document")
)]
pub struct Route {
    /// Path, with names for variable parts.
    pub path: &'static str,
    pub kind: RouteKind,
    /// Description of the answer, for programs; empty for pages.
    pub about: &'static str,
    /// Query parameters, with their descriptions.
    pub parameters: &'static [(&'static str, &'static str)],
}

const FROM: (&str, &str) =
    ("from", "Start: a date, a time such as 2026-11-23T10:00:00Z, or a time before now such as 36h.");
const TO: (&str, &str) = ("to", "End, in the same form as from.");

const RANGE: (&str, &str) =
    ("range", "Period that ends now: 1h, 24h, 7d, 30d or 1y; with the newest test if that is older.");
const ZONE_OF_TIMES: (&str, &str) =
    ("zone", "Time zone of times without an offset, such as Europe/Oslo; default: UTC.");

/// Parameters of a comparison.
const COMPARED: &[(&str, &str)] = &[
    ("src", "Sender of the first path."),
    ("dst", "Receiver."),
    ("from", "Start of the first period; default: a week before its end."),
    ("to", "End of the first period; default: the start of the second, or for two paths its end."),
    ("src2", "Sender of the second path; default: that of the first."),
    ("dst2", "Receiver."),
    ("from2", "Start of the second period; default: a day before its end, or for two paths a week."),
    ("to2", "End of the second period; default: after the newest test of both."),
    ZONE_OF_TIMES,
];

/// Parameters of the report of a month.
const REPORTED: &[(&str, &str)] = &[
    ("month", "Month, such as 2026-11; default: that of the newest test."),
    ("open", "First hour of a day that counts, 0 to 23; default: 0."),
    ("close", "First hour of a day that no longer counts, 1 to 24; default: 24."),
    ("workdays", "1 if only Monday to Friday count."),
    ("zone", "Time zone of the month and its hours, such as Europe/Oslo; default: UTC."),
    ("profile", "Profile whose limits are the targets; default: voice."),
    (
        "lost",
        "Percentage of lost packets above which a path counts as not available during a test; default: 20.",
    ),
    ("name", "Part of the name or address of one end of the paths; default: all."),
    ("site", "Site of one end of the paths; default: all."),
];

const fn page(path: &'static str, answer: AnswerFn) -> Route {
    Route { path, kind: RouteKind::Page(answer), about: "", parameters: &[] }
}

/// All routes of pages and documents.
pub const ROUTES: &[Route] = &[
    page("/", now::page),
    page("/path/{src}/{dst}", path::page),
    Route { path: "/path/{src}/{dst}/csv", kind: RouteKind::Csv(path::csv), about: "", parameters: &[] },
    Route {
        path: "/test/{id}",
        kind: RouteKind::ExpensivePage(test::page, test::version),
        about: "",
        parameters: &[],
    },
    page("/hosts", hosts::page),
    Route {
        path: "/compare",
        kind: RouteKind::ExpensivePage(compare::page, compare::version),
        about: "",
        parameters: COMPARED,
    },
    Route { path: "/alerts", kind: RouteKind::Form(alerts::listing), about: "", parameters: &[] },
    Route { path: "/alerts/{id}", kind: RouteKind::Form(alerts::reading), about: "", parameters: &[] },
    Route {
        path: "/alerts/silences/{id}/end",
        kind: RouteKind::Form(alerts::ending),
        about: "",
        parameters: &[],
    },
    Route {
        path: "/sla",
        kind: RouteKind::ExpensivePage(sla::page, sla::version),
        about: "",
        parameters: REPORTED,
    },
    Route { path: "/sla/csv", kind: RouteKind::Csv(sla::csv), about: "", parameters: REPORTED },
    Route { path: "/run", kind: RouteKind::Form(run::form::asking), about: "", parameters: &[] },
    Route { path: "/run/{id}", kind: RouteKind::Form(run::page::watching), about: "", parameters: &[] },
    Route { path: "/run/{id}/stop", kind: RouteKind::Form(run::form::stopping), about: "", parameters: &[] },
    Route {
        path: "/api/v1/now",
        kind: RouteKind::Json(api::now),
        about: "The newest test of every stream: verdict, start of the current bad period, and whether the stream is silent.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/path/{src}/{dst}",
        kind: RouteKind::Json(api::path),
        about: "A path over time, from its sender to its receiver, by addresses or names.",
        parameters: &[
            FROM,
            TO,
            RANGE,
            ZONE_OF_TIMES,
            ("stream", "Number of the stream; default: the one with the newest test."),
        ],
    },
    Route {
        path: "/api/v1/hosts",
        kind: RouteKind::Json(api::hosts),
        about: "Clock, noise and system of each host, and the results of slots if a monitor serves this document.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/compare",
        kind: RouteKind::ExpensiveJson(api::compare, compare::version),
        about: "Figures of all packets of two periods of a path, or of two paths.",
        parameters: COMPARED,
    },
    Route {
        path: "/api/v1/sla",
        kind: RouteKind::ExpensiveJson(api::month, sla::version),
        about: "Report of a month: for each path availability, targets met and the worst hours, within business hours.",
        parameters: REPORTED,
    },
    Route {
        path: "/api/v1/alerts",
        kind: RouteKind::Json(api::alerts),
        about: "Firing alerts, then resolved ones, newest first.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/alerts/{id}",
        kind: RouteKind::Json(api::alert),
        about: "The paths that an alert is about, those that are still bad first; at most 2000.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/alerts/{id}/acknowledge",
        kind: RouteKind::Order(silences::acknowledging),
        about: "Records who has seen an alert: `{\"by\": \"ann\", \"note\": \"cable ordered\"}`.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/silences",
        kind: RouteKind::Json(api::silences),
        about: "Periods in which no message about certain alerts is sent, those that end last first.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/silences",
        kind: RouteKind::Order(silences::making),
        about: "Makes a silence: `{\"by\": \"ann\", \"for\": \"2h\", \"host\": \"oslo\"}`; `alert`, `test`, `host` and `site` select alerts.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/silences/{id}/end",
        kind: RouteKind::Order(silences::ending),
        about: "Ends a silence; messages about alerts that still fire are sent then.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/events",
        kind: RouteKind::Events(|| get(events::events)),
        about: "Server-sent events: `tests`, with the number of tests in the archive, whenever one is added.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs",
        kind: RouteKind::Json(api::runs),
        about: "Running tests: the hosts and tests to choose from, the limits, and the tests that were started. Not found if running tests is off.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs",
        kind: RouteKind::Order(run::api::starting),
        about: "Starts a test, now or in the next gap of the monitor's timetable; needs the token for running tests.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}",
        kind: RouteKind::Json(api::run),
        about: "A test that was started: its progress, the verdict so far, and finally its results in the archive.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}/events",
        kind: RouteKind::Events(run::api::following),
        about: "Server-sent events: `run`, the same object once per second until it is over.",
        parameters: &[],
    },
    Route {
        path: "/api/v1/runs/{id}/stop",
        kind: RouteKind::Order(run::api::stopping),
        about: "Stops a test and stores its results so far; a second call also gives up results that the far host still has.",
        parameters: &[],
    },
];

impl Route {
    /// Returns the handler of this route.
    pub fn handler(&self) -> MethodRouter<Arc<App>> {
        match self.kind {
            RouteKind::Events(handler) | RouteKind::Form(handler) | RouteKind::Order(handler) => handler(),
            RouteKind::Page(answer) => reading(answer, AnswerFormat::Html),
            RouteKind::Json(answer) => reading(answer, AnswerFormat::Json),
            RouteKind::Csv(answer) => reading(answer, AnswerFormat::Csv),
            RouteKind::ExpensivePage(answer, version) => {
                expensive(*self, answer, version, AnswerFormat::Html)
            }
            RouteKind::ExpensiveJson(answer, version) => {
                expensive(*self, answer, version, AnswerFormat::Json)
            }
        }
    }
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerFormat {
    Html,
    Json,
    Csv,
}

fn reading(answer: AnswerFn, format: AnswerFormat) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>,
              Extension(role),
              headers: HeaderMap,
              parts: RawPathParams,
              RawQuery(query): RawQuery| async move {
            let parts = parts.iter().map(|(_, part)| part.to_owned()).collect();
            let asked = RouteRequest {
                app: app.clone(),
                role,
                parts,
                query: Query::parse(&query.unwrap_or_default()).with_zone_of(&headers),
            };
            let made = app.read(move |archive| answer(archive, &asked)).await;
            respond(made.map(Bytes::from), format)
        },
    )
}

fn expensive(
    route: Route,
    answer: AnswerFn,
    version: AnswerFn,
    format: AnswerFormat,
) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>,
              Extension(role),
              Extension(ClientAddress(client)): Extension<ClientAddress>,
              headers: HeaderMap,
              parts: RawPathParams,
              RawQuery(query): RawQuery| async move {
            let parts = parts.iter().map(|(_, part)| part.to_owned()).collect();
            let asked = Arc::new(RouteRequest {
                app: app.clone(),
                role,
                parts,
                query: Query::parse(&query.unwrap_or_default()).with_zone_of(&headers),
            });
            let address = asked.address(&route);
            let about = asked.clone();
            let made = match app.read(move |archive| version(archive, &about)).await {
                Ok(version) => {
                    let client = Client::of(client);
                    let make = move |archive: &Archive| answer(archive, &asked);
                    app.expensive(client, &address, version, make).await
                }
                Err(problem) => Err(problem),
            };
            respond(made, format)
        },
    )
}

fn respond(made: Result<Bytes, Problem>, format: AnswerFormat) -> Response {
    let with = |kind: &'static str, body| ([(header::CONTENT_TYPE, kind)], Body::from(body)).into_response();
    match (made, format) {
        (Ok(page), AnswerFormat::Html) => with("text/html; charset=utf-8", page),
        (Ok(json), AnswerFormat::Json) => with("application/json", json),
        (Ok(table), AnswerFormat::Csv) => {
            let mut response = with("text/csv; charset=utf-8", table);
            let name = HeaderValue::from_static("attachment; filename=\"jitlat.csv\"");
            response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
            response
        }
        (Err(problem), AnswerFormat::Json) => problem.json(),
        (Err(problem), AnswerFormat::Html | AnswerFormat::Csv) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn only_parameters_of_a_page_make_it_another_one() {
        let folder = tempfile::tempdir().unwrap();
        drop(Archive::make(folder.path()).unwrap());
        let app = Arc::new(App::new(&Settings::new(folder.path())).unwrap());
        let address = |path: &str, role, query: &str| {
            let route = ROUTES.iter().find(|route| route.path == path).unwrap();
            let parts = vec!["1".to_owned()];
            RouteRequest { app: app.clone(), role, parts, query: Query::parse(query) }.address(route)
        };
        let (test, compare) = ("/test/{id}", "/compare");
        assert_eq!(address(test, UserRole::Read, ""), address(test, UserRole::Read, "k=1&x=2"));
        assert_ne!(address(test, UserRole::Read, ""), address(test, UserRole::Run, ""));
        assert_eq!(address(compare, UserRole::Read, "src=a"), address(compare, UserRole::Read, "y=1&src=a"));
        assert_ne!(address(compare, UserRole::Read, "src=a"), address(compare, UserRole::Read, "src=b"));
    }
}
