//! The function of the Python module that encodes rows for PostgreSQL.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::python::{guarded, without_lock};
use crate::python_rows::Imported;
use crate::row_values::Rows;

/// Rows in the binary COPY format; `numeric` says which columns are numbers of 256 bits.
#[pyfunction]
fn copy_rows(py: Python<'_>, rows: Imported, numeric: Vec<bool>) -> PyResult<Bound<'_, PyBytes>> {
    guarded(|| {
        let rows = Rows::try_from(rows.0).map_err(PyValueError::new_err)?;
        let found = without_lock(py, || crate::copying::encode(&rows, &numeric))?;
        Ok(PyBytes::new(py, &found))
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(copy_rows, module)?)
}
