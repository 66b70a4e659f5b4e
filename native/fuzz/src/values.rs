//! Rows of any columns and values: no panic in their digest or their values.
//!
//! The input is the number of rows and of columns, a byte for the kind of each column, and the
//! cells: a byte for the length, and the bytes.
#![no_main]

mod cells;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use gapless_native::digest::{Sum, digest};
use gapless_native::row_values::{Column as Values, Rows, text};
use libfuzzer_sys::fuzz_target;

use cells::{Cell, Column};

const NULL: u8 = 255;

fuzz_target!(|input: &[u8]| {
    let mut bytes = input.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let (length, count) = (usize::from(next() % 32), usize::from(next() % 8));
    let mut columns = vec![Column {
        name: "block_number".to_string(),
        kind: DataType::UInt64,
        cells: (0..length).map(|_| Some(vec![next()])).collect(),
    }];
    for place in 0..count {
        let kind = kind(next());
        let cells = (0..length).map(|_| cell(&mut next)).collect();
        columns.push(Column {
            name: place.to_string(),
            kind,
            cells,
        });
    }
    let rows = cells::batch(&columns);
    found(&rows);
    // A part of the rows, and the same rows alone in memory of their own.
    let start = usize::from(next()) % (length + 1);
    let part = rows.slice(start, length - start);
    let alone = cells::batch(&cells::columns(&part));
    assert_eq!(found(&part), found(&alone));
});

/// Look at every value, and return the digests with every column nullable and with none.
fn found(rows: &RecordBatch) -> [Sum; 2] {
    let schema = rows.schema();
    let rows = Rows::try_from(rows.clone()).expect("these types are known");
    for column in rows.columns() {
        for row in (0..rows.len).filter(|row| !column.is_null(*row)) {
            if let Values::Text(array) = column {
                let _ = std::str::from_utf8(text(array, row));
            }
        }
    }
    [true, false].map(|nullable| {
        let named = schema.fields().iter().map(|it| it.name().clone());
        let columns: Vec<(String, bool)> = named.map(|name| (name, nullable)).collect();
        digest("any", &columns, &rows).expect("no column is missing")
    })
}

fn kind(byte: u8) -> DataType {
    match byte % 6 {
        0 => DataType::UInt64,
        1 => DataType::Float64,
        2 => DataType::Boolean,
        3 => DataType::Binary,
        4 => DataType::Utf8,
        _ => DataType::FixedSizeBinary(i32::from(byte / 6)),
    }
}

fn cell(next: &mut impl FnMut() -> u8) -> Cell {
    match next() {
        NULL => None,
        length => Some((0..length % 48).map(|_| next()).collect()),
    }
}
