//! Columns of summaries and roll-ups, written to Parquet. Only types that every reader maps: see docs/formats/lake.md.

use crate::error::ArchiveError;
use crate::modes;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Values of a column. A column without missing values is required.
pub(super) enum Values {
    Text(Vec<String>),
    OptionalText(Vec<Option<String>>),
    Integers(Vec<i64>),
    OptionalIntegers(Vec<Option<i64>>),
    /// Times in microseconds since 1970, UTC.
    Times(Vec<i64>),
    Numbers(Vec<Option<f64>>),
    Bytes(Vec<Vec<u8>>),
}

/// A column, with its name.
pub(super) struct TableColumn {
    pub name: String,
    pub values: Values,
}

impl TableColumn {
    pub fn new(name: &str, values: Values) -> TableColumn {
        TableColumn { name: name.to_owned(), values }
    }

    /// True if many rows have the same value.
    fn is_repetitive(&self) -> bool {
        matches!(self.values, Values::Text(_) | Values::OptionalText(_))
    }

    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical, required) = match &self.values {
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), true),
            Values::OptionalText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), false),
            Values::Integers(_) => (Physical::INT64, None, true),
            Values::OptionalIntegers(_) => (Physical::INT64, None, false),
            Values::Times(_) => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)), true),
            Values::Numbers(_) => (Physical::DOUBLE, None, false),
            Values::Bytes(_) => (Physical::BYTE_ARRAY, None, true),
        };
        let repetition = if required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let built = Type::primitive_type_builder(&self.name, physical).with_repetition(repetition);
        built.with_logical_type(logical).build().map(Arc::new)
    }

    fn write(&self, out: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let text = |s: &String| ByteArray::from(s.as_str());
        match (&self.values, out) {
            (Values::Text(all), ColumnWriter::ByteArrayColumnWriter(out)) => {
                out.write_batch(&all.iter().map(text).collect::<Vec<_>>(), None, None)?;
            }
            (Values::OptionalText(all), ColumnWriter::ByteArrayColumnWriter(out)) => {
                let values: Vec<ByteArray> = all.iter().flatten().map(text).collect();
                out.write_batch(&values, Some(&levels(all)), None)?;
            }
            (Values::Bytes(all), ColumnWriter::ByteArrayColumnWriter(out)) => {
                let values: Vec<ByteArray> = all.iter().map(|b| ByteArray::from(b.clone())).collect();
                out.write_batch(&values, None, None)?;
            }
            (Values::Integers(all) | Values::Times(all), ColumnWriter::Int64ColumnWriter(out)) => {
                out.write_batch(all, None, None)?;
            }
            (Values::OptionalIntegers(all), ColumnWriter::Int64ColumnWriter(out)) => {
                out.write_batch(
                    &all.iter().flatten().copied().collect::<Vec<_>>(),
                    Some(&levels(all)),
                    None,
                )?;
            }
            (Values::Numbers(all), ColumnWriter::DoubleColumnWriter(out)) => {
                out.write_batch(
                    &all.iter().flatten().copied().collect::<Vec<_>>(),
                    Some(&levels(all)),
                    None,
                )?;
            }
            _ => return Err(ParquetError::General("a column has an unexpected type".to_owned())),
        }
        Ok(())
    }
}

fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|x| x.is_some().into()).collect()
}

/// Writes a file with one row group at `path`. `version` is in its metadata under `jitlat.lake`.
pub(super) fn write(path: &Path, columns: &[TableColumn], version: u32) -> Result<(), ArchiveError> {
    let file = modes::new_file().truncate(true).open(path).map_err(ArchiveError::io("creating", path))?;
    let run = || {
        let fields = columns.iter().map(TableColumn::field).collect::<Result<_, _>>()?;
        let schema = Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?);
        // A row has hundreds of figures, and a file may have one row: indexes and dictionaries would be longer than the values.
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(concat!("jitlat ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default()))
            .set_key_value_metadata(Some(vec![KeyValue::new("jitlat.lake".to_owned(), version.to_string())]));
        let plain = columns.iter().filter(|column| !column.is_repetitive());
        let properties = plain
            .fold(properties, |properties, column| {
                properties.set_column_dictionary_enabled(ColumnPath::from(column.name.as_str()), false)
            })
            .build();
        let mut parquet = SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(properties))?;
        let mut group = parquet.next_row_group()?;
        let mut columns = columns.iter();
        while let Some(mut chunk) = group.next_column()? {
            columns.next().map_or(Ok(()), |column| column.write(chunk.untyped()))?;
            chunk.close()?;
        }
        group.close()?;
        parquet.close().map(drop)
    };
    run().map_err(|e: ParquetError| ArchiveError::io("writing", path)(std::io::Error::other(e.to_string())))
}
