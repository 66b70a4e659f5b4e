//! Rows as cells of bytes, so that any of them can be changed to anything.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, RecordBatch,
    RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema};
use gapless_native::row_values::text;

/// The bytes of a value; `None` is null.
pub type Cell = Option<Vec<u8>>;

pub struct Column {
    pub name: String,
    pub kind: DataType,
    pub cells: Vec<Cell>,
}

pub fn columns(rows: &RecordBatch) -> Vec<Column> {
    let schema = rows.schema();
    let named = schema.fields().iter().zip(rows.columns());
    named
        .map(|(field, array)| Column {
            name: field.name().clone(),
            kind: field.data_type().clone(),
            cells: (0..array.len()).map(|row| cell(array, row)).collect(),
        })
        .collect()
}

fn cell(array: &ArrayRef, row: usize) -> Cell {
    array.is_valid(row).then(|| match array.data_type() {
        DataType::UInt64 => array
            .as_primitive::<UInt64Type>()
            .value(row)
            .to_le_bytes()
            .into(),
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .value(row)
            .to_le_bytes()
            .into(),
        DataType::Boolean => vec![u8::from(array.as_boolean().value(row))],
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row).into(),
        DataType::Utf8 => text(array.as_string(), row).into(),
        _ => array.as_binary::<i32>().value(row).into(),
    })
}

pub fn batch(columns: &[Column]) -> RecordBatch {
    let fields = columns
        .iter()
        .map(|it| Field::new(&it.name, it.kind.clone(), true));
    let arrays = columns.iter().map(array).collect();
    let length = columns.first().map_or(0, |it| it.cells.len());
    let options = RecordBatchOptions::new().with_row_count(Some(length));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new_with_options(schema, arrays, &options).expect("columns are equally long")
}

fn array(column: &Column) -> ArrayRef {
    let cells = column.cells.iter().map(Option::as_deref);
    let numbers = cells.clone().map(|it| it.map(number));
    match column.kind {
        DataType::UInt64 => Arc::new(numbers.collect::<UInt64Array>()),
        DataType::Float64 => Arc::new(
            numbers
                .map(|it| it.map(f64::from_bits))
                .collect::<Float64Array>(),
        ),
        DataType::Boolean => Arc::new(
            numbers
                .map(|it| it.map(|it| it & 1 == 1))
                .collect::<BooleanArray>(),
        ),
        DataType::FixedSizeBinary(width) => {
            let sized = cells.map(|it| it.map(|bytes| resized(bytes, width as usize)));
            let found = FixedSizeBinaryArray::try_from_sparse_iter_with_size(sized, width);
            Arc::new(found.expect("all cells have this width"))
        }
        DataType::Utf8 => Arc::new(texts(&column.cells)),
        _ => Arc::new(cells.collect::<BinaryArray>()),
    }
}

/// Texts that need not be UTF-8, as a program may pass them by Arrow's C data interface.
fn texts(cells: &[Cell]) -> StringArray {
    let lengths = cells.iter().map(|it| it.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let bytes: Vec<u8> = cells.iter().flatten().flatten().copied().collect();
    let valid = NullBuffer::from_iter(cells.iter().map(Option::is_some));
    // SAFETY: the offsets are those of the bytes. That they are UTF-8 is what nobody may rely on.
    unsafe { StringArray::new_unchecked(offsets, Buffer::from_vec(bytes), Some(valid)) }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(resized(bytes, 8).try_into().expect("eight bytes"))
}

fn resized(bytes: &[u8], width: usize) -> Vec<u8> {
    bytes
        .iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(width)
        .collect()
}
