//! The tables of accepted blocks, as `gapless.chains.evm.tables` declares them.
//!
//! What follows from the position of a row is counted; `placement` has shown that the answers agree.

use std::sync::OnceLock;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use crate::columns::{Columns, Kind};
use crate::model::{Answer, Hash, Log, Receipt, Slice, Transaction, Transactions, Withdrawal};
use crate::parse::{write_hashes, write_object};
use crate::placement::{Pairs, paired};

/// A block that was accepted, and the receipt of each of its transactions.
pub struct Accepted {
    pub answer: Answer,
    pub pairs: Pairs,
}

pub const NAMES: [&str; 4] = ["blocks", "transactions", "logs", "withdrawals"];

/// A row of a table inside a block.
struct Row<'a, T> {
    answer: &'a Answer,
    /// Position in the block; of a log, in its transaction.
    at: u64,
    row: T,
}

struct LogRow<'a> {
    log: &'a Log,
    transaction_index: u64,
    transaction_hash: &'a Hash,
}

type TransactionRow<'a> = (&'a Transaction, Option<&'a Receipt>);

/// Return a table of some blocks; `None` if there is no table of that name.
pub fn table(
    name: &str,
    blocks: &[Accepted],
    chain_id: u64,
) -> Option<Result<RecordBatch, ArrowError>> {
    static SCHEMAS: [OnceLock<SchemaRef>; 4] = [const { OnceLock::new() }; 4];
    let at = NAMES.iter().position(|known| *known == name)?;
    Some(columns(at, blocks, chain_id).finish(&SCHEMAS[at]))
}

/// Describe the columns of all tables.
pub fn schema() -> Vec<String> {
    let describe = |at: usize| columns(at, &[], 0).describe(NAMES[at]).collect::<Vec<_>>();
    (0..NAMES.len()).flat_map(describe).collect()
}

fn columns(table: usize, blocks: &[Accepted], chain_id: u64) -> Columns {
    match table {
        0 => block_columns(blocks, chain_id),
        1 => transaction_columns(&transaction_rows(blocks), chain_id),
        2 => log_columns(&log_rows(blocks), chain_id),
        _ => withdrawal_columns(&withdrawal_rows(blocks), chain_id),
    }
}

fn transaction_rows(blocks: &[Accepted]) -> Vec<Row<'_, TransactionRow<'_>>> {
    let mut rows = Vec::new();
    for Accepted { answer, pairs } in blocks {
        rows.extend((0..).zip(paired(answer, pairs)).map(|(at, row)| Row { answer, at, row }));
    }
    rows
}

fn log_rows(blocks: &[Accepted]) -> Vec<Row<'_, LogRow<'_>>> {
    let mut rows = Vec::new();
    for Accepted { answer, pairs } in blocks {
        for (index, (transaction, receipt)) in (0..).zip(paired(answer, pairs)) {
            for (at, log) in (0..).zip(receipt.map_or(&[][..], |it| answer.logs_of(it))) {
                let (transaction_index, transaction_hash) = (index, &transaction.hash);
                rows.push(Row { answer, at, row: LogRow { log, transaction_index, transaction_hash } });
            }
        }
        if answer.receipts.is_none() {
            push_range_logs(&mut rows, answer);
        }
    }
    rows
}

/// Add the logs of a block without receipts; positions are counted in each transaction.
fn push_range_logs<'a>(rows: &mut Vec<Row<'a, LogRow<'a>>>, answer: &'a Answer) {
    let logs = answer.range.as_ref().map_or(&[][..], |range| &range.logs);
    let mut before = None;
    let mut at = 0;
    for it in logs {
        at = if before == Some(it.transaction_index) { at + 1 } else { 0 };
        before = Some(it.transaction_index);
        let (transaction_index, transaction_hash) = (it.transaction_index, &it.transaction_hash);
        let row = LogRow { log: &it.log, transaction_index, transaction_hash };
        rows.push(Row { answer, at, row });
    }
}

fn withdrawal_rows(blocks: &[Accepted]) -> Vec<Row<'_, &Withdrawal>> {
    let mut rows = Vec::new();
    for Accepted { answer, .. } in blocks {
        let of_block = answer.block.withdrawals.iter().flatten();
        rows.extend((0..).zip(of_block).map(|(at, row)| Row { answer, at, row }));
    }
    rows
}

