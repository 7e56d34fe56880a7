//! CSV: one line per packet, or one line per test. Columns: `docs/formats/csv.md`. Text is written with [`TableCsv`] only, because names
//! come from files and other hosts.

use jitlat_core::metrics::classify::{Class, Classifier};
use jitlat_core::printable::printable;
use jitlat_core::record::Moment;
use jitlat_core::scalars::selectors;
use jitlat_core::summary::Summary;
use jitlat_core::twoway::{RecordView, TcpSample, lacks_delay, processing, project, round_trip};
use jitlat_core::{EcnMarking, PacketRecord, Session, StampSource};
use std::borrow::Cow;
use std::io::{self, Write};

/// Column names of [`PacketCsv`] for a one-way test.
pub const PACKET_COLUMNS: &str = "rx_index,seq,class,tx_ns,rx_ns,latency_ns,latency_corrected_ns,pdv_ns,flags,\
                                  tx_stamp,rx_stamp,send_lag_ns,receive_lag_ns,ttl,dscp,ecn,bytes,\
                                  local_queue_ns,sent_ecn";

/// Column names of [`PacketCsv`] for a two-way test.
pub const TWO_WAY_COLUMNS: &str = "rx_index,seq,class,sent_ns,arrived_ns,answered_ns,returned_ns,round_trip_ns,\
                                   processing_ns,there_ns,back_ns,pdv_ns,flags,stamps,send_lag_ns,\
                                   receive_lag_ns,ttl,dscp,ecn,bytes,local_queue_ns,sent_ecn,request_ecn,\
                                   answer_ecn";

/// Writes one line for each datagram received, in order of arrival. Unknown values are empty. Lost packets have no
/// line.
pub struct PacketCsv<W: Write> {
    out: W,
    line: Vec<u8>,
    classifier: Classifier,
    marking: EcnMarking,
    correction: Option<i64>,
    fastest: Option<i64>,
    rows: u64,
    /// True if the far host's times are clock readings; `None` for a one-way test.
    far_clock: Option<bool>,
    /// True if the round-trip time is undefined for answers without the far host's processing time.
    processing_apart: bool,
    /// True if lines end with columns for the kernel's TCP_INFO.
    tcp: bool,
}

