//! Converts rows of a test to Arrow columns, and back. The columns are described in docs/formats/parquet.md.

use crate::errors::invalid;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int16Array, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use jitlat_archive::{COLUMNS, PacketColumn, TestHeader, Width};
use jitlat_core::PacketRecord;
use jitlat_store::log::LogRow;
use pyo3::{PyErr, PyResult};
use std::sync::Arc;

const TEST_ID: &str = "test_id";

fn kind(width: Width) -> DataType {
    match width {
        Width::Narrow => DataType::Int32,
        Width::Short => DataType::Int16,
        _ => DataType::Int64,
    }
}

/// The schema of a table with the packets of one test.
pub fn schema(header: &TestHeader) -> SchemaRef {
    let id = Field::new(TEST_ID, DataType::Int64, false);
    let of = |c: &PacketColumn| Field::new(c.name, kind(c.width), !c.required);
    let fields: Vec<Field> = std::iter::once(id).chain(COLUMNS.iter().map(of)).collect();
    let metadata = header.metadata().map(|(key, value)| (key.to_owned(), value));
    Arc::new(Schema::new(fields).with_metadata(metadata.into()))
}

/// Converts rows to columns.
pub fn batch(schema: &SchemaRef, id: i64, rows: &[LogRow]) -> Result<RecordBatch, ArrowError> {
    let column = |c: &PacketColumn| -> ArrayRef {
        let values = rows.iter().map(|row| (c.take)(row));
        // Every value of a row fits its column.
        match c.width {
            Width::Narrow => Arc::new(Int32Array::from_iter(values.map(|x| x.map(|x| x as i32)))),
            Width::Short => Arc::new(Int16Array::from_iter(values.map(|x| x.map(|x| x as i16)))),
            _ => Arc::new(Int64Array::from_iter(values)),
        }
    };
    let id: ArrayRef = Arc::new(Int64Array::from_value(id, rows.len()));
    RecordBatch::try_new(schema.clone(), std::iter::once(id).chain(COLUMNS.iter().map(column)).collect())
}

/// Calls `each` with every value of a column of any integer type: its offset from `from`, and the value.
fn values(
    array: &dyn Array,
    name: &str,
    from: usize,
    to: usize,
    each: impl FnMut((usize, i64)) -> PyResult<()>,
) -> PyResult<()> {
    fn of<T: ArrowPrimitiveType<Native: Into<i64>>>(
        array: &dyn Array,
        (from, to): (usize, usize),
        each: impl FnMut((usize, i64)) -> PyResult<()>,
    ) -> PyResult<()> {
        let values = array.as_primitive::<T>().values()[from..to].iter().map(|x| (*x).into()).enumerate();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => { values }.try_for_each(each),
            Some(nulls) => values.filter(|(k, _)| nulls.is_valid(from + k)).try_for_each(each),
        }
    }
    match array.data_type() {
        DataType::Int64 => of::<Int64Type>(array, (from, to), each),
        DataType::Int32 => of::<Int32Type>(array, (from, to), each),
        DataType::Int16 => of::<Int16Type>(array, (from, to), each),
        other => {
            let text =
                format!("the column {name} has values of type {other}: give integers of 64, 32 or 16 bits");
            Err(invalid(text))
        }
    }
}

fn another(expected: i64, found: i64) -> PyErr {
    invalid(format!(
        "packets of test {found:016x} where those of {expected:016x} are expected: the tests of a table follow each other as in its \
         metadata; select one of them, or sort the rows by the positions in the file"
    ))
}

/// Converts the rows `from..to` of columns back.
pub fn rows(batch: &RecordBatch, id: i64, from: usize, to: usize) -> PyResult<Vec<LogRow>> {
    let empty = LogRow { index: 0, record: PacketRecord::new(0), tcp: None };
    let mut rows = vec![empty; to - from];
    if let Some(ids) = batch.column_by_name(TEST_ID) {
        let mine = |(_, x)| if x == id { Ok(()) } else { Err(another(id, x)) };
        values(ids, TEST_ID, from, to, mine)?;
    }
    for column in &COLUMNS {
        let Some(array) = batch.column_by_name(column.name) else {
            if column.required {
                return Err(invalid(format!("the table has no column {}", column.name)));
            }
            continue;
        };
        if array.null_count() == array.len() && !column.required {
            continue;
        }
        values(array, column.name, from, to, |(k, x)| {
            (column.put)(&mut rows[k], x)
                .ok_or_else(|| invalid(format!("no packet has a {} of {x}", column.name)))
        })?;
    }
    Ok(rows)
}
