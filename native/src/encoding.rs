//! Canonical encodings of the contents of a block: transactions, receipts, withdrawals.
//!
//! These are the values in the tries whose roots are in the header. The functions append the fields
//! of one object; the caller makes them a list, prefixed with the type (see `rlp::envelope`). All
//! receipt types seen so far, on any chain, have the same encoding.

use std::borrow::Cow;

use crate::bloom;
use crate::model::{
    AccessList, Answer, AuthorizationList, Log, Receipt, Slice, Transaction, U256, Withdrawal,
};
use crate::rlp;

pub const LEGACY: u8 = 0x00;
pub const DYNAMIC: u8 = 0x02;
pub const BLOB: u8 = 0x03;
pub const SET_CODE: u8 = 0x04;
/// A transaction that Optimism and other OP Stack chains derive from their parent chain.
pub const DEPOSIT: u8 = 0x7e;
pub const ARBITRUM_INTERNAL: u8 = 0x6a;
const ACCESS_LIST: u8 = 0x01;

/// From this value on, `v` of a legacy transaction contains the chain id (EIP-155).
pub const PROTECTED: u64 = 35;

/// Why an object cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unencodable {
    /// The encoding is not public, or the node does not return all fields of it: the object cannot
    /// be proven, but the node is not at fault.
    Unknown,
    /// A field is missing or malformed; a clause such as "a receipt has neither …".
    Invalid(Cow<'static, str>),
}

pub type Encoded = Result<(), Unencodable>;

/// Append the fields of a transaction for the transactions trie.
pub fn transaction(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    unsigned(out, it, answer)?;
    if !matches!(kind_of(it), DEPOSIT | ARBITRUM_INTERNAL) {
        rlp::number(out, required(it.v.or(it.y_parity), "v")?);
        rlp::big_number(out, &required(it.r, "r")?);
        rlp::big_number(out, &required(it.s, "s")?);
    }
    Ok(())
}

/// Append the fields that the sender of a transaction signed.
pub fn signing_payload(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    unsigned(out, it, answer)?;
    if kind_of(it) == LEGACY {
        let v = required(it.v.or(it.y_parity), "v")?;
        if v >= PROTECTED {
            rlp::number(out, (v - PROTECTED) / 2);
            out.extend_from_slice(&[rlp::EMPTY_STRING, rlp::EMPTY_STRING]);
        }
    }
    Ok(())
}

/// The type of a transaction; old nodes omit that of legacy ones.
pub fn kind_of(it: &Transaction) -> u8 {
    it.kind.unwrap_or(LEGACY)
}

/// Whether transactions of a type have a signature that is known.
pub fn is_signed(kind: u8) -> bool {
    kind <= SET_CODE
}

/// Append the fields of a transaction before its signature.
fn unsigned(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    match kind_of(it) {
        LEGACY => {
            rlp::number(out, it.nonce);
            rlp::big_number(out, &required(it.gas_price, "gasPrice")?);
            call(out, it, answer)
        }
        ACCESS_LIST => {
            rlp::big_number(out, &required(it.chain_id, "chainId")?);
            rlp::number(out, it.nonce);
            rlp::big_number(out, &required(it.gas_price, "gasPrice")?);
            call(out, it, answer)?;
            access_list(out, it.access_list.as_ref());
            Ok(())
        }
        DYNAMIC => dynamic(out, it, answer),
        BLOB => {
            dynamic(out, it, answer)?;
            rlp::big_number(out, &required(it.max_fee_per_blob_gas, "maxFeePerBlobGas")?);
            rlp::words(out, it.blob_versioned_hashes.as_deref().unwrap_or_default());
            Ok(())
        }
        SET_CODE => {
            dynamic(out, it, answer)?;
            authorization_list(out, it.authorization_list.as_ref());
            Ok(())
        }
        ARBITRUM_INTERNAL => {
            rlp::big_number(out, &required(it.chain_id, "chainId")?);
            input(out, it.input, answer)
        }
        DEPOSIT => deposit(out, it, answer),
        _ => Err(Unencodable::Unknown),
    }
}

fn dynamic(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    rlp::big_number(out, &required(it.chain_id, "chainId")?);
    rlp::number(out, it.nonce);
    rlp::big_number(
        out,
        &required(it.max_priority_fee_per_gas, "maxPriorityFeePerGas")?,
    );
    rlp::big_number(out, &required(it.max_fee_per_gas, "maxFeePerGas")?);
    call(out, it, answer)?;
    access_list(out, it.access_list.as_ref());
    Ok(())
}

fn deposit(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    rlp::word(out, &required(it.source_hash, "sourceHash")?);
    rlp::address(out, &it.from);
    recipient(out, it);
    rlp::big_number(out, &it.mint.unwrap_or_default());
    rlp::big_number(out, &required(it.value, "value")?);
    rlp::number(out, it.gas);
    rlp::number(out, u64::from(it.is_system_tx.unwrap_or_default()));
    input(out, it.input, answer)
}

