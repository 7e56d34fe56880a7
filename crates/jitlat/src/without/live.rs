//! Stand-in for `live` in builds without it.

use super::missing;
use anyhow::Result;
use jitlat_core::Dscp;
use jitlat_core::observer::{Event, Observer};
use jitlat_core::path_history::{FlowNumber, PathEvent, PathHistory};
use jitlat_instruments::Stop;
use jitlat_net::names::Names;
use std::path::PathBuf;
use std::sync::Arc;

/// View of a test. It has no values, because this build cannot draw.
#[derive(Debug)]
pub enum View {}

impl View {
    pub fn follow(&self, _: usize) -> View {
        match *self {}
    }

    pub fn failed(&self, _: usize, _: String) {
        match *self {}
    }
}

impl Observer for View {
    fn event(&mut self, _: &Event<'_>) {
        match *self {}
    }
}

pub struct Board;

impl Board {
    pub fn of_hosts<'a>(_: impl IntoIterator<Item = &'a str>) -> Board {
        Board
    }
}

/// View of a path. It has no values, because this build cannot draw.
#[derive(Debug)]
pub enum PathView {}

impl PathView {
    pub fn event(&self, _: &PathEvent<'_>) {
        match *self {}
    }
}

pub struct PathBoard {
    pub host: String,
    pub probes: String,
    pub dscp: Dscp,
    pub flows: FlowNumber,
    pub planned: Option<u32>,
    pub history: PathHistory,
}

pub fn start_path(_: PathBoard, _: Arc<Names>, _: &Stop) -> Result<PathView> {
    Err(missing("--live", "live"))
}

pub fn is_possible() -> Result<bool> {
    Err(missing("--live", "live"))
}

pub fn start(_: Board, _: &Stop) -> Result<View> {
    Err(missing("--live", "live"))
}

pub fn show_if_possible(_: &[PathBuf]) -> Result<()> {
    Err(missing("--live", "live"))
}
