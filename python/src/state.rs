//! `State`: an analysis that can be continued, saved as bytes, and merged with others; `analyze` and `summaries`.

use crate::arrow::Reader;
use crate::columns;
use crate::errors::{Error, failed, invalid, of_table};
use crate::order::RowOrder;
use crate::packets::{Packets, archived};
use crate::summary::Summary;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::Schema;
use jitlat_archive::{Archive, Assembly, TestHeader};
use jitlat_core::state::SavedAnalysis;
use jitlat_core::{Analyzer, Options, PacketRecord, Span, WallTime};
use jitlat_store::log::{LogReader, LogReading, LogRow};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Options of the analysis; the defaults are those of `jitlat -f LOG --json`.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub streaming: bool,
    pub bulk: bool,
    pub interval: Option<Span>,
    pub late_after: Option<Span>,
}

impl Wanted {
    pub fn of(
        streaming: bool,
        bulk: bool,
        interval: Option<f64>,
        late_after: Option<f64>,
    ) -> PyResult<Wanted> {
        Ok(Wanted {
            streaming,
            bulk,
            interval: interval.map(|s| span("interval", s)).transpose()?,
            late_after: late_after.map(|s| span("late_after", s)).transpose()?,
        })
    }

    pub fn options(&self) -> Options {
        Options {
            streaming: self.streaming,
            comparable: !self.bulk,
            interval: self.interval,
            wait: self.late_after,
            ..jitlat_verdict::options()
        }
    }
}

/// Converts seconds to a span.
pub fn span(name: &str, seconds: f64) -> PyResult<Span> {
    let ns = seconds * 1e9;
    if !(1.0..9e18).contains(&ns) {
        return Err(invalid(format!("{name}={seconds}: give a positive number of seconds")));
    }
    Ok(Span(ns.round() as i64))
}

/// The tests named in the metadata of a table.
fn headers(schema: &Schema) -> PyResult<Vec<TestHeader>> {
    if !schema.metadata().contains_key(PACKETS_KEY) {
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let text = if columns.contains(&"rx_index") || columns.is_empty() {
            format!(
                "the table lost its metadata ({PACKETS_KEY}, jitlat.tests): pandas, polars and DuckDB drop it, pyarrow does not; pass \
                 metadata=packets.metadata, of the `Packets` from which it was made"
            )
        } else {
            format!(
                "this is not a table of packets: it has the columns {}, and no rx_index",
                columns.join(", ")
            )
        };
        return Err(invalid(text));
    }
    TestHeader::of_metadata(|key| schema.metadata().get(key).cloned()).map_err(of_table)
}

/// Key of the metadata of every table of packets.
const PACKETS_KEY: &str = "jitlat.packets";

/// Number of rows that are made from columns at a time: as many as fit a processor's cache.
const ROWS: usize = 1024;

/// An analysis in progress.
struct Running {
    state: SavedAnalysis,
    /// Puts the log together; `None` once it is whole, and if packets are missing before the first one.
    log: Option<Assembly>,
    readings: Vec<LogReading>,
    /// Time of sending of the first packet; `None` before it, and in a saved state.
    first: Option<WallTime>,
    order: RowOrder,
}

impl Running {
    fn new(header: &TestHeader, options: &Options) -> PyResult<Running> {
        let log = header.assemble().map_err(of_table)?;
        let analyzer = Analyzer::new(log.session(), options);
        let state = SavedAnalysis::of(log.session().clone(), analyzer);
        let order = RowOrder::default();
        Running { state, log: Some(log), readings: Vec::new(), first: None, order }.at_the_end()
    }

    /// Finishes the log, which is whole after its last packet.
    fn at_the_end(mut self) -> PyResult<Running> {
        self.conclude()?;
        Ok(self)
    }

    fn conclude(&mut self) -> PyResult<()> {
        if let Some(mut log) = self.log.take_if(|log| log.is_complete()) {
            log.finish(|record| self.state.push(record)).map_err(of_table)?;
            *self.state.session_mut() = log.session().clone();
            self.readings.push(log.reading().clone());
        }
        Ok(())
    }

    /// Adds the packets `from..to` of a batch, which continue those before. Rows in another order are refused.
    fn push(&mut self, batch: &RecordBatch, id: i64, from: usize, to: usize) -> PyResult<()> {
        for start in (from..to).step_by(ROWS) {
            let rows = columns::rows(batch, id, start, to.min(start + ROWS))?;
            self.order.check(&rows)?;
            self.add(&rows)?;
        }
        self.conclude()
    }

    /// Adds the packets `from..to` of a batch of a whole test, in any order.
    fn push_any(&mut self, batch: &RecordBatch, id: i64, from: usize, to: usize) -> PyResult<()> {
        for start in (from..to).step_by(ROWS) {
            let rows = columns::rows(batch, id, start, to.min(start + ROWS))?;
            let rows = self.order.restore(rows);
            self.add(&rows)?;
        }
        Ok(())
    }