impl<W: Write> PacketCsv<W> {
    /// Creates a writer, and writes the line of column names. The smallest latency and the clock correction are taken
    /// from `summary`, which must describe the same records.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(mut out: W, session: &Session, summary: &Summary) -> io::Result<PacketCsv<W>> {
        writeln!(out, "{}", if session.two_way.is_some() { TWO_WAY_COLUMNS } else { PACKET_COLUMNS })?;
        Ok(PacketCsv::headed(out, session, summary))
    }

    fn headed(out: W, session: &Session, summary: &Summary) -> PacketCsv<W> {
        PacketCsv {
            out,
            line: Vec::with_capacity(256),
            classifier: Classifier::new(u32::try_from(session.packets()).unwrap_or(u32::MAX)),
            marking: session.spec.marking,
            correction: summary.clock.correction_ns,
            fastest: summary.latency.min,
            rows: 0,
            far_clock: session.two_way.as_ref().map(|t| t.far_clock),
            processing_apart: session.two_way.as_ref().is_some_and(|t| t.processing_apart),
            tcp: false,
        }
    }

    /// Creates a writer with the additional columns `retransmissions,srtt_us,cwnd`, for [`PacketCsv::write_tcp`].
    /// Otherwise the same as [`PacketCsv::new`].
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new_tcp(mut out: W, session: &Session, summary: &Summary) -> io::Result<PacketCsv<W>> {
        writeln!(out, "{TWO_WAY_COLUMNS},retransmissions,srtt_us,cwnd")?;
        let packets = PacketCsv::headed(out, session, summary);
        Ok(PacketCsv { tcp: true, ..packets })
    }

    /// Writes the next record of a TCP test, with the kernel's TCP_INFO sampled together with the record.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write_tcp(&mut self, record: &PacketRecord, sample: Option<&TcpSample>) -> io::Result<()> {
        self.write_two_way(record, self.far_clock.unwrap_or(false), sample)
    }

    /// Writes the next record, in order of arrival.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write(&mut self, record: &PacketRecord) -> io::Result<()> {
        if let Some(far_clock) = self.far_clock {
            return self.write_two_way(record, far_clock, None);
        }
        let class = self.classifier.classify(record);
        let accepted = matches!(class, Class::Accepted(_));
        let delay = record.delay().map(|d| d.0);
        let line = &mut self.line;
        line.clear();
        number(line, Some(self.rows as i64));
        field(line, Some(record.seq));
        line.extend_from_slice(name(class));
        field(line, record.sent().map(|t| t.0));
        field(line, record.arrived().map(|t| t.0));
        field(line, delay);
        field(line, delay.zip(self.correction).and_then(|(d, c)| d.checked_sub(c)));
        let pdv = delay.zip(self.fastest).filter(|_| accepted);
        field(line, pdv.and_then(|(d, min)| d.checked_sub(min)));
        field(line, Some(record.flags.0.into()));
        for moment in [Moment::Sent, Moment::Arrived] {
            line.push(b',');
            if let Some(stamp) = record.stamp(moment) {
                // Writing to memory does not fail.
                let _ = write!(line, "{}", stamp.source);
            }
        }
        header_fields(line, record);
        field(line, sent_mark(self.marking, record));
        line.push(b'\n');
        self.rows += 1;
        self.out.write_all(line)
    }

    fn write_two_way(
        &mut self,
        record: &PacketRecord,
        far_clock: bool,
        sample: Option<&TcpSample>,
    ) -> io::Result<()> {
        let seen = project(record, RecordView::RoundTrip);
        let class = seen.map_or(Class::Invalid, |seen| self.classifier.classify(&seen));
        let line = &mut self.line;
        line.clear();
        number(line, Some(self.rows as i64));
        field(line, Some(record.seq));
        line.extend_from_slice(name(class));
        let shown = |m| far_clock || matches!(m, Moment::Sent | Moment::Returned);
        let moments = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];
        for moment in moments {
            field(line, record.time(moment).filter(|_| shown(moment)).map(|t| t.0));
        }
        let known = |view| !lacks_delay(record, view, self.processing_apart);
        let whole = round_trip(record).filter(|_| known(RecordView::RoundTrip)).map(|s| s.0);
        field(line, whole);
        field(line, processing(record).map(|s| s.0));
        for view in [RecordView::Up, RecordView::Down] {
            let way = project(record, view).filter(|_| far_clock && known(view));
            field(line, way.and_then(|w| w.delay()).map(|s| s.0));
        }
        let accepted = matches!(class, Class::Accepted(_));
        field(line, whole.zip(self.fastest).filter(|_| accepted).and_then(|(d, min)| d.checked_sub(min)));
        field(line, Some(record.flags.0.into()));
        line.push(b',');
        for moment in moments {
            let letter = record.stamp(moment).filter(|_| shown(moment)).map_or('-', |s| s.source.letter());
            // Writing to memory does not fail.
            let _ = write!(line, "{letter}");
        }
        header_fields(line, record);
        field(line, sent_mark(self.marking, record));
        for mark in [record.request_mark(), record.answer_mark()] {
            field(line, mark.map(|mark| mark.bits().into()));
        }
        if self.tcp {
            for value in
                [sample.map(|s| s.retransmissions), sample.map(|s| s.srtt_us), sample.map(|s| s.cwnd)]
            {
                field(line, value.map(i64::from));
            }
        }
        line.push(b'\n');
        self.rows += 1;
        self.out.write_all(line)
    }
}

/// Returns the mark with which the packet was sent; `None` unless the test sent marks.
fn sent_mark(marking: EcnMarking, record: &PacketRecord) -> Option<i64> {
    let seq = u64::try_from(record.seq).ok().filter(|_| marking.is_on())?;
    Some(marking.of(seq).bits().into())
}

fn name(class: Class) -> &'static [u8] {
    match class {
        Class::Accepted(_) => b",accepted",
        Class::Duplicate(_) => b",duplicate",
        Class::Damaged(_) | Class::Invalid => b",invalid",
    }
}

/// Writes lags, received header fields, and the time in the sending host's queue if it is derived from a kernel stamp.
fn header_fields(line: &mut Vec<u8>, record: &PacketRecord) {
    field(line, record.send_lag().map(|l| l.0));
    field(line, record.receive_lag().map(|l| l.0));
    field(line, record.ttl().map(i64::from));
    field(line, record.dscp().map(i64::from));
    field(line, record.ecn().map(|mark| mark.bits().into()));
    field(line, record.size().map(i64::from));
    let stamped = record.local_queue().filter(|(_, source)| *source == StampSource::Kernel);
    field(line, stamped.map(|(time, _)| time.0));
}

fn field(line: &mut Vec<u8>, value: Option<i64>) {
    line.push(b',');
    number(line, value);
}

fn number(line: &mut Vec<u8>, value: Option<i64>) {
    if let Some(v) = value {
        line.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
    }
}

/// Writes a line of column names, and one line for each summary.
///
/// # Errors
/// Errors of `out`.
pub fn write_summaries<'a>(
    out: &mut dyn Write,
    summaries: impl IntoIterator<Item = &'a Summary>,
) -> io::Result<()> {
    write_table(out, summaries.into_iter().map(summary_row))
}