fn block_columns(blocks: &[Accepted], chain_id: u64) -> Columns {
    let all = || blocks.iter().map(|it| &it.answer.block);
    let mut add = Columns::default();
    add.int("chain_id", all().map(|_| chain_id));
    add.int("block_number", all().map(|it| it.number));
    add.int("block_timestamp", all().map(|it| it.timestamp));
    add.fixed("hash", Kind::Hash, all().map(|it| &it.hash));
    add.fixed("parent_hash", Kind::Hash, all().map(|it| &it.parent_hash));
    add.fixed("miner", Kind::Address, all().map(|it| &it.miner));
    add.int("gas_limit", all().map(|it| it.gas_limit));
    add.int("gas_used", all().map(|it| it.gas_used));
    add.optional_u256("base_fee_per_gas", all().map(|it| it.base_fee_per_gas.as_ref()));
    add.optional_u256("difficulty", all().map(|it| it.difficulty.as_ref()));
    add.optional_u256("total_difficulty", all().map(|it| it.total_difficulty.as_ref()));
    add.optional_int("size", all().map(|it| it.size));
    let extra_data = blocks.iter().map(|it| it.answer.bytes(it.answer.block.extra_data));
    add.bytes("extra_data", extra_data);
    add.optional_fixed("nonce", Kind::Nonce, all().map(|it| it.nonce.as_ref()));
    add.optional_fixed("mix_hash", Kind::Hash, all().map(|it| it.mix_hash.as_ref()));
    add.fixed("sha3_uncles", Kind::Hash, all().map(|it| &it.sha3_uncles));
    add.fixed("state_root", Kind::Hash, all().map(|it| &it.state_root));
    add.fixed("transactions_root", Kind::Hash, all().map(|it| &it.transactions_root));
    add.fixed("receipts_root", Kind::Hash, all().map(|it| &it.receipts_root));
    add.optional_fixed("logs_bloom", Kind::Bloom, all().map(|it| it.logs_bloom.as_deref()));
    let withdrawals_roots = all().map(|it| it.withdrawals_root.as_ref());
    add.optional_fixed("withdrawals_root", Kind::Hash, withdrawals_roots);
    let beacon_roots = all().map(|it| it.parent_beacon_block_root.as_ref());
    add.optional_fixed("parent_beacon_block_root", Kind::Hash, beacon_roots);
    add.optional_fixed("requests_hash", Kind::Hash, all().map(|it| it.requests_hash.as_ref()));
    let list_hashes = all().map(|it| it.block_access_list_hash.as_ref());
    add.optional_fixed("block_access_list_hash", Kind::Hash, list_hashes);
    add.optional_int("blob_gas_used", all().map(|it| it.blob_gas_used));
    add.optional_int("excess_blob_gas", all().map(|it| it.excess_blob_gas));
    add.optional_int("slot_number", all().map(|it| it.slot_number));
    add.json("uncles", all().map(|it| hashes_text(&it.uncles)));
    add.optional_int("l1_block_number", all().map(|it| it.l1_block_number));
    add.optional_int("send_count", all().map(|it| it.send_count));
    add.optional_fixed("send_root", Kind::Hash, all().map(|it| it.send_root.as_ref()));
    add.int("transaction_count", all().map(|it| it.transactions.len() as u64));
    let logs = |it: &Accepted| it.answer.receipts.is_some().then_some(it.answer.logs.len() as u64);
    add.optional_int("log_count", blocks.iter().map(logs));
    let withdrawals = all().map(|it| it.withdrawals.as_ref().map(|rows| rows.len() as u64));
    add.optional_int("withdrawal_count", withdrawals);
    add.optional_int("transfer_count", all().map(|_| None));
    add.optional_json("extra", blocks.iter().map(|it| block_extra(&it.answer)));
    add
}

