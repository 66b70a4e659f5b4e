//! Polygon's state-sync transaction, which the roots of a block do not cover.
//!
//! In some blocks, its client Bor appends a transaction that transfers state from Ethereum, with a
//! receipt. Neither is included in the roots, the bloom or the gas. The transaction is recognized by
//! its hash, which is derived from the block's.

use crate::keccak::keccak;
use crate::model::{Answer, Hash, Transactions};
use crate::verdict::Question;

/// Return the hash of the block's last transaction if that is a state-sync transaction.
pub fn hash(answer: &Answer, question: &Question) -> Option<Hash> {
    if question.network.sprint == 0 {
        return None;
    }
    let last = match &answer.block.transactions {
        Transactions::Full(transactions) => transactions.last()?.hash,
        Transactions::Hashes(hashes) => *hashes.last()?,
        Transactions::Counted(_) => return None,
    };
    let height = question.height.to_be_bytes();
    let key = [b"matic-bor-receipt-", &height[..], &answer.block.hash].concat();
    (keccak(&key) == last).then_some(last)
}
