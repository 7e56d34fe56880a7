//! [`PacketFileWriter`]: writes a packet file and publishes it when it is complete.

use super::columns::{COLUMNS, ColumnBlock, Width};
use super::{FileTests, TESTS_KEY, VERSION, VERSION_KEY};
use crate::error::ArchiveError;
use crate::modes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// A part of a packet file, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub start: u64,
    pub bytes: u64,
    /// Number of rows of the row group; 0 for a footer.
    pub rows: u64,
    /// Checksum, XXH3-128.
    pub sum: u128,
}

/// A file under its final name.
#[derive(Clone, Debug)]
pub(crate) struct PublishedFile {
    /// Name, relative to the archive.
    pub name: String,
    pub bytes: u64,
    pub row_groups: Vec<Piece>,
    pub footer: Piece,
}

/// A packet file that is being written. It is removed if this value is dropped before [`PacketFileWriter::publish`].
pub(crate) struct PacketFileWriter {
    path: PathBuf,
    parquet: Option<SerializedFileWriter<ChecksumWriter>>,
    row_groups: Vec<Piece>,
}

/// Output that computes the checksum of the bytes written since the checksum was last taken.
struct ChecksumWriter {
    file: BufWriter<File>,
    sum: XxHash3_128,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.sum.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl ChecksumWriter {
    fn take(&mut self) -> u128 {
        let sum = self.sum.finish_128();
        self.sum = XxHash3_128::new();
        sum
    }
}

/// Returns the schema of a packet file.
fn schema() -> Result<TypePtr, ParquetError> {
    let field = |name, width, required| {
        let (physical, logical) = match width {
            Width::Wide => (Physical::INT64, None),
            Width::Narrow => (Physical::INT32, None),
            Width::Short => (Physical::INT32, Some(LogicalType::integer(16, true))),
        };
        let repetition = if required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let built = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        built.with_logical_type(logical).build().map(Arc::new)
    };
    let mut fields = vec![field("test_id", Width::Wide, true)?];
    for column in &COLUMNS {
        fields.push(field(column.name, column.width, column.required)?);
    }
    Ok(Arc::new(Type::group_type_builder("packets").with_fields(fields).build()?))
}

fn properties() -> WriterPropertiesPtr {
    let mut built = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        // Sequence numbers and times grow nearly evenly, so their differences need few bits.
        .set_encoding(Encoding::DELTA_BINARY_PACKED);
    for column in COLUMNS.iter().filter(|c| c.few) {
        let path = ColumnPath::from(column.name);
        built = built.set_column_dictionary_enabled(path.clone(), true);
        built = built.set_column_encoding(path, Encoding::PLAIN);
    }
    Arc::new(built.build())
}

impl PacketFileWriter {
    /// Creates a file at `path`. No other writer may use this path.
    pub fn create(path: &Path) -> Result<PacketFileWriter, ArchiveError> {
        let file = modes::new_file().truncate(true).open(path).map_err(ArchiveError::io("creating", path))?;
        let out = ChecksumWriter { file: BufWriter::with_capacity(1 << 18, file), sum: XxHash3_128::new() };
        let made = schema().and_then(|schema| SerializedFileWriter::new(out, schema, properties()));
        let mut writer = PacketFileWriter { path: path.to_owned(), parquet: None, row_groups: Vec::new() };
        writer.parquet = Some(made.map_err(|e| failed(path, e))?);
        Ok(writer)
    }

    fn parquet(&mut self) -> Result<&mut SerializedFileWriter<ChecksumWriter>, ArchiveError> {
        let gone = || ArchiveError::Impossible("the file is already published".to_owned());
        self.parquet.as_mut().ok_or_else(gone)
    }

    /// Writes `blocks`, one after another, as one row group.
    pub fn write(&mut self, blocks: &[&ColumnBlock]) -> Result<(), ArchiveError> {
        let rows: usize = blocks.iter().map(|block| block.len()).sum();
        if rows == 0 {
            return Ok(());
        }
        let path = self.path.clone();
        let parquet = self.parquet()?;
        // The first four bytes of every file (the magic number) are not part of the row group.
        let write = |e| ArchiveError::io("writing", &path)(e);
        parquet.flush().map_err(write)?;
        parquet.inner_mut().take();
        let start = parquet.bytes_written() as u64;
        write_group(parquet, blocks).map_err(|e| failed(&path, e))?;
        parquet.flush().map_err(write)?;
        let bytes = parquet.bytes_written() as u64 - start;
        let sum = parquet.inner_mut().take();
        self.row_groups.push(Piece { start, bytes, rows: rows as u64, sum });
        Ok(())
    }