    /// Adds the rows that `push_any` has not added yet, because rows before them are missing.
    fn end_any(&mut self) -> PyResult<()> {
        let rows = self.order.rest();
        self.add(&rows)?;
        self.conclude()
    }

    fn add(&mut self, rows: &[LogRow]) -> PyResult<()> {
        let later_part =
            |log: &mut Assembly| log.is_untouched() && rows.first().is_some_and(|row| row.index > 0);
        self.log.take_if(later_part);
        self.first = self.first.or_else(|| rows.iter().find_map(|row| row.record.sent()));
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            match &mut self.log {
                Some(log) => log.push(row, |record| records.push(*record)).map_err(of_table)?,
                None => records.push(row.record),
            }
        }
        self.state.push_all(&records);
        Ok(())
    }

    fn finish(self, name: String) -> Summary {
        let session = self.state.session().clone();
        let (mut summary, samples) = self.state.finish_with_samples();
        self.readings.iter().for_each(|reading| reading.add_to(&mut summary));
        Summary::new(name, session, summary, samples, self.first)
    }
}

/// An analysis in progress: packets are added with `push`, in order of arrival; `summary()` returns the figures so
/// far. States can be saved as bytes and merged in order: the merged parts of a test give the same figures as the
/// whole; different tests of the same path follow each other.
#[pyclass(module = "jitlat")]
pub struct State {
    running: Mutex<Option<Running>>,
    wanted: Wanted,
    id: i64,
    name: String,
}

impl State {
    fn running(&mut self) -> PyResult<&mut Running> {
        let running = self
            .running
            .get_mut()
            .map_err(|_| Error::new_err("the state is unusable after an earlier failure"))?;
        running.as_mut().ok_or_else(|| Error::new_err("the state is unusable after an earlier failure"))
    }
}

#[pymethods]
impl State {
    /// Creates the state before the first packet of the test that `packets` (of `read_log` or `read_archive`) belong
    /// to. `streaming` uses constant memory; `bulk` leaves out data that only comparisons of saved summaries need.
    #[new]
    #[pyo3(signature = (packets, *, streaming = false, bulk = false, interval = None, late_after = None))]
    fn new(
        packets: &Packets,
        streaming: bool,
        bulk: bool,
        interval: Option<f64>,
        late_after: Option<f64>,
    ) -> PyResult<State> {
        let wanted = Wanted::of(streaming, bulk, interval, late_after)?;
        let header = &packets.header;
        let running = Mutex::new(Some(Running::new(header, &wanted.options())?));
        Ok(State { running, wanted, id: header.id().0, name: header.source().to_owned() })
    }

    /// Adds the next packets: a table or a reader of batches.
    fn push(&mut self, py: Python<'_>, packets: Reader) -> PyResult<()> {
        let (reader, id) = (packets.0, self.id);
        let running = self.running()?;
        py.detach(|| {
            for batch in reader {
                let batch = batch.map_err(failed)?;
                running.push(&batch, id, 0, batch.num_rows())?;
            }
            Ok(())
        })
    }

    /// The analysis as bytes for `State.load`, the same as `jitlat --state` writes.
    fn bytes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.running()?.state.save().map_err(failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Loads the bytes that `bytes` returned. Raises `jitlat.Error` if they are something else, or damaged.
    #[staticmethod]
    #[pyo3(signature = (data, *, bulk = false))]
    fn load(data: &[u8], bulk: bool) -> PyResult<State> {
        let wanted = Wanted { bulk, ..Wanted::default() };
        let state = SavedAnalysis::load(data, &wanted.options()).map_err(failed)?;
        let running = Mutex::new(Some(Running {
            state,
            log: None,
            readings: Vec::new(),
            first: None,
            order: RowOrder::default(),
        }));
        Ok(State { running, wanted, id: 0, name: "state".to_owned() })
    }

    /// Appends `later` to this state; `later` does not change.
    fn merge(&mut self, later: &mut State) -> PyResult<()> {
        let next = later.running()?;
        let (state, mut readings) = (next.state.clone(), next.readings.clone());
        let running = self.running()?;
        running.state.merge(state).map_err(failed)?;
        running.readings.append(&mut readings);
        running.log = None;
        Ok(())
    }

    /// Summary of the packets so far.
    fn summary(&mut self, py: Python<'_>) -> PyResult<Summary> {
        let name = self.name.clone();
        let running = self.running()?;
        let (state, readings, first) = (running.state.clone(), running.readings.clone(), running.first);
        Ok(py.detach(|| {
            Running { state, log: None, readings, first, order: RowOrder::default() }.finish(name)
        }))
    }

    fn __reduce__<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let load = py.get_type::<State>().getattr("load")?;
        Ok((load, (self.bytes(py)?,)))
    }

    fn __repr__(&self) -> String {
        format!(
            "<jitlat.State of {}{}>",
            self.name,
            if self.wanted.streaming { ", in constant memory" } else { "" }
        )
    }
}

