//! Rows of a test as Arrow columns, and back. The columns are those of docs/formats/parquet.md.

use crate::errors::invalid;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use jitlat_archive::{COLUMNS, Column, Header, Width};
use jitlat_core::PacketRecord;
use jitlat_store::log::Row;
use pyo3::PyResult;
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
pub fn schema(header: &Header) -> SchemaRef {
    let id = Field::new(TEST_ID, DataType::Int64, false);
    let of = |c: &Column| Field::new(c.name, kind(c.width), !c.required);
    let fields: Vec<Field> = std::iter::once(id).chain(COLUMNS.iter().map(of)).collect();
    let metadata = header.metadata().map(|(key, value)| (key.to_owned(), value));
    Arc::new(Schema::new(fields).with_metadata(metadata.into()))
}

/// Rows as columns.
pub fn batch(schema: &SchemaRef, id: i64, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let column = |c: &Column| -> ArrayRef {
        let values = rows.iter().map(|row| (c.take)(row));
        // What a row has fits its column.
        match c.width {
            Width::Narrow => Arc::new(Int32Array::from_iter(values.map(|x| x.map(|x| x as i32)))),
            Width::Short => Arc::new(Int16Array::from_iter(values.map(|x| x.map(|x| x as i16)))),
            _ => Arc::new(Int64Array::from_iter(values)),
        }
    };
    let id: ArrayRef = Arc::new(Int64Array::from_value(id, rows.len()));
    RecordBatch::try_new(schema.clone(), std::iter::once(id).chain(COLUMNS.iter().map(column)).collect())
}

/// The values of a column, from whichever integers it has.
fn values<'a>(array: &'a dyn Array, name: &str) -> PyResult<Box<dyn Fn(usize) -> i64 + 'a>> {
    Ok(match array.data_type() {
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values();
            Box::new(|k| values[k])
        }
        DataType::Int32 => {
            let values = array.as_primitive::<Int32Type>().values();
            Box::new(|k| values[k].into())
        }
        DataType::Int16 => {
            let values = array.as_primitive::<Int16Type>().values();
            Box::new(|k| values[k].into())
        }
        other => {
            let text =
                format!("the column {name} has values of type {other}: give integers of 64, 32 or 16 bits");
            return Err(invalid(text));
        }
    })
}

/// The rows `from..to` of columns.
pub fn rows(batch: &RecordBatch, id: i64, from: usize, to: usize) -> PyResult<Vec<Row>> {
    let empty = Row { index: 0, record: PacketRecord::new(0), tcp: None };
    let mut rows = vec![empty; to - from];
    if let Some(ids) = batch.column_by_name(TEST_ID) {
        let ids = values(ids, TEST_ID)?;
        if (from..to).any(|k| ids(k) != id) {
            return Err(invalid("packets of another test"));
        }
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
        let value = values(array, column.name)?;
        let nulls = array.nulls();
        for (row, k) in rows.iter_mut().zip(from..) {
            if nulls.is_some_and(|nulls| nulls.is_null(k)) {
                continue;
            }
            let x = value(k);
            (column.put)(row, x).ok_or_else(|| invalid(format!("no packet has a {} of {x}", column.name)))?;
        }
    }
    Ok(rows)
}
