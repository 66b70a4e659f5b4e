//! Check that a block is consistent. These checks are cheap, but prove little on their own.

use super::findings::{grouped, refuse};
use super::{Outcome, Subject};
use crate::bloom;
use crate::keccak::keccak;
use crate::model::{Bloom, Hash, Receipt};
use crate::rlp;
use crate::trie::EMPTY_ROOT;
use crate::verdict::Check;

pub fn height(it: &Subject) -> Outcome {
    let number = it.block().number;
    if number != it.question.height {
        return refuse(Check::Height, format!("its number is {number:#x}"));
    }
    Ok(true)
}

pub fn counts(it: &Subject) -> Outcome {
    let Some(receipts) = it.receipts() else {
        return Ok(false);
    };
    if receipts.len() != it.count() {
        let (transactions, receipts) = (it.count(), receipts.len());
        let finding = format!("it has {transactions} transactions, but {receipts} receipts");
        return refuse(Check::Counts, finding);
    }
    Ok(true)
}

/// Check that transactions and receipts name this block and their positions in it.
pub fn places(it: &Subject) -> Outcome {
    let names_block =
        |hash: &Hash, number: u64| *hash == it.block().hash && number == it.block().number;
    let transactions = it.transactions().unwrap_or_default();
    if !transactions
        .iter()
        .all(|it| names_block(&it.block_hash, it.block_number))
    {
        return refuse(Check::Places, "a transaction names another block");
    }
    if !(0..)
        .zip(transactions)
        .all(|(position, it)| it.transaction_index == position)
    {
        let finding = "its transactions are not numbered from 0 without gaps";
        return refuse(Check::Places, finding);
    }
    let receipts = it.receipts().unwrap_or_default();
    if !receipts
        .iter()
        .all(|it| names_block(&it.block_hash, it.block_number))
    {
        return refuse(Check::Places, "a receipt names another block");
    }
    if !are_placed(it, receipts) {
        return refuse(
            Check::Places,
            "its receipts do not match its transactions in order",
        );
    }
    Ok(true)
}

/// Whether receipts, of which some may be missing, have the positions of their transactions.
fn are_placed(it: &Subject, receipts: &[Receipt]) -> bool {
    let ascend = receipts.is_sorted_by(|one, next| one.transaction_index < next.transaction_index);
    let fits = |receipt: &Receipt| {
        it.hash_at(receipt.transaction_index) == Some(&receipt.transaction_hash)
    };
    ascend && receipts.iter().all(fits)
}

/// Check that a root is that of the empty list if and only if the list is empty.
pub fn empty(it: &Subject) -> Outcome {
    let block = it.block();
    let transactions = it.rooted_count();
    if (block.transactions_root == EMPTY_ROOT) != (transactions == 0) {
        let finding = format!("its transactions root does not fit {transactions} transactions");
        return refuse(Check::Empty, finding);
    }
    let no_uncles = keccak(&[rlp::EMPTY_LIST]);
    if (block.sha3_uncles == no_uncles) != block.uncles.is_empty() {
        let finding = format!("its uncles hash does not fit {} uncles", block.uncles.len());
        return refuse(Check::Empty, finding);
    }
    if let Some(root) = block.withdrawals_root
        && it.question.supported.has(Check::WithdrawalsRoot)
    {
        let withdrawals = block.withdrawals.as_ref().map_or(0, Vec::len);
        if (root == EMPTY_ROOT) != (withdrawals == 0) {
            let finding = format!("its withdrawals root does not fit {withdrawals} withdrawals");
            return refuse(Check::Empty, finding);
        }
    }
    if let Some(receipts) = &it.rooted_receipts
        && (block.receipts_root == EMPTY_ROOT) != receipts.is_empty()
    {
        let finding = format!("its receipts root does not fit {} receipts", receipts.len());
        return refuse(Check::Empty, finding);
    }
    Ok(true)
}

pub fn gas(it: &Subject) -> Outcome {
    let Some(receipts) = &it.rooted_receipts else {
        return Ok(false);
    };
    let last = receipts.last().map_or(0, |it| it.cumulative_gas_used);
    let used = it.block().gas_used;
    if last != used {
        let (last, used) = (grouped(last.into()), grouped(used.into()));
        return refuse(
            Check::Gas,
            format!("its receipts used {last} gas, not {used}"),
        );
    }
    Ok(true)
}

/// Check that each receipt's bloom is that of its logs.
pub fn receipt_blooms(it: &Subject) -> Outcome {
    let Some(receipts) = it.receipts() else {
        return Ok(false);
    };
    for receipt in receipts {
        let Some(claimed) = &receipt.logs_bloom else {
            return Ok(false);
        };
        if **claimed != bloom_of(it, receipt) {
            let position = receipt.transaction_index;
            let finding = format!("the logs of receipt {position:#x} do not match its bloom");
            return refuse(Check::ReceiptBlooms, finding);
        }
    }
    Ok(true)
}

/// Check that the header's bloom is the union of the receipts' blooms.
///
/// `receipt_blooms` checks each of those.
pub fn bloom(it: &Subject) -> Outcome {
    let (Some(receipts), Some(claimed)) = (&it.rooted_receipts, &it.block().logs_bloom) else {
        return Ok(false);
    };
    let mut united = bloom::EMPTY;
    for receipt in receipts.iter().filter(|it| it.logs.len > 0) {
        match &receipt.logs_bloom {
            Some(own) => bloom::unite(&mut united, own),
            None => bloom::unite(&mut united, &bloom_of(it, receipt)),
        }
    }
    if united != **claimed {
        return refuse(
            Check::Bloom,
            "its logs do not match the bloom in its header",
        );
    }
    Ok(true)
}

fn bloom_of(it: &Subject, receipt: &Receipt) -> Bloom {
    bloom::of_logs(it.answer.logs_of(receipt))
}
