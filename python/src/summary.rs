//! `Summary`, `Figure`, `Comparison`: results as numbers, JSON, text and pictures.

use crate::archive::column_name;
use crate::errors::{Error, failed, invalid};
use jitlat_archive::{PooledStream, TestHeader};
use jitlat_core::analysis::Samples;
use jitlat_core::pool::Pool;
use jitlat_core::scalars::{SCALARS, closest, selectors};
use jitlat_core::{Session, Summary as CoreSummary, WallTime};
use jitlat_report::figure::{self, DrawnRun, DrawnStream, Trace};
use jitlat_report::text::TextOptions;
use jitlat_report::text::screen::shown_shift;
use jitlat_report::{draw, html, text};
use jitlat_store::json;
use jitlat_verdict::compare::{
    Basis, ComparisonGrid, ComparisonSettings, LabelledRun, LossMargin, Margins, RunKey, Statistic,
    TimeMargin,
};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::{Deserialize, Serialize};

/// Parses text with Python's `json`.
pub fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// Formats a document like the command.
pub fn dumps(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_value(value)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map(|text| text + "\n")
        .map_err(failed)
}

/// All figures of a test. Scalars are attributes: `summary.latency_median`, in the units of docs/metrics (times in
/// ns); `None` where undefined.
#[pyclass(module = "jitlat", frozen)]
pub struct Summary {
    name: String,
    id: Option<String>,
    session: Session,
    summary: CoreSummary,
    samples: Samples,
    /// Time of sending of the first packet, if known.
    first: Option<WallTime>,
    /// Tags from the file, in addition to the test's own.
    tags: Vec<(String, String)>,
}

impl Summary {
    pub fn new(
        name: String,
        session: Session,
        summary: CoreSummary,
        samples: Samples,
        first: Option<WallTime>,
    ) -> Summary {
        Summary { name, id: None, session, summary, samples, first, tags: Vec::new() }
    }

    pub fn with_header(self, header: &TestHeader) -> Summary {
        Summary { id: Some(header.id().to_string()), tags: header.tags().to_vec(), ..self }
    }

    /// Pool of the test's packets.
    pub fn pool(&self) -> Pool {
        Pool::of(&self.summary, &self.samples)
    }

    fn drawn(&self) -> Vec<figure::Figure> {
        let trace = Trace::of(&self.session, &self.samples);
        let (summary, minus) = (&self.summary, shown_shift(&self.summary));
        let stream = DrawnStream { label: "", summary, trace: &trace, minus };
        let run = DrawnRun { label: "", summary, trace: Some(&trace), corrected: false };
        figure::delay_over_time(&[stream]).into_iter().chain(figure::of_run(&run)).collect()
    }
}

#[pymethods]
impl Summary {
    /// Name of the log, or of the test.
    #[getter]
    fn name(&self) -> &str {
        self.summary.session.name.as_deref().unwrap_or(&self.name)
    }

    /// Name of the log.
    #[getter]
    fn name_of_log(&self) -> &str {
        &self.name
    }

    /// Number of the test, as 16 hexadecimal digits, if it comes from a table or an archive's file.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Start of the test, ns since 1970; `None` if no packet contains it.
    #[getter]
    fn started_ns(&self) -> Option<i64> {
        self.session.created.or(self.first).map(|t| t.0)
    }

