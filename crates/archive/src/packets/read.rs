//! [`StoredFile`]: a packet file whose bytes are compared with their checksums before they are decoded.

use super::columns::{COLUMNS, MIN_COLUMNS, Width};
use super::{Piece, ROWS_PER_READ, TESTS_KEY, VERSION, VERSION_KEY, pages};
use crate::error::ArchiveError;
use crate::packed::decompress;
use crate::text::OtherLines;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jitlat_core::PacketRecord;
use jitlat_store::log::LogRow;
use parquet::column::reader::ColumnReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length, RowGroupReader};
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Maximum size of a row group or a footer, in bytes. The largest ones that jitlat writes have several hundred
/// megabytes.
const MAX_ROW_GROUP_BYTES: u64 = 1 << 30;
/// Maximum total size of the lines that are not rows, for all tests in a file, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 28;

/// Descriptions of the tests in a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileTests {
    pub tests: Vec<StoredTest>,
}

/// Description of one test in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTest {
    pub id: i64,
    /// SHA-256 of the log in hexadecimal digits; XXH3-128 (32 digits) of tests that an earlier version added.
    pub hash: String,
    /// First row group with packets of the test.
    pub row_group: u64,
    /// Number of rows that precede the test's packets in this row group.
    pub first_row: u64,
    /// Number of packets of the test.
    pub rows: u64,
    /// Name that the log had when it was added.
    pub source: String,
    /// Tags given when the log was added.
    pub tags: Vec<(String, String)>,
    pub rest: OtherLines,
}

impl FileTests {
    /// Encodes the description as compressed MessagePack in Base64, because Parquet metadata is text.
    pub fn to_text(&self) -> String {
        let bytes = rmp_serde::to_vec_named(self).unwrap_or_default();
        STANDARD.encode(zstd::bulk::compress(&bytes, 9).unwrap_or_default())
    }

    pub fn from_text(text: &str) -> Option<FileTests> {
        let bytes = decompress(&STANDARD.decode(text).ok()?, MAX_TEXT_BYTES)?;
        jitlat_core::msgpack::from_slice(&bytes).ok()
    }
}

/// A packet file, and the catalogue's facts about it.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub path: PathBuf,
    pub row_groups: Vec<Piece>,
    pub footer: Piece,
}

/// Bytes of a row group, and their position in the file.
#[derive(Clone)]
struct Loaded {
    start: u64,
    bytes: Bytes,
}

impl Length for Loaded {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Loaded {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let rest = start.checked_sub(self.start).filter(|from| *from <= self.bytes.len() as u64);
        let rest = rest.ok_or_else(|| ParquetError::EOF("beyond the row group".to_owned()))?;
        Ok(Cursor::new(self.bytes.slice(rest as usize..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let from = start.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        Ok(self.bytes.slice(range.ok_or_else(|| ParquetError::EOF("beyond the row group".to_owned()))?))
    }
}

/// Calls the Parquet library, which can panic on damaged input that its checks miss (indices into dictionaries, lengths
/// of runs). All values that the call uses are dropped with it, so a panic leaves no inconsistent state.
fn guarded<T>(file: &Path, call: impl FnOnce() -> ParquetResult<T>) -> Result<T, ArchiveError> {
    let damaged = ArchiveError::damaged(file);
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|e| damaged(e.to_string())),
        Err(_) => Err(damaged("its pages cannot be decoded".to_owned())),
    }
}

/// Reads `piece` and compares it with its checksum.
fn load(file: &mut File, path: &Path, piece: &Piece) -> Result<Bytes, ArchiveError> {
    let damaged = ArchiveError::damaged(path);
    if piece.bytes > MAX_ROW_GROUP_BYTES {
        return Err(damaged(format!("a part has an impossible size: {} bytes", piece.bytes)));
    }
    let mut bytes = Vec::new();
    let read =
        file.seek(SeekFrom::Start(piece.start)).and_then(|_| file.take(piece.bytes).read_to_end(&mut bytes));
    read.map_err(ArchiveError::io("reading", path))?;
    if bytes.len() as u64 != piece.bytes {
        return Err(damaged("the file is shorter than when it was written".to_owned()));
    }
    if XxHash3_128::oneshot(&bytes) != piece.sum {
        return Err(damaged(format!("the bytes from {} on do not match their checksum", piece.start)));
    }
    Ok(bytes.into())
}

impl StoredFile {
    fn open(&self) -> Result<File, ArchiveError> {
        File::open(&self.path).map_err(ArchiveError::io("opening", &self.path))
    }

