//! [`openapi`]: the API as an OpenAPI document, made from the list of routes and the types of the answers.

use crate::alerts::silences::{Acknowledged, Acknowledgement, EndedSilence, SilenceRequest, Silences};
use crate::alerts::{AlertPaths, Alerts};
use crate::compare::ComparedPeriods;
use crate::events::TestsEvent;
use crate::hosts::HostsOverview;
use crate::now::Now;
use crate::path::PathCourse;
use crate::routes::{ROUTES, Route, RouteKind};
use crate::run::RunRequest;
use crate::run::api::RunsNow;
use crate::run::watched::RunNow;
use crate::sla::MonthReport;
use jitlat_archive::Silence;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Type of the answer to GET, for each address.
const ANSWERS: [(&str, MakeSchema); 12] = [
    ("/api/v1/now", of::<Now>),
    ("/api/v1/path/{src}/{dst}", of::<PathCourse>),
    ("/api/v1/hosts", of::<HostsOverview>),
    ("/api/v1/compare", of::<ComparedPeriods>),
    ("/api/v1/sla", of::<MonthReport>),
    ("/api/v1/alerts", of::<Alerts>),
    ("/api/v1/alerts/{id}", of::<AlertPaths>),
    ("/api/v1/silences", of::<Silences>),
    ("/api/v1/events", of::<TestsEvent>),
    ("/api/v1/runs", of::<RunsNow>),
    ("/api/v1/runs/{id}", of::<RunNow>),
    ("/api/v1/runs/{id}/events", of::<RunNow>),
];

/// Types of the body of POST, if it has one, and of the answer, for each address.
const ORDERS: [(&str, Option<MakeSchema>, MakeSchema); 5] = [
    (RUNS, Some(of::<RunRequest>), of::<RunNow>),
    ("/api/v1/runs/{id}/stop", None, of::<RunNow>),
    ("/api/v1/alerts/{id}/acknowledge", Some(of::<Acknowledgement>), of::<Acknowledged>),
    ("/api/v1/silences", Some(of::<SilenceRequest>), of::<Silence>),
    ("/api/v1/silences/{id}/end", None, of::<EndedSilence>),
];

/// Address at which tests are started; also the prefix of the addresses of started tests.
const RUNS: &str = "/api/v1/runs";

/// Returns the OpenAPI 3.1 document.
///
/// # Panics
/// If a route for programs is missing in [`ANSWERS`] or [`ORDERS`].
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.with(|s| s.definitions_path = "/components/schemas".into()).into_generator();
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| {
        !matches!(
            route.kind,
            RouteKind::Page(_) | RouteKind::ExpensivePage(..) | RouteKind::Form(_) | RouteKind::Csv(_)
        )
    }) {
        let is_order = matches!(route.kind, RouteKind::Order(_));
        let (takes, gives) = if is_order {
            let found = ORDERS.iter().find(|(path, ..)| *path == route.path);
            found.map(|(_, takes, gives)| (*takes, *gives)).expect("a type for every route")
        } else {
            let found = ANSWERS.iter().find(|(path, _)| *path == route.path);
            (None, found.expect("a type for every route").1)
        };
        let (schema, takes) = (gives(&mut generator), takes.map(|takes| takes(&mut generator)));
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[if is_order { "post" } else { "get" }] = operation(route, &schema, takes.as_ref());
    }
    let mut schemas = generator.take_definitions(true);
    let text = |about: &str| json!({ "type": "string", "description": about });
    let problem = json!({
        "type": "object",
        "properties": { "error": text("Short description of the error."), "detail": text("Description of the error in one sentence."), "field": text("The invalid field, if there is one.") },
        "required": ["error", "detail"]
    });
    schemas.insert("Problem".to_owned(), problem);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "jitlat web",
            "version": "1",
            "description": "API of `jitlat web` and of a monitor with [web]: the contents of all pages, and running \
                            tests if that is enabled. \
                            Times are UTC, in nanoseconds unless a name says otherwise; null means undefined."
        },
        "servers": [{ "url": "http://127.0.0.1:2680" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } }
        }
    })
}

fn operation(route: &Route, schema: &Schema, takes: Option<&Schema>) -> Value {
    let kind =
        if matches!(route.kind, RouteKind::Events(_)) { "text/event-stream" } else { "application/json" };
    let parts = route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parts = parts.map(|name| {
        let about = match (name, route.path.split('/').nth(3)) {
            ("id", Some("alerts")) => "Number of an alert.",
            ("id", Some("silences")) => "Number of a silence.",
            ("id", _) => "Id of a test that was started.",
            _ => "Address or name of a host.",
        };
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" }, "description": about })
    });
    let asked = route.parameters.iter().map(|(name, about)| {
        json!({ "name": name, "in": "query", "required": false, "schema": { "type": "string" }, "description": about })
    });
    let parameters: Vec<Value> = parts.chain(asked).collect();
    let problem = |what: &str| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        json!({ "description": what, "content": { "application/json": { "schema": schema } } })
    };
    let mut responses = json!({
        "400": problem("The address has an invalid value."),
        "401": problem("The token is missing or wrong."),
        "404": problem("The requested object does not exist."),
        "429": problem("The client has used its share of the server, or showed wrong tokens."),
        "503": problem("The server is busy, or the request took too long.")
    });
    let done = if takes.is_some() && route.path == RUNS { "201" } else { "200" };
    responses[done] =
        json!({ "description": "The requested document.", "content": { kind: { "schema": schema } } });
    let mut operation = json!({ "summary": route.about, "parameters": parameters });
    if matches!(route.kind, RouteKind::Order(_)) {
        responses["403"] =
            problem("The client is not authorised, or a page of another site caused the request.");
        if route.path.starts_with(RUNS) {
            responses["409"] = problem("The limit of tests is reached.");
        }
        operation["security"] = json!([{}, { "token": [] }]);
    }
    if let Some(schema) = takes {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation["responses"] = responses;
    operation
}