    /// Hosts and kind of the stream: `src`, `dst` (`-` if unknown), `protocol`, `direction`, `payload_bytes`,
    /// `period_ns`, `dscp`. Tests with the same stream can be pooled.
    #[getter]
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &dumps(&PooledStream::of(&self.session))?)
    }

    /// Tags of the test, including those given when it was archived.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tags = PyDict::new(py);
        self.session.tags.iter().chain(&self.tags).try_for_each(|(key, value)| tags.set_item(key, value))?;
        Ok(tags)
    }

    /// The bytes that `jitlat -f LOG --json -` prints.
    fn json(&self) -> PyResult<String> {
        let document = json::document(std::slice::from_ref(&self.summary)).map_err(failed)?;
        dumps(&document)
    }

    /// The JSON as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json()?)
    }

    /// The verdict: what is wrong, since when, by how much, with what confidence, where, and which profiles the path
    /// suits: `answer` of the JSON.
    #[getter]
    fn answer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("answer")
    }

    /// All scalars by name, like in `--fail-if` and tables; `None` where undefined.
    #[getter]
    fn scalars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for selector in selectors() {
            all.set_item(selector.to_string(), selector.of(&self.summary).map(|number| number.as_f64()))?;
        }
        Ok(all)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if name.starts_with("__") {
            // Python asks for methods of protocols, such as __array__.
            return Err(PyAttributeError::new_err(name.to_owned()));
        }
        let dashed = name.replace('_', "-");
        let is_named = |key: &str| column_name(key) == name || key == dashed;
        match selectors().find(|selector| is_named(&selector.to_string())) {
            Some(selector) => {
                Ok(selector.of(&self.summary).map(|number| number.as_f64()).into_pyobject(py)?)
            }
            None => Err(PyAttributeError::new_err(format!(
                "a summary has no {name}; dir(summary) lists what it has{}",
                nearest(&dashed)
            ))),
        }
    }

    fn __dir__(&self) -> Vec<String> {
        let own = [
            "name",
            "name_of_log",
            "id",
            "started_ns",
            "stream",
            "tags",
            "json",
            "to_dict",
            "answer",
            "scalars",
            "text",
            "html",
            "figures",
            "figure",
        ];
        own.map(str::to_owned).into_iter().chain(selectors().map(|s| column_name(&s.to_string()))).collect()
    }

    /// The report that the command prints with -v.
    fn text(&self) -> String {
        text::report(&self.summary, &TextOptions::default())
    }

    /// The page that `--html` writes.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let trace = Trace::of(&self.session, &self.samples);
            let part = html::ReportPart {
                label: "",
                session: Some(&self.session),
                summary: &self.summary,
                trace: Some(&trace),
            };
            html::page(&html::HtmlReport {
                section: None,
                parts: &[part],
                corrected: false,
                command: None,
                program: PROGRAM,
                written: Some(jitlat_net::clock::wall()),
            })
        })
    }

    /// Names of all figures.
    #[getter]
    fn figures(&self) -> Vec<String> {
        self.drawn().into_iter().map(|figure| figure.id).collect()
    }

    /// The figure with this name.
    fn figure(&self, name: &str) -> PyResult<Figure> {
        let mut all = self.drawn();
        match all.iter().position(|figure| figure.id == name) {
            Some(k) => Ok(Figure { figure: all.swap_remove(k) }),
            None => {
                let names = all.into_iter().map(|figure| figure.id).collect::<Vec<_>>().join(", ");
                Err(PyKeyError::new_err(format!("unknown figure {name}: give one of {names}")))
            }
        }
    }

    fn _repr_html_(&self) -> String {
        let text: String = self.text().chars().map(escaped).collect();
        let figures: String = self.drawn().iter().take(2).map(draw::inline_svg).collect();
        format!("<div>{figures}<details><summary>report</summary><pre>{text}</pre></details></div>")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = py.detach(|| {
            rmp_serde::to_vec_named(&PickledRef {
                version: env!("CARGO_PKG_VERSION"),
                name: &self.name,
                id: &self.id,
                session: &self.session,
                summary: &self.summary,
                samples: &self.samples,
                queued: &self.samples.queued,
                delayless: &self.samples.delayless,
                first: self.first,
                tags: &self.tags,
            })
        });
        let load = py.get_type::<Summary>().getattr("_load")?;
        Ok((load, (PyBytes::new(py, &bytes.map_err(failed)?),)))
    }

    /// Restores a pickled summary.
    #[staticmethod]
    fn _load(data: &[u8]) -> PyResult<Summary> {
        let pickled: Result<Pickled, _> = jitlat_core::msgpack::from_slice(data);
        let Pickled { name, id, session, summary, samples, queued, delayless, first, tags } = pickled
            .map_err(|e| {
                Error::new_err(format!(
                    "this pickled summary cannot be read, perhaps because another version wrote it: {e}"
                ))
            })?;
        let samples = Samples { queued, delayless, ..samples };
        Ok(Summary { name, id, session, summary, samples, first, tags })
    }

    fn __repr__(&self) -> String {
        let counts = &self.summary.counts;
        format!(
            "<jitlat.Summary of {}: {} of {} packets received>",
            self.name(),
            counts.received,
            counts.sent
        )
    }
}

/// Names that are similar to `name`, as the end of a sentence.
fn nearest(name: &str) -> String {
    match &closest(name)[..] {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|name| column_name(name)).collect();
            format!(" (similar: {})", names.join(", "))
        }
    }
}

/// A pickled summary.
#[derive(Serialize)]
struct PickledRef<'a> {
    version: &'a str,
    name: &'a str,
    id: &'a Option<String>,
    session: &'a Session,
    summary: &'a CoreSummary,
    samples: &'a Samples,
    queued: &'a [(u32, i64)],
    delayless: &'a [u32],
    first: Option<WallTime>,
    tags: &'a [(String, String)],
}

/// A pickled summary that is read.
#[derive(Deserialize)]
struct Pickled {
    name: String,
    id: Option<String>,
    session: Session,
    summary: CoreSummary,
    samples: Samples,
    queued: Vec<(u32, i64)>,
    delayless: Vec<u32>,
    first: Option<WallTime>,
    tags: Vec<(String, String)>,
}

