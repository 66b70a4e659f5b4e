//! Check that every sender is the signer of its transaction.
//!
//! No root covers `from`. Recovering a key from each signature takes longer than all other checks of a
//! block together, so this check is only run on request.

use secp256k1::Message;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};

use super::findings::{hex, refuse};
use super::{Outcome, Subject};
use crate::encoding::{self, DEPOSIT, LEGACY, PROTECTED, Unencodable, is_signed, kind_of};
use crate::keccak::keccak;
use crate::model::{Address, Answer, Transaction};
use crate::rlp;
use crate::verdict::Check;

const UNPROTECTED: u64 = 27;

/// Return whether all senders could be recovered; refuse the block if one differs.
pub fn senders(it: &Subject) -> Outcome {
    let Some(transactions) = it.rooted_transactions() else {
        return Ok(false);
    };
    let mut all_recovered = true;
    let mut buffer = Vec::new();
    for (position, transaction) in transactions.iter().enumerate() {
        let kind = kind_of(transaction);
        if !is_signed(kind) {
            // A deposit's encoding contains the sender, so the transactions root covers it.
            all_recovered &= kind == DEPOSIT;
            continue;
        }
        buffer.clear();
        let actual = recovered(&mut buffer, transaction, it.answer);
        let Some(actual) = actual else {
            let finding = format!("the signature of transaction {position} is invalid");
            return refuse(Check::Senders, finding);
        };
        if actual != transaction.from {
            let (actual, given) = (hex(&actual), hex(&transaction.from));
            let finding = format!("transaction {position} is signed by {actual}, not by {given}");
            return refuse(Check::Senders, finding);
        }
    }
    Ok(all_recovered)
}

/// Return the address that signed a transaction; `None` if its signature is missing or invalid.
fn recovered(buffer: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Option<Address> {
    let payload: Result<_, Unencodable> = rlp::envelope(buffer, kind_of(it), |out| {
        encoding::signing_payload(out, it, answer)
    });
    let digest = keccak(&buffer[payload.ok()?]);
    let mut parts = [0; 64];
    parts[..32].copy_from_slice(&it.r?);
    parts[32..].copy_from_slice(&it.s?);
    let signature = RecoverableSignature::from_compact(&parts, recovery_id(it)?).ok()?;
    let key = signature.recover_ecdsa(Message::from_digest(digest)).ok()?;
    keccak(&key.serialize_uncompressed()[1..])
        .last_chunk()
        .copied()
}

/// Return which of the two keys that match the signature is the signer's.
fn recovery_id(it: &Transaction) -> Option<RecoveryId> {
    let v = it.v.or(it.y_parity)?;
    let parity = match kind_of(it) {
        LEGACY if v >= PROTECTED => (v - PROTECTED) % 2,
        LEGACY => v.checked_sub(UNPROTECTED)?,
        _ => v,
    };
    match parity {
        0 => Some(RecoveryId::Zero),
        1 => Some(RecoveryId::One),
        _ => None,
    }
}
