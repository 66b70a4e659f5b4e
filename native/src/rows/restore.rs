//! Restore the answers that rows were decoded from.
//!
//! Fields that are not stored because they follow from others, such as a receipt's bloom or
//! `yParity`, are omitted, as in the answer of an old node.

use std::ops::Range;

use super::Stored;
use super::columns::{
    BlockColumns, LogColumns, TransactionColumns, WithdrawalColumns, variable_size,
};
use super::texts::{self, Members};
use crate::encoding::{LEGACY, big};
use crate::extras::strays;
use crate::forms::{Form, U64, Word};
use crate::json::Reader;
use crate::model::{
    Answer, Block, Hash, Log, RangeLog, RangeLogs, Receipt, Slice, Transaction, Transactions,
    Withdrawal,
};

/// The columns of all rows of a batch together are shorter than this, so an arena can hold them.
const MOST_BYTES: usize = 1 << 30;
/// No block has more transactions, and fewer bytes than this are allocated for their hashes.
const MOST_TRANSACTIONS: u64 = 1 << 20;

/// Restore the blocks of some rows, ascending; `None` if something about the rows is unusual.
pub fn restore(stored: &Stored, chain_id: u64) -> Option<Vec<Answer>> {
    let others = [&stored.transactions, &stored.logs, &stored.withdrawals];
    let batches = others.into_iter().flatten().chain([&stored.blocks]);
    if batches.map(variable_size).sum::<usize>() > MOST_BYTES {
        return None;
    }
    let blocks = BlockColumns::of(&stored.blocks)?;
    let heights = blocks.number.all()?;
    if !heights.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let transactions = match &stored.transactions {
        Some(rows) => Some(TransactionColumns::of(rows)?),
        None => None,
    };
    let logs = match &stored.logs {
        Some(rows) => Some(LogColumns::of(rows)?),
        None => None,
    };
    let withdrawals = match &stored.withdrawals {
        Some(rows) => Some(WithdrawalColumns::of(rows)?),
        None => None,
    };
    let mut transaction_rows = Parts::new(transactions.as_ref().map(|it| it.block_number.all()))?;
    let mut log_rows = Parts::new(logs.as_ref().map(|it| it.block_number.all()))?;
    let mut withdrawal_rows = Parts::new(withdrawals.as_ref().map(|it| it.block_number.all()))?;
    let mut answers = Vec::with_capacity(heights.len());
    for (row, &height) in heights.iter().enumerate() {
        let mut answer = Answer::default();
        let (emitted, withdrawn) = (log_rows.take(height), withdrawal_rows.take(height));
        answer.block = block(&blocks, row, &mut answer.arena)?;
        if let Some(columns) = &withdrawals
            && blocks.withdrawal_count.get(row).is_some()
        {
            let found = withdrawn.map(|it| withdrawal(columns, it, &mut answer.arena));
            answer.block.withdrawals = Some(found.collect::<Option<_>>()?);
        }
        let members = transaction_rows.take(height);
        let Some(columns) = &transactions else {
            let count = blocks
                .transaction_count
                .get(row)
                .filter(|it| *it <= MOST_TRANSACTIONS)?;
            let hashes = vec![Hash::default(); count as usize];
            answer.block.transactions = Transactions::Hashes(hashes);
            answers.push(answer);
            continue;
        };
        let hash = answer.block.hash;
        let found = members
            .clone()
            .map(|it| transaction(columns, it, &hash, chain_id, &mut answer.arena));
        answer.block.transactions = Transactions::Full(found.collect::<Option<_>>()?);
        let has_receipts = members
            .clone()
            .any(|it| columns.cumulative_gas_used.get(it).is_some());
        if let Some(logs) = &logs {
            if blocks.log_count.get(row).is_none() && !has_receipts {
                let found = emitted.map(|it| range_log(logs, it, &mut answer));
                let logs = found.collect::<Option<_>>()?;
                answer.range = Some(RangeLogs { logs, others: None });
            } else {
                add_receipts(&mut answer, (columns, members), (logs, emitted))?;
            }
        }
        answers.push(answer);
    }
    let are_complete = transaction_rows.is_empty() && log_rows.is_empty();
    (are_complete && withdrawal_rows.is_empty()).then_some(answers)
}

/// The rows of a table that are not taken yet, by the heights of their blocks.
struct Parts<'a> {
    heights: &'a [u64],
    start: usize,
}

impl<'a> Parts<'a> {
    /// `None` if a height is null; a table that is absent has no rows.
    fn new(heights: Option<Option<&'a [u64]>>) -> Option<Self> {
        let heights = heights.unwrap_or(Some(&[]))?;
        Some(Self { heights, start: 0 })
    }

    /// Take the rows at a height, if they are next.
    fn take(&mut self, height: u64) -> Range<usize> {
        let start = self.start;
        let count = self.heights[start..]
            .iter()
            .take_while(|it| **it == height)
            .count();
        self.start += count;
        start..self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.heights.len()
    }
}

fn block(columns: &BlockColumns, row: usize, arena: &mut Vec<u8>) -> Option<Block> {
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

fn withdrawal(columns: &WithdrawalColumns, row: usize, arena: &mut Vec<u8>) -> Option<Withdrawal> {
    Some(Withdrawal {
        index: columns.index.get(row)?,
        validator_index: columns.validator_index.get(row)?,
        address: columns.address.get(row)?,
        amount: columns.amount.get(row)?,
        extra: texts::extra(columns.extra.get(row), arena)?,
    })
}

fn transaction(
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

/// Add the receipts and their logs; on some chains, a transaction may have none.
fn add_receipts(
    answer: &mut Answer,
    (columns, members): (&TransactionColumns, Range<usize>),
    (logs, emitted): (&LogColumns, Range<usize>),
) -> Option<()> {
    let mut receipts = Vec::with_capacity(members.len());
    let mut emitted = emitted.peekable();
    for row in members {
        let Some(cumulative_gas_used) = columns.cumulative_gas_used.get(row) else {
            continue;
        };
        let index = columns.transaction_index.get(row)?;
        let start = answer.logs.len();
        while let Some(own) = emitted.next_if(|it| logs.transaction_index.get(*it) == Some(index)) {
            let found = log(logs, own, &mut answer.arena)?;
            answer.logs.push(found);
        }
        receipts.push(Receipt {
            block_hash: answer.block.hash,
            block_number: columns.block_number.get(row)?,
            transaction_hash: columns.hash.get(row)?,
            transaction_index: index,
            cumulative_gas_used,
            logs: Slice::between(start, answer.logs.len()),
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
        });
    }
    answer.receipts = Some(receipts);
    // Logs that are left belong to no receipt, or are out of order.
    emitted.next().is_none().then_some(())
}

fn log(columns: &LogColumns, row: usize, arena: &mut Vec<u8>) -> Option<Log> {
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

fn range_log(columns: &LogColumns, row: usize, answer: &mut Answer) -> Option<RangeLog> {
    Some(RangeLog {
        log: log(columns, row, &mut answer.arena)?,
        block_hash: answer.block.hash,
        block_number: answer.block.number,
        transaction_hash: columns.transaction_hash.get(row)?,
        transaction_index: columns.transaction_index.get(row)?,
    })
}
