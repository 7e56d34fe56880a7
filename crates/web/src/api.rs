//! `/api/v1`: the contents of the pages as JSON.

use crate::problem::Problem;
use crate::routes::RouteRequest;
use crate::{alerts, compare, hosts, now, path, run, times};
use jitlat_archive::Archive;
use serde::Serialize;

fn json(document: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(document).map_err(|e| Problem::Failed(format!("{e}.")))
}

/// All paths.
pub fn now(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    json(&now::read(archive, times::now())?)
}

/// A path over time.
pub fn path(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&path::read(archive, asked, times::now())?.course)
}

/// Hosts.
pub fn hosts(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&hosts::read(archive, asked, times::now())?)
}

/// Two periods of a path, or two paths.
pub fn compare(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&compare::read(archive, asked, times::now())?)
}

/// Alerts.
pub fn alerts(archive: &Archive, _: &RouteRequest) -> Result<String, Problem> {
    json(&alerts::read(archive, times::now())?)
}

/// Running tests.
pub fn runs(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&run::api::runs(archive, asked)?)
}

/// A test that was started.
pub fn run(archive: &Archive, asked: &RouteRequest) -> Result<String, Problem> {
    json(&run::api::run(archive, asked)?)
}