    /// Opens a file that is not in the catalogue. Returns the file, its tests, and its size. Its contents are
    /// untrusted.
    pub fn inspect(path: &Path) -> Result<(StoredFile, FileTests, u64), ArchiveError> {
        let damaged = ArchiveError::damaged(path);
        let mut file = File::open(path).map_err(ArchiveError::io("opening", path))?;
        let len = file.metadata().map_err(ArchiveError::io("opening", path))?.len();
        let mut end = [0; 8];
        let footer = len.checked_sub(8).filter(|from| {
            file.seek(SeekFrom::Start(*from)).is_ok()
                && file.read_exact(&mut end).is_ok()
                && &end[4..] == b"PAR1"
        });
        let size = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]])) + 8;
        let start = footer
            .and_then(|_| len.checked_sub(size))
            .ok_or_else(|| damaged("its footer is missing".to_owned()))?;
        let mut read = |start: u64, bytes: u64, rows| {
            if bytes > MAX_ROW_GROUP_BYTES || start.checked_add(bytes).is_none_or(|end| end > len) {
                return Err(damaged(format!("one of its parts claims {bytes} bytes")));
            }
            let mut all = Vec::new();
            let whole =
                file.seek(SeekFrom::Start(start)).and_then(|_| (&file).take(bytes).read_to_end(&mut all));
            whole.map_err(ArchiveError::io("reading", path))?;
            Ok((Piece { start, bytes, rows, sum: XxHash3_128::oneshot(&all) }, all))
        };
        let (footer, bytes) = read(start, size, 0)?;
        let metadata = decode(path, &bytes)?;
        let tests = tests_of(path, &metadata)?;
        let mut row_groups = Vec::new();
        for group in metadata.row_groups() {
            let ranges = group.columns().iter().map(|c| guarded(path, || Ok(c.byte_range())));
            let ranges = ranges.collect::<Result<Vec<_>, ArchiveError>>()?;
            let from = ranges.iter().map(|(start, _)| *start).min().unwrap_or(0);
            let to = ranges.iter().map(|(start, len)| start.saturating_add(*len)).max().unwrap_or(0);
            let rows = u64::try_from(group.num_rows()).map_err(|e| damaged(e.to_string()))?;
            row_groups.push(read(from, to.saturating_sub(from), rows)?.0);
        }
        let stored = StoredFile { path: path.to_owned(), row_groups, footer };
        Ok((stored, tests, len))
    }

    /// Compares the whole file with its checksums.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        let mut file = self.open()?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic).map_err(ArchiveError::io("reading", &self.path))?;
        if &magic != b"PAR1" {
            return Err(ArchiveError::damaged(&self.path)(
                "it does not begin like a Parquet file".to_owned(),
            ));
        }
        load(&mut file, &self.path, &self.footer)?;
        self.row_groups.iter().try_for_each(|piece| load(&mut file, &self.path, piece).map(drop))
    }

    /// Returns the rows of a test: `rows` rows, starting at row `first_row` of `row_group`.
    pub fn rows(&self, id: i64, row_group: u64, first_row: u64, rows: u64) -> Result<TestRows, ArchiveError> {
        let mut file = self.open()?;
        let footer = load(&mut file, &self.path, &self.footer)?;
        let metadata = decode(&self.path, &footer)?;
        Ok(TestRows {
            id,
            stored: self.clone(),
            file,
            metadata: Arc::new(metadata),
            group: usize::try_from(row_group).unwrap_or(usize::MAX),
            skip: first_row,
            left: rows,
            open: None,
            batch: Vec::new(),
            at: 0,
        })
    }
}

fn decode(path: &Path, footer: &[u8]) -> Result<ParquetMetaData, ArchiveError> {
    let metadata = footer.len().checked_sub(8).map(|end| &footer[..end]).unwrap_or_default();
    let metadata = guarded(path, || ParquetMetaDataReader::decode_metadata(metadata))?;
    let damaged = ArchiveError::damaged(path);
    let columns = metadata.file_metadata().schema_descr().columns();
    let theirs = columns
        .iter()
        .map(|c| (c.name().to_owned(), c.physical_type(), c.max_def_level(), c.max_rep_level()));
    let mine = std::iter::once(("test_id", Width::Wide, true))
        .chain(COLUMNS.iter().map(|c| (c.name, c.width, c.required)));
    let mine = mine.map(|(name, width, required)| {
        let physical = match width {
            Width::Wide => parquet::basic::Type::INT64,
            Width::Narrow | Width::Short => parquet::basic::Type::INT32,
        };
        (name.to_owned(), physical, i16::from(!required), 0)
    });
    // Files of older versions lack the last columns.
    let (theirs, mut mine): (Vec<_>, Vec<_>) = (theirs.collect(), mine.collect());
    mine.truncate(theirs.len().max(1 + MIN_COLUMNS));
    if theirs != mine {
        return Err(damaged("the columns are not those of a packet file".to_owned()));
    }
    Ok(metadata)
}

