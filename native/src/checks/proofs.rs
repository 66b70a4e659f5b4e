//! Prove that a block is the one its chain committed to, by the header's hash and the roots in it.
//!
//! A proof is not possible if an encoding is unknown, or the node does not return all of its fields,
//! which does not mean that the block is wrong.

use super::findings::{hex, refuse};
use super::{Outcome, Subject, consistency};
use crate::encoding::{self, Unencodable, kind_of};
use crate::header;
use crate::trie::Items;
use crate::verdict::Check;

pub fn header(it: &Subject) -> Outcome {
    match header::hash(it.answer, it.question.network.header) {
        Ok(actual) if actual == it.block().hash => Ok(true),
        Ok(actual) => refuse(
            Check::HeaderHash,
            format!("its header hashes to {}", hex(&actual)),
        ),
        Err(error) => unproven(Check::HeaderHash, error),
    }
}

pub fn receipts(it: &Subject) -> Outcome {
    let Some(receipts) = &it.rooted_receipts else {
        return Ok(false);
    };
    // Before Byzantium, receipts hold a state root, which some nodes have not kept.
    let is_early = it.question.height < it.question.network.byzantium;
    if is_early && receipts.iter().any(|each| each.root.is_none()) {
        return Ok(false);
    }
    let mut items = Items::with_capacity(it.answer.arena.len(), receipts.len());
    for each in receipts {
        let kind = each.kind.unwrap_or(encoding::LEGACY);
        let encoded = items.push(kind, |out| encoding::receipt(out, each, it.answer));
        if let Err(error) = encoded {
            return unproven(Check::ReceiptsRoot, error);
        }
    }
    let root = items.root();
    if root == it.block().receipts_root {
        return Ok(true);
    }
    // A cheaper check that fails too is more specific than a root.
    consistency::gas(it)?;
    consistency::receipt_blooms(it)?;
    consistency::bloom(it)?;
    let finding = format!(
        "its {} receipts have the root {}",
        receipts.len(),
        hex(&root)
    );
    refuse(Check::ReceiptsRoot, finding)
}

/// Prove the transactions root and the hash of every transaction.
pub fn transactions(it: &Subject) -> Outcome {
    let Some(transactions) = it.rooted_transactions() else {
        return Ok(false);
    };
    check_types(it)?;
    let mut items = Items::with_capacity(it.answer.arena.len() / 2, transactions.len());
    for each in transactions {
        let encoded = items.push(kind_of(each), |out| {
            encoding::transaction(out, each, it.answer)
        });
        if let Err(error) = encoded {
            return unproven(Check::TransactionsRoot, error);
        }
    }
    let (root, hashes) = items.root_and_hashes();
    if root != it.block().transactions_root {
        let count = transactions.len();
        let finding = format!("its {count} transactions have the root {}", hex(&root));
        return refuse(Check::TransactionsRoot, finding);
    }
    for (position, (each, actual)) in transactions.iter().zip(&hashes).enumerate() {
        if each.hash != *actual {
            let finding = format!("transaction {position} hashes to {}", hex(actual));
            return refuse(Check::TransactionsRoot, finding);
        }
    }
    Ok(true)
}

/// Check that each transaction has the type of its receipt.
///
/// The receipts root covers the types of receipts. So a node cannot avoid the proof of a transaction
/// by giving it an unknown type.
fn check_types(it: &Subject) -> Outcome {
    let transactions = it.rooted_transactions().unwrap_or_default();
    let receipts = it.rooted_receipts.iter().flatten();
    for (position, (transaction, receipt)) in transactions.iter().zip(receipts).enumerate() {
        if let (Some(own), Some(other)) = (transaction.kind, receipt.kind)
            && own != other
        {
            let finding = format!("transaction {position} has type {own:#x}, but its receipt has");
            return refuse(
                Check::TransactionsRoot,
                format!("{finding} type {other:#x}"),
            );
        }
    }
    Ok(true)
}

pub fn withdrawals(it: &Subject) -> Outcome {
    let (root, withdrawals) = match (&it.block().withdrawals_root, &it.block().withdrawals) {
        (None, None) => return Ok(true),
        (Some(root), Some(withdrawals)) => (root, withdrawals),
        _ => {
            let finding = "it has withdrawals or their root, but not both";
            return refuse(Check::WithdrawalsRoot, finding);
        }
    };
    let mut items = Items::default();
    for each in withdrawals {
        items.push_plain(|out| encoding::withdrawal(out, each));
    }
    let actual = items.root();
    if actual != *root {
        let count = withdrawals.len();
        let finding = format!("its {count} withdrawals have the root {}", hex(&actual));
        return refuse(Check::WithdrawalsRoot, finding);
    }
    Ok(true)
}

fn unproven(check: Check, error: Unencodable) -> Outcome {
    match error {
        Unencodable::Unknown => Ok(false),
        Unencodable::Invalid(finding) => refuse(check, finding),
    }
}