/// Append the fields that say what a transaction does.
fn call(out: &mut Vec<u8>, it: &Transaction, answer: &Answer) -> Encoded {
    rlp::number(out, it.gas);
    recipient(out, it);
    rlp::big_number(out, &required(it.value, "value")?);
    input(out, it.input, answer)
}

/// Append the recipient, which is empty if the transaction creates a contract.
fn recipient(out: &mut Vec<u8>, it: &Transaction) {
    match &it.to {
        Some(to) => rlp::address(out, to),
        None => out.push(rlp::EMPTY_STRING),
    }
}

fn input(out: &mut Vec<u8>, field: Option<Slice>, answer: &Answer) -> Encoded {
    rlp::string(out, answer.bytes(required(field, "input")?));
    Ok(())
}

fn access_list(out: &mut Vec<u8>, field: Option<&AccessList>) {
    let entries = field.map_or(&[][..], |it| &it.entries);
    let sizes = entries.iter().map(|it| entry_size(it.storage_keys.len()));
    rlp::list_head(out, sizes.map(rlp::sized).sum());
    for entry in entries {
        rlp::list_head(out, entry_size(entry.storage_keys.len()));
        rlp::address(out, &entry.address);
        rlp::words(out, &entry.storage_keys);
    }
}

fn entry_size(keys: usize) -> usize {
    rlp::ADDRESS_SIZE + rlp::sized(keys * rlp::WORD_SIZE)
}

fn authorization_list(out: &mut Vec<u8>, field: Option<&AuthorizationList>) {
    let entries = field.map_or(&[][..], |it| &it.entries);
    rlp::list(out, |out| {
        for entry in entries {
            rlp::list(out, |out| {
                rlp::big_number(out, &entry.chain_id);
                rlp::address(out, &entry.address);
                rlp::number(out, entry.nonce);
                rlp::number(out, entry.parity);
                rlp::big_number(out, &entry.r);
                rlp::big_number(out, &entry.s);
            });
        }
    });
}

/// Append the fields of a receipt for the receipts trie.
pub fn receipt(out: &mut Vec<u8>, it: &Receipt, answer: &Answer) -> Encoded {
    let logs = answer.logs_of(it);
    outcome(out, it)?;
    rlp::number(out, it.cumulative_gas_used);
    match &it.logs_bloom {
        Some(claimed) => rlp::bloom(out, claimed),
        None => rlp::bloom(out, &bloom::of_logs(logs)),
    }
    rlp::list_head(
        out,
        logs.iter().map(|it| rlp::sized(log_size(it, answer))).sum(),
    );
    for each in logs {
        log(out, each, answer);
    }
    if it.kind == Some(DEPOSIT)
        && let Some(version) = it.deposit_receipt_version
    {
        rlp::number(out, it.deposit_nonce.unwrap_or_default());
        rlp::number(out, version);
    }
    Ok(())
}

/// Append the status; before Byzantium, the state root after the transaction instead.
fn outcome(out: &mut Vec<u8>, it: &Receipt) -> Encoded {
    match (it.status, &it.root) {
        (Some(status), _) => rlp::number(out, status),
        (None, Some(root)) => rlp::word(out, root),
        (None, None) => return invalid("a receipt has neither `status` nor `root`"),
    }
    Ok(())
}

fn log(out: &mut Vec<u8>, it: &Log, answer: &Answer) {
    rlp::list_head(out, log_size(it, answer));
    rlp::address(out, &it.address);
    rlp::words(out, it.topics());
    rlp::string(out, answer.bytes(it.data));
}

fn log_size(it: &Log, answer: &Answer) -> usize {
    let topics = rlp::sized(it.topics().len() * rlp::WORD_SIZE);
    rlp::ADDRESS_SIZE + topics + rlp::string_size(answer.bytes(it.data))
}

/// Append the fields of a withdrawal for the withdrawals trie.
pub fn withdrawal(out: &mut Vec<u8>, it: &Withdrawal) {
    rlp::number(out, it.index);
    rlp::number(out, it.validator_index);
    rlp::address(out, &it.address);
    rlp::number(out, it.amount);
}

fn required<T>(field: Option<T>, key: &str) -> Result<T, Unencodable> {
    field.ok_or_else(|| Unencodable::Invalid(format!("a transaction lacks `{key}`").into()))
}

fn invalid<T>(finding: &'static str) -> Result<T, Unencodable> {
    Err(Unencodable::Invalid(finding.into()))
}

/// The number that a quantity stands for, as 32 bytes.
pub fn big(value: u64) -> U256 {
    let mut bytes = [0; 32];
    bytes[24..].copy_from_slice(&value.to_be_bytes());
    bytes
}
