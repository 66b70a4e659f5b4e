//! Build the columns of a table in the types of `gapless.schema`.
//!
//! A column is declared where it is filled, so that the declared schema and the rows cannot differ.

use std::sync::{Arc, OnceLock};

use arrow_array::types::Float64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch,
    StringArray, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::model::U256;

/// The logical type of a column, by the names of `gapless.schema.table.Kind`.
#[derive(Clone, Copy)]
pub enum Kind {
    Int,
    U256,
    Word,
    Hash,
    Address,
    Nonce,
    Bloom,
    Bytes,
    Bool,
    Json,
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    kind: Kind,
    nullable: bool,
}

/// The columns of a table, in order.
#[derive(Default)]
pub struct Columns {
    declared: Vec<Column>,
    arrays: Vec<ArrayRef>,
    error: Option<ArrowError>,
}

impl Columns {
    pub fn int(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        let values: Vec<u64> = values.collect();
        self.add(
            name,
            Kind::Int,
            false,
            Ok(UInt64Array::new(values.into(), None)),
        );
    }

    pub fn optional_int(&mut self, name: &'static str, values: impl Iterator<Item = Option<u64>>) {
        let mut valid = Vec::new();
        let values: Vec<u64> = values
            .map(|value| {
                valid.push(value.is_some());
                value.unwrap_or_default()
            })
            .collect();
        let array = UInt64Array::new(values.into(), nulls(valid));
        self.add(name, Kind::Int, true, Ok(array));
    }

    pub fn fixed<'r, const N: usize>(
        &mut self,
        name: &'static str,
        kind: Kind,
        values: impl Iterator<Item = &'r [u8; N]>,
    ) {
        let mut data = Vec::with_capacity(N * values.size_hint().0);
        values.for_each(|value| data.extend_from_slice(value));
        let array = FixedSizeBinaryArray::try_new(N as i32, Buffer::from_vec(data), None);
        self.add(name, kind, false, array);
    }

    pub fn optional_fixed<'r, const N: usize>(
        &mut self,
        name: &'static str,
        kind: Kind,
        values: impl Iterator<Item = Option<&'r [u8; N]>>,
    ) {
        let (data, valid) = gathered(values);
        let array = FixedSizeBinaryArray::try_new(N as i32, Buffer::from_vec(data), nulls(valid));
        self.add(name, kind, true, array);
    }

    /// Add a 256-bit number and its nearest double.
    pub fn optional_u256<'r>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<&'r U256>>,
    ) {
        let (data, valid) = gathered(values);
        let nearest: Vec<f64> = data.as_chunks().0.iter().map(nearest_double).collect();
        let nulls = nulls(valid);
        let rounded = PrimitiveArray::<Float64Type>::new(nearest.into(), nulls.clone());
        let array = FixedSizeBinaryArray::try_new(32, Buffer::from_vec(data), nulls);
        self.add(name, Kind::U256, true, array);
        self.arrays.push(Arc::new(rounded));
    }

    pub fn bytes<'r>(&mut self, name: &'static str, values: impl Iterator<Item = &'r [u8]>) {
        let array = binary(values.map(Some)).and_then(|(offsets, data, _)| {
            BinaryArray::try_new(offsets, Buffer::from_vec(data), None)
        });
        self.add(name, Kind::Bytes, false, array);
    }

    pub fn optional_bytes<'r>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<&'r [u8]>>,
    ) {
        let array = binary(values).and_then(|(offsets, data, valid)| {
            BinaryArray::try_new(offsets, Buffer::from_vec(data), nulls(valid))
        });
        self.add(name, Kind::Bytes, true, array);
    }

    pub fn json(&mut self, name: &'static str, values: impl Iterator<Item = Vec<u8>>) {
        let values: Vec<Vec<u8>> = values.collect();
        let array = texts(values.iter().map(|text| Some(&text[..])));
        self.add(name, Kind::Json, false, array);
    }

    pub fn optional_json<T: AsRef<[u8]>>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<T>>,
    ) {
        let values: Vec<Option<T>> = values.collect();
        let array = texts(values.iter().map(|text| text.as_ref().map(AsRef::as_ref)));
        self.add(name, Kind::Json, true, array);
    }

    pub fn optional_bool(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = Option<bool>>,
    ) {
        let array: BooleanArray = values.collect();
        self.add(name, Kind::Bool, true, Ok(array));
    }

    /// Return the rows. `schema` caches what is declared, which is the same for all rows of a table.
    pub fn finish(self, schema: &OnceLock<SchemaRef>) -> Result<RecordBatch, ArrowError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let schema = schema.get_or_init(|| Arc::new(arrow_schema(&self.declared)));
        RecordBatch::try_new(schema.clone(), self.arrays)
    }

    /// Describe the columns as `gapless` does, to compare both.
    pub fn describe(&self, table: &str) -> Vec<String> {
        let describe = |it: &Column| {
            let mark = if it.nullable { "?" } else { "" };
            format!("{table}.{} {}{mark}", it.name, it.kind.name())
        };
        self.declared.iter().map(describe).collect()
    }

    fn add<A: arrow_array::Array + 'static>(
        &mut self,
        name: &'static str,
        kind: Kind,
        nullable: bool,
        array: Result<A, ArrowError>,
    ) {
        self.declared.push(Column {
            name,
            kind,
            nullable,
        });
        match array {
            Ok(array) => self.arrays.push(Arc::new(array)),
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::U256 => "u256",
            Self::Word => "word",
            Self::Hash => "hash",
            Self::Address => "address",
            Self::Nonce => "nonce",
            Self::Bloom => "bloom",
            Self::Bytes => "bytes",
            Self::Bool => "bool",
            Self::Json => "json",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::UInt64,
            Self::U256 | Self::Word | Self::Hash => DataType::FixedSizeBinary(32),
            Self::Address => DataType::FixedSizeBinary(20),
            Self::Nonce => DataType::FixedSizeBinary(8),
            Self::Bloom => DataType::FixedSizeBinary(256),
            Self::Bytes => DataType::Binary,
            Self::Bool => DataType::Boolean,
            Self::Json => DataType::Utf8,
        }
    }
}

