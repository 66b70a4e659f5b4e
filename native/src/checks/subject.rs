//! A block under check, with everything that the checks need to know about it.
//!
//! This is more than the block because of Polygon, where a transaction and its receipt may be outside
//! the roots; see `state_sync`. The checks of roots use the lists without it.

use super::state_sync;
use crate::model::{Answer, Block, Hash, Receipt, Transaction, Transactions};
use crate::verdict::Question;

pub struct Subject<'a> {
    pub answer: &'a Answer,
    pub question: &'a Question,
    /// The hash of the transaction that the roots do not cover.
    pub unrooted: Option<Hash>,
    /// `None`: receipts were not requested.
    pub rooted_receipts: Option<Vec<&'a Receipt>>,
}

impl<'a> Subject<'a> {
    pub fn new(answer: &'a Answer, question: &'a Question) -> Self {
        let unrooted = state_sync::hash(answer, question);
        let is_rooted = |it: &&Receipt| Some(it.transaction_hash) != unrooted;
        let receipts = answer.receipts.as_ref();
        let rooted_receipts = receipts.map(|all| all.iter().filter(is_rooted).collect());
        Self {
            answer,
            question,
            unrooted,
            rooted_receipts,
        }
    }

    pub fn block(&self) -> &'a Block {
        &self.answer.block
    }

    pub fn receipts(&self) -> Option<&'a [Receipt]> {
        self.answer.receipts.as_deref()
    }

    /// `None`: only their hashes are known.
    pub fn transactions(&self) -> Option<&'a [Transaction]> {
        match &self.block().transactions {
            Transactions::Full(transactions) => Some(transactions),
            Transactions::Hashes(_) | Transactions::Counted(_) => None,
        }
    }

    pub fn rooted_transactions(&self) -> Option<&'a [Transaction]> {
        self.transactions().map(|all| &all[..self.rooted_count()])
    }

    /// Pairs of transactions and receipts that the roots cover, if both are known.
    ///
    /// The error is a clause: the numbers of both must be equal to pair them.
    pub fn rooted_pairs(
        &self,
    ) -> Option<Result<impl Iterator<Item = (&'a Transaction, &'a Receipt)>, String>> {
        let transactions = self.rooted_transactions()?;
        let receipts = self.rooted_receipts.as_ref()?;
        if transactions.len() != receipts.len() {
            let (one, other) = (transactions.len(), receipts.len());
            return Some(Err(format!("{one} transactions have {other} receipts")));
        }
        Some(Ok(transactions.iter().zip(receipts.iter().copied())))
    }

    pub fn count(&self) -> usize {
        match &self.block().transactions {
            Transactions::Full(transactions) => transactions.len(),
            Transactions::Hashes(hashes) => hashes.len(),
            Transactions::Counted(count) => *count,
        }
    }

    pub fn rooted_count(&self) -> usize {
        self.count() - usize::from(self.has_unrooted())
    }

    pub fn has_unrooted(&self) -> bool {
        self.unrooted.is_some()
    }

    /// The hash of the transaction at a position.
    pub fn hash_at(&self, position: u64) -> Option<&'a Hash> {
        let position = usize::try_from(position).ok()?;
        match &self.block().transactions {
            Transactions::Full(transactions) => transactions.get(position).map(|it| &it.hash),
            Transactions::Hashes(hashes) => hashes.get(position),
            Transactions::Counted(_) => None,
        }
    }
}
