//! `/api/v1`: the contents of the pages as JSON.

use crate::alerts::silences;
use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::{alerts, compare, hosts, now, path, run, sla, times};
use jitlat_archive::Archive;
use serde::Serialize;

/// Formats a document of the API.
pub fn json(document: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(document).map_err(|e| Problem::Failed(format!("{e}.")))
}

/// Returns all paths.
pub fn now(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    json(&now::read(archive, times::now())?)
}

/// Returns a path over time.
pub fn path(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&path::read_course(archive, asked, times::now())?)
}

/// Returns all hosts.
pub fn hosts(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&hosts::read(archive, asked, times::now())?)
}

/// Returns the comparison of two periods of a path, or of two paths.
pub fn compare(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&compare::read(archive, asked, times::now())?)
}

/// Returns the report of a month.
pub fn month(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&sla::read(archive, asked, times::now())?)
}

/// Returns firing and resolved alerts.
pub fn alerts(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&alerts::read(archive, &asked.app, times::now())?)
}

/// Returns the paths of an alert.
pub fn alert(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&alerts::paths(archive, asked.part(0))?)
}

/// Returns the silences.
pub fn silences(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    json(&silences::read(archive, times::now())?)
}

/// Returns the tests requested from the page.
pub fn runs(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&run::api::runs(archive, asked)?)
}

/// Returns a test requested from the page.
pub fn run(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&run::api::run(archive, asked)?)
}
