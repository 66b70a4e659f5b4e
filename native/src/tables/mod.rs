//! The tables of accepted blocks, as `gapless.chains.evm.tables` declares them.
//!
//! What follows from the position of a row is counted; `placement` has shown that the answers agree.

mod blocks;
mod logs;
mod transactions;
mod withdrawals;

use std::sync::OnceLock;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::columns::Columns;
use crate::model::{Answer, Hash, Slice};
use crate::parse::write_hashes;
use crate::placement::Pairs;

/// A block that was accepted, and the receipt of each of its transactions.
pub struct Accepted {
    pub answer: Answer,
    pub pairs: Pairs,
}

pub const NAMES: [&str; 4] = ["blocks", "transactions", "logs", "withdrawals"];
const COLUMNS: [fn(&[Accepted], u64) -> Columns; 4] = [
    blocks::columns,
    transactions::columns,
    logs::columns,
    withdrawals::columns,
];

/// A row of a table inside a block.
struct Row<'a, T> {
    answer: &'a Answer,
    /// Position in the block; of a log, in its transaction.
    at: u64,
    row: T,
}

/// Return a table of some blocks; `None` if there is no table of that name.
pub fn table(
    name: &str,
    blocks: &[Accepted],
    chain_id: u64,
) -> Option<Result<RecordBatch, ArrowError>> {
    static SCHEMAS: [OnceLock<SchemaRef>; 4] = [const { OnceLock::new() }; 4];
    let at = NAMES.iter().position(|known| *known == name)?;
    Some(COLUMNS[at](blocks, chain_id).finish(&SCHEMAS[at]))
}

/// Describe the columns of all tables, so that Python can compare them with its own.
pub fn schema() -> Vec<String> {
    let tables = NAMES.iter().zip(COLUMNS);
    tables
        .flat_map(|(name, columns)| columns(&[], 0).describe(name))
        .collect()
}

/// Add the columns that say where a row is; its position comes between height and time.
fn add_place<T>(
    add: &mut Columns,
    rows: &[Row<T>],
    chain_id: u64,
    add_position: impl FnOnce(&mut Columns),
) {
    let blocks = || rows.iter().map(|it| &it.answer.block);
    add.int("chain_id", blocks().map(|_| chain_id));
    add.int("block_number", blocks().map(|it| it.number));
    add_position(add);
    add.int("block_timestamp", blocks().map(|it| it.timestamp));
}

fn extra(answer: &Answer, text: Slice) -> Option<&[u8]> {
    (text.len > 0).then(|| answer.bytes(text))
}

fn hashes_text(hashes: &[Hash]) -> Vec<u8> {
    let mut text = Vec::new();
    write_hashes(&mut text, hashes);
    text
}
