//! The digest of rows: a sum over blocks of the SHA-256 of each block's rows.
//!
//! `gapless.schema.digest` defines the encoding that is hashed, and is the reference.

use sha2::{Digest, Sha256};

use crate::row_values::{Column, Rows, text};

/// A number mod 2^256, little-endian.
pub type Sum = [u8; 32];

/// Columns in the order of the table: those that are never null, and the others by name.
struct Table<'a> {
    name: &'a str,
    variable: Vec<&'a Column>,
    fixed: Vec<&'a Column>,
    nullable: Vec<(&'a str, &'a Column)>,
}

/// The digest of rows, or the name of a column that they lack.
///
/// `columns` are the names of all columns in order, and whether they are nullable.
pub fn digest(name: &str, columns: &[(String, bool)], rows: &Rows) -> Result<Sum, String> {
    let heights = match rows.column("block_number") {
        Some(Column::Int(heights)) => heights.values(),
        _ => return Err("block_number".to_string()),
    };
    let mut table = Table {
        name,
        variable: Vec::new(),
        fixed: Vec::new(),
        nullable: Vec::new(),
    };
    for (name, nullable) in columns {
        let column = rows.column(name).ok_or_else(|| name.clone())?;
        match (nullable, column.is_variable()) {
            (true, _) => table.nullable.push((name, column)),
            (false, true) => table.variable.push(column),
            (false, false) => table.fixed.push(column),
        }
    }
    let mut sum = Sum::default();
    let mut encoded = Vec::new();
    let mut start = 0;
    for block in heights.chunk_by(|one, other| one == other) {
        let end = start + block.len();
        encoded.clear();
        encode(&table, start, end, &mut encoded);
        add(&mut sum, &Sha256::digest(&encoded).into());
        start = end;
    }
    Ok(sum)
}

fn encode(table: &Table, start: usize, end: usize, into: &mut Vec<u8>) {
    into.extend_from_slice(format!("{} {}\n", table.name, end - start).as_bytes());
    for row in start..end {
        for column in &table.variable {
            push_length(column, row, into);
        }
        for column in &table.fixed {
            push_value(column, row, into);
        }
    }
    for column in &table.variable {
        (start..end).for_each(|row| push_value(column, row, into));
    }
    for (name, column) in &table.nullable {
        let valid = (start..end).filter(|row| !column.is_null(*row)).count();
        if valid == 0 {
            continue;
        }
        into.extend_from_slice(name.as_bytes());
        if valid == end - start {
            into.push(1);
        } else {
            into.push(2);
            into.extend((start..end).map(|row| u8::from(!column.is_null(row))));
        }
        if column.is_variable() {
            (start..end).for_each(|row| push_length(column, row, into));
        }
        (start..end).for_each(|row| push_value(column, row, into));
    }
}

/// The length of a value of variable length; 0 for a null.
fn push_length(column: &Column, row: usize, into: &mut Vec<u8>) {
    let length = match column {
        _ if column.is_null(row) => 0,
        Column::Bytes(array) => array.value_length(row),
        Column::Text(array) => array.value_length(row),
        _ => 0,
    };
    into.extend_from_slice(&length.to_le_bytes());
}

/// The bytes of a value; for a null, zeros if its length is fixed, else nothing.
fn push_value(column: &Column, row: usize, into: &mut Vec<u8>) {
    let null = column.is_null(row);
    match column {
        Column::Int(array) => {
            let value = if null { 0 } else { array.value(row) };
            into.extend_from_slice(&value.to_le_bytes());
        }
        Column::Float(array) => {
            let value = if null { 0.0 } else { array.value(row) };
            into.extend_from_slice(&value.to_le_bytes());
        }
        Column::Bool(array) => into.push(u8::from(!null && array.value(row))),
        Column::Fixed(array) if null => {
            let width = usize::try_from(array.value_length()).unwrap_or_default();
            into.resize(into.len() + width, 0);
        }
        Column::Fixed(array) => into.extend_from_slice(array.value(row)),
        Column::Bytes(_) | Column::Text(_) if null => {}
        Column::Bytes(array) => into.extend_from_slice(array.value(row)),
        Column::Text(array) => into.extend_from_slice(text(array, row)),
    }
}

fn add(sum: &mut Sum, term: &Sum) {
    let mut carry = 0;
    for (digit, other) in sum.iter_mut().zip(term) {
        carry += u16::from(*digit) + u16::from(*other);
        *digit = carry.to_le_bytes()[0];
        carry >>= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_wraps_at_its_modulus() {
        let mut sum = [255; 32];
        let mut one = Sum::default();
        one[0] = 1;
        add(&mut sum, &one);
        assert_eq!(sum, Sum::default());
        add(&mut sum, &[255; 32]);
        assert_eq!(sum, [255; 32]);
    }
}
