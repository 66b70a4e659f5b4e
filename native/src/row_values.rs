//! The values of a record batch, by the types that the tables of Gapless have.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow_schema::DataType;

/// A column of one of these types.
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

/// The bytes of a text: that it is UTF-8 is not taken on trust.
pub fn text(array: &StringArray, row: usize) -> &[u8] {
    let offsets = array.value_offsets();
    &array.value_data()[offsets[row] as usize..offsets[row + 1] as usize]
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

impl TryFrom<RecordBatch> for Rows {
    type Error = String;

    /// Fail if a column has a type that no table of Gapless has.
    fn try_from(batch: RecordBatch) -> Result<Self, String> {
        let schema = batch.schema();
        let named = schema.fields().iter().zip(batch.columns());
        let columns = named.map(|(field, array)| {
            let column =
                Column::of(array).ok_or_else(|| format!("a column is {}", array.data_type()))?;
            Ok((field.name().clone(), column))
        });
        Ok(Self {
            columns: columns.collect::<Result<_, String>>()?,
            len: batch.num_rows(),
        })
    }
}
