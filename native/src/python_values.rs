//! The functions of the Python module that take rows: their digest, and their values for SQLite.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyNone, PyString, PyTuple};

use crate::python::{guarded, without_lock};
use crate::python_rows::Imported;
use crate::row_values::{Column, Rows, text};

/// The digest of rows of one chain, sorted by key: a number mod 2^256, little-endian.
#[pyfunction]
fn digest<'py>(
    py: Python<'py>,
    table: &str,
    columns: Vec<(String, bool)>,
    rows: Imported,
) -> PyResult<Bound<'py, PyBytes>> {
    guarded(|| {
        let rows = values(rows)?;
        let found = without_lock(py, || crate::digest::digest(table, &columns, &rows))?;
        let lacks = |name| PyValueError::new_err(format!("the rows lack the column `{name}`"));
        Ok(PyBytes::new(py, &found.map_err(lacks)?))
    })
}

/// The values of rows for SQLite, as tuples of `at_once` rows each; the last may have fewer.
#[pyfunction]
fn sqlite_rows<'py>(
    py: Python<'py>,
    rows: Imported,
    at_once: usize,
) -> PyResult<Bound<'py, PyList>> {
    guarded(|| {
        let rows = values(rows)?;
        let found = PyList::empty(py);
        for start in (0..rows.len).step_by(at_once.max(1)) {
            let end = rows.len.min(start.saturating_add(at_once.max(1)));
            let mut values = Vec::with_capacity((end - start) * rows.columns().count());
            for row in start..end {
                for column in rows.columns() {
                    values.push(value(py, column, row)?);
                }
            }
            found.append(PyTuple::new(py, values)?)?;
        }
        Ok(found)
    })
}

fn values(rows: Imported) -> PyResult<Rows> {
    Rows::try_from(rows.0).map_err(PyValueError::new_err)
}

fn value<'py>(py: Python<'py>, column: &Column, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(PyNone::get(py).to_owned().into_any());
    }
    Ok(match column {
        // SQLite has no unsigned numbers: those of 2^63 and above keep their eight bytes.
        Column::Int(array) => number(py, array.value(row).cast_signed()),
        Column::Bool(array) => number(py, i64::from(array.value(row))),
        Column::Float(array) => pyo3::types::PyFloat::new(py, array.value(row)).into_any(),
        Column::Fixed(array) => PyBytes::new(py, array.value(row)).into_any(),
        Column::Bytes(array) => PyBytes::new(py, array.value(row)).into_any(),
        Column::Text(array) => PyString::from_bytes(py, text(array, row))?.into_any(),
    })
}

fn number(py: Python<'_>, value: i64) -> Bound<'_, PyAny> {
    let Ok(number) = value.into_pyobject(py);
    number.into_any()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(digest, module)?)?;
    module.add_function(wrap_pyfunction!(sqlite_rows, module)?)
}
