//! Fill in fields that an honest node may omit and that follow from other fields.
//!
//! Old nodes omit `effectiveGasPrice` and `blobGasUsed`, and some return null for the contract that a
//! failed transaction would have created. These fields follow by arithmetic, so they are computed
//! here, before the checks prove the fields that they are computed from. A field that the node returns
//! is not changed; the checks decide whether it contradicts the others.

use crate::bloom;
use crate::checks::derived::{blob_gas, created, price};
use crate::checks::state_sync;
use crate::encoding::{BLOB, DEPOSIT, DYNAMIC, LEGACY, SET_CODE};
use crate::model::{AccessList, Answer, Receipt, Transaction, Transactions, U256};
use crate::trie::EMPTY_ROOT;
use crate::verdict::{Check, Question};

/// Fill in the missing fields of a parsed block.
pub fn complete(answer: &mut Answer, question: &Question) {
    let unrooted = state_sync::hash(answer, question);
    let is_rooted = |it: &Receipt| Some(it.transaction_hash) != unrooted;
    if answer.block.logs_bloom.is_none() && question.supported.has(Check::Bloom) {
        let receipts = answer.receipts.as_deref();
        let rooted = receipts.map(|all| all.iter().filter(|it| is_rooted(it)));
        let logs = rooted.map(|all| all.flat_map(|it| answer.logs_of(it)));
        answer.block.logs_bloom = logs.map(|all| Box::new(bloom::of_logs(all)));
    }
    let Answer {
        block, receipts, ..
    } = answer;
    if block.withdrawals_root == Some(EMPTY_ROOT) && block.withdrawals.is_none() {
        block.withdrawals = Some(Vec::new());
    }
    if let Transactions::Full(transactions) = &mut block.transactions {
        transactions.iter_mut().for_each(complete_transaction);
    }
    let (Transactions::Full(transactions), Some(receipts)) = (&mut block.transactions, receipts)
    else {
        return;
    };
    let rooted = transactions.len() - usize::from(unrooted.is_some());
    if receipts.iter().filter(|it| is_rooted(it)).count() != rooted {
        return;
    }
    let base_fee = block.base_fee_per_gas.unwrap_or_default();
    let mut used = 0;
    let receipts = receipts.iter_mut().filter(|it| is_rooted(it));
    for (transaction, receipt) in transactions[..rooted].iter_mut().zip(receipts) {
        complete_receipt(transaction, receipt, used);
        used = receipt.cumulative_gas_used;
        if question.supported.has(Check::Prices) {
            complete_prices(transaction, receipt, &base_fee);
        }
        if question.supported.has(Check::Derived) {
            complete_derived(transaction, receipt);
        }
    }
}

/// Fill in the type, and fields for which absent, empty and zero mean the same.
fn complete_transaction(it: &mut Transaction) {
    let kind = it.kind.unwrap_or_else(|| kind_by_fields(it));
    it.kind = Some(kind);
    match kind {
        1..=SET_CODE => {
            it.access_list.get_or_insert_with(AccessList::default);
        }
        DEPOSIT => {
            it.mint.get_or_insert_default();
            it.gas_price.get_or_insert_default();
            it.is_system_tx.get_or_insert_default();
        }
        _ => {}
    }
}

/// The type of a transaction whose node omits it.
fn kind_by_fields(it: &Transaction) -> u8 {
    if it.authorization_list.is_some() {
        SET_CODE
    } else if it.blob_versioned_hashes.is_some() {
        BLOB
    } else if it.max_fee_per_gas.is_some() {
        DYNAMIC
    } else if it.access_list.is_some() {
        1
    } else {
        LEGACY
    }
}

fn complete_receipt(transaction: &Transaction, receipt: &mut Receipt, used_before: u64) {
    receipt.kind = receipt.kind.or(transaction.kind);
    let used = receipt.cumulative_gas_used.checked_sub(used_before);
    receipt.gas_used = receipt.gas_used.or(used);
}

fn complete_prices(transaction: &mut Transaction, receipt: &mut Receipt, base_fee: &U256) {
    let price = price(transaction, base_fee);
    receipt.effective_gas_price = receipt.effective_gas_price.or(price);
    if transaction.kind >= Some(DYNAMIC) {
        transaction.gas_price = transaction.gas_price.or(price);
    }
}

fn complete_derived(transaction: &Transaction, receipt: &mut Receipt) {
    if transaction.kind == Some(BLOB) {
        receipt
            .blob_gas_used
            .get_or_insert_with(|| blob_gas(transaction));
    }
    if receipt.contract_address.is_none() {
        receipt.contract_address = created(transaction, receipt);
    }
}
