//! The function of the Python module that splits JSON-RPC answers.

use pyo3::prelude::*;

use crate::python::{Answer, guarded, without_lock};

/// The id of each answer in a body, and the start and the end of its result.
///
/// Nothing if the body is for Python to read.
#[pyfunction]
fn split(py: Python<'_>, body: Answer) -> PyResult<Option<Vec<(u64, usize, usize)>>> {
    guarded(|| {
        let found = without_lock(py, || crate::envelope::split(body.bytes()))?;
        let places = |(id, place): crate::envelope::Found| (id, place.start, place.end);
        Ok(found.map(|found| found.into_iter().map(places).collect()))
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(split, module)?)
}
