//! Which receipt belongs to which transaction, and whether all rows are where they say they are.
//!
//! Positions are counted, not stored from the answer, so an answer with other positions is refused.

use crate::model::{Answer, Hash, Receipt, Transaction, Transactions};

/// The receipt of each transaction; a transaction that never ran may have none.
pub type Pairs = Vec<Option<u32>>;

/// Pair transactions with receipts; `None` if a receipt has no transaction, or is out of order.
pub fn pair(answer: &Answer) -> Option<Pairs> {
    let Transactions::Full(rows) = &answer.block.transactions else {
        return Some(Pairs::new());
    };
    let receipts = answer.receipts.as_deref().unwrap_or_default();
    let mut rest = receipts.iter().enumerate().peekable();
    let mut receipt_of = |hash: &Hash| {
        rest.next_if(|(_, receipt)| receipt.transaction_hash == *hash)
            .map(|(at, _)| at as u32)
    };
    let pairs = rows.iter().map(|row| receipt_of(&row.hash)).collect();
    rest.peek().is_none().then_some(pairs)
}

/// Return what is misplaced in a block whose checks have passed.
pub fn misplaced(answer: &Answer) -> Option<String> {
    let block = &answer.block;
    if let Transactions::Full(rows) = &block.transactions
        && let Some(at) = (0..)
            .zip(rows)
            .position(|(at, row)| row.transaction_index != at)
    {
        let found = rows[at].transaction_index;
        return Some(format!(
            "the transaction at position {at} has `transactionIndex` {found:#x}"
        ));
    }
    // Logs of a range are stored only where receipts are absent.
    let range = match (&answer.receipts, &answer.range) {
        (None, Some(range)) => &range.logs[..],
        _ => &[],
    };
    if answer
        .logs
        .iter()
        .chain(range.iter().map(|it| &it.log))
        .any(|log| log.removed)
    {
        return Some("a reorganisation removed a log".into());
    }
    if range
        .iter()
        .any(|it| (it.block_number, it.block_hash) != (block.number, block.hash))
    {
        return Some("a log belongs to another block".into());
    }
    let is_sorted = range.is_sorted_by_key(|it| it.transaction_index);
    (!is_sorted).then(|| "logs are not in chain order".into())
}

/// A transaction and its receipt.
pub fn paired<'a>(
    answer: &'a Answer,
    pairs: &'a Pairs,
) -> impl Iterator<Item = (&'a Transaction, Option<&'a Receipt>)> {
    let rows = match &answer.block.transactions {
        Transactions::Full(rows) => &rows[..],
        Transactions::Hashes(_) | Transactions::Counted(_) => &[],
    };
    let receipts = answer.receipts.as_deref().unwrap_or_default();
    rows.iter()
        .zip(pairs)
        .map(|(row, pair)| (row, pair.map(|at| &receipts[at as usize])))
}
