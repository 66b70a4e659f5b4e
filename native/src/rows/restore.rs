//! Restore the answers that rows were decoded from.

use std::ops::Range;

use arrow_array::RecordBatch;

use super::Stored;
use super::columns::{
    BlockColumns, Column, Int, LogColumns, TransactionColumns, WithdrawalColumns, variable_size,
};
use super::row;
use crate::model::{Answer, RangeLogs, Receipt, Slice, Transactions};

/// The columns of all rows of a batch together are shorter than this, so an arena can hold them.
const MOST_BYTES: usize = 1 << 30;
/// No block has more transactions: the reference examines one whose row says so.
const MOST_TRANSACTIONS: usize = 1 << 20;

/// Restore the blocks of some rows, ascending; `None` if something about the rows is unusual.
pub fn restore(stored: &Stored, chain_id: u64) -> Option<Vec<Answer>> {
    let others = [&stored.transactions, &stored.logs, &stored.withdrawals];
    let batches = others.into_iter().flatten().chain([&stored.blocks]);
    if batches.map(variable_size).sum::<usize>() > MOST_BYTES {
        return None;
    }
    let mut tables = Tables {
        chain_id,
        blocks: BlockColumns::of(&stored.blocks)?,
        transactions: Rows::new(stored.transactions.as_ref(), TransactionColumns::of)?,
        logs: Rows::new(stored.logs.as_ref(), LogColumns::of)?,
        withdrawals: Rows::new(stored.withdrawals.as_ref(), WithdrawalColumns::of)?,
    };
    let heights = tables.blocks.number.all()?;
    if !heights.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let blocks = heights.iter().enumerate();
    let answers = blocks
        .map(|(row, height)| tables.answer(row, *height))
        .collect::<Option<_>>()?;
    tables.are_taken().then_some(answers)
}

/// The columns of all stored tables.
struct Tables<'a> {
    chain_id: u64,
    blocks: BlockColumns<'a>,
    transactions: Option<Rows<'a, TransactionColumns<'a>>>,
    logs: Option<Rows<'a, LogColumns<'a>>>,
    withdrawals: Option<Rows<'a, WithdrawalColumns<'a>>>,
}

impl Tables<'_> {
    /// Restore the answers for the next block.
    fn answer(&mut self, row: usize, height: u64) -> Option<Answer> {
        let mut answer = Answer::default();
        answer.block = row::block(&self.blocks, row, &mut answer.arena)?;
        if let Some(withdrawals) = &mut self.withdrawals {
            let own = withdrawals.take(height);
            if self.blocks.withdrawal_count.get(row).is_some() {
                let (columns, arena) = (&withdrawals.columns, &mut answer.arena);
                let found = own.map(|it| row::withdrawal(columns, it, arena));
                answer.block.withdrawals = Some(found.collect::<Option<_>>()?);
            }
        }
        let emitted = self.logs.as_mut().map(|logs| logs.take(height));
        let Some(transactions) = &mut self.transactions else {
            let count = self.blocks.transaction_count.get(row)?;
            let count = usize::try_from(count).ok();
            let possible = count.filter(|it| *it <= MOST_TRANSACTIONS);
            answer.block.transactions = Transactions::Counted(possible?);
            return Some(answer);
        };
        let members = transactions.take(height);
        let columns = &transactions.columns;
        let (hash, arena) = (answer.block.hash, &mut answer.arena);
        let own = members.clone();
        let found = own.map(|it| row::transaction(columns, it, &hash, self.chain_id, arena));
        answer.block.transactions = Transactions::Full(found.collect::<Option<_>>()?);
        let (Some(logs), Some(emitted)) = (&self.logs, emitted) else {
            return Some(answer);
        };
        let mut own = members.clone();
        let has_receipts = own.any(|it| columns.cumulative_gas_used.get(it).is_some());
        if has_receipts || self.blocks.log_count.get(row).is_some() {
            add_receipts(&mut answer, (columns, members), (&logs.columns, emitted))?;
        } else {
            let found = emitted.map(|it| row::range_log(&logs.columns, it, &mut answer));
            let logs = found.collect::<Option<_>>()?;
            answer.range = Some(RangeLogs { logs, others: None });
        }
        Some(answer)
    }

    /// Whether every row belongs to one of the blocks.
    fn are_taken(&self) -> bool {
        self.transactions.as_ref().is_none_or(Rows::is_empty)
            && self.logs.as_ref().is_none_or(Rows::is_empty)
            && self.withdrawals.as_ref().is_none_or(Rows::is_empty)
    }
}

/// The columns of a table, and the heights of the rows that are not taken yet.
struct Rows<'a, C> {
    columns: C,
    heights: &'a [u64],
    start: usize,
}

impl<'a, C> Rows<'a, C> {
    /// `None` if the columns are not as declared; `Some(None)` if the table is not stored.
    fn new(
        rows: Option<&'a RecordBatch>,
        columns: impl FnOnce(&'a RecordBatch) -> Option<C>,
    ) -> Option<Option<Self>> {
        let Some(rows) = rows else { return Some(None) };
        let heights = Int::of(rows, "block_number")?.all()?;
        Some(Some(Self {
            columns: columns(rows)?,
            heights,
            start: 0,
        }))
    }

    /// Take the rows at a height, if they are next.
    fn take(&mut self, height: u64) -> Range<usize> {
        let start = self.start;
        self.start += self.heights[start..]
            .iter()
            .take_while(|it| **it == height)
            .count();
        start..self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.heights.len()
    }
}

/// Add the receipts and their logs; on some chains, a transaction may have none.
fn add_receipts(
    answer: &mut Answer,
    (columns, members): (&TransactionColumns, Range<usize>),
    (logs, emitted): (&LogColumns, Range<usize>),
) -> Option<()> {
    let mut receipts: Vec<Receipt> = Vec::with_capacity(members.len());
    let mut emitted = emitted.peekable();
    for row in members.filter(|it| columns.cumulative_gas_used.get(*it).is_some()) {
        let index = columns.transaction_index.get(row);
        let start = answer.logs.len();
        while let Some(own) = emitted.next_if(|it| logs.transaction_index.get(*it) == index) {
            let found = row::log(logs, own, &mut answer.arena)?;
            answer.logs.push(found);
        }
        let own = Slice::between(start, answer.logs.len());
        receipts.push(row::receipt(columns, row, &answer.block.hash, own)?);
    }
    answer.receipts = Some(receipts);
    // Logs that are left belong to no receipt, or are out of order.
    emitted.next().is_none().then_some(())
}