/// Replaces characters that HTML would interpret.
pub fn escaped(c: char) -> String {
    match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        c => c.to_string(),
    }
}

/// Name and version of this module.
pub const PROGRAM: &str = concat!("jitlat ", env!("CARGO_PKG_VERSION"));

/// A figure, drawn on request.
#[pyclass(module = "jitlat", frozen)]
pub struct Figure {
    figure: figure::Figure,
}

#[pymethods]
impl Figure {
    /// The figure as SVG.
    fn svg(&self) -> String {
        draw::svg(&self.figure)
    }

    /// The figure as PNG, with `scale` pixels per unit.
    #[pyo3(signature = (scale = 2.0))]
    fn png<'py>(&self, py: Python<'py>, scale: f32) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| draw::png(&self.figure, scale)).map_err(failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }
}

/// Runs side by side, with a verdict of each against the first, like `jitlat compare`.
#[pyclass(module = "jitlat", frozen)]
pub struct Comparison {
    grid: ComparisonGrid,
}

#[pymethods]
impl Comparison {
    /// The bytes that `jitlat compare --json -` prints.
    fn json(&self) -> PyResult<String> {
        dumps(&self.grid)
    }

    /// The JSON as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json()?)
    }

    /// The text that the command prints with -v.
    fn text(&self) -> String {
        text::comparison(&self.grid, &TextOptions::default())
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", self.text().chars().map(escaped).collect::<String>())
    }

    fn __repr__(&self) -> String {
        self.text()
    }
}

/// Compares the first summary with each of the others; a dictionary gives them names. `basis`: pdv, ipdv or delay;
/// `statistic`: median or p99. Differences of times up to `margin` ("10%", "2ms") and of loss up to `loss_margin` ("0.5%")
/// count as the same.
#[pyfunction]
#[pyo3(signature = (summaries, *, basis = "pdv", statistic = "median", margin = None, loss_margin = None))]
pub fn compare(
    py: Python<'_>,
    summaries: Bound<'_, PyAny>,
    basis: &str,
    statistic: &str,
    margin: Option<&str>,
    loss_margin: Option<&str>,
) -> PyResult<Comparison> {
    let basis = match basis {
        "pdv" => Basis::Pdv,
        "ipdv" => Basis::Ipdv,
        "delay" => Basis::Delay,
        other => return Err(invalid(format!("basis={other}: give pdv, ipdv or delay"))),
    };
    let statistic = match statistic {
        "median" => Statistic::Median,
        "p99" => Statistic::P99,
        other => return Err(invalid(format!("statistic={other}: give median or p99"))),
    };
    let mut margins = Margins::default();
    if let Some(text) = margin {
        margins.time =
            Some(text.parse::<TimeMargin>().map_err(|why| invalid(format!("margin={text}: {why}")))?);
    }
    if let Some(text) = loss_margin {
        margins.loss =
            text.parse::<LossMargin>().map_err(|why| invalid(format!("loss_margin={text}: {why}")))?;
    }
    let named: Vec<(String, Py<Summary>)> = match summaries.cast::<PyDict>() {
        Ok(named) => named.iter().map(|(k, v)| Ok((k.extract()?, v.extract()?))).collect::<PyResult<_>>()?,
        Err(_) => {
            let all: Vec<Py<Summary>> = summaries.extract()?;
            (1..).zip(all).map(|(k, s)| (format!("{k} {}", s.get().name()), s)).collect()
        }
    };
    if named.len() < 2 {
        return Err(invalid("give at least two summaries"));
    }
    let run = |(label, summary): &(String, Py<Summary>)| {
        let s = summary.get();
        let (summary, samples) = (s.summary.clone(), s.samples.clone());
        LabelledRun { label: label.clone(), source: s.name.clone(), summary, samples }
    };
    let runs: Vec<LabelledRun> = named.iter().map(run).collect();
    let question = ComparisonSettings { basis, statistic, margins, ..ComparisonSettings::default() };
    let grid = py.detach(|| ComparisonGrid::new(&runs, &RunKey::Label, None, None, &question));
    if grid.comparisons().next().is_none() {
        return Err(Error::new_err("nothing could be compared"));
    }
    Ok(Comparison { grid })
}

/// All scalars of a summary: name, column in tables (which ends in the unit), and definition.
#[pyfunction]
pub fn scalars() -> Vec<(&'static str, String, &'static str)> {
    SCALARS.iter().map(|figure| (figure.key, figure.column(), figure.about)).collect()
}

/// All scalars that are attributes of a summary: name of the attribute, name of the scalar, and definition.
#[pyfunction]
pub fn scalar_attributes() -> Vec<(String, String, &'static str)> {
    selectors().map(|s| (column_name(&s.to_string()), s.to_string(), s.scalar.about)).collect()
}