fn tests_of(path: &Path, metadata: &ParquetMetaData) -> Result<FileTests, ArchiveError> {
    let damaged = ArchiveError::damaged(path);
    let pairs = metadata.file_metadata().key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    let version =
        value(VERSION_KEY).ok_or_else(|| damaged("it is not a packet file of an archive".to_owned()))?;
    if version != VERSION.to_string() {
        return Err(damaged(format!(
            "its format has version {version}; this program reads version {VERSION}"
        )));
    }
    let tests = value(TESTS_KEY).and_then(|text| FileTests::from_text(&text));
    tests.ok_or_else(|| damaged("the description of its tests cannot be read".to_owned()))
}

/// Rows of a test, in the order of the log.
pub(crate) struct TestRows {
    id: i64,
    stored: StoredFile,
    file: File,
    metadata: Arc<ParquetMetaData>,
    /// Index of the next row group to open.
    group: usize,
    /// Number of rows to skip in the next row group.
    skip: u64,
    left: u64,
    open: Option<OpenGroup>,
    batch: Vec<LogRow>,
    at: usize,
}

/// Columns of the open row group.
struct OpenGroup {
    number: usize,
    /// Index of the next row.
    position: u64,
    /// Number of rows of the test that are not read yet.
    rows: u64,
    ids: ColumnReader,
    /// Readers of the columns; `None` for a column without any value in this row group.
    columns: Vec<Option<ColumnReader>>,
    values: Values,
}

#[derive(Default)]
struct Values {
    wide: Vec<i64>,
    narrow: Vec<i32>,
    present: Vec<i16>,
}

impl Values {
    /// Reads up to `n` rows. Returns the number of rows read.
    fn read(&mut self, column: &mut ColumnReader, required: bool, n: usize) -> ParquetResult<usize> {
        self.wide.clear();
        self.narrow.clear();
        self.present.clear();
        let present = (!required).then_some(&mut self.present);
        let (rows, _, _) = match column {
            ColumnReader::Int64ColumnReader(c) => c.read_records(n, present, None, &mut self.wide)?,
            ColumnReader::Int32ColumnReader(c) => {
                let read = c.read_records(n, present, None, &mut self.narrow)?;
                self.wide.extend(self.narrow.iter().map(|x| i64::from(*x)));
                read
            }
            _ => return Err(ParquetError::General("a column has an unexpected type".to_owned())),
        };
        Ok(rows)
    }
}

fn skip(column: &mut ColumnReader, rows: usize) -> ParquetResult<usize> {
    match column {
        ColumnReader::Int64ColumnReader(c) => c.skip_records(rows),
        ColumnReader::Int32ColumnReader(c) => c.skip_records(rows),
        _ => Err(ParquetError::General("a column has an unexpected type".to_owned())),
    }
}

impl TestRows {
    fn damaged(&self, problem: &str) -> ArchiveError {
        ArchiveError::Damaged { file: self.stored.path.clone(), problem: problem.to_owned() }
    }

