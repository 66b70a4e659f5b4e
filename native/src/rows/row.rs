//! Restore one object of an answer from its row.
//!
//! Fields that are not stored because they follow from others, such as a receipt's bloom or
//! `yParity`, are omitted, as in the answer of an old node.

use super::columns::{BlockColumns, LogColumns, TransactionColumns, WithdrawalColumns};
use super::texts::{self, Members};
use crate::encoding::{LEGACY, big};
use crate::extras::strays;
use crate::forms::{Form, U64, Word};
use crate::json::Reader;
use crate::model::{
    Answer, Block, Hash, Log, RangeLog, Receipt, Slice, Transaction, Transactions, Withdrawal,
};

pub fn block(columns: &BlockColumns, row: usize, arena: &mut Vec<u8>) -> Option<Block> {
    Some(Block {
        number: columns.number.get(row)?,
        timestamp: columns.timestamp.get(row)?,
        hash: columns.hash.get(row)?,
        parent_hash: columns.parent_hash.get(row)?,
        sha3_uncles: columns.sha3_uncles.get(row)?,
        state_root: columns.state_root.get(row)?,
        transactions_root: columns.transactions_root.get(row)?,
        receipts_root: columns.receipts_root.get(row)?,
        miner: columns.miner.get(row)?,
        gas_limit: columns.gas_limit.get(row)?,
        gas_used: columns.gas_used.get(row)?,
        extra_data: texts::store(arena, columns.extra_data.get(row)?),
        uncles: texts::hashes(columns.uncles.get(row)?, arena)?,
        transactions: Transactions::default(),
        withdrawals: None,
        base_fee_per_gas: columns.base_fee_per_gas.get(row),
        difficulty: columns.difficulty.get(row),
        total_difficulty: columns.total_difficulty.get(row),
        size: columns.size.get(row),
        blob_gas_used: columns.blob_gas_used.get(row),
        excess_blob_gas: columns.excess_blob_gas.get(row),
        slot_number: columns.slot_number.get(row),
        l1_block_number: columns.l1_block_number.get(row),
        send_count: columns.send_count.get(row),
        nonce: columns.nonce.get(row),
        mix_hash: columns.mix_hash.get(row),
        withdrawals_root: columns.withdrawals_root.get(row),
        parent_beacon_block_root: columns.parent_beacon_block_root.get(row),
        requests_hash: columns.requests_hash.get(row),
        block_access_list_hash: columns.block_access_list_hash.get(row),
        send_root: columns.send_root.get(row),
        logs_bloom: columns.logs_bloom.get(row).map(Box::new),
        extra: texts::extra_keys(columns.extra.get(row), arena)?,
    })
}

pub fn withdrawal(
    columns: &WithdrawalColumns,
    row: usize,
    arena: &mut Vec<u8>,
) -> Option<Withdrawal> {
    Some(Withdrawal {
        index: columns.index.get(row)?,
        validator_index: columns.validator_index.get(row)?,
        address: columns.address.get(row)?,
        amount: columns.amount.get(row)?,
        extra: texts::extra(columns.extra.get(row), arena)?,
    })
}

pub fn transaction(
    columns: &TransactionColumns,
    row: usize,
    block_hash: &Hash,
    chain_id: u64,
    arena: &mut Vec<u8>,
) -> Option<Transaction> {
    let kind = u8::try_from(columns.kind.get(row)?).ok()?;
    let own_chain = if kind == LEGACY {
        None
    } else {
        columns.chain_id.get(row).map(big)
    };
    let mut found = Transaction {
        hash: columns.hash.get(row)?,
        block_hash: *block_hash,
        block_number: columns.block_number.get(row)?,
        transaction_index: columns.transaction_index.get(row)?,
        from: columns.from.get(row)?,
        to: columns.to.get(row),
        nonce: columns.nonce.get(row)?,
        gas: columns.gas.get(row)?,
        kind: Some(kind),
        value: columns.value.get(row),
        gas_price: columns.gas_price.get(row),
        max_fee_per_gas: columns.max_fee_per_gas.get(row),
        max_priority_fee_per_gas: columns.max_priority_fee_per_gas.get(row),
        max_fee_per_blob_gas: columns.max_fee_per_blob_gas.get(row),
        mint: columns.mint.get(row),
        input: columns.input.get(row).map(|it| texts::store(arena, it)),
        v: columns.v.get(row),
        y_parity: None,
        r: columns.r.get(row),
        s: columns.s.get(row),
        chain_id: own_chain,
        access_list: None,
        authorization_list: None,
        blob_versioned_hashes: None,
        source_hash: columns.source_hash.get(row),
        is_system_tx: columns.is_system_tx.get(row),
        extra: Slice::default(),
    };
    if let Some(text) = columns.access_list.get(row) {
        found.access_list = Some(texts::access_list(text, arena)?);
    }
    if let Some(text) = columns.authorization_list.get(row) {
        found.authorization_list = Some(texts::authorization_list(text, arena)?);
    }
    if let Some(text) = columns.blob_versioned_hashes.get(row) {
        found.blob_versioned_hashes = Some(texts::hashes(text, arena)?);
    }
    if let Some(text) = columns.extra.get(row) {
        restore_extra(&mut found, text, chain_id)?;
        found.extra = texts::store(arena, text);
    }
    Some(found)
}

