//! [`COLUMNS`]: the list of all columns of packets.

use jitlat_core::record::Moment;
use jitlat_core::time::StampSource;
use jitlat_core::twoway::TcpSample;
use jitlat_core::{Ecn, Flags, PacketRecord, Span, Stamp, WallTime};
use jitlat_store::log::LogRow;

/// Storage type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Width {
    /// INT64.
    Wide,
    /// INT32.
    Narrow,
    /// INT32 with values that fit into 16 bits.
    Short,
}

/// A column: its name, its type, and functions that read it from a row and write it to a row.
#[non_exhaustive]
pub struct PacketColumn {
    /// Name of the column.
    pub name: &'static str,
    /// Storage type.
    pub width: Width,
    /// True if every row has a value.
    pub required: bool,
    /// True if the column has few distinct values.
    pub few: bool,
    /// Reads the value of a row; `None` if the row has no value.
    pub take: fn(&LogRow) -> Option<i64>,
    /// Sets the value of a row; returns `None` if the value is impossible.
    pub put: fn(&mut LogRow, i64) -> Option<()>,
}

const fn column(
    name: &'static str,
    width: Width,
    take: fn(&LogRow) -> Option<i64>,
    put: fn(&mut LogRow, i64) -> Option<()>,
) -> PacketColumn {
    PacketColumn { name, width, required: false, few: false, take, put }
}

impl PacketColumn {
    const fn always(self) -> PacketColumn {
        PacketColumn { required: true, ..self }
    }

    const fn few(self) -> PacketColumn {
        PacketColumn { few: true, ..self }
    }
}

const MOMENTS: [Moment; 4] = [Moment::Sent, Moment::Arrived, Moment::Answered, Moment::Returned];

/// Number of columns after `test_id` in files of the first version. Columns after these may be missing.
pub const MIN_COLUMNS: usize = 18;

/// Columns after `test_id`. A column that depends on another column comes after it: sources after times, the queue
/// after the lag.
pub static COLUMNS: [PacketColumn; 20] = {
    use Width::{Narrow, Short, Wide};
    [
        column("rx_index", Wide, |r| Some(r.index as i64), put_index).always(),
        column("seq", Wide, |r| Some(r.record.seq), put_seq).always(),
        column("stamps", Short, |r| Some(stamps(&r.record)), put_stamps).always().few(),
        column("sent_ns", Wide, |r| time(r, Moment::Sent), |r, x| put_time(r, Moment::Sent, x)),
        column("arrived_ns", Wide, |r| time(r, Moment::Arrived), |r, x| put_time(r, Moment::Arrived, x)),
        column("answered_ns", Wide, |r| time(r, Moment::Answered), |r, x| put_time(r, Moment::Answered, x)),
        column("returned_ns", Wide, |r| time(r, Moment::Returned), |r, x| put_time(r, Moment::Returned, x)),
        column("flags", Narrow, |r| Some(r.record.flags.0.into()), put_flags).always().few(),
        column("size", Narrow, |r| r.record.size().map(i64::from), put_size).few(),
        column("ttl", Short, |r| r.record.ttl().map(i64::from), put_ttl).few(),
        column("tos", Short, |r| r.record.traffic_class().map(i64::from), put_tos).few(),
        column("send_lag_ns", Wide, |r| r.record.send_lag().map(|s| s.0), put_send_lag),
        column("receive_lag_ns", Narrow, |r| r.record.receive_lag().map(|s| s.0), put_receive_lag),
        column("local_queue_ns", Wide, local_queue, put_local_queue),
        column(
            "tcp_retransmissions",
            Wide,
            |r| tcp(r, |t| t.retransmissions),
            |r, x| put_tcp(r, x, |t| &mut t.retransmissions),
        )
        .few(),
        column("tcp_srtt_us", Wide, |r| tcp(r, |t| t.srtt_us), |r, x| put_tcp(r, x, |t| &mut t.srtt_us)),
        column("tcp_cwnd", Wide, |r| tcp(r, |t| t.cwnd), |r, x| put_tcp(r, x, |t| &mut t.cwnd)).few(),
        column("tcp_mss", Wide, |r| tcp(r, |t| t.mss), |r, x| put_tcp(r, x, |t| &mut t.mss)).few(),
        column("request_ecn", Short, |r| bits(r.record.request_mark()), put_request_mark).few(),
        column("answer_ecn", Short, |r| bits(r.record.answer_mark()), put_answer_mark).few(),
    ]
};

fn time(row: &LogRow, moment: Moment) -> Option<i64> {
    row.record.time(moment).map(|t| t.0)
}

/// Returns the sources of the stamps, two bits each: 0 user (or no stamp), 1 kernel, 2 hardware, 3 wire.
fn stamps(record: &PacketRecord) -> i64 {
    let of = |m: Moment| record.stamp(m).map_or(0, |s| i64::from(s.source as u8) << (2 * m as u8));
    MOMENTS.into_iter().map(of).sum()
}