    /// Writes the lines that are not rows to the end of the file, syncs it, and renames it to `name` in `archive`.
    pub fn publish(
        mut self,
        archive: &Path,
        name: &str,
        tests: &FileTests,
    ) -> Result<PublishedFile, ArchiveError> {
        let path = self.path.clone();
        let text = tests.to_text();
        let mut parquet =
            self.parquet.take().ok_or_else(|| ArchiveError::Impossible("written twice".to_owned()))?;
        parquet.flush().map_err(ArchiveError::io("writing", &path))?;
        parquet.inner_mut().take();
        let start = parquet.bytes_written() as u64;
        parquet.append_key_value_metadata(KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string()));
        parquet.append_key_value_metadata(KeyValue::new(TESTS_KEY.to_owned(), text));
        parquet.finish().map_err(|e| failed(&path, e))?;
        let bytes = parquet.bytes_written() as u64;
        parquet.flush().map_err(ArchiveError::io("writing", &path))?;
        let inner = parquet.inner_mut();
        let sum = inner.take();
        // Synced before the file is renamed: after a power failure, the name must not refer to an incomplete file.
        inner.file.get_ref().sync_all().map_err(ArchiveError::io("writing", &path))?;
        let target = archive.join(name);
        let folder = target.parent().unwrap_or(archive);
        modes::make_folder(folder).map_err(ArchiveError::io("creating", folder))?;
        fs::rename(&path, &target).map_err(ArchiveError::io("naming", &target))?;
        for folder in [folder, folder.parent().unwrap_or(archive)] {
            sync_folder(folder).map_err(ArchiveError::io("writing", folder))?;
        }
        let footer = Piece { start, bytes: bytes - start, rows: 0, sum };
        let row_groups = std::mem::take(&mut self.row_groups);
        // The file now has its final name, so there is nothing to remove.
        self.path = PathBuf::new();
        Ok(PublishedFile { name: name.to_owned(), bytes, row_groups, footer })
    }
}

impl Drop for PacketFileWriter {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // The catalogue does not list the file. If removing it fails, fsck removes it later.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Syncs the directory entries of a folder to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(path: &Path, error: ParquetError) -> ArchiveError {
    let source = match error {
        ParquetError::External(e) => match e.downcast::<io::Error>() {
            Ok(e) => *e,
            Err(e) => io::Error::other(e.to_string()),
        },
        e => io::Error::other(e.to_string()),
    };
    ArchiveError::Io { doing: "writing", path: path.to_owned(), source }
}

fn write_group(
    parquet: &mut SerializedFileWriter<ChecksumWriter>,
    blocks: &[&ColumnBlock],
) -> Result<(), ParquetError> {
    let mut group = parquet.next_row_group()?;
    let (mut number, mut narrow) = (0, Vec::new());
    while let Some(mut chunk) = group.next_column()? {
        for block in blocks.iter().filter(|block| block.len() > 0) {
            match (number, chunk.untyped()) {
                (0, ColumnWriter::Int64ColumnWriter(out)) => {
                    for &(test, rows) in &block.tests {
                        out.write_batch(&vec![test; rows], None, None)?;
                    }
                }
                (k, ColumnWriter::Int64ColumnWriter(out)) => {
                    out.write_batch(&block.values[k - 1], levels(block, k - 1), None)?;
                }
                (k, ColumnWriter::Int32ColumnWriter(out)) => {
                    narrow.clear();
                    narrow.extend(block.values[k - 1].iter().map(|x| *x as i32));
                    out.write_batch(&narrow, levels(block, k - 1), None)?;
                }
                _ => return Err(ParquetError::General("a column has an unexpected type".to_owned())),
            }
        }
        chunk.close()?;
        number += 1;
    }
    group.close()?;
    Ok(())
}

fn levels(block: &ColumnBlock, column: usize) -> Option<&[i16]> {
    (!COLUMNS[column].required).then_some(&block.present[column])
}