    fn open_group(&mut self) -> Result<(), ArchiveError> {
        let number = self.group;
        let piece = self.stored.row_groups.get(number).copied();
        let metadata = self.metadata.clone();
        let known = piece.filter(|_| number < metadata.num_row_groups());
        let piece = known.ok_or_else(|| self.damaged("it has fewer row groups than the catalogue states"))?;
        let bytes = load(&mut self.file, &self.stored.path, &piece)?;
        let group = metadata.row_group(number);
        let before = usize::try_from(self.skip)
            .map_err(|_| self.damaged("a test begins beyond the end of the file"))?;
        let opened = guarded(&self.stored.path, || {
            let loaded = Arc::new(Loaded { start: piece.start, bytes });
            let properties = Arc::new(ReaderProperties::builder().build());
            let reader = SerializedRowGroupReader::new(
                Arc::clone(&loaded),
                group,
                metadata.page_index_for_row_group(number),
                properties,
            )?;
            let open = |k: usize| {
                let (start, length) = group.column(k).byte_range();
                let column = usize::try_from(length).map_err(|e| ParquetError::General(e.to_string()))?;
                pages::check(&loaded.get_bytes(start, column)?).map_err(ParquetError::General)?;
                let mut column = reader.get_column_reader(k)?;
                let skipped = if before > 0 { skip(&mut column, before)? } else { 0 };
                if skipped != before {
                    return Err(ParquetError::EOF("it has fewer rows than the catalogue states".to_owned()));
                }
                Ok(column)
            };
            let empty = |k: usize| {
                if k >= group.num_columns() {
                    return true;
                }
                let chunk = group.column(k);
                let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
                nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(chunk.num_values()))
            };
            let columns = (0..COLUMNS.len()).map(|k| (!empty(k + 1)).then(|| open(k + 1)).transpose());
            let columns = columns.collect::<ParquetResult<Vec<_>>>()?;
            let ids = open(0)?;
            Ok(OpenGroup {
                number,
                position: before as u64,
                rows: 0,
                ids,
                columns,
                values: Values::default(),
            })
        })?;
        let rows = piece.rows.saturating_sub(self.skip).min(self.left);
        if rows == 0 {
            return Err(self.damaged("a row group has no packets of the test"));
        }
        self.open = Some(OpenGroup { rows, ..opened });
        (self.group, self.skip) = (number + 1, 0);
        Ok(())
    }

    /// Reads the next rows. Returns `false` after the last row.
    fn fill(&mut self) -> Result<bool, ArchiveError> {
        if self.left == 0 {
            return Ok(false);
        }
        if self.open.as_ref().is_none_or(|open| open.rows == 0) {
            self.open_group()?;
        }
        let Some(open) = &mut self.open else { return Ok(false) };
        let n = open.rows.min(ROWS_PER_READ as u64) as usize;
        let (id, batch) = (self.id, &mut self.batch);
        let short = || ParquetError::EOF("it has fewer rows than the catalogue states".to_owned());
        let impossible = |name: &str| ParquetError::General(format!("impossible value of {name}"));
        batch.clear();
        batch.resize(n, LogRow { index: 0, record: PacketRecord::new(0), tcp: None });
        self.at = 0;
        guarded(&self.stored.path, || {
            if open.values.read(&mut open.ids, true, n)? != n {
                return Err(short());
            }
            if open.values.wide.iter().any(|x| *x != id) {
                return Err(ParquetError::General(
                    "the packets of another test are stored where the catalogue expects this test".to_owned(),
                ));
            }
            for (column, reader) in COLUMNS.iter().zip(&mut open.columns) {
                let Some(reader) = reader else { continue };
                if open.values.read(reader, column.required, n)? != n {
                    return Err(short());
                }
                let values = &open.values;
                if values.wide.len() == n {
                    for (row, value) in batch.iter_mut().zip(&values.wide) {
                        (column.put)(row, *value).ok_or_else(|| impossible(column.name))?;
                    }
                    continue;
                }
                let there = batch.iter_mut().zip(&values.present).filter(|(_, level)| **level == 1);
                for ((row, _), value) in there.zip(&values.wide) {
                    (column.put)(row, *value).ok_or_else(|| impossible(column.name))?;
                }
            }
            Ok(())
        })
        .inspect_err(|_| batch.clear())?;
        open.rows -= n as u64;
        open.position += n as u64;
        self.left -= n as u64;
        Ok(true)
    }

    /// Continues with another test of the file. If it follows in the open row group, nothing is read again.
    pub fn go_to(
        mut self,
        id: i64,
        row_group: u64,
        first_row: u64,
        rows: u64,
    ) -> Result<TestRows, ArchiveError> {
        self.batch.clear();
        (self.id, self.at, self.left) = (id, 0, rows);
        let number = usize::try_from(row_group).unwrap_or(usize::MAX);
        (self.group, self.skip) = (number, first_row);
        let Some(mut open) = self.open.take().filter(|o| o.number == number && o.position <= first_row)
        else {
            return Ok(self);
        };
        let piece = self.stored.row_groups.get(number).map_or(0, |piece| piece.rows);
        let before = (first_row - open.position) as usize;
        open.rows = piece.saturating_sub(first_row).min(rows);
        if open.rows == 0 {
            return Err(self.damaged("a row group has no packets of the test"));
        }
        if before > 0 {
            guarded(&self.stored.path, || {
                for column in std::iter::once(&mut open.ids).chain(open.columns.iter_mut().flatten()) {
                    if skip(column, before)? != before {
                        return Err(ParquetError::EOF(
                            "it has fewer rows than the catalogue states".to_owned(),
                        ));
                    }
                }
                Ok(())
            })?;
        }
        open.position = first_row;
        (self.group, self.skip, self.open) = (number + 1, 0, Some(open));
        Ok(self)
    }

    /// Returns the number of rows that have not been read from the file.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns the next row; `None` after the last one.
    #[inline]
    pub fn next(&mut self) -> Result<Option<&LogRow>, ArchiveError> {
        if self.at == self.batch.len() && !self.fill()? {
            return Ok(None);
        }
        self.at += 1;
        Ok(self.batch.get(self.at - 1))
    }

    /// Returns the next rows, several thousand at a time; empty after the last row.
    pub fn next_batch(&mut self) -> Result<&[LogRow], ArchiveError> {
        if self.at == self.batch.len() && !self.fill()? {
            return Ok(&[]);
        }
        let from = std::mem::replace(&mut self.at, self.batch.len());
        Ok(&self.batch[from..])
    }
}
