//! Rows of a block in which anything was changed, as stored ones: no panic, no unbounded memory.
//!
//! The input begins with the number of changes, of eight bytes each: the table, the column, the
//! row, what to do, and four bytes for that. `answers` describes the rest.
#![no_main]

mod answers;
mod cells;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use gapless_native::read::read;
use libfuzzer_sys::fuzz_target;

use cells::{Cell, Column};

const CHANGE: usize = 8;
const TEXTS: [&[u8]; 8] = [
    b"",
    b"[]",
    b"{}",
    b"null",
    b"[[]]",
    b"{\"a\":1}",
    b"{\"chainId\":\"0x9\"}",
    b"{\"receipt\":{\"a\":[]}}",
];

fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else {
        return;
    };
    let Some((changes, rest)) = rest.split_at_checked(usize::from(count & 15) * CHANGE) else {
        return;
    };
    let Some((raw, wanted)) = answers::question(rest) else {
        return;
    };
    let found = read(&[raw], &wanted).expect("columns this short fit into Arrow");
    let mut tables: Vec<RecordBatch> = found.tables.into_iter().map(|(_, rows)| rows).collect();
    for change in changes.chunks_exact(CHANGE) {
        let places = tables.len();
        if let Some(rows) = tables.get_mut(usize::from(change[0]) % places.max(1)) {
            let mut columns = cells::columns(rows);
            alter(&mut columns, change);
            *rows = cells::batch(&columns);
        }
    }
    answers::prove(tables, &wanted);
});

fn alter(columns: &mut Vec<Column>, change: &[u8]) {
    let (place, row) = (
        usize::from(change[1]) % columns.len(),
        usize::from(change[2]),
    );
    let (what, with) = (change[3] % 10, &change[4..]);
    let column = &mut columns[place];
    let length = column.cells.len();
    match what {
        0 => return column.name.push('x'),
        1 => return column.kind = kind(with),
        _ if length == 0 => return,
        _ => {}
    }
    let (row, other) = (row % length, usize::from(with[0]) % length);
    let cell = &mut column.cells[row];
    match what {
        2 => *cell = None,
        3 => *cell = Some(with.repeat(8)),
        4 => *cell = Some(TEXTS[usize::from(with[0]) % TEXTS.len()].to_vec()),
        5 => flip(cell, with),
        6 => column.cells[row] = column.cells[other].clone(),
        7 => columns.iter_mut().for_each(|it| drop(it.cells.remove(row))),
        8 => columns
            .iter_mut()
            .for_each(|it| it.cells.insert(row, it.cells[other].clone())),
        _ => columns.iter_mut().for_each(|it| it.cells.swap(row, other)),
    }
}

fn kind(with: &[u8]) -> DataType {
    match with[0] % 6 {
        0 => DataType::UInt64,
        1 => DataType::Boolean,
        2 => DataType::Binary,
        3 => DataType::Utf8,
        4 => DataType::FixedSizeBinary(i32::from(with[1])),
        _ => DataType::FixedSizeBinary(32),
    }
}

fn flip(cell: &mut Cell, with: &[u8]) {
    let bytes = cell.get_or_insert_default();
    let place = usize::from(with[0]) % bytes.len().max(1);
    match bytes.get_mut(place) {
        Some(byte) => *byte ^= 1 << (with[1] % 8),
        None => bytes.push(with[1]),
    }
}
