//! Rows that arrive from Python as an Arrow record batch, without a copy.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
    StructArray, ffi::from_ffi,
};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A column, by the types that the tables of Gapless have.
pub enum Column {
    Int(PrimitiveArray<UInt64Type>),
    Float(PrimitiveArray<Float64Type>),
    Bool(BooleanArray),
    Fixed(FixedSizeBinaryArray),
    Bytes(BinaryArray),
    Text(StringArray),
}

impl Column {
    fn of(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::UInt64 => Self::Int(array.as_primitive().clone()),
            DataType::Float64 => Self::Float(array.as_primitive().clone()),
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary().clone()),
            DataType::Binary => Self::Bytes(array.as_binary().clone()),
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            _ => return None,
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            Self::Int(array) => array,
            Self::Float(array) => array,
            Self::Bool(array) => array,
            Self::Fixed(array) => array,
            Self::Bytes(array) => array,
            Self::Text(array) => array,
        }
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.array().is_null(row)
    }

    pub fn is_variable(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Text(_))
    }
}

/// A record batch: the names of its columns, the columns, and the number of rows.
pub struct Rows {
    columns: Vec<(String, Column)>,
    pub len: usize,
}

impl Rows {
    pub fn column(&self, name: &str) -> Option<&Column> {
        let found = self.columns.iter().find(|(each, _)| each == name);
        found.map(|(_, column)| column)
    }

    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().map(|(_, column)| column)
    }
}

impl FromPyObject<'_, '_> for Rows {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            object.call_method0("__arrow_c_array__")?.extract()?;
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
        let array = array.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: by Arrow's interface, capsules of these names hold these structures, valid and not
        // yet moved; `from_raw` leaves empty ones behind, so that nothing is released twice.
        let (schema, array) = unsafe {
            (
                FFI_ArrowSchema::from_raw(schema.cast().as_ptr()),
                FFI_ArrowArray::from_raw(array.cast().as_ptr()),
            )
        };
        let fail = |error: arrow_schema::ArrowError| PyValueError::new_err(error.to_string());
        // SAFETY: the array and its schema come from one call, so they describe the same batch.
        let data = unsafe { from_ffi(array, &schema) }.map_err(fail)?;
        if !matches!(data.data_type(), DataType::Struct(_)) {
            return Err(PyValueError::new_err("these are not rows"));
        }
        let rows = StructArray::from(data);
        let named = rows.fields().iter().zip(rows.columns());
        let columns = named.map(|(field, array)| {
            let unknown = || PyValueError::new_err(format!("a column is {}", array.data_type()));
            let column = Column::of(array).ok_or_else(unknown)?;
            Ok((field.name().clone(), column))
        });
        Ok(Self {
            columns: columns.collect::<PyResult<_>>()?,
            len: rows.len(),
        })
    }
}