/// Restore the fields that are stored in `extra`; `None` if decoding would not store them there.
fn restore_extra(it: &mut Transaction, text: &[u8], chain_id: u64) -> Option<()> {
    let members = texts::members(text)?;
    if let Some(value) = value_of(&members, "chainId") {
        it.chain_id = Some(quantity::<Word>(value)?);
    }
    if let Some(value) = value_of(&members, "yParity") {
        it.y_parity = Some(quantity::<U64>(value)?);
    }
    if let Some(receipt) = value_of(&members, "receipt") {
        texts::members(receipt)?;
    }
    let expected = strays(it, chain_id);
    let is_expected = |key| {
        let again = expected.iter().find(|it| it.0 == key).map(|it| &it.1[..]);
        value_of(&members, key) == again
    };
    (is_expected("chainId") && is_expected("yParity")).then_some(())
}

fn value_of<'a>(members: &Members<'a>, key: &str) -> Option<&'a [u8]> {
    members
        .iter()
        .find(|it| *it.0 == *key.as_bytes())
        .map(|it| it.1)
}

fn quantity<F: Form>(json: &[u8]) -> Option<F::Value> {
    let text = Reader::new(json).ok()?.text().ok()?;
    let mut value = F::EMPTY;
    (F::read(&text, &mut value) == Some(text.len())).then_some(value)
}

/// Restore the receipt of a transaction that has one; its logs are those at some positions.
pub fn receipt(
    columns: &TransactionColumns,
    row: usize,
    block_hash: &Hash,
    logs: Slice,
) -> Option<Receipt> {
    Some(Receipt {
        block_hash: *block_hash,
        block_number: columns.block_number.get(row)?,
        transaction_hash: columns.hash.get(row)?,
        transaction_index: columns.transaction_index.get(row)?,
        cumulative_gas_used: columns.cumulative_gas_used.get(row)?,
        logs,
        gas_used: columns.gas_used.get(row),
        status: columns.status.get(row),
        blob_gas_used: columns.blob_gas_used.get(row),
        deposit_nonce: columns.deposit_nonce.get(row),
        deposit_receipt_version: columns.deposit_receipt_version.get(row),
        gas_used_for_l1: columns.gas_used_for_l1.get(row),
        l1_block_number: columns.l1_block_number.get(row),
        effective_gas_price: columns.effective_gas_price.get(row),
        blob_gas_price: columns.blob_gas_price.get(row),
        l1_fee: columns.l1_fee.get(row),
        l1_gas_price: columns.l1_gas_price.get(row),
        l1_gas_used: columns.l1_gas_used.get(row),
        contract_address: columns.contract_address.get(row),
        root: columns.root.get(row),
        kind: columns.kind.get(row).and_then(|it| u8::try_from(it).ok()),
        ..Receipt::default()
    })
}

pub fn log(columns: &LogColumns, row: usize, arena: &mut Vec<u8>) -> Option<Log> {
    let mut found = Log {
        address: columns.address.get(row)?,
        data: texts::store(arena, columns.data.get(row)?),
        log_index: columns.log_index.get(row)?,
        extra: texts::extra(columns.extra.get(row), arena)?,
        ..Log::default()
    };
    let topics = [
        columns.topic0,
        columns.topic1,
        columns.topic2,
        columns.topic3,
    ];
    for topic in topics.into_iter().filter_map(|it| it.get(row)) {
        found.topics[usize::from(found.topic_count)] = topic;
        found.topic_count += 1;
    }
    Some(found)
}

pub fn range_log(columns: &LogColumns, row: usize, answer: &mut Answer) -> Option<RangeLog> {
    Some(RangeLog {
        log: log(columns, row, &mut answer.arena)?,
        block_hash: answer.block.hash,
        block_number: answer.block.number,
        transaction_hash: columns.transaction_hash.get(row)?,
        transaction_index: columns.transaction_index.get(row)?,
    })
}