fn arrow_schema(declared: &[Column]) -> Schema {
    let mut fields = Vec::new();
    for &Column {
        name,
        kind,
        nullable,
    } in declared
    {
        fields.push(Field::new(name, kind.data_type(), nullable));
        if matches!(kind, Kind::U256) {
            fields.push(Field::new(
                format!("{name}_f64"),
                DataType::Float64,
                nullable,
            ));
        }
    }
    Schema::new(fields)
}

/// The values of a column one after another, zeros in place of nulls, and which are not null.
fn gathered<'r, const N: usize>(
    values: impl Iterator<Item = Option<&'r [u8; N]>>,
) -> (Vec<u8>, Vec<bool>) {
    let count = values.size_hint().0;
    let (mut data, mut valid) = (Vec::with_capacity(N * count), Vec::with_capacity(count));
    for value in values {
        data.extend_from_slice(value.unwrap_or(&[0; N]));
        valid.push(value.is_some());
    }
    (data, valid)
}

fn nulls(valid: Vec<bool>) -> Option<NullBuffer> {
    if valid.iter().all(|&is| is) {
        None
    } else {
        Some(NullBuffer::from(valid))
    }
}

type Binary = (OffsetBuffer<i32>, Vec<u8>, Vec<bool>);

fn binary<'r>(values: impl Iterator<Item = Option<&'r [u8]>>) -> Result<Binary, ArrowError> {
    let (mut offsets, mut data, mut valid) = (vec![0], Vec::new(), Vec::new());
    for value in values {
        data.extend_from_slice(value.unwrap_or_default());
        valid.push(value.is_some());
        let end = i32::try_from(data.len());
        offsets.push(end.map_err(|_| ArrowError::OffsetOverflowError(data.len()))?);
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), data, valid))
}

fn texts<'r>(values: impl Iterator<Item = Option<&'r [u8]>>) -> Result<StringArray, ArrowError> {
    let (offsets, data, valid) = binary(values)?;
    StringArray::try_new(offsets, Buffer::from_vec(data), nulls(valid))
}

/// Round to the nearest double, and to the even one of two.
///
/// The first 64 significant bits decide, together with whether any bit follows them.
fn nearest_double(number: &U256) -> f64 {
    let first = number
        .iter()
        .position(|&byte| byte != 0)
        .unwrap_or(32)
        .min(24);
    let (head, tail) = number[first..].split_at(8);
    let mut significant = [0; 8];
    significant.copy_from_slice(head);
    let mut bits = u64::from_be_bytes(significant);
    let zeros = bits.leading_zeros();
    if let Some(&next) = tail.first() {
        bits = bits << zeros | u64::from(next) >> (8 - zeros);
        let rest = u64::from(next) << zeros & 0xFF;
        let is_inexact = rest != 0 || tail[1..].iter().any(|&byte| byte != 0);
        bits |= u64::from(is_inexact);
        return bits as f64 * 2f64.powi(8 * tail.len() as i32 - zeros as i32);
    }
    bits as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(high: u128, low: u128) -> U256 {
        let mut word = [0; 32];
        word[..16].copy_from_slice(&high.to_be_bytes());
        word[16..].copy_from_slice(&low.to_be_bytes());
        word
    }

    #[test]
    fn rounds_to_the_nearest_double() {
        let ulp = 1u128 << 75; // the distance of doubles from 2^127 on
        let numbers = [
            0,
            1,
            255,
            256,
            u64::MAX.into(),
            1 << 64,
            (1 << 64) + 1,
            u128::MAX,
        ];
        let halves = [
            1 << 127,
            (1 << 127) + ulp / 2,
            (1 << 127) + ulp / 2 + 1,
            (1 << 127) + ulp * 3 / 2,
        ];
        for number in numbers
            .into_iter()
            .chain(halves)
            .chain((0..127).map(|at| 3 << at | 1))
        {
            assert_eq!(nearest_double(&word(0, number)), number as f64, "{number}");
            let large = nearest_double(&word(number, 0));
            assert_eq!(large, number as f64 * 2f64.powi(128), "{number} << 128");
        }
        assert_eq!(nearest_double(&[0xff; 32]), 2f64.powi(256));
        let half = (1 << 127) + ulp / 2;
        let above = ((1u128 << 127) + ulp) as f64 * 2f64.powi(128);
        assert_eq!(
            nearest_double(&word(half, 1)),
            above,
            "a single bit at the end decides"
        );
    }
}
