//! Check fields that no hash covers, but that follow by arithmetic from proven ones.
//!
//! Nodes compute these fields on request, and get them wrong more often than the chain data: indices
//! that restart, prices by the rules of another fork, gas of the wrong transaction.

use super::findings::{grouped, grouped_big, hex, refuse};
use super::{Outcome, Subject};
use crate::encoding::{DEPOSIT, LEGACY, PROTECTED, SET_CODE, big, kind_of};
use crate::keccak::keccak;
use crate::model::{Address, Answer, Receipt, Transaction, U256};
use crate::rlp;
use crate::verdict::Check;

const GAS_PER_BLOB: u64 = 1 << 17;

pub fn derived(it: &Subject) -> Outcome {
    let Some(pairs) = it.rooted_pairs() else {
        return Ok(false);
    };
    let pairs = pairs.or_else(|finding| refuse(Check::Derived, finding))?;
    let mut used = 0;
    for (position, (transaction, receipt)) in pairs.enumerate() {
        let gas = i128::from(receipt.cumulative_gas_used) - i128::from(used);
        let finding = receipt_finding(transaction, receipt, gas, it.answer)
            .or_else(|| signature_finding(transaction));
        if let Some(finding) = finding {
            return refuse(Check::Derived, format!("transaction {position}: {finding}"));
        }
        used = receipt.cumulative_gas_used;
    }
    Ok(true)
}

pub fn prices(it: &Subject) -> Outcome {
    let Some(pairs) = it.rooted_pairs() else {
        return Ok(false);
    };
    let pairs = pairs.or_else(|finding| refuse(Check::Prices, finding))?;
    let base_fee = it.block().base_fee_per_gas.unwrap_or_default();
    for (position, (transaction, receipt)) in pairs.enumerate() {
        if let Some(given) = receipt.effective_gas_price
            && Some(given) != price(transaction, &base_fee)
        {
            let price = grouped_big(&given);
            let finding = format!("transaction {position} cannot have the gas price {price}");
            return refuse(Check::Prices, finding);
        }
    }
    Ok(true)
}

/// Check that logs are numbered without a gap.
pub fn log_index(it: &Subject) -> Outcome {
    let Some(receipts) = it.receipts() else {
        return Ok(false);
    };
    let logs = receipts
        .iter()
        .flat_map(|receipt| it.answer.logs_of(receipt));
    for (expected, log) in (0..).zip(logs) {
        if log.log_index != expected {
            let finding = format!("log {expected} has the index {:#x}", log.log_index);
            return refuse(Check::LogIndex, finding);
        }
    }
    Ok(true)
}

/// Return what a transaction paid per unit of gas.
pub fn price(it: &Transaction, base_fee: &U256) -> Option<U256> {
    match (it.max_fee_per_gas, it.max_priority_fee_per_gas) {
        (Some(limit), Some(tip)) => Some(sum(base_fee, &tip).map_or(limit, |it| it.min(limit))),
        _ => it.gas_price,
    }
}

/// Return the sum of two numbers; `None` if it is too large.
fn sum(one: &U256, other: &U256) -> Option<U256> {
    let mut sum = U256::default();
    let mut carry = 0;
    for at in (0..sum.len()).rev() {
        let digit = u16::from(one[at]) + u16::from(other[at]) + carry;
        sum[at] = digit as u8;
        carry = digit >> 8;
    }
    (carry == 0).then_some(sum)
}

/// Return the gas that a transaction's blobs use.
pub fn blob_gas(it: &Transaction) -> u64 {
    it.blob_versioned_hashes
        .as_ref()
        .map_or(0, |it| it.len() as u64)
        * GAS_PER_BLOB
}

/// Return the address of the contract that a transaction creates; `None` if it is unknown.
pub fn created(transaction: &Transaction, receipt: &Receipt) -> Option<Address> {
    if transaction.to.is_some() {
        return None;
    }
    let nonce = match kind_of(transaction) {
        // These create contracts by Ethereum's rule on every chain.
        LEGACY..=SET_CODE => transaction.nonce,
        DEPOSIT => receipt.deposit_nonce?,
        _ => return None,
    };
    let mut creator = Vec::with_capacity(32);
    rlp::list(&mut creator, |out| {
        rlp::address(out, &transaction.from);
        rlp::number(out, nonce);
    });
    keccak(&creator).last_chunk().copied()
}

fn receipt_finding(
    transaction: &Transaction,
    receipt: &Receipt,
    gas: i128,
    answer: &Answer,
) -> Option<String> {
    if let Some(given) = receipt.gas_used
        && i128::from(given) != gas
    {
        let sign = if gas < 0 { "-" } else { "" };
        let (actual, given) = (grouped(gas.unsigned_abs()), grouped(given.into()));
        return Some(format!("it used {sign}{actual} gas, not {given}"));
    }
    if answer.logs_of(receipt).iter().any(|log| log.removed) {
        return Some("a log is marked as removed".to_owned());
    }
    if let Some(given) = receipt.blob_gas_used
        && given != blob_gas(transaction)
    {
        let blobs = transaction
            .blob_versioned_hashes
            .as_ref()
            .map_or(0, Vec::len);
        return Some(format!("{blobs} blobs do not use {given:#x} gas"));
    }
    let given = receipt.contract_address?;
    let is_possible = transaction.to.is_none()
        && created(transaction, receipt).is_none_or(|actual| actual == given);
    (!is_possible).then(|| format!("it did not create {}", hex(&given)))
}

/// Find a contradiction between `v` and the fields that repeat parts of it.
fn signature_finding(it: &Transaction) -> Option<String> {
    let v = it.v?;
    if kind_of(it) != LEGACY {
        let differs = it.y_parity.is_some_and(|parity| parity != v);
        return differs.then(|| "`v` and `yParity` differ".to_owned());
    }
    let signed = v.checked_sub(PROTECTED)? / 2;
    let differs = it.chain_id.is_some_and(|given| given != big(signed));
    differs.then(|| format!("it is signed for chain {signed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_numbers_with_carry() {
        assert_eq!(sum(&big(u64::MAX), &big(1)).map(|it| it[23]), Some(1));
        assert_eq!(sum(&[255; 32], &big(1)), None);
    }

    #[test]
    fn limits_the_price_by_the_maximum_fee() {
        let mut it = Transaction {
            max_fee_per_gas: Some(big(50)),
            max_priority_fee_per_gas: Some(big(7)),
            gas_price: Some(big(3)),
            ..Transaction::default()
        };
        assert_eq!(price(&it, &big(40)), Some(big(47)));
        assert_eq!(price(&it, &big(49)), Some(big(50)));
        it.max_priority_fee_per_gas = Some([255; 32]);
        assert_eq!(price(&it, &big(49)), Some(big(50)));
        it.max_fee_per_gas = None;
        assert_eq!(price(&it, &big(49)), Some(big(3)));
    }
}
