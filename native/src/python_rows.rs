//! Exchange stored rows with Python, by Arrow's C data interface.

use std::collections::HashMap;

use arrow_array::{RecordBatch, StructArray, ffi};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::python::{Batch, NetworkFacts, guarded, network, without_lock};
use crate::rows::{self, Examined, Expected, Stored};
use crate::verdict::CheckSet;

/// A table as Python exported it.
pub struct Imported(pub RecordBatch);

impl FromPyObject<'_, '_> for Imported {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        guarded(|| {
            let exported = object.call_method0("__arrow_c_array__")?;
            let (schema, array): (Bound<PyCapsule>, Bound<PyCapsule>) = exported.extract()?;
            let schema = schema
                .pointer_checked(Some(c"arrow_schema"))?
                .cast::<FFI_ArrowSchema>();
            let array = array
                .pointer_checked(Some(c"arrow_array"))?
                .cast::<FFI_ArrowArray>();
            // SAFETY: by the interface, capsules of these names hold these structs, which are alive as
            // long as the capsules, and whoever imports an array moves it out.
            let rows = unsafe {
                let array = FFI_ArrowArray::from_raw(array.as_ptr());
                ffi::from_ffi(array, schema.as_ref())
            };
            let rows = rows.map_err(|error| PyValueError::new_err(error.to_string()))?;
            if !matches!(rows.data_type(), arrow_schema::DataType::Struct(_))
                || rows.null_count() > 0
            {
                return Err(PyValueError::new_err("rows must be a batch of columns"));
            }
            Ok(Self(StructArray::from(rows).into()))
        })
    }
}

type Proven<'py> = (u32, u32, bool, Bound<'py, PyDict>);

/// Prove the stored rows of some blocks; `None` if they must be examined without the core.
#[pyfunction]
pub fn examine<'py>(
    py: Python<'py>,
    mut tables: HashMap<String, Imported>,
    facts: NetworkFacts,
    asked: u32,
    supported: Vec<(u64, u32)>,
    chain_id: u64,
) -> PyResult<Option<Proven<'py>>> {
    guarded(|| {
        let mut take = |name| tables.remove(name).map(|it| it.0);
        let blocks = take("blocks").ok_or_else(|| PyKeyError::new_err("blocks"))?;
        let stored = Stored {
            blocks,
            transactions: take("transactions"),
            logs: take("logs"),
            withdrawals: take("withdrawals"),
        };
        let eras = supported
            .into_iter()
            .map(|(start, checks)| (start, CheckSet(checks)));
        let expected = Expected {
            network: network(&facts)?,
            chain_id,
            asked: CheckSet(asked),
            supported: eras.collect(),
        };
        let found = without_lock(py, || rows::examine(&stored, &expected))?;
        found.map(|it| proven(py, it)).transpose()
    })
}

fn proven<'py>(py: Python<'py>, it: Examined) -> PyResult<Proven<'py>> {
    let tables = PyDict::new(py);
    for (name, rows) in it.tables {
        tables.set_item(name, Batch(rows))?;
    }
    Ok((
        it.proof.proven.0,
        it.proof.unproven.0,
        it.with_receipts,
        tables,
    ))
}
