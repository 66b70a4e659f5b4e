//! The Python module: exchange arguments and results, and do everything else without Python's lock.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{Array, RecordBatch, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ArrowError;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyMemoryView, PyType};

use crate::model::Hash;
use crate::python_rows::examine;
use crate::read::{RawBlock, Reading, Wanted};
use crate::tables;
use crate::verdict::{Check, CheckSet, HeaderForm, Network, Refusal};

type RawArguments = (
    u64,
    Answer,
    Option<Answer>,
    Option<Answer>,
    Option<Answer>,
    bool,
    u32,
    Option<Hash>,
);
/// The form of headers, the height of Byzantium, and the length of a sprint.
pub type NetworkFacts = (String, u64, u64);
type GoodBlock = (u64, Py<PyBytes>, Py<PyBytes>, u32, u32);
type RefusedBlock = (u64, &'static str, Option<u8>, String);
type ReadResult<'py> = (Bound<'py, PyDict>, Vec<GoodBlock>, Vec<RefusedBlock>, bool);

/// The bytes of an answer.
pub enum Answer {
    /// In memory of Python's, where they cannot change while the buffer is held.
    Borrowed(PyBuffer<u8>),
    Copied(Vec<u8>),
}

impl Answer {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Borrowed(buffer) if buffer.item_count() == 0 => &[],
            // SAFETY: the buffer is contiguous, was exported as bytes, and is held by `self`, so it
            // is valid for as long as the slice. Its exporter is immutable, so it does not change.
            Self::Borrowed(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.item_count())
            },
        }
    }
}

impl FromPyObject<'_, '_> for Answer {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(&object)?;
        if buffer.is_c_contiguous() && is_immutable(&object)? {
            return Ok(Self::Borrowed(buffer));
        }
        buffer.to_vec(object.py()).map(Self::Copied)
    }
}

/// Whether it is `bytes`, a view of them, or the part of a parsed answer, which keeps its `bytes`.
///
/// That a buffer is read-only is not enough: its owner may still change it.
fn is_immutable(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static PART: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    let owner = match object.cast::<PyMemoryView>() {
        Ok(view) => view.getattr("obj")?,
        Err(_) => object.clone(),
    };
    let part = PART.import(py, "msgspec", "Raw");
    Ok(owner.is_exact_instance_of::<PyBytes>() || part.is_ok_and(|it| owner.get_type().is(it)))
}

/// A table that other libraries import without a copy, by Arrow's C data interface.
#[pyclass(frozen)]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        guarded(|| {
            drop(requested_schema); // the interface allows to ignore it
            let rows = StructArray::from(self.0.clone());
            let fail = |error: ArrowError| PyRuntimeError::new_err(error.to_string());
            let array = FFI_ArrowArray::new(&rows.to_data());
            let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(fail)?;
            let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
            let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
            Ok((schema, array))
        })
    }
}

/// Parse, check and decode the answers for some blocks.
#[pyfunction]
fn read<'py>(
    py: Python<'py>,
    blocks: Vec<RawArguments>,
    light: bool,
    facts: NetworkFacts,
    asked: u32,
    chain_id: u64,
    wanted: Vec<String>,
) -> PyResult<ReadResult<'py>> {
    guarded(|| {
        let raws: Vec<RawBlock> = blocks.iter().map(raw_block).collect();
        if let Some(name) = wanted
            .iter()
            .find(|name| !tables::NAMES.contains(&name.as_str()))
        {
            return Err(PyValueError::new_err(format!("there is no table `{name}`")));
        }
        let wanted = Wanted {
            light,
            network: network(&facts)?,
            asked: CheckSet(asked),
            chain_id,
            tables: wanted.iter().map(String::as_str).collect(),
        };
        match without_lock(py, || crate::read::read(&raws, &wanted))? {
            Ok(reading) => result(py, reading),
            Err(error @ ArrowError::OffsetOverflowError(_)) => {
                Err(PyOverflowError::new_err(error.to_string()))
            }
            Err(error) => Err(PyRuntimeError::new_err(error.to_string())),
        }
    })
}

/// Run the body of a function of this module: a panic becomes an error that Python can handle.
pub fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        let message = "the compiled core failed; please report this";
        Err(PyRuntimeError::new_err(message))
    })
}

/// Compute without Python's lock.
pub fn without_lock<T: Send>(py: Python<'_>, compute: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| guarded(|| Ok(compute())))
}

/// The facts about a network that checks depend on.
pub fn network(facts: &NetworkFacts) -> PyResult<Network> {
    let (header, byzantium, sprint) = facts;
    Ok(Network {
        header: header_form(header)?,
        byzantium: *byzantium,
        sprint: *sprint,
    })
}

fn raw_block(arguments: &RawArguments) -> RawBlock<'_> {
    let (height, block, receipts, logs, other_logs, full, supported, anchor) = arguments;
    RawBlock {
        height: *height,
        block: block.bytes(),
        receipts: receipts.as_ref().map(Answer::bytes),
        logs: logs.as_ref().map(Answer::bytes),
        other_logs: other_logs.as_ref().map(Answer::bytes),
        full: *full,
        supported: CheckSet(*supported),
        anchor: *anchor,
    }
}

fn header_form(name: &str) -> PyResult<HeaderForm> {
    match name {
        "ethereum" => Ok(HeaderForm::Ethereum),
        "aura" => Ok(HeaderForm::Aura),
        "avalanche" => Ok(HeaderForm::Avalanche),
        "tempo" => Ok(HeaderForm::Tempo),
        _ => Err(PyValueError::new_err(format!(
            "there is no form of header `{name}`"
        ))),
    }
}

fn result<'py>(py: Python<'py>, reading: Reading<'_>) -> PyResult<ReadResult<'py>> {
    let tables = PyDict::new(py);
    for (name, rows) in reading.tables {
        tables.set_item(name, Batch(rows))?;
    }
    let bytes = |hash: &Hash| PyBytes::new(py, hash).unbind();
    let good = reading.good.iter().map(|it| {
        let (proven, unproven) = (it.proof.proven.0, it.proof.unproven.0);
        (
            it.height,
            bytes(&it.hash),
            bytes(&it.parent_hash),
            proven,
            unproven,
        )
    });
    let refused = reading
        .refused
        .into_iter()
        .map(|(height, refusal)| match refusal {
            Refusal::BadAnswer(finding) => (height, "bad_answer", None, finding),
            Refusal::BadBlock(check, finding) => (height, "bad_block", Some(check as u8), finding),
        });
    Ok((tables, good.collect(), refused.collect(), reading.has_extra))
}

#[pymodule]
fn gapless_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("RULES", crate::RULES)?;
    module.add("SCHEMA", tables::schema())?;
    module.add("CHECKS", Check::NAMES)?;
    module.add_class::<Batch>()?;
    module.add_function(wrap_pyfunction!(examine, module)?)?;
    crate::python_copying::register(module)?;
    crate::python_envelope::register(module)?;
    crate::python_values::register(module)?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
