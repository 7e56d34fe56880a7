//! Tables of other libraries: the Arrow C stream behind `__arrow_c_stream__` (PyCapsule interface), read and written without copies.
//!
//! This file has the crate's only unsafe code: a capsule holds a bare pointer. Crates for this purpose bring
//! conversions between all types, which would be half of a wheel.

#![allow(unsafe_code)]

use crate::errors::failed;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use core::ffi::CStr;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Record batches from any object with `__arrow_c_stream__`: a table, a data frame, a reader.
pub struct Reader(pub Box<dyn RecordBatchReader + Send>);

impl<'py> FromPyObject<'_, 'py> for Reader {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Reader> {
        if !object.hasattr("__arrow_c_stream__")? {
            let kind = object.get_type();
            let text = format!("{} is not an Arrow table: it has no __arrow_c_stream__", kind.name()?);
            return Err(PyTypeError::new_err(text));
        }
        let stream = object.call_method0("__arrow_c_stream__")?;
        let capsule = stream.cast::<PyCapsule>()?;
        // A capsule with another name contains something else.
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: by the PyCapsule interface a capsule of this name holds a stream, which is moved out at the first
        // use. A second use finds a released stream and is refused.
        let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
        let reader = reader.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Reader(Box::new(reader)))
    }
}

/// Makes a capsule with a schema for other libraries.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref()).map_err(failed)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Makes a capsule with record batches for other libraries; batches are made while they are read.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
    schema: SchemaRef,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = RecordBatchIterator::new(batches, schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
}