/// Writes a line of column names, then lines of values. All lines must have the same names.
///
/// # Errors
/// Errors of `out`.
pub fn write_table(
    out: &mut dyn Write,
    lines: impl IntoIterator<Item = Vec<(String, String)>>,
) -> io::Result<()> {
    let mut table = TableCsv::new(out);
    let mut headed = false;
    for row in lines {
        if !headed {
            table.row(row.iter().map(|(name, _)| name))?;
            headed = true;
        }
        table.row(row.iter().map(|(_, value)| value))?;
    }
    table.finish()
}

/// Writes lines of cells. Text that a spreadsheet would take for a formula begins with an apostrophe, which spreadsheets do not
/// show; control characters are replaced by U+FFFD. Numbers are written as they are.
pub struct TableCsv<W: Write>(::csv::Writer<W>);

impl<W: Write> TableCsv<W> {
    /// Creates a writer.
    pub fn new(out: W) -> TableCsv<W> {
        TableCsv(::csv::Writer::from_writer(out))
    }

    /// Writes a line. All lines must have the same number of cells.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
        for text in cells {
            self.0.write_field(cell(text.as_ref()).as_bytes())?;
        }
        Ok(self.0.write_record(None::<&[u8]>)?)
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Characters at the beginning of a formula, also in the full width of East Asian scripts. `cell` treats a tab or line
/// end at the beginning of a text like these characters.
const FORMULA_BEGINS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Returns a cell with the text `text`.
fn cell(text: &str) -> Cow<'_, str> {
    let controls = text.starts_with(['\t', '\r', '\n']);
    let shown = printable(text);
    let is_formula =
        controls || shown.starts_with(FORMULA_BEGINS) && shown != "-" && shown.parse::<f64>().is_err();
    if is_formula { Cow::Owned(format!("'{shown}")) } else { shown }
}

/// Returns the column names and values of one summary; the names are always the same.
fn summary_row(s: &Summary) -> Vec<(String, String)> {
    let h = &s.header;
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let tags: Vec<String> = s.session.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut row = CsvRow(Vec::new());
    row.add("name", &text(&s.session.name));
    row.add("tags", &tags.join(";"));
    row.add("session", &text(&s.session.id));
    row.add("date", &text(&h.date));
    row.add("direction", &format!("{:?}", s.session.direction).to_lowercase());
    row.add("proto", &h.proto);
    row.add("src_ip", &text(&h.src_ip));
    row.add("src_port", &h.src_port);
    row.add("dst_ip", &text(&h.dst_ip));
    row.add("dst_port", &h.dst_port);
    row.add("dscp", &h.dscp);
    row.add("pktlen", &h.pktlen);
    row.add("period_ns", &h.period);
    for selector in selectors() {
        row.maybe(&selector.column(), selector.of(s));
    }
    row.maybe(
        "ending",
        serde_json::to_value(s.session.ending).ok().and_then(|v| v.as_str().map(str::to_owned)),
    );
    row.0
}

struct CsvRow(Vec<(String, String)>);

impl CsvRow {
    fn add(&mut self, name: &str, value: &impl ToString) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    fn maybe(&mut self, name: &str, value: Option<impl ToString>) {
        self.0.push((name.to_owned(), value.map(|v| v.to_string()).unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cells: &[&str]) -> String {
        let mut out = Vec::new();
        let mut table = TableCsv::new(&mut out);
        table.row(cells).unwrap();
        table.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_text_is_a_formula_and_numbers_are_unchanged() {
        let numbers = ["-1.5", "+3", "-0", "1e-9", "-inf", "NaN", "", "-"];
        assert_eq!(written(&numbers), "-1.5,+3,-0,1e-9,-inf,NaN,,-\n");
        for (text, line) in [
            ("=1+1", "'=1+1\n"),
            ("=HYPERLINK(\"http://evil\",\"x\")", "\"'=HYPERLINK(\"\"http://evil\"\",\"\"x\"\")\"\n"),
            ("@SUM(A1)", "'@SUM(A1)\n"),
            ("-2+3", "'-2+3\n"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0\n"),
            ("\t=1", "'\u{fffd}=1\n"),
            ("\r=1", "'\u{fffd}=1\n"),
            ("\u{ff1d}1", "'\u{ff1d}1\n"),
            ("a=1", "a=1\n"),
            ("a,\"b\"\nc", "\"a,\"\"b\"\"\u{fffd}c\"\n"),
            ("\x1b[2J", "\u{fffd}[2J\n"),
        ] {
            assert_eq!(written(&[text]), line, "{text:?}");
        }
    }
}