/// Splits the packets from a reader into tests.
#[pyclass(module = "jitlat")]
pub struct Summaries {
    tests: Mutex<Tests>,
}

struct Tests {
    reader: Box<dyn RecordBatchReader + Send>,
    headers: std::vec::IntoIter<TestHeader>,
    /// The batch in use, and the number of its rows that were used.
    batch: Option<(RecordBatch, usize)>,
    options: Options,
}

impl Tests {
    fn new(packets: Reader, metadata: Option<HashMap<String, String>>, wanted: &Wanted) -> PyResult<Tests> {
        let reader = packets.0;
        let mut headers = match metadata {
            Some(metadata) => headers(&Schema::empty().with_metadata(metadata))?,
            None => headers(&reader.schema())?,
        };
        headers.sort_by_key(TestHeader::position);
        Ok(Tests { reader, headers: headers.into_iter(), batch: None, options: wanted.options() })
    }

    fn one(&mut self) -> PyResult<Option<Summary>> {
        let Some(header) = self.headers.next() else { return Ok(None) };
        let (mut running, id) = (Running::new(&header, &self.options)?, header.id().0);
        let mut left = header.packets() as usize;
        while left > 0 {
            let (batch, from) = match self.batch.take() {
                Some((batch, from)) if from < batch.num_rows() => (batch, from),
                _ => match self.reader.next() {
                    Some(batch) => (batch.map_err(failed)?, 0),
                    None => {
                        let text = format!("{left} packets of test {} are missing", header.id());
                        return Err(Error::new_err(text));
                    }
                },
            };
            let to = batch.num_rows().min(from + left);
            running.push_any(&batch, id, from, to)?;
            left -= to - from;
            self.batch = Some((batch, to));
        }
        running.end_any()?;
        Ok(Some(running.finish(header.source().to_owned()).with_header(&header)))
    }
}

#[pymethods]
impl Summaries {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Summary>> {
        let tests = self
            .tests
            .get_mut()
            .map_err(|_| Error::new_err("the reader is unusable after an earlier failure"))?;
        py.detach(|| tests.one())
    }
}

/// The summary of each test in a table or reader of batches with whole tests one after the other, such as a file of
/// an archive.
#[pyfunction]
#[pyo3(signature = (packets, *, metadata = None, streaming = false, bulk = false, interval = None, late_after = None))]
pub fn summaries(
    packets: Reader,
    metadata: Option<HashMap<String, String>>,
    streaming: bool,
    bulk: bool,
    interval: Option<f64>,
    late_after: Option<f64>,
) -> PyResult<Summaries> {
    let wanted = Wanted::of(streaming, bulk, interval, late_after)?;
    Ok(Summaries { tests: Mutex::new(Tests::new(packets, metadata, &wanted)?) })
}

/// All figures of a test: of a log (a path, or `DIR/ID` of an archive), of `Packets`, or of an Arrow table with a
/// test's packets and metadata.
#[pyfunction]
#[pyo3(signature = (packets, *, metadata = None, streaming = false, bulk = false, interval = None, late_after = None))]
pub fn analyze(
    py: Python<'_>,
    packets: Bound<'_, PyAny>,
    metadata: Option<HashMap<String, String>>,
    streaming: bool,
    bulk: bool,
    interval: Option<f64>,
    late_after: Option<f64>,
) -> PyResult<Summary> {
    if let Ok(path) = packets.extract::<PathBuf>() {
        let options = Wanted::of(streaming, bulk, interval, late_after)?.options();
        return py.detach(|| of_log(&path, &options));
    }
    let reader = packets.extract::<Reader>()?;
    let wanted = Wanted::of(streaming, bulk, interval, late_after)?;
    let mut all = Tests::new(reader, metadata, &wanted)?;
    let tests = all.headers.len();
    if tests != 1 {
        return Err(invalid(format!("the table has {tests} tests: use summaries()")));
    }
    py.detach(|| all.one())?.ok_or_else(|| Error::new_err("no test"))
}

fn of_log(path: &Path, options: &Options) -> PyResult<Summary> {
    let name = path.display().to_string();
    let mut reader = match archived(path).map_err(failed)? {
        Some((root, id)) => Archive::open(&root).and_then(|a| a.reader(id, &name)).map_err(failed)?,
        None => LogReader::open(path).map_err(failed)?,
    };
    let (mut analyzer, mut first) = (Analyzer::new(reader.session(), options), None);
    let read = reader.each_chunk(|records| {
        first = first.or_else(|| records.iter().find_map(PacketRecord::sent));
        analyzer.push_all(records);
    });
    if let Some(e) = read.err().filter(|_| reader.reading().rows == 0) {
        return Err(failed(e));
    }
    let state = SavedAnalysis::of(reader.session().clone(), analyzer);
    let readings = vec![reader.reading().clone()];
    Ok(Running { state, log: None, readings, first, order: RowOrder::default() }.finish(name))
}