fn transaction_columns(rows: &[Row<TransactionRow>], chain_id: u64) -> Columns {
    let all = || rows.iter().map(|it| it.row.0);
    let receipts = || rows.iter().map(|it| it.row.1);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int("transaction_index", rows.iter().map(|it| it.at));
    });
    add.fixed("hash", Kind::Hash, all().map(|it| &it.hash));
    add.int("type", all().map(|it| it.kind.unwrap_or_default().into()));
    add.fixed("from_address", Kind::Address, all().map(|it| &it.from));
    add.optional_fixed("to_address", Kind::Address, all().map(|it| it.to.as_ref()));
    add.int("nonce", all().map(|it| it.nonce));
    add.int("gas", all().map(|it| it.gas));
    add.optional_u256("value", all().map(|it| it.value.as_ref()));
    let input = rows.iter().map(|it| it.row.0.input.map(|input| it.answer.bytes(input)));
    add.optional_bytes("input", input);
    add.optional_u256("gas_price", all().map(|it| it.gas_price.as_ref()));
    add.optional_u256("max_fee_per_gas", all().map(|it| it.max_fee_per_gas.as_ref()));
    let tips = all().map(|it| it.max_priority_fee_per_gas.as_ref());
    add.optional_u256("max_priority_fee_per_gas", tips);
    add.optional_u256("max_fee_per_blob_gas", all().map(|it| it.max_fee_per_blob_gas.as_ref()));
    let access = rows.iter().map(|it| {
        it.row.0.access_list.as_ref().map(|list| list_text(it.answer, list.text))
    });
    add.optional_json("access_list", access);
    let blobs = all().map(|it| it.blob_versioned_hashes.as_deref().map(hashes_text));
    add.optional_json("blob_versioned_hashes", blobs);
    let authorizations = rows.iter().map(|it| {
        it.row.0.authorization_list.as_ref().map(|list| list_text(it.answer, list.text))
    });
    add.optional_json("authorization_list", authorizations);
    add.optional_int("v", all().map(|it| it.v.or(it.y_parity)));
    add.optional_fixed("r", Kind::Word, all().map(|it| it.r.as_ref()));
    add.optional_fixed("s", Kind::Word, all().map(|it| it.s.as_ref()));
    add.optional_fixed("source_hash", Kind::Hash, all().map(|it| it.source_hash.as_ref()));
    add.optional_u256("mint", all().map(|it| it.mint.as_ref()));
    add.optional_bool("is_system_tx", all().map(|it| it.is_system_tx));
    add.optional_int("status", receipts().map(|it| it?.status));
    add.optional_fixed("root", Kind::Hash, receipts().map(|it| it?.root.as_ref()));
    add.optional_int("gas_used", receipts().map(|it| it?.gas_used));
    add.optional_int("cumulative_gas_used", receipts().map(|it| Some(it?.cumulative_gas_used)));
    let prices = receipts().map(|it| it?.effective_gas_price.as_ref());
    add.optional_u256("effective_gas_price", prices);
    let contracts = receipts().map(|it| it?.contract_address.as_ref());
    add.optional_fixed("contract_address", Kind::Address, contracts);
    add.optional_int("log_count", receipts().map(|it| Some(it?.logs.len.into())));
    add.optional_int("blob_gas_used", receipts().map(|it| it?.blob_gas_used));
    add.optional_u256("blob_gas_price", receipts().map(|it| it?.blob_gas_price.as_ref()));
    add.optional_u256("l1_fee", receipts().map(|it| it?.l1_fee.as_ref()));
    add.optional_u256("l1_gas_price", receipts().map(|it| it?.l1_gas_price.as_ref()));
    add.optional_int("l1_gas_used", receipts().map(|it| it?.l1_gas_used));
    add.optional_int("deposit_nonce", receipts().map(|it| it?.deposit_nonce));
    let versions = receipts().map(|it| it?.deposit_receipt_version);
    add.optional_int("deposit_receipt_version", versions);
    add.optional_int("gas_used_for_l1", receipts().map(|it| it?.gas_used_for_l1));
    add.optional_int("l1_block_number", receipts().map(|it| it?.l1_block_number));
    add.optional_json("extra", rows.iter().map(|it| extra(it.answer, it.row.0.extra)));
    add
}

fn log_columns(rows: &[Row<LogRow>], chain_id: u64) -> Columns {
    let all = || rows.iter().map(|it| it.row.log);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int("transaction_index", rows.iter().map(|it| it.row.transaction_index));
        add.int("log_position", rows.iter().map(|it| it.at));
    });
    add.int("log_index", all().map(|it| it.log_index));
    let hashes = rows.iter().map(|it| it.row.transaction_hash);
    add.fixed("transaction_hash", Kind::Hash, hashes);
    add.fixed("address", Kind::Address, all().map(|it| &it.address));
    for (place, name) in ["topic0", "topic1", "topic2", "topic3"].into_iter().enumerate() {
        add.optional_fixed(name, Kind::Hash, all().map(|it| it.topics().get(place)));
    }
    add.bytes("data", rows.iter().map(|it| it.answer.bytes(it.row.log.data)));
    add.optional_json("extra", rows.iter().map(|it| extra(it.answer, it.row.log.extra)));
    add
}

fn withdrawal_columns(rows: &[Row<&Withdrawal>], chain_id: u64) -> Columns {
    let all = || rows.iter().map(|it| it.row);
    let mut add = Columns::default();
    add_place(&mut add, rows, chain_id, |add| {
        add.int("withdrawal_position", rows.iter().map(|it| it.at));
    });
    add.int("withdrawal_index", all().map(|it| it.index));
    add.int("validator_index", all().map(|it| it.validator_index));
    add.fixed("address", Kind::Address, all().map(|it| &it.address));
    add.int("amount", all().map(|it| it.amount));
    add.optional_json("extra", rows.iter().map(|it| extra(it.answer, it.row.extra)));
    add
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

fn block_extra(answer: &Answer) -> Option<Vec<u8>> {
    let keys = answer.block.extra.iter();
    let mut members: Vec<_> =
        keys.map(|it| (answer.bytes(it.key), answer.bytes(it.value))).collect();
    let mut text = Vec::new();
    write_object(&mut text, &mut members);
    (!members.is_empty()).then_some(text)
}

fn extra(answer: &Answer, text: Slice) -> Option<&[u8]> {
    (text.len > 0).then(|| answer.bytes(text))
}

/// The text of a list; one that completion has filled in has none, and no items.
fn list_text(answer: &Answer, text: Slice) -> &[u8] {
    if text.len > 0 { answer.bytes(text) } else { b"[]" }
}

fn hashes_text(hashes: &[Hash]) -> Vec<u8> {
    let mut text = Vec::new();
    write_hashes(&mut text, hashes);
    text
}

impl Transactions {
    fn len(&self) -> usize {
        match self {
            Self::Full(rows) => rows.len(),
            Self::Hashes(hashes) => hashes.len(),
        }
    }
}
