//! Captured traffic: `spp` and `tcp`.

use crate::errors::{failed, invalid};
use crate::state::Wanted;
use crate::summary::{dumps, escaped, loads};
use jitlat_core::Summary;
use jitlat_instruments::passive::{CaptureSource, Passive, TcpCaptures};
use jitlat_instruments::{Analyses, Stop, Unobserved};
use jitlat_passive::tcp::TcpResult;
use jitlat_passive::{PassiveResult, PingFigures, StreamObserver};
use jitlat_report::text::{self, PassiveExtras};
use jitlat_store::passive::{spp_document, tcp_document};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Results from two captures of the same traffic about the path between them, or from captures about TCP connections.
#[pyclass(module = "jitlat", frozen)]
pub struct Captured {
    json: String,
    text: String,
    failures: Vec<String>,
}

#[pymethods]
impl Captured {
    /// The JSON that the command writes with `--json`.
    fn json(&self) -> &str {
        &self.json
    }

    /// The JSON as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json)
    }

    /// The report of the command.
    fn text(&self) -> &str {
        &self.text
    }

    /// Reasons why parts of the result are missing: captures that are damaged before their end.
    #[getter]
    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", self.text.chars().map(escaped).collect::<String>())
    }

    fn __repr__(&self) -> &str {
        &self.text
    }
}

/// Round trips, losses and delay variation of the traffic in both captures, without synchronised clocks; the capture
/// nearer to the reference end comes first. Like `jitlat spp`.
#[pyfunction]
pub fn spp(py: Python<'_>, reference: PathBuf, monitor: PathBuf) -> PyResult<Captured> {
    py.detach(|| {
        let points = [reference, monitor].map(|path| CaptureSource::Files(vec![path]));
        let mut analyses = StreamObserver(Analyses::new(Wanted::default().options()));
        let settings = Passive { records: true, ..Passive::default() };
        let outcome = settings.follow_captures(points, &Stop::new(), &mut analyses).map_err(failed)?;
        let ways = analyses.0.finish();
        let ways: Vec<&Summary> = ways.iter().map(|way| &way.summary).collect();
        let result: &PassiveResult = &outcome.result;
        Ok(Captured {
            json: dumps(&spp_document(result, PingFigures::default(), None, &ways, &[]))?,
            text: text::passive(result, &PassiveExtras { top: 10, ..PassiveExtras::default() }),
            failures: outcome.failures.iter().map(ToString::to_string).collect(),
        })
    })
}

/// The TCP connections in captures of one point, in order of time, or of two points: handshake, round trips,
/// retransmissions, losses, waiting times. Like `jitlat tcp`.
#[pyfunction]
#[pyo3(signature = (*captures, one_point = false))]
pub fn tcp(py: Python<'_>, captures: Vec<PathBuf>, one_point: bool) -> PyResult<Captured> {
    if captures.is_empty() {
        return Err(invalid("give at least one capture"));
    }
    py.detach(|| {
        let settings = TcpCaptures { one_point, ..TcpCaptures::default() };
        let result: TcpResult = settings.analyse(&captures, &Stop::new(), &mut Unobserved).map_err(failed)?;
        let (json, text) = (dumps(&tcp_document(&result))?, text::tcp(&result, 10));
        Ok(Captured { json, text, failures: Vec::new() })
    })
}