fn local_queue(row: &LogRow) -> Option<i64> {
    row.record.local_queue().filter(|(_, source)| *source == StampSource::Kernel).map(|(time, _)| time.0)
}

fn tcp(row: &LogRow, of: fn(&TcpSample) -> u32) -> Option<i64> {
    row.tcp.as_ref().map(|sample| of(sample).into())
}

fn bits(mark: Option<Ecn>) -> Option<i64> {
    mark.map(|mark| mark.bits().into())
}

/// Converts the bits of a mark; `None` if they are out of range.
fn mark(x: i64) -> Option<Ecn> {
    u8::try_from(x).ok().filter(|bits| *bits < 4).map(Ecn::of_bits)
}

fn put_request_mark(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_request_mark(Some(mark(x)?));
    Some(())
}

fn put_answer_mark(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_answer_mark(Some(mark(x)?));
    Some(())
}

fn put_index(row: &mut LogRow, x: i64) -> Option<()> {
    row.index = x.try_into().ok()?;
    Some(())
}

fn put_seq(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.seq = x;
    Some(())
}

fn put_stamps(row: &mut LogRow, x: i64) -> Option<()> {
    let bits = u8::try_from(x).ok()?;
    for moment in MOMENTS {
        let source = StampSource::ALL[usize::from(bits >> (2 * moment as u8) & 3)];
        // The time is set later by its own column. If it is missing, there is no stamp.
        row.record.set(moment, Stamp { at: WallTime(0), source });
        row.record.clear(moment);
    }
    Some(())
}

fn put_time(row: &mut LogRow, moment: Moment, x: i64) -> Option<()> {
    let source = row.record.source(moment);
    row.record.set(moment, Stamp { at: WallTime(x), source });
    Some(())
}

fn put_flags(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.flags = Flags(x.try_into().ok()?);
    Some(())
}

fn put_size(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_size(Some(x.try_into().ok()?));
    Some(())
}

fn put_ttl(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_ttl(Some(x.try_into().ok()?));
    Some(())
}

fn put_tos(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_traffic_class(Some(x.try_into().ok()?));
    Some(())
}

fn put_send_lag(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_send_lag(Some(Span(x)));
    Some(())
}

fn put_receive_lag(row: &mut LogRow, x: i64) -> Option<()> {
    row.record.set_receive_lag(Some(Span(x)));
    Some(())
}

fn put_local_queue(row: &mut LogRow, x: i64) -> Option<()> {
    let entered = row.record.send_lag()?.0.checked_sub(x)?;
    row.record.set_entry_lag(Some(Span(entered)));
    Some(())
}

fn put_tcp(row: &mut LogRow, x: i64, of: fn(&mut TcpSample) -> &mut u32) -> Option<()> {
    let sample = row.tcp.get_or_insert(TcpSample { mss: 0, srtt_us: 0, cwnd: 0, retransmissions: 0 });
    *of(sample) = x.try_into().ok()?;
    Some(())
}

/// A block of rows, stored by column.
#[derive(Default)]
pub(crate) struct ColumnBlock {
    rows: usize,
    /// Values of each column; rows without a value are left out.
    pub values: [Vec<i64>; COLUMNS.len()],
    /// Flags of each column: 1 if the row has a value, 0 otherwise.
    pub present: [Vec<i16>; COLUMNS.len()],
    /// Tests in the block: id and number of rows.
    pub tests: Vec<(i64, usize)>,
}

impl ColumnBlock {
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Starts the rows of another test.
    pub fn begin(&mut self, test: i64) {
        self.tests.push((test, 0));
    }

    pub fn push(&mut self, row: &LogRow) {
        for ((column, values), present) in COLUMNS.iter().zip(&mut self.values).zip(&mut self.present) {
            let value = (column.take)(row);
            values.extend(value);
            if !column.required {
                present.push(value.is_some().into());
            }
        }
        self.rows += 1;
        if let Some((_, rows)) = self.tests.last_mut() {
            *rows += 1;
        }
    }

    /// Creates a block for further rows of the last test.
    pub fn next(&self) -> ColumnBlock {
        let last = self.tests.last().map(|(test, _)| (*test, 0));
        ColumnBlock { tests: last.into_iter().collect(), ..ColumnBlock::default() }
    }

    /// Removes all rows. Rows that are added later still belong to the last test.
    pub fn clear(&mut self) {
        let last = self.tests.last().map(|(test, _)| (*test, 0));
        self.values.iter_mut().for_each(Vec::clear);
        self.present.iter_mut().for_each(Vec::clear);
        self.rows = 0;
        self.tests = last.into_iter().collect();
    }
}
